"""Leases that a coordinator granted itself: used without being loaded, never against the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.graphs import graph
from tests.support.house import Hand, House, house
from tests.support.store import TurnedClock

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import open_engine
from tenuto.model.graph import Graph
from tenuto.model.ids import RunId
from tenuto.ports.gateway import Beat, Lease, Load
from tenuto.ports.gateway import Verdict as Answered
from tenuto.ports.store import Loaded, LoadRequest


async def begin_with(h: House, hand: Hand, definition: Graph) -> tuple[RunId, Lease]:
    """Start a run whose first task goes to a request that waits for it."""
    leasing = asyncio.ensure_future(hand.lease())
    while not (any(h.seats.parked()) and h.seats.is_dry(hand.id)):  # noqa: ASYNC110  nobody announces it
        await asyncio.sleep(0)
    [run_id] = await h.begin(definition)
    [lease] = await leasing
    return run_id, lease


def beat_of(lease: Lease) -> Beat:
    return Beat(run_id=lease.run_id, place=lease.place, lease_id=lease.lease_id)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[LoadRequest]:
    made: list[LoadRequest] = []
    load: Callable[[SqlStore, LoadRequest], object] = SqlStore.load

    async def counted(self: SqlStore, request: LoadRequest) -> Loaded:
        made.append(request)
        return await load(self, request)  # type: ignore[misc, no-any-return]

    monkeypatch.setattr(SqlStore, "load", counted)
    return made


async def test_a_chain_whose_tasks_come_home_with_reports_loads_nothing(
    loads: list[LoadRequest],
) -> None:
    async with house() as h:
        hand = await h.hire(["a", "b", "c"])
        run_id, lease = await begin_with(h, hand, graph("a -> b; b -> c"))
        for _ in range(2):
            [lease] = (await hand.report(lease, want=1)).leases
        await hand.report(lease)

        assert loads == []
        assert (await h.commands.wait(run_id)).state == "success"


async def test_a_lease_given_back_behind_its_back_is_stale(loads: list[LoadRequest]) -> None:
    async with house() as h:
        hand = await h.hire(["a"])
        _, lease = await begin_with(h, hand, graph("a"))
        await h.store.release(hand.id, [beat_of(lease)], begun=True)
        h.seats.offer()
        [again] = await hand.lease()

        assert (await hand.report(lease)).verdicts == (Answered.STALE,)
        assert loads
        assert (await hand.report(again)).verdicts == (Answered.OK,)


async def test_a_lease_that_heartbeats_made_longer_is_looked_up(loads: list[LoadRequest]) -> None:
    clock = TurnedClock()
    async with house(clock=clock, lease_us=300_000, sole=False) as h:
        hand = await h.hire(["a"])
        run_id, lease = await begin_with(h, hand, graph("a"))
        for _ in range(4):
            clock.turn(100_000)
            await h.gateway.heartbeat(hand.id, [beat_of(lease)], Load(busy=1, capacity=1))
        del loads[:]

        assert (await hand.report(lease)).verdicts == (Answered.OK,)
        assert len(loads) == 1
        assert (await h.commands.wait(run_id)).state == "success"


async def test_a_remembered_lease_of_a_cancelled_task_keeps_its_word() -> None:
    """SEMANTICS F8: a success after the cancel counts, and moves nothing."""
    async with house() as h:
        hand = await h.hire(["a", "b"])
        run_id, lease = await begin_with(h, hand, graph("a -> b"))
        await h.commands.cancel(run_id)
        await hand.report(lease)
        kinds = [row.kind for row in await h.reads.history(run_id)]

        assert kinds == ["RunStarted", "CancelRequested", "AttemptSucceeded"]
        assert (await h.commands.wait(run_id)).state == "cancelled"


@pytest.mark.parametrize("failed", [False, True])
async def test_another_coordinators_cancel_is_found_by_the_guard(
    tmp_path: Path,
    failed: bool,
) -> None:
    clock = SystemClock()
    sqlite = open_engine(str(tmp_path / "t.db"), clock)
    store, reads = SqlStore(sqlite), SqlReads(sqlite)
    try:
        async with (
            house(store=store, reads=reads, clock=clock, sole=False) as one,
            house(store=store, reads=reads, clock=clock, sole=False) as two,
        ):
            hand = await one.hire(["a", "b"])
            run_id, lease = await begin_with(one, hand, graph("a -> b"))
            await two.commands.cancel(run_id)
            answer = await (hand.fail(lease) if failed else hand.report(lease))

            assert answer.verdicts == (Answered.CANCELLED if failed else Answered.OK,)
            assert (await one.commands.wait(run_id)).state == "cancelled"
            assert "b" not in {task.place for task, _ in (await reads.get_run(run_id)).tasks}
    finally:
        await sqlite.close()


async def test_a_pause_leaves_what_is_remembered_true() -> None:
    async with house() as h:
        hand = await h.hire(["a", "b"])
        run_id, lease = await begin_with(h, hand, graph("a -> b"))
        await h.commands.pause(run_id)
        await h.commands.resume(run_id)

        assert (await hand.report(lease)).verdicts == (Answered.OK,)
        await hand.report(*await hand.lease())
        assert (await h.commands.wait(run_id)).state == "success"
