"""What several coordinators over one store ask of it: who holds what, how far runs are, what there is to look at."""

from __future__ import annotations

from tests.support.store import (
    LEASE_US,
    SECOND,
    START,
    WORKER,
    TurnedClock,
    a_beat,
    a_change,
    a_leased_run,
    a_message,
    a_settlement,
    a_start,
    a_task,
    commit,
    new_run_id,
)

from tenuto.machine.snapshot import OpenedWait
from tenuto.model.ids import LeaseId, Place, WorkerId
from tenuto.ports.store import EagerGrant, NoticeKind, NoticeRow, Store

OTHER = WorkerId("other")
WAIT = OpenedWait(Place("w"), "approved", "k", 1, START)


async def test_the_leases_of_a_worker_are_those_that_live(store: Store, clock: TurnedClock) -> None:
    first, second = await a_leased_run(store, "lease-1"), await a_leased_run(store, "lease-2")
    beats = [a_beat(leased.run_id, leased.lease_id) for leased in (first, second)]
    assert sorted(await store.leases_of(WORKER), key=str) == sorted(beats, key=str)
    assert await store.leases_of(OTHER) == ()

    await store.release(WORKER, beats[:1])
    assert await store.leases_of(WORKER) == (beats[1],)
    clock.turn(LEASE_US)
    assert await store.leases_of(WORKER) == ()


async def test_the_lease_of_a_cancelled_task_is_its_worker_s_still(store: Store) -> None:
    """Until it lets go a run that closes waits for it (C2)."""
    leased = await a_leased_run(store)
    await commit(store, a_change(leased.run_id, 1, cancelled=(leased.task.place,)))

    [beat] = await store.leases_of(WORKER)
    assert (beat.run_id, beat.lease_id) == (leased.run_id, leased.lease_id)


async def test_progress_tells_how_far_runs_are_and_which_are_over(store: Store) -> None:
    going, over, absent = new_run_id(), new_run_id(), new_run_id()
    await commit(store, a_start(going, a_task()), a_start(over, a_task()))
    await commit(store, a_change(going, 1))
    await commit(store, a_settlement(over, 1))

    found = {each.run_id: each for each in await store.progress([going, over, absent])}

    assert found.keys() == {going, over}
    assert (found[going].seq, found[going].final) == (2, None)
    final = found[over].final
    assert final is not None
    assert (final.run_id, final.state) == (over, "success")
    assert await store.progress([]) == ()


async def test_the_pulse_tells_since_when_somebody_is_told_something(
    store: Store, clock: TurnedClock
) -> None:
    parent, child = new_run_id(), new_run_id()
    await commit(store, a_start(parent, a_task()), a_start(child, a_task()))
    assert (await store.pulse(None)).told_at is None
    clock.turn(SECOND)
    notice = NoticeRow(run_id=child, kind=NoticeKind.PAUSE, place=Place("call"), sender=parent)
    await commit(store, a_change(parent, 1, notices=(notice,)))

    assert (await store.pulse(None)).told_at == START + SECOND
    assert (await store.pulse((child,))).told_at == START + SECOND
    assert (await store.pulse((parent,))).told_at is None
    await store.quarantine(child, "a bug")
    assert (await store.pulse(None)).told_at is None


async def test_a_child_that_is_to_begin_is_a_matter_of_its_parent(store: Store) -> None:
    parent, child = new_run_id(), new_run_id()
    notice = NoticeRow(run_id=child, kind=NoticeKind.START, place=Place("call"), sender=parent)
    await commit(store, a_start(parent, a_task(), notices=(notice,)))

    assert (await store.pulse((parent,))).told_at == START
    await store.quarantine(parent, "a bug")
    assert (await store.pulse(None)).told_at is None


async def test_the_pulse_tells_of_messages_that_somebody_may_want(store: Store) -> None:
    run_id = new_run_id()
    await commit(store, a_start(run_id, a_task(), waits=(WAIT,)))
    assert (await store.pulse(None)).told_at is None
    await store.post([a_message("m0", event="else")])
    assert (await store.pulse(None)).told_at is None
    await store.post([a_message()])
    assert (await store.pulse(None)).told_at == START


async def test_the_pulse_names_the_queues_on_which_tasks_wait(store: Store) -> None:
    assert (await store.pulse(None)).queues == ()
    tasks = [a_task(place, queue=queue) for place, queue in zip("abc", "yxy", strict=True)]
    await commit(store, a_start(new_run_id(), *tasks, ready=tuple(tasks)))

    pulse = await store.pulse(None)
    assert (pulse.ready, pulse.queues) == (3, ("x", "y"))


async def test_nothing_of_a_run_that_another_put_into_quarantine_is_handed_out(
    store: Store,
) -> None:
    """Whoever decided the run last does not know of it."""
    run_id, task = new_run_id(), a_task()
    await commit(store, a_start(run_id, a_task("z")))
    await store.quarantine(run_id, "a bug")
    grant = EagerGrant(place=task.place, worker=WORKER, lease_id=LeaseId("lease-1"))

    done = await store.commit(
        [a_change(run_id, 1, created=(task,), ready=(task,), eager=(grant,))], lease_us=LEASE_US
    )

    assert (done.losers, done.granted) == (frozenset(), frozenset())
    assert await store.leases_of(WORKER) == ()
