"""`Store.commit`: whole changes or nothing, guarded by seq and claims."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.store import (
    LEASE_US,
    SECOND,
    START,
    WORKER,
    A,
    TurnedClock,
    a_change,
    a_leased_run,
    a_message,
    a_request,
    a_settlement,
    a_snapshot,
    a_start,
    a_success,
    a_task,
    an_event,
    an_input,
    commit,
    new_run_id,
    seq_of,
)

from tenuto.machine.events import TimerKind
from tenuto.machine.snapshot import OpenedWait, Timer
from tenuto.model.errors import InvariantViolated
from tenuto.model.ids import LeaseId, MessageId, Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import RunState, TaskState
from tenuto.ports.reads import Reads
from tenuto.ports.store import Change, Claims, EagerGrant, LoadRequest, Store, new_lease

STRANGE = 'quotes " and \\ and \n and \u2028 and 🎼 and \\u0000'


async def test_a_started_run_reads_back_as_written(store: Store) -> None:
    run_id, task = new_run_id(), a_task(timeout_us=5, heartbeat_us=6, queue_timeout_us=7, lost=2)
    start = a_start(run_id, task, payloads=(an_input("a", text=f'"{STRANGE}"'),))

    await commit(store, start)

    key = PayloadKey(A, PayloadKind.INPUT)
    loaded = await store.load(
        LoadRequest(runs=(run_id,), tasks=((run_id, A),), payloads=((run_id, key),))
    )
    row, snapshot = loaded.runs[run_id]
    assert snapshot == start.snapshot
    assert (row.workflow, row.state, row.key, row.created_at) == ("order", "running", None, START)
    assert loaded.tasks == {(run_id, A): (task, None)}
    assert loaded.payloads == {(run_id, key): f'"{STRANGE}"'}
    assert loaded.now == START


async def test_unknown_keys_are_absent_from_what_load_brings(store: Store) -> None:
    run_id = new_run_id()

    loaded = await store.load(
        LoadRequest(
            runs=(run_id,),
            tasks=((run_id, A),),
            timers=((run_id, A, TimerKind.WAIT),),
            waits=((run_id, A),),
            payloads=((run_id, PayloadKey(A, PayloadKind.INPUT)),),
            mailbox=(("default", "approved", "k", None),),
        )
    )

    assert not any(
        (loaded.runs, loaded.tasks, loaded.timers, loaded.waits, loaded.payloads, loaded.mailbox)
    )


async def test_a_change_that_expects_another_seq_loses_and_writes_nothing(
    store: Store, reads: Reads
) -> None:
    run_id = new_run_id()
    await commit(store, a_start(run_id, a_task()))
    await commit(store, a_change(run_id, 1))

    done = await store.commit(
        [a_change(run_id, 1, created=(a_task("b"),), ready=(a_task("b"),))], lease_us=LEASE_US
    )

    assert done.losers == {run_id}
    detail = await reads.get_run(run_id)
    assert detail.snapshot.seq == 2
    assert [task.place for task, _ in detail.tasks] == ["a"]
    assert detail.ready == ("a",)
    assert [event.seq for event in await reads.history(run_id)] == [1, 2]


async def test_a_change_of_a_run_that_does_not_exist_loses(store: Store) -> None:
    run_id = new_run_id()

    done = await store.commit([a_change(run_id, 3)], lease_us=LEASE_US)

    assert done.losers == {run_id}
    assert await seq_of(store, run_id) == 0


async def test_a_run_cannot_be_started_twice(store: Store) -> None:
    run_id = new_run_id()
    await commit(store, a_start(run_id, a_task()))

    done = await store.commit([a_start(run_id, a_task())], lease_us=LEASE_US)

    assert done.losers == {run_id}


async def test_losers_leave_their_neighbours_alone(store: Store) -> None:
    late, fine = new_run_id(), new_run_id()
    await commit(store, a_start(late, a_task()), a_start(fine, a_task()))

    done = await store.commit([a_change(fine, 1), a_change(late, 7)], lease_us=LEASE_US)

    assert done.losers == {late}
    assert (await seq_of(store, late), await seq_of(store, fine)) == (1, 2)


@pytest.mark.parametrize(
    "claims",
    [
        Claims(leases=((A, 1, LeaseId("somebody-else")),)),
        Claims(leases=((A, 2, LeaseId("lease-1")),)),
        Claims(leases=((Place("b"), 1, LeaseId("lease-1")),)),
        Claims(unleased=((A, 1),)),
        Claims(timers=((A, TimerKind.WAIT, 2),)),
        Claims(timers=((A, TimerKind.TOTAL, 1),)),
        Claims(waits=((Place("w"), 2),)),
        Claims(waits=((A, 1),)),
        Claims(messages=(MessageId("used"),)),
        Claims(messages=(MessageId("unknown"),)),
    ],
    ids=str,
)
async def test_a_claim_that_no_longer_stands_makes_a_loser(
    store: Store, reads: Reads, claims: Claims
) -> None:
    """Catalogue B11, H4, H11."""
    leased = await _a_run_with_everything(store)
    before = await reads.get_run(leased)

    done = await store.commit([a_change(leased, 2, claims=claims, close=True)], lease_us=LEASE_US)

    assert done.losers == {leased}
    assert await reads.get_run(leased) == before


async def test_claims_that_stand_are_used_up(store: Store, reads: Reads) -> None:
    """Catalogue H3."""
    run_id = await _a_run_with_everything(store)
    claims = Claims(
        leases=((A, 1, LeaseId("lease-1")),),
        unleased=((Place("b"), 1),),
        timers=((A, TimerKind.WAIT, 1),),
        waits=((Place("w"), 1),),
        messages=(MessageId("m1"),),
    )

    await commit(store, a_change(run_id, 2, claims=claims))

    assert (await reads.get_run(run_id)).timers == ()
    again = await store.commit(
        [a_change(run_id, 3, claims=Claims(messages=(MessageId("m1"),)))], lease_us=LEASE_US
    )
    assert again.losers == {run_id}


async def test_a_claimed_timer_may_be_set_anew_by_the_same_change(
    store: Store, reads: Reads
) -> None:
    run_id = await _a_run_with_everything(store)
    anew = Timer(A, TimerKind.WAIT, START + 9, 3)

    await commit(
        store,
        a_change(run_id, 2, claims=Claims(timers=((A, TimerKind.WAIT, 1),)), timers=(anew,)),
    )

    assert (await reads.get_run(run_id)).timers == (anew,)


@pytest.mark.rule("W6.2")
async def test_two_changes_that_claim_one_message_do_not_both_win(store: Store) -> None:
    runs = [new_run_id(), new_run_id()]
    await commit(store, *(a_start(run, a_task()) for run in runs))
    await store.post([a_message()])

    done = await store.commit(
        [a_change(run, 1, claims=Claims(messages=(MessageId("m1"),))) for run in runs],
        lease_us=LEASE_US,
    )

    assert done.losers == {runs[1]}


async def test_updating_a_task_that_ends_its_lease_clears_the_lease_columns(store: Store) -> None:
    leased = await a_leased_run(store)

    await commit(store, a_success(leased.run_id, 1, leased.task, leased.lease_id))

    loaded = await store.load(LoadRequest(tasks=((leased.run_id, A),)))
    task, lease = loaded.tasks[leased.run_id, A]
    assert task == replace(
        leased.task, state=TaskState.SUCCESS, ended_lease=LeaseId(leased.lease_id)
    )
    assert lease is None


async def test_updating_a_task_may_keep_its_lease(store: Store) -> None:
    leased = await a_leased_run(store)

    await commit(
        store, a_change(leased.run_id, 1, updated=((replace(leased.task, lost=4), False),))
    )

    loaded = await store.load(LoadRequest(tasks=((leased.run_id, A),)))
    task, lease = loaded.tasks[leased.run_id, A]
    assert task.lost == 4
    assert lease is not None
    assert lease.lease_id == leased.lease_id


async def test_cancelling_keeps_the_lease_and_withdraws_the_offer(
    store: Store, reads: Reads
) -> None:
    leased = await a_leased_run(store)
    await commit(
        store,
        a_change(
            leased.run_id,
            1,
            created=(a_task("b"),),
            ready=(a_task("b"),),
            payloads=(an_input("b", 2),),
        ),
    )

    await commit(store, a_change(leased.run_id, 2, cancelled=(A, Place("b"))))

    detail = await reads.get_run(leased.run_id)
    assert [task.state for task, _ in detail.tasks] == ["cancelled", "cancelled"]
    assert [lease is not None for _, lease in detail.tasks] == [True, False]
    assert detail.ready == ()


async def test_cancelling_a_final_task_changes_nothing(store: Store, reads: Reads) -> None:
    leased = await a_leased_run(store)
    await commit(store, a_success(leased.run_id, 1, leased.task, leased.lease_id))

    await commit(store, a_change(leased.run_id, 2, cancelled=(A,)))

    assert (await reads.get_run(leased.run_id)).tasks[0][0].state == "success"


async def test_clearing_all_timers_of_a_place_spares_other_places(
    store: Store, reads: Reads
) -> None:
    run_id = new_run_id()
    kept = Timer(Place("b"), TimerKind.WAIT, START + 3, 1)
    timers = (Timer(A, TimerKind.WAIT, START, 1), Timer(A, TimerKind.TOTAL, START + 1, 1), kept)
    await commit(store, a_start(run_id, a_task(), timers=timers))

    await commit(store, a_change(run_id, 1, cleared=((A, None),)))

    assert (await reads.get_run(run_id)).timers == (kept,)


async def test_setting_a_timer_replaces_the_one_of_its_kind(store: Store) -> None:
    run_id = new_run_id()
    await commit(store, a_start(run_id, timers=(Timer(A, TimerKind.WAIT, START, 1),)))
    anew = Timer(A, TimerKind.WAIT, START + 5, 2)

    await commit(store, a_change(run_id, 1, timers=(anew,)))

    loaded = await store.load(LoadRequest(timers=((run_id, A, TimerKind.WAIT),)))
    assert loaded.timers == {(run_id, A, TimerKind.WAIT): anew}


@pytest.mark.rule("C6.3")
async def test_pause_holds_open_tasks_and_withdraws_their_offers(
    store: Store, reads: Reads
) -> None:
    run_id = new_run_id()
    open_task = a_task("a", queue_timeout_us=SECOND, queue_until=START + SECOND)
    final = a_task("b", state=TaskState.DEAD)
    await commit(store, a_start(run_id, open_task, final))

    await commit(store, a_change(run_id, 1, hold=True, snapshot=a_snapshot(run_id, 2, paused=True)))

    detail = await reads.get_run(run_id)
    assert [(task.held, task.queue_until) for task, _ in detail.tasks] == [
        (True, None),
        (False, None),
    ]
    assert detail.ready == ()
    assert detail.run.paused


async def test_resume_offers_again_what_nobody_holds(store: Store, reads: Reads) -> None:
    leased = await a_leased_run(store)
    waiting = a_task("b", queue_timeout_us=SECOND)
    backing_off = a_task("c", state=TaskState.RETRY)
    await commit(
        store,
        a_change(
            leased.run_id,
            1,
            created=(waiting, backing_off),
            ready=(waiting,),
            hold=True,
            snapshot=a_snapshot(leased.run_id, 2, paused=True),
        ),
    )

    await commit(store, a_change(leased.run_id, 2, release_at=START + 3))

    detail = await reads.get_run(leased.run_id)
    assert detail.ready == ("b",)
    assert not detail.run.paused
    assert {task.place: task.queue_until for task, _ in detail.tasks} == {
        "a": None,
        "b": START + 3 + SECOND,
        "c": None,
    }


async def test_closing_leaves_no_work_rows_behind(store: Store, reads: Reads) -> None:
    """Catalogue H2."""
    run_id = await _a_run_with_everything(store)

    await commit(
        store,
        a_change(run_id, 2, close=True, snapshot=a_snapshot(run_id, 3, state=RunState.CLOSING)),
    )

    detail = await reads.get_run(run_id)
    assert (detail.timers, detail.waits, detail.ready) == ((), (), ())
    assert {task.state for task, _ in detail.tasks} == {"cancelled"}
    assert detail.tasks[0][1] is not None, "the lease stays until its worker hears of it"
    assert detail.run.state == "closing"


@pytest.mark.parametrize("state", [RunState.SUCCESS, RunState.FAILED, RunState.TIMED_OUT])
async def test_settling_leaves_no_work_rows_behind_and_shows_the_result(
    store: Store, reads: Reads, state: RunState
) -> None:
    run_id = await _a_run_with_everything(store)

    await commit(store, a_settlement(run_id, 2, state))

    detail = await reads.get_run(run_id)
    assert (detail.timers, detail.waits, detail.ready) == ((), (), ())
    assert (detail.run.state, detail.run.ended_at) == (state, START)
    assert (detail.run.error is None) == (state is RunState.SUCCESS)


async def test_a_run_may_start_and_end_in_one_change(store: Store, reads: Reads) -> None:
    run_id = new_run_id()
    ending = a_settlement(run_id, 0)

    await commit(
        store,
        a_start(
            run_id,
            snapshot=a_snapshot(run_id, 2, state=RunState.SUCCESS),
            events=(an_event(1), an_event(2)),
            settle=ending.settle,
        ),
    )

    assert (await reads.get_run(run_id)).run.state == "success"


async def test_an_eager_grant_leases_instead_of_offering(store: Store, reads: Reads) -> None:
    leased = await a_leased_run(store)
    created, old = a_task("b", input_seq=2, timeout_us=SECOND), a_task("c", input_seq=2)
    await commit(store, a_change(leased.run_id, 1, created=(old,)))

    done = await store.commit(
        [
            a_change(
                leased.run_id,
                2,
                created=(created,),
                ready=(created, old),
                payloads=(an_input("b", 2),),
                eager=(
                    EagerGrant(place=Place("b"), worker=WORKER, lease_id=LeaseId("eager-b")),
                    EagerGrant(place=Place("c"), worker=WORKER, lease_id=LeaseId("eager-c")),
                ),
            )
        ],
        lease_us=LEASE_US,
    )

    assert done.granted == {(leased.run_id, "b"), (leased.run_id, "c")}
    detail = await reads.get_run(leased.run_id)
    ends = {task.place: lease and lease.lease_until for task, lease in detail.tasks}
    assert ends[Place("b")] == START + SECOND, "never beyond the attempt's end"
    assert ends[Place("c")] == START + LEASE_US
    assert detail.ready == ()


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"timeout_us": 3 * SECOND},
        {"timeout_us": 3 * LEASE_US, "heartbeat_us": SECOND},
        {"total_until": START + 4 * SECOND},
        {"total_until": START + 4 * SECOND, "timeout_us": 3 * SECOND, "heartbeat_us": 5},
        {"total_until": START + 2 * SECOND, "timeout_us": 3 * SECOND, "late": True},
        {"total_until": START + 9 * LEASE_US, "spent": 1},
    ],
    ids=str,
)
async def test_a_lease_is_stored_as_it_is_told(
    store: Store, clock: TurnedClock, columns: dict[str, int]
) -> None:
    """Of tasks that are new, of one that is there, and of a grant: never beyond the attempt's end (F7)."""
    run_id, old, new = new_run_id(), a_task("old", **columns), a_task("new", **columns)
    asked = a_task("asked", **columns)
    await commit(store, a_start(run_id, asked, old, ready=(asked,), payloads=(an_input("asked"),)))
    clock.turn(SECOND)
    grants = tuple(
        EagerGrant(place=Place(place), worker=WORKER, lease_id=LeaseId(place))
        for place in ("new", "old")
    )
    change = a_change(run_id, 1, created=(new,), ready=(new, old), eager=grants)

    done = await store.commit([change], lease_us=LEASE_US)
    [granted] = await store.grant(a_request("asked", runs=(run_id,)))

    tasks = tuple((run_id, Place(place)) for place in ("new", "old", "asked"))
    found = (await store.load(LoadRequest(tasks=tasks))).tasks
    leases = {task.place: lease for task, lease in found.values()}
    assert done.now == START + SECOND
    assert leases == {
        task.place: new_lease(task, LeaseId(task.place), WORKER, now=done.now, lease_us=LEASE_US)
        for task in (new, old, asked)
    }
    assert granted.lease == leases[Place("asked")]


@pytest.mark.parametrize(
    ("priority", "waited_us", "granted"),
    [(0, SECOND + 1, False), (0, SECOND, True), (-1, 9 * SECOND, True), (3, 2 * SECOND, False)],
)
async def test_an_eager_grant_gives_way_to_who_has_waited_longer(
    store: Store, reads: Reads, clock: TurnedClock, priority: int, waited_us: int, granted: bool
) -> None:
    await commit(store, a_start(new_run_id(), a_task(priority=priority)))
    clock.turn(waited_us)
    run_id, task = new_run_id(), a_task("b")
    eager = (EagerGrant(place=Place("b"), worker=WORKER, lease_id=LeaseId("eager")),)

    done = await store.commit([a_start(run_id, task, eager=eager)], lease_us=LEASE_US)

    assert done.granted == (frozenset({(run_id, "b")}) if granted else frozenset())
    assert (await reads.get_run(run_id)).ready == (() if granted else ("b",))


async def test_a_row_that_is_there_already_fails_the_commit_whole(store: Store) -> None:
    """Catalogue A3."""
    run_id, other = new_run_id(), new_run_id()
    await commit(store, a_start(run_id, a_task()), a_start(other, a_task()))

    with pytest.raises(InvariantViolated):
        await store.commit(
            [a_change(run_id, 1, created=(a_task(),)), a_change(other, 1)], lease_us=LEASE_US
        )

    assert (await seq_of(store, run_id), await seq_of(store, other)) == (1, 1)


async def test_text_that_no_database_takes_is_refused(store: Store) -> None:
    """Catalogue D17."""
    run_id = new_run_id()
    wait = OpenedWait(A, "approved", "half \ud800", 1, START)

    with pytest.raises(InvariantViolated):
        await store.commit([a_start(run_id, waits=(wait,))], lease_us=LEASE_US)
    with pytest.raises(InvariantViolated, match="NUL"):
        await store.commit([a_start(run_id, waits=(replace(wait, key="a\0b"),))], lease_us=LEASE_US)


async def test_a_failing_commit_spares_the_others_that_share_its_transaction(store: Store) -> None:
    runs = [new_run_id() for _ in range(20)]
    await commit(store, *(a_start(run, a_task()) for run in runs))
    bad = runs[7]

    done = await asyncio.gather(
        *(
            store.commit(
                [a_change(run, 1, created=(a_task(),) if run == bad else ())], lease_us=LEASE_US
            )
            for run in runs
        ),
        return_exceptions=True,
    )

    assert [run for run, end in zip(runs, done, strict=True) if isinstance(end, Exception)] == [bad]
    assert [await seq_of(store, run) for run in runs] == [1 if run == bad else 2 for run in runs]


async def test_of_many_rivals_for_one_seq_exactly_one_wins(store: Store, reads: Reads) -> None:
    run_id = new_run_id()
    await commit(store, a_start(run_id, a_task()))

    async def rival() -> int:
        wins = 0
        while (seq := await seq_of(store, run_id)) < 40:
            done = await store.commit([a_change(run_id, seq)], lease_us=LEASE_US)
            wins += not done.losers
        return wins

    wins = await asyncio.gather(*(rival() for _ in range(8)))

    assert sum(wins) == 39
    assert [e.seq for e in await reads.history(run_id)] == list(range(1, 41))


async def test_a_change_may_not_contradict_itself(store: Store) -> None:
    run_id = new_run_id()
    eager = (EagerGrant(place=A, worker=WORKER, lease_id=LeaseId("l")),)

    for changes in (
        [a_start(run_id, a_task()), a_start(run_id, a_task())],
        [a_start(run_id, a_task(), expected_seq=1)],
        [a_start(run_id, a_task(), ready=(), eager=eager)],
    ):
        with pytest.raises(InvariantViolated):
            await store.commit(changes, lease_us=LEASE_US)


async def test_an_empty_commit_says_the_time(store: Store) -> None:
    done = await store.commit([], lease_us=LEASE_US)

    assert (done.now, done.losers) == (START, frozenset())


async def _a_run_with_everything(store: Store) -> RunId:
    """At seq 2: a leased, b offered, a timer, an open wait w; messages m1 (kept) and `used`."""
    leased = await a_leased_run(store)
    await store.post([a_message("used", key="other")])
    await store.post([a_message("m1")])
    b = a_task("b", queue_timeout_us=1, queue_until=START)
    await commit(
        store,
        a_change(
            leased.run_id,
            1,
            claims=Claims(messages=(MessageId("used"),)),
            payloads=(an_input("b"),),
            created=(b,),
            ready=(b,),
            timers=(Timer(A, TimerKind.WAIT, START + SECOND, 1),),
            waits=(OpenedWait(Place("w"), "approved", "k", 1, START),),
        ),
    )
    return leased.run_id


def test_changes_of_these_tests_are_well_formed() -> None:
    """Builders that made nonsense would hide what is tested."""
    change: Change = a_start(new_run_id(), a_task())

    assert change.snapshot.seq == len(change.events) == 1
    assert a_request("x").lease_ids == ("x",)
