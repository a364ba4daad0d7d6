"""What may be said on a worker's stream, and when: the protocol as data. No I/O, no clock, no gRPC.

Theory of operation
-------------------
A stream has two ends that speak whenever they like. Each end is in one state, and moves by every message that it says
or hears, by one table for both: `MOVES[state, word]`. The worker's words open calls, the server's answer them. What
has no row is a breach of the protocol: of the other end when it was heard (`Breach`), of our own when it was to be said
(an assertion, for it is a bug).

    new ──register──▶ registering ──welcome──▶ working ──leave──▶ leaving ──left──▶ over
                                                  │                  ▲
                                                  └──drain──▶ draining

Messages cross: an end may hear what the other said before it knew better. These rows (`CROSSED`) may be heard, but not
said: a `lease` or `register` that comes after `drain` was said, a `drain` that comes after `leave` was said. So both
ends, having heard all that was said, are in the same state, whatever crossed (tests/property/test_streams.py).

Not in the table, because it is about calls and not about states:

* A call's number is positive and not that of another open call; at most `CALLS_MAX` are open.
* An answer is to an open call, and is the one that `ANSWERS` has for its word, or `failed`. `part` leaves it open.
* The first `register` and `leave` are answered by their word or by the end of the stream, never by `failed`.
* `cancel` of a call that is not open is heard and means nothing: its answer was on its way.

A stream may end in any state, without a word; then what both ends had open is open still, and is said again on the next
one. Drawn in docs/states.md by scripts/gen_states.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

CALLS_MAX = 100
"""Open calls of one stream: our own worker has fewer than ten."""


class State(StrEnum):
    """Where a stream is, as one of its ends knows."""

    NEW = "new"
    REGISTERING = "registering"
    WORKING = "working"
    DRAINING = "draining"
    LEAVING = "leaving"
    OVER = "over"


class Word(StrEnum):
    """What a message is: its field's name in `worker.proto`."""

    REGISTER = "register"
    LEASE = "lease"
    CANCEL = "cancel"
    HEARTBEAT = "heartbeat"
    REPORT = "report"
    NOTE = "note"
    RELEASE = "release"
    LOSE = "lose"
    LEAVE = "leave"

    WELCOME = "welcome"
    PART = "part"
    LEASES = "leases"
    VERDICTS = "verdicts"
    REPORTED = "reported"
    DONE = "done"
    FAILED = "failed"
    DRAIN = "drain"
    LEFT = "left"


class Side(StrEnum):
    """An end of a stream."""

    WORKER = "worker"
    SERVER = "server"


ANSWERS: Mapping[Word, Word] = {
    Word.REGISTER: Word.WELCOME,
    Word.LEASE: Word.LEASES,
    Word.HEARTBEAT: Word.VERDICTS,
    Word.REPORT: Word.REPORTED,
    Word.NOTE: Word.DONE,
    Word.RELEASE: Word.DONE,
    Word.LOSE: Word.DONE,
    Word.LEAVE: Word.LEFT,
}
"""Words that open a call, each with the word that answers it."""

_SHORT = (Word.CANCEL, Word.HEARTBEAT, Word.REPORT, Word.NOTE, Word.RELEASE, Word.LOSE)
"""What a worker says as long as it holds something."""
_REPLIES = (Word.PART, Word.LEASES, Word.VERDICTS, Word.REPORTED, Word.DONE, Word.FAILED)

SPOKEN: Mapping[Side, frozenset[Word]] = {
    Side.WORKER: frozenset({*ANSWERS, Word.CANCEL}),
    Side.SERVER: frozenset({*ANSWERS.values(), Word.PART, Word.FAILED, Word.DRAIN}),
}

MOVES: Mapping[tuple[State, Word], State] = {
    (State.NEW, Word.REGISTER): State.REGISTERING,
    (State.REGISTERING, Word.WELCOME): State.WORKING,
    (State.WORKING, Word.REGISTER): State.WORKING,
    (State.WORKING, Word.LEASE): State.WORKING,
    **{(State.WORKING, word): State.WORKING for word in _SHORT},
    (State.WORKING, Word.WELCOME): State.WORKING,
    **{(State.WORKING, word): State.WORKING for word in _REPLIES},
    (State.WORKING, Word.DRAIN): State.DRAINING,
    (State.WORKING, Word.LEAVE): State.LEAVING,
    (State.DRAINING, Word.REGISTER): State.DRAINING,
    (State.DRAINING, Word.LEASE): State.DRAINING,
    **{(State.DRAINING, word): State.DRAINING for word in _SHORT},
    (State.DRAINING, Word.WELCOME): State.DRAINING,
    **{(State.DRAINING, word): State.DRAINING for word in _REPLIES},
    (State.DRAINING, Word.LEAVE): State.LEAVING,
    (State.LEAVING, Word.WELCOME): State.LEAVING,
    **{(State.LEAVING, word): State.LEAVING for word in _REPLIES},
    (State.LEAVING, Word.DRAIN): State.LEAVING,
    (State.LEAVING, Word.LEFT): State.OVER,
}

CROSSED: frozenset[tuple[State, Word]] = frozenset(
    {
        (State.DRAINING, Word.REGISTER),
        (State.DRAINING, Word.LEASE),
        (State.LEAVING, Word.DRAIN),
    }
)
"""Rows that are heard, never said: the other end did not know yet."""


class Breach(Exception):
    """The other end broke the protocol; the text says how."""


class Stream:
    """One end of one stream: its state and the calls that are open.

    Attributes:
        open: the word of each open call, by its number.
    """

    def __init__(self, side: Side) -> None:
        self.state = State.NEW
        self.open: dict[int, Word] = {}
        self._side = side
        self._first: int | None = None

    def may_say(self, word: Word) -> bool:
        """Whether the table lets this end say that now. Nothing about the call's number."""
        key = (self.state, word)
        return word in SPOKEN[self._side] and key in MOVES and key not in CROSSED

    def say(self, word: Word, call: int = 0) -> None:
        """This end says something."""
        assert self.may_say(word), f"{word} is not said while the stream is {self.state}"
        trouble = self._trouble(word, call)
        assert trouble is None, trouble
        self._move(word, call)

    def hear(self, word: Word, call: int = 0) -> None:
        """The other end said something.

        Raises:
            Breach: it must not have; nothing has changed.
        """
        if word in SPOKEN[self._side]:
            raise Breach(f"`{word}` is said by the other side")
        if (self.state, word) not in MOVES:
            raise Breach(f"`{word}` has no meaning while the stream is {self.state}")
        trouble = self._trouble(word, call)
        if trouble is not None:
            raise Breach(trouble)
        self._move(word, call)

    def end(self) -> None:
        """The stream is gone."""
        self.state = State.OVER

    def _trouble(self, word: Word, call: int) -> str | None:
        """What is wrong with the number of a call, if anything."""
        if word in ANSWERS:
            if call < 1:
                return f"`{word}` opens a call, so its number is at least 1, not {call}"
            if call in self.open:
                return f"call {call} is open already, as `{self.open[call]}`"
            if len(self.open) >= CALLS_MAX:
                return f"more than {CALLS_MAX} calls are open"
            return None
        if word is Word.CANCEL:
            about = self.open.get(call, Word.LEASE)
            return (
                None if about is Word.LEASE else f"`cancel` is about a `lease`, not about `{about}`"
            )
        if word is Word.DRAIN:
            return (
                None if call == 0 else f"`drain` belongs to no call, so its number is 0, not {call}"
            )
        opened = self.open.get(call)
        if opened is None:
            return f"`{word}` answers call {call}, which is not open"
        if word is Word.FAILED:
            alone = opened is Word.LEAVE or call == self._first
            return f"`{opened}` is answered by the end of the stream" if alone else None
        if word is Word.PART:
            fits = opened in {Word.LEASE, Word.REPORT}
        else:
            fits = ANSWERS[opened] is word
        return None if fits else f"`{word}` is no answer to `{opened}`"

    def _move(self, word: Word, call: int) -> None:
        if word in ANSWERS:
            if self.state is State.NEW:
                self._first = call
            self.open[call] = word
        elif word not in {Word.CANCEL, Word.DRAIN, Word.PART}:
            del self.open[call]
            if call == self._first:
                self._first = None
        self.state = MOVES[self.state, word]
