"""What a replay keeps of its source (R2): payloads and items of all nodes but those that it does itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.store import (
    WORKER,
    a_change,
    a_leased_run,
    a_request,
    a_start,
    a_task,
    an_input,
    commit,
    new_run_id,
)

from tenuto.model.ids import Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import TaskState
from tenuto.ports.reads import Reads
from tenuto.ports.store import Change, LoadRequest, PayloadRow, Store

DONE = TaskState.SUCCESS
KEPT = ("a", "a.1", "a.2~2", "each", "each[0]", "each[1]", "each[p0]", "ab", "a_b")
NOT_KEPT = ("b", "b.1", "b[3]", "b~2", "b.1[2]~3", "a!undo", "each!undo~2", "!on_failure", "")


def a_replay(source: RunId, *but: str) -> Change:
    run_id = new_run_id()
    start = a_start(run_id)
    assert start.new_run is not None
    mine = an_input("", 1, '"mine"')
    return replace(
        start,
        new_run=replace(start.new_run, source=source),
        payloads=(mine,),
        copy=(source, but),
    )


@pytest.mark.rule("R2.1")
async def test_R2_payloads_are_copied_but_for_what_the_replay_does_itself(
    store: Store, reads: Reads
) -> None:
    source = new_run_id()
    payloads = tuple(an_input(place, 1, f'"{place}"') for place in (*KEPT, *NOT_KEPT))
    await commit(store, a_start(source, payloads=payloads))
    newer = an_input("a", 2, '"newer"')
    await commit(store, a_change(source, 1, payloads=(newer,)))
    replay = a_replay(source, "b", "nowhere")

    await commit(store, replay)

    copied = {row.key.place: row for row in await reads.all_payloads(replay.run_id)}
    assert set(copied) == {*KEPT, ""}
    assert copied[Place("a")].text == '"newer"'
    assert copied[Place("each[1]")].text == '"each[1]"'
    assert copied[Place("")].text == '"mine"'
    assert len(await reads.all_payloads(source)) == len(payloads) + 1


async def test_R2_what_the_replay_puts_is_newer_than_what_it_copied(store: Store) -> None:
    """However late in the source that was."""
    source = new_run_id()
    await commit(store, a_start(source))
    key = PayloadKey(Place("a"), PayloadKind.OUTPUT)
    await commit(store, a_change(source, 1, payloads=(PayloadRow(key=key, seq=99, text='"old"'),)))
    replay = a_replay(source)
    await commit(store, replay)

    await commit(
        store, a_change(replay.run_id, 1, payloads=(PayloadRow(key=key, seq=2, text='"new"'),))
    )

    loaded = await store.load(LoadRequest(payloads=((replay.run_id, key),)))
    assert loaded.payloads == {(replay.run_id, key): '"new"'}


async def test_R2_items_are_copied_without_leases_children_and_hand_outs(
    store: Store, reads: Reads
) -> None:
    leased = await a_leased_run(store, place="each[0]", queue_timeout_us=5, rules=(1,), spent=2)
    dead = a_task("each[1]", state=TaskState.DEAD, attempt=3)
    more = (
        dead,
        a_task("each[p0]", state=DONE),
        a_task("b[0]", state=DONE),
        a_task("a", state=DONE),
        a_task("each!undo", state=DONE),
    )
    late = replace(leased.task, state=TaskState.CANCELLED, late=True)
    await commit(
        store, a_change(leased.run_id, 1, created=more, updated=((late, False),), ready=())
    )
    replay = a_replay(leased.run_id, "b")

    await commit(store, replay)

    detail = await reads.get_run(replay.run_id)
    assert {task.place: (task, lease) for task, lease in detail.tasks} == {
        "each[0]": (replace(late, input_seq=0), None),
        "each[1]": (replace(dead, input_seq=0), None),
        "each[p0]": (a_task("each[p0]", state=DONE, input_seq=0), None),
    }
    assert await store.started(replay.run_id) == ()
    assert await store.started(leased.run_id) == ("each[0]",)


async def test_R1_an_item_of_a_replay_can_be_done_again(store: Store) -> None:
    """Its input is the copy."""
    source, dead = new_run_id(), a_task("each[0]", state=TaskState.DEAD)
    await commit(store, a_start(source, dead))
    replay = a_replay(source)
    await commit(store, replay)
    again = replace(dead, state=TaskState.PENDING, attempt=2, input_seq=0)

    await commit(store, a_change(replay.run_id, 1, updated=((again, True),), ready=(again,)))

    (granted,) = await store.grant(a_request("lease-1", worker=WORKER))
    assert (granted.run_id, granted.input) == (replay.run_id, '{"n":1}')


@pytest.mark.parametrize("but", [(), ("nowhere",)])
async def test_R2_a_replay_of_a_run_without_rows_copies_nothing(
    store: Store, reads: Reads, but: tuple[str, ...]
) -> None:
    replay = a_replay(new_run_id(), *but)

    await commit(store, replay)

    assert [row.key.place for row in await reads.all_payloads(replay.run_id)] == [""]
