"""`tenuto event send`: a message for the file's mailbox, engine running or not."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from tenuto.app.files import post_message
from tenuto.cli.arguments import read_json
from tenuto.cli.console import note, say
from tenuto.cli.look import read
from tenuto.coordinator.mailbox import KEEP_US
from tenuto.dsl.storable import check_word
from tenuto.model.errors import InvalidInput, NotFound
from tenuto.model.instants import DAY_US
from tenuto.ports.reads import Awaited
from tenuto.ports.store import DEFAULT_NAMESPACE as NAMESPACE
from tenuto.runtime.results import canonical
from tenuto.settings import parse_database


def send_event(url: str | None, name: str, *, key: str, payload: str, event_id: str | None) -> int:
    """Store the message; the oldest wait for (name, key) takes it now or when it opens."""
    database = parse_database(url)
    if database.path is None:
        raise InvalidInput("an event needs a file that another process can open", path="database")
    if not name:
        raise InvalidInput("is empty", path="NAME")
    for word, what in ((name, "NAME"), (key, "--key"), (event_id or "", "--id")):
        check_word(word, what)
    text = canonical(read_json(payload, what="--payload"), name="payload")
    if not database.path.exists():
        raise NotFound(
            "database", str(database), "run a workflow first, or name the file with --database"
        )
    # Looked up before: a running engine may hand the event over at once.
    awaited = read(database, lambda reads: reads.list_awaited(NAMESPACE))
    if not post_message(database.path, event=name, key=key, payload=text, event_id=event_id):
        say(f"dropped: an event with the id {event_id} was sent before")
        return 0
    say(f"sent {name} key {key}")
    if not any((each.event, each.key) == (name, key) for each in awaited):
        note(
            f"nobody waits for it now; it is kept for {KEEP_US // DAY_US} days, for the first "
            f"wait that does{_meant(awaited, name, key)}"
        )
    return 0


def _meant(awaited: Sequence[Awaited], name: str, key: str) -> str:
    """What was probably meant: an address that somebody waits for."""
    spelt = {f"{each.event} key {each.key}": each for each in awaited}
    close = get_close_matches(f"{name} key {key}", spelt, n=1, cutoff=0.75)
    return f"\na run waits for {close[0]}; did you mean that?" if close else ""
