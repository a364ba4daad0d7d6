"""Coordinators as far as dispatch is concerned: a dispatch that runs, workers of its own, and ready tasks to claim."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.support.backing.redis import Redis
from tests.support.store import a_start, a_task, commit, new_run_id

from tenuto.adapters.redis.address import read_address
from tenuto.adapters.redis.dispatch import RedisDispatch
from tenuto.adapters.redis.link import Link
from tenuto.adapters.sql.store import SqlStore
from tenuto.coordinator.dispatching import DatabaseDispatch
from tenuto.model.errors import Unavailable
from tenuto.model.ids import LeaseId, RunId, WorkerId
from tenuto.ports.dispatch import Dispatch, Hint, Want
from tenuto.ports.gateway import WorkerInfo
from tenuto.ports.store import Granted, GrantRequest

Kind = Literal["database", "valkey", "redis", "cluster"]
LEASE_US = 600_000_000
SOON_S = 60.0
"""For what takes a second at most: a limit on hangs, not a promise."""


def url_of(redis: Redis) -> str:
    """The URL that Tenuto is given."""
    return (
        redis.url.removesuffix("/0").replace("redis://", "redis+cluster://")
        if (redis.clustered)
        else redis.url
    )


def a_hint(run_id: RunId, **columns: Any) -> Hint:
    task = a_task(**columns)
    return Hint(
        run_id=run_id, place=task.place, queue=task.queue, name=task.name, priority=task.priority
    )


async def waiting(store: SqlStore, count: int, **columns: Any) -> list[Hint]:
    """Commits runs whose one task is ready; tells nobody."""
    hints: list[Hint] = []
    while len(hints) < count:
        runs = [new_run_id() for _ in range(min(500, count - len(hints)))]
        await commit(store, *(a_start(run_id, a_task(**columns)) for run_id in runs))
        hints += [a_hint(run_id, **columns) for run_id in runs]
    return hints


@dataclass
class Coordinator:
    """One process's dispatch, and a worker that takes what it is told to take."""

    name: str
    store: Any
    make: Callable[[Coordinator], Dispatch]
    queues: tuple[str, ...] = ("default",)
    names: tuple[str, ...] = ("work",)
    granted: list[Granted] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.woken = asyncio.Event()
        self.stopping = asyncio.Event()
        self.dispatch = self.make(self)
        self._task: asyncio.Task[None] | None = None
        self._leases = 0

    async def start(self) -> Coordinator:
        self._task = asyncio.create_task(self.dispatch.run(self.stopping))
        if isinstance(self.dispatch, RedisDispatch):
            await until(lambda: self.dispatch.trouble is None or self.over)
        return self

    @property
    def over(self) -> bool:
        return self._task is not None and self._task.done()

    async def stop(self) -> None:
        """Ends it as a process does that is told to."""
        self.stopping.set()
        if self._task is not None:
            done, _ = await asyncio.wait([self._task], timeout=SOON_S)
            assert done, "it did not stop"
            if not self._task.cancelled():
                self._task.exception()  # whatever it died of is no matter any more
            self._task = None

    async def kill(self) -> BaseException | None:
        """Ends it between any two steps: nothing is given back. Returns what it had died of before."""
        task, self._task = self._task, None
        if task is None:
            return None
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=1)  # once more would disturb its closing
        return None if task.cancelled() else task.exception()

    async def register(self) -> None:
        """The worker is known to the whole cluster."""
        info = WorkerInfo(id=WorkerId(self.name), queues=self.queues, names=self.names, capacity=50)
        await self.store.put_worker(info, self.name, lease_us=60_000_000)

    def want(self, free: int) -> None:
        self.dispatch.want([Want(queues=self.queues, names=self.names, free=free)])

    async def claim(self, count: int) -> Sequence[Granted]:
        self._leases += count
        granted = await self.dispatch.claim(
            GrantRequest(
                worker=WorkerId(self.name),
                queues=self.queues,
                names=self.names,
                lease_ids=tuple(LeaseId(f"{self.name}-{self._leases}-{n}") for n in range(count)),
                lease_us=LEASE_US,
            )
        )
        self.granted += granted
        return granted

    async def take(self, count: int, *, at_once: int = 50, seconds: float = SOON_S) -> list[RunId]:
        """Claim until there were so many, as a gateway does: woken by offers, and by a look now and then."""
        taken = await self.take_for(seconds, count=count, at_once=at_once)
        assert len(taken) == count, f"only {len(taken)} of {count} in {seconds} s"
        return taken

    async def take_for(
        self, seconds: float, *, count: int = 1 << 30, at_once: int = 50
    ) -> list[RunId]:
        """Claim for so long, whatever comes. No claim is cancelled: what it leased would be unknown here."""
        taken: list[RunId] = []
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while len(taken) < count and loop.time() < until:
            self.woken.clear()
            want = min(at_once, count - len(taken))
            self.want(want)
            try:
                granted = await self.claim(want)
            except Unavailable:
                granted = ()
            taken += [each.run_id for each in granted]
            if not granted:
                await self._nap()
        self.want(0)
        return taken

    async def _nap(self) -> None:
        try:
            async with asyncio.timeout(0.1):
                await self.woken.wait()
        except TimeoutError:
            return


async def until(test: Callable[[], bool], seconds: float = SOON_S) -> None:
    """Wait for what has no event of its own."""
    async with asyncio.timeout(seconds):
        while not test():  # noqa: ASYNC110 - it is seen from outside only
            await asyncio.sleep(0.01)


def redis_dispatch(store: Any, url: str, **more: Any) -> Callable[[Coordinator], Dispatch]:
    """Makes the dispatch of a coordinator over this Redis."""

    def make(coordinator: Coordinator) -> Dispatch:
        link = more.pop("link", None) or Link(read_address(url))
        return RedisDispatch(
            store,
            link,
            incarnation=coordinator.name,
            on_offer=coordinator.woken.set,
            draw=random.Random(7).random,
            **more,
        )

    return make


def database_dispatch(store: Any) -> Callable[[Coordinator], Dispatch]:
    return lambda coordinator: DatabaseDispatch(store, coordinator.woken.set)
