"""Several cores over one database in one process, with workers that talk to whichever of them, and accidents.

On SQLite they share one engine, and `Gossip` stands for the news; on PostgreSQL each has connections of its own.

What a cluster is, without its processes: cores know nothing of each other but the store and the news, and any of them
may be killed. Real runners, real leases, real time.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Self, TypeVar

from tests.support.driver import graph_of

from tenuto.adapters.local.dice import SystemDice
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.adapters.sql.dialect import Dialect
from tenuto.adapters.sql.engine import Job, SqlEngine
from tenuto.app.core import Core, assemble
from tenuto.app.database import Opened
from tenuto.coordinator.commands import StartRequest
from tenuto.dsl.inputs import check_input
from tenuto.model.errors import Unavailable
from tenuto.model.ids import RunId, TaskId, WorkerId
from tenuto.ports.gateway import (
    Answer,
    Beat,
    Lease,
    Load,
    Note,
    Report,
    Result,
    Verdict,
    WorkerInfo,
)
from tenuto.ports.news import Topic
from tenuto.ports.reads import RunFilter
from tenuto.runtime.service import serve
from tenuto.views.verify import check_run
from tenuto.worker.runner import Runner

T = TypeVar("T")
LEASE_US = 1_500_000
OPEN = ("pending", "running", "closing")


class Gossip:
    """News between cores of this process: late by a turn of the loop, and lost as often as `lost` says."""

    def __init__(self, lost: Callable[[], bool] = lambda: False) -> None:
        self.lost = lost
        self.told: Counter[Topic] = Counter()
        self._ears: dict[object, Callable[[frozenset[Topic]], None]] = {}

    def join(self) -> Voice:
        return Voice(self)

    def spread(self, voice: object, topic: Topic) -> None:
        self.told[topic] += 1
        for other, heard in list(self._ears.items()):
            if other is not voice and not self.lost():
                asyncio.get_running_loop().call_soon(heard, frozenset({topic}))

    def hear(self, voice: object, heard: Callable[[frozenset[Topic]], None]) -> None:
        self._ears[voice] = heard

    def leave(self, voice: object) -> None:
        self._ears.pop(voice, None)


class Voice:
    """One core's news."""

    name = "news"

    def __init__(self, gossip: Gossip) -> None:
        self._gossip = gossip

    def tell(self, topic: Topic) -> None:
        self._gossip.spread(self, topic)

    def listen(self, heard: Callable[[frozenset[Topic]], None]) -> None:
        self._gossip.hear(self, heard)

    async def run(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self._gossip.leave(self)


class Bug(RuntimeError):
    """What an engine raises whose fate is "bug"."""


class Shaky:
    """A connection to an engine: answers are lost before or after what was asked is done. Closes nothing."""

    def __init__(self, engine: SqlEngine, fate: Callable[[], str] = lambda: "") -> None:
        self._engine = engine
        self.fate = fate
        self.reads = self.writes = 0

    @property
    def dialect(self) -> Dialect:
        return self._engine.dialect

    async def write(self, job: Job[T], *, durable: bool = True) -> T:
        self.writes += 1
        fate = self.fate()
        if fate == "bug":
            raise Bug("a row that makes no sense")
        if fate == "before":
            raise Unavailable("the connection broke before COMMIT")
        done = await self._engine.write(job, durable=durable)
        if fate == "after":
            raise Unavailable("the connection broke at COMMIT")
        return done

    async def read(self, job: Job[T]) -> T:
        self.reads += 1
        fate = self.fate()
        if fate == "bug":
            raise Bug("a row that makes no sense")
        if fate == "before":
            raise Unavailable("the connection broke")
        return await self._engine.read(job)

    def heard(self, now: int) -> None:
        self._engine.heard(now)

    async def close(self) -> None:
        """It is everybody's."""


class Lent:
    """An engine that somebody else closes."""

    def __init__(self, engine: SqlEngine) -> None:
        self._engine = engine
        self.dialect = engine.dialect

    async def write(self, job: Job[T], *, durable: bool = True) -> T:
        return await self._engine.write(job, durable=durable)

    async def read(self, job: Job[T]) -> T:
        return await self._engine.read(job)

    def heard(self, now: int) -> None:
        self._engine.heard(now)

    async def close(self) -> None:
        """It is everybody's."""


class Member:
    """One core and its services."""

    def __init__(self, core: Core, engine: Shaky, close: Callable[[], Awaitable[None]]) -> None:
        self.core = core
        self.engine = engine
        self._close = close
        self.stop = asyncio.Event()
        self.serving = asyncio.create_task(serve(core.services, stop=self.stop, grace_us=5_000_000))

    async def leave(self) -> None:
        self.stop.set()
        await self.serving
        await self._close()

    async def kill(self) -> None:
        """As kill -9: nothing of it is tidied up."""
        self.serving.cancel()
        with suppress(asyncio.CancelledError, ExceptionGroup):
            await self.serving
        await self._close()


@contextmanager
def _said_as_a_server_says_it() -> Iterator[None]:
    """To a worker a server's bug is an outage (`rpc.session`), whichever of its calls meets it."""
    try:
        yield
    except Bug as bug:
        raise Unavailable("the server failed; its log says how") from bug


class Roving:
    """The way of one worker to the cores: each call goes to any of them that lives."""

    def __init__(self, crowd: Crowd, dice: random.Random) -> None:
        self._crowd = crowd
        self._dice = dice
        self._known: set[Member] = set()
        self.info: WorkerInfo | None = None

    async def _any(self) -> Core:
        member = self._dice.choice(self._crowd.members)
        info = self.info
        if info is not None and member not in self._known:
            with _said_as_a_server_says_it():
                await member.core.gateway.register(info)
            self._known.add(member)
        return member.core

    async def register(self, worker: WorkerInfo, held: Sequence[Beat] | None = None) -> None:
        self.info = worker
        core = await self._any()
        with _said_as_a_server_says_it():
            await core.gateway.register(worker, held)

    async def lease(self, worker: WorkerId, free: int) -> Sequence[Lease]:
        core = await self._any()
        try:
            async with asyncio.timeout(0.5):
                return await core.gateway.lease(worker, free)
        except TimeoutError:
            return ()

    async def heartbeat(
        self, worker: WorkerId, beats: Sequence[Beat], load: Load
    ) -> Sequence[Verdict]:
        return await self._patient(lambda core: core.gateway.heartbeat(worker, beats, load))

    async def report(self, worker: WorkerId, reports: Sequence[Report], want: int) -> Answer:
        return await self._patient(lambda core: core.gateway.report(worker, reports, want))

    async def note(self, worker: WorkerId, notes: Sequence[Note]) -> None:
        await self._patient(lambda core: core.gateway.note(worker, notes))

    async def release(self, worker: WorkerId, beats: Sequence[Beat]) -> None:
        await self._patient(lambda core: core.gateway.release(worker, beats))

    async def lose(self, worker: WorkerId, beats: Sequence[Beat]) -> None:
        await self._patient(lambda core: core.gateway.lose(worker, beats))

    async def leave(self, worker: WorkerId) -> None:
        for member in self._crowd.members:
            await member.core.gateway.leave(worker)

    async def _patient(self, ask: Callable[[Core], Awaitable[T]]) -> T:
        """A core that is killed never answers."""
        core = await self._any()
        try:
            async with asyncio.timeout(1):
                with _said_as_a_server_says_it():
                    return await ask(core)
        except TimeoutError:
            raise Unavailable("no answer") from None


class Journal:
    """What was executed: how often each task, and whether one ran twice at a time."""

    def __init__(self, work: Callable[[Lease], Awaitable[Result]]) -> None:
        self.begun: Counter[TaskId] = Counter()
        self.overlaps: list[TaskId] = []
        self._work = work
        self._under_way: set[TaskId] = set()

    async def execute(self, lease: Lease) -> Result:
        task = lease.task_id
        if task in self._under_way:
            self.overlaps.append(task)
        self._under_way.add(task)
        self.begun[task] += 1
        try:
            return await self._work(lease)
        finally:
            self._under_way.discard(task)


class Crowd:
    """Cores and workers that come and go. An async context manager: at its end all leave.

    Args:
        open: opens the database for one core.
        fate: of each call of a store: "" goes well, "before" and "after" lose the answer.
    """

    def __init__(
        self,
        open: Callable[[], Awaitable[Opened]],
        *,
        dice: random.Random,
        gossip: Gossip | None = None,
        fate: Callable[[], str] = lambda: "",
        lanes: int = 2,
    ) -> None:
        self.members: list[Member] = []
        self.gossip = Gossip() if gossip is None else gossip
        self.dice = dice
        self._open = open
        self._fate = fate
        self._lanes = lanes
        self._ids = Uuid7Ids()
        self._workers: dict[asyncio.Task[None], asyncio.Event] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.calm()
        for worker, stopping in list(self._workers.items()):
            stopping.set()
            await asyncio.wait([worker], timeout=10)
        for member in self.members:
            await member.leave()

    def calm(self) -> None:
        """No more accidents."""
        for member in self.members:
            member.engine.fate = lambda: ""
        self.gossip.lost = lambda: False

    async def join(self) -> Member:
        """One more core."""
        opened = await self._open()
        close, engine = opened.engine.close, Shaky(opened.engine, self._fate)
        opened = replace(opened, engine=engine)
        if opened.sole:
            news = self.gossip.join()
            opened = replace(opened, sole=False, news=news, services=(news,))
        core = assemble(
            opened,
            lease_us=LEASE_US,
            lanes=self._lanes,
            ids=self._ids,
            dice=SystemDice(self.dice.randrange(1 << 30)),
        )
        member = Member(core, engine, close)
        self.members.append(member)
        return member

    async def kill(self, member: Member) -> None:
        self.members.remove(member)
        await member.kill()

    def hire(
        self, journal: Journal, names: Sequence[str], *, capacity: int = 4
    ) -> asyncio.Task[None]:
        """One more worker."""
        gateway = Roving(self, random.Random(self.dice.random()))
        info = WorkerInfo(
            id=self._ids.worker_id("rover"),
            queues=("default",),
            names=tuple(names),
            capacity=capacity,
        )
        runner = Runner(
            gateway,
            info,
            {"": journal},
            dice=SystemDice(self.dice.randrange(1 << 30)),
            lease_us=LEASE_US,
            drain_us=1_000_000,
        )
        stopping = asyncio.Event()
        worker = asyncio.create_task(runner.run(stopping))
        self._workers[worker] = stopping
        return worker

    async def fire(self, worker: asyncio.Task[None]) -> None:
        """As kill -9: its leases run out."""
        self._workers.pop(worker)
        worker.cancel()
        with suppress(asyncio.CancelledError, ExceptionGroup):
            await worker

    # -- what users do ---------------------------------------------------------------------------------------------

    def any(self) -> Core:
        return self.dice.choice(self.members).core

    async def begin(
        self, text: str, *, key: str | None = None, input: object = None, core: Core | None = None
    ) -> RunId:
        graph, core = graph_of(text), core or self.any()
        row = await core.commands.deploy(graph)
        request = StartRequest(
            graph_hash=row.hash,
            workflow=row.name,
            version=row.version,
            input=check_input(graph.definition.input_schema, {} if input is None else input),
            vars=graph.definition.vars,
            key=key,
        )
        [started] = await core.commands.start([request])
        return started.run_id

    async def open_runs(self) -> Sequence[RunId]:
        rows = await self.any().reads.list_runs(RunFilter(states=OPEN, limit=1_000))
        return [row.run_id for row in rows]

    async def settle(self, within_s: float = 60) -> None:
        """Wait until all runs are over."""
        try:
            async with asyncio.timeout(within_s):
                while await self.open_runs():  # noqa: ASYNC110 - of cores that say nothing to this test
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"never over: {await self._told()}") from None

    async def _told(self) -> list[str]:
        lines = []
        for run_id in (await self.open_runs())[:5]:
            detail = await self.any().reads.get_run(run_id)
            lines.append(
                f"\n{detail.run.workflow} {run_id}: {detail.run.state} paused={detail.run.paused}"
                f" quarantine={detail.run.quarantine} parent={detail.run.parent}"
                f"\n  tasks={[(t.place, t.state, t.attempt, t.held, w and w.worker) for t, w in detail.tasks]}"
                f"\n  timers={detail.timers} waits={detail.waits} ready={detail.ready}"
            )
        return lines

    async def check_folds(self, runs: Iterable[RunId]) -> None:
        """Histories fold to what is stored, of these and of all that they called."""
        reads, left = self.any().reads, list(runs)
        while left:
            run_id = left.pop()
            checked = await check_run(reads, run_id)
            assert not checked.differences, (run_id, checked.differences)
            left += [
                row.run_id for row in await reads.list_runs(RunFilter(parent=run_id, limit=1_000))
            ]

    async def check(self) -> int:
        """Every history folds to what is stored, and nothing is left over. Returns how many runs there are."""
        reads = self.any().reads
        count, before = 0, None
        while page := await reads.list_runs(RunFilter(before=before, limit=500)):
            for row in page:
                checked = await check_run(reads, row.run_id)
                assert not checked.differences, (row.run_id, checked.differences)
                used = Counter(
                    event.data
                    for event in await reads.history(row.run_id)
                    if event.kind == "EventReceived"
                )
                assert all(times == 1 for times in used.values())
                count += 1
            before = page[-1].run_id
        await self._nothing_left()
        return count

    async def _nothing_left(self) -> None:
        """The last notice to a run that has just ended may still be on its way."""
        until = asyncio.get_running_loop().time() + 60
        while True:
            due = await self.any().store.due(limit=100, runs=None)
            if not (due.notices or due.timers):
                return
            assert asyncio.get_running_loop().time() < until, (due.notices, due.timers)
            await asyncio.sleep(0.05)
