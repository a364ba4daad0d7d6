"""What stands around the engine of a test: its clock, and between coordinator and worker whatever the mocks say.

Everything here runs on the engine's loop. The engine is the real one; three things differ. Leases and attempts are
counted on the hand-turned clock. A worker never gives up a lease by itself: only turning the clock, a cancel or a mock
ends an attempt (recovery spares what its own worker holds, ADR 0007). Executors ask the mocks first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tenuto.app.stage import Parts
from tenuto.model.ids import LeaseId, TaskId, WorkerId
from tenuto.ports.executor import Executor
from tenuto.ports.gateway import (
    Answer,
    Beat,
    Failed,
    Lease,
    Load,
    Note,
    Report,
    Result,
    TaskGateway,
    Verdict,
    WorkerInfo,
)
from tenuto.sdk.typed import plain
from tenuto.testing.clock import HandAlarms, HandClock, datetime_of
from tenuto.testing.faults import (
    Call,
    Calls,
    Ends,
    Hangs,
    Lost,
    Mock,
    Mocks,
    Real,
    params_of,
    workflow_of,
)
from tenuto.views.timeline import node_of
from tenuto.worker.attempts import Gate
from tenuto.worker.calls import failure_of, result_of

_FOREVER_US = 1 << 62


class HandStage:
    """A stage whose clock is turned by hand.

    Attributes:
        calls: every attempt that was begun, in order.
        working: leases under which real work is done; it takes real time.
        hanging: leases under which nothing happens until the clock is turned or somebody says so.
        steps: goes up whenever one of these changes.
    """

    parts: Parts

    def __init__(self, clock: HandClock, *, seed: int, allow_http: bool) -> None:
        self.clock = clock
        self.alarms = HandAlarms(clock)
        self.seed = seed
        self.mocks = Mocks()
        self.calls: list[Call] = []
        self.working: dict[LeaseId, Lease] = {}
        self.hanging: dict[LeaseId, Lease] = {}
        self.lost: set[LeaseId] = set()
        self.steps = 0
        self.changed = asyncio.Event()
        self._allow_http = allow_http

    # -- the port of the engine --------------------------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        return self.mocks.names()

    def gateway(self, gateway: TaskGateway) -> TaskGateway:
        return _Gateway(self, gateway)

    def executors(self, executors: Mapping[str, Executor]) -> Mapping[str, Executor]:
        return {
            name: _GatedExecutor(self, inner) if isinstance(inner, Gate) else _Executor(self, inner)
            for name, inner in executors.items()
        }

    def enter(self, parts: Parts) -> None:
        self.parts = parts

    # -- attempts ----------------------------------------------------------------------------------------------------

    async def execute(self, lease: Lease, inner: Executor) -> Result:
        """One attempt, as its mock says; without one, the work itself."""
        node, task = node_of(lease.place), workflow_of(lease.name)
        mock = self.mocks.find(lease.place, lease.name)
        # A mocked workflow stands for a child run: each is a new attempt of its call.
        number = lease.attempt if mock is None or mock.workflow is None else mock.used + 1
        doing = Real() if mock is None else mock.at(number)
        if mock is not None:
            mock.used += 1
        refused = isinstance(doing, Real) and lease.name == "http" and not self._allow_http
        self.calls.append(
            Call(
                node=node,
                task=task,
                run_id=lease.run_id,
                params=params_of(lease),
                attempt=lease.attempt,
                at=datetime_of(self.clock.now()),
                mocked=not isinstance(doing, Real),
            )
        )
        if refused:
            return _refused(node)
        match doing:
            case Ends():
                return doing.result
            case Calls():
                return await self._busy(lease, self._call(lease, doing))
            case Hangs() | Lost():
                return await self._hang(lease, mock, is_lost=isinstance(doing, Lost))
            case Real():
                return await self._busy(lease, inner.execute(lease))

    async def _busy(self, lease: Lease, work: Coroutine[Any, Any, Result]) -> Result:
        """Work that takes real time, and that whoever waits for the engine waits for."""
        self.working[lease.lease_id] = lease
        self._step()
        try:
            return await work
        finally:
            del self.working[lease.lease_id]
            self._step()

    async def _hang(self, lease: Lease, mock: Mock | None, *, is_lost: bool) -> Result:
        """Until the runner ends it, or a test lets it go."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.hanging[lease.lease_id] = lease
        if is_lost:
            self.lost.add(lease.lease_id)
        elif mock is not None:
            mock.hanging.append(future)
        self._step()
        try:
            return await future
        finally:
            del self.hanging[lease.lease_id]
            if mock is not None and future in mock.hanging:
                mock.hanging.remove(future)
            self._step()

    @staticmethod
    async def _call(lease: Lease, doing: Calls) -> Result:
        """A mock's function, in a thread: it is the user's and may block."""

        def call() -> Result:
            try:
                made = doing.function(params_of(lease))
            except BaseException as error:  # noqa: BLE001 - the executor's boundary
                return failure_of(error)
            return made.result if isinstance(made, Ends) else result_of(made, plain)

        return await asyncio.to_thread(call)

    def _step(self) -> None:
        self.steps += 1
        self.changed.set()


class _Executor:
    """Asks the mocks, then the executor behind."""

    def __init__(self, stage: HandStage, inner: Executor) -> None:
        self._stage, self._inner = stage, inner

    async def execute(self, lease: Lease) -> Result:
        return await self._stage.execute(lease, self._inner)


class _GatedExecutor(_Executor):
    """The same for one whose work may outlive its result."""

    def __init__(self, stage: HandStage, inner: Executor) -> None:
        super().__init__(stage, inner)
        assert isinstance(inner, Gate)
        self._gate: Gate = inner

    def busy(self, task_id: TaskId) -> bool:
        return self._gate.busy(task_id)

    async def until_free(self, task_id: TaskId) -> None:
        await self._gate.until_free(task_id)

    def take_beat(self, task_id: TaskId) -> bool:
        return self._gate.take_beat(task_id)


class _Gateway:
    """The gateway as the worker sees it: leases that it never has to fence, and none of those that a mock lost."""

    def __init__(self, stage: HandStage, inner: TaskGateway) -> None:
        self._stage, self._inner = stage, inner

    async def register(self, worker: WorkerInfo, held: Sequence[Beat] | None = None) -> None:
        await self._inner.register(worker, held)

    async def lease(self, worker: WorkerId, free: int) -> Sequence[Lease]:
        return _unfenced(await self._inner.lease(worker, free))

    async def heartbeat(
        self, worker: WorkerId, beats: Sequence[Beat], load: Load
    ) -> Sequence[Verdict]:
        lost = self._stage.lost
        kept = [beat for beat in beats if beat.lease_id not in lost]
        verdicts = iter(await self._inner.heartbeat(worker, kept, load))
        return [Verdict.STALE if beat.lease_id in lost else next(verdicts) for beat in beats]

    async def note(self, worker: WorkerId, notes: Sequence[Note]) -> None:
        await self._inner.note(worker, notes)

    async def report(self, worker: WorkerId, reports: Sequence[Report], want: int) -> Answer:
        answer = await self._inner.report(worker, reports, want)
        return replace(answer, leases=_unfenced(answer.leases))

    async def release(self, worker: WorkerId, beats: Sequence[Beat]) -> None:
        await self._inner.release(worker, beats)

    async def lose(self, worker: WorkerId, beats: Sequence[Beat]) -> None:
        await self._inner.lose(worker, beats)

    async def leave(self, worker: WorkerId) -> None:
        await self._inner.leave(worker)


def _unfenced(leases: Sequence[Lease]) -> tuple[Lease, ...]:
    return tuple(replace(lease, lease_us=_FOREVER_US) for lease in leases)


def _refused(node: str) -> Failed:
    return Failed(
        code="http_not_mocked",
        message=(
            f"tests send no requests: write env.mock({node!r}, returns=…), or open the engine with"
            " allow_http=True"
        ),
        retryable=False,
    )
