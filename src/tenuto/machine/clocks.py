"""A task's attempts: success, failure, loss, deadlines, back-off (SEMANTICS F5, F7, F8, D; DESIGN section 3).

Whether the lease matches was compared with the freshly read lease row before `decide`; the attempt and the state are
compared here again, so either check finds the other's bugs.
"""

from __future__ import annotations

from dataclasses import replace

from tenuto.machine.actions import ClearTimers, DispatchTask, SetTimer, UpdateTask
from tenuto.machine.activation import queue_until
from tenuto.machine.codec import error_text
from tenuto.machine.events import (
    AttemptFailed,
    AttemptSucceeded,
    Deadline,
    DeadlinePassed,
    LeaseExpired,
    Rejection,
    TimerFired,
    TimerKind,
)
from tenuto.machine.snapshot import Task, Timer
from tenuto.machine.tokens import die, succeed
from tenuto.machine.turn import ACTIVE, Turn
from tenuto.model.definition import Work
from tenuto.model.errors import InvariantViolated
from tenuto.model.failures import NEVER_RETRIED, Failure
from tenuto.model.ids import LeaseId
from tenuto.model.payload import PAYLOAD_MAX, PayloadKind
from tenuto.model.retry import LOST_MAX, delay_us
from tenuto.model.states import TaskState, may_move_task

AttemptEvent = AttemptSucceeded | AttemptFailed | LeaseExpired | DeadlinePassed


def on_success(turn: Turn, event: AttemptSucceeded) -> Rejection | None:
    """A worker finished. Under a cancelled task it is kept for C3, and changes neither node nor run (F8)."""
    task = turn.rows.tasks.get(event.place)
    refused = _refuse(task, event)
    if refused is not None:
        if task is not None and _is_late(task, event):
            turn.actions.append(UpdateTask(replace(task, ended_lease=event.lease_id)))
            if event.output.size <= PAYLOAD_MAX:
                turn.put(event.place, PayloadKind.OUTPUT, event.output)
            return None
        return refused
    assert task is not None
    node = _active(turn, task)
    if event.output.size > PAYLOAD_MAX:
        failure = Failure(
            "payload_too_large",
            f"the output has {event.output.size:,} bytes; the limit is {PAYLOAD_MAX:,}",
        )
        _end_task(turn, task, TaskState.DEAD, event)
        die(turn, node, failure)
        return None
    _end_task(turn, task, TaskState.SUCCESS, event)
    turn.put(event.place, PayloadKind.OUTPUT, event.output)
    succeed(turn, node)
    return None


def on_failure(turn: Turn, event: AttemptFailed) -> Rejection | None:
    """A worker failed: try again later, or the node is dead."""
    task = turn.rows.tasks.get(event.place)
    refused = _refuse(task, event)
    if refused is not None:
        return refused
    assert task is not None
    node = _active(turn, task)
    turn.put(event.place, PayloadKind.ERROR, event.error)
    if event.retryable and _attempts_left(turn, task, event.code):
        _try_later(turn, task, event, max(_delay(turn, task, event.draw), event.retry_after_us))
        return None
    _end_task(turn, task, TaskState.DEAD, event)
    die(turn, node, None)
    return None


def on_lease_expired(turn: Turn, event: LeaseExpired) -> Rejection | None:
    """A lost lease raises `attempt` but is no failure of the node's own: handed out again, without back-off."""
    task = turn.rows.tasks.get(event.place)
    refused = _refuse(task, event)
    if refused is not None:
        return refused
    assert task is not None
    node = _active(turn, task)
    if task.lost + 1 >= LOST_MAX:
        _end_task(turn, replace(task, lost=task.lost + 1), TaskState.DEAD, event)
        message = f"the worker was lost {LOST_MAX} times while it ran this task"
        die(turn, node, Failure("lease_lost", message))
        return None
    _offer_again(turn, replace(task, lost=task.lost + 1, attempt=task.attempt + 1), event)
    return None


def on_deadline(turn: Turn, event: DeadlinePassed) -> Rejection | None:
    """A deadline column passed. `queue_timeout` is never retried (F5)."""
    task = turn.rows.tasks.get(event.place)
    refused = _refuse(task, event)
    if refused is not None:
        return refused
    assert task is not None
    node = _active(turn, task)
    if event.deadline is Deadline.QUEUE and not _is_overdue(turn, task):
        return Rejection.STALE
    code = event.deadline.value
    failure = Failure(code, _DEADLINE_MESSAGES[event.deadline])
    if _attempts_left(turn, task, code):
        turn.put(event.place, PayloadKind.ERROR, error_text(failure, turn.node(node).id))
        _try_later(turn, task, event, _delay(turn, task, event.draw))
        return None
    _end_task(turn, task, TaskState.DEAD, event)
    die(turn, node, failure)
    return None


def on_backoff(turn: Turn, event: TimerFired) -> Rejection | None:
    """The back-off is over: `retry` -> `pending`, and dispatched."""
    task = turn.rows.tasks.get(event.place)
    if task is None or task.state is not TaskState.RETRY:
        return Rejection.STALE
    _active(turn, task)
    turn.actions.append(ClearTimers(event.place, TimerKind.BACKOFF))
    _offer_again(turn, task, event, ends_lease=False)
    return None


def on_total_timeout(turn: Turn, event: TimerFired) -> Rejection | None:
    """All attempts together took too long; no lease reaches beyond this moment (F7)."""
    task = turn.rows.tasks.get(event.place)
    if task is None or task.state not in (TaskState.PENDING, TaskState.RETRY):
        return Rejection.STALE
    node = _active(turn, task)
    _end_task(turn, task, TaskState.DEAD, event)
    die(turn, node, Failure("total_timeout", "all attempts together passed total_timeout"))
    return None


_DEADLINE_MESSAGES = {
    Deadline.ATTEMPT: "the attempt passed its timeout",
    Deadline.QUEUE: "no worker took the task within queue_timeout",
    Deadline.HEARTBEAT: "the task sent no heartbeat within heartbeat_timeout",
}


def _refuse(task: Task | None, event: AttemptEvent) -> Rejection | None:
    """`lease_matches`, as far as decided columns show it."""
    if task is None:
        return Rejection.STALE
    if event.lease_id is not None and task.ended_lease == event.lease_id:
        return Rejection.DUPLICATE
    if task.state is not TaskState.PENDING or task.attempt != event.attempt:
        return Rejection.STALE
    return None


def _is_late(task: Task, event: AttemptSucceeded) -> bool:
    return (
        task.state is TaskState.CANCELLED
        and task.attempt == event.attempt
        and task.ended_lease != event.lease_id
    )


def _is_overdue(turn: Turn, task: Task) -> bool:
    """A pause takes `queue_until` away and resume sets it anew (C6), perhaps since the deadline was read."""
    return task.queue_until is not None and task.queue_until <= turn.at


def _active(turn: Turn, task: Task) -> int:
    if turn.nodes[task.node] != ACTIVE or turn.place(task.node) != task.place:
        raise InvariantViolated(f"task {task.place} is {task.state} but its node is not active")
    return task.node


def _attempts_left(turn: Turn, task: Task, code: str) -> bool:
    """`attempts_left`: lost attempts are not counted (DESIGN section 3)."""
    failures = task.attempt - task.lost
    return code not in NEVER_RETRIED and failures < _work(turn, task).retry.max_attempts


def _delay(turn: Turn, task: Task, draw: float) -> int:
    return delay_us(_work(turn, task).retry, task.attempt - task.lost, draw)


def _work(turn: Turn, task: Task) -> Work:
    detail = turn.node(task.node).detail
    assert isinstance(detail, Work)
    return detail


def _move(task: Task, target: TaskState, event: AttemptEvent | TimerFired) -> None:
    if not may_move_task(task.state, type(event).__name__, target):
        raise InvariantViolated(
            f"task {task.place} does not move from {task.state} to {target} on {type(event).__name__}"
        )


def _ended_by(task: Task, event: AttemptEvent | TimerFired) -> LeaseId | None:
    if isinstance(event, AttemptSucceeded | AttemptFailed):
        return event.lease_id
    return task.ended_lease


def _end_task(turn: Turn, task: Task, state: TaskState, event: AttemptEvent | TimerFired) -> None:
    _move(task, state, event)
    ended = replace(task, state=state, queue_until=None, ended_lease=_ended_by(task, event))
    turn.actions.append(UpdateTask(ended))
    if task.total_until is not None or task.state is TaskState.RETRY:
        turn.actions.append(ClearTimers(task.place))


def _try_later(turn: Turn, task: Task, event: AttemptEvent, delay: int) -> None:
    _move(task, TaskState.RETRY, event)
    waiting = replace(
        task,
        state=TaskState.RETRY,
        attempt=task.attempt + 1,
        queue_until=None,
        ended_lease=_ended_by(task, event),
    )
    turn.actions.append(UpdateTask(waiting))
    timer = Timer(task.place, TimerKind.BACKOFF, turn.at + delay, turn.seq)
    turn.actions.append(SetTimer(timer))


def _offer_again(
    turn: Turn, task: Task, event: LeaseExpired | TimerFired, *, ends_lease: bool = True
) -> None:
    _move(task, TaskState.PENDING, event)
    offered = replace(
        task,
        state=TaskState.PENDING,
        queue_until=queue_until(turn, task.queue_timeout_us),
        held=turn.paused,
    )
    turn.attempts[task.node] = task.attempt
    turn.actions.append(UpdateTask(offered, ends_lease))
    if not offered.held:
        turn.actions.append(DispatchTask(offered))
