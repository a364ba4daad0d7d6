"""What a node does when it acts, by its type (SEMANTICS T7, X5, F4), and the walk to the decision's fixpoint."""

from __future__ import annotations

from typing import assert_never

from tenuto.machine import closing, scope
from tenuto.machine.actions import (
    CreateTask,
    DispatchTask,
    OpenWait,
    SetTimer,
    UseMessage,
)
from tenuto.machine.events import TimerKind
from tenuto.machine.snapshot import OpenedWait, Task, Timer
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
from tenuto.model.definition import End, Fail, NodeType, SetValue, Wait, WaitForEvent, Work
from tenuto.model.expressions import Expression, Fault
from tenuto.model.failures import Failure, FailureKind
from tenuto.model.payload import JoinView, PayloadKind, Text
from tenuto.model.states import NodeLetter, RunState, TaskState


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
    done, record = len(turn.actions), turn.records.get(node)
    try:
        _begin(turn, node)
    except Postponed:
        turn.take_back(done)
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
    match it.detail:
        case None:
            succeed(turn, node, _view(turn, node) if it.type is NodeType.JOIN else None)
        case Work():
            _create_task(turn, node, it.detail)
        case Wait():
            _wait(turn, node, it.detail)
        case WaitForEvent():
            _wait_for_event(turn, node, it.detail)
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


def _create_task(turn: Turn, node: int, work: Work) -> None:
    value = turn.value(work.input, scope.of_node(turn, node, work.input))
    if isinstance(value, Fault):
        turn.attempts[node] = 0
        die(turn, node, Failure(value.code, value.message))
        return
    place = turn.place(node)
    turn.put(place, PayloadKind.INPUT, value)
    turn.attempts.pop(node, None)
    total = None if work.total_timeout_us is None else turn.at + work.total_timeout_us
    task = Task(
        place=place,
        node=node,
        name=work.name,
        queue=work.queue,
        priority=work.priority,
        state=TaskState.PENDING,
        attempt=1,
        lost=0,
        input_seq=turn.seq,
        timeout_us=work.timeout_us,
        heartbeat_us=work.heartbeat_timeout_us,
        queue_timeout_us=work.queue_timeout_us,
        total_until=total,
        queue_until=queue_until(turn, work.queue_timeout_us),
        held=turn.paused,
        ended_lease=None,
    )
    turn.actions.append(CreateTask(task))
    if total is not None:
        turn.actions.append(SetTimer(Timer(place, TimerKind.TOTAL, total, turn.seq)))
    if not task.held:
        turn.actions.append(DispatchTask(task))


def queue_until(turn: Turn, queue_timeout_us: int | None) -> int | None:
    """When waiting for a worker becomes a failure; it does not pass while the run is paused (C6)."""
    return None if queue_timeout_us is None or turn.paused else turn.at + queue_timeout_us


def _wait(turn: Turn, node: int, wait: Wait) -> None:
    due = turn.at + wait.for_us if wait.for_us is not None else wait.until_at
    assert due is not None
    if due <= turn.at:
        succeed(turn, node)
        return
    timer = Timer(turn.place(node), TimerKind.WAIT, due, turn.seq)
    turn.actions.append(SetTimer(timer))


def _wait_for_event(turn: Turn, node: int, wait: WaitForEvent) -> None:
    key = _value(turn, node, wait.key)
    if key is None:
        return
    place = turn.place(node)
    message = turn.message(wait.event, key)
    if message.id is not None:
        turn.actions.append(UseMessage(message.id))
        turn.put(place, PayloadKind.OUTPUT, message.payload)
        succeed(turn, node)
        return
    turn.actions.append(OpenWait(OpenedWait(place, wait.event, key.text, turn.seq, turn.at)))
    if wait.timeout_us is not None:
        timer = Timer(place, TimerKind.EVENT, turn.at + wait.timeout_us, turn.seq)
        turn.actions.append(SetTimer(timer))


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
