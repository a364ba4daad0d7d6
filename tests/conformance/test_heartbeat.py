"""`Store.heartbeat` and `Store.release`: what a leaseholder may do, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.store import (
    IDLE,
    LEASE_US,
    SECOND,
    START,
    WORKER,
    A,
    Leased,
    TurnedClock,
    a_beat,
    a_change,
    a_leased_run,
    a_request,
    a_snapshot,
    a_success,
    commit,
    due_places,
)

from tenuto.model.ids import LeaseId, WorkerId
from tenuto.ports.dispatch import Hint
from tenuto.ports.gateway import Load, Verdict, WorkerInfo
from tenuto.ports.reads import Reads
from tenuto.ports.store import Claims, LeaseRow, LoadRequest, Store


async def test_a_beat_extends_a_live_lease(store: Store, clock: TurnedClock) -> None:
    leased = await a_leased_run(store)
    clock.turn(4 * SECOND)

    verdicts = await _beat(store, leased)

    assert verdicts == (Verdict.OK,)
    assert (await _lease(store, leased)).lease_until == START + 4 * SECOND + LEASE_US


@pytest.mark.rule("F7.1")
async def test_a_beat_never_extends_beyond_the_attempt(store: Store, clock: TurnedClock) -> None:
    leased = await a_leased_run(store, timeout_us=12 * SECOND)
    clock.turn(5 * SECOND)

    await _beat(store, leased)

    assert (await _lease(store, leased)).lease_until == START + 12 * SECOND


async def test_only_the_tasks_own_beat_moves_its_heartbeat_deadline(
    store: Store, clock: TurnedClock
) -> None:
    leased = await a_leased_run(store, heartbeat_us=3 * SECOND)
    clock.turn(SECOND)

    await _beat(store, leased)
    assert (await _lease(store, leased)).heartbeat_until == START + 3 * SECOND

    await _beat(store, leased, alive=True)
    assert (await _lease(store, leased)).heartbeat_until == START + 4 * SECOND


async def test_a_heartbeat_deadline_that_has_passed_is_not_moved(
    store: Store, clock: TurnedClock
) -> None:
    leased = await a_leased_run(store, heartbeat_us=SECOND)
    clock.turn(SECOND)

    await _beat(store, leased, alive=True)

    assert (await _lease(store, leased)).heartbeat_until == START + SECOND


async def test_a_lease_past_its_end_cannot_be_renewed(store: Store, clock: TurnedClock) -> None:
    leased = await a_leased_run(store)
    clock.turn(LEASE_US)

    assert await _beat(store, leased) == (Verdict.STALE,)
    assert (await _lease(store, leased)).lease_until == START + LEASE_US


@pytest.mark.parametrize(
    ("columns", "verdict", "until"),
    [
        ({}, Verdict.OK, 2 * LEASE_US),
        ({"timeout_us": LEASE_US + 1}, Verdict.OK, LEASE_US + 1),
        ({"timeout_us": LEASE_US}, Verdict.STALE, LEASE_US),
        ({"total_until": START + LEASE_US}, Verdict.STALE, LEASE_US),
    ],
)
async def test_who_alone_may_end_a_lease_may_renew_it_past_its_end_but_not_past_its_attempts(
    store: Store, clock: TurnedClock, columns: dict[str, Any], verdict: Verdict, until: int
) -> None:
    leased = await a_leased_run(store, **columns)
    clock.turn(LEASE_US)
    beat = a_beat(leased.run_id, leased.lease_id)

    assert await store.heartbeat(WORKER, [beat], IDLE, lease_us=LEASE_US, lapsed=True) == (verdict,)
    assert (await _lease(store, leased)).lease_until == START + until


async def test_a_lease_that_recovery_ended_is_never_renewed(
    store: Store, clock: TurnedClock
) -> None:
    leased = await a_leased_run(store)
    clock.turn(LEASE_US)
    again = replace(leased.task, attempt=2, lost=1)
    lost = Claims(leases=((A, 1, LeaseId(leased.lease_id)),))
    await commit(store, a_change(leased.run_id, 1, claims=lost, updated=((again, True),)))
    beat = a_beat(leased.run_id, leased.lease_id)

    assert await store.heartbeat(WORKER, [beat], IDLE, lease_us=LEASE_US, lapsed=True) == (
        Verdict.STALE,
    )


@pytest.mark.rule("F7.2", "C4.3")
async def test_a_cancelled_task_is_told_so_and_not_extended(
    store: Store, clock: TurnedClock
) -> None:
    """Catalogue I-2."""
    leased = await a_leased_run(store)
    await commit(store, a_change(leased.run_id, 1, cancelled=(A,)))
    clock.turn(SECOND)

    assert await _beat(store, leased) == (Verdict.CANCELLED,)
    assert (await _lease(store, leased)).lease_until == START + LEASE_US


async def test_a_lease_that_is_not_the_workers_is_stale(store: Store) -> None:
    leased = await a_leased_run(store)
    beats = [a_beat(leased.run_id, "another"), a_beat(leased.run_id, "lease-1", "b")]

    assert await store.heartbeat(WORKER, beats, IDLE, lease_us=LEASE_US) == (
        Verdict.STALE,
        Verdict.STALE,
    )
    assert await _beat(store, leased, worker=WorkerId("worker-2")) == (Verdict.STALE,)


async def test_the_lease_of_an_ended_task_is_stale(store: Store) -> None:
    leased = await a_leased_run(store)
    await commit(store, a_success(leased.run_id, 1, leased.task, leased.lease_id))

    assert await _beat(store, leased) == (Verdict.STALE,)


async def test_verdicts_come_in_the_order_of_the_beats(store: Store) -> None:
    first, second = await a_leased_run(store, "l1"), await a_leased_run(store, "l2")
    beats = [a_beat(second.run_id, "l2"), a_beat(first.run_id, "wrong")]

    verdicts = await store.heartbeat(WORKER, beats, IDLE, lease_us=LEASE_US)

    assert verdicts == (Verdict.OK, Verdict.STALE)


async def test_two_beats_of_one_task_are_judged_apart(store: Store) -> None:
    leased = await a_leased_run(store)
    beats = [a_beat(leased.run_id, "old"), a_beat(leased.run_id, "lease-1")]

    verdicts = await store.heartbeat(WORKER, beats, IDLE, lease_us=LEASE_US)

    assert verdicts == (Verdict.STALE, Verdict.OK)


async def test_a_beat_notes_the_workers_load(
    store: Store, reads: Reads, clock: TurnedClock
) -> None:
    """Catalogue J15."""
    info = WorkerInfo(id=WORKER, queues=("default",), names=("work", "http"), capacity=5)
    await store.put_worker(info, "engine-1", lease_us=LEASE_US)
    clock.turn(SECOND)

    await store.heartbeat(WORKER, [], Load(busy=3, capacity=7, lag_us=11), lease_us=LEASE_US)

    (row,) = await reads.list_workers()
    assert (row.id, row.queues, row.names) == (WORKER, ("default",), ("work", "http"))
    assert (row.busy, row.capacity, row.lag_us, row.seen_at) == (3, 7, 11, START + SECOND)


async def test_a_worker_that_left_is_gone(store: Store, reads: Reads) -> None:
    info = WorkerInfo(id=WORKER, queues=(), names=(), capacity=5)
    await store.put_worker(info, "engine-1", lease_us=LEASE_US)
    await store.put_worker(info, "engine-2", lease_us=LEASE_US)

    await store.drop_worker(WORKER, "engine-2")

    assert await reads.list_workers() == ()


async def test_a_worker_that_another_process_has_taken_in_stays(store: Store, reads: Reads) -> None:
    """Its stream broke here, and it was quicker to register there than this process to see it."""
    info = WorkerInfo(id=WORKER, queues=(), names=(), capacity=5)
    await store.put_worker(info, "engine-1", lease_us=LEASE_US)
    await store.put_worker(info, "engine-2", lease_us=LEASE_US)

    await store.drop_worker(WORKER, "engine-1")

    assert [row.id for row in await reads.list_workers()] == [WORKER]


async def test_a_worker_that_missed_three_beats_is_lost_and_forgotten_after_an_hour(
    store: Store, reads: Reads, clock: TurnedClock
) -> None:
    """B14: a name that comes back is another worker; what never left must not stay for ever."""
    silent, other = (
        WorkerInfo(id=WorkerId(name), queues=(), names=(), capacity=1) for name in ("a", "b")
    )
    await store.put_worker(silent, "engine-1", lease_us=LEASE_US)
    clock.turn(LEASE_US)
    assert [row.lost for row in await reads.list_workers()] == [False]
    clock.turn(1)
    assert [row.lost for row in await reads.list_workers()] == [True]
    await store.heartbeat(silent.id, [], IDLE, lease_us=LEASE_US)
    assert [row.lost for row in await reads.list_workers()] == [False]

    clock.turn(3_600 * SECOND)
    await store.put_worker(other, "engine-1", lease_us=LEASE_US)
    assert [row.id for row in await reads.list_workers()] == ["a", "b"]
    clock.turn(1)
    await store.put_worker(other, "engine-1", lease_us=LEASE_US)
    assert [row.id for row in await reads.list_workers()] == ["b"]


async def test_a_released_task_is_offered_again_with_its_attempt(
    store: Store, reads: Reads
) -> None:
    leased = await a_leased_run(store)

    assert await store.release(WORKER, [a_beat(leased.run_id, leased.lease_id)]) == 1

    detail = await reads.get_run(leased.run_id)
    assert detail.tasks == ((leased.task, None),)
    assert detail.ready == ("a",)
    (granted,) = await store.grant(a_request("lease-2"))
    assert granted.task.attempt == 1


async def test_what_is_offered_again_can_be_named_to_others(store: Store) -> None:
    leased = await a_leased_run(store)
    beat = a_beat(leased.run_id, leased.lease_id)
    assert await store.ready_of([beat]) == ()

    await store.release(WORKER, [beat])

    task = leased.task
    assert await store.ready_of([beat, beat]) == (
        Hint(
            run_id=leased.run_id,
            place=task.place,
            queue=task.queue,
            name=task.name,
            priority=task.priority,
        ),
    )


@pytest.mark.parametrize("lease_id", ["another", "lease-1"])
async def test_only_a_standing_lease_is_released(
    store: Store, clock: TurnedClock, lease_id: str
) -> None:
    leased = await a_leased_run(store)
    if lease_id == "lease-1":
        clock.turn(LEASE_US)

    assert await store.release(WORKER, [a_beat(leased.run_id, lease_id)]) == 0
    assert (await _lease(store, leased)).lease_id == "lease-1"


async def test_of_several_leases_only_the_workers_own_are_released(
    store: Store, reads: Reads
) -> None:
    mine, other = await a_leased_run(store, "l1"), await a_leased_run(store, "l2")

    assert await store.release(WORKER, [a_beat(mine.run_id, "l1"), a_beat(other.run_id, "l1")]) == 1

    assert (await reads.get_run(mine.run_id)).ready == ("a",)
    detail = await reads.get_run(other.run_id)
    assert detail.ready == ()
    assert detail.tasks[0][1] is not None


async def test_releasing_twice_does_nothing_more(store: Store) -> None:
    leased = await a_leased_run(store)
    beats = [a_beat(leased.run_id, leased.lease_id)]

    assert [await store.release(WORKER, beats) for _ in range(2)] == [1, 0]
    assert await store.release(WORKER, []) == 0


async def test_a_released_task_of_a_paused_run_is_not_offered(store: Store, reads: Reads) -> None:
    leased = await a_leased_run(store)
    await commit(
        store,
        a_change(leased.run_id, 1, hold=True, snapshot=a_snapshot(leased.run_id, 2, paused=True)),
    )

    assert await store.release(WORKER, [a_beat(leased.run_id, leased.lease_id)]) == 1
    assert (await reads.get_run(leased.run_id)).ready == ()


async def test_a_cancelled_task_is_released_but_not_offered(store: Store, reads: Reads) -> None:
    leased = await a_leased_run(store)
    await commit(store, a_change(leased.run_id, 1, cancelled=(A,)))

    assert await store.release(WORKER, [a_beat(leased.run_id, leased.lease_id)]) == 1

    detail = await reads.get_run(leased.run_id)
    assert (detail.tasks[0][1], detail.ready) == (None, ())


async def test_waiting_for_a_worker_counts_anew_from_a_release(
    store: Store, clock: TurnedClock
) -> None:
    leased = await a_leased_run(store, queue_timeout_us=5 * SECOND, queue_until=START + 5 * SECOND)
    clock.turn(4 * SECOND)
    await store.release(WORKER, [a_beat(leased.run_id, leased.lease_id)])

    clock.turn(4 * SECOND)
    assert await due_places(store) == []

    clock.turn(SECOND)
    assert await due_places(store) == [("a", "queue_timeout")]


async def test_beats_and_reports_of_one_lease_may_race(store: Store) -> None:
    leased = [await a_leased_run(store, f"l{n}") for n in range(12)]

    async def reported(one: Leased) -> None:
        await commit(store, a_success(one.run_id, 1, one.task, one.lease_id))

    await asyncio.gather(
        *(_beat(store, one) for one in leased),
        *(reported(one) for one in leased),
        *(_beat(store, one) for one in leased),
    )

    assert {await _beat(store, one) for one in leased} == {(Verdict.STALE,)}
    loaded = await store.load(LoadRequest(tasks=tuple((one.run_id, A) for one in leased)))
    assert all(lease is None for _, lease in loaded.tasks.values())


async def _beat(
    store: Store, leased: Leased, *, alive: bool = False, worker: WorkerId = WORKER
) -> Sequence[Verdict]:
    beats = [a_beat(leased.run_id, leased.lease_id, alive=alive)]
    return await store.heartbeat(worker, beats, IDLE, lease_us=LEASE_US)


async def _lease(store: Store, leased: Leased) -> LeaseRow:
    _, lease = (await store.load(LoadRequest(tasks=((leased.run_id, A),)))).tasks[leased.run_id, A]
    assert lease is not None
    return lease
