"""Who watches runs of this process: for an end, for events and notes, or all runs for change. Told only after a commit.

No store: what somebody was not here for is read from there. A follower gets each event once and in order: one that
does not come next, since another coordinator decided those before it, is left to be read (`coordinator.watching`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from tenuto.model.ids import RunId
from tenuto.ports.store import EventRow, NoteRow, RunRow

NOTES_MAX = 1_000
"""Notes that a follower knows to have had: those of others are read again and again."""


ENDS_MAX = 10_000
"""Ends told since they were last asked for; of one more it is told twice, if at all."""
NOTE_LATE_US = 2_000_000
"""A note is kept so long after it was said, at most."""


class Follower:
    """Events of one run as they commit, and notes as they are kept. `closed`: no more will come.

    `seq`: of the last event that it has, or that it was told to begin after; None until one of them is known. `since`:
    when it began to follow, by the store's clock, as soon as that is known.
    """

    __slots__ = ("closed", "events", "notes", "seq", "since", "wake")

    def __init__(self) -> None:
        self.events: deque[EventRow | NoteRow] = deque()
        self.notes: dict[NoteRow, None] = {}
        self.wake = asyncio.Event()
        self.closed = False
        self.seq: int | None = None
        self.since: int | None = None

    def take(self, events: Sequence[EventRow]) -> bool:
        """Take what comes next of these, which follow each other. False: there is a gap before them."""
        seq = self.seq
        new = events if seq is None else [event for event in events if event.seq > seq]
        if not new:
            return True
        if seq is not None and new[0].seq != seq + 1:
            return False
        self.events.extend(new)
        self.seq = new[-1].seq
        self.wake.set()
        return True

    def begin_after(self, seq: int, now: int) -> bool:
        """The run was at this event when it began to follow. False: there is a gap behind what it has."""
        self.since = now
        if self.seq is None:
            self.seq = seq
        return self.seq >= seq

    def note(self, note: NoteRow) -> None:
        """Take a note unless it was told before."""
        if note in self.notes:
            return
        self.notes[note] = None
        while len(self.notes) > NOTES_MAX:
            del self.notes[next(iter(self.notes))]
        self.events.append(note)
        self.wake.set()


class Listener:
    """Which runs have changed since this was last looked at. `closed`: the engine is ending.

    `wanted`: whether somebody is there to be told, so that it is worth to look what others have changed.
    """

    __slots__ = ("changed", "closed", "wake", "wanted")

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self.changed: dict[RunId, None] = {}
        self.wake = asyncio.Event()
        self.closed = False
        self.wanted = wanted


class Watchers:
    """Futures and followers by run, and listeners to all."""

    def __init__(self) -> None:
        self._ends: dict[RunId, list[asyncio.Future[RunRow]]] = {}
        self._followers: dict[RunId, list[Follower]] = {}
        self.listeners: list[Listener] = []
        self._ends_here: set[RunId] = set()
        self.awaited = asyncio.Event()
        """Set when somebody begins to wait."""
        self.gap = asyncio.Event()
        """Set when a follower lacks events that the store has."""

    @property
    def runs(self) -> tuple[RunId, ...]:
        """Whose end or events somebody waits for."""
        return tuple(dict.fromkeys((*self._ends, *self._followers)))

    @property
    def followed(self) -> tuple[RunId, ...]:
        """Whose events somebody waits for."""
        return tuple(self._followers)

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._ends or run_id in self._followers

    def expect_end(self, run_id: RunId) -> asyncio.Future[RunRow]:
        """A future of the run as final. Hand it back by `forget`."""
        future: asyncio.Future[RunRow] = asyncio.get_running_loop().create_future()
        self._ends.setdefault(run_id, []).append(future)
        self.awaited.set()
        return future

    def forget(self, run_id: RunId, future: asyncio.Future[RunRow]) -> None:
        """Nobody waits by this future any more."""
        waiting = self._ends.get(run_id)
        if waiting is not None and future in waiting:
            waiting.remove(future)
            if not waiting:
                del self._ends[run_id]

    def follow(self, run_id: RunId) -> Follower:
        """Collect events from now on. Hand it back by `unfollow`."""
        follower = Follower()
        self._followers.setdefault(run_id, []).append(follower)
        self.awaited.set()
        return follower

    def unfollow(self, run_id: RunId, follower: Follower) -> None:
        """Nobody follows by this any more."""
        following = self._followers.get(run_id)
        if following is not None and follower in following:
            following.remove(follower)
            if not following:
                del self._followers[run_id]

    def tell(self, run_id: RunId, events: Sequence[EventRow], final: RunRow | None) -> None:
        """Events of this run are committed; `final`: the run as its end left it."""
        for follower in self._followers.get(run_id, ()):
            if not follower.take(events):
                self.gap.set()  # the end is told again with what is lacking
                continue
            follower.closed = follower.closed or final is not None
            follower.wake.set()
        if final is not None:
            for future in self._ends.pop(run_id, ()):
                if not future.done():
                    future.set_result(final)

    def behind(self, run_id: RunId, seq: int) -> int | None:
        """After which event somebody lacks what the store has of this run up to `seq`; None: nobody does."""
        known = [follower.seq for follower in self._followers.get(run_id, ())]
        oldest = min((each for each in known if each is not None), default=None)
        return oldest if oldest is not None and oldest < seq else None

    def tell_notes(self, notes: Sequence[NoteRow], *, read: bool = False) -> None:
        """Notes are kept. `read`: some time ago, perhaps before anybody followed."""
        for note in notes:
            for follower in self._followers.get(note.run_id, ()):
                if not read or (
                    follower.since is not None and note.at > follower.since - NOTE_LATE_US
                ):
                    follower.note(note)

    def listen(self, wanted: Callable[[], bool] = lambda: True) -> Listener:
        """Collect changed runs from now on. Hand it back by `unlisten`. `wanted`: see `Listener`."""
        listener = Listener(wanted)
        self.listeners.append(listener)
        self.awaited.set()
        return listener

    def unlisten(self, listener: Listener) -> None:
        """Nobody listens by this any more."""
        if listener in self.listeners:
            self.listeners.remove(listener)

    def tell_changed(self, run_id: RunId, *, ended: bool = False) -> None:
        """A commit changed this run, and perhaps ended it."""
        if ended and len(self._ends_here) < ENDS_MAX:
            self._ends_here.add(run_id)
        for listener in self.listeners:
            listener.changed[run_id] = None
            listener.wake.set()

    def take_ends(self) -> set[RunId]:
        """Runs whose end was told to listeners since this was last asked."""
        ends, self._ends_here = self._ends_here, set()
        return ends

    def fail(self, error: BaseException) -> None:
        """The engine is ending: whoever waits learns why."""
        for futures in self._ends.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)
        self._ends.clear()
        for listener in self.listeners:
            listener.closed = True
            listener.wake.set()
        for followers in self._followers.values():
            for follower in followers:
                follower.closed = True
                follower.wake.set()
