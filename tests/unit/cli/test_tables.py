"""How lists look: within 80 columns, ids by their end, nothing of a user's data breaks a line."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from tenuto.cli.tables import (
    awaited_table,
    condition_of,
    items_table,
    nodes_and_edges,
    note_line,
    runs_table,
    tasks_table,
    versions_table,
    workers_table,
    workflows_table,
)

SECOND = 1_000_000
LONG = "a-name-that-somebody-made-as-long-as-he-liked-" * 3
RUN = {
    "run_id": "01939d6e-0000-7000-8000-00000000abcd",
    "workflow": "order",
    "version": 3,
    "state": "paused",
    "key": "k",
    "created_at": "1970-01-01T00:00:01.000Z",
    "ended_at": None,
    "quarantine": "why",
    "parent": None,
}
TASK = {
    "run_id": RUN["run_id"],
    "place": "look.3",
    "name": "poll.look",
    "queue": "default",
    "state": "dead",
    "attempt": 2,
    "worker": None,
    "error": {"code": "no_stock", "message": "none\x1b[2J left"},
}
WORKER = {
    "id": "embedded-1f3a9c2e",
    "queues": ["*"],
    "names": ["a", "b"],
    "capacity": 50,
    "busy": 2,
    "version": "0.1.0",
    "seen_at": "1970-01-01T00:00:01.000Z",
    "lost": False,
}
WORKFLOW = {
    "name": "order",
    "version": 3,
    "versions": 3,
    "hash": "0123456789abcdef",
    "created_at": "1970-01-01T00:00:01.000Z",
}
VERSION = WORKFLOW | {"aliases": ["canary", "stable"]}
EDGE = {"from": "a", "to": "b", "on": "success", "when": None, "else": False, "loop": None}


def lines(view: RenderableType, width: int = 80) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(view)
    return out.getvalue().splitlines()


def words(view: RenderableType) -> list[str]:
    return [" ".join(line.split()) for line in lines(view, 200)]


def test_the_list_of_runs_shows_age_and_marks_quarantine() -> None:
    assert words(runs_table([RUN], 4 * SECOND)) == [
        "run workflow state key age lasted",
        "0000abcd order v3 paused quarantined k 3s",
    ]


def test_a_key_that_a_client_drew_is_not_shown_but_one_like_it_is() -> None:
    drawn, own = RUN | {"key": "once-" + "0f" * 12}, RUN | {"key": "once-upon"}

    _, first, second = words(runs_table([drawn, own], 4 * SECOND))

    assert "once" not in first
    assert "once-upon" in second


def test_a_task_is_shown_with_its_pass_and_its_failure_made_harmless() -> None:
    assert words(tasks_table([TASK]))[1] == (
        "0000abcd look #3 poll.look default dead 2 no_stock: none\\x1b[2J left"
    )


def test_workers_are_shown_with_how_busy_they_are() -> None:
    assert words(workers_table([WORKER], 4 * SECOND))[1] == (
        "embedded-1f3a9c2e 2/50 all a, b 0.1.0 3s ago"
    )


def test_a_worker_that_has_been_silent_for_too_long_is_shown_as_lost() -> None:
    assert words(workers_table([WORKER | {"lost": True}], 4 * SECOND))[1].endswith(" 3s ago, lost")


def test_workflows_and_versions_show_short_hashes() -> None:
    assert words(workflows_table([WORKFLOW], 4 * SECOND))[1] == "order 3 3 0123456789ab 3s"
    assert words(versions_table([VERSION], 4 * SECOND))[1] == "3 0123456789ab 3s canary, stable"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, ""),
        ({"when": "input.a > 1"}, "input.a > 1"),
        ({"else": True}, "else"),
        ({"when": "input.a", "loop": 3}, "input.a; loop, at most 3 times"),
    ],
)
def test_an_edge_says_when_it_is_taken(more: dict[str, Any], said: str) -> None:
    assert condition_of(EDGE | more) == said


@pytest.mark.parametrize(
    "view",
    [
        runs_table([RUN | {"workflow": LONG, "key": LONG}], 0),
        workflows_table([WORKFLOW | {"name": LONG}], 0),
        tasks_table([TASK | {"place": LONG, "name": LONG, "queue": LONG, "error": {"code": LONG}}]),
        workers_table([WORKER | {"id": LONG, "queues": [LONG], "names": [LONG, LONG]}], 0),
        awaited_table([{"event": LONG, "key": LONG, "waits": 3}]),
        *nodes_and_edges(
            {
                "nodes": [{"id": LONG, "type": "task"}],
                "edges": [EDGE | {"from": LONG, "to": LONG, "when": LONG}],
            }
        ),
    ],
)
def test_names_of_any_length_keep_to_80_columns_and_one_line(view: RenderableType) -> None:
    shown = lines(view)

    assert len(shown) == 2
    assert max(map(len, shown)) <= 80


NOTE = {
    "place": "score",
    "attempt": 1,
    "at": "2026-11-29T21:35:39.098Z",
    "kind": "stdout",
    "text": "hello\x1b[1m",
}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "21:35:39.098  score  hello\\x1b[1m"),
        ({"attempt": 2}, "21:35:39.098  score (attempt 2)  hello\\x1b[1m"),
        (
            {"kind": "progress", "text": '{"done": 3, "total": 10, "message": "files"}'},
            "21:35:39.098  score  progress: 3 of 10 files",
        ),
        (
            {"kind": "progress", "text": '{"done": 3, "total": null, "message": ""}'},
            "21:35:39.098  score  progress: 3",
        ),
        (
            {"kind": "progress", "text": '{"done": 29000000, "total": 3e7, "message": ""}'},
            "21:35:39.098  score  progress: 29000000 of 30000000",
        ),
        (
            {"kind": "progress", "text": '{"done": 0.25, "total": 1.0, "message": ""}'},
            "21:35:39.098  score  progress: 0.25 of 1",
        ),
        ({"kind": "progress", "text": "?"}, "21:35:39.098  score  ?"),
    ],
)
def test_a_note_is_one_line_with_its_moment_and_place(more: dict[str, Any], said: str) -> None:
    assert note_line(NOTE | more) == said


def test_a_task_that_nobody_has_yet_is_ready_and_at_no_attempt() -> None:
    task = TASK | {"state": "pending", "attempt": 1, "error": None}
    assert words(tasks_table([task]))[1].endswith(" default ready")


ITEM = {"index": 0, "state": "success", "attempt": 2, "child": None, "error": None, "output": 7}


def test_outputs_of_items_stand_below_their_own_word() -> None:
    head, line = words(items_table([ITEM]))
    assert head.split() == ["item", "state", "attempt", "output"]
    assert line.split() == ["0", "success", "2", "7"]
    head, line = words(items_table([ITEM | {"child": RUN["run_id"]}]))
    assert head.split() == ["item", "state", "attempt", "run", "output"]
    assert line.split() == ["0", "success", "2", "0000abcd", "7"]
