"""`ReadyRows`: grants by hint, and what is known of where each row's hint went."""

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
    a_beat,
    a_change,
    a_request,
    a_snapshot,
    a_start,
    a_success,
    a_task,
    an_input,
    commit,
    new_run_id,
)

from tenuto.adapters.sql.store import SqlStore
from tenuto.model.ids import Place, RunId, WorkerId
from tenuto.model.states import TaskState
from tenuto.ports.dispatch import Hint
from tenuto.ports.gateway import Load, WorkerInfo
from tenuto.ports.reads import Reads
from tenuto.ports.ready import ASIDE, HintVerdict

EPOCH = "redis:1"


def a_hint(run_id: RunId, place: str = "a", **columns: Any) -> Hint:
    values: dict[str, Any] = {"queue": "default", "name": "work", "priority": 0}
    return Hint(run_id=run_id, place=Place(place), **(values | columns))


async def offered(store: SqlStore, count: int = 1, **columns: Any) -> list[Hint]:
    """Runs whose only task waits."""
    hints = []
    for _ in range(count):
        run_id, task = new_run_id(), a_task(**columns)
        await commit(store, a_start(run_id, task))
        hints.append(a_hint(run_id, queue=task.queue, name=task.name, priority=task.priority))
    return hints


async def unpublished(store: SqlStore, queue: str = "default", limit: int = 100) -> list[Hint]:
    return list(await store.take_unpublished({queue: limit}, older_us=0, again_us=0))


# -- grants by hint -----------------------------------------------------------------------------------------------


async def test_a_hinted_task_is_leased_with_its_input_and_its_row_goes(
    store: SqlStore, reads: Reads
) -> None:
    run_id, task = new_run_id(), a_task(timeout_us=3 * SECOND, heartbeat_us=2 * SECOND)
    await commit(store, a_start(run_id, task, payloads=(an_input("a", text='{"n":7}'),)))

    grants = await store.grant_hinted(a_request("lease-1"), [a_hint(run_id)])

    (granted,) = grants.granted
    assert grants.verdicts == {(run_id, "a"): HintVerdict.GRANTED}
    assert (granted.run_id, granted.task, granted.input) == (run_id, task, '{"n":7}')
    assert (granted.lease.lease_id, granted.lease.worker) == ("lease-1", WORKER)
    assert granted.lease.lease_until == START + 3 * SECOND
    detail = await reads.get_run(run_id)
    assert detail.tasks == ((task, granted.lease),)
    assert detail.ready == ()


async def test_exactly_the_hinted_tasks_are_leased_in_their_order(
    store: SqlStore, reads: Reads
) -> None:
    first, second, third = await offered(store, 3)

    grants = await store.grant_hinted(a_request("1", "2", "3"), [third, first])

    assert [(g.run_id, g.lease.lease_id) for g in grants.granted] == [
        (third.run_id, "1"),
        (first.run_id, "2"),
    ]
    assert [h.run_id for h in await unpublished(store)] == [second.run_id]
    for grant in grants.granted:  # whatever the order of the runs: statements say their bounds
        assert (await reads.get_run(grant.run_id)).tasks == ((grant.task, grant.lease),)


async def test_hints_beyond_the_leases_are_left_alone(store: SqlStore) -> None:
    hints = await offered(store, 3)

    grants = await store.grant_hinted(a_request("1"), hints)

    assert [g.run_id for g in grants.granted] == [hints[0].run_id]
    assert list(grants.verdicts) == [(hints[0].run_id, "a")]
    assert len(await unpublished(store)) == 2


async def test_a_hint_that_comes_twice_leases_once(store: SqlStore) -> None:
    (hint,) = await offered(store)

    twice = await store.grant_hinted(a_request("1", "2"), [hint, hint])
    again = await store.grant_hinted(a_request("3"), [hint])

    assert [g.lease.lease_id for g in twice.granted] == ["1"]
    assert (again.granted, list(again.verdicts.values())) == ((), [HintVerdict.TAKEN])


async def test_hints_of_what_is_over_or_never_was_are_gone(store: SqlStore) -> None:
    (done,) = await offered(store)
    await store.grant_hinted(a_request("1"), [done])
    await commit(store, a_success(done.run_id, 1, a_task(), "1"))
    (cancelled,) = await offered(store)
    await commit(store, a_change(cancelled.run_id, 1, cancelled=(Place("a"),)))
    never = a_hint(new_run_id())

    grants = await store.grant_hinted(a_request("2", "3", "4"), [done, cancelled, never])

    assert grants.granted == ()
    assert set(grants.verdicts.values()) == {HintVerdict.GONE}
    assert len(grants.verdicts) == 3


async def test_a_paused_run_has_no_ready_rows(store: SqlStore) -> None:
    (hint,) = await offered(store)
    paused = a_snapshot(hint.run_id, 2, paused=True)
    await commit(store, a_change(hint.run_id, 1, hold=True, snapshot=paused))

    grants = await store.grant_hinted(a_request("1"), [hint])
    assert list(grants.verdicts.values()) == [HintVerdict.GONE]

    await commit(store, a_change(hint.run_id, 2, release_at=START))
    assert len((await store.grant_hinted(a_request("1"), [hint])).granted) == 1


async def test_a_quarantined_run_is_held(store: SqlStore) -> None:
    (hint,) = await offered(store)
    await store.quarantine(hint.run_id, "event 2 cannot be decided")

    grants = await store.grant_hinted(a_request("1"), [hint])
    assert (grants.granted, list(grants.verdicts.values())) == ((), [HintVerdict.HELD])

    await store.quarantine(hint.run_id, None)
    assert len((await store.grant_hinted(a_request("1"), [hint])).granted) == 1


@pytest.mark.parametrize(
    "columns", [{"state": TaskState.RETRY}, {"held": True}, {"total_until": START}], ids=str
)
async def test_a_task_that_may_not_run_is_held(store: SqlStore, columns: dict[str, Any]) -> None:
    run_id, task = new_run_id(), a_task(**columns)
    await commit(store, a_start(run_id, task, ready=(task,)))

    grants = await store.grant_hinted(a_request("1"), [a_hint(run_id)])

    # A row is only written for a task that may run; the past end of all attempts is not looked at there.
    expected = HintVerdict.HELD if "total_until" in columns else HintVerdict.GONE
    assert (grants.granted, list(grants.verdicts.values())) == ((), [expected])


@pytest.mark.parametrize("wanted", [{"queues": ("warehouse",)}, {"names": ("other",)}], ids=str)
async def test_a_hint_that_lies_about_queue_or_name_is_held(
    store: SqlStore, wanted: dict[str, Any]
) -> None:
    hints = await offered(store)

    grants = await store.grant_hinted(replace(a_request("1"), **wanted), hints)

    assert (grants.granted, list(grants.verdicts.values())) == ((), [HintVerdict.HELD])


async def test_two_coordinators_with_the_same_hints_lease_each_task_once(store: SqlStore) -> None:
    hints = await offered(store, 40)

    async def work(number: int) -> list[str]:
        mine: list[str] = []
        for n in range(0, len(hints), 5):
            request = a_request(
                *(f"{number}-{n}-{k}" for k in range(5)), worker=WorkerId(f"w-{number}")
            )
            grants = await store.grant_hinted(request, hints[n : n + 5])
            mine += [g.run_id for g in grants.granted]
        return mine

    async with asyncio.TaskGroup() as group:
        shares = [group.create_task(work(number)) for number in range(6)]

    taken = [run for share in shares for run in share.result()]
    assert sorted(taken) == sorted(hint.run_id for hint in hints)


# -- where hints went ---------------------------------------------------------------------------------------------


async def test_rows_are_published_by_queue_highest_priority_then_longest_waiting_first(
    store: SqlStore, clock: TurnedClock
) -> None:
    order = {}
    for name, priority, queue in (
        ("third", 0, "default"),
        ("fourth", 0, "default"),
        ("second", 5, "default"),
        ("other", 9, "other"),
    ):
        (hint,) = await offered(store, priority=priority, queue=queue)
        order[hint.run_id] = name
        clock.turn(1)

    hints = await unpublished(store)

    assert [order[hint.run_id] for hint in hints] == ["second", "third", "fourth"]
    assert [(h.queue, h.name, h.priority) for h in hints[:1]] == [("default", "work", 5)]
    assert len(await unpublished(store, limit=2)) == 2


async def test_what_somebody_took_to_publish_is_not_taken_again_at_once(
    store: SqlStore, clock: TurnedClock
) -> None:
    """Catalogue E10."""
    await offered(store, 3)

    async def take() -> int:
        hints = await store.take_unpublished({"default": 2}, older_us=SECOND, again_us=5 * SECOND)
        return len(hints)

    assert await take() == 0  # too young: whoever wrote them publishes them
    clock.turn(SECOND)
    assert [await take(), await take(), await take()] == [2, 1, 0]
    clock.turn(5 * SECOND)
    assert await take() == 2


async def test_a_published_row_is_not_offered_to_the_broker_again_but_still_granted(
    store: SqlStore,
) -> None:
    hints = await offered(store, 2)

    await store.mark_published(hints, EPOCH, age_us=0)

    assert await unpublished(store) == []
    assert (await store.survey(EPOCH)).unpublished == ()
    assert len(await store.grant(a_request("1", "2"))) == 2


async def test_a_mark_does_not_hide_a_later_offer_of_the_same_task(
    store: SqlStore, clock: TurnedClock
) -> None:
    (hint,) = await offered(store)
    await store.grant_hinted(a_request("1"), [hint])
    clock.turn(SECOND)
    await store.release(WORKER, [a_beat(hint.run_id, "1")])

    await store.mark_published([hint], EPOCH, age_us=SECOND)

    assert await unpublished(store) == [hint]


async def test_a_row_set_aside_stays_so_until_it_is_granted(store: SqlStore) -> None:
    (hint,) = await offered(store)
    await store.mark_published([hint], ASIDE, age_us=0)

    await store.mark_published([hint], EPOCH, age_us=0)
    await store.unpublish([hint], EPOCH)
    await store.unpublish_stale("redis:2", 10)

    assert await unpublished(store) == []
    assert (await store.survey(EPOCH)).aside
    assert await store.aside(("default",), ("work",), 10) == (hint,)
    assert await store.aside(("default",), ("other",), 10) == ()
    assert await store.aside(("other",), ("work",), 10) == ()
    assert len((await store.grant_hinted(a_request("1"), [hint])).granted) == 1
    assert not (await store.survey(EPOCH)).aside


async def test_a_quarantined_row_aside_is_not_offered(store: SqlStore) -> None:
    (hint,) = await offered(store)
    await store.mark_published([hint], ASIDE, age_us=0)
    await store.quarantine(hint.run_id, "event 2 cannot be decided")

    assert await store.aside(("default",), ("work",), 10) == ()


@pytest.mark.parametrize("now", ["redis:0", "redis:2"])
async def test_rows_of_another_epoch_are_nobodys_again_some_at_a_time(
    store: SqlStore, now: str
) -> None:
    hints = await offered(store, 5)
    await store.mark_published(hints[:4], EPOCH, age_us=0)
    await store.mark_published(hints[4:], now, age_us=0)
    assert (await store.survey(now)).stale
    assert [await store.unpublish_stale(now, 3) for _ in range(3)] == [3, 1, 0]

    assert not (await store.survey(now)).stale
    assert [h.run_id for h in await unpublished(store)] == sorted(h.run_id for h in hints[:4])


async def test_what_a_broker_lost_is_nobodys_again(store: SqlStore) -> None:
    lost, other = await offered(store, 2)
    await store.mark_published([lost], EPOCH, age_us=0)
    await store.mark_published([other], "redis:2", age_us=0)

    await store.unpublish([lost, other], EPOCH)

    assert await unpublished(store) == [lost]


async def test_rows_published_long_ago_are_looked_at_ever_more_rarely(
    store: SqlStore, clock: TurnedClock
) -> None:
    """Catalogue F19."""
    (hint,) = await offered(store)
    await store.mark_published([hint], EPOCH, age_us=0)

    async def due(*, spaced: bool = True) -> bool:
        found = await store.lapsed(EPOCH, "default", older_us=60 * SECOND, limit=9, spaced=spaced)
        return bool(found)

    assert not await due()
    clock.turn(60 * SECOND)
    assert await due()
    await store.mark_published([hint], EPOCH, age_us=0)  # it is there still
    clock.turn(60 * SECOND)
    assert await due()
    await store.mark_published([hint], EPOCH, age_us=0)
    clock.turn(60 * SECOND)
    assert not await due()  # 120 s passed before it was looked at last
    assert await due(spaced=False)
    clock.turn(60 * SECOND)
    assert await due()
    assert await store.lapsed("redis:2", "default", older_us=0, limit=9, spaced=False) == ()
    assert await store.lapsed(EPOCH, "other", older_us=0, limit=9, spaced=False) == ()


async def test_a_survey_says_which_queues_wait_and_which_are_served(
    store: SqlStore, clock: TurnedClock
) -> None:
    assert await store.survey(EPOCH) == await store.survey("x")
    for queue in ("b", "a", "b", "c"):
        await offered(store, queue=queue)
    (known,) = await offered(store, queue="d")
    await store.mark_published([known], EPOCH, age_us=0)
    for name, queues in (("one", ("a", "z")), ("two", ("a",))):
        worker = WorkerInfo(id=WorkerId(name), queues=queues, names=("work",), capacity=1)
        await store.put_worker(worker, "engine-1", lease_us=SECOND)

    survey = await store.survey(EPOCH)

    assert survey.unpublished == ("a", "b", "c")
    assert survey.served == {"a", "z"}
    assert not survey.aside
    assert not survey.stale
    clock.turn(SECOND)
    assert (await store.survey(EPOCH)).served == frozenset()
    await store.heartbeat(WorkerId("two"), (), Load(busy=0, capacity=1), lease_us=LEASE_US)
    assert (await store.survey(EPOCH)).served == {"a"}
