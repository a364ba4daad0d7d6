"""A coordinator with everything around it but a worker, on one loop over a real store: the test is the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.support.plain import PlainEvaluator

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.local.dice import SystemDice
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import open_engine
from tenuto.coordinator.commands import Commands, StartRequest
from tenuto.coordinator.coordinator import Coordinator
from tenuto.coordinator.gateway import Gateway
from tenuto.coordinator.graphs import Graphs
from tenuto.coordinator.mailbox import Mailbox
from tenuto.coordinator.recovery import Recovery
from tenuto.coordinator.seats import Seats
from tenuto.coordinator.setting import Focus, Setting
from tenuto.coordinator.timers import Timers
from tenuto.coordinator.watching import Watching
from tenuto.coordinator.work import Evaluators
from tenuto.model.graph import Graph
from tenuto.model.ids import RunId, WorkerId
from tenuto.ports.clock import Clock
from tenuto.ports.gateway import Answer, Failed, Lease, Report, Result, Success, WorkerInfo
from tenuto.ports.news import News, NoNews, Topic
from tenuto.ports.reads import Reads
from tenuto.ports.store import Store
from tenuto.runtime.service import serve

LEASE_US = 10_000_000


@dataclass(slots=True)
class House:
    """All parts, running."""

    store: Store
    reads: Reads
    seats: Seats
    recovery: Recovery
    timers: Timers
    watching: Watching
    coordinator: Coordinator
    gateway: Gateway
    commands: Commands
    ids: Uuid7Ids

    async def begin(self, graph: Graph, count: int = 1, *, key: str | None = None) -> list[RunId]:
        """Deploy a graph and start runs of it in one call."""
        row = await self.commands.deploy(graph)
        request = StartRequest(
            graph_hash=row.hash,
            workflow=row.name,
            version=row.version,
            input="{}",
            vars="{}",
            key=key,
        )
        return [each.run_id for each in await self.commands.start([request] * count)]

    async def hire(self, names: Sequence[str], capacity: int = 10, queue: str = "default") -> Hand:
        """Register a worker."""
        worker = self.ids.worker_id("hand")
        info = WorkerInfo(id=worker, queues=(queue,), names=tuple(names), capacity=capacity)
        await self.gateway.register(info)
        return Hand(self.gateway, worker)


@dataclass(slots=True)
class Hand:
    """A worker whose every move is the test's."""

    gateway: Gateway
    id: WorkerId

    async def lease(self, free: int = 10) -> list[Lease]:
        return list(await self.gateway.lease(self.id, free))

    async def take(self, count: int) -> list[Lease]:
        """Lease exactly so many tasks, however the answers are cut."""
        leases: list[Lease] = []
        while len(leases) < count:
            leases += await self.lease(count - len(leases))
        return leases

    async def report(self, *leases: Lease, result: Result | None = None, want: int = 0) -> Answer:
        result = Success(output="{}") if result is None else result
        return await self.gateway.report(
            self.id, [report_of(lease, result) for lease in leases], want
        )

    async def fail(self, *leases: Lease, code: str = "Oops", retryable: bool = True) -> Answer:
        return await self.report(
            *leases, result=Failed(code=code, message="on purpose", retryable=retryable)
        )


def report_of(lease: Lease, result: Result) -> Report:
    return Report(
        run_id=lease.run_id,
        place=lease.place,
        attempt=lease.attempt,
        lease_id=lease.lease_id,
        result=result,
    )


def _hear(seats: Seats, timers: Timers, watching: Watching, topics: frozenset[Topic]) -> None:
    if Topic.READY in topics:
        seats.offer()
    if Topic.DUE in topics:
        timers.hint(0)
    if Topic.ENDED in topics:
        watching.hear()


@asynccontextmanager
async def house(
    path: Path | str = ":memory:",
    *,
    store: Store | None = None,
    reads: Reads | None = None,
    evaluators: Evaluators = PlainEvaluator,
    clock: Clock | None = None,
    focus: Focus | None = None,
    lanes: int = 1,
    lease_us: int = LEASE_US,
    before_commit: Callable[[], None] | None = None,
    sole: bool = True,
    news: News | None = None,
) -> AsyncIterator[House]:
    """Open a store (or share one that is given) and run the services around it.

    `sole` False: there are others over the store; `news` is what they tell each other.
    """
    clock = SystemClock() if clock is None else clock
    ids, dice = Uuid7Ids(), SystemDice(7)
    news = NoNews() if news is None else news
    sqlite = None
    if store is None:
        sqlite = open_engine(str(path), clock, before_commit=before_commit)
        store, reads = SqlStore(sqlite), SqlReads(sqlite)
    assert reads is not None
    setting = Setting(
        clock=clock,
        ids=ids,
        dice=dice,
        incarnation=ids.worker_id("house"),
        lease_us=lease_us,
        focus=Focus() if focus is None else focus,
        sole=sole,
        news=news,
    )
    seats = Seats()
    recovery = Recovery(store, seats, setting)
    timers = Timers(store, recovery, setting)
    coordinator = Coordinator(
        store,
        Graphs(reads),
        evaluators,
        setting,
        seats=seats,
        on_due=timers.hint,
        lanes=lanes,
    )
    recovery.coordinator = timers.coordinator = coordinator
    gateway = Gateway(coordinator, store, seats, setting, on_due=timers.hint)
    watching = Watching(store, reads, coordinator.watchers, setting)
    expect = coordinator.sharing.expect
    commands = Commands(coordinator, Mailbox(store, ids=ids, on_post=timers.hint, expect=expect))
    news.listen(partial(_hear, seats, timers, watching))
    stop = asyncio.Event()
    serving = asyncio.create_task(
        serve([coordinator, timers, watching, gateway], stop=stop, grace_us=5_000_000)
    )
    try:
        yield House(
            store, reads, seats, recovery, timers, watching, coordinator, gateway, commands, ids
        )
    finally:
        stop.set()
        try:
            await serving
        finally:
            if sqlite is not None:
                await sqlite.close()
