"""Items of a foreach and passes of a loop: ranges of places, read and changed as a whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.store import (
    LEASE_US,
    SECOND,
    START,
    WORKER,
    a_change,
    a_request,
    a_start,
    a_task,
    an_input,
    commit,
    new_run_id,
)

from tenuto.machine.events import TimerKind
from tenuto.machine.snapshot import Timer
from tenuto.model.ids import Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import TaskState
from tenuto.ports.reads import Reads
from tenuto.ports.store import ItemRow, LoadRequest, PayloadRow, Store

EACH = Place("each")
NEIGHBOURS = ("each", "each.1", "each.1[0]", "each!undo", "eachother[0]", "each_[0]")


def an_output(place: str, text: str, *, seq: int = 2, kind: str = "output") -> PayloadRow:
    return PayloadRow(key=PayloadKey(Place(place), PayloadKind(kind)), seq=seq, text=text)


async def test_a_failed_foreach_cancels_what_is_open_of_it(store: Store, reads: Reads) -> None:
    run_id, child = new_run_id(), new_run_id()
    tasks = (
        a_task("each[0]", state=TaskState.SUCCESS),
        a_task("each[1]"),
        a_task("each[2]", state=TaskState.RETRY),
        a_task("each[10]", child=child),
        a_task("each[p1]"),
        *(a_task(place) for place in NEIGHBOURS),
    )
    timers = [
        Timer(Place(place), TimerKind.BACKOFF, START + SECOND, 1)
        for place in ("each[2]", *NEIGHBOURS)
    ]
    await commit(store, a_start(run_id, *tasks, timers=tuple(timers)))
    (granted,) = await store.grant(a_request("lease-1", runs=(run_id,)))
    new = a_task("each[11]")

    done = await store.commit(
        [a_change(run_id, 1, created=(new,), cancelled_items=(EACH,))], lease_us=LEASE_US
    )

    detail = await reads.get_run(run_id)
    states = {task.place: task.state for task, _ in detail.tasks}
    assert states[Place("each[0]")] == "success"
    cancelled = {place for place, state in states.items() if state == "cancelled"}
    assert cancelled == {"each[1]", "each[2]", "each[10]", "each[11]", "each[p1]"}
    leases = {task.place for task, lease in detail.tasks if lease is not None}
    assert leases == {granted.task.place}, "the lease stays until its worker hears of it (F7)"
    assert set(detail.ready) == set(NEIGHBOURS) - {granted.task.place}
    assert {timer.place for timer in detail.timers} == set(NEIGHBOURS)
    (notice,) = (await store.due(limit=9, runs=None)).notices
    assert (notice.run_id, notice.kind, notice.place) == (child, "cancel", "each[10]")
    assert done.told == (child,)


async def test_a_foreach_in_a_loop_cancels_the_items_of_its_pass(
    store: Store, reads: Reads
) -> None:
    run_id = new_run_id()
    places = ("each.1[0]", "each.1[1]~2", "each.2[0]", "each.11[0]", "each[0]")
    await commit(store, a_start(run_id, *(a_task(place) for place in places)))

    await commit(store, a_change(run_id, 1, cancelled_items=(Place("each.1~2"),)))

    states = {task.place: task.state for task, _ in (await reads.get_run(run_id)).tasks}
    assert {place for place in states if states[place] == "cancelled"} == set(places[:2])


async def test_items_are_loaded_with_state_output_and_error(store: Store) -> None:
    run_id = new_run_id()
    await commit(
        store,
        a_start(
            run_id,
            a_task("each[0]", state=TaskState.SUCCESS),
            a_task("each[1]", state=TaskState.DEAD),
            a_task("each[12]"),
            a_task("each[3]", state=TaskState.CANCELLED),
            a_task("each[p0]", state=TaskState.SUCCESS),
            a_task("each[0]~2", state=TaskState.SUCCESS),
            *(a_task(place) for place in NEIGHBOURS),
        ),
    )
    payloads = (
        an_output("each[0]", '"old"'),
        an_output("each[0]", '"new"', seq=3),
        an_output("each[0]~2", '"again"'),
        an_output("each[1]", '{"code":"x"}', kind="error"),
        an_output("each[3]", '"late"'),
    )
    await commit(store, a_change(run_id, 1, payloads=payloads))
    keys = ((run_id, EACH), (run_id, Place("each~2")), (run_id, Place("other")))

    items = (await store.load(LoadRequest(items=keys))).items

    assert set(items[keys[0]]) == {
        ItemRow(index=0, state="success", output='"new"', error=None),
        ItemRow(index=1, state="dead", output=None, error='{"code":"x"}'),
        ItemRow(index=3, state="cancelled", output=None, error=None),
        ItemRow(index=12, state="pending", output=None, error=None),
    }
    assert items[keys[1]] == (ItemRow(index=0, state="success", output='"again"', error=None),)
    assert items[keys[2]] == ()


async def test_items_are_listed_in_pages_by_index(store: Store, reads: Reads) -> None:
    run_id, child = new_run_id(), new_run_id()
    done = [a_task(f"each[{n}]", state=TaskState.SUCCESS) for n in range(9)]
    open_ = (a_task("each[9]"), a_task("each[10]", child=child, attempt=2))
    await commit(store, a_start(run_id, *done, *open_, ready=(open_[0],)))
    dead = replace(done[4], state=TaskState.DEAD)
    payloads = (an_output("each[3]", "1"), an_output("each[4]", '{"code":"x"}', kind="error"))
    await commit(store, a_change(run_id, 1, updated=((dead, True),), payloads=payloads))
    await store.grant(a_request("lease-1"))

    pages = [await reads.list_items(run_id, EACH, after=after, limit=6) for after in (-1, 5, 11)]
    assert [[item.index for item in page] for page in pages] == [
        [0, 1, 2, 3, 4, 5],
        [6, 7, 8, 9, 10],
        [],
    ]
    items = {item.index: item for page in pages for item in page}
    assert [items[n].output for n in (2, 3)] == [False, True]
    assert (items[4].state, items[4].error) == ("dead", '{"code":"x"}')
    assert (items[9].state, items[9].worker) == ("running", WORKER)
    assert (items[10].state, items[10].child, items[10].attempt) == ("running", child, 2)

    async def in_states(*states: str, after: int = -1) -> list[int]:
        page = await reads.list_items(run_id, EACH, after=after, limit=3, states=states)
        return [item.index for item in page]

    assert await in_states("dead") == [4]
    assert await in_states("running") == [9, 10]
    assert await in_states("success", after=3) == [5, 6, 7]
    assert await in_states("pending") == []


async def test_a_run_can_be_read_without_its_items(store: Store, reads: Reads) -> None:
    run_id = new_run_id()
    timer = Timer(Place("each[0]"), TimerKind.TOTAL, START, 1)
    await commit(store, a_start(run_id, a_task("a"), a_task("each[0]"), timers=(timer,)))

    detail = await reads.get_run(run_id, items=False)

    assert [task.place for task, _ in detail.tasks] == ["a"]
    assert (detail.timers, detail.ready) == ((), ("a",))
    assert len((await reads.get_run(run_id)).tasks) == 2


# -- passes -------------------------------------------------------------------------------------------------------


async def _a_loop(store: Store) -> RunId:
    run_id = new_run_id()
    payloads = (
        an_output("w.1", '"one"'),
        an_output("w.2", '{"code":"x"}', kind="error"),
        an_output("w.10", '"ten"'),
        an_output("w.10", '"ten again"', seq=3),
        an_output("w.10~2", '"in a later epoch"', seq=4),
        an_input("w.3", 2),
        an_output("w.1[0]", '"an item"'),
        an_output("w.1!undo", '"undone"'),
        an_output("w", "0"),
        an_output("ww.1", "0"),
    )
    await commit(store, a_start(run_id, a_task("w.2", state=TaskState.DEAD, attempt=3)))
    await commit(store, a_change(run_id, 1, payloads=payloads))
    return run_id


async def test_L5_outputs_and_errors_of_all_passes_are_loaded(store: Store) -> None:
    run_id = await _a_loop(store)
    keys = ((run_id, "w.", 1), (run_id, "other.", 1))

    passes = (await store.load(LoadRequest(passes=keys))).passes

    assert {(row.key.place, row.key.kind.value, row.text) for row in passes[keys[0]]} == {
        ("w.1", "output", '"one"'),
        ("w.2", "error", '{"code":"x"}'),
        ("w.10", "output", '"ten again"'),
        ("w.10~2", "output", '"in a later epoch"'),
    }
    assert passes[keys[1]] == ()


@pytest.mark.rule("L5.3")
async def test_L5_passes_are_listed_in_pages_in_their_order(store: Store, reads: Reads) -> None:
    run_id = await _a_loop(store)

    first = await reads.list_passes(run_id, "w", limit=3)
    rest = await reads.list_passes(run_id, "w", after=first[-1].passes)

    assert [each.place for each in (*first, *rest)] == ["w.1", "w.2", "w.3", "w.10~2"]
    assert [each.output for each in (*first, *rest)] == [True, False, False, True]
    assert (first[1].state, first[1].attempt, first[1].error) == ("dead", 3, '{"code":"x"}')
    assert first[0].state is None


async def test_L5_payloads_of_passes_that_are_not_kept_go_with_all_inside(
    store: Store, reads: Reads
) -> None:
    gone = ("w.1", "w.1[0]", "w.1[p0]", "w.1.4", "w.1.4[2]")
    kept = ("w.2", "w.11", "w.1~2", "w.1[0]~2", "w.1.4~2", "w.1!undo", "w.1.4!undo", "ww.1", "w")
    run_id = new_run_id()
    payloads = tuple(an_output(place, "1") for place in (*gone, *kept))
    await commit(store, a_start(run_id, payloads=payloads))

    anew = an_output("w.1", '"put after the drop"', seq=9)
    await commit(store, a_change(run_id, 1, dropped=(Place("w.1"),), payloads=(anew,)))

    left = await reads.all_payloads(run_id)
    assert {row.key.place for row in left} == {*kept, "w.1"}
    assert [row for row in left if row.key.place == "w.1"] == [anew]

    await commit(store, a_change(run_id, 2, dropped=(Place("w.1~2"),)))

    assert {row.key.place for row in await reads.all_payloads(run_id)} == {
        *(place for place in kept if "~2" not in place),
        "w.1",
    }
