"""Leases over several coordinators: nobody owns them, what nobody has is given back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support import crowd as crowd_module
from tests.support.backing.fixtures import postgres, postgres_url  # noqa: F401 - fixtures
from tests.support.crowd import Crowd
from tests.support.crowded import (
    CHAIN,
    SLOW,
    UNDONE,
    Shared,
    opening,
)

from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.app.core import Core
from tenuto.model.errors import Conflict, Unavailable
from tenuto.model.ids import RunId
from tenuto.ports.gateway import (
    Beat,
    Failed,
    Lease,
    Load,
    Report,
    Result,
    Success,
    Verdict,
    WorkerInfo,
)
from tenuto.ports.store import Loaded, LoadRequest, Store


@pytest.fixture(params=["sqlite", "postgres"])
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shared]:
    async with opening(request, tmp_path) as opener:
        yield opener


@pytest.fixture(autouse=True)
def long_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's own hands send no heartbeats: no pause of the machine may end what they hold."""
    monkeypatch.setattr(crowd_module, "LEASE_US", 600_000_000)


DONE = Success(output="1")
FAILURE = Failed(code="Oops", message="on purpose", retryable=False)


class Hands:
    """A worker whose every move is the test's, at any core."""

    def __init__(self, name: str = "hands") -> None:
        self.info = WorkerInfo(
            id=Uuid7Ids().worker_id(name), queues=("default",), names=("work",), capacity=10
        )

    async def lease(self, core: Core, held: Sequence[Beat] | None = None) -> Lease:
        await core.gateway.register(self.info, held)
        async with asyncio.timeout(60):
            [lease] = await core.gateway.lease(self.info.id, 1)
        return lease

    async def lease_now(self, core: Core) -> Sequence[Lease]:
        return await core.gateway.lease(self.info.id, 1)

    async def report(self, core: Core, lease: Lease, result: Result = DONE) -> Verdict:
        report = Report(
            run_id=lease.run_id,
            place=lease.place,
            attempt=lease.attempt,
            lease_id=lease.lease_id,
            result=result,
        )
        async with asyncio.timeout(60):
            return (await core.gateway.report(self.info.id, [report], 0)).verdicts[0]


def beat_of(lease: Lease) -> Beat:
    return Beat(run_id=lease.run_id, place=lease.place, lease_id=lease.lease_id)


async def lost_of(core: Core, run_id: RunId) -> list[tuple[int, int]]:
    """Attempt and losses of the run's open tasks."""
    detail = await core.reads.get_run(run_id)
    return [(task.attempt, task.lost) for task, _ in detail.tasks if task.state == "pending"]


async def test_B5_a_lease_whose_answer_was_lost_comes_again_at_the_next_register(
    shared: Shared,
) -> None:
    """The stream broke; the worker comes to another coordinator and says what it has."""
    async with Crowd(shared, dice=random.Random(9)) as crowd:
        here, there = [(await crowd.join()).core for _ in range(2)]
        kept, lost = await crowd.begin(CHAIN), await crowd.begin(CHAIN)
        hands = Hands()
        held, unseen = await hands.lease(here), await hands.lease(here)
        assert {held.run_id, unseen.run_id} == {kept, lost}

        again = await hands.lease(there, [beat_of(held)])

        assert (again.task_id, again.attempt) == (unseen.task_id, 1)
        assert again.lease_id != unseen.lease_id
        assert await lost_of(here, unseen.run_id) == [(1, 0)]
        assert await hands.report(here, held) is Verdict.OK
        assert await hands.report(here, unseen) is Verdict.STALE
        assert await hands.report(here, again) is Verdict.OK


async def test_D6_a_lease_whose_process_is_dead_is_lost_at_once(shared: Shared) -> None:
    async with Crowd(shared, dice=random.Random(10)) as crowd:
        here, there = [(await crowd.join()).core for _ in range(2)]
        run_id = await crowd.begin(CHAIN)
        hands, other = Hands(), Hands("other")
        lease = await hands.lease(here)

        await there.gateway.lose(other.info.id, [beat_of(lease)])
        assert await lost_of(here, run_id) == [(1, 0)], "it is not the other's to lose"
        await there.gateway.lose(hands.info.id, [beat_of(lease)])
        await there.gateway.lose(hands.info.id, [beat_of(lease)])

        assert await lost_of(here, run_id) == [(2, 1)]
        again = await hands.lease(here)
        assert (again.task_id, again.attempt) == (lease.task_id, 2)
        for _ in range(4):
            await there.gateway.lose(hands.info.id, [beat_of(again)])
            if (await here.reads.get_runs([run_id]))[0].state != "running":
                break
            again = await hands.lease(here)
        [row] = await here.reads.get_runs([run_id])
        assert row.state == "failed", "a task that ends its process each time is dead (B17)"


async def test_D6_a_run_that_closes_does_not_wait_for_the_dead(shared: Shared) -> None:
    async with Crowd(shared, dice=random.Random(11)) as crowd:
        here, there = [(await crowd.join()).core for _ in range(2)]
        run_id = await crowd.begin(UNDONE)
        hands = Hands()
        await hands.report(here, await hands.lease(here))
        lease = await hands.lease(here)
        await there.commands.cancel(run_id)
        assert (await here.reads.get_runs([run_id]))[0].state == "closing"

        await here.gateway.lose(hands.info.id, [beat_of(lease)])

        async with asyncio.timeout(60):  # a tenth of a lease
            undo = await hands.lease(there)
        await hands.report(there, undo)
        assert (await there.commands.wait(run_id)).state == "cancelled"


async def test_D4_a_lease_past_its_end_is_over_though_its_worker_is_here(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another coordinator may have ended it; no heartbeat and no report brings it back. Catalogue B6."""
    monkeypatch.setattr(crowd_module, "LEASE_US", 1_000_000)
    async with Crowd(shared, dice=random.Random(12)) as crowd:
        here = (await crowd.join()).core
        await crowd.begin(CHAIN)
        hands = Hands()
        lease = await hands.lease(here)
        await asyncio.sleep(lease.lease_us / 1_000_000 + 0.05)

        assert await hands.report(here, lease) is Verdict.STALE
        load = Load(busy=1, capacity=1)
        assert await here.gateway.heartbeat(hands.info.id, [beat_of(lease)], load) == (
            Verdict.STALE,
        )
        again = await hands.lease(here)
        assert (again.task_id, again.attempt) == (lease.task_id, 2)


async def test_D4_a_coordinator_that_starts_leaves_the_leases_of_others_alone(
    shared: Shared,
) -> None:
    async with Crowd(shared, dice=random.Random(13)) as crowd:
        first = (await crowd.join()).core
        await crowd.begin(CHAIN)
        hands = Hands()
        lease = await hands.lease(first)
        second = (await crowd.join()).core
        await second.begin()

        assert await hands.report(second, lease) is Verdict.OK


async def test_what_a_grant_leased_whose_answer_was_lost_is_given_back(shared: Shared) -> None:
    async with Crowd(shared, dice=random.Random(14)) as crowd:
        member = await crowd.join()
        run_id = await crowd.begin(CHAIN)
        hands = Hands()
        await member.core.gateway.register(hands.info)
        member.engine.fate = lambda: "after"
        with pytest.raises(Unavailable):
            await hands.lease_now(member.core)
        member.engine.fate = lambda: ""

        lease = await hands.lease(member.core)

        assert (lease.run_id, lease.attempt) == (run_id, 1)
        assert await lost_of(member.core, run_id) == [(1, 0)]


async def test_a_run_that_moves_on_while_it_is_read_in_pieces_is_no_bug(shared: Shared) -> None:
    """Found by families, seed 5: the run was read as failed, its task as retried already; it went into quarantine."""
    async with Crowd(shared, dice=random.Random(16)) as crowd:
        here, there = [(await crowd.join()).core for _ in range(2)]
        run_id = await crowd.begin(CHAIN)
        hands = Hands()
        await hands.report(here, await hands.lease(here), FAILURE)
        assert (await here.commands.wait(run_id)).state == "failed"
        here.coordinator.supply._store = Late(here.store, lambda: there.commands.retry(run_id))

        with pytest.raises(Conflict):
            await here.commands.retry(run_id)

        [row] = await here.reads.get_runs([run_id])
        assert (row.state, row.quarantine) == ("running", None)
        await crowd.check_folds([run_id])


class Late:
    """A store that something overtakes before its first reading."""

    def __init__(self, real: Store, before: Callable[[], Awaitable[object]]) -> None:
        self._real = real
        self._before: Callable[[], Awaitable[object]] | None = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def load(self, request: LoadRequest) -> Loaded:
        before, self._before = self._before, None
        if before is not None:
            await before()
        return await self._real.load(request)


async def test_a_quarantine_that_another_lifted_is_lifted_here(shared: Shared) -> None:
    """What is remembered of the run must not say otherwise for ever."""
    async with Crowd(shared, dice=random.Random(15)) as crowd:
        core = (await crowd.join()).core
        run_id = await crowd.begin(SLOW)
        hands = Hands()
        first, second = await hands.lease(core), await hands.lease(core)
        last = second if first.place == "b" else first
        await core.store.quarantine(run_id, "a bug")
        core.coordinator.forget(run_id)
        await hands.report(core, first if last is second else second)
        await core.store.quarantine(run_id, None)  # as another process does

        await hands.report(core, last)

        async with asyncio.timeout(60):
            assert (await core.commands.wait(run_id)).state == "success"
