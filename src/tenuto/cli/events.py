"""`tenuto event send|list`: a message for a server's or a file's mailbox, engine running or not; and who waits."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from tenuto.cli.arguments import read_json
from tenuto.cli.console import note, say, show_table
from tenuto.cli.door import Door, File, Server, ask, ask_server, changing, holds_nothing
from tenuto.cli.runs import place_of, print_documents
from tenuto.cli.tables import awaited_table
from tenuto.coordinator.mailbox import KEEP_US, Message
from tenuto.dsl.given import read_keep
from tenuto.dsl.storable import check_word
from tenuto.model.errors import InvalidInput, NotFound
from tenuto.model.instants import DAY_US
from tenuto.runtime.results import canonical

if TYPE_CHECKING:
    from tenuto.sdk.remote import Remote

Document = dict[str, Any]


def send_event(
    door: Door,
    name: str,
    *,
    key: str,
    payload: str,
    event_id: str | None,
    keep: str | None = None,
) -> int:
    """Store the message; the oldest wait for (name, key) takes it now or when it opens."""
    if not name:
        raise InvalidInput("is empty", path="NAME")
    if isinstance(door, File) and door.database.path is None and not door.database.is_postgres:
        raise InvalidInput("an event needs a file that another process can open", path="database")
    for word, what in ((name, "NAME"), (key, "--key"), (event_id or "", "--id")):
        check_word(word, what)
    keep_us = read_keep(keep, "--keep")
    value = read_json(payload, what="--payload")
    text = canonical(value, name="payload")
    if isinstance(door, File) and door.url:
        door = Server(door.url)
    # Looked up before: a running engine may hand the event over at once.
    if isinstance(door, Server):

        async def both(remote: Remote) -> tuple[list[Document], bool]:
            waits = (await remote.list_awaited())["items"]
            return waits, await remote.send_event(name, key, value, event_id=event_id, keep=keep)

        awaited, is_new = ask_server(door, both)
    else:
        from tenuto.app.database import post_message

        if door.is_missing:
            raise NotFound(
                "database",
                str(door.database),
                "run a workflow first, or name the file with --database",
            )
        awaited = _awaited(door)
        is_new = post_message(
            door.database, Message(name, key, text, event_id=event_id, keep_us=keep_us)
        )
    if not is_new:
        say(f"dropped: an event with the id {event_id} was sent before")
        return 0
    say(f"sent {name} key {key}")
    if not any((each["event"], each["key"]) == (name, key) for each in awaited):
        note(
            f"nobody waits for it now; it is kept for {keep or f'{KEEP_US // DAY_US} days'}, for the first "
            f"wait that does{_meant(awaited, name, key)}"
        )
    return 0


def send_heartbeat(door: Door, name: str, *, key: str) -> int:
    """Show a sign of life; says how many heard it. Nobody is no error: it may have ended meanwhile."""
    if not name:
        raise InvalidInput("is empty", path="EVENT")
    for word, what in ((name, "EVENT"), (key, "--key")):
        check_word(word, what)
    if isinstance(door, File) and door.is_missing:
        raise NotFound(
            "database", str(door.database), "run a workflow first, or name it with --database"
        )
    door = changing(door)
    if isinstance(door, Server):
        waits = ask_server(door, lambda remote: remote.heartbeat(name, key))
    else:
        from tenuto.app.embedded import Engine

        engine = Engine(door.database, focus=True)
        engine.start()
        try:
            waits = engine.call(engine.commands.heartbeat(name, key)).result()
        finally:
            engine.stop(grace_s=1.0)
    if not waits:
        note(f"nobody waits for {name} key {key}, so nothing has changed")
    say(f"{waits} {'run' if waits == 1 else 'runs'} heard it")
    return 0


def list_events(door: Door, *, event: str | None, output: str) -> int:
    """Print the addresses that runs wait for."""
    awaited = [] if holds_nothing(door) else _awaited(door, event, output)
    if print_documents(awaited, output):
        return 0
    if awaited:
        show_table(awaited_table(awaited))
        return 0
    named = f" {event!r}" if event is not None else ""
    note(f"no run waits for an event{named} in {place_of(door)}")
    return 0


def _awaited(door: Door, event: str | None = None, output: str = "json") -> list[Document]:
    page = ask(door, lambda source: source.list_awaited(event=event), output=output)
    items: list[Document] = page["items"]
    return items


def _meant(awaited: Sequence[Document], name: str, key: str) -> str:
    """What was probably meant: an address that somebody waits for."""
    spelt = {f"{each['event']} key {each['key']}": each for each in awaited}
    close = get_close_matches(f"{name} key {key}", spelt, n=1, cutoff=0.75)
    return f"\na run waits for {close[0]}; did you mean that?" if close else ""
