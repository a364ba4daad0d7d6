"""Messages put into the mailbox, as a job: pure; the engine runs it. Which wait takes one is decided elsewhere.

All locks of addresses come first and in order, then the rows in the order of their event ids, as in a commit
(`adapters.sql.commit`): so no two of either wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenuto.adapters.sql.dialect import Dialect
from tenuto.adapters.sql.engine import AtOnce, Param, Row, Step, Steps
from tenuto.adapters.sql.rows import message_row, pack, unpack
from tenuto.model.errors import InvalidInput
from tenuto.ports.store import NewMessage

FORGOTTEN_MIN = 100
"""Old messages that a post forgets, if there are so many."""


class Posting:
    """The job of `Store.post`. May be run again from the start. Raises InvalidInput (an address)."""

    def __init__(
        self, texts: Mapping[str, str], dialect: Dialect, messages: Sequence[NewMessage]
    ) -> None:
        for message in messages:
            _check(message)
        rows = sorted(map(message_row, messages), key=by_event_id)
        self._ids = [message.id for message in messages]
        self._moment: Step = (texts["MOMENT"], ())
        addresses = pack([[message.event, message.key] for message in messages])
        lock: Step = (texts["LOCK_ADDRESSES_TOGETHER"], (addresses,))
        self._locks: tuple[Step, ...] = (lock,) if dialect.locks_rows else ()
        self._steps: tuple[Step, ...] = (
            (texts["DELETE_OLD_MESSAGES"], (forgotten(len(rows)),)),
            (texts["POST_MESSAGES"], (pack(rows),)),
            (texts["STORED_MESSAGES"], (pack([[id] for id in self._ids]),)),
        )

    def job(self) -> Steps[list[bool]]:
        """Lock, forget what is old, store; which were new, as they were given."""
        row = yield (*self._locks, *self._steps)
        assert row is not None
        return self._stored(row[0])

    def at_once(self) -> AtOnce[list[bool]] | None:
        """The same as one call; None: an engine within this process has no use for it."""
        if not self._locks:
            return None

        def read(row: Row) -> list[bool]:
            return self._stored(row[1])

        return AtOnce((*self._locks, self._moment, *self._steps), read, self.job)

    def _stored(self, answer: str | None) -> list[bool]:
        stored = {id for (id,) in unpack(answer)}
        return [id in stored for id in self._ids]


def by_event_id(row: Sequence[Param]) -> tuple[str, str]:
    """In which order rows of `message_row` are inserted; of one event id the first counts."""
    return str(row[1]), str(row[5] or "")


def forgotten(posted: int) -> int:
    """How many old messages go where so many come: more, so that a mailbox does not grow for ever."""
    return max(FORGOTTEN_MIN, 2 * posted)


def _check(message: NewMessage) -> None:
    for name, text in (
        ("event", message.event),
        ("key", message.key),
        ("event_id", message.event_id or ""),
    ):
        if "\0" in text or not _is_text(text):
            raise InvalidInput("cannot be stored: it has NUL or half a character", path=name)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
