"""Work that a child run does: never offered, told of its caller's end, linked both ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.store import (
    LEASE_US,
    SECOND,
    START,
    TurnedClock,
    a_change,
    a_request,
    a_settlement,
    a_snapshot,
    a_start,
    a_task,
    commit,
    new_run_id,
)

from tenuto.machine.snapshot import Task
from tenuto.model.ids import Place, RunId
from tenuto.model.states import RunState, TaskState
from tenuto.ports.reads import Reads, RunFilter
from tenuto.ports.store import Change, LoadRequest, NoticeKind, Store


def a_call(place: str, child: RunId | None, **columns: Any) -> Task:
    return a_task(place, child=child, queue="call", **columns)


def a_child(run_id: RunId, parent: RunId, place: str = "call", **change: Any) -> Change:
    start = a_start(run_id, a_task(), **change)
    assert start.new_run is not None
    return replace(start, new_run=replace(start.new_run, parent=(parent, Place(place))))


async def test_the_columns_of_a_call_read_back_as_written(store: Store) -> None:
    run_id = new_run_id()
    task = a_call("call", new_run_id(), spent=3, rules=(2, 0, 1), late=True, ending="timeout")
    await commit(store, a_start(run_id, task, ready=()))

    async def stored() -> Task:
        loaded = await store.load(LoadRequest(tasks=((run_id, Place("call")),)))
        return loaded.tasks[run_id, Place("call")][0]

    assert await stored() == task
    ended = replace(
        task, state=TaskState.DEAD, child=None, spent=0, rules=(), late=False, ending=""
    )
    await commit(store, a_change(run_id, 1, updated=((ended, True),)))
    assert await stored() == ended


async def test_F6_work_of_a_child_is_never_offered(store: Store, reads: Reads) -> None:
    """Not even by an order to offer it, nor by a resume."""
    run_id, task = new_run_id(), a_call("call", new_run_id())
    await commit(store, a_start(run_id, task, ready=(task,)))
    assert (await reads.get_run(run_id)).ready == ()

    await commit(store, a_change(run_id, 1, hold=True, snapshot=a_snapshot(run_id, 2, paused=True)))
    await commit(store, a_change(run_id, 2, release_at=START))

    assert (await reads.get_run(run_id)).ready == ()
    assert await store.grant(a_request("1", queues=("call",))) == ()


@pytest.mark.rule("C2.2")
async def test_C2_closing_sends_a_cancel_to_the_open_children_of_open_tasks(
    store: Store, reads: Reads
) -> None:
    run_id, children = new_run_id(), [new_run_id() for _ in range(4)]
    await commit(
        store,
        a_start(
            run_id,
            a_call("a", children[0]),
            a_call("b", children[1], state=TaskState.RETRY),
            a_call("c", children[2], state=TaskState.CANCELLED),
            a_task("d"),
            ready=(),
        ),
    )
    late = a_call("e", children[3])

    done = await store.commit(
        [
            a_change(
                run_id,
                1,
                created=(late,),
                close=True,
                snapshot=a_snapshot(run_id, 2, state=RunState.CLOSING),
            )
        ],
        lease_us=LEASE_US,
    )

    due = (await store.due(limit=10, runs=None)).notices
    assert {(n.run_id, n.kind, n.place, n.sender) for n in due} == {
        (children[0], NoticeKind.CANCEL, "a", run_id),
        (children[1], NoticeKind.CANCEL, "b", run_id),
        (children[3], NoticeKind.CANCEL, "e", run_id),
    }
    assert {n.run_id for n in due} <= set(done.told)
    tasks = {task.place: task for task, _ in (await reads.get_run(run_id)).tasks}
    assert {task.state for task in tasks.values()} == {TaskState.CANCELLED}
    assert tasks[Place("a")].child == children[0], "it is waited for (C1)"


@pytest.mark.rule("C4.7")
async def test_C4_a_terminate_reaches_every_open_child(store: Store) -> None:
    run_id, children = new_run_id(), [new_run_id() for _ in range(3)]
    await commit(
        store,
        a_start(
            run_id,
            a_call("a", children[0]),
            a_call("b", children[1], state=TaskState.CANCELLED),
            a_call("c", None, state=TaskState.SUCCESS),
            ready=(),
        ),
    )
    end = replace(a_settlement(run_id, 1, RunState.CANCELLED), close=True, terminate_children=True)

    done = await store.commit([end], lease_us=LEASE_US)

    told = [n for n in (await store.due(limit=10, runs=None)).notices if n.kind == "terminate"]
    assert {n.run_id for n in told} == set(children[:2])
    assert set(children[:2]) <= set(done.told)


@pytest.mark.rule("C6.3")
async def test_C6_a_pause_is_told_to_every_open_child(store: Store) -> None:
    run_id, child = new_run_id(), new_run_id()
    await commit(store, a_start(run_id, a_call("a", child), a_task("b"), ready=()))

    paused = a_snapshot(run_id, 2, paused=True)
    await commit(store, a_change(run_id, 1, hold=True, tell_children="{}", snapshot=paused))
    done = await store.commit(
        [a_change(run_id, 2, release_at=START, tell_children='{"freeze":true}')],
        lease_us=LEASE_US,
    )

    (notice,) = (await store.due(limit=10, runs=None)).notices
    assert (notice.run_id, notice.kind, notice.data) == (child, "pause", '{"freeze":true}')
    assert done.told == (child,)


@pytest.mark.rule("C6.1")
async def test_C6_a_run_is_shown_paused_while_its_parent_is(store: Store, reads: Reads) -> None:
    run_id = new_run_id()
    snapshot = a_snapshot(run_id, 1, parent_paused=True)
    await commit(store, a_start(run_id, a_task(), snapshot=snapshot))

    detail = await reads.get_run(run_id)

    assert detail.run.paused
    assert (detail.snapshot.paused, detail.snapshot.parent_paused) == (False, True)


async def test_runs_are_linked_both_ways(store: Store, reads: Reads) -> None:
    parent, source = new_run_id(), new_run_id()
    first, second, replayed = new_run_id(), new_run_id(), new_run_id()
    replay = a_start(replayed, a_task())
    assert replay.new_run is not None
    await commit(store, a_start(parent, a_task()), a_start(source, a_task()))
    await commit(
        store,
        a_child(first, parent, "a"),
        a_child(second, parent, "b"),
        replace(replay, new_run=replace(replay.new_run, source=source)),
    )

    async def listed(**wanted: object) -> list[RunId]:
        return [row.run_id for row in await reads.list_runs(RunFilter(**wanted))]  # type: ignore[arg-type]

    assert await listed(parent=parent) == [second, first]
    assert await listed(parent=parent, limit=1, before=second) == [first]
    assert await listed(parent=first) == []
    assert await listed(source=source) == [replayed]
    assert await listed(top=True) == [replayed, source, parent]
    assert len(await listed()) == 5
    row = (await reads.get_run(second)).run
    assert (row.parent, row.source) == ((parent, "b"), None)
    assert (await reads.get_run(replayed)).run.source == source
    assert await reads.count_runs("default") == {"running": 5}
    assert await reads.count_runs("default", top=True) == {"running": 3}


async def test_R1_the_last_child_of_a_place_is_found(store: Store) -> None:
    parent = new_run_id()
    first, second, other = new_run_id(), new_run_id(), new_run_id()
    await commit(store, a_start(parent, a_task()))
    await commit(
        store, a_child(second, parent), a_child(first, parent), a_child(other, parent, "other")
    )

    keys = tuple((parent, Place(place)) for place in ("call", "other", "none"))
    loaded = await store.load(LoadRequest(children=keys))

    assert loaded.children == {keys[0]: second, keys[1]: other}


@pytest.mark.parametrize("compensation", ["none", "complete", "partial"])
async def test_C4_how_far_a_run_was_undone_is_shown(
    store: Store, reads: Reads, compensation: str
) -> None:
    run_id = new_run_id()
    await commit(store, a_start(run_id, a_task()))
    end = a_settlement(run_id, 1, RunState.FAILED)
    assert end.settle is not None
    await commit(store, replace(end, settle=replace(end.settle, compensation=compensation)))

    assert (await reads.get_run(run_id)).run.compensation == compensation


async def test_R1_a_reopened_run_is_not_final_any_more(
    store: Store, reads: Reads, clock: TurnedClock
) -> None:
    run_id = new_run_id()
    await commit(store, a_start(run_id, a_task()))
    await commit(store, a_settlement(run_id, 1, RunState.FAILED))

    await commit(store, a_change(run_id, 2, reopen=True, snapshot=a_snapshot(run_id, 3, epoch=2)))

    row = (await reads.get_run(run_id)).run
    assert (row.state, row.ended_at, row.output, row.error) == ("running", None, None, None)
    clock.turn(SECOND)
    await commit(store, a_settlement(run_id, 3, RunState.SUCCESS))
    assert (await reads.get_run(run_id)).run.state == "success"
