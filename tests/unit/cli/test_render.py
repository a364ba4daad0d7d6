"""How reports look."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from tenuto.cli.plain import step_line, wait_line
from tenuto.cli.render import (
    clean,
    cures,
    detail_view,
    end_text,
    failure_text,
    live_view,
    outcome_view,
    own_frames,
    value_text,
)
from tenuto.views.report import NodeLine, Report
from tenuto.views.timeline import Step

SECOND = 1_000_000


def shown(view: RenderableType, width: int = 120) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(view)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def report(*nodes: NodeLine, state: str = "running", **more: object) -> Report:
    return Report(
        run_id="run-1",
        workflow="order",
        version=1,
        state=state,
        key=None,
        created_at=0,
        ended_at=None,
        now=5 * SECOND,
        nodes=nodes,
        **more,  # type: ignore[arg-type]
    )


def step(**changes: object) -> Step:
    plain: dict[str, object] = {
        "place": "a",
        "node": "a",
        "what": "attempt",
        "result": "success",
        "attempt": 1,
        "started_at": SECOND,
        "ended_at": 3 * SECOND,
    }
    return Step(**(plain | changes))  # type: ignore[arg-type]


def test_the_live_view_says_what_each_node_does() -> None:
    view = live_view(
        report(
            NodeLine(id="a", type="task", state="success", attempts=1, attempts_max=1),
            NodeLine(
                id="b", type="http", state="running", attempts=2, attempts_max=3, since=SECOND
            ),
            NodeLine(id="c", type="wait", state="waiting", waits_for="its time in 2s"),
            NodeLine(id="d", type="task", state="dead", error={"code": "E", "message": "no"}),
            NodeLine(id="e", type="task", state="pending", iteration=2),
        ),
        height=40,
    )

    assert [line.split() for line in shown(view)] == [
        ["order", "run-1", "running", "5s"],
        ["✓", "a", "success"],
        ["●", "b", "running", "attempt", "2/3", "4s"],
        ["…", "c", "waiting", "waits", "for", "its", "time", "in", "2s"],
        ["✗", "d", "dead", "E:", "no"],
        ["·", "e", "#2", "pending"],
    ]


def test_a_long_list_keeps_what_is_under_way_and_counts_the_rest() -> None:
    nodes = [NodeLine(id=f"n{n}", type="task", state="pending") for n in range(50)]
    nodes[40] = NodeLine(id="n40", type="task", state="running", since=0)

    lines = shown(live_view(report(*nodes), height=8))

    assert len(lines) == 7
    assert any("n40" in line for line in lines)
    assert lines[-1].strip() == "and 45 more nodes: 49 pending, 1 running"


def test_the_outcome_shows_timeline_state_and_output() -> None:
    over = report(
        state="success",
        timeline=(
            step(result="failed", code="http.503"),
            step(attempt=2, started_at=4 * SECOND, ended_at=4 * SECOND + 1_500),
            step(place="w", what="wait", attempt=None),
            step(place="", what="run", attempt=None, result="paused"),
        ),
        output={"total": 3},
    )

    assert [" ".join(line.split()) for line in shown(outcome_view(over))] == [
        "start node attempt result took code",
        "+1.000s a 1 failed 2s http.503",
        "+4.000s a 2 success 1.5ms",
        "+1.000s w wait success 2s",
        "+1.000s (run) paused",
        "",
        "run run-1 success after 5s",
        "output:",
        "{",
        '"total": 3',
        "}",
    ]


def test_a_failed_run_shows_its_error_and_no_output() -> None:
    over = report(state="failed", error={"code": "E", "message": "broke", "node": "a"})

    assert shown(outcome_view(over)) == ["run run-1 failed after 5s", "error: E: broke (node a)"]


def test_the_detail_names_quarantine_and_its_cure() -> None:
    text = "\n".join(shown(detail_view(report(quarantine="event 3: boom"))))

    assert "event 3: boom" in text
    assert cures(report(quarantine="event 3: boom")) == [
        ("nothing of it is handed out until it is resumed:", "tenuto run resume run-1")
    ]


def test_a_long_message_of_a_failure_is_cut_to_the_terminal_in_a_line_of_its_own() -> None:
    over = report(timeline=(step(result="failed", code="E", message="word " * 40),), state="failed")

    lines = shown(outcome_view(over), width=80)

    assert lines[1] == "+1.000s  a     1        failed  2s    E"
    assert lines[2].startswith("           word word")
    assert lines[2].endswith("…")
    assert (len(lines[2]), lines[3]) == (80, "")


def test_the_live_view_keeps_its_columns_in_a_narrow_terminal() -> None:
    waiting = NodeLine(
        id="approval", type="wait_for_event", state="waiting", waits_for="event " + "x" * 90
    )

    lines = shown(live_view(report(waiting), height=40), width=80)

    assert lines[1].startswith(" … approval waiting  waits for event xxx")
    assert lines[1].endswith("…")
    assert (len(lines), len(lines[1])) == (2, 80)


def test_a_retry_shows_what_failed_before() -> None:
    line = NodeLine(
        id="a",
        type="task",
        state="retry",
        waits_for="attempt 2 in 1s",
        error={"code": "E", "message": "no"},
    )

    assert shown(live_view(report(line), height=9))[1].endswith(
        "waits for attempt 2 in 1s after E: no"
    )


def test_a_pass_of_a_loop_is_named_alike_everywhere() -> None:
    line = NodeLine(id="w", type="wait", state="waiting", place="w.2.3", waits_for="time")

    assert wait_line(line, 0, 0).split()[1:3] == ["w", "#2.3"]
    assert step_line(step(place="w.2.3"), 0).split()[1:3] == ["w", "#2.3"]
    assert "w #2.3" in "\n".join(shown(outcome_view(report(timeline=(step(place="w.2.3"),)))))
    assert "w #2.3" in "\n".join(shown(live_view(report(line), height=9)))


def test_a_traceback_is_cut_to_the_users_own_innermost_frames() -> None:
    frames = [
        '  File "/home/me/app.py", line 1, in a',
        "    b()",
        '  File "/x/site-packages/lib/x.py", line 2, in b',
        "    c()",
        "    ~^^",
    ]

    assert own_frames({"details": {"traceback": frames}}) == frames[:2]
    assert own_frames({"details": {"traceback": frames[2:]}}) == frames[2:4]
    assert own_frames({"details": {"traceback": frames[:2] * 9}}) == frames[:2] * 3
    assert own_frames({"details": {"stock": 0}}) == own_frames(None) == []


def test_control_characters_in_data_never_reach_the_terminal() -> None:
    evil = "a\x1b[31mred\r\nforged line\x00"

    assert clean(evil) == "a\\x1b[31mred\\r\\nforged line\\x00"
    assert "\x1b" not in "".join(shown(outcome_view(report(state="success", output={"k": evil}))))
    assert failure_text({"code": "E", "message": evil}).count("\n") == 0


def test_markup_in_data_is_only_text() -> None:
    over = report(state="failed", error={"code": "[red]E[/red]", "message": "[/bold]"})

    assert shown(outcome_view(over))[-1] == "error: [red]E[/red]: [/bold]"


@pytest.mark.parametrize(
    ("state", "error", "said"),
    [
        ("success", None, "success"),
        ("cancelled", {"code": "cancelled", "message": "twice"}, "cancelled: twice"),
        ("cancelled", {"code": "cancelled"}, "cancelled"),
        ("failed", {"code": "E", "message": "no", "node": "a"}, "failed: E: no (node a)"),
    ],
)
def test_the_end_of_a_run_says_its_state_once(state: str, error: object, said: str) -> None:
    assert end_text(state, error) == said


def test_failures_are_told_in_one_line() -> None:
    assert [
        failure_text(error)
        for error in (None, {"code": "E", "message": ""}, {"code": "E", "message": "E"}, "odd")
    ] == ["", "E", "E", "odd"]


def test_a_foreach_is_told_to_have_failed_of_its_first_item() -> None:
    error = {
        "code": "foreach_failed",
        "message": "2 of 9 items failed, 0 are tolerated",
        "node": "each",
        "details": {"index": 5, "cause": {"code": "http.500", "message": "no", "node": "each"}},
    }

    assert failure_text(error) == (
        "foreach_failed: 2 of 9 items failed, 0 are tolerated: item 5: http.500: no (node each)"
    )


@pytest.mark.rule("C4.5")
@pytest.mark.parametrize(
    ("compensation", "told"),
    [
        ("none", []),
        ("complete", ["undone: complete"]),
        ("partial", ["undone in part: flight (http.500), car (cancelled)"]),
    ],
)
def test_C4_the_outcome_tells_what_became_of_undoing(compensation: str, told: list[str]) -> None:
    over = report(
        NodeLine(id="hotel", type="task", state="success", undo="undone"),
        NodeLine(
            id="flight",
            type="task",
            state="success",
            undo="failed",
            undo_error={"code": "http.500"},
        ),
        NodeLine(id="car", type="task", state="success", undo="cancelled"),
        state="failed",
        compensation=compensation,
    )

    assert shown(outcome_view(over)) == ["run run-1 failed after 5s", *told]


def test_a_call_in_the_live_view_names_its_run_once() -> None:
    line = NodeLine(
        id="bill",
        type="call",
        state="running",
        child="x-70bd3af4",
        since=SECOND,
        waits_for="run 70bd3af4",
    )

    assert [" ".join(each.split()) for each in shown(live_view(report(line), height=9))][1:] == [
        "● bill running waits for run 70bd3af4 4s"
    ]


def test_a_huge_output_is_cut_and_says_where_the_rest_is() -> None:
    lines = value_text("x" * 5_000).splitlines()

    assert len(lines) == 2
    assert lines[1] == "… 1002 characters more; -o json prints all"


def test_the_plain_log_has_a_line_for_each_step() -> None:
    lines = [
        step_line(step(), 0),
        step_line(step(result="failed", code="timeout", attempt=2), 0),
        step_line(step(what="event", attempt=None), 0),
        step_line(step(what="event", attempt=None, result="failed", code="timeout"), 0),
        step_line(step(what="event", attempt=None, result="failed", code="paper_jam"), 0),
        step_line(step(what="items", attempt=None, message="997 of 1,000 items succeeded"), 0),
        step_line(step(what="items", attempt=None, result="lost", message="12 were lost"), 0),
        step_line(step(what="wait", attempt=None), 0),
        step_line(step(place="", what="run", attempt=None, result="paused"), 0),
        wait_line(NodeLine(id="w", type="wait", state="waiting", waits_for="time"), SECOND, 0),
    ]

    assert [" ".join(line.split()) for line in lines] == [
        "+3.000s a attempt 1 success after 2s",
        "+3.000s a attempt 2 failed after 2s: timeout",
        "+3.000s a event received after 2s",
        "+3.000s a no event after 2s: timeout",
        "+3.000s a event received after 2s, failed: paper_jam",
        "+3.000s a success after 2s: 997 of 1,000 items succeeded",
        "+3.000s a 12 were lost",
        "+3.000s a waited after 2s",
        "+3.000s run paused",
        "+1.000s w waits for time",
    ]


def test_the_timeline_says_who_worked_where_others_than_the_engine_did() -> None:
    own = shown(detail_view(report(timeline=(step(worker="embedded-1a"),))))
    apart = shown(detail_view(report(timeline=(step(worker="db1-1a"), step(what="wait")))))

    assert not any("worker" in line or "embedded-1a" in line for line in own)
    head = next(line for line in apart if "took" in line)
    line = next(line for line in apart if "db1-1a" in line)
    assert head.index("worker") == line.index("db1-1a")
