"""`tenuto event send`: a message for the file's mailbox, engine running or not."""

from __future__ import annotations

from tenuto.app.files import post_message
from tenuto.cli.arguments import read_json
from tenuto.cli.console import say
from tenuto.model.errors import InvalidInput, NotFound
from tenuto.runtime.results import canonical
from tenuto.settings import parse_database


def send_event(url: str | None, name: str, *, key: str, payload: str, event_id: str | None) -> int:
    """Store the message; the oldest wait for (name, key) takes it now or when it opens."""
    database = parse_database(url)
    if database.path is None:
        raise InvalidInput("an event needs a file that another process can open", path="database")
    if not name:
        raise InvalidInput("is empty", path="NAME")
    text = canonical(read_json(payload, what="--payload"), name="payload")
    if not database.path.exists():
        raise NotFound(
            "database", str(database), "run a workflow first, or name the file with --database"
        )
    if post_message(database.path, event=name, key=key, payload=text, event_id=event_id):
        say(f"sent {name} key {key}")
    else:
        say(f"dropped: an event with the id {event_id} was sent before")
    return 0
