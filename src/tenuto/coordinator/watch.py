"""Who watches runs of this process: for an end, for events and notes, or all runs for change. Told only after a commit.

No store: what somebody was not here for is read from there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from tenuto.model.ids import RunId
from tenuto.ports.store import EventRow, NoteRow, RunRow


class Follower:
    """Events of one run as they commit, and notes as they are kept. `closed`: no more will come."""

    __slots__ = ("closed", "events", "wake")

    def __init__(self) -> None:
        self.events: deque[EventRow | NoteRow] = deque()
        self.wake = asyncio.Event()
        self.closed = False


class Listener:
    """Which runs have changed since this was last looked at. `closed`: the engine is ending."""

    __slots__ = ("changed", "closed", "wake")

    def __init__(self) -> None:
        self.changed: dict[RunId, None] = {}
        self.wake = asyncio.Event()
        self.closed = False


class Watchers:
    """Futures and followers by run, and listeners to all."""

    def __init__(self) -> None:
        self._ends: dict[RunId, list[asyncio.Future[RunRow]]] = {}
        self._followers: dict[RunId, list[Follower]] = {}
        self.listeners: list[Listener] = []

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._ends or run_id in self._followers

    def expect_end(self, run_id: RunId) -> asyncio.Future[RunRow]:
        """A future of the run as final. Hand it back by `forget`."""
        future: asyncio.Future[RunRow] = asyncio.get_running_loop().create_future()
        self._ends.setdefault(run_id, []).append(future)
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
            follower.events.extend(events)
            follower.closed = final is not None
            follower.wake.set()
        if final is not None:
            for future in self._ends.pop(run_id, ()):
                if not future.done():
                    future.set_result(final)

    def tell_notes(self, notes: Sequence[NoteRow]) -> None:
        """Notes are kept."""
        for note in notes:
            for follower in self._followers.get(note.run_id, ()):
                follower.events.append(note)
                follower.wake.set()

    def listen(self) -> Listener:
        """Collect changed runs from now on. Hand it back by `unlisten`."""
        listener = Listener()
        self.listeners.append(listener)
        return listener

    def unlisten(self, listener: Listener) -> None:
        """Nobody listens by this any more."""
        if listener in self.listeners:
            self.listeners.remove(listener)

    def tell_changed(self, run_id: RunId) -> None:
        """A commit changed this run."""
        for listener in self.listeners:
            listener.changed[run_id] = None
            listener.wake.set()

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
