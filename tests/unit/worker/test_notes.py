"""What attempts say is gathered in order, bounded, numbered, and handed out once."""

from __future__ import annotations

import json
import threading

import pytest
from tests.unit.worker.noted import a_lease

from tenuto.ports.gateway import NoteKind
from tenuto.worker.notes import LINE_MAX, LINES_MAX, TEXT_MAX, Notebook


def all_of(notebook: Notebook) -> list[tuple[int, str]]:
    found = []
    while notes := notebook.take():
        found += [(note.number, note.text) for note in notes]
    return found


def test_lines_are_numbered_per_attempt_in_the_order_they_were_said() -> None:
    notebook = Notebook()
    notebook.add(a_lease(1), NoteKind.STDOUT, "one\ntwo\n")
    notebook.add(a_lease(2), NoteKind.STDERR, "other")
    notebook.add(a_lease(1), NoteKind.STDOUT, "")

    notes = notebook.take()

    assert [(n.attempt, n.number, n.kind, n.text) for n in notes] == [
        (1, 1, "stdout", "one"),
        (1, 2, "stdout", "two"),
        (2, 1, "stderr", "other"),
        (1, 3, "stdout", ""),
    ]
    assert notebook.take() == []


def test_beyond_its_lines_an_attempt_says_once_that_more_was_dropped() -> None:
    notebook = Notebook()
    for number in range(LINES_MAX + 50):
        notebook.add(a_lease(), NoteKind.STDOUT, str(number))
    notebook.add(a_lease(2), NoteKind.STDOUT, "another attempt is not touched")

    told = all_of(notebook)

    assert len(told) == LINES_MAX + 1
    assert told[LINES_MAX - 2] == (LINES_MAX - 1, str(LINES_MAX - 2))
    assert told[LINES_MAX - 1][1].startswith("… more was dropped")
    assert told[-1] == (1, "another attempt is not touched")


def test_the_characters_of_a_line_and_of_an_attempt_are_bounded() -> None:
    notebook = Notebook()
    notebook.add(a_lease(), NoteKind.STDOUT, "x" * (LINE_MAX + 7))
    [note] = notebook.take()
    assert note.text == "x" * LINE_MAX + "… 7 characters more"

    for _ in range(2 * TEXT_MAX // LINE_MAX):
        notebook.add(a_lease(), NoteKind.STDOUT, "x" * LINE_MAX)

    assert sum(len(text) for _, text in all_of(notebook)) <= TEXT_MAX


def test_only_the_newest_progress_is_handed_out_under_number_0() -> None:
    notebook = Notebook()
    notebook.progress(a_lease(), 1, 10)
    notebook.progress(a_lease(), 2, 10, "halfway\0")

    [note] = notebook.take()

    assert (note.number, note.kind) == (0, "progress")
    assert json.loads(note.text) == {"done": 2, "total": 10, "message": "halfway\\0"}
    assert notebook.take() == []


def test_the_message_of_a_progress_is_bounded_as_a_line_is() -> None:
    notebook = Notebook()
    notebook.progress(a_lease(), 1, None, "x" * (LINE_MAX + 7))

    [note] = notebook.take()

    assert json.loads(note.text)["message"] == "x" * LINE_MAX + "… 7 characters more"


def test_the_last_progress_of_an_attempt_that_ended_is_not_lost() -> None:
    notebook = Notebook()
    notebook.progress(a_lease(), 10, 10)
    notebook.close(a_lease().lease_id)

    assert [number for number, _ in all_of(notebook)] == [0]


def test_notes_that_were_not_taken_come_again_in_order_and_older() -> None:
    notebook = Notebook()
    notebook.add(a_lease(), NoteKind.STDOUT, "one")
    notes = notebook.take()
    notebook.add(a_lease(), NoteKind.STDOUT, "two")
    notebook.put_back(notes)

    again = notebook.take()

    assert [note.text for note in again] == ["one", "two"]
    assert again[0].age_us >= notes[0].age_us


def test_progress_that_was_not_taken_gives_way_to_a_newer_one() -> None:
    notebook = Notebook()
    notebook.progress(a_lease(1), 1)
    notebook.progress(a_lease(2), 1)
    notebook.put_back(notebook.take())
    notebook.progress(a_lease(1), 2)

    notes = notebook.take()

    assert sorted((note.attempt, json.loads(note.text)["done"]) for note in notes) == [
        (1, 2),
        (2, 1),
    ]


def test_who_hands_in_is_woken_once_until_nothing_is_left() -> None:
    notebook, woken = Notebook(), []
    notebook.on_first = lambda: woken.append(1)
    for _ in range(3):
        notebook.add(a_lease(), NoteKind.STDOUT, "x")
    assert (len(woken), notebook.has_notes) == (1, True)
    all_of(notebook)
    assert notebook.has_notes is False
    notebook.progress(a_lease(), 1)

    assert len(woken) == 2


def test_threads_may_write_at_the_same_time() -> None:
    notebook = Notebook()
    lease = a_lease()

    def write() -> None:
        for _ in range(100):
            notebook.add(lease, NoteKind.STDOUT, "x")

    threads = [threading.Thread(target=write) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [number for number, _ in all_of(notebook)] == list(range(1, 501))


@pytest.mark.parametrize("said", ["a\0b", "half \ud800 a character"])
def test_what_no_store_can_hold_is_made_harmless(said: str) -> None:
    notebook = Notebook()
    notebook.add(a_lease(), NoteKind.STDOUT, said)

    [note] = notebook.take()

    assert "\0" not in note.text
    note.text.encode()


def test_what_another_process_gathered_keeps_its_order_and_wakes_once() -> None:
    theirs, ours, woken = Notebook(), Notebook(), list[int]()
    ours.on_first = lambda: woken.append(1)
    for line in ("one", "two"):
        theirs.add(a_lease(), NoteKind.STDOUT, line)
        ours.accept(theirs.take())

    assert all_of(ours) == [(1, "one"), (2, "two")]
    assert woken == [1]
