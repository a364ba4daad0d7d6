"""Who watches runs of this process: waiting for an end, or following events. Told only after a commit; no store."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from tenuto.model.ids import RunId
from tenuto.ports.store import EventRow, RunRow


class Follower:
    """Events of one run as they commit. `closed`: no more will come."""

    __slots__ = ("closed", "events", "wake")

    def __init__(self) -> None:
        self.events: deque[EventRow] = deque()
        self.wake = asyncio.Event()
        self.closed = False


class Watchers:
    """Futures and followers by run."""

    def __init__(self) -> None:
        self._ends: dict[RunId, list[asyncio.Future[RunRow]]] = {}
        self._followers: dict[RunId, list[Follower]] = {}

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

    def fail(self, error: BaseException) -> None:
        """The engine is ending: whoever waits learns why."""
        for futures in self._ends.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)
        self._ends.clear()
        for followers in self._followers.values():
            for follower in followers:
                follower.closed = True
                follower.wake.set()
