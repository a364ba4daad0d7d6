"""A foreach of 100,000 items: what one item costs does not grow with the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.support.store import (
    LEASE_US,
    A,
    TurnedClock,
    a_change,
    a_request,
    a_settlement,
    a_snapshot,
    a_start,
    a_success,
    a_task,
    an_input,
    commit,
    new_run_id,
)

from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import SqliteEngine, open_engine
from tenuto.machine.snapshot import Task
from tenuto.model.ids import Place, RunId
from tenuto.model.states import RunState, TaskState
from tenuto.ports.store import LoadRequest, Store

ITEMS = 100_000
PAGE = 10_000
TRIES = 10


@pytest.fixture
async def engine() -> AsyncIterator[SqliteEngine]:
    made = open_engine(":memory:", TurnedClock())
    yield made
    await made.close()


@contextmanager
def counted(engine: SqliteEngine) -> Iterator[Callable[[], int]]:
    """Counts what SQLite does, by instructions of its machine: the same on every computer, however busy."""
    count = 0

    def note() -> int:
        nonlocal count
        count += 1
        return 0

    connections = [thread._db for thread in (engine._writer, engine._reader) if thread is not None]
    for connection in connections:
        connection.set_progress_handler(note, 1)
    yield lambda: count
    for connection in connections:
        connection.set_progress_handler(None, 1)


async def test_an_item_costs_the_same_however_many_there_are(engine: SqliteEngine) -> None:
    """Catalogue J1."""
    store, reads = SqlStore(engine), SqlReads(engine)
    run_id = new_run_id()
    await commit(store, a_start(run_id, a_task("a"), ready=()))
    await _cost(engine, store, run_id, 1, 0)  # so that texts are compiled and pages are there

    first = await _cost(engine, store, run_id, 1 + 2 * TRIES, TRIES)
    seq = await _fill(store, run_id, 1 + 4 * TRIES, 2 * TRIES, ITEMS)
    last = await _cost(engine, store, run_id, seq, ITEMS)

    assert last < 1.05 * first

    page = await reads.list_items(run_id, Place("each"), after=ITEMS - 3)
    assert [item.index for item in page] == list(range(ITEMS - 2, ITEMS + TRIES))
    items = (await store.load(LoadRequest(items=((run_id, Place("each")),)))).items
    assert len(items[run_id, Place("each")]) == ITEMS + TRIES
    assert [task.place for task, _ in (await reads.get_run(run_id, items=False)).tasks] == [A]


async def test_C2_a_run_of_many_items_closes_and_tells_its_one_child(
    engine: SqliteEngine,
) -> None:
    store = SqlStore(engine)
    run_id = new_run_id()
    child = a_task("call", child=new_run_id())
    await commit(store, a_start(run_id, child, ready=()))
    seq = await _fill(store, run_id, 1, 0, PAGE)
    closing = a_snapshot(run_id, seq + 1, state=RunState.CLOSING)

    done = await store.commit(
        [a_change(run_id, seq, close=True, snapshot=closing)], lease_us=LEASE_US
    )

    assert done.told == (child.child,)
    await commit(store, a_settlement(run_id, seq + 1, RunState.FAILED))


def _item(index: int) -> Task:
    return a_task(f"each[{index}]")


async def _cost(engine: SqliteEngine, store: Store, run_id: RunId, seq: int, index: int) -> int:
    """Instructions for items from begin to end; each uses up two numbers of the history."""
    with counted(engine) as steps:
        for n in range(index, index + TRIES):
            item, lease_id = _item(n), f"lease-{n}"
            begun = a_change(
                run_id, seq, created=(item,), ready=(item,), payloads=(an_input(item.place),)
            )
            await commit(store, begun)
            (granted,) = await store.grant(a_request(lease_id))
            await store.load(LoadRequest(tasks=((run_id, item.place),)))
            await commit(store, a_success(run_id, seq + 1, granted.task, lease_id))
            await store.due(limit=500, runs=None)
            await store.pulse(None)
            seq += 2
        return steps()


async def _fill(store: Store, run_id: RunId, seq: int, index: int, end: int) -> int:
    """Items that have succeeded. Returns the run's number."""
    while index < end:
        upto = min(index + PAGE, end)
        done = tuple(replace(_item(n), state=TaskState.SUCCESS) for n in range(index, upto))
        await commit(store, a_change(run_id, seq, created=done))
        index, seq = upto, seq + 1
    return seq
