"""`Store.grant`: a lease for one, in order, and only where one may be had."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.support.store import (
    LEASE_US,
    SECOND,
    START,
    WORKER,
    TurnedClock,
    a_change,
    a_request,
    a_snapshot,
    a_start,
    a_task,
    an_input,
    commit,
    new_run_id,
)

from tenuto.model.ids import Place, WorkerId
from tenuto.model.states import TaskState
from tenuto.ports.reads import Reads
from tenuto.ports.store import Store


@pytest.mark.rule("F7.1")
async def test_a_grant_brings_task_lease_and_input_and_takes_the_offer(
    store: Store, reads: Reads
) -> None:
    run_id, task = new_run_id(), a_task(timeout_us=3 * SECOND, heartbeat_us=2 * SECOND)
    await commit(store, a_start(run_id, task, payloads=(an_input("a", text='{"n":7}'),)))

    (granted,) = await store.grant(a_request("lease-1", "lease-2"))

    assert (granted.run_id, granted.task, granted.input) == (run_id, task, '{"n":7}')
    lease = granted.lease
    assert (lease.lease_id, lease.worker, lease.leased_at) == ("lease-1", WORKER, START)
    assert lease.lease_until == lease.attempt_until == START + 3 * SECOND
    assert lease.heartbeat_until == START + 2 * SECOND
    detail = await reads.get_run(run_id)
    assert detail.tasks == ((task, lease),)
    assert detail.ready == ()
    assert await store.grant(a_request("lease-3")) == ()


@pytest.mark.rule("F7.1")
async def test_no_lease_reaches_beyond_the_end_of_all_attempts(store: Store) -> None:
    await commit(store, a_start(new_run_id(), a_task(total_until=START + 5)))

    (granted,) = await store.grant(a_request("lease-1"))

    assert granted.lease.lease_until == granted.lease.attempt_until == START + 5


async def test_highest_priority_first_then_longest_waiting(
    store: Store, clock: TurnedClock
) -> None:
    order = []
    for name, priority, queue in (
        ("third", 0, "default"),
        ("fourth", 0, "other"),
        ("second", 5, "other"),
        ("first", 9, "default"),
    ):
        run_id = new_run_id()
        await commit(store, a_start(run_id, a_task(name, priority=priority, queue=queue)))
        order.append(name)
        clock.turn(1)

    granted = await store.grant(a_request("1", "2", "3", "4", queues=("default", "other")))

    assert [(g.task.place, g.lease.lease_id) for g in granted] == [
        ("first", "1"),
        ("second", "2"),
        ("third", "3"),
        ("fourth", "4"),
    ]


@pytest.mark.rule("X1.3")
@pytest.mark.parametrize("at_once", [1, 4])
async def test_queues_take_turns_within_one_priority(
    store: Store, clock: TurnedClock, at_once: int
) -> None:
    """Catalogue J6."""
    for queue, name, priority in (
        *(("busy", f"busy{n}", 0) for n in range(1, 7)),
        *(("quiet", f"quiet{n}", 0) for n in range(1, 3)),
        ("busy", "urgent", 1),
    ):
        await commit(store, a_start(new_run_id(), a_task(name, priority=priority, queue=queue)))
        clock.turn(1)

    places: list[str] = []
    while len(places) < 9:
        lease_ids = [f"{len(places)}-{n}" for n in range(at_once)]
        granted = await store.grant(a_request(*lease_ids, queues=("busy", "quiet")))
        places += [each.task.place for each in granted]

    assert places[0] == "urgent"
    assert {"quiet1", "quiet2"} < set(places[1:5])
    assert [place for place in places if place.startswith("busy")] == [
        f"busy{n}" for n in range(1, 7)
    ]


@pytest.mark.parametrize(
    "wanted",
    [
        {"queues": ("warehouse",)},
        {"names": ("other",)},
        {"queues": ()},
        {"names": ()},
        {"lease_ids": ()},
        {"runs": ()},
    ],
    ids=str,
)
async def test_nothing_is_granted_beside_queues_names_and_runs(
    store: Store, wanted: dict[str, Any]
) -> None:
    await commit(store, a_start(new_run_id(), a_task()))

    assert await store.grant(replace(a_request("lease-1"), **wanted)) == ()


async def test_only_the_runs_asked_for_are_granted(store: Store) -> None:
    first, second = new_run_id(), new_run_id()
    await commit(store, a_start(first, a_task()), a_start(second, a_task()))

    granted = await store.grant(a_request("1", "2", runs=(second,)))

    assert [g.run_id for g in granted] == [second]


@pytest.mark.rule("W3.1")
async def test_unknown_names_ahead_do_not_hide_known_ones(store: Store) -> None:
    await commit(store, *(a_start(new_run_id(), a_task(name="nobody")) for _ in range(60)))
    run_id = new_run_id()
    await commit(store, a_start(run_id, a_task()))

    granted = await store.grant(a_request("1"))

    assert [g.run_id for g in granted] == [run_id]


@pytest.mark.rule("C6.2")
async def test_nothing_of_a_paused_run_is_granted(store: Store) -> None:
    run_id = new_run_id()
    await commit(store, a_start(run_id, a_task()))
    await commit(store, a_change(run_id, 1, hold=True, snapshot=a_snapshot(run_id, 2, paused=True)))

    assert await store.grant(a_request("1")) == ()

    await commit(store, a_change(run_id, 2, release_at=START))
    assert len(await store.grant(a_request("1"))) == 1


async def test_nothing_of_a_quarantined_run_is_granted(store: Store, reads: Reads) -> None:
    run_id = new_run_id()
    await commit(store, a_start(run_id, a_task()))
    await store.quarantine(run_id, "event 2 cannot be decided")

    assert await store.grant(a_request("1")) == ()
    assert (await store.pulse(None)).ready == 0
    assert (await reads.get_run(run_id)).run.quarantine == "event 2 cannot be decided"

    await store.quarantine(run_id, None)
    assert len(await store.grant(a_request("1"))) == 1


@pytest.mark.parametrize(
    "columns",
    [{"state": TaskState.RETRY}, {"held": True}, {"total_until": START}],
    ids=str,
)
async def test_a_task_that_may_not_run_is_not_granted_though_offered(
    store: Store, columns: dict[str, Any]
) -> None:
    task = a_task(**columns)
    await commit(store, a_start(new_run_id(), task, ready=(task,)))

    assert await store.grant(a_request("1")) == ()


async def test_two_workers_never_get_the_same_task(store: Store) -> None:
    runs = [new_run_id() for _ in range(40)]
    await commit(store, *(a_start(run, a_task()) for run in runs))

    async def work(number: int) -> list[str]:
        mine: list[str] = []
        for round_ in range(20):
            request = a_request(
                *(f"{number}-{round_}-{n}" for n in range(3)), worker=WorkerId(f"w-{number}")
            )
            mine += [g.run_id for g in await store.grant(request)]
        return mine

    shares = await asyncio.gather(*(work(number) for number in range(8)))

    assert sorted(run for share in shares for run in share) == sorted(runs)


async def test_a_run_with_several_tasks_gives_each_once(store: Store) -> None:
    await commit(store, a_start(new_run_id(), a_task("a"), a_task("b"), a_task("c")))

    granted = await store.grant(a_request("1", "2", "3", "4"))

    assert {g.task.place for g in granted} == {Place("a"), Place("b"), Place("c")}
    assert granted[0].lease.lease_until - START == LEASE_US
