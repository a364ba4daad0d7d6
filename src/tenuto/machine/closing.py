"""How a run ends (SEMANTICS C1, C2, F2, F4). No handlers and no children yet: closing is passed in one decision."""

from __future__ import annotations

from operator import itemgetter

from tenuto.machine import scope
from tenuto.machine.actions import CloseRun, SettleRun
from tenuto.machine.codec import error_text
from tenuto.machine.turn import FINAL_LETTERS, Turn
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Fault
from tenuto.model.failures import Failure
from tenuto.model.ids import RUN_PLACE, Place
from tenuto.model.payload import JoinView, Output, PayloadKey, PayloadKind
from tenuto.model.states import NodeLetter, RunState, may_move_run


def settle_if_done(turn: Turn) -> None:
    """C1: every node is final and nothing closed the run before."""
    if turn.live or not turn.is_open():
        return
    if turn.failures:
        _finish(turn, RunState.FAILED, None)
    else:
        succeed(turn)


def succeed(turn: Turn) -> None:
    """Evaluate the run's output; an error there is the outcome `failed` at `output` (C1)."""
    expression = turn.graph.definition.output
    if expression is None:
        close(turn, RunState.SUCCESS, _default_output(turn))
        return
    value = turn.value(expression, scope.of_run(turn, expression))
    if isinstance(value, Fault):
        fail_run(turn, Failure(value.code, value.message))
        return
    close(turn, RunState.SUCCESS, turn.put(RUN_PLACE, PayloadKind.OUTPUT, value))


def fail_run(turn: Turn, failure: Failure) -> None:
    """The run itself failed, not a node: its error stands at the run's place."""
    turn.put(RUN_PLACE, PayloadKind.ERROR, error_text(failure, "output"))
    turn.failures.append(RUN_PLACE)
    close(turn, RunState.FAILED)


def close_for_failure(turn: Turn, place: Place) -> None:
    """F2: an unhandled dead node without a taken `always` edge."""
    turn.failures.append(place)
    close(turn, RunState.FAILED)


def close_on_request(turn: Turn, state: RunState, failure: Failure) -> None:
    """Cancel or run timeout: after a first unhandled failure the outcome stays `failed`, and they are listed (F2)."""
    if turn.failures:
        turn.closed_by.append(failure.code)
        close(turn, RunState.FAILED)
        return
    turn.put(RUN_PLACE, PayloadKind.ERROR, error_text(failure, ""))
    if state is RunState.CANCELLED:
        turn.paused = False
    close(turn, state)


def close(turn: Turn, state: RunState, output: Output = None) -> None:
    """The outcome is decided, once (C2): what is not final becomes cancelled, tasks, waits and timers go."""
    if not turn.is_open():
        raise InvariantViolated(f"the outcome is decided already: {turn.state}")
    for node, letter in enumerate(turn.nodes):
        if letter not in FINAL_LETTERS:
            turn.mark(node, NodeLetter.CANCELLED)
    turn.actions.append(CloseRun())
    _finish(turn, state, output)


def _finish(turn: Turn, state: RunState, output: Output) -> None:
    if not may_move_run(turn.state, state):
        raise InvariantViolated(f"a run does not move from {turn.state} to {state}")
    turn.state = state
    error = None
    if state is RunState.FAILED:
        error = PayloadKey(turn.failures[0], PayloadKind.ERROR)
    elif state is not RunState.SUCCESS and PayloadKey(RUN_PLACE, PayloadKind.ERROR) in turn.fresh:
        error = PayloadKey(RUN_PLACE, PayloadKind.ERROR)
    if not isinstance(turn.actions[-1] if turn.actions else None, CloseRun):
        turn.actions.append(CloseRun())
    turn.actions.append(SettleRun(state, turn.at, output, error))


def _default_output(turn: Turn) -> JoinView:
    """C5: id -> output of the sinks that ended `success`, by id, assembled on reading."""
    entries: list[tuple[str, Output]] = []
    for node in turn.graph.sinks:
        record = scope.record_of(turn, node)
        if record is not None and record.letter is NodeLetter.SUCCESS:
            entries.append((turn.node(node).id, scope.output_of(turn, node, record)))
    entries.sort(key=itemgetter(0))
    return JoinView(tuple(entries))
