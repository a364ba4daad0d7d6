"""What every dispatch keeps: each ready task reaches one worker that can do it, whatever is lost on the way."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.conformance.dispatch.conftest import Stage
from tests.support.dispatching import Coordinator, waiting
from tests.support.store import a_beat

from tenuto.adapters.redis import reader
from tenuto.ports.ready import ASIDE


async def test_a_task_offered_anywhere_reaches_a_worker(stage: Stage) -> None:
    one, two = await stage.coordinator("one"), await stage.coordinator("two")
    await two.register()
    two.want(1)
    hints = await waiting(stage.store, 3)

    one.dispatch.offered(hints)

    assert sorted(await two.take(3)) == sorted(hint.run_id for hint in hints)
    assert one.granted == []


async def test_a_task_that_nobody_offered_is_found(stage: Stage) -> None:
    """Catalogue A6."""
    hints = await waiting(stage.store, 3)

    coordinator = await stage.coordinator("one")

    assert sorted(await coordinator.take(3)) == sorted(hint.run_id for hint in hints)


async def test_a_worker_gets_tasks_of_its_queues_only(stage: Stage) -> None:
    one = await stage.coordinator("one", queues=("a",))
    two = await stage.coordinator("two", queues=("b", "c"))
    for coordinator in (one, two):
        await coordinator.register()
    by_queue = {queue: await waiting(stage.store, 4, queue=queue) for queue in "abc"}
    for hints in by_queue.values():
        one.dispatch.offered(hints)

    async with asyncio.TaskGroup() as group:
        first, second = group.create_task(one.take(4)), group.create_task(two.take(8))

    assert set(first.result()) == {hint.run_id for hint in by_queue["a"]}
    assert set(second.result()) == {hint.run_id for queue in "bc" for hint in by_queue[queue]}


async def test_a_worker_gets_tasks_that_it_knows_only(stage: Stage) -> None:
    one = await stage.coordinator("one", names=("known",))
    strange = await waiting(stage.store, 5, name="strange")
    hints = await waiting(stage.store, 5, name="known")
    one.dispatch.offered([*strange, *hints])

    assert set(await one.take(5)) == {hint.run_id for hint in hints}

    two = await stage.coordinator("two", names=("strange", "other"))
    assert set(await two.take(5)) == {hint.run_id for hint in strange}


async def test_a_name_that_only_a_busy_worker_knows_hides_nothing(stage: Stage) -> None:
    coordinator = await stage.coordinator("one", names=("rare",))
    await coordinator.register()
    common = await waiting(stage.store, 300, name="common")
    rare = await waiting(stage.store, 1, name="rare")
    coordinator.dispatch.offered([*common, *rare])

    assert await coordinator.take(1) == [rare[0].run_id]


async def test_higher_priorities_go_first(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    # Hints that come twice, or are fetched again because a claim took long, count for the turn of the longest waiting.
    monkeypatch.setattr(reader, "AGED_EVERY", 1_000)
    coordinator = await stage.coordinator("one")
    await coordinator.register()
    low = await waiting(stage.store, 30, priority=0)
    high = await waiting(stage.store, 3, priority=9)
    middle = await waiting(stage.store, 3, priority=4)
    coordinator.dispatch.offered([*low, *high, *middle])
    await queued(stage, 36)

    first = await coordinator.take(3, at_once=3)
    second = await coordinator.take(3, at_once=3)

    assert set(first) == {hint.run_id for hint in high}
    assert set(second) == {hint.run_id for hint in middle}


async def test_queues_take_turns(stage: Stage) -> None:
    coordinator = await stage.coordinator("one", queues=("a", "b"))
    await coordinator.register()
    queue_of: dict[str, str] = {}
    for queue in "ab":
        hints = await waiting(stage.store, 60, queue=queue)
        coordinator.dispatch.offered(hints)
        queue_of |= {hint.run_id: queue for hint in hints}
    await queued(stage, 120)

    taken = Counter(queue_of[run_id] for run_id in await coordinator.take(40, at_once=1))

    assert min(taken["a"], taken["b"]) >= 15, taken


async def test_two_coordinators_never_grant_the_same_task(stage: Stage) -> None:
    """Catalogue B4."""
    coordinators = [await stage.coordinator(name) for name in ("one", "two", "three")]
    for coordinator in coordinators:
        await coordinator.register()
    hints = await waiting(stage.store, 400)
    for coordinator in coordinators:
        coordinator.dispatch.offered(hints)  # each hint three times

    async with asyncio.TaskGroup() as group:
        for coordinator in coordinators:
            group.create_task(_until_all(stage, coordinator))

    taken = [each.run_id for coordinator in coordinators for each in coordinator.granted]
    assert sorted(taken) == sorted(hint.run_id for hint in hints)


async def _until_all(stage: Stage, coordinator: Coordinator) -> None:
    while (await stage.store.pulse(None)).ready:
        await coordinator.take_for(0.2, at_once=7)


async def test_a_task_given_back_is_offered_again(stage: Stage) -> None:
    one = await stage.coordinator("one")
    two = await stage.coordinator("two")
    (hint,) = await waiting(stage.store, 1)
    one.dispatch.offered([hint])
    await one.take(1)
    lease = one.granted[0].lease

    await stage.store.release(lease.worker, [a_beat(hint.run_id, lease.lease_id)])
    one.dispatch.offered([hint])

    assert await two.take(1) == [hint.run_id]


async def test_nothing_is_hoarded_by_who_has_no_room(stage: Stage) -> None:
    """Catalogue J7."""
    busy, idle = await stage.coordinator("busy"), await stage.coordinator("idle")
    for coordinator in (busy, idle):
        await coordinator.register()
    busy.want(3)  # and never claims
    hints = await waiting(stage.store, 40)
    busy.dispatch.offered(hints)
    await asyncio.sleep(0.2)
    busy.want(0)

    assert sorted(await idle.take(40)) == sorted(hint.run_id for hint in hints)


async def test_a_stop_leaves_nothing_behind(stage: Stage) -> None:
    """Catalogue B16."""
    one, two = await stage.coordinator("one"), await stage.coordinator("two")
    one.want(50)
    hints = await waiting(stage.store, 20)
    one.dispatch.offered(hints)
    await asyncio.sleep(0.2)

    await one.stop()

    assert sorted(await two.take(20)) == sorted(hint.run_id for hint in hints)


async def queued(stage: Stage, count: int) -> None:
    """Until so many hints are where they belong."""
    if stage.redis is not None:
        await until_published(stage, count)


async def until_published(stage: Stage, count: int) -> None:
    async with asyncio.timeout(100):
        while await published(stage) < count:  # noqa: ASYNC110 - seen from outside only
            await asyncio.sleep(0.02)


async def published(stage: Stage) -> int:
    """How many rows some Redis has."""

    def job():  # type: ignore[no-untyped-def]
        row = yield (
            (
                "SELECT count(*) FROM ready WHERE published > '' AND published <> $1",
                (ASIDE,),
            ),
        )
        return row[0]

    return int(await stage.store._engine.read(job))


async def test_a_backlog_larger_than_a_batch_is_handed_out_whole(stage: Stage) -> None:
    coordinator = await stage.coordinator("one")
    hints = await waiting(stage.store, 600)

    taken = await coordinator.take(600, at_once=100)

    assert sorted(taken) == sorted(hint.run_id for hint in hints)
