"""The coordinator over a real store, with the test as worker: verdicts, races, quarantine, recovery, time."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import HANG_S
from tests.support.graphs import graph, key, value
from tests.support.house import Hand, House, house
from tests.support.plain import PlainEvaluator

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import open_engine
from tenuto.coordinator import timers
from tenuto.coordinator.batch import Batch
from tenuto.coordinator.commands import StartRequest
from tenuto.coordinator.mailbox import Message, new_message
from tenuto.coordinator.reports import ReportWaiting
from tenuto.coordinator.setting import Focus
from tenuto.machine.codec import decode_event
from tenuto.machine.events import LeaseExpired
from tenuto.machine.fold import fold
from tenuto.model.definition import Wait, WaitForEvent, Work
from tenuto.model.errors import Conflict, InvalidInput, InvariantViolated, NotFound, Unavailable
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
from tenuto.model.graph import Graph
from tenuto.model.ids import Place, RunId
from tenuto.model.payload import PAYLOAD_MAX, PayloadKey, PayloadKind, Text
from tenuto.model.retry import Jitter, RetryPolicy
from tenuto.ports.gateway import Beat, Lease, Load
from tenuto.ports.gateway import Verdict as Answered
from tenuto.ports.reads import Reads
from tenuto.ports.store import Change, Committed, Due, Pulse, Store

ONCE = RetryPolicy(max_attempts=2, initial_us=1_000, jitter=Jitter.NONE)


@pytest.fixture(autouse=True)
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is due must be announced by whoever makes it so; polling would hide a lost hint."""
    monkeypatch.setattr(timers, "POLL_US", 600_000_000)
    monkeypatch.setattr(timers, "PULSE_US", 600_000_000)


async def kinds(reads: Reads, run_id: RunId) -> list[str]:
    return [row.kind for row in await reads.history(run_id)]


async def folds(reads: Reads, run_id: RunId, definition: Graph) -> None:
    """The history yields the stored state."""
    rows = await reads.history(run_id)
    history = [decode_event(row.kind, row.at, row.place, row.data) for row in rows]
    snapshot, ledger = fold(run_id, definition, history)
    detail = await reads.get_run(run_id)
    assert snapshot == detail.snapshot
    assert ledger.tasks == {task.place: task for task, _ in detail.tasks}


# -- verdicts ---------------------------------------------------------------------------------------------------------


async def test_a_repeated_report_is_answered_ok_again_and_changes_nothing() -> None:
    """Catalogue A5."""
    definition = graph("a -> b")
    async with house() as h:
        hand = await h.hire(["a"])
        [run_id] = await h.begin(definition)
        [lease] = await hand.lease()
        first = await hand.report(lease)
        again = await hand.report(lease)

        assert first.verdicts == again.verdicts == (Answered.OK,)
        assert await kinds(h.reads, run_id) == ["RunStarted", "AttemptSucceeded"]


async def test_the_same_report_twice_in_one_call_is_one_event() -> None:
    async with house() as h:
        hand = await h.hire(["a"])
        [run_id] = await h.begin(graph("a -> b"))
        [lease] = await hand.lease()

        assert (await hand.report(lease, lease)).verdicts == (Answered.OK, Answered.OK)
        assert await kinds(h.reads, run_id) == ["RunStarted", "AttemptSucceeded"]


async def test_a_report_under_a_lease_that_was_released_is_stale() -> None:
    async with house() as h:
        hand = await h.hire(["a"])
        await h.begin(graph("a"))
        [lease] = await hand.lease()
        beat = Beat(run_id=lease.run_id, place=lease.place, lease_id=lease.lease_id)
        await h.gateway.release(hand.id, [beat])
        [again] = await hand.lease()

        assert again.lease_id != lease.lease_id
        assert (await hand.report(lease)).verdicts == (Answered.STALE,)
        assert (await hand.report(again)).verdicts == (Answered.OK,)


async def test_a_report_about_a_run_that_does_not_exist_is_stale() -> None:
    """Catalogue L7."""
    async with house() as h, house() as other:
        hand = await h.hire(["a"])
        await h.begin(graph("a"))
        [lease] = await hand.lease()
        stranger = await other.hire(["a"])

        assert (await stranger.report(lease)).verdicts == (Answered.STALE,)


async def test_a_heartbeat_tells_a_worker_that_its_task_was_cancelled() -> None:
    async with house() as h:
        hand = await h.hire(["a"])
        [run_id] = await h.begin(graph("a"))
        [lease] = await hand.lease()
        await h.commands.cancel(run_id)
        beat = Beat(run_id=lease.run_id, place=lease.place, lease_id=lease.lease_id)
        verdicts = await h.gateway.heartbeat(hand.id, [beat], Load(busy=1, capacity=10))

        assert verdicts == (Answered.CANCELLED,)
        assert (await h.commands.wait(run_id)).state == "cancelled"


async def test_a_success_that_comes_after_the_cancel_is_kept_and_moves_nothing() -> None:
    """SEMANTICS F8. Catalogue I-1."""
    definition = graph("a -> b")
    async with house() as h:
        hand = await h.hire(["a", "b"])
        [run_id] = await h.begin(definition)
        [lease] = await hand.lease()
        await h.commands.cancel(run_id)
        await hand.report(lease)
        detail = await h.reads.get_run(run_id)

        assert detail.run.state == "cancelled"
        assert await kinds(h.reads, run_id) == [
            "RunStarted",
            "CancelRequested",
            "AttemptSucceeded",
        ]
        assert detail.ready == ()
        assert (await h.commands.wait(run_id)).state == "cancelled"
        await folds(h.reads, run_id, definition)


# -- handing out ------------------------------------------------------------------------------------------------------


async def test_a_report_brings_home_the_task_that_it_made_ready() -> None:
    async with house() as h:
        hand = await h.hire(["a", "b"])
        [run_id] = await h.begin(graph("a -> b"))
        [lease] = await hand.lease()
        answer = await hand.report(lease, want=1)

        assert [each.place for each in answer.leases] == ["b"]
        assert (await h.reads.get_run(run_id)).ready == ()


async def test_a_report_brings_home_no_more_than_it_wants() -> None:
    async with house() as h:
        hand = await h.hire(["a", "b", "c", "d"])
        [run_id] = await h.begin(graph("a -> b; a -> c; a -> d"))
        [lease] = await hand.lease(1)
        answer = await hand.report(lease, want=2)

        assert len(answer.leases) == 2
        assert len((await h.reads.get_run(run_id)).ready) == 1
        assert len(await hand.lease()) == 1


async def test_an_idle_worker_gets_the_first_task_of_a_run_with_the_run_itself() -> None:
    async with house() as h:
        hand = await h.hire(["a"])
        async with asyncio.TaskGroup() as group:
            leasing = group.create_task(hand.lease())
            await asyncio.sleep(0)
            [run_id] = await h.begin(graph("a"))

        assert [lease.run_id for lease in leasing.result()] == [run_id]
        detail = await h.reads.get_run(run_id)
        assert detail.tasks[0][1] is not None


async def test_a_task_goes_to_a_worker_that_knows_it_only() -> None:
    async with house() as h:
        knows_b = await h.hire(["b"])
        knows_a = await h.hire(["a"])
        async with asyncio.TaskGroup() as group:
            for_b = group.create_task(knows_b.lease())
            for_a = group.create_task(knows_a.lease())
            await asyncio.sleep(0)
            await h.begin(graph("a -> b"))
            [lease] = await for_a
            assert not for_b.done()
            await knows_a.report(lease, want=1)

        assert [lease.place for lease in for_b.result()] == ["b"]


async def test_a_task_of_another_queue_waits_for_its_worker() -> None:
    elsewhere = graph("a", details={"a": Work("a", value("{}"), queue="warehouse")})
    async with house() as h:
        near = await h.hire(["a"])
        async with asyncio.TaskGroup() as group:
            parked = group.create_task(near.lease())
            await h.begin(elsewhere)
            far = await h.hire(["a"], queue="warehouse")
            [lease] = await far.lease()
            assert not parked.done()
            parked.cancel()

        assert lease.queue == "warehouse"


async def test_cancelling_a_request_at_any_turn_loses_no_task() -> None:
    """Catalogue G8."""
    async with house() as h:
        hand = await h.hire(["a"])
        definition = graph("a")
        for turns in range(0, 60, 3):
            async with asyncio.TaskGroup() as group:
                gone = group.create_task(hand.lease())
                group.create_task(h.begin(definition))
                for _ in range(turns):
                    await asyncio.sleep(0)
                gone.cancel()
            if gone.cancelled():
                [lease] = await hand.lease()
            else:
                [lease] = gone.result()
            assert (await hand.report(lease)).verdicts == (Answered.OK,)


async def test_a_worker_that_left_is_answered_empty_handed() -> None:
    async with house() as h:
        hand = await h.hire(["a"])
        async with asyncio.TaskGroup() as group:
            leasing = group.create_task(hand.lease())
            await asyncio.sleep(0)
            await h.gateway.leave(hand.id)

        assert leasing.result() == []
        with pytest.raises(Unavailable, match="not registered"):
            await hand.lease()


async def test_a_fan_out_is_handed_out_whole_in_bounded_portions() -> None:
    width = 450
    wide = graph("; ".join(f"s -> f{i}; f{i} -> j" for i in range(width)))
    async with house() as h:
        hand = await h.hire(["s", "j", *(f"f{i}" for i in range(width))])
        [run_id] = await h.begin(wide)
        [first] = await hand.lease()
        await hand.report(first)
        leases = await hand.take(width)
        async with asyncio.TaskGroup() as group:
            for start in range(0, width, 150):
                group.create_task(hand.report(*leases[start : start + 150]))
        [last] = await hand.lease()
        await hand.report(last)

        assert (await h.commands.wait(run_id)).state == "success"
        await folds(h.reads, run_id, wide)


# -- starts -----------------------------------------------------------------------------------------------------------


async def test_a_key_is_one_run_whoever_asks_again() -> None:
    """Invariant I10."""
    async with house() as h:
        definition = graph("a")
        [first] = await h.begin(definition, key="k")
        row = await h.commands.deploy(definition)
        request = StartRequest(
            graph_hash=row.hash, workflow=row.name, version=1, input="1", vars="{}", key="k"
        )
        both = await h.commands.start([request, request])

        assert [(each.run_id, each.created) for each in both] == [(first, False)] * 2
        assert await h.reads.count_runs("default") == {"running": 1}


async def test_a_key_twice_in_one_call_is_one_run() -> None:
    async with house() as h:
        row = await h.commands.deploy(graph("a"))
        request = StartRequest(
            graph_hash=row.hash, workflow=row.name, version=1, input="1", vars="{}", key="k"
        )
        one, two = await h.commands.start([request, request])

        assert one.run_id == two.run_id
        assert one.created != two.created


async def test_a_thousand_starts_in_one_call_are_a_thousand_runs() -> None:
    async with house() as h:
        runs = await h.begin(graph("a"), 1_000)

        assert len(set(runs)) == 1_000
        assert await h.reads.count_runs("default") == {"running": 1_000}


async def test_starting_an_unknown_version_is_not_found() -> None:
    async with house() as h:
        request = StartRequest(graph_hash="no", workflow="w", version=1, input="1", vars="{}")
        with pytest.raises(NotFound):
            await h.commands.start([request])
        [run_id] = await h.begin(graph("a"))

        assert (await h.reads.get_run(run_id)).run.state == "running"


async def test_an_input_beyond_the_limit_is_refused_at_the_door() -> None:
    """Catalogue D17, J2."""
    async with house() as h:
        row = await h.commands.deploy(graph("a"))
        large = '"' + "x" * PAYLOAD_MAX + '"'
        request = StartRequest(graph_hash=row.hash, workflow="w", version=1, input=large, vars="{}")
        with pytest.raises(InvalidInput, match="input"):
            await h.commands.start([request])


async def test_deploying_the_same_twice_is_one_version() -> None:
    async with house() as h:
        one = await h.commands.deploy(graph("a"))
        same = await h.commands.deploy(graph("a"))
        other = await h.commands.deploy(graph("a -> b"))

        assert (one.version, same.version, other.version) == (1, 1, 2)


# -- commands ---------------------------------------------------------------------------------------------------------


async def test_commands_on_a_run_that_does_not_exist_are_not_found() -> None:
    nobody = RunId("00000000-0000-7000-8000-000000000000")
    async with house() as h:
        for command in (h.commands.cancel, h.commands.pause, h.commands.resume, h.commands.wait):
            with pytest.raises(NotFound):
                await command(nobody)


async def test_a_final_run_is_not_cancelled_again() -> None:
    async with house() as h:
        [run_id] = await h.begin(graph("a"))
        await h.commands.cancel(run_id, "no more")

        with pytest.raises(Conflict, match="already cancelled"):
            await h.commands.cancel(run_id)
        with pytest.raises(Conflict, match="already cancelled"):
            await h.commands.pause(run_id)


@pytest.mark.rule("C6.2")
async def test_a_paused_run_hands_out_nothing_until_it_is_resumed() -> None:
    async with house() as h:
        hand = await h.hire(["a", "b"])
        [run_id] = await h.begin(graph("a -> b"))
        [lease] = await hand.lease()
        await h.commands.pause(run_id)
        answer = await hand.report(lease, want=5)
        with pytest.raises(Conflict, match="already paused"):
            await h.commands.pause(run_id)
        async with asyncio.TaskGroup() as group:
            leasing = group.create_task(hand.lease())
            await asyncio.sleep(0)
            assert (await h.reads.get_run(run_id)).ready == ()
            assert not leasing.done()
            await h.commands.resume(run_id)

        assert answer.leases == ()
        assert [each.place for each in leasing.result()] == ["b"]
        with pytest.raises(Conflict, match="not paused"):
            await h.commands.resume(run_id)


async def test_waiting_for_a_run_that_is_final_returns_at_once() -> None:
    async with house() as h:
        [run_id] = await h.begin(graph("a"))
        await h.commands.cancel(run_id)
        told = await h.commands.wait(run_id)

        assert told == (await h.reads.get_run(run_id)).run


async def test_whoever_waits_is_told_the_run_as_it_is_stored() -> None:
    async with house() as h:
        hand = await h.hire(["a"])
        [run_id] = await h.begin(graph("a"))
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(h.commands.wait(run_id))
            await asyncio.sleep(0)
            [lease] = await hand.lease()
            await hand.fail(lease)

        assert waiting.result() == (await h.reads.get_run(run_id)).run
        assert waiting.result().state == "failed"


async def test_following_yields_every_event_from_then_on_and_ends_with_the_run() -> None:
    async with house() as h:
        hand = await h.hire(["a", "b"])
        [run_id] = await h.begin(graph("a -> b"))

        async def follow() -> list[str]:
            return [row.kind async for row in h.commands.follow(run_id)]

        async with asyncio.TaskGroup() as group:
            following = group.create_task(follow())
            await asyncio.sleep(0)
            for _ in range(2):
                await hand.report(*await hand.lease())

        assert following.result() == ["AttemptSucceeded", "AttemptSucceeded"]
        assert [row async for row in h.commands.follow(run_id)] == []


# -- time and the mailbox ---------------------------------------------------------------------------------------------


async def test_a_back_off_ends_in_another_attempt() -> None:
    definition = graph("a", details={"a": Work("a", value("{}"), retry=ONCE)})
    async with house() as h:
        hand = await h.hire(["a"])
        [run_id] = await h.begin(definition)
        [lease] = await hand.lease()
        await hand.fail(lease)
        [second] = await hand.lease()
        await hand.report(second)

        assert second.attempt == 2
        assert await kinds(h.reads, run_id) == [
            "RunStarted",
            "AttemptFailed",
            "TimerFired",
            "AttemptSucceeded",
        ]
        await folds(h.reads, run_id, definition)


async def test_a_wait_fires_when_it_is_due_and_not_before() -> None:
    definition = graph("w", types={"w": "wait"}, details={"w": Wait(for_us=30_000)})
    async with house() as h:
        [run_id] = await h.begin(definition)
        await h.commands.wait(run_id)
        started, fired = await h.reads.history(run_id)

        assert fired.kind == "TimerFired"
        assert fired.at - started.at >= 30_000
        await folds(h.reads, run_id, definition)


@pytest.mark.parametrize("sole", [True, False])
async def test_what_comes_due_between_two_looks_of_one_round_is_seen_at_once(
    monkeypatch: pytest.MonkeyPatch, sole: bool
) -> None:
    """Asked a moment too early, and then so late that the timer is due already."""
    due, looked = SqlStore.due, asyncio.Event()

    async def slow(self: SqlStore, *, limit: int, runs: tuple[RunId, ...] | None) -> Due:
        found = await due(self, limit=limit, runs=runs)
        await asyncio.sleep(0.06)
        looked.set()
        return found

    monkeypatch.setattr(SqlStore, "due", slow)
    monkeypatch.setattr(timers, "POLL_SHARED_US", 600_000_000)
    definition = graph("w", types={"w": "wait"}, details={"w": Wait(for_us=50_000)})
    async with house(sole=sole) as h, asyncio.timeout(HANG_S):
        await looked.wait()
        await asyncio.sleep(0.01)  # it rests
        [run_id] = await h.begin(definition)
        h.timers.hint(0)

        assert (await h.commands.wait(run_id)).state == "success"


async def test_what_cannot_be_decided_costs_two_statements_a_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message for a run in quarantine, which may stand for days."""
    asked: list[str] = []
    often = asyncio.Event()
    due, pulse = SqlStore.due, SqlStore.pulse

    async def ask_due(self: SqlStore, *, limit: int, runs: tuple[RunId, ...] | None) -> Due:
        asked.append("due")
        if asked.count("due") == 10:
            often.set()
        return await due(self, limit=limit, runs=runs)

    async def ask_pulse(self: SqlStore, runs: tuple[RunId, ...] | None, *, after: int = 0) -> Pulse:
        asked.append("pulse")
        return await pulse(self, runs, after=after)

    async with house(sole=False) as h, asyncio.timeout(HANG_S):
        [run_id] = await h.begin(WAITING)
        await h.store.quarantine(run_id, "for a while")
        await h.commands.send_event("e", "k", "1")
        assert not (await h.store.due(limit=10, runs=None)).matches
        await asyncio.sleep(0.1)
        monkeypatch.setattr(SqlStore, "due", ask_due)
        monkeypatch.setattr(SqlStore, "pulse", ask_pulse)
        h.timers._poll_us = 20_000
        h.timers.hint(0)
        await often.wait()

    assert asked.count("pulse") <= asked.count("due") + 1


async def test_what_cannot_be_decided_yet_hides_no_timer() -> None:
    """A lease that has run out while its worker holds it, as after a laptop's sleep (ADR 0007)."""
    definition = graph("w", types={"w": "wait"}, details={"w": Wait(for_us=120_000)})
    async with house(lease_us=40_000) as h, asyncio.timeout(HANG_S):
        hand = await h.hire(["a"])
        await h.begin(graph("a"))
        [held] = await hand.lease()
        [run_id] = await h.begin(definition)

        assert (await h.commands.wait(run_id)).state == "success"
        assert (await hand.report(held)).verdicts


async def test_the_timeout_of_a_run_closes_it() -> None:
    async with house() as h:
        [run_id] = await h.begin(graph("a", timeout_us=20_000))

        assert (await h.commands.wait(run_id)).state == "timed_out"


@pytest.mark.rule("W3.1")
async def test_waiting_too_long_for_a_worker_is_a_failure() -> None:
    """Catalogue J14."""
    definition = graph("a", details={"a": Work("a", value("{}"), queue_timeout_us=20_000)})
    async with house() as h:
        [run_id] = await h.begin(definition)
        row = await h.commands.wait(run_id)

        assert row.state == "failed"
        assert await kinds(h.reads, run_id) == ["RunStarted", "DeadlinePassed"]


async def test_an_attempt_beyond_its_timeout_is_over_although_nobody_reports() -> None:
    definition = graph("a", details={"a": Work("a", value("{}"), timeout_us=20_000)})
    async with house() as h:
        h.recovery.holds = lambda _: False
        hand = await h.hire(["a"])
        [run_id] = await h.begin(definition)
        [lease] = await hand.lease()
        row = await h.commands.wait(run_id)

        assert lease.attempt_us == 20_000
        assert row.state == "failed"
        assert (await hand.report(lease)).verdicts != (Answered.OK,) or (
            await h.reads.get_run(run_id)
        ).run.state == "failed"


WAITING = graph("e", types={"e": "wait_for_event"}, details={"e": WaitForEvent("e", key('"k"'))})


async def test_an_event_ends_the_wait_that_is_open() -> None:
    async with house() as h:
        [run_id] = await h.begin(WAITING)
        assert await h.commands.send_event("e", "k", "7", event_id="x")

        assert (await h.commands.wait(run_id)).state == "success"
        assert not await h.commands.send_event("e", "k", "7", event_id="x")
        await folds(h.reads, run_id, WAITING)


async def test_an_event_sent_before_anybody_waits_is_found() -> None:
    """Catalogue H15."""
    async with house() as h:
        await h.commands.send_event("e", "k", "7")
        [run_id] = await h.begin(WAITING)

        assert (await h.commands.wait(run_id)).state == "success"
        assert await kinds(h.reads, run_id) == ["RunStarted"]


@pytest.mark.rule("W6.2")
async def test_a_message_ends_one_wait_and_the_next_message_the_next() -> None:
    """Catalogue H8."""
    async with house() as h:
        runs = await h.begin(WAITING, 3)
        await h.commands.send_event("e", "k", "1")
        first = await h.commands.wait(runs[0])
        unfinished = [(await h.reads.get_run(run_id)).run.state for run_id in runs[1:]]
        await h.commands.send_event("e", "k", "2")
        await h.commands.send_event("e", "k", "3")

        assert first.state == "success"
        assert unfinished == ["running", "running"]
        assert [(await h.commands.wait(run_id)).state for run_id in runs] == ["success"] * 3


async def test_two_waits_of_one_run_for_one_address_take_a_message_each() -> None:
    definition = graph(
        "e; f",
        types={"e": "wait_for_event", "f": "wait_for_event"},
        details={"e": WaitForEvent("e", key('"k"')), "f": WaitForEvent("e", key('"k"'))},
    )
    async with house() as h:
        [run_id] = await h.begin(definition)
        await h.commands.send_event("e", "k", "1")
        await h.commands.send_event("e", "k", "2")

        assert (await h.commands.wait(run_id)).state == "success"
        await folds(h.reads, run_id, definition)


async def test_a_message_that_comes_between_look_up_and_commit_is_found() -> None:
    async with house() as h:

        class Busy:
            """While a commit is on its way another process posts the message."""

            def __getattr__(self, name: str) -> object:
                return getattr(real, name)

            async def commit(self, changes: Sequence[Change], *, lease_us: int) -> Committed:
                if any(change.waits for change in changes):
                    await real.post([new_message(h.ids, Message("e", "k", "7", event_id="x"))])
                return await real.commit(changes, lease_us=lease_us)

        real = h.store
        for lane in h.coordinator._lanes:
            lane._store = Busy()  # type: ignore[assignment]
        [run_id] = await h.begin(WAITING)

        assert (await h.commands.wait(run_id)).state == "success"


@pytest.mark.parametrize("messages", [1, 2])
async def test_waits_opened_in_one_batch_take_a_message_each(messages: int) -> None:
    definition = graph(
        "a -> e; b -> f",
        types={"e": "wait_for_event", "f": "wait_for_event"},
        details={"e": WaitForEvent("e", key('"k"')), "f": WaitForEvent("e", key('"k"'))},
    )
    async with house() as h:
        hand = await h.hire(["a", "b"])
        [run_id] = await h.begin(definition)
        for number in range(messages):
            await h.commands.send_event("e", "k", str(number))
        await hand.report(*await hand.take(2))
        detail = await h.reads.get_run(run_id)
        outputs = await h.reads.payloads(
            run_id, [PayloadKey(Place(place), PayloadKind.OUTPUT) for place in "ef"]
        )

        assert sorted(outputs.values()) == [str(number) for number in range(messages)]
        assert len(detail.waits) == 2 - messages
        await folds(h.reads, run_id, definition)


async def test_runs_started_together_share_the_messages_that_wait() -> None:
    async with house() as h:
        for number in range(5):
            await h.commands.send_event("e", "k", str(number))
        runs = await h.begin(WAITING, 5)

        assert [(await h.commands.wait(run_id)).state for run_id in runs] == ["success"] * 5


async def test_a_message_from_another_process_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "POLL_US", 50_000)
    from tenuto.app.files import post_message

    path = tmp_path / "t.db"
    async with house(path) as h:
        [run_id] = await h.begin(WAITING)
        await asyncio.to_thread(post_message, path, Message("e", "k", "1"))

        assert (await h.commands.wait(run_id)).state == "success"


# -- what goes wrong --------------------------------------------------------------------------------------------------


class Exploding(PlainEvaluator):
    """A bug of ours, at one expression."""

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


POISONED = graph("a -> x; b -> y", details={"x": Work("x", value('"boom"'))})


async def test_what_cannot_be_decided_quarantines_its_run_and_nobody_else(
    exploding: type[Exploding],
) -> None:
    """Catalogue A8."""
    async with house(evaluators=exploding) as h:
        hand = await h.hire(["a", "b", "x", "y"])
        [bad] = await h.begin(POISONED)
        [good] = await h.begin(graph("a -> b"))
        leases = {(lease.run_id, lease.place): lease for lease in await hand.take(3)}
        answer = await hand.report(*leases.values())
        verdicts = dict(zip(leases, answer.verdicts, strict=True))
        row = (await h.reads.get_run(bad)).run

        assert verdicts == {
            (bad, "a"): Answered.STALE,
            (bad, "b"): Answered.OK,
            (good, "a"): Answered.OK,
        }
        assert row.quarantine == "AttemptSucceeded: RuntimeError: a bug"
        assert (await h.reads.get_run(good)).run.quarantine is None


@pytest.mark.parametrize(
    ("owner", "verb"), [(ReportWaiting, "fill"), (Batch, "build"), (Batch, "__init__")]
)
async def test_A8_a_bug_around_the_decision_ends_neither_the_lane_nor_the_process(
    owner: type, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever restarts takes the same fact up again, and dies of it again, and so does the next."""
    async with house() as h:
        hand = await h.hire(["a", "b", "x", "y"])
        [bad] = await h.begin(graph("a -> x"))
        [good] = await h.begin(graph("a -> b"))
        leases = await hand.take(2)
        plain = getattr(owner, verb)

        def buggy(it: Any, *args: Any, **named: Any) -> Any:
            about = args[1] if verb == "__init__" else it
            if bad in (
                getattr(about, "run_id", ""),
                getattr(getattr(it, "row", None), "run_id", ""),
            ):
                raise RuntimeError("a bug")
            return plain(it, *args, **named)

        with monkeypatch.context() as patch:
            patch.setattr(owner, verb, buggy)
            answer = await hand.report(*leases)
        verdicts = {x.run_id: v for x, v in zip(leases, answer.verdicts, strict=True)}
        assert verdicts == {bad: Answered.STALE, good: Answered.OK}
        reason = (await h.reads.get_run(bad)).run.quarantine
        assert reason is not None
        assert reason.endswith("RuntimeError: a bug")
        await h.commands.resume(bad)
        await hand.report(*[lease for lease in leases if lease.run_id == bad])
        for _ in range(2):
            await hand.report(*await hand.lease(1))
        for run in (bad, good):
            assert (await h.commands.wait(run)).state == "success"


async def test_a_run_in_quarantine_hands_out_nothing_until_it_is_resumed(
    exploding: type[Exploding],
) -> None:
    async with house(evaluators=exploding) as h:
        hand = await h.hire(["a", "b", "x", "y"])
        [bad] = await h.begin(POISONED)
        poison, other = sorted(await hand.take(2), key=lambda lease: lease.place)
        await hand.report(poison)
        await hand.report(other)
        async with asyncio.TaskGroup() as group:
            leasing = group.create_task(hand.lease())
            [healthy] = await h.begin(graph("a"))
            [lease] = await leasing
            assert lease.run_id == healthy
        exploding.armed = False
        await h.commands.resume(bad)
        await hand.report(poison)
        for _ in range(2):
            await hand.report(*await hand.lease(1))

        assert (await h.commands.wait(bad)).state == "success"
        await folds(h.reads, bad, POISONED)


async def test_a_start_that_cannot_be_decided_is_the_callers_error(
    exploding: type[Exploding],
) -> None:
    async with house(evaluators=exploding) as h:
        with pytest.raises(RuntimeError, match="a bug"):
            await h.begin(graph("x", details={"x": Work("x", value('"boom"'))}))

        assert await h.reads.count_runs("default") == {}


async def test_what_the_store_refuses_is_halved_until_it_stands_alone() -> None:
    """Catalogue C5."""
    async with house() as h:
        hand = await h.hire(["a", "b"])
        runs = await h.begin(graph("a -> b"), 9)
        leases = await hand.take(9)
        refusing = runs[4]

        class Refusing:
            commits = 0

            def __getattr__(self, name: str) -> object:
                return getattr(real, name)

            async def commit(self, changes: Sequence[Change], *, lease_us: int) -> Committed:
                Refusing.commits += 1
                if any(change.run_id == refusing for change in changes):
                    raise InvariantViolated("the store says no")
                return await real.commit(changes, lease_us=lease_us)

        real = h.store
        for lane in h.coordinator._lanes:
            lane._store = Refusing()  # type: ignore[assignment]
        answer = await hand.report(*leases)
        states = [(await h.reads.get_run(run_id)).run.quarantine for run_id in runs]

        stale = [
            lease.run_id for lease, v in zip(leases, answer.verdicts, strict=True) if v != "ok"
        ]
        assert stale == [refusing]
        assert [reason for reason in states if reason is not None] == [
            "AttemptSucceeded: InvariantViolated: the store says no"
        ]
        assert 2 < Refusing.commits < 12


class Failing:
    """A hook between the last statement and COMMIT that fails while it is armed."""

    def __init__(self) -> None:
        self.armed = False

    def __call__(self) -> None:
        if self.armed:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error


async def test_while_the_store_fails_everything_is_unavailable_and_then_goes_on(
    tmp_path: Path,
) -> None:
    failing = Failing()
    async with house(tmp_path / "t.db", before_commit=failing) as h:
        hand = await h.hire(["a", "b"])
        [run_id] = await h.begin(graph("a -> b"))
        [lease] = await hand.lease()
        failing.armed = True
        for request in (
            hand.report(lease, want=1),
            h.commands.cancel(run_id),
            h.begin(graph("a")),
            h.commands.send_event("e", "k", "1"),
        ):
            with pytest.raises(Unavailable):
                await request
        failing.armed = False
        answer = await hand.report(lease, want=1)
        await hand.report(*answer.leases)

        assert answer.verdicts == (Answered.OK,)
        assert (await h.commands.wait(run_id)).state == "success"


async def test_a_lease_call_is_refused_while_the_store_fails(tmp_path: Path) -> None:
    failing = Failing()
    async with house(tmp_path / "t.db", before_commit=failing) as h:
        hand = await h.hire(["a"])
        await h.begin(graph("a"))
        failing.armed = True
        with pytest.raises(Unavailable):
            await hand.lease()
        failing.armed = False

        assert len(await hand.lease()) == 1


class Losing:
    """A store that lets the changes of a run lose so many times."""

    def __init__(self, real: Store, run_id: RunId, times: int) -> None:
        self.real, self.run_id, self.times = real, run_id, times
        self.sizes: list[int] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    async def commit(self, changes: Sequence[Change], *, lease_us: int) -> Committed:
        ours = [change for change in changes if change.run_id == self.run_id]
        self.sizes += [len(change.events) for change in ours]
        if ours and len(self.sizes) <= self.times:
            rest = [change for change in changes if change.run_id != self.run_id]
            committed = await self.real.commit(rest, lease_us=lease_us)
            return replace(committed, losers=committed.losers | {self.run_id})
        return await self.real.commit(changes, lease_us=lease_us)


async def losing(h: House, times: int) -> tuple[Losing, RunId, Hand, list[Lease]]:
    hand = await h.hire(["a", "b", "c"])
    [run_id] = await h.begin(graph("a; b; c"))
    leases = await hand.take(3)
    store = Losing(h.store, run_id, times)
    for lane in h.coordinator._lanes:
        lane._store = store  # type: ignore[assignment]
    return store, run_id, hand, leases


async def test_a_loser_is_decided_again_and_after_three_losses_event_by_event() -> None:
    async with house() as h:
        store, run_id, hand, leases = await losing(h, 3)
        answer = await hand.report(*leases)

        assert store.sizes == [3, 3, 3, 1, 1, 1]
        assert answer.verdicts == (Answered.OK,) * 3
        assert (await h.commands.wait(run_id)).state == "success"


async def test_who_loses_for_ever_is_told_to_come_again() -> None:
    async with house() as h:
        store, run_id, hand, leases = await losing(h, 1_000)
        with pytest.raises(Unavailable, match="changes faster"):
            await hand.report(*leases)
        store.times = 0
        answer = await hand.report(*leases)

        assert answer.verdicts == (Answered.OK,) * 3
        assert (await h.commands.wait(run_id)).state == "success"


async def test_two_coordinators_that_race_for_a_run_agree(tmp_path: Path) -> None:
    """Losers are loaded and decided again: each event is in the history once, whoever came first. Catalogue C1."""
    definition = graph("a -> j; b -> j; c -> j; d -> j; e -> j; f -> j; j -> k")
    clock = SystemClock()
    sqlite = open_engine(str(tmp_path / "t.db"), clock)
    store, reads = SqlStore(sqlite), SqlReads(sqlite)
    try:
        async with (
            house(store=store, reads=reads, clock=clock, sole=False) as one,
            house(store=store, reads=reads, clock=clock, sole=False) as two,
        ):
            names = list("abcdefjk")
            first, second = await one.hire(names), await two.hire(names)
            # Each has a way to the other coordinator, too.
            far_first, far_second = Hand(two.gateway, first.id), Hand(one.gateway, second.id)
            for _ in range(20):
                [run_id] = await one.begin(definition)
                leases = {lease.place: lease for lease in await first.take(6)}
                assert {lease.run_id for lease in leases.values()} == {run_id}
                async with asyncio.TaskGroup() as group:
                    for place, hand in zip("abcdef", [first, far_first] * 3, strict=True):
                        group.create_task(hand.report(leases[Place(place)]))
                two.seats.offer()  # as a notification of the other's commit would
                [join] = await second.lease(1)
                await far_second.report(join)
                one.seats.offer()
                [last] = await first.lease(1)
                await far_first.report(last)
                row = await two.commands.wait(run_id)

                assert row.state == "success"
                assert (await kinds(reads, run_id)).count("AttemptSucceeded") == 8
                await folds(reads, run_id, definition)
    finally:
        await sqlite.close()


async def test_a_refusal_that_rests_on_memory_is_judged_by_the_database(tmp_path: Path) -> None:
    """The one paused and resumed the run behind the other's back."""
    clock = SystemClock()
    sqlite = open_engine(str(tmp_path / "t.db"), clock)
    store, reads = SqlStore(sqlite), SqlReads(sqlite)
    try:
        async with (
            house(store=store, reads=reads, clock=clock, sole=False) as one,
            house(store=store, reads=reads, clock=clock, sole=False) as two,
        ):
            [run_id] = await one.begin(graph("a"))
            await one.commands.pause(run_id)
            await two.commands.resume(run_id)
            await one.commands.pause(run_id)

            assert await kinds(reads, run_id) == [
                "RunStarted",
                "PauseRequested",
                "ResumeRequested",
                "PauseRequested",
            ]
    finally:
        await sqlite.close()


async def test_lanes_side_by_side_answer_one_report_together() -> None:
    async with house(lanes=3) as h:
        hand = await h.hire(["a", "b"], capacity=100)
        runs = await h.begin(graph("a -> b"), 40)
        leases = await hand.take(40)
        answer = await hand.report(*leases, want=40)

        assert answer.verdicts == (Answered.OK,) * 40
        assert {lease.run_id for lease in answer.leases} == set(runs)
        await hand.report(*answer.leases)
        assert {(await h.commands.wait(run_id)).state for run_id in runs} == {"success"}


# -- restarts ---------------------------------------------------------------------------------------------------------


async def test_after_a_restart_the_leases_of_the_dead_are_over_at_once(tmp_path: Path) -> None:
    definition = graph("a -> b")
    async with house(tmp_path / "t.db") as h:
        hand = await h.hire(["a"])
        [run_id] = await h.begin(definition)
        [lost] = await hand.lease()
    async with house(tmp_path / "t.db") as h:
        assert await h.recovery.sweep() == 1
        hand = await h.hire(["a", "b"])
        [again] = await hand.lease()

        assert (again.place, again.attempt) == ("a", 2)
        assert (await hand.report(lost)).verdicts == (Answered.STALE,)
        await hand.report(again)
        await hand.report(*await hand.lease())
        assert (await h.commands.wait(run_id)).state == "success"
        await folds(h.reads, run_id, definition)


async def test_recovery_leaves_the_leases_of_living_workers_alone() -> None:
    """Catalogue B13."""
    async with house() as h:
        hand = await h.hire(["a"])
        await h.begin(graph("a"))
        [lease] = await hand.lease()

        assert await h.recovery.sweep() == 0
        assert (await hand.report(lease)).verdicts == (Answered.OK,)


async def test_a_lease_that_ran_out_while_its_worker_lives_still_counts() -> None:
    """A laptop's sleep: nobody could renew, and nobody else has the task."""
    async with house(lease_us=1_000) as h:
        hand = await h.hire(["a"])
        [run_id] = await h.begin(graph("a"))
        [lease] = await hand.lease()
        due = await h.store.due(limit=10, runs=None)
        while not due.tasks:
            due = await h.store.due(limit=10, runs=None)

        assert h.recovery.sift(due.tasks) == []
        assert (await hand.report(lease)).verdicts == (Answered.OK,)
        assert (await h.commands.wait(run_id)).state == "success"


@pytest.mark.parametrize("eager", [False, True])
async def test_a_lease_that_ran_out_and_nobody_holds_is_handed_out_again(eager: bool) -> None:
    async with house(lease_us=1_000) as h:
        h.recovery.holds = lambda _: False
        hand = await h.hire(["a"])
        async with asyncio.TaskGroup() as group:
            if eager:
                leasing = group.create_task(hand.lease())
                await asyncio.sleep(0)
            [run_id] = await h.begin(graph("a"))
            if not eager:
                leasing = group.create_task(hand.lease())
        [first] = leasing.result()
        [second] = await hand.lease()

        assert (first.attempt, second.attempt) == (1, 2)
        history = [
            decode_event(row.kind, row.at, row.place, row.data)[0]
            for row in await h.reads.history(run_id)
        ]
        assert isinstance(history[1], LeaseExpired)
        assert history[1].lease_id == first.lease_id


async def test_an_engine_with_a_focus_leaves_other_runs_alone(tmp_path: Path) -> None:
    wait = graph("w", types={"w": "wait"}, details={"w": Wait(for_us=1)}, name="other")
    async with house(tmp_path / "t.db") as h:
        [foreign] = await h.begin(graph("a"))
    async with house(tmp_path / "t.db", focus=Focus(frozenset({foreign}))) as h:
        hand = await h.hire(["a"])
        [lease] = await hand.lease()
        assert lease.run_id == foreign
    async with house(tmp_path / "t.db", focus=Focus(frozenset())) as h:
        assert await h.recovery.sweep() == 0
        hand = await h.hire(["a"])
        [own] = await h.begin(graph("a", name="mine"))
        [timed] = await h.begin(wait)
        assert (await h.commands.wait(timed)).state == "success"
        assert [lease.run_id for lease in await hand.lease()] == [own]
        assert await kinds(h.reads, foreign) == ["RunStarted"]


# -- what expressions need --------------------------------------------------------------------------------------------


class Asking(PlainEvaluator):
    """Lacks a text until it is in the mapping."""

    def __init__(self, texts: Mapping[PayloadKey, str], *known: Any, **more: Any) -> None:
        super().__init__(texts, *known, **more)
        self._texts = texts

    def evaluate(
        self, expression: Expression, scope: Scope
    ) -> Verdict | Text | Named | Number | Listed | Fault | Missing:
        if scope.input not in self._texts:
            return Missing((scope.input,))
        return super().evaluate(expression, scope)


async def test_texts_that_a_decision_lacks_are_loaded(tmp_path: Path) -> None:
    async with house(tmp_path / "t.db", evaluators=Asking) as h:
        [run_id] = await h.begin(graph("a -> b"))
        await h.hire(["a"])
    async with house(tmp_path / "t.db", evaluators=Asking) as h:
        hand = await h.hire(["a", "b"])
        await hand.report(*await hand.lease())
        await hand.report(*await hand.lease())

        assert (await h.commands.wait(run_id)).state == "success"


async def test_a_text_that_is_nowhere_is_a_bug_and_not_a_loop(tmp_path: Path) -> None:
    """Catalogue I-17."""

    class Insatiable(PlainEvaluator):
        def evaluate(
            self, expression: Expression, scope: Scope
        ) -> Verdict | Text | Named | Number | Listed | Fault | Missing:
            return Missing((PayloadKey("nowhere", scope.input.kind),))  # type: ignore[arg-type]

    async with house(tmp_path / "t.db", evaluators=Insatiable) as h:
        with pytest.raises(InvariantViolated, match="not stored"):
            await h.begin(graph("a"))
