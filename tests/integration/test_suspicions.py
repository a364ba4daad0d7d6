"""What a sceptic suspected: clocks that jump, answers that are lost, calls that go away, very many of something."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.graphs import graph, key, value
from tests.support.house import House, house
from tests.support.plain import PlainEvaluator
from tests.support.store import TurnedClock

from tenuto.adapters.local.dice import SystemDice
from tenuto.coordinator.commands import StartRequest
from tenuto.model.definition import Wait, WaitForEvent, Work
from tenuto.model.errors import InvariantViolated, Unavailable
from tenuto.model.expressions import (
    Expression,
    Fault,
    Listed,
    Missing,
    Named,
    Number,
    Scope,
    Verdict,
)
from tenuto.model.ids import Place, RunId
from tenuto.model.payload import Text
from tenuto.model.retry import RetryPolicy
from tenuto.ports.executor import Executor
from tenuto.ports.gateway import Lease, Result, Success, WorkerInfo
from tenuto.ports.gateway import Verdict as Answered
from tenuto.ports.store import Change, Committed, LeaseRow, LoadRequest, Store
from tenuto.worker.runner import Runner

HOUR = 3_600_000_000
LEASE_US = 3_000_000
"""So short that its heartbeats come soon, so long that no pause of the machine ends a real worker's lease."""


async def kinds(h: House, run_id: RunId) -> list[str]:
    return [row.kind for row in await h.reads.history(run_id)]


# -- clocks that jump -------------------------------------------------------------------------------------------------


class Slow:
    """An executor whose work ends when the test says so."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.finish = asyncio.Event()
        self.running = self.most = self.stopped = 0

    async def execute(self, lease: Lease) -> Result:
        self.running += 1
        self.most = max(self.most, self.running)
        self.begun.set()
        try:
            await self.finish.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            await asyncio.sleep(0.02)  # outside, a call takes its time to break off
            raise
        finally:
            self.running -= 1
        return Success(output="{}")


async def working(h: House, slow: Executor, stopping: asyncio.Event) -> None:
    """A real worker, with its heartbeats and fences."""
    info = WorkerInfo(id=h.ids.worker_id("real"), queues=("default",), names=("a", "b"), capacity=4)
    runner = Runner(h.gateway, info, {"": slow}, dice=SystemDice(1), lease_us=LEASE_US, drain_us=0)
    h.recovery.holds = runner.holds
    await runner.run(stopping)


async def lease_of(h: House, run_id: RunId, place: str = "a") -> LeaseRow | None:
    at = (run_id, Place(place))
    return (await h.store.load(LoadRequest(tasks=(at,)))).tasks[at][1]


async def test_work_goes_on_where_it_was_after_a_laptops_sleep() -> None:
    """Catalogue K13."""
    clock, slow, stopping = TurnedClock(), Slow(), asyncio.Event()
    async with house(clock=clock, lease_us=LEASE_US) as h, asyncio.TaskGroup() as group:
        group.create_task(working(h, slow, stopping))
        [run_id] = await h.begin(graph("a"))
        await slow.begun.wait()
        clock.turn(HOUR)
        while (lease := await lease_of(h, run_id)) is None or lease.lease_until <= clock.at:
            assert not slow.stopped
            await asyncio.sleep(0.01)
        slow.finish.set()

        assert (await h.commands.wait(run_id)).state == "success"
        assert await kinds(h, run_id) == ["RunStarted", "AttemptSucceeded"]
        assert (slow.most, slow.stopped) == (1, 0)
        stopping.set()


async def test_an_attempt_that_timed_out_in_a_sleep_ends_before_the_next_one_begins() -> None:
    definition = graph(
        "a",
        details={
            "a": Work(
                "a",
                value("{}"),
                timeout_us=LEASE_US,
                retry=RetryPolicy(max_attempts=2, initial_us=0),
            )
        },
    )
    clock, slow, stopping = TurnedClock(), Slow(), asyncio.Event()
    async with house(clock=clock, lease_us=LEASE_US) as h, asyncio.TaskGroup() as group:
        group.create_task(working(h, slow, stopping))
        [run_id] = await h.begin(definition)
        await slow.begun.wait()
        slow.begun.clear()
        clock.turn(HOUR)
        h.timers.hint(0)
        await slow.begun.wait()
        slow.finish.set()

        assert (await h.commands.wait(run_id)).state == "success"
        assert await kinds(h, run_id) == [
            "RunStarted",
            "DeadlinePassed",
            "TimerFired",
            "AttemptSucceeded",
        ]
        assert (slow.most, slow.stopped) == (1, 1)
        stopping.set()


# -- answers that are lost --------------------------------------------------------------------------------------------


class Deaf:
    """A store whose next commit is done, and whose answer is lost."""

    def __init__(self, real: Store) -> None:
        self.real, self.armed = real, True

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    async def commit(self, changes: Sequence[Change], *, lease_us: int) -> Committed:
        committed = await self.real.commit(changes, lease_us=lease_us)
        if self.armed:
            self.armed = False
            raise Unavailable("the answer was lost")
        return committed


def deafen(h: House) -> None:
    for lane in h.coordinator._lanes:
        lane._store = Deaf(h.store)  # type: ignore[assignment]


async def test_whoever_waits_learns_of_an_end_whose_answer_was_lost() -> None:
    async with house() as h, asyncio.TaskGroup() as group:
        hand = await h.hire(["a"])
        [run_id] = await h.begin(graph("a"))
        waiting = group.create_task(h.commands.wait(run_id))
        [lease] = await hand.lease()
        deafen(h)
        with pytest.raises(Unavailable):
            await hand.report(lease)

        assert (await hand.report(lease)).verdicts == (Answered.OK,)
        assert (await waiting).state == "success"


async def test_a_lease_handed_out_in_a_commit_whose_answer_was_lost_is_given_back() -> None:
    definition = graph("a -> b")
    async with house() as h:
        hand = await h.hire(["a", "b"])
        [run_id] = await h.begin(definition)
        [lease] = await hand.lease()
        deafen(h)
        with pytest.raises(Unavailable):
            await hand.report(lease, want=1)
        assert (await hand.report(lease, want=1)).leases == ()
        [again] = await hand.lease()
        await hand.report(again)

        assert (again.place, again.attempt) == ("b", 1)
        assert (await h.commands.wait(run_id)).state == "success"


async def test_runs_whose_start_was_not_answered_are_driven_all_the_same() -> None:
    async with house() as h, asyncio.TaskGroup() as group:
        hand = await h.hire(["a"])
        leasing = group.create_task(hand.lease())
        await asyncio.sleep(0)
        h.seats._parked.clear()  # so that nothing is eager
        deafen(h)
        with pytest.raises(Unavailable):
            await h.begin(graph("a"))
        leasing.cancel()
        [lease] = await hand.lease()

        assert (await hand.report(lease)).verdicts == (Answered.OK,)
        assert (await h.commands.wait(lease.run_id)).state == "success"


# -- very many --------------------------------------------------------------------------------------------------------


async def test_runs_of_more_definitions_than_are_remembered_start_in_one_call() -> None:
    async with house() as h:
        requests = []
        for number in range(300):
            row = await h.commands.deploy(graph("a", name=f"w{number}"))
            requests.append(
                StartRequest(
                    graph_hash=row.hash,
                    workflow=row.name,
                    version=row.version,
                    input="{}",
                    vars="{}",
                )
            )
        assert len({request.graph_hash for request in requests}) > 256
        started = await h.commands.start(requests)

        assert len({each.run_id for each in started}) == 300
        for each in started:
            h.coordinator.forget(each.run_id)
        hand = await h.hire(["a"], capacity=300)
        await hand.report(*await hand.take(300))
        assert await h.reads.count_runs("default") == {"success": 300}


async def test_a_worker_of_all_queues_serves_more_than_a_statement_has_room_for() -> None:
    names = [f"n{number}" for number in range(1_200)]
    details = {name: Work("a", value("{}"), queue=f"q-{name}") for name in names}
    async with house() as h:
        [run_id] = await h.begin(graph("; ".join(names), details=details))
        hand = await h.hire(["a"], capacity=2_000, queue="*")
        leases = await hand.take(len(names))
        await hand.report(*leases)

        assert {lease.place for lease in leases} == set(names)
        assert (await h.commands.wait(run_id)).state == "success"


async def test_ten_thousand_timers_due_at_once_all_fire() -> None:
    """Catalogue H1."""
    clock = TurnedClock()
    definition = graph("w", types={"w": "wait"}, details={"w": Wait(for_us=HOUR)})
    async with house(clock=clock) as h:
        runs = await h.begin(definition, 10_000)
        clock.turn(HOUR)
        h.timers.hint(0)
        for run_id in runs:
            assert (await h.commands.wait(run_id)).state == "success"


# -- quarantine -------------------------------------------------------------------------------------------------------


class Exploding(PlainEvaluator):
    """Breaks at the text `"boom"` while it is armed."""

    armed = True

    def evaluate(
        self, expression: Expression, scope: Scope
    ) -> Verdict | Text | Named | Number | Listed | Fault | Missing:
        if expression.text == '"boom"' and Exploding.armed:
            raise RuntimeError("a bug")
        return super().evaluate(expression, scope)


@pytest.fixture
def exploding() -> type[Exploding]:
    Exploding.armed = True
    return Exploding


async def test_nothing_of_a_run_in_quarantine_is_handed_out_with_a_report(
    exploding: type[Exploding],
) -> None:
    definition = graph("a -> x; b -> y", details={"x": Work("x", value('"boom"'))})
    async with house(evaluators=exploding) as h:
        hand = await h.hire(["a", "b", "x", "y"])
        [bad] = await h.begin(definition)
        poison, other = sorted(await hand.take(2), key=lambda lease: lease.place)
        await hand.report(poison)
        answer = await hand.report(other, want=1)

        assert (answer.verdicts, answer.leases) == ((Answered.OK,), ())
        exploding.armed = False
        await h.commands.resume(bad)
        [lease] = await hand.lease(1)
        assert lease.place == "y"


async def test_a_row_that_cannot_be_read_stops_its_own_run_only(tmp_path: Path) -> None:
    """Catalogue C5."""
    path = tmp_path / "t.db"
    async with house(path) as h:
        hand = await h.hire(["a"])
        bad, *good = await h.begin(graph("a"), 9)
        leases = await hand.take(9)
        for run_id in (bad, *good):
            h.coordinator.forget(run_id)
        with closing(sqlite3.connect(path)) as damage:
            damage.execute("UPDATE run_states SET rest = '{' WHERE run_id = ?", (bad,))
            damage.commit()
        answer = await hand.report(*leases)

        assert {
            lease.run_id: verdict for lease, verdict in zip(leases, answer.verdicts, strict=True)
        } == dict.fromkeys(good, Answered.OK) | {bad: Answered.STALE}
        with pytest.raises(InvariantViolated):
            await h.commands.cancel(bad)
        assert await h.reads.count_runs("default") == {"success": 8, "running": 1}


class Held:
    """A store whose commits wait for the test."""

    def __init__(self, real: Store) -> None:
        self.real, self.arrived, self.go = real, asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    async def commit(self, changes: Sequence[Change], *, lease_us: int) -> Committed:
        self.arrived.set()
        await self.go.wait()
        return await self.real.commit(changes, lease_us=lease_us)


async def test_a_run_resumed_while_it_is_decided_leaves_its_quarantine(
    exploding: type[Exploding],
) -> None:
    definition = graph(
        "a -> x; b -> w",
        types={"w": "wait"},
        details={"x": Work("x", value('"boom"')), "w": Wait(for_us=1)},
    )
    async with house(evaluators=exploding) as h, asyncio.TaskGroup() as group:
        hand = await h.hire(["a", "b", "x"])
        [run_id] = await h.begin(definition)
        poison, other = sorted(await hand.take(2), key=lambda lease: lease.place)
        await hand.report(poison)
        held = Held(h.store)
        for lane in h.coordinator._lanes:
            lane._store = held  # type: ignore[assignment]
        reporting = group.create_task(hand.report(other))
        await held.arrived.wait()
        exploding.armed = False
        await h.commands.resume(run_id)
        held.go.set()
        assert (await reporting).verdicts == (Answered.OK,)
        await hand.report(poison)
        await hand.report(*await hand.lease())
        assert (await h.commands.wait(run_id)).state == "success"
        assert "TimerFired" in await kinds(h, run_id)


# -- messages ---------------------------------------------------------------------------------------------------------


class Counting:
    """A store that counts commits, and lets the test slip something in before the next."""

    def __init__(self, real: Store) -> None:
        self.real, self.commits = real, 0
        self.before: Callable[[], None] | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    async def commit(self, changes: Sequence[Change], *, lease_us: int) -> Committed:
        self.commits += 1
        if self.before is not None:
            before, self.before = self.before, None
            before()
        return await self.real.commit(changes, lease_us=lease_us)


WAITING = graph("e", types={"e": "wait_for_event"}, details={"e": WaitForEvent("e", key('"k"'))})


async def test_a_message_that_goes_while_it_is_matched_is_not_tried_for_ever() -> None:
    clock = TurnedClock()
    async with house(clock=clock) as h:
        [run_id] = await h.begin(WAITING)
        store, gone = Counting(h.store), asyncio.Event()

        def expire() -> None:
            clock.turn(8 * 24 * HOUR)
            gone.set()

        store.before = expire
        for lane in h.coordinator._lanes:
            lane._store = store  # type: ignore[assignment]
        await h.commands.send_event("e", "k", "1")
        await gone.wait()
        await h.commands.send_event("e", "k", "2")

        assert (await h.commands.wait(run_id)).state == "success"
        assert store.commits < 10
        assert await kinds(h, run_id) == ["RunStarted", "EventReceived"]


# -- stopping ---------------------------------------------------------------------------------------------------------


async def test_an_engine_stops_although_its_store_fails(tmp_path: Path) -> None:
    armed = False

    def failing() -> None:
        if armed:
            raise Unavailable("the disk is full")

    async with house(tmp_path / "t.db", before_commit=failing) as h:
        hand = await h.hire(["a"])
        leasing = asyncio.create_task(hand.lease())
        await asyncio.sleep(0)
        [run_id] = await h.begin(graph("a"))
        leasing.cancel()  # its lease has to be given back
        armed = True
    async with house(tmp_path / "t.db") as h:
        armed = False
        await h.recovery.sweep()
        hand = await h.hire(["a"])
        [lease] = await hand.lease()

        assert lease.run_id == run_id
