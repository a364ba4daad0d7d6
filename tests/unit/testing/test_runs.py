"""What paths are compared with, and how a run is shown."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tenuto.testing.runs import check_path, describe, waits_of
from tenuto.views.report import NodeLine, Report
from tenuto.views.timeline import Step


@pytest.mark.parametrize(
    ("path", "wanted", "wrong"),
    [
        ([], [], None),
        (["a", "b"], ["a", "b"], None),
        (["a", "c", "b", "d"], ["a", {"b", "c"}, "d"], None),
        (["a", "b"], ["b", "a"], "step 1 is a, not b"),
        (["a"], ["a", "b"], "step 2 is missing, not b"),
        (["a", "b", "c"], ["a"], "after the last step came b, c"),
        (["a", "b"], ["a", ["b", "c"]], "step 2 is b, not b and c"),
        (["a", "a"], [["a", "a"]], None),
    ],
)
def test_a_path_is_compared_step_by_step(
    path: list[str], wanted: Sequence[str], wrong: str | None
) -> None:
    assert check_path(path, wanted) == wrong


def a_report(**more: object) -> Report:
    fields: dict[str, object] = {
        "run_id": "r1",
        "workflow": "w",
        "version": 1,
        "state": "running",
        "key": None,
        "created_at": 0,
        "ended_at": None,
        "now": 0,
    }
    return Report(**{**fields, **more})  # type: ignore[arg-type]


def test_a_run_is_shown_with_its_timeline_and_what_it_waits_for() -> None:
    steps = (
        Step(place="a", node="a", what="attempt", result="failed", attempt=1, started_at=0,
             ended_at=2_000_000, code="http.503", message="busy"),
        Step(place="", node="", what="run", result="paused", started_at=9_000_000, ended_at=9_000_000),
    )  # fmt: skip
    shown = describe(a_report(timeline=steps, state="paused"))

    assert shown.splitlines() == [
        "run r1 of w: paused, started 1970-01-01T00:00:00.000Z",
        "  +0µs  a    attempt 1  failed http.503 after 2s: busy",
        "  +9s   run  run        paused",
        "  now: it is paused",
    ]


def test_an_error_is_cut_where_it_gets_long() -> None:
    shown = describe(a_report(state="failed", ended_at=1_000_000, error={"message": "x" * 5_000}))

    assert shown.startswith("run r1 of w: failed after 1s, started")
    assert shown.endswith("…")
    assert len(shown) < 2_200


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (NodeLine(id="n", type="task", state="running"), "n is at work"),
        (NodeLine(id="n", type="task", state="ready"), "n waits for a worker"),
        (
            NodeLine(id="n", type="wait", state="waiting", waits_for="its time"),
            "n waits for its time",
        ),
        (NodeLine(id="n", type="task", state="pending"), "nothing is left that it waits for"),
    ],
)
def test_what_a_run_waits_for_is_said_node_by_node(line: NodeLine, said: str) -> None:
    assert waits_of(a_report(nodes=(line,))) == said
