"""`Reads`: what people see."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.store import (
    START,
    a_change,
    a_leased_run,
    a_settlement,
    a_snapshot,
    a_start,
    a_task,
    an_event,
    an_input,
    commit,
    new_run_id,
)

from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.machine.snapshot import OpenedWait
from tenuto.model.errors import NotFound
from tenuto.model.ids import Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import RunState, TaskState
from tenuto.ports.reads import Awaited, Reads, RunFilter, TaskFilter
from tenuto.ports.store import PayloadRow, Store


async def test_an_unknown_run_is_not_found(reads: Reads) -> None:
    with pytest.raises(NotFound, match="no run"):
        await reads.get_run(new_run_id())


async def test_runs_are_listed_newest_first_in_pages(store: Store, reads: Reads) -> None:
    runs = [new_run_id() for _ in range(5)]
    await commit(store, *(a_start(run, a_task()) for run in runs))

    first = await reads.list_runs(RunFilter(limit=2))
    rest = await reads.list_runs(RunFilter(limit=9, before=first[-1].run_id))

    assert [row.run_id for row in (*first, *rest)] == runs[::-1]


async def test_a_whole_run_is_what_its_parts_are_read_as(store: Store, reads: Reads) -> None:
    run_id = new_run_id()
    key, lacking = (PayloadKey(Place(place), PayloadKind.INPUT) for place in "ab")
    await commit(store, a_start(run_id, a_task(), a_task("f[0]")))
    await commit(
        store,
        a_change(
            run_id,
            1,
            events=tuple(an_event(seq) for seq in (2, 3, 4)),
            payloads=(an_input("a", 2, "1"), an_input("a", 3, "2")),
            snapshot=a_snapshot(run_id, 4),
        ),
    )

    whole = await reads.get_whole(run_id, [key, lacking])
    page = await reads.get_whole(run_id, [], after=1, limit=2)

    assert whole.detail == await reads.get_run(run_id, items=False)
    assert whole.events == await reads.history(run_id)
    assert whole.texts == {key: "2", lacking: None}
    assert (page.detail, page.texts) == (whole.detail, {})
    assert [event.seq for event in page.events] == [2, 3]
    with pytest.raises(NotFound, match="no run"):
        await reads.get_whole(new_run_id(), [key])


async def test_many_runs_are_read_together_in_the_order_asked_for(
    store: Store, reads: Reads
) -> None:
    runs = [new_run_id() for _ in range(3)]
    await commit(store, *(a_start(run, a_task()) for run in runs))

    found = await reads.get_runs([runs[2], new_run_id(), runs[0]])

    assert [row.run_id for row in found] == [runs[2], runs[0]]
    assert list(found) == [(await reads.get_run(run)).run for run in (runs[2], runs[0])]
    assert await reads.get_runs([]) == ()


async def test_runs_are_filtered_by_namespace_workflow_and_state(
    store: Store, reads: Reads
) -> None:
    runs = [new_run_id() for _ in range(5)]
    await commit(
        store,
        a_start(runs[0], a_task()),
        a_start(runs[1], a_task(), workflow="refund"),
        a_start(runs[2], a_task(), namespace="other"),
        a_start(runs[3], a_task()),
        a_start(runs[4], a_task()),
    )
    await commit(store, a_settlement(runs[3], 1, RunState.FAILED))
    await commit(
        store, a_change(runs[4], 1, hold=True, snapshot=a_snapshot(runs[4], 2, paused=True))
    )

    async def listed(**wanted: object) -> list[RunId]:
        return [row.run_id for row in await reads.list_runs(RunFilter(**wanted))]  # type: ignore[arg-type]

    assert await listed(workflow="order") == [runs[4], runs[3], runs[0]]
    assert await listed(namespace="other") == [runs[2]]
    assert await listed(states=("failed",)) == [runs[3]]
    assert await listed(states=("failed", "paused")) == [runs[4], runs[3]]
    assert await listed(states=("success",)) == []
    assert await reads.count_runs("default") == {"failed": 1, "paused": 1, "running": 2}


async def test_what_open_waits_wait_for_is_listed_by_address(store: Store, reads: Reads) -> None:
    def wait(place: str, event: str, key: str) -> OpenedWait:
        return OpenedWait(Place(place), event, key, 1, START)

    await commit(
        store,
        a_start(new_run_id(), waits=(wait("a", "paid", "1"), wait("b", "paid", "2"))),
        a_start(new_run_id(), waits=(wait("a", "paid", "1"), wait("b", "sent", "1"))),
        a_start(new_run_id(), namespace="other", waits=(wait("a", "paid", "9"),)),
    )

    paid = [Awaited(event="paid", key="1", waits=2), Awaited(event="paid", key="2", waits=1)]
    assert list(await reads.list_awaited("default", "paid")) == paid
    assert list(await reads.list_awaited("default")) == [
        *paid,
        Awaited(event="sent", key="1", waits=1),
    ]


async def test_a_run_is_found_by_either_end_of_its_id(store: Store, reads: Reads) -> None:
    runs = [new_run_id() for _ in range(3)]
    await commit(store, *(a_start(run, a_task()) for run in runs))

    assert await reads.list_run_ids(runs[1]) == (runs[1],)
    assert await reads.list_run_ids(runs[1][-8:].upper()) == (runs[1],)
    assert await reads.list_run_ids(runs[0][:8]) == tuple(runs[::-1])
    for nothing in ("", "zz", "%", runs[0] + "0"):
        assert await reads.list_run_ids(nothing) == ()


async def test_at_most_ten_ids_are_listed(store: Store, reads: Reads) -> None:
    runs = [new_run_id() for _ in range(12)]
    await commit(store, *(a_start(run, a_task()) for run in runs))

    assert await reads.list_run_ids(runs[0][:4]) == tuple(runs[:1:-1])


async def test_history_is_read_in_order_and_in_pages(store: Store, reads: Reads) -> None:
    """Catalogue J3."""
    run_id = new_run_id()
    await commit(store, a_start(run_id, a_task()))
    await commit(
        store,
        a_change(
            run_id,
            1,
            events=tuple(an_event(seq) for seq in (2, 3, 4)),
            snapshot=a_snapshot(run_id, 4),
        ),
    )

    assert await reads.history(run_id) == tuple(an_event(seq) for seq in (1, 2, 3, 4))
    assert [e.seq for e in await reads.history(run_id, after=1, limit=2)] == [2, 3]
    assert await reads.history(new_run_id()) == ()


async def test_the_newest_payload_of_a_key_counts(store: Store, reads: Reads) -> None:
    run_id, key = new_run_id(), PayloadKey(Place("a"), PayloadKind.INPUT)
    await commit(store, a_start(run_id, a_task()))
    await commit(
        store, a_change(run_id, 1, payloads=(an_input("a", 2, "2"), an_input("b", 2, "3")))
    )

    read = await reads.payloads(run_id, [key, PayloadKey(Place("c"), PayloadKind.ERROR)])

    assert read == {key: "2"}
    assert [(p.key.place, p.seq, p.text) for p in await reads.all_payloads(run_id)] == [
        ("a", 1, '{"n":1}'),
        ("a", 2, "2"),
        ("b", 2, "3"),
    ]


async def test_payloads_of_many_runs_are_read_together(store: Store, reads: Reads) -> None:
    first, second = new_run_id(), new_run_id()
    for run_id, text in ((first, "1"), (second, "2")):
        await commit(store, a_start(run_id, payloads=(an_input("a", 1, text),)))
    key = PayloadKey(Place("a"), PayloadKind.INPUT)

    read = await reads.payloads_of_runs([(second, key), (first, key), (new_run_id(), key)])

    assert read == {(first, key): "1", (second, key): "2"}


async def test_all_payloads_of_a_large_run_are_read(store: Store, reads: Reads) -> None:
    run_id = new_run_id()
    rows = tuple(
        PayloadRow(key=PayloadKey(Place(f"n{n:04}"), kind), seq=1, text=str(n))
        for n in range(400)
        for kind in (PayloadKind.INPUT, PayloadKind.OUTPUT, PayloadKind.ERROR)
    )
    await commit(store, a_start(run_id, payloads=rows))

    read = await reads.all_payloads(run_id)

    assert sorted(read, key=repr) == sorted(rows, key=repr)


async def test_a_run_of_ten_thousand_nodes_reads_back(store: Store, reads: Reads) -> None:
    """Catalogue I-13."""
    run_id = new_run_id()
    snapshot = a_snapshot(run_id, 1, nodes=b"a." * 5_000, edges=b"-t" * 10_000, passes=(3, 1))
    await commit(store, a_start(run_id, snapshot=snapshot))

    assert (await reads.get_run(run_id)).snapshot == snapshot

    later = a_snapshot(run_id, 2, nodes=b"s." * 5_000, edges=b"td" * 10_000, live=7)
    await commit(store, a_change(run_id, 1, snapshot=later))

    assert (await reads.get_run(run_id)).snapshot == later


async def test_runs_are_filtered_by_key_and_by_when_they_were_made(
    store: Store, reads: Reads
) -> None:
    ids = Uuid7Ids()
    hour = 3_600_000_000
    old, new = ids.run_id(START - 2_000), ids.run_id(START + hour - 2_000)  # drawn 2 ms before
    later = a_start(new, a_task(), key="k2")
    assert later.new_run is not None
    later = replace(later, new_run=replace(later.new_run, created_at=START + hour))
    await commit(store, a_start(old, a_task(), key="k1"), later)

    async def listed(**wanted: object) -> list[RunId]:
        return [row.run_id for row in await reads.list_runs(RunFilter(**wanted))]  # type: ignore[arg-type]

    half = START + 1_800_000_000
    assert await listed(key="k1") == [old]
    assert await listed(since=half) == [new]
    assert await listed(until=half) == [old]
    assert await listed(since=START, until=half) == [old]
    assert await listed(since=START + 1, until=START + hour) == []
    assert await listed(since=half, until=half) == []


async def test_tasks_are_listed_by_the_state_that_people_see(store: Store, reads: Reads) -> None:
    leased = await a_leased_run(store)
    waiting, dead, retried = new_run_id(), new_run_id(), new_run_id()
    error = PayloadRow(key=PayloadKey(Place("a"), PayloadKind.ERROR), seq=2, text='{"code":"x"}')
    await commit(
        store,
        a_start(waiting, a_task(queue="other")),
        a_start(dead, a_task()),
        a_start(retried, a_task(state=TaskState.RETRY)),
        a_start(new_run_id(), a_task(), namespace="other"),
    )
    gone = a_task(state=TaskState.DEAD)
    await commit(store, a_change(dead, 1, updated=((gone, True),), payloads=(error,)))

    async def listed(*states: str, **wanted: object) -> list[RunId]:
        rows = await reads.list_tasks(TaskFilter(states=states, **wanted))  # type: ignore[arg-type]
        return [row.run_id for row in rows]

    assert await listed("running") == [leased.run_id]
    assert await listed("pending") == [waiting]
    assert await listed("retry", "dead") == [retried, dead]
    assert await listed(queue="other") == [waiting]
    assert await listed() == [retried, dead, waiting, leased.run_id]
    [row] = await reads.list_tasks(TaskFilter(states=("dead",)))
    assert (row.workflow, row.task.state, row.lease, row.error) == (
        "order",
        TaskState.DEAD,
        None,
        '{"code":"x"}',
    )


async def test_tasks_are_listed_in_pages_newest_run_first(store: Store, reads: Reads) -> None:
    runs = [new_run_id() for _ in range(3)]
    await commit(store, *(a_start(run, a_task("b"), a_task("a", node=1)) for run in runs))

    found: list[tuple[RunId, Place]] = []
    while page := await reads.list_tasks(
        TaskFilter(limit=2, before=found[-1] if found else None, states=("pending",))
    ):
        found += [(row.run_id, row.task.place) for row in page]

    assert found == [(run, place) for run in runs[::-1] for place in ("a", "b")]
