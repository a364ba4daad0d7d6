"""X8 and I5: a history gives the stored state again, without CEL, payloads or clock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.golden.record import FIRST_COLUMNS, FOLDER, SCENARIOS, folded_form
from tests.support.graphs import condition, graph, key, value
from tests.support.world import RUN, World

from tenuto.machine import codec
from tenuto.machine.actions import CancelTask, CloseRun, HoldTasks, ReleaseTasks
from tenuto.machine.events import CancelRequested, RunStarted, TimerKind
from tenuto.machine.fold import Recorded, fold
from tenuto.model.definition import WaitForEvent, Work
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Expression, ExpressionKind, Message, Scope, Verdict
from tenuto.model.ids import RUN_PLACE, MessageId, Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind, Text
from tenuto.model.retry import RetryPolicy
from tenuto.model.states import CancelReason, TaskState
from tenuto.model.stored import decode_graph

GOLDEN = sorted(FOLDER.glob("*.json"))
INPUT = PayloadKey(RUN_PLACE, PayloadKind.INPUT)
SCOPE = Scope(INPUT, INPUT)


def test_X8_there_is_a_golden_history_of_every_scenario() -> None:
    assert {path.stem for path in GOLDEN} == set(SCENARIOS)


@pytest.mark.rule("X8.2")
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_X8_a_recorded_history_folds_the_same_for_ever(path: Path) -> None:
    refold(path)


def refold(path: Path) -> None:
    """Fold a recorded history, and compare."""
    recorded = json.loads(path.read_text())
    found = decode_graph(json.dumps(recorded["graph"]))
    rows = [
        (kind, at, Place(place), json.dumps(data)) for kind, at, place, data in recorded["history"]
    ]

    run_id = RunId(recorded.get("run", RUN))
    folded = fold(run_id, found, (codec.decode_event(*row) for row in rows))

    form = folded_form(*folded, recorded.get("columns", FIRST_COLUMNS))
    assert json.loads(json.dumps(form)) == recorded["folded"]


@pytest.mark.rule("X8.2")
def test_X8_histories_fold_where_CEL_is_not_installed() -> None:
    """In a process that cannot import it; the stored graphs say what their expressions read."""
    script = (
        "import sys; sys.modules['cel_expr_python'] = None\n"
        "from tests.unit.machine.test_fold import GOLDEN, refold\n"
        "for path in GOLDEN: refold(path)\n"
        "print(len(GOLDEN), any(name.startswith('tenuto.adapters') for name in sys.modules))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=FOLDER.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == f"{len(GOLDEN)} False\n", done.stderr


@pytest.mark.parametrize("name", SCENARIOS)
def test_I5_a_run_s_history_folds_to_its_stored_state(name: str) -> None:
    SCENARIOS[name]().check_history()


@pytest.mark.rule("X8.2")
def test_X8_folding_asks_no_evaluator_of_the_present() -> None:
    """The same history under other answers: the record decides."""
    world = World(graph("a -> b when 'x'; a -> c when 'y'"), {"x": True, "y": False}).start()
    world.succeed("a")
    world.script = {"x": False, "y": True}

    assert world.fold()[0].nodes == b"sak"


def test_X8_a_history_with_too_few_outcomes_contradicts_itself() -> None:
    with pytest.raises(InvariantViolated, match="too few outcomes"):
        fold(RUN, graph("a"), [(RunStarted(at=1), ())])


def test_X8_a_history_with_too_many_outcomes_contradicts_itself() -> None:
    with pytest.raises(InvariantViolated, match="1 outcomes too many"):
        fold(RUN, graph("a"), [(RunStarted(at=1), (Text(2), Verdict(True)))])


def test_X8_an_event_that_the_machine_refuses_contradicts_its_history() -> None:
    with pytest.raises(InvariantViolated, match=r"event 1 of .* is refused"):
        fold(RUN, graph("a"), [(CancelRequested(at=1), ())])


def test_X8_a_mailbox_look_up_is_not_an_expression_s_outcome() -> None:
    with pytest.raises(InvariantViolated, match=r"Message where edges\.when"):
        Recorded([Message(None)]).evaluate(condition("x"), SCOPE)
    with pytest.raises(InvariantViolated, match="no mailbox look-up for e"):
        Recorded([Verdict(True)]).mailbox("e", Text(1))


@pytest.mark.rule("X8.2")
def test_X8_outcomes_are_answered_in_call_order() -> None:
    recorded = Recorded([Verdict(True), Message(MessageId("m"), Text(3)), Text(5)])
    expression = Expression(ExpressionKind.VALUE, "v", "v")

    assert recorded.evaluate(condition("x"), SCOPE) == Verdict(True)
    assert recorded.mailbox("e", Text(1)) == Message(MessageId("m"), Text(3))
    assert recorded.evaluate(expression, SCOPE) == Text(5)
    recorded.finish()


# -- the ledger: rows change as the store changes its tables ------------------------------------------------------


def full() -> World:
    """A pending task, one in back-off, one that succeeded, a wait with its timeout, a run timer."""
    work = Work("b", value("{}"), retry=RetryPolicy(max_attempts=2), queue_timeout_us=10)
    world = World(
        graph(
            "a; b; c; w",
            types={"w": "wait_for_event"},
            details={"b": work, "w": WaitForEvent("w", key('"k"'), timeout_us=9)},
            timeout_us=99,
        )
    ).start()
    world.fail("b")
    world.succeed("c")
    return world


def states(world: World) -> dict[str, str]:
    return {place: task.state.value for place, task in world.ledger.tasks.items()}


def test_closing_touches_open_tasks_only_and_takes_timers_and_waits() -> None:
    world = full()
    assert states(world) == {"a": "pending", "b": "retry", "c": "success"}
    world.ledger.apply([CloseRun()])

    assert states(world) == {"a": "cancelled", "b": "cancelled", "c": "success"}
    assert (world.ledger.timers, world.ledger.waits) == ({}, {})


def test_holding_and_releasing_touch_open_tasks_only() -> None:
    ledger = full().ledger
    before = ledger.tasks[Place("c")]
    ledger.apply([HoldTasks()])
    assert [task.held for task in ledger.tasks.values()] == [True, True, False]

    ledger.apply([ReleaseTasks(at=100)])

    assert [task.queue_until for task in ledger.tasks.values()] == [None, 110, None]
    assert ledger.tasks[Place("c")] == before


@pytest.mark.parametrize(
    ("place", "state"),
    [("a", TaskState.CANCELLED), ("b", TaskState.CANCELLED), ("c", TaskState.SUCCESS)],
)
def test_cancelling_touches_no_final_task(place: str, state: TaskState) -> None:
    ledger = full().ledger
    ledger.apply(
        [CancelTask(Place(place), CancelReason.RACE), CancelTask(Place("no"), CancelReason.RACE)]
    )

    assert ledger.tasks[Place(place)].state is state
    assert Place("no") not in ledger.tasks


def test_a_view_of_rows_shows_later_changes() -> None:
    world = full()
    rows = world.ledger.rows()
    world.ledger.apply([CloseRun()])

    assert rows.tasks[Place("a")].state is TaskState.CANCELLED
    assert (Place(""), TimerKind.RUN) not in rows.timers
