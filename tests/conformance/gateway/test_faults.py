"""A worker's gateway over a network that fails: whatever is cut, each task is done once, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.support.frames import Fault, Frames, Way
from tests.support.gateways import IDLE, TWO, Desk, Side, a_worker, beat, report
from tests.support.store import TurnedClock

from tenuto.adapters.sqlite.engine import SqliteEngine
from tenuto.model.ids import LeaseId, RunId
from tenuto.model.states import RunState
from tenuto.ports.gateway import Beat, Lease, Verdict
from tenuto.rpc.client import RemoteGateway

OK, STALE = Verdict.OK, Verdict.STALE


@pytest.fixture
async def network(far: Desk) -> AsyncIterator[Frames]:
    """Before a server of the desk's coordinator."""
    server = await far.serve(far.side)
    proxy = Frames(server.port)
    await proxy.start()
    yield proxy
    await proxy.close()


class Worker:
    """Leases, works for no time, reports. `began`: each lease that it worked under."""

    def __init__(self, gateway: RemoteGateway) -> None:
        self.gateway = gateway
        self.info = a_worker()
        self.held: dict[LeaseId, Lease] = {}
        self.began: list[Lease] = []

    def beats(self) -> Sequence[Beat]:
        return [beat(lease) for lease in self.held.values()]

    def take(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            self.held[lease.lease_id] = lease
            self.began.append(lease)

    async def work_off(self, runs: Sequence[RunId], desk: Desk) -> None:
        await self.gateway.register(self.info)
        while not await self._all_over(runs, desk):
            self.take(await self.gateway.lease(self.info.id, 2))
            while self.held:
                await self.gateway.heartbeat(self.info.id, self.beats(), IDLE)
                leases = list(self.held.values())
                answer = await self.gateway.report(
                    self.info.id, [report(lease) for lease in leases], 2
                )
                assert set(answer.verdicts) == {OK}  # whatever was cut, what it does is its own
                for lease in leases:
                    del self.held[lease.lease_id]
                self.take(answer.leases)
        await self.gateway.leave(self.info.id)

    async def _all_over(self, runs: Sequence[RunId], desk: Desk) -> bool:
        return all([await desk.state(run_id) == RunState.SUCCESS for run_id in runs])


def a_connected(desk: Desk, ports: Sequence[int]) -> Worker:
    def held() -> Sequence[Beat]:
        return worker.beats()

    servers = [f"127.0.0.1:{port}" for port in ports]
    worker = Worker(desk.connect(servers, held=held, wait_us=200_000))
    return worker


@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize("way", list(Way))
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
async def test_a_stream_cut_at_any_message_loses_and_doubles_nothing(
    far: Desk, network: Frames, fault: Fault, way: Way, number: int
) -> None:
    """B1, B3, B5, G4: requests that did not come, answers that did not come, requests that come twice."""
    runs = [await far.begin(TWO, n=n) for n in range(3)]
    worker = a_connected(far, [network.port])
    network.strike(fault, way, number)

    async with asyncio.timeout(100):
        await worker.work_off(runs, far)

    assert network.struck.is_set()
    for run_id in runs:
        events = await far.events(run_id)
        assert events.count("AttemptSucceeded") == 2
        assert events.count("LeaseExpired") == 0
        assert [lease.attempt for lease in worker.began if lease.run_id == run_id] == [1, 1]


async def test_a_stream_cut_again_and_again_gets_there(far: Desk, network: Frames) -> None:
    runs = [await far.begin(TWO, n=n) for n in range(20)]
    worker = a_connected(far, [network.port])

    async def cut() -> None:
        for number in (2, 3, 5, 4, 3, 6, 2):
            network.strike(Fault.AFTER if number % 2 else Fault.BEFORE, Way.DOWN, number)
            await network.struck.wait()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        cutting = group.create_task(cut())
        await worker.work_off(runs, far)
        cutting.cancel()

    for run_id in runs:
        assert (await far.events(run_id)).count("AttemptSucceeded") == 2
        assert [lease.attempt for lease in worker.began if lease.run_id == run_id] == [1, 1]


async def test_work_goes_on_at_another_server_when_one_is_killed(
    far: Desk, engine: SqliteEngine, clock: TurnedClock
) -> None:
    """Catalogue A1."""
    first = await far.serve(far.side)
    worker = a_connected(far, [first.port])
    runs = [await far.begin(TWO, n=n) for n in range(4)]
    await worker.gateway.register(worker.info)
    worker.take(await worker.gateway.lease(worker.info.id, 2))
    await far.running.kill(worker.gateway)

    other = Side(engine, clock, 2)
    for service in other.services:
        far.running.start(service)
    second = await far.serve(other)
    moved = a_connected(far, [first.port, second.port])
    moved.take(list(worker.held.values()))
    await moved.gateway.register(moved.info)
    at_first = moved.gateway.server is not None and moved.gateway.server.port == first.port
    await far.running.kill(first if at_first else second)
    for service in (far.side if at_first else other).services:
        await far.running.kill(service)

    async with asyncio.timeout(100):
        await moved.work_off(runs, far)

    for run_id in runs:
        assert (await far.events(run_id)).count("AttemptSucceeded") == 2
        assert [lease.attempt for lease in moved.began if lease.run_id == run_id] == [1, 1]


@pytest.mark.parametrize("fault", [Fault.VANISH, Fault.VANISH_WAY])
@pytest.mark.parametrize("way", list(Way))
async def test_a_dead_connection_is_noticed_before_leases_end(
    far: Desk, network: Frames, fault: Fault, way: Way
) -> None:
    """G1, G12, B7, B8: no end of the connection is ever said, in both directions or in one."""
    server = await far.serve(far.side)
    run_id = await far.begin()
    worker = a_connected(far, [network.port])
    await worker.gateway.register(worker.info)
    worker.take(await worker.gateway.lease(worker.info.id, 1))
    worker.gateway._servers = (f"127.0.0.1:{server.port}",)  # the other address of the same name
    network.strike(fault, way)

    awake = 0

    async def count() -> None:
        """Tenths of a second, but one alone for as long as the machine stands still: the others' time stops, too."""
        nonlocal awake
        while True:
            await asyncio.sleep(0.1)
            awake += 1

    async with asyncio.TaskGroup() as group:
        counting = group.create_task(count())
        verdicts = await worker.gateway.heartbeat(worker.info.id, worker.beats(), IDLE)
        counting.cancel()

    assert list(verdicts) == [OK]
    assert awake < 100  # the length of a lease
    await worker.work_off([run_id], far)
    assert len(worker.began) == 1


async def test_an_answer_that_nobody_waits_for_gives_its_leases_back(far: Desk) -> None:
    server = await far.serve(far.side)
    worker = a_connected(far, [server.port])
    await worker.gateway.register(worker.info)

    for _ in range(10):
        run_id = await far.begin()
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(worker.gateway.lease(worker.info.id, 1))
            call = None
            while not asked.done():
                await asyncio.sleep(0)
                call = next(iter(worker.gateway._calls.values()), call)
                if call is not None and call.answer.done():
                    asked.cancel()  # in the very step in which its answer has come
                    break

        assert asked.cancelled()
        # A call ends by itself after a while, on a slow machine before it is back.
        async with asyncio.timeout(60):
            while not (leases := await worker.gateway.lease(worker.info.id, 1)):
                pass
        [lease] = leases
        assert (lease.run_id, lease.attempt) == (run_id, 1)
        await worker.gateway.report(worker.info.id, [report(lease)], 0)


async def test_a_lease_on_its_way_to_its_task_is_held(far: Desk, network: Frames) -> None:
    """The stream breaks between the answer and the step in which the worker learns of it."""
    await far.begin()
    worker = a_connected(far, [network.port])
    await worker.gateway.register(worker.info)
    gateway = worker.gateway

    async with asyncio.TaskGroup() as group:
        asked = group.create_task(gateway.lease(worker.info.id, 1))
        while not gateway._landing:  # noqa: ASYNC110 - that very step is looked at
            await asyncio.sleep(0)
        held = gateway._holds()

    [lease] = asked.result()
    assert held == (beat(lease),)
    assert gateway._holds() == ()
