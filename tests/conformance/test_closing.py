"""Closing runs: what they wait for, what was handed out, and what a reopened one finds."""

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
    a_snapshot,
    a_start,
    a_success,
    a_task,
    commit,
    due_places,
    new_run_id,
)

from tenuto.machine.actions import ShiftTimers
from tenuto.machine.events import TimerKind
from tenuto.machine.snapshot import OpenedWait, Timer
from tenuto.model.ids import RUN_PLACE, LeaseId, Place, RunId, WorkerId
from tenuto.model.states import RunState, TaskState
from tenuto.ports.reads import Reads
from tenuto.ports.store import Change, Claims, EagerGrant, LoadRequest, Store

B = Place("b")


def a_close(run_id: RunId, expected: int, **change: Any) -> Change:
    """The outcome is decided, and the run drains."""
    seq = expected + 1
    values: dict[str, Any] = {
        "close": True,
        "snapshot": a_snapshot(run_id, seq, state=RunState.CLOSING),
        "timers": (Timer(RUN_PLACE, TimerKind.DRAIN, START, seq),),
    }
    return a_change(run_id, expected, **(values | change))


# -- draining -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("C2.4", "C2.5", "C4.3")
async def test_C2_a_run_has_drained_when_its_last_lease_is_over(
    store: Store, clock: TurnedClock
) -> None:
    leased = await a_leased_run(store)
    await commit(store, a_close(leased.run_id, 1))

    assert (await store.due(limit=9, runs=None)).timers == ()
    pulse = await store.pulse(None)
    assert pulse.timers_at == START + LEASE_US, "nothing is looked for in between"

    clock.turn(LEASE_US)
    ((run_id, timer),) = (await store.due(limit=9, runs=None)).timers
    assert (run_id, timer.kind, timer.version) == (leased.run_id, TimerKind.DRAIN, 2)
    assert (await store.pulse(None)).timers_at == clock.now()
    assert (await store.pulse(None, after=clock.now() - 1)).timers_at == clock.now()
    assert (await store.pulse(None, after=clock.now())).timers_at is None, "it was due by then"


@pytest.mark.rule("C2.5")
async def test_C2_a_run_without_leases_has_drained_at_once(store: Store) -> None:
    """Whatever the timer's moment."""
    run_id = new_run_id()
    await commit(store, a_start(run_id, a_task()))
    ahead = Timer(RUN_PLACE, TimerKind.DRAIN, START + 9 * SECOND, 2)

    await commit(store, a_close(run_id, 1, timers=(ahead,)))

    assert (await store.due(limit=9, runs=None)).timers == ((run_id, ahead),)


@pytest.mark.rule("C2.5")
@pytest.mark.parametrize("end", ["release", "report"])
async def test_C2_a_lease_that_ends_early_ends_the_drain(store: Store, end: str) -> None:
    leased = await a_leased_run(store)
    await commit(store, a_close(leased.run_id, 1))

    if end == "release":
        assert await store.release(WORKER, [a_beat(leased.run_id, leased.lease_id)]) == 1
    else:
        late = replace(leased.task, state=TaskState.CANCELLED, late=True)
        await commit(
            store,
            a_success(
                leased.run_id,
                2,
                leased.task,
                leased.lease_id,
                updated=((late, True),),
                snapshot=a_snapshot(leased.run_id, 3, state=RunState.CLOSING),
            ),
        )

    assert [run for run, _ in (await store.due(limit=9, runs=None)).timers] == [leased.run_id]


async def test_C2_leases_of_other_runs_are_not_waited_for(store: Store) -> None:
    await a_leased_run(store, "other")
    run_id = new_run_id()
    await commit(store, a_start(run_id, a_task()))
    await commit(store, a_close(run_id, 1))

    assert len((await store.due(limit=9, runs=(run_id,))).timers) == 1
    assert (await store.due(limit=9, runs=(new_run_id(),))).timers == ()
    await store.quarantine(run_id, "cannot be decided")
    assert (await store.due(limit=9, runs=None)).timers == ()
    assert (await store.pulse(None)).timers_at is None


async def test_C2_a_task_that_was_given_back_while_its_run_closes_is_not_offered(
    store: Store, reads: Reads
) -> None:
    leased = await a_leased_run(store)
    await commit(store, a_close(leased.run_id, 1))
    beat = a_beat(leased.run_id, leased.lease_id)

    assert [await store.release(WORKER, [beat]) for _ in range(2)] == [1, 0]

    detail = await reads.get_run(leased.run_id)
    assert (detail.ready, detail.tasks[0][1]) == ((), None)
    assert await store.grant(a_request("again")) == ()


async def test_C3_a_handler_of_a_closing_run_is_work_like_any_other(
    store: Store, reads: Reads
) -> None:
    run_id, handler = new_run_id(), a_task("a!undo")
    await commit(store, a_start(run_id, a_task()))
    await commit(store, a_close(run_id, 1))
    closing = a_snapshot(run_id, 3, state=RunState.CLOSING)
    drained = Claims(timers=((RUN_PLACE, TimerKind.DRAIN, 2),))
    await commit(
        store,
        a_change(
            run_id,
            2,
            snapshot=closing,
            claims=drained,
            created=(handler,),
            ready=(handler,),
            payloads=a_start(run_id, handler).payloads,
        ),
    )

    (granted,) = await store.grant(a_request("lease-1"))
    assert granted.task.place == "a!undo"
    await store.release(WORKER, [a_beat(run_id, "lease-1", "a!undo")])
    assert (await reads.get_run(run_id)).ready == ("a!undo",)


async def test_C2_a_closing_run_keeps_the_timers_that_it_sets(store: Store, reads: Reads) -> None:
    run_id = new_run_id()
    old = (Timer(A, TimerKind.TOTAL, START, 1), Timer(RUN_PLACE, TimerKind.RUN, START, 1))
    wait = OpenedWait(Place("w"), "approved", "k", 1, START)
    await commit(store, a_start(run_id, a_task(), timers=old, waits=(wait,)))
    new = (
        Timer(RUN_PLACE, TimerKind.DRAIN, START, 2),
        Timer(RUN_PLACE, TimerKind.CLOSING, START + SECOND, 2),
    )

    await commit(store, a_close(run_id, 1, timers=new))

    detail = await reads.get_run(run_id)
    assert (set(detail.timers), detail.waits) == (set(new), ())
    assert detail.run.state == "closing"


# -- what was handed out ------------------------------------------------------------------------------------------


@pytest.mark.rule("C2.5", "C3.3")
async def test_C3_what_was_handed_out_is_known(store: Store) -> None:
    run_id = new_run_id()
    tasks = (a_task("granted"), a_task("eager"), a_task("never"), a_task("backed off"))
    call = a_task("call", child=new_run_id())
    eager = EagerGrant(place=Place("eager"), worker=WORKER, lease_id=LeaseId("eager"))
    await commit(
        store,
        a_start(
            run_id,
            *tasks,
            call,
            a_task("later call", state=TaskState.RETRY),
            ready=tasks[:2],
            eager=(eager,),
        ),
    )
    await store.grant(a_request("lease-1"))
    later = a_task("later call", child=new_run_id())
    await commit(store, a_change(run_id, 1, updated=((later, False),)))

    assert await store.started(run_id) == ("call", "eager", "granted", "later call")

    ended = tuple((replace(t, state=TaskState.CANCELLED, child=None), True) for t in (call, later))
    await commit(store, a_change(run_id, 2, close=True, updated=ended))
    assert await store.started(run_id) == ("call", "eager", "granted", "later call")
    assert await store.started(new_run_id()) == ()


async def test_C3_work_that_a_worker_gave_back_may_have_begun(store: Store) -> None:
    leased = await a_leased_run(store)
    beat = a_beat(leased.run_id, leased.lease_id)

    await store.release(WORKER, [beat])

    assert await store.started(leased.run_id) == ("a",)


async def test_C3_a_lease_that_came_back_before_anybody_began_was_not_handed_out(
    store: Store,
) -> None:
    leased = await a_leased_run(store)
    for _ in range(2):
        await store.release(WORKER, [a_beat(leased.run_id, leased.lease_id)], begun=False)
    assert await store.started(leased.run_id) == ()

    await store.grant(a_request("lease-2"))
    await store.release(WORKER, [a_beat(leased.run_id, "lease-2")])
    await store.grant(a_request("lease-3"))
    await store.release(WORKER, [a_beat(leased.run_id, "lease-3")], begun=False)
    assert await store.started(leased.run_id) == ("a",), "it was, once"


# -- reopened -----------------------------------------------------------------------------------------------------


async def _reopened(store: Store, clock: TurnedClock, **change: Any) -> RunId:
    """At seq 3: the task was leased, cancelled, and is pending again under its old lease."""
    leased = await a_leased_run(store)
    await commit(store, a_change(leased.run_id, 1, close=True))
    clock.turn(SECOND)
    again = replace(leased.task, spent=1)
    done = await store.commit(
        [
            a_change(
                leased.run_id,
                2,
                reopen=True,
                updated=((again, False),),
                ready=(again,),
                snapshot=a_snapshot(leased.run_id, 3, epoch=2),
                **change,
            )
        ],
        lease_us=LEASE_US,
    )
    assert (done.losers, done.granted) == (frozenset(), frozenset())
    return leased.run_id


@pytest.mark.rule("R1.8")
@pytest.mark.parametrize("eager", [False, True])
async def test_R1_a_task_that_is_still_leased_is_not_handed_out_again(
    store: Store, reads: Reads, clock: TurnedClock, eager: bool
) -> None:
    grant = EagerGrant(place=A, worker=WorkerId("other"), lease_id=LeaseId("eager"))

    run_id = await _reopened(store, clock, eager=(grant,) if eager else ())

    assert await store.grant(a_request("lease-2")) == ()
    detail = await reads.get_run(run_id)
    assert detail.tasks[0][1] is not None
    assert detail.tasks[0][1].lease_id == "lease-1"
    assert (await store.pulse(None)).ready == 0, "nobody is woken for it"


@pytest.mark.rule("R1.8")
async def test_R1_its_report_counts(store: Store, clock: TurnedClock) -> None:
    run_id = await _reopened(store, clock)

    await commit(store, a_success(run_id, 3, a_task(spent=1), "lease-1"))

    loaded = await store.load(LoadRequest(tasks=((run_id, A),)))
    assert loaded.tasks[run_id, A][0].state == "success"


@pytest.mark.rule("R1.8")
async def test_R1_it_is_offered_once_when_the_old_lease_has_expired(
    store: Store, reads: Reads, clock: TurnedClock
) -> None:
    run_id = await _reopened(store, clock)
    clock.turn(LEASE_US)
    assert await due_places(store) == [("a", None)]
    lost = a_task(attempt=2, lost=1, spent=1)

    await commit(
        store,
        a_change(
            run_id,
            3,
            claims=Claims(leases=((A, 1, LeaseId("lease-1")),)),
            updated=((lost, True),),
            ready=(lost,),
        ),
    )

    assert (await reads.get_run(run_id)).ready == ("a",)
    assert len(await store.grant(a_request("lease-2", "lease-3"))) == 1


async def test_R1_it_is_offered_once_when_the_old_lease_was_given_back(
    store: Store, reads: Reads, clock: TurnedClock
) -> None:
    run_id = await _reopened(store, clock)

    await store.release(WORKER, [a_beat(run_id, "lease-1")])

    assert (await reads.get_run(run_id)).ready == ("a",)
    assert len(await store.grant(a_request("lease-2", "lease-3"))) == 1


async def test_an_eager_grant_of_a_task_whose_lease_ends_in_the_same_change_stands(
    store: Store,
) -> None:
    leased = await a_leased_run(store)
    again = replace(leased.task, attempt=2, lost=1)
    grant = EagerGrant(place=A, worker=WORKER, lease_id=LeaseId("lease-2"))

    done = await store.commit(
        [
            a_change(
                leased.run_id,
                1,
                claims=Claims(leases=((A, 1, LeaseId("lease-1")),)),
                updated=((again, True),),
                ready=(again,),
                eager=(grant,),
            )
        ],
        lease_us=LEASE_US,
    )

    assert done.granted == {(leased.run_id, A)}


# -- frozen timers ------------------------------------------------------------------------------------------------


@pytest.mark.rule("C6.7")
async def test_C6_frozen_timers_are_later_by_as_much_as_the_pause_was_long(
    store: Store, reads: Reads
) -> None:
    run_id, other = new_run_id(), new_run_id()
    kinds = (TimerKind.BACKOFF, TimerKind.RUN, TimerKind.DRAIN, TimerKind.CONTINUE)
    timers = tuple(Timer(A, kind, START + SECOND, 1) for kind in kinds)
    until = Timer(Place("until"), TimerKind.WAIT, START + SECOND, 1)
    open_, final = a_task("a", total_until=START + 9), a_task("b", total_until=START + 9)
    final = replace(final, state=TaskState.DEAD)
    leased = a_task("c", total_until=START + 5 * SECOND)
    await commit(
        store,
        a_start(run_id, open_, final, leased, timers=(*timers, until), ready=(leased,)),
        a_start(other, a_task(), timers=(until,), ready=()),
    )
    (granted,) = await store.grant(a_request("lease-1"))
    new = Timer(RUN_PLACE, TimerKind.CLOSING, START + SECOND, 2)

    await commit(
        store,
        a_change(
            run_id,
            1,
            shift=ShiftTimers(by_us=7, version=2, but=(until.place,)),
            timers=(new,),
            release_at=START,
        ),
    )

    detail = await reads.get_run(run_id)
    assert {(t.kind, t.due_at - START - SECOND, t.version) for t in detail.timers} == {
        (TimerKind.BACKOFF, 7, 2),
        (TimerKind.RUN, 7, 2),
        (TimerKind.DRAIN, 0, 1),
        (TimerKind.CONTINUE, 0, 1),
        (TimerKind.WAIT, 0, 1),
        (TimerKind.CLOSING, 0, 2),
    }
    ends = {task.place: (task.total_until or 0) - START for task, _ in detail.tasks}
    assert ends == {"a": 16, "b": 9, "c": 5 * SECOND + 7}
    leases = {task.place: lease for task, lease in detail.tasks}
    assert leases[Place("c")] == granted.lease, "an attempt under way keeps its clocks"
    assert (await reads.get_run(other)).timers == (until,)
    assert detail.ready == ("a",)


@pytest.mark.rule("C7.2")
async def test_C6_a_shifted_timer_cannot_be_claimed_as_it_was(store: Store) -> None:
    run_id = new_run_id()
    await commit(store, a_start(run_id, timers=(Timer(A, TimerKind.WAIT, START, 1),)))
    await commit(store, a_change(run_id, 1, shift=ShiftTimers(by_us=7, version=2)))

    early = a_change(run_id, 2, claims=Claims(timers=((A, TimerKind.WAIT, 1),)))

    assert (await store.commit([early], lease_us=LEASE_US)).losers == {run_id}
