"""The promises of `ports.gateway.TaskGateway`, whoever keeps them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.gateways import IDLE, LEASE_US, ONE, TWO, Desk, a_worker, beat, report

from tenuto.model.errors import Unavailable
from tenuto.model.ids import LeaseId, WorkerId
from tenuto.model.states import RunState
from tenuto.ports.gateway import Failed, Lease, Note, NoteKind, Success, Verdict
from tenuto.views.values import read_value

OK, STALE, CANCELLED = Verdict.OK, Verdict.STALE, Verdict.CANCELLED


async def test_only_who_is_registered_is_granted_anything(desk: Desk) -> None:
    await desk.begin()
    gateway = await desk.gateway()

    with pytest.raises(Unavailable):
        await gateway.lease(WorkerId("w-1"), 1)


async def test_a_lease_says_all_about_its_attempt(desk: Desk) -> None:
    run_id = await desk.begin(n=7)
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)

    [lease] = await gateway.lease(worker.id, 5)

    assert (lease.run_id, lease.place, lease.name, lease.queue) == (run_id, "a", "work", "default")
    assert (lease.attempt, lease.input, lease.lease_us) == (1, '{"n":7}', LEASE_US)
    assert (lease.attempt_us, lease.heartbeat_us) == (None, None)
    [(_, row)] = (await desk.side.reads.get_run(run_id)).tasks
    assert row is not None
    assert (row.lease_id, row.worker) == (lease.lease_id, worker.id)


async def test_bounds_of_an_attempt_come_with_its_lease(desk: Desk) -> None:
    await desk.begin(ONE.replace("task: work", "task: work, timeout: 4s, heartbeat_timeout: 2s"))
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)

    [lease] = await gateway.lease(worker.id, 1)

    assert (lease.attempt_us, lease.heartbeat_us) == (4_000_000, 2_000_000)


async def test_no_more_is_granted_than_was_asked_for(desk: Desk) -> None:
    for n in range(3):
        await desk.begin(n=n)
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)

    first = await gateway.lease(worker.id, 2)
    second = await gateway.lease(worker.id, 2)

    assert (len(first), len(second)) == (2, 1)


async def test_a_request_waits_for_a_task(desk: Desk) -> None:
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)

    async with asyncio.TaskGroup() as group:
        asked = group.create_task(gateway.lease(worker.id, 1))
        await asyncio.sleep(0.05)
        assert not asked.done()
        run_id = await desk.begin()

    [lease] = asked.result()
    assert lease.run_id == run_id


async def test_only_tasks_of_its_queues_and_names_are_a_workers(desk: Desk) -> None:
    await desk.begin()
    gateway = await desk.gateway()
    await gateway.register(a_worker(queues=("other",)))
    other_name = await desk.gateway("w-2")
    await other_name.register(a_worker("w-2", names=("else",)))

    async with asyncio.TaskGroup() as group:
        asked = [
            group.create_task(gateway.lease(WorkerId("w-1"), 1)),
            group.create_task(other_name.lease(WorkerId("w-2"), 1)),
        ]
        await asyncio.sleep(0.1)
        idle = not any(task.done() for task in asked)
        await gateway.leave(WorkerId("w-1"))
        await other_name.leave(WorkerId("w-2"))

    assert idle
    assert [task.result() for task in asked] == [(), ()]


async def test_a_worker_may_learn_new_names(desk: Desk) -> None:
    await desk.begin()
    gateway = await desk.gateway()
    await gateway.register(a_worker(names=("else",)))

    async with asyncio.TaskGroup() as group:
        asked = group.create_task(gateway.lease(WorkerId("w-1"), 1))
        await asyncio.sleep(0.05)
        await gateway.register(a_worker(names=("else", "work")))

    assert [lease.name for lease in asked.result()] == ["work"]


async def test_a_cancelled_request_loses_nothing(desk: Desk) -> None:
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)
    for n in range(10):
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(gateway.lease(worker.id, 1))
            await asyncio.sleep(0)
            begun = group.create_task(desk.begin(n=n))
            for _ in range(n * 3):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking, begun])

        if asking.cancelled():
            # A call ends by itself after a while, on a slow machine without any.
            async with asyncio.timeout(60):
                while not (leases := await gateway.lease(worker.id, 1)):
                    pass
            assert leases[0].attempt == 1


async def test_heartbeats_extend_leases_and_are_judged_in_order(desk: Desk) -> None:
    for n in range(3):
        await desk.begin(n=n)
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)
    first, second, third = await gateway.lease(worker.id, 3)
    desk.clock.turn(LEASE_US // 2)
    await desk.side.commands.cancel(second.run_id)

    verdicts = await gateway.heartbeat(
        worker.id,
        [beat(third), beat(second), beat(first, lease_id=LeaseId("other")), beat(first)],
        IDLE,
    )

    assert list(verdicts) == [OK, CANCELLED, STALE, OK]
    desk.clock.turn(LEASE_US * 3 // 4)
    assert list(await gateway.heartbeat(worker.id, [beat(first)], IDLE)) == [OK]


async def test_a_lease_that_ran_out_cannot_be_extended_or_reported(desk: Desk) -> None:
    """B6: as after a pause of the worker that is longer than its lease."""
    run_id = await desk.begin()
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)
    [lease] = await gateway.lease(worker.id, 1)

    desk.clock.turn(LEASE_US + 1)

    assert list(await gateway.heartbeat(worker.id, [beat(lease)], IDLE)) == [STALE]
    assert (await gateway.report(worker.id, [report(lease)], 0)).verdicts == (STALE,)
    assert await desk.state(run_id) == RunState.RUNNING


async def test_a_report_ends_the_attempt_and_may_bring_the_next_task(desk: Desk) -> None:
    run_id = await desk.begin(TWO)
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)
    [first] = await gateway.lease(worker.id, 1)

    answer = await gateway.report(worker.id, [report(first, Success(output='{"x":"é"}'))], 1)

    assert answer.verdicts == (OK,)
    [second] = answer.leases
    assert (second.run_id, second.place, second.input) == (run_id, "b", '{"n":{"x":"é"}}')
    last = await gateway.report(worker.id, [report(second)], 0)
    assert (last.verdicts, last.leases) == ((OK,), ())
    await desk.until(run_id, RunState.SUCCESS)


async def test_a_report_that_comes_twice_changes_nothing(desk: Desk) -> None:
    """B1. Catalogue A5."""
    run_id = await desk.begin(TWO)
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)
    [lease] = await gateway.lease(worker.id, 1)
    await gateway.report(worker.id, [report(lease)], 0)
    events = await desk.events(run_id)

    again = await gateway.report(worker.id, [report(lease, Success(output="2"))], 0)

    assert again.verdicts == (OK,)
    assert await desk.events(run_id) == events


async def test_a_late_report_of_an_earlier_attempt_is_stale(desk: Desk) -> None:
    """B2."""
    await desk.begin()
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)
    [first] = await gateway.lease(worker.id, 1)
    await gateway.release(worker.id, [beat(first)])
    [second] = await gateway.lease(worker.id, 1)

    answer = await gateway.report(worker.id, [report(first), report(second)], 0)

    assert answer.verdicts == (STALE, OK)


async def test_a_report_about_nothing_known_is_stale(desk: Desk) -> None:
    """B19."""
    run_id = await desk.begin()
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)
    [lease] = await gateway.lease(worker.id, 1)
    await desk.side.commands.cancel(run_id)
    gone = report(lease, run_id=type(run_id)("01890a5d-ac96-774b-bcce-b302099a8057"))

    answer = await gateway.report(worker.id, [gone], 0)

    assert answer.verdicts == (STALE,)


async def test_a_failure_is_stored_as_it_was_said(desk: Desk) -> None:
    run_id = await desk.begin()
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)
    [lease] = await gateway.lease(worker.id, 1)
    failed = Failed(
        code="card_declined", message="no “funds”", details='{"left":3}', retryable=False
    )

    assert (await gateway.report(worker.id, [report(lease, failed)], 0)).verdicts == (OK,)

    await desk.until(run_id, RunState.FAILED)
    row = (await desk.side.reads.get_run(run_id)).run
    error: Any = await read_value(desk.side.reads, run_id, row.error)
    assert (error["code"], error["message"], error["details"]) == (
        "card_declined",
        "no “funds”",
        {"left": 3},
    )


async def test_rules_of_retry_see_what_a_failure_says_of_itself(desk: Desk) -> None:
    giving_up = "task: work, retry: {max_attempts: 9, give_up_on: [LookupError]}"
    run_id = await desk.begin(ONE.replace("task: work", giving_up))
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)
    [lease] = await gateway.lease(worker.id, 1)
    failed = Failed(code="failed", message="m", classes=("KeyError", "LookupError"))

    await gateway.report(worker.id, [report(lease, failed)], 0)

    await desk.until(run_id, RunState.FAILED)


async def test_notes_are_kept_once(desk: Desk) -> None:
    run_id = await desk.begin()
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)
    [lease] = await gateway.lease(worker.id, 1)
    said = [
        Note(
            run_id=run_id,
            place=lease.place,
            attempt=1,
            number=number,
            kind=kind,
            text=f"line {number} “é”",
            age_us=5,
        )
        for number, kind in enumerate((NoteKind.STDOUT, NoteKind.STDERR, NoteKind.LOG), 1)
    ]

    await gateway.note(worker.id, said)
    await gateway.note(worker.id, said[1:])

    rows = await desk.side.reads.notes(run_id)
    assert [(row.number, row.kind, row.text) for row in rows] == [
        (note.number, note.kind, note.text) for note in said
    ]


async def test_a_released_task_is_handed_out_again_at_once_and_burns_no_attempt(desk: Desk) -> None:
    """B15."""
    await desk.begin()
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)
    [first] = await gateway.lease(worker.id, 1)

    await gateway.release(worker.id, [beat(first)])
    await gateway.release(worker.id, [beat(first)])  # again, for its answer was lost

    [second] = await gateway.lease(worker.id, 1)
    assert second.attempt == 1
    assert second.lease_id != first.lease_id


async def test_work_of_a_dead_process_is_handed_out_again_at_once(desk: Desk) -> None:
    run_id = await desk.begin()
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)
    [first] = await gateway.lease(worker.id, 1)

    await gateway.lose(worker.id, [beat(first)])
    await gateway.lose(worker.id, [beat(first)])

    [second] = await gateway.lease(worker.id, 1)
    assert second.lease_id != first.lease_id
    assert (await desk.events(run_id)).count("LeaseExpired") == 1


async def test_a_worker_that_leaves_gets_nothing_more(desk: Desk) -> None:
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)

    async with asyncio.TaskGroup() as group:
        asked = group.create_task(gateway.lease(worker.id, 1))
        await asyncio.sleep(0.02)
        await gateway.leave(worker.id)

    assert asked.result() == ()
    with pytest.raises(Unavailable):
        await gateway.lease(worker.id, 1)


async def test_what_a_worker_does_not_hold_is_given_back_when_it_says_so(desk: Desk) -> None:
    """B5: the answer that brought a lease was lost."""
    for n in range(2):
        await desk.begin(n=n)
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)
    kept, lost = await gateway.lease(worker.id, 2)
    if desk.remote:
        await desk.running.kill(gateway)
        gateway = await desk.gateway()

    await gateway.register(worker, [beat(kept)])

    [again] = await gateway.lease(worker.id, 2)
    assert (again.run_id, again.attempt) == (lost.run_id, 1)
    assert list(await gateway.heartbeat(worker.id, [beat(kept), beat(lost)], IDLE)) == [OK, STALE]


async def test_leases_bind_to_their_worker(desk: Desk) -> None:
    """S21, B14: nobody can extend, release, lose or report what another worker holds."""
    run_id = await desk.begin()
    gateway = await desk.gateway()
    worker, thief = a_worker(), a_worker("w-2")
    await gateway.register(worker)
    [lease] = await gateway.lease(worker.id, 1)
    stolen = await desk.gateway("w-2")
    await stolen.register(thief)

    assert list(await stolen.heartbeat(thief.id, [beat(lease)], IDLE)) == [STALE]
    await stolen.release(thief.id, [beat(lease)])
    await stolen.lose(thief.id, [beat(lease)])
    assert (await stolen.report(thief.id, [report(lease)], 0)).verdicts == (STALE,)

    assert await desk.state(run_id) == RunState.RUNNING
    assert (await gateway.report(worker.id, [report(lease)], 0)).verdicts == (OK,)


async def test_heartbeats_and_reports_side_by_side_end_all_runs_once(desk: Desk) -> None:
    """B20."""
    runs = [await desk.begin(n=n) for n in range(20)]
    gateway = await desk.gateway()
    worker = a_worker(capacity=20)
    await gateway.register(worker)
    leases: list[Lease] = []
    while len(leases) < 20:
        leases += await gateway.lease(worker.id, 20 - len(leases))

    async def beat_on() -> None:
        for _ in range(20):
            await gateway.heartbeat(worker.id, [beat(lease) for lease in leases], IDLE)

    async with asyncio.TaskGroup() as group:
        group.create_task(beat_on())
        answers = [
            group.create_task(gateway.report(worker.id, [report(lease)], 0)) for lease in leases
        ]

    assert {answer.result().verdicts for answer in answers} == {(OK,)}
    for run_id in runs:
        await desk.until(run_id, RunState.SUCCESS)
        assert (await desk.events(run_id)).count("AttemptSucceeded") == 1


async def test_an_outage_of_the_store_is_said_and_passes(desk: Desk) -> None:
    gateway = await desk.gateway()
    worker = a_worker()
    await gateway.register(worker)
    run_id = await desk.begin()
    [lease] = await gateway.lease(worker.id, 1)
    await desk.side.store.close()

    with pytest.raises(Unavailable):
        await gateway.heartbeat(worker.id, [beat(lease)], IDLE)
    assert run_id == lease.run_id
