"""Notes: what attempts say is kept beside the history, once each, and read back in order."""

from __future__ import annotations

import pytest
from tests.support.store import START, a_leased_run, new_run_id

from tenuto.model.ids import Place, RunId
from tenuto.ports.gateway import Note, NoteKind
from tenuto.ports.reads import Reads
from tenuto.ports.store import Store


def a_note(run_id: RunId, number: int, text: str, **columns: object) -> Note:
    values: dict[str, object] = {
        "place": Place("a"),
        "attempt": 1,
        "kind": NoteKind.PROGRESS if number == 0 else NoteKind.STDOUT,
        "age_us": 0,
    }
    return Note(run_id=run_id, number=number, text=text, **(values | columns))  # type: ignore[arg-type]


async def test_notes_are_read_back_in_the_order_in_which_they_were_said(
    store: Store, reads: Reads
) -> None:
    run_id = (await a_leased_run(store)).run_id
    await store.note([a_note(run_id, 2, "two", age_us=10), a_note(run_id, 1, "one", age_us=30)])

    rows = await reads.notes(run_id)

    assert [(row.number, row.text, row.kind) for row in rows] == [
        (1, "one", NoteKind.STDOUT),
        (2, "two", NoteKind.STDOUT),
    ]
    assert rows[1].at - rows[0].at == 20


async def test_notes_of_an_attempt_keep_their_order_whatever_the_clock_did_between_two_deliveries(
    store: Store, reads: Reads
) -> None:
    run_id = (await a_leased_run(store)).run_id
    await store.note([a_note(run_id, 1, "one"), a_note(run_id, 2, "two")])
    other = a_note(run_id, 1, "other attempt", attempt=2, age_us=5_000)
    await store.note([a_note(run_id, 3, "three", age_us=9_000), other])

    texts = [row.text for row in await reads.notes(run_id)]

    assert texts == ["other attempt", "one", "two", "three"]


async def test_the_moment_is_the_stores_less_the_age(store: Store, reads: Reads) -> None:
    run_id = (await a_leased_run(store)).run_id
    [told] = await store.note([a_note(run_id, 1, "x", age_us=1_000_000)])

    [row] = await reads.notes(run_id)

    assert row == told
    assert row.at <= START - 1_000_000 + 60_000_000


async def test_a_note_that_comes_twice_is_kept_once(store: Store, reads: Reads) -> None:
    run_id = (await a_leased_run(store)).run_id
    for text in ("first", "again"):
        await store.note([a_note(run_id, 1, text)])

    assert [row.text for row in await reads.notes(run_id)] == ["first"]


async def test_of_an_attempts_progress_the_newest_stands(store: Store, reads: Reads) -> None:
    run_id = (await a_leased_run(store)).run_id
    for done in ("1", "2"):
        await store.note([a_note(run_id, 0, done)])
    await store.note([a_note(run_id, 0, "other attempt", attempt=2)])

    assert {(row.attempt, row.text) for row in await reads.notes(run_id)} == {
        (1, "2"),
        (2, "other attempt"),
    }


async def test_notes_of_tasks_that_do_not_exist_are_dropped(store: Store, reads: Reads) -> None:
    run_id = (await a_leased_run(store)).run_id
    nowhere = new_run_id()
    await store.note([a_note(nowhere, 1, "x"), a_note(run_id, 1, "y", place=Place("no.such"))])

    assert [*await reads.notes(nowhere), *await reads.notes(run_id)] == []


@pytest.mark.parametrize("limit", [1, 3])
async def test_a_bounded_reading_has_the_newest(store: Store, reads: Reads, limit: int) -> None:
    run_id = (await a_leased_run(store)).run_id
    await store.note([a_note(run_id, n, str(n), age_us=100 - n) for n in range(1, 6)])

    rows = await reads.notes(run_id, place=Place("a"), limit=limit)

    assert [row.text for row in rows] == ["1", "2", "3", "4", "5"][-limit:]
    assert await reads.notes(run_id, place=Place("b")) == ()
