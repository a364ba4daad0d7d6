"""`due`, `abandoned`, `pulse`: what recovery sees, by the store's clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.store import (
    LEASE_US,
    SECOND,
    START,
    WORKER,
    A,
    TurnedClock,
    a_beat,
    a_change,
    a_leased_run,
    a_request,
    a_settlement,
    a_snapshot,
    a_start,
    a_success,
    a_task,
    commit,
    due_places,
    new_run_id,
)

from tenuto.machine.events import Deadline, TimerKind
from tenuto.machine.snapshot import Timer
from tenuto.model.ids import Place, WorkerId
from tenuto.model.states import RunState, TaskState
from tenuto.ports.store import Claims, Store


async def test_B11_a_task_that_was_given_back_between_finding_and_commit_waits_anew(
    store: Store, clock: TurnedClock
) -> None:
    """Its queue_timeout was over when it was found; a worker had it since, and a release counts anew."""
    run = new_run_id()
    waiting = a_task(queue_timeout_us=5 * SECOND, queue_until=START + 5 * SECOND)
    await commit(store, a_start(run, waiting))
    clock.turn(5 * SECOND)
    assert await due_places(store) == [("a", "queue_timeout")]
    await store.grant(a_request("l1"))
    assert await store.release(WORKER, [a_beat(run, "l1")]) == 1

    dead = replace(waiting, state=TaskState.DEAD, queue_until=None)
    timed_out = a_change(run, 1, claims=Claims(unleased=((A, 1),)), updated=((dead, True),))
    assert (await store.commit([timed_out], lease_us=LEASE_US)).losers == {run}
    clock.turn(5 * SECOND)
    assert await due_places(store) == [("a", "queue_timeout")]
    assert (await store.commit([timed_out], lease_us=LEASE_US)).losers == frozenset()


async def test_nothing_is_due_in_an_empty_store(store: Store) -> None:
    due, pulse = await store.due(limit=10, runs=None), await store.pulse(None)

    assert (due.now, due.tasks, due.timers, due.matches) == (START, (), (), ())
    assert (pulse.now, pulse.tasks_at, pulse.timers_at, pulse.ready) == (START, None, None, 0)


@pytest.mark.parametrize(
    ("columns", "after_us", "deadline"),
    [
        ({}, LEASE_US, None),
        ({"timeout_us": 3 * SECOND}, 3 * SECOND, Deadline.ATTEMPT),
        ({"total_until": START + 2 * SECOND}, 2 * SECOND, Deadline.ATTEMPT),
        ({"heartbeat_us": SECOND}, SECOND, Deadline.HEARTBEAT),
        ({"timeout_us": 60 * SECOND, "heartbeat_us": 30 * SECOND}, LEASE_US, None),
    ],
    ids=str,
)
async def test_a_leased_task_is_due_when_the_first_of_its_clocks_runs_out(
    store: Store,
    clock: TurnedClock,
    columns: dict[str, Any],
    after_us: int,
    deadline: Deadline | None,
) -> None:
    """Catalogue B13."""
    leased = await a_leased_run(store, **columns)
    clock.turn(after_us - 1)
    assert await due_places(store) == []
    assert (await store.pulse(None)).tasks_at == START + after_us

    clock.turn(1)
    (task,) = (await store.due(limit=10, runs=None)).tasks

    assert (task.run_id, task.place, task.attempt) == (leased.run_id, A, 1)
    assert task.deadline == deadline
    assert task.lease is not None
    assert (task.lease.lease_id, task.lease.worker) == ("lease-1", WORKER)


async def test_waiting_for_a_worker_is_due_only_while_no_lease_is_held(
    store: Store, clock: TurnedClock
) -> None:
    waiting = a_task(queue_timeout_us=SECOND, queue_until=START + SECOND)
    await commit(store, a_start(new_run_id(), waiting))
    leased = a_task(queue="other", queue_timeout_us=SECOND, queue_until=START + SECOND)
    await commit(store, a_start(new_run_id(), leased))
    await store.grant(a_request("1", queues=("other",)))
    clock.turn(SECOND)

    (task,) = (await store.due(limit=10, runs=None)).tasks

    assert (task.deadline, task.lease) == (Deadline.QUEUE, None)


@pytest.mark.parametrize("state", [TaskState.RETRY, TaskState.DEAD, TaskState.SUCCESS])
async def test_a_task_that_is_not_pending_is_never_due(
    store: Store, clock: TurnedClock, state: TaskState
) -> None:
    task = a_task(state=state, queue_timeout_us=1, queue_until=START)
    await commit(store, a_start(new_run_id(), task))
    clock.turn(SECOND)

    assert await due_places(store) == []


async def test_the_lease_of_a_cancelled_task_is_never_due(store: Store, clock: TurnedClock) -> None:
    """Nobody waits for it, so recovery has nothing to decide."""
    leased = await a_leased_run(store)
    await commit(store, a_change(leased.run_id, 1, cancelled=(A,)))
    clock.turn(LEASE_US)

    assert await due_places(store) == []
    assert (await store.pulse(None)).tasks_at is None
    assert await store.abandoned(limit=10, alive=(), runs=None) == ()


async def test_a_paused_run_does_not_wait_for_a_worker(store: Store, clock: TurnedClock) -> None:
    run_id = new_run_id()
    task = a_task(queue_timeout_us=SECOND, queue_until=START + SECOND)
    await commit(store, a_start(run_id, task))
    await commit(store, a_change(run_id, 1, hold=True, snapshot=a_snapshot(run_id, 2, paused=True)))
    clock.turn(SECOND)

    assert await due_places(store) == []


async def test_timers_are_due_oldest_first_up_to_the_limit(
    store: Store, clock: TurnedClock
) -> None:
    run_id = new_run_id()
    timers = [Timer(Place(f"n{n}"), TimerKind.WAIT, START + n, n) for n in (3, 1, 2, 9)]
    await commit(store, a_start(run_id, timers=tuple(timers)))
    clock.turn(3)

    assert (await store.due(limit=2, runs=None)).timers == (
        (run_id, timers[1]),
        (run_id, timers[2]),
    )
    assert len((await store.due(limit=10, runs=None)).timers) == 3
    assert (await store.pulse(None)).timers_at == START + 1


async def test_what_is_due_hides_nothing_that_comes_later(store: Store, clock: TurnedClock) -> None:
    """A pulse after a moment leaves out all that was due by it."""
    await a_leased_run(store, "l1")
    clock.turn(SECOND)
    await a_leased_run(store, "l2")
    timers = (Timer(A, TimerKind.WAIT, START + 3, 1), Timer(A, TimerKind.TOTAL, START + 5, 1))
    await commit(store, a_start(new_run_id(), timers=timers))
    clock.turn(LEASE_US)

    for after, tasks_at, timers_at in (
        (0, START + LEASE_US, START + 3),
        (START + 3, START + LEASE_US, START + 5),
        (START + LEASE_US, START + LEASE_US + SECOND, None),
        (clock.now(), None, None),
    ):
        pulse = await store.pulse(None, after=after)
        assert (pulse.tasks_at, pulse.timers_at) == (tasks_at, timers_at)


async def test_only_the_runs_asked_about_are_due(store: Store, clock: TurnedClock) -> None:
    mine = await a_leased_run(store, "l1")
    await a_leased_run(store, "l2")
    run_id = new_run_id()
    timer = Timer(A, TimerKind.WAIT, START, 1)
    await commit(store, a_start(run_id, a_task("b"), timers=(timer,)))
    clock.turn(LEASE_US)

    due = await store.due(limit=10, runs=(mine.run_id,))
    pulse = await store.pulse((mine.run_id,))

    assert [task.run_id for task in due.tasks] == [mine.run_id]
    assert due.timers == ()
    assert (pulse.tasks_at, pulse.timers_at, pulse.ready) == (START + LEASE_US, None, 0)
    assert (await store.pulse((run_id,))).ready == 1
    assert (await store.pulse(())).tasks_at is None


async def test_a_quarantined_run_is_left_alone(store: Store, clock: TurnedClock) -> None:
    leased = await a_leased_run(store)
    await commit(store, a_change(leased.run_id, 1, timers=(Timer(A, TimerKind.TOTAL, START, 1),)))
    await store.quarantine(leased.run_id, "cannot be decided")
    clock.turn(LEASE_US)

    due, pulse = await store.due(limit=10, runs=None), await store.pulse(None)
    assert (due.tasks, due.timers) == ((), ())
    assert (pulse.tasks_at, pulse.timers_at) == (None, None)
    assert await store.abandoned(limit=10, alive=(), runs=None) == ()

    await store.quarantine(leased.run_id, None)
    assert await due_places(store) == [("a", None)]


async def test_quarantined_rows_do_not_fill_the_page(store: Store, clock: TurnedClock) -> None:
    """Catalogue B12."""
    for n in range(20):
        await store.quarantine((await a_leased_run(store, f"q{n}")).run_id, "no")
    clock.turn(1)
    leased = await a_leased_run(store, "fine")
    clock.turn(LEASE_US)

    due = await store.due(limit=5, runs=None)

    assert [task.run_id for task in due.tasks] == [leased.run_id]


async def test_an_ended_task_is_due_no_more(store: Store, clock: TurnedClock) -> None:
    leased = await a_leased_run(store, queue_timeout_us=1, queue_until=START)
    await commit(store, a_success(leased.run_id, 1, leased.task, leased.lease_id))
    clock.turn(LEASE_US)

    assert await due_places(store) == []


async def test_a_task_handed_out_again_waits_by_its_new_deadline(
    store: Store, clock: TurnedClock
) -> None:
    """The lease was lost; the decision sets `queue_until` anew."""
    leased = await a_leased_run(store, queue_timeout_us=SECOND, queue_until=START + SECOND)
    clock.turn(LEASE_US)
    again = replace(leased.task, attempt=2, lost=1, queue_until=clock.now() + SECOND)
    await commit(store, a_change(leased.run_id, 1, updated=((again, True),), ready=(again,)))

    assert await due_places(store) == []
    clock.turn(SECOND)
    assert await due_places(store) == [("a", Deadline.QUEUE)]


async def test_leases_of_workers_that_are_not_alive_are_abandoned(store: Store) -> None:
    leased = await a_leased_run(store)
    await commit(store, a_start(new_run_id(), a_task()))
    await store.grant(a_request("2", worker=WorkerId("worker-2")))
    await commit(store, a_start(new_run_id(), a_task(queue_timeout_us=1, queue_until=START)))

    lost = await store.abandoned(limit=10, alive=[WorkerId("worker-2")], runs=None)

    assert [(task.run_id, task.deadline) for task in lost] == [(leased.run_id, None)]
    assert len(await store.abandoned(limit=10, alive=[], runs=None)) == 2
    assert len(await store.abandoned(limit=1, alive=[], runs=None)) == 1
    only = await store.abandoned(limit=1, alive=[], runs=(leased.run_id,))
    assert [task.run_id for task in only] == [leased.run_id]
    assert await store.abandoned(limit=1, alive=[], runs=(new_run_id(),)) == ()


async def test_a_settled_run_has_nothing_due(store: Store, clock: TurnedClock) -> None:
    run_id = new_run_id()
    await commit(store, a_start(run_id, timers=(Timer(A, TimerKind.RUN, START, 1),)))
    await commit(store, a_settlement(run_id, 1, RunState.SUCCESS))
    clock.turn(SECOND)

    assert (await store.due(limit=10, runs=None)).timers == ()
