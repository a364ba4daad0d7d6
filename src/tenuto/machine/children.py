"""Child runs: how their end becomes the end of a call or an item (SEMANTICS F5, F6, F8).

The work of a child is a task that no worker ever sees: `pending` while the child is under way, `retry` during the
back-off before the next one. Its end comes as an event, once, whatever became of the task meanwhile; until then the
child is open, and the run waits for it (C1).

    child ends            task pending                             task cancelled
    success               success (`output` of the call)           output kept, nothing else (F8)
    failed, …             retry by the call's own rules, or dead   nothing
    … and timed out here  the same, with `timeout`                 nothing
"""

from __future__ import annotations

from dataclasses import replace

from tenuto.machine import foreach, scope
from tenuto.machine.actions import ClearTimers, SetTimer
from tenuto.machine.clocks import Again, check_active, check_move, node_id, try_again, work_of
from tenuto.machine.codec import error_text
from tenuto.machine.ends import work_died, work_succeeded
from tenuto.machine.events import ChildSettled, Rejection, TimerFired, TimerKind
from tenuto.machine.snapshot import Task, Timer
from tenuto.machine.tokens import die, succeed
from tenuto.machine.turn import Turn
from tenuto.machine.work import Sight, begin_child, count_attempts, end_child, send_off
from tenuto.model.definition import Call
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Fault
from tenuto.model.failures import Failure, FailureKind
from tenuto.model.ids import parts_of
from tenuto.model.payload import PAYLOAD_MAX, PayloadKind, Text
from tenuto.model.states import RunState, TaskState

TIMEOUT = "timeout"
TOTAL_TIMEOUT = "total_timeout"
TOO_LARGE = "payload_too_large"


# -- beginning ----------------------------------------------------------------------------------------------------


def begin_call(turn: Turn, node: int, call: Call) -> None:
    """Start the child of a call; `wait: false` ends at once with its id."""
    place, sight = turn.place(node), scope.sight(turn, node)
    if call.wait:
        failure = begin_child(turn, node, place, call, sight, index=turn.index)
    else:
        failure = send_off(turn, place, call, sight)
    if failure is not None:
        turn.attempts[node] = 0
        die(turn, node, failure)
        return
    if call.wait:
        count_attempts(turn, node)
    else:
        turn.attempts.pop(node, None)
        succeed(turn, node)


# -- events -------------------------------------------------------------------------------------------------------


def on_settled(turn: Turn, event: ChildSettled) -> Rejection | None:
    """The child is final. Whatever the task's and the run's state, the child is open no longer (C1)."""
    task = turn.rows.tasks.get(event.place)
    if task is None or task.child != event.child:
        return Rejection.STALE
    call = work_of(turn, task)
    if not isinstance(call, Call):
        raise InvariantViolated(f"task {task.place} has a child, and is not done by one")
    turn.children -= 1
    if task.state is TaskState.CANCELLED:
        _keep_late(turn, replace(task, child=None), call, event)
        return None
    check_active(turn, task)
    if event.state is RunState.SUCCESS:
        _on_success(turn, task, call, event)
    else:
        _on_failure(turn, task, event)
    return None


def on_timeout(turn: Turn, event: TimerFired) -> Rejection | None:
    """A child took too long: it is cancelled, and waited for still (F6)."""
    task = turn.rows.tasks.get(event.place)
    if task is None or task.state is not TaskState.PENDING or task.child is None:
        return Rejection.STALE
    turn.actions.append(ClearTimers(event.place, TimerKind.CHILD))
    end_child(turn, task, TIMEOUT)
    return None


def _on_success(turn: Turn, task: Task, call: Call, event: ChildSettled) -> None:
    """`success` also counts from a child that was to be cancelled, and was faster (F6)."""
    output = _output(turn, task, call, event)
    if isinstance(output, Fault):
        _end(turn, task, TaskState.DEAD, event)
        turn.done_late(task)  # its work is done, only its output cannot be read: as in T6
        work_died(turn, task, Failure(output.code, output.message))
        return
    _end(turn, task, TaskState.SUCCESS, event)
    turn.put(task.place, PayloadKind.OUTPUT, output)
    work_succeeded(turn, task)


def _on_failure(turn: Turn, task: Task, event: ChildSettled) -> None:
    failure = _failure(task, event)
    turn.put(task.place, PayloadKind.ERROR, _error(turn, task, failure, event))
    again = None
    if task.ending != TOTAL_TIMEOUT:
        again = try_again(turn, task, failure.code, (), event.draw)
    if again is not None:
        _try_later(turn, task, event, again)
        return
    _end(turn, task, TaskState.DEAD, event)
    work_died(turn, task, None)


def _keep_late(turn: Turn, task: Task, call: Call, event: ChildSettled) -> None:
    """F8: the task was cancelled. A success is kept, and counts as done for C3; neither node nor run changes."""
    output = _output(turn, task, call, event) if event.state is RunState.SUCCESS else None
    turn.update_task(replace(task, late=isinstance(output, Text)), ends_lease=False)
    if isinstance(output, Text):
        turn.put(task.place, PayloadKind.OUTPUT, output)
    if output is not None:
        turn.done_late(task)


# -- what it means ------------------------------------------------------------------------------------------------


def _output(turn: Turn, task: Task, call: Call, event: ChildSettled) -> Text | Fault:
    """The child's output, or what the call makes of it."""
    assert event.output is not None
    if call.output is None:
        return event.output
    seen = _sight(turn, task)(call.output)
    return turn.value(call.output, replace(seen, output=event.output))


def _sight(turn: Turn, task: Task) -> Sight:
    """What `output` of the call may read beside the child's. Of a pass that is over, or of a foreach that was
    skipped: nothing of other nodes, and no item.
    """
    parts = parts_of(task.place)
    if parts.undo or not parts.node:
        return scope.of_handler(turn, task.place)
    is_over = turn.place(task.node) != parts.owner
    if is_over or (parts.index is not None and task.node not in turn.items):
        return lambda _: scope.of_given(turn, task.place)
    if parts.index is not None:
        return foreach.sight_of(turn, task.node, parts.index)
    return scope.sight(turn, task.node)


_CODES = {
    RunState.FAILED: "child_failed",
    RunState.TIMED_OUT: "child_timed_out",
    RunState.CANCELLED: "child_cancelled",
}
_ENDINGS = {
    TIMEOUT: "the child run passed its timeout",
    TOTAL_TIMEOUT: "all tries together passed total_timeout",
}


def _failure(task: Task, event: ChildSettled) -> Failure:
    if task.ending:
        return Failure(task.ending, _ENDINGS[task.ending])
    if event.code == TOO_LARGE:
        message = f"the output of the child run {event.child} is too large"
        return Failure(TOO_LARGE, message)
    code = _CODES[event.state]
    ended = event.state.value.replace("_", " ")
    return Failure(code, f"the child run {event.child} ended {ended}", FailureKind.TASK)


def _error(turn: Turn, task: Task, failure: Failure, event: ChildSettled) -> Text:
    """The error value; the child's own is its `details.cause`, left out if the two would grow too large."""
    named = f'"run_id":"{event.child}"'
    if event.error is not None and event.error.text is not None:
        told = replace(failure, details=f'{{"cause":{event.error.text},{named}}}')
        whole = error_text(told, node_id(turn, task))
        if whole.size <= PAYLOAD_MAX:
            return whole
    return error_text(replace(failure, details=f"{{{named}}}"), node_id(turn, task))


# -- the task -----------------------------------------------------------------------------------------------------


def _end(turn: Turn, task: Task, state: TaskState, event: ChildSettled) -> None:
    check_move(task, state, event)
    turn.update_task(replace(task, state=state, child=None, ending=""), ends_lease=False)
    if task.timeout_us is not None or task.total_until is not None:
        turn.actions.append(ClearTimers(task.place))


def _try_later(turn: Turn, task: Task, event: ChildSettled, again: Again) -> None:
    check_move(task, TaskState.RETRY, event)
    waiting = replace(
        task,
        state=TaskState.RETRY,
        attempt=task.attempt + 1,
        child=None,
        ending="",
        rules=again.rules,
    )
    turn.update_task(waiting, ends_lease=False)
    if task.timeout_us is not None:
        turn.actions.append(ClearTimers(task.place, TimerKind.CHILD))
    due = turn.at + again.delay_us
    turn.actions.append(SetTimer(Timer(task.place, TimerKind.BACKOFF, due, turn.seq)))
