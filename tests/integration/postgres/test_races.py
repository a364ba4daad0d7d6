"""Several writers on PostgreSQL at once: nothing is lost between them, and no two wait for each other."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace

import pytest
from tests.support.shared_store import ShelvedDatabase
from tests.support.store import (
    IDLE,
    LEASE_US,
    START,
    WORKER,
    a_beat,
    a_change,
    a_definition,
    a_message,
    a_request,
    a_snapshot,
    a_start,
    a_task,
    commit,
    new_run_id,
    seq_of,
)

from tenuto.adapters.postgres import opening
from tenuto.adapters.postgres.engine import PostgresEngine
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.machine.snapshot import OpenedWait
from tenuto.model.errors import Conflict, NotFound
from tenuto.model.ids import Place
from tenuto.model.states import RunState
from tenuto.ports.gateway import Verdict
from tenuto.ports.store import LoadRequest, NewMessage


@pytest.fixture
async def engine(shelved: ShelvedDatabase) -> AsyncIterator[PostgresEngine]:
    made = await shelved.open(pool=6)
    yield made
    await made.close()


@pytest.fixture
def store(engine: PostgresEngine) -> SqlStore:
    return SqlStore(engine)


async def deadlocks(shelved: ShelvedDatabase) -> int:
    async with opening.linked(shelved.address, name="tests") as link:
        await link.raw.execute("SELECT pg_stat_clear_snapshot()")
        return int(
            await link.raw.fetchval(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            )
        )


async def test_C1_of_two_decisions_on_one_state_one_stands(store: SqlStore) -> None:
    """Catalogue C2."""
    run = new_run_id()
    await commit(store, a_start(run, a_task()))
    for seq in range(1, 20):
        async with asyncio.TaskGroup() as group:
            both = [
                group.create_task(store.commit([a_change(run, seq)], lease_us=LEASE_US))
                for _ in range(3)
            ]
        assert sorted(len(each.result().losers) for each in both) == [0, 1, 1]
    assert await seq_of(store, run) == 20


async def test_C3_batches_in_any_order_never_deadlock(
    store: SqlStore, shelved: ShelvedDatabase
) -> None:
    """Commits of many runs, closes of whole runs, grants, heartbeats and releases, all over the same tasks."""
    dice, before = random.Random(7), await deadlocks(shelved)
    places = [Place(name) for name in "abcdef"]
    tasks = [a_task(place, node=n) for n, place in enumerate(places)]
    runs = [new_run_id() for _ in range(8)]
    for run in runs:
        await commit(store, a_start(run, *tasks))
    drawn = iter(range(1_000_000))
    held: list[tuple[str, str, str]] = []

    async def commits() -> None:
        for _ in range(25):
            some = dice.sample(runs, 4)
            loaded = await store.load(LoadRequest(runs=tuple(some)))
            changes = []
            for run in some:
                seq = loaded.runs[run][1].seq
                what = dice.choice(["updated", "cancelled", "hold", "release"])
                picked = dice.sample(tasks, 3)
                change = a_change(run, seq)
                if what == "updated":
                    change = replace(
                        change, updated=tuple((task, True) for task in picked), ready=tuple(picked)
                    )
                elif what == "hold":
                    change = replace(change, hold=True)
                elif what == "release":
                    change = replace(change, release_at=START)
                changes.append(change)
            await store.commit(changes, lease_us=LEASE_US)

    async def workers() -> None:
        for _ in range(40):
            ids = [f"l{next(drawn)}" for _ in range(6)]
            granted = await store.grant(a_request(*ids))
            held.extend((g.run_id, g.task.place, g.lease.lease_id) for g in granted)
            dice.shuffle(held)
            beats = [a_beat(run, lease, place) for run, place, lease in held[:10]]  # type: ignore[arg-type]
            await store.heartbeat(WORKER, beats, IDLE, lease_us=LEASE_US)
            await store.release(WORKER, beats[:5])

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(commits())
            group.create_task(workers())
    assert await deadlocks(shelved) == before


async def test_a_beat_that_was_called_live_was_written(store: SqlStore) -> None:
    """While commits take the task away: what `ok` promised stands in the row (I2, I16). Catalogue B20."""
    for n in range(15):
        run, task = new_run_id(), a_task()
        await commit(store, a_start(run, task))
        [granted] = await store.grant(a_request(f"beat-{n}", runs=(run,)))
        beat = a_beat(run, granted.lease.lease_id)
        async with asyncio.TaskGroup() as group:
            beaten = group.create_task(
                store.heartbeat(WORKER, [beat], IDLE, lease_us=10 * LEASE_US)
            )
            group.create_task(
                store.commit([a_change(run, 1, updated=((task, True),))], lease_us=LEASE_US)
            )
        loaded = await store.load(LoadRequest(tasks=((run, task.place),)))
        assert loaded.tasks[run, task.place][1] is None
        assert beaten.result()[0] in (Verdict.OK, Verdict.STALE)


async def test_H_a_message_and_a_wait_that_cross_find_each_other(store: SqlStore) -> None:
    """Sender and waiter lock the address: at least one of them sees the other (reliability 5.3, rule 10)."""
    for n in range(40):
        run = new_run_id()
        await commit(store, a_start(run, a_task()))
        wait = OpenedWait(Place("a"), "approved", f"k{n}", 1, START)
        message = a_message(f"m{n}-{run}", key=f"k{n}")
        async with asyncio.TaskGroup() as group:
            group.create_task(store.commit([a_change(run, 1, waits=(wait,))], lease_us=LEASE_US))
            group.create_task(store.post([message]))
        due = await store.due(limit=100, runs=(run,))
        assert [match.message_id for match in due.matches] == [message.id]


async def test_H_many_messages_and_waits_that_cross_find_each_other(store: SqlStore) -> None:
    """The same for messages posted together."""
    for n in range(10):
        runs = [new_run_id() for _ in range(6)]
        await commit(store, *(a_start(run, a_task()) for run in runs))
        keys = [f"k{n}-{run}" for run in runs]
        waits = [OpenedWait(Place("a"), "approved", key, 1, START) for key in keys]
        changes = [a_change(run, 1, waits=(wait,)) for run, wait in zip(runs, waits, strict=True)]
        messages = [a_message(f"m-{key}", key=key) for key in keys]
        async with asyncio.TaskGroup() as group:
            group.create_task(store.commit(changes, lease_us=LEASE_US))
            group.create_task(store.post(messages[::-1]))
        due = await store.due(limit=100, runs=tuple(runs))
        assert {match.message_id for match in due.matches} == {each.id for each in messages}


async def test_messages_in_any_order_never_deadlock(
    store: SqlStore, shelved: ShelvedDatabase
) -> None:
    """Nor with commits that post, or open waits, at the same addresses; an event id is stored once."""
    dice, before = random.Random(7), await deadlocks(shelved)
    runs = [new_run_id() for _ in range(8)]
    await commit(store, *(a_start(run, a_task()) for run in runs))
    drawn = iter(range(1_000_000))
    stored: list[str | None] = []

    def some(count: int) -> list[NewMessage]:
        keys = [f"k{dice.randrange(12)}" for _ in range(count)]
        # Ids that nobody has stored yet, but others are about to.
        ids = [f"e{next(drawn) // 200}-{dice.randrange(60)}" for _ in keys]
        return [
            a_message(f"m{next(drawn)}", key=key, event_id=event_id)
            for key, event_id in zip(keys, ids, strict=True)
        ]

    async def posts() -> None:
        for _ in range(30):
            messages = some(40)
            answers = await store.post(messages)
            stored.extend(m.event_id for m, new in zip(messages, answers, strict=True) if new)

    async def commits() -> None:
        for _ in range(30):
            picked = dice.sample(runs, 3)
            loaded = await store.load(LoadRequest(runs=tuple(picked)))
            changes = []
            for run in picked:
                seq = loaded.runs[run][1].seq
                wait = OpenedWait(Place("a"), "approved", f"k{dice.randrange(12)}", seq + 1, START)
                change = a_change(run, seq, closed_waits=(Place("a"),), waits=(wait,))
                changes.append(replace(change, posts=tuple(some(5))))
            await store.commit(changes, lease_us=LEASE_US)

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(posts())
            group.create_task(commits())
    assert await deadlocks(shelved) == before
    assert len(stored) == len(set(stored))


async def test_E6_nothing_ready_is_passed_over_by_a_late_commit(
    store: SqlStore, engine: PostgresEngine
) -> None:
    """Ready rows are found by what they are, never by a number after the last seen."""
    first, second = new_run_id(), new_run_id()
    await commit(store, a_start(second, a_task()))
    assert [g.run_id for g in await store.grant(a_request("l1"))] == [second]
    await commit(store, a_start(first, a_task()))  # an older id, committed later
    assert [g.run_id for g in await store.grant(a_request("l2"))] == [first]


async def test_B4_one_task_is_granted_once(store: SqlStore) -> None:
    runs = [new_run_id() for _ in range(50)]
    for run in runs:
        await commit(store, a_start(run, a_task()))
    async with asyncio.TaskGroup() as group:
        grants = [
            group.create_task(store.grant(a_request(*(f"{n}-{k}" for k in range(20)))))
            for n in range(10)
        ]
    granted = [g.run_id for grant in grants for g in grant.result()]
    assert len(granted) == len(set(granted))


async def test_I11_nothing_is_granted_after_a_committed_close(store: SqlStore) -> None:
    """Catalogue I-1."""
    for n in range(20):
        run = new_run_id()
        await commit(store, a_start(run, a_task()))
        async with asyncio.TaskGroup() as group:
            group.create_task(
                store.commit(
                    [
                        a_change(
                            run, 1, snapshot=a_snapshot(run, 2, state=RunState.CLOSING), close=True
                        )
                    ],
                    lease_us=LEASE_US,
                )
            )
            group.create_task(store.grant(a_request(f"x{n}", runs=(run,))))
        assert await store.grant(a_request(f"y{n}", runs=(run,))) == ()


async def test_D12_a_grant_counts_from_after_the_wait_for_locks(
    engine: PostgresEngine, store: SqlStore
) -> None:
    run = new_run_id()
    await commit(store, a_start(run, a_task()))
    [granted] = await store.grant(a_request("l1", runs=(run,)))

    locked = asyncio.Event()

    async def slow() -> None:
        def job():  # type: ignore[no-untyped-def]
            yield (("SELECT 1 FROM tasks WHERE run_id = $1 FOR UPDATE", (run,)),)
            locked.set()
            yield (("SELECT pg_sleep(0.3)", ()),)

        await engine.write(job)

    async with asyncio.TaskGroup() as group:
        group.create_task(slow())
        await locked.wait()
        await store.heartbeat(WORKER, [a_beat(run, "l1")], IDLE, lease_us=LEASE_US)
    loaded = await store.load(LoadRequest(tasks=((run, Place("a")),)))
    lease = loaded.tasks[run, Place("a")][1]
    assert lease is not None
    assert lease.lease_until > granted.lease.lease_until + 200_000


async def test_D16_a_row_that_another_wrote_first_makes_a_loser_not_an_error(
    store: SqlStore,
) -> None:
    """Two coordinators start the same child, and two clients use one key."""
    for n in range(10):
        run = new_run_id()
        async with asyncio.TaskGroup() as group:
            same = [
                group.create_task(store.commit([a_start(run, a_task())], lease_us=LEASE_US))
                for _ in range(3)
            ]
            keyed = [
                group.create_task(
                    store.commit([a_start(new_run_id(), key=f"key-{n}-{run}")], lease_us=LEASE_US)
                )
                for _ in range(3)
            ]
        assert sorted(len(each.result().losers) for each in same) == [0, 1, 1]
        assert sorted(len(each.result().taken) for each in keyed) == [0, 1, 1]


async def test_an_alias_never_means_a_version_that_is_deleted_at_once(
    store: SqlStore, engine: PostgresEngine
) -> None:
    reads = SqlReads(engine)
    for n in range(20):
        name = f"flow-{n}"
        for content in ("h1", "h2"):
            await store.put_definition(a_definition(f"{name}-{content}", name=name))
        async with asyncio.TaskGroup() as group:
            for doing in (
                store.put_alias("default", name, "live", 1),
                store.drop_version("default", name, 1),
            ):
                group.create_task(_or_refused(doing))
        aliases = await reads.list_aliases("default", name)
        versions = {row.version for row in await reads.list_versions("default", name)}
        assert {alias.version for alias in aliases} <= versions


async def _or_refused(doing: Awaitable[object]) -> None:
    with contextlib.suppress(Conflict, NotFound):
        await doing
