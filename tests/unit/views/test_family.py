"""What is nested in a run, in a few words and as documents."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.driver import graph_of
from tests.support.rows import TASK

from tenuto.machine import events
from tenuto.machine.snapshot import Closing, Done, Items, Snapshot, Task
from tenuto.model.ids import Place, RunId
from tenuto.model.payload import Text
from tenuto.model.states import NodeLetter, RunState, TaskState
from tenuto.views.family import (
    CHILDREN_SHOWN,
    ChildLine,
    ItemCounts,
    closing_line,
    item_counts,
    parent_document,
    undo_status,
    whole_error,
    with_children,
)
from tenuto.views.timeline import ITEMS_SHOWN, Listed, label_of, make_timeline

RUN = RunId("01939d6e-0000-7000-8000-00000000abcd")
SAGA = graph_of("""
name: saga
nodes:
  book: {type: task, task: book, compensate: {type: task, task: unbook}}
  pay: {type: task, task: pay, needs: [book]}
""")


def snapshot(**more: object) -> Snapshot:
    plain = Snapshot(
        run_id=RUN,
        seq=3,
        at=1,
        state=RunState.RUNNING,
        paused=False,
        epoch=1,
        nodes=b"sa",
        edges=b"t",
        passes=(),
        live=1,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def task(place: str, state: TaskState) -> Task:
    return replace(TASK, place=Place(place), name="unbook", priority=0, state=state)


# -- items ---------------------------------------------------------------------------------------------------------


def items(**more: int) -> Items:
    return replace(
        Items(listed=10, complete=True, concurrency=3, tolerate=0),
        **more,  # type: ignore[arg-type]
    )


def test_a_foreach_counts_what_has_ended_and_what_is_under_way() -> None:
    counts = item_counts(NodeLetter.ACTIVE, items(next=8, active=3, succeeded=4, failed=1))

    assert counts is not None
    assert (counts.succeeded, counts.failed, counts.active, counts.cancelled) == (4, 1, 3, 0)
    assert counts.text == "5 of 10, 1 failed"


def test_items_that_never_ended_were_cancelled_once_the_foreach_has_ended() -> None:
    counts = item_counts(NodeLetter.DEAD, items(next=8, active=3, succeeded=4, failed=1))

    assert counts is not None
    assert (counts.active, counts.cancelled, counts.ended) == (0, 5, 10)


def test_a_list_with_more_pages_says_so() -> None:
    counts = item_counts(NodeLetter.ACTIVE, replace(items(succeeded=2), complete=False))

    assert counts is not None
    assert counts.text == "2 of 10+"


@pytest.mark.parametrize("letter", [NodeLetter.PENDING, NodeLetter.SKIPPED])
def test_a_foreach_that_has_not_begun_counts_nothing(letter: NodeLetter) -> None:
    assert item_counts(letter, items()) is None


# -- undoing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (TaskState.PENDING, "undoing"),
        (TaskState.RETRY, "undoing"),
        (TaskState.SUCCESS, "undone"),
        (TaskState.DEAD, "failed"),
        (TaskState.CANCELLED, "cancelled"),
    ],
)
def test_C3_what_became_of_undoing_is_that_of_its_task(state: TaskState, told: str) -> None:
    node, handler = SAGA.definition.nodes[0], task("book!undo", state)

    found = undo_status(
        node, Place("book"), NodeLetter.SUCCESS, snapshot(), {handler.place: handler}
    )

    assert found == told


def test_C3_work_that_is_left_to_undo_is_due() -> None:
    closing = Closing(outcome=RunState.FAILED, drained=True, todo=(Place("book"),))
    open_ = snapshot(state=RunState.CLOSING, closing=closing)

    assert undo_status(SAGA.definition.nodes[0], Place("book"), NodeLetter.SUCCESS, open_, {}) == (
        "due"
    )
    line = closing_line(open_)
    assert line is not None
    assert line.text == "1 left to undo"


def test_C3_an_instant_handler_has_no_task_and_its_work_has_left_the_list() -> None:
    node, place = SAGA.definition.nodes[0], Place("book")
    undone = snapshot(state=RunState.FAILED, compensation="complete")
    kept = replace(undone, done=(Done(place, 2),))

    assert undo_status(node, place, NodeLetter.SUCCESS, undone, {}) == "undone"
    assert undo_status(node, place, NodeLetter.SUCCESS, kept, {}) == ""


def test_a_node_without_a_handler_is_not_undone() -> None:
    assert (
        undo_status(SAGA.definition.nodes[1], Place("pay"), NodeLetter.SUCCESS, snapshot(), {})
        == ""
    )


def test_C2_a_closing_run_first_waits_for_what_is_under_way() -> None:
    line = closing_line(
        snapshot(state=RunState.CLOSING, closing=Closing(outcome=RunState.CANCELLED))
    )

    assert line is not None
    assert (line.outcome, line.text) == (
        "cancelled",
        "waits for attempts and children under way to end",
    )
    assert closing_line(snapshot()) is None


# -- relations -----------------------------------------------------------------------------------------------------


def test_a_parent_is_told_with_its_node_and_item() -> None:
    assert parent_document(None) is None
    assert parent_document((RUN, Place("each[5]~2"))) == {
        "run_id": RUN,
        "node": "each",
        "item": 5,
    }


def test_children_are_bounded_and_say_that_there_are_more() -> None:
    lines = [
        ChildLine(
            run_id=str(number),
            place="sub",
            workflow="w",
            version=1,
            state="running",
            created_at=0,
            ended_at=None,
        )
        for number in range(CHILDREN_SHOWN + 1)
    ]

    assert with_children(lines, open=30).more
    assert len(with_children(lines, open=30).newest) == CHILDREN_SHOWN
    assert not with_children(lines[:-1], open=0).more


# -- the timeline --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "label"),
    [
        ("charge", "charge"),
        ("look.3", "look #3"),
        ("look.3.2[5]", "look #3.2[5]"),
        ("charge!undo", "undo charge"),
        ("charge.2!undo~3", "undo charge #2~3"),
        ("each[p0]", "each[p0]"),
        ("!on_failure", "on_failure"),
        ("", ""),
    ],
)
def test_a_place_is_read_as_people_say_it(place: str, label: str) -> None:
    assert label_of(place) == label


def attempt(index: int, *, failed: bool) -> events.Event:
    place = Place(f"each[{index}]")
    if failed:
        return events.AttemptFailed(
            at=index + 10,
            place=place,
            attempt=1,
            lease_id="l",  # type: ignore[arg-type]
            code="bad",
            error=Text(2),
            draw=0.5,
            leased_at=index + 1,
        )
    return events.AttemptSucceeded(
        at=index + 10,
        place=place,
        attempt=1,
        lease_id="l",  # type: ignore[arg-type]
        output=Text(2),
        leased_at=index + 1,
    )


def test_items_of_one_foreach_share_a_line_where_they_are_many() -> None:
    history = [(seq, attempt(seq, failed=seq % 2 == 0)) for seq in range(1, 41)]

    steps = make_timeline(history)

    [shared] = [step for step in steps if step.what == "items"]
    assert (shared.place, shared.result) == ("each", "failed")
    assert shared.message == "20 items succeeded, 20 failed"
    assert (shared.started_at, shared.ended_at) == (2, 50)
    assert len(steps) == ITEMS_SHOWN + 1
    assert {step.result for step in steps if step is not shared} == {"failed"}


def test_a_foreach_that_tolerated_failures_has_its_own_state_in_the_timeline() -> None:
    history = [(seq, attempt(seq, failed=seq == 7)) for seq in range(1, 41)]
    told = Listed("success", "39 of 40 items succeeded, 1 failed")

    steps = make_timeline(history, lists={"each": told})

    [shared] = [step for step in steps if step.what == "items"]
    assert (shared.result, shared.message) == ("success", told.text)
    assert [step.result for step in steps if step is not shared] == ["failed"]


def test_lost_attempts_at_items_share_a_line_and_are_no_failures() -> None:
    lost = [
        events.LeaseExpired(
            at=10,
            place=Place(f"each[{index}]"),
            attempt=1,
            lease_id="l",  # type: ignore[arg-type]
            leased_at=1,
        )
        for index in range(1, 13)
    ]
    ended = [attempt(index, failed=False) for index in range(1, 13)]
    history = list(enumerate([*lost, *ended], start=1))

    steps = make_timeline(history)

    assert [(step.what, step.result, step.message) for step in steps] == [
        ("items", "lost", "12 attempts were lost with the engine; they run again"),
        ("items", "success", "12 items succeeded"),
    ]
    again = make_timeline([*history, (99, replace(lost[0], at=30))])
    assert [step.ended_at for step in again if step.result == "lost"] == [10], "it is the same line"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"succeeded": 1_000}, "1,000 items succeeded"),
        ({"succeeded": 997, "failed": 3}, "997 of 1,000 items succeeded, 3 failed"),
        ({"succeeded": 4, "complete": False}, "4 of 1,000+ items succeeded"),
        (
            {"succeeded": 900, "failed": 1, "cancelled": 99},
            "900 of 1,000 items succeeded, 1 failed, 99 cancelled",
        ),
    ],
)
def test_how_far_a_foreach_is_is_told_without_noise(more: dict[str, int], told: str) -> None:
    assert ItemCounts(total=1_000, **more).told == told  # type: ignore[arg-type]


def test_a_few_items_have_a_line_each() -> None:
    history = [(seq, attempt(seq, failed=False)) for seq in range(1, ITEMS_SHOWN + 1)]

    assert [step.what for step in make_timeline(history)] == ["attempt"] * ITEMS_SHOWN


def test_R1_each_retry_opens_an_epoch_in_the_timeline() -> None:
    history: list[tuple[int, events.Event]] = [
        (1, events.TerminateRequested(at=1)),
        (2, events.RetryRequested(at=2)),
        (3, events.SkipRequested(at=3, node="pay", output=Text(4))),
        (4, events.RetryRequested(at=4, skip="pay", output=Text(4))),
        (5, events.ResumeRequested(at=5, freeze=True)),
        (6, events.ParentPaused(at=6, paused=True)),
    ]

    assert [step.result for step in make_timeline(history)] == [
        "terminate requested",
        "retried (epoch 2)",
        "pay taken as done",
        "retried without pay (epoch 3)",
        "resumed, timers moved",
        "paused with its parent",
    ]


def test_a_child_is_an_attempt_from_its_beginning_to_its_end() -> None:
    child = RunId("00000000-0001-7000-8000-000000000001")  # of the first millisecond
    ended = events.ChildSettled(
        at=5_000_000,
        place=Place("sub"),
        child=child,
        state=RunState.FAILED,
        output=None,
        error=Text(2),
        draw=0.5,
    )

    [step] = make_timeline([(1, ended)], failures={1: "no stock"})

    assert (step.what, step.result, step.child, step.message) == (
        "child",
        "failed",
        child,
        "no stock",
    )
    assert (step.started_at, step.ended_at) == (1_999, 5_000_000)
    [step] = make_timeline([(1, ended)], begun=2_500)
    assert step.started_at == 2_500, "no child begins before the run that calls it"


@pytest.mark.rule("F2.3", "C5.2")
def test_a_run_s_error_names_what_came_after_it() -> None:
    run = snapshot(failures=(Place("a"), Place("b"), Place("b")), closed_by=("run_timeout",))

    told = whole_error({"code": "boom"}, run)

    assert told == {"code": "boom", "closed_by": ["run_timeout"], "others": ["b"]}


def test_an_error_alone_stays_as_it_is() -> None:
    assert whole_error({"code": "boom"}, snapshot(failures=(Place("a"),))) == {"code": "boom"}
    assert whole_error(None, snapshot(closed_by=("end",))) is None
