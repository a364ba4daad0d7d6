"""Coordinators with their gateways, on one store in this loop, and workers' gateways to them: near, or over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.support.driver import graph_of

from tenuto.adapters.cel import CelEvaluator
from tenuto.adapters.local.dice import SystemDice
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import SqliteEngine
from tenuto.coordinator.commands import Commands, StartRequest
from tenuto.coordinator.coordinator import Coordinator
from tenuto.coordinator.gateway import Gateway
from tenuto.coordinator.graphs import Graphs
from tenuto.coordinator.mailbox import Mailbox
from tenuto.coordinator.recovery import Recovery
from tenuto.coordinator.seats import Seats
from tenuto.coordinator.setting import Setting
from tenuto.coordinator.timers import Timers
from tenuto.dsl.inputs import check_input
from tenuto.model.ids import RunId, WorkerId
from tenuto.model.states import RunState
from tenuto.ports.access import Authorize, everybody
from tenuto.ports.gateway import Beat, Lease, Load, Report, Result, Success, WorkerInfo
from tenuto.rpc.client import RemoteGateway
from tenuto.rpc.server import WorkerServer
from tenuto.runtime.service import Service

LEASE_US = 10_000_000
IDLE = Load(busy=0, capacity=10)

ONE = """
name: one
nodes:
  a: {type: task, task: work, params: {n: "${input.n}"}}
output: "${nodes.a.output}"
"""
TWO = """
name: two
nodes:
  a: {type: task, task: work, params: {n: "${input.n}"}}
  b: {type: task, task: work, needs: a, params: {n: "${nodes.a.output}"}}
output: "${nodes.b.output}"
"""


class Side:
    """One coordinator: a process of its own, as far as it can tell."""

    def __init__(self, engine: SqliteEngine, clock: Any, number: int) -> None:
        ids, dice = Uuid7Ids(), SystemDice(number)
        setting = Setting(
            clock=clock,
            ids=ids,
            dice=dice,
            incarnation=f"server-{number}",
            lease_us=LEASE_US,
            sole=False,
        )
        self.store, self.reads = SqlStore(engine), SqlReads(engine)
        self.seats = Seats()
        recovery = Recovery(self.store, self.seats, setting)
        self.timers = Timers(self.store, recovery, setting)
        coordinator = Coordinator(
            self.store,
            Graphs(self.reads),
            CelEvaluator,
            setting,
            seats=self.seats,
            on_due=self.timers.hint,
        )
        recovery.coordinator = self.timers.coordinator = coordinator
        self.gateway = Gateway(
            coordinator, self.store, self.seats, setting, on_due=self.timers.hint
        )
        self.commands = Commands(
            coordinator, Mailbox(self.store, ids=ids, on_post=self.timers.hint)
        )
        self.services: Sequence[Service] = (coordinator, self.timers, self.gateway)


class Running:
    """Services of a test, each stopped by hand or at the end."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._running: dict[Service, tuple[asyncio.Task[None], asyncio.Event]] = {}

    def start(self, service: Service) -> None:
        stopping = asyncio.Event()
        self._running[service] = (self._group.create_task(service.run(stopping)), stopping)

    async def stop(self, service: Service) -> None:
        """In order."""
        task, stopping = self._running.pop(service)
        stopping.set()
        await task

    async def kill(self, service: Service) -> None:
        task, _ = self._running.pop(service)
        task.cancel()
        await asyncio.wait([task])

    async def end(self) -> None:
        for service in list(self._running)[::-1]:
            await self.kill(service)


class Desk:
    """What a test of the gateway has: workers' gateways, runs, and a clock. `remote`: the gateways are over gRPC."""

    def __init__(self, side: Side, running: Running, clock: Any, *, remote: bool) -> None:
        self.side = side
        self.running = running
        self.clock = clock
        self.remote = remote
        self.server: WorkerServer | None = None

    async def gateway(self, worker: str = "w-1") -> Any:
        """The gateway of that worker."""
        if not self.remote:
            return self.side.gateway
        if self.server is None:
            self.server = await self.serve(self.side)
        return self.connect([f"127.0.0.1:{self.server.port}"])

    async def serve(
        self, side: Side, authorize: Authorize = everybody, **options: Any
    ) -> WorkerServer:
        """Let workers in."""
        server = WorkerServer(
            side.gateway, authorize=authorize, dice=SystemDice(1), lease_us=LEASE_US, **options
        )
        await server.open()
        self.running.start(server)
        return server

    def connect(self, servers: Sequence[str], **options: Any) -> RemoteGateway:
        """A worker's connection to these servers."""
        gateway = RemoteGateway(servers, dice=SystemDice(2), **options)
        self.running.start(gateway)
        return gateway

    async def begin(
        self, text: str = ONE, n: int = 1, input: dict[str, Any] | None = None
    ) -> RunId:
        """Start a run. `input`: `n` alone, if not said otherwise."""
        graph = graph_of(text)
        row = await self.side.commands.deploy(graph)
        request = StartRequest(
            graph_hash=row.hash,
            workflow=row.name,
            version=row.version,
            input=check_input(graph.definition.input_schema, input or {"n": n}),
            vars=graph.definition.vars,
        )
        [started] = await self.side.commands.start([request])
        return started.run_id

    async def state(self, run_id: RunId) -> str:
        """Of a run, as stored."""
        return (await self.side.reads.get_run(run_id)).run.state

    async def until(self, run_id: RunId, state: RunState) -> None:
        """Wait until a run is in that state; it is known to get there."""
        while await self.state(run_id) != state:  # noqa: ASYNC110 - nobody announces it to all
            await asyncio.sleep(0.005)

    async def until_leased(self, run_id: RunId) -> None:
        """Wait until somebody works on a run's only task."""
        while all(row is None for _, row in (await self.side.reads.get_run(run_id)).tasks):  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    async def events(self, run_id: RunId) -> list[str]:
        """The kinds of all events of a run."""
        return [row.kind for row in await self.side.reads.history(run_id)]


@asynccontextmanager
async def a_desk(engine: SqliteEngine, clock: Any, *, remote: bool) -> AsyncIterator[Desk]:
    """A coordinator that runs, on that store. `clock`: a TurnedClock, mostly."""
    async with asyncio.TaskGroup() as group:
        running = Running(group)
        side = Side(engine, clock, 1)
        for service in side.services:
            running.start(service)
        try:
            yield Desk(side, running, clock, remote=remote)
        finally:
            await running.end()


def a_worker(id: str = "w-1", **columns: Any) -> WorkerInfo:
    values: dict[str, Any] = {"queues": ("default",), "names": ("work",), "capacity": 10}
    return WorkerInfo(id=WorkerId(id), **(values | columns))


def beat(lease: Lease, **columns: Any) -> Beat:
    values = {"run_id": lease.run_id, "place": lease.place, "lease_id": lease.lease_id}
    return Beat(**(values | columns))


def report(lease: Lease, result: Result | None = None, **columns: Any) -> Report:
    """How that attempt ended: well, if not said otherwise."""
    values: dict[str, Any] = {
        "run_id": lease.run_id,
        "place": lease.place,
        "attempt": lease.attempt,
        "lease_id": lease.lease_id,
        "result": result or Success(output="1"),
    }
    return Report(**(values | columns))
