"""How a run ends: its outcome, then its final state (SEMANTICS C1, C2, C4's terminate, C5, F2, F4).

The outcome is decided once. A run that has nothing left to wait for or to undo is final in that decision; any other is
`closing`: it drains (no live lease, no open child), then its handlers run one by one (`handlers`), then it is final.

    close ──▶ final                                         nothing is left
         └──▶ closing ──▶ last child ends ──▶ Drained ──▶ handlers ──▶ final
                   └──── terminate, closing_timeout ──────────────▶ final

Leases are no input of `decide`: a DRAIN timer asks the store to say when none is live.
"""

from __future__ import annotations

from operator import itemgetter

from tenuto.machine import scope
from tenuto.machine.actions import (
    CloseRun,
    SetTimer,
    SettleRun,
    TellChildren,
    TellParent,
    TerminateChildren,
)
from tenuto.machine.codec import error_text
from tenuto.machine.events import CancelRequested, Rejection, TerminateRequested, TimerKind
from tenuto.machine.snapshot import Closing, Timer
from tenuto.machine.turn import FINAL_LETTERS, Turn
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Fault
from tenuto.model.failures import Failure
from tenuto.model.ids import RUN_PLACE, Place, parts_of
from tenuto.model.payload import JoinView, Output, PayloadKey, PayloadKind
from tenuto.model.states import NodeLetter, RunState, may_move_run

WITH_ON_FAILURE = frozenset({RunState.FAILED, RunState.TIMED_OUT})
"""Outcomes after which `on_failure` runs (C4)."""
_RUN_ERROR = PayloadKey(RUN_PLACE, PayloadKind.ERROR)


def on_cancel(turn: Turn, event: CancelRequested) -> Rejection | None:
    """Somebody asked for the end. While the run closes, another cancel changes nothing (C4)."""
    if turn.state is RunState.CLOSING:
        return Rejection.CLOSING
    if not turn.is_open():
        return Rejection.RUN_FINAL
    failure = Failure("cancelled", event.reason or "cancelled on request")
    close_on_request(turn, RunState.CANCELLED, failure)
    return None


def on_terminate(turn: Turn, event: TerminateRequested) -> Rejection | None:
    """The end, now: no drain, no handler; the outcome is `cancelled` unless one is decided (C4, F2)."""
    if turn.closing is None:
        if not turn.is_open():
            return Rejection.RUN_FINAL
        failure = Failure("cancelled", event.reason or "terminated on request")
        turn.put(RUN_PLACE, PayloadKind.ERROR, error_text(failure, ""))
        _cancel_nodes(turn)
        turn.closing = Closing(outcome=RunState.CANCELLED, error=_RUN_ERROR)
    finish(turn)
    return None


def settle_if_done(turn: Turn) -> None:
    """Every event ends here. C1: a run settles when every node is final and no child is open.

    C2: one that is closing asks for its drain when no child is open any more.
    """
    if turn.is_open() and not turn.live and not turn.children:
        if turn.failures:
            close(turn, RunState.FAILED)
        else:
            succeed(turn)
    closing = turn.closing
    if closing is None or closing.drained or turn.children:
        return
    if turn.old.closing is None or turn.old.children:
        timer = Timer(RUN_PLACE, TimerKind.DRAIN, turn.at, turn.seq)
        turn.actions.append(SetTimer(timer))


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
    """Cancel or run timeout: after a first unhandled failure the outcome stays `failed`, and they are listed (F2).

    A cancel that decides the outcome lifts the run's own pause, so that its children and handlers can go on (C6).
    """
    if turn.failures:
        turn.closed_by.append(failure.code)
        close(turn, RunState.FAILED)
        return
    turn.put(RUN_PLACE, PayloadKind.ERROR, error_text(failure, ""))
    lifted = state is RunState.CANCELLED and turn.paused and not turn.parent_paused
    if state is RunState.CANCELLED:
        turn.paused = False
    close(turn, state)
    if lifted:
        turn.paused_since = None
        if turn.children:
            turn.actions.append(TellChildren())


def close(turn: Turn, outcome: RunState, output: Output = None) -> None:
    """The outcome is decided, once (C2): what is not final becomes cancelled, tasks, waits and timers go.

    Without handlers and open children the run is final now.
    """
    if not turn.is_open():
        raise InvariantViolated(f"the outcome is decided already: {turn.state}")
    _cancel_nodes(turn)
    turn.actions.append(CloseRun())
    turn.closing = Closing(outcome=outcome, output=output, error=_error_of(turn, outcome))
    if turn.children or _may_have_handlers(turn, turn.closing):
        _move(turn, RunState.CLOSING)
    else:
        finish(turn)


def finish(turn: Turn) -> None:
    """The run is final: whatever it has under way still, a handler or a child, ends with it."""
    closing = turn.closing
    assert closing is not None
    _move(turn, closing.outcome)
    turn.closing = None
    turn.paused_since = None
    turn.compensation = _compensation(closing)
    if not isinstance(turn.actions[-1] if turn.actions else None, CloseRun):
        turn.actions.append(CloseRun())
    if turn.children:
        turn.actions.append(TerminateChildren())
    turn.actions.append(
        SettleRun(closing.outcome, turn.at, closing.output, closing.error, turn.compensation)
    )
    if turn.parent is not None:
        turn.actions.append(TellParent(*turn.parent))


def _cancel_nodes(turn: Turn) -> None:
    for node, letter in enumerate(turn.nodes):
        if letter not in FINAL_LETTERS:
            turn.mark(node, NodeLetter.CANCELLED)


def _move(turn: Turn, state: RunState) -> None:
    if not may_move_run(turn.state, state):
        raise InvariantViolated(f"a run does not move from {turn.state} to {state}")
    turn.state = state


def _error_of(turn: Turn, outcome: RunState) -> PayloadKey | None:
    """The run's error: of its first unhandled failure, or what a cancel or timeout put. An `end` leaves none (F4)."""
    if outcome is RunState.FAILED:
        return PayloadKey(turn.failures[0], PayloadKind.ERROR)
    if outcome is not RunState.SUCCESS and _RUN_ERROR in turn.fresh:
        return _RUN_ERROR
    return None


def _may_have_handlers(turn: Turn, closing: Closing) -> bool:
    """C3, C4. Cancelled work that could be undone may still succeed before the drain is over (F8)."""
    if closing.by_end:
        return False
    has_last = turn.graph.definition.on_failure is not None
    return bool(turn.done) or (has_last and closing.outcome in WITH_ON_FAILURE)


def _compensation(closing: Closing) -> str:
    """C4: whether an undo was started, and whether every due one succeeded."""
    under_way = closing.current is not None and parts_of(closing.current).undo
    if not (closing.undone or closing.failed or under_way):
        return "none"
    return "partial" if closing.failed or under_way else "complete"


def _default_output(turn: Turn) -> JoinView:
    """C5: id -> output of the sinks that ended `success`, by id, assembled on reading."""
    entries: list[tuple[str, Output]] = []
    for node in turn.graph.sinks:
        record = scope.record_of(turn, node)
        if record is not None and record.letter is NodeLetter.SUCCESS:
            entries.append((turn.node(node).id, scope.output_of(turn, node, record)))
    entries.sort(key=itemgetter(0))
    return JoinView(tuple(entries))
