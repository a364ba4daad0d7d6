"""What a node does when it acts, by its type (SEMANTICS T7, X5, F4), and the walk to the decision's fixpoint."""

from __future__ import annotations

from typing import assert_never

from tenuto.machine import children, closing, foreach, scope, waits
from tenuto.machine.actions import SetTimer
from tenuto.machine.events import TimerKind
from tenuto.machine.snapshot import Timer
from tenuto.machine.tokens import (
    Arrival,
    Postponed,
    cancel_race,
    die,
    look,
    skip,
    succeed,
    unsatisfied,
)
from tenuto.machine.turn import Turn
from tenuto.machine.work import begin_work, count_attempts, does_task, identify, late
from tenuto.model.definition import (
    Call,
    Emit,
    End,
    Fail,
    Foreach,
    NodeType,
    SetValue,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.expressions import Expression, Fault
from tenuto.model.failures import Failure, FailureKind
from tenuto.model.payload import JoinView, PayloadKind, Text
from tenuto.model.states import NodeLetter, RunState


def run_to_fixpoint(turn: Turn) -> None:
    """Decide all that follows, in topological order (T7), then settle if everything is final (C1).

    Nothing is activated once the outcome is decided (T7).
    """
    while turn.is_open():
        if turn.starts:
            header = turn.starts.pop()
            turn.mark(header, NodeLetter.ACTIVE)
            begin(turn, header)
            continue
        node = turn.next_woken()
        if node is None:
            break
        match look(turn, node):
            case Arrival.WAIT:
                pass
            case Arrival.ACT | Arrival.UNSATISFIED:
                turn.mark(node, NodeLetter.ACTIVE)
                if turn.node(node).cancel_losers:
                    cancel_race(turn, node)
                begin(turn, node)
            case Arrival.SKIP:
                skip(turn, node)
            case said:
                assert_never(said)
    closing.settle_if_done(turn)


def begin(turn: Turn, node: int) -> None:
    """Do what an active node does first. Called again, from the start, when T7 postponed its end."""
    taken_up = turn.taken_up.pop(node, None)
    if taken_up is None:
        identify(turn, node)
    done, record = len(turn.actions), turn.records.get(node)
    turn.items.pop(node, None)
    try:
        if taken_up is not None:
            taken_up()
        else:
            _begin(turn, node)
    except Postponed:
        turn.take_back(done)
        turn.items.pop(node, None)
        turn.mark(node, NodeLetter.ACTIVE)
        turn.records.pop(node, None)
        if record is not None:
            turn.records[node] = record
        timer = Timer(turn.place(node), TimerKind.CONTINUE, turn.at, turn.seq)
        turn.actions.append(SetTimer(timer))


def _begin(turn: Turn, node: int) -> None:
    it = turn.node(node)
    if it.join and _taken(turn, node) < it.join and not _restarted(turn, node):
        turn.attempts[node] = 0
        die(turn, node, unsatisfied(turn, node), own=False)
        return
    if does_task(it) and late(turn, turn.place(node)):
        count_attempts(turn, node)
        succeed(turn, node)
        return
    match it.detail:
        case None:
            succeed(turn, node, _view(turn, node) if it.type is NodeType.JOIN else None)
        case Work():
            failure = begin_work(turn, node, turn.place(node), it.detail, scope.sight(turn, node))
            if failure is not None:
                turn.attempts[node] = 0
                die(turn, node, failure)
            else:
                count_attempts(turn, node)
        case Call():
            children.begin_call(turn, node, it.detail)
        case Foreach():
            foreach.begin_foreach(turn, node, it.detail)
        case Wait():
            waits.begin_wait(turn, node, it.detail)
        case WaitForEvent():
            waits.begin_wait_for_event(turn, node, it.detail)
        case Emit():
            waits.emit(turn, node, it.detail)
        case SetValue():
            value = _value(turn, node, it.detail.value)
            if isinstance(value, Text):
                turn.put(turn.place(node), PayloadKind.OUTPUT, value)
                succeed(turn, node)
        case Fail():
            _fail(turn, node, it.detail)
        case End():
            _end(turn, node, it.detail)
        case _:
            assert_never(it.detail)


def _taken(turn: Turn, node: int) -> int:
    return sum(turn.edges[number] == scope.TAKEN for number in turn.graph.ins[node])


def _restarted(turn: Turn, node: int) -> bool:
    """A header that a back edge started: J is not applied (L3)."""
    return any(
        turn.graph.loops[loop].header == node and turn.passes[loop] > 1
        for loop in turn.graph.loops_of[node]
    )


def _view(turn: Turn, node: int) -> JoinView | None:
    """A join's view is kept where its edges may change later: any/count joins and loops (J4)."""
    if turn.node(node).join or turn.graph.loops_of[node]:
        return scope.join_view(turn, node)
    return None


def _value(turn: Turn, node: int, expression: Expression) -> Text | None:
    """Evaluate a node's input; an error ends it dead, no attempt made (X5), and yields None."""
    value = turn.value(expression, scope.of_node(turn, node, expression))
    if isinstance(value, Fault):
        die(turn, node, Failure(value.code, value.message))
        return None
    return value


def _fail(turn: Turn, node: int, fail: Fail) -> None:
    message, details = "", None
    if fail.message is not None:
        told = _value(turn, node, fail.message)
        if told is None:
            return
        message = told.text or ""
    if fail.details is not None:
        more = _value(turn, node, fail.details)
        if more is None:
            return
        details = more.text
    die(turn, node, Failure(fail.code, message, FailureKind.TASK, details))


def _end(turn: Turn, node: int, end: End) -> None:
    """F4. After an unhandled failure the outcome stays `failed`, and `end` is listed (F2)."""
    if turn.failures:
        turn.mark(node, NodeLetter.SUCCESS)
        turn.closed_by.append("end")
        closing.close(turn, RunState.FAILED)
        return
    if end.output is None:
        turn.mark(node, NodeLetter.SUCCESS)
        if end.cancelled:
            closing.close(turn, RunState.CANCELLED)
        else:
            closing.succeed(turn)
        return
    value = _value(turn, node, end.output)
    if value is None:
        return
    turn.mark(node, NodeLetter.SUCCESS)
    key = turn.put(turn.place(node), PayloadKind.OUTPUT, value)
    if end.cancelled:
        closing.close(turn, RunState.CANCELLED)
    else:
        closing.close(turn, RunState.SUCCESS, key)
