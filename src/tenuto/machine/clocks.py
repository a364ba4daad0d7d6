"""A task's attempts: success, failure, loss, deadlines, back-off (SEMANTICS F5, F7, F8, D; DESIGN section 3).

Whether the lease matches was compared with the freshly read lease row before `decide`; the attempt and the state are
compared here again, so either check finds the other's bugs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tenuto.machine import foreach, scope
from tenuto.machine.actions import ClearTimers, DispatchTask, SetTimer
from tenuto.machine.codec import error_text
from tenuto.machine.ends import output_unfit, work_died, work_succeeded
from tenuto.machine.events import (
    AttemptFailed,
    AttemptSucceeded,
    ChildSettled,
    Deadline,
    DeadlinePassed,
    LeaseExpired,
    Rejection,
    TimerFired,
    TimerKind,
)
from tenuto.machine.snapshot import Task, Timer
from tenuto.machine.turn import ACTIVE, Turn
from tenuto.machine.work import end_child, queue_until, start_again
from tenuto.model.definition import Call, Foreach, Work
from tenuto.model.errors import InvariantViolated
from tenuto.model.failures import NEVER_RETRIED, Failure
from tenuto.model.ids import LeaseId, parts_of
from tenuto.model.payload import PAYLOAD_MAX, PayloadKind
from tenuto.model.retry import LOST_MAX, delay_us, names_failure
from tenuto.model.states import TaskState, may_move_task

AttemptEvent = AttemptSucceeded | AttemptFailed | LeaseExpired | DeadlinePassed


def on_success(turn: Turn, event: AttemptSucceeded) -> Rejection | None:
    """A worker finished. Under a cancelled task it is kept for C3, and changes neither node nor run (F8)."""
    task = turn.rows.tasks.get(event.place)
    refused = _refuse(task, event)
    if refused is not None:
        if task is not None and _is_late(task, event):
            _keep_late(turn, task, event)
            return None
        return refused
    assert task is not None
    check_active(turn, task)
    if event.output.size > PAYLOAD_MAX:
        failure = Failure(
            "payload_too_large",
            f"the output has {event.output.size:,} bytes; the limit is {PAYLOAD_MAX:,}",
        )
        _end_task(turn, task, TaskState.DEAD, event)
        work_died(turn, task, failure)
        return None
    turn.put(event.place, PayloadKind.OUTPUT, event.output)
    unfit = output_unfit(turn, task)
    if unfit is not None:
        _end_task(turn, task, TaskState.DEAD, event)
        work_died(turn, task, unfit)
        return None
    _end_task(turn, task, TaskState.SUCCESS, event)
    work_succeeded(turn, task)
    return None


def on_failure(turn: Turn, event: AttemptFailed) -> Rejection | None:
    """A worker failed: try again later, or the work is dead."""
    task = turn.rows.tasks.get(event.place)
    refused = _refuse(task, event)
    if refused is not None:
        return refused
    assert task is not None
    check_active(turn, task)
    turn.put(event.place, PayloadKind.ERROR, event.error)
    again = None
    if event.retryable:
        again = try_again(turn, task, event.code, event.classes, event.draw)
    if again is not None:
        _try_later(turn, task, event, again, event.retry_after_us)
        return None
    _end_task(turn, task, TaskState.DEAD, event)
    work_died(turn, task, None)
    return None


def on_lease_expired(turn: Turn, event: LeaseExpired) -> Rejection | None:
    """A lost lease raises `attempt` but is no failure of the node's own: handed out again, without back-off."""
    task = turn.rows.tasks.get(event.place)
    refused = _refuse(task, event)
    if refused is not None:
        return refused
    assert task is not None
    check_active(turn, task)
    if task.lost + 1 >= LOST_MAX:
        _end_task(turn, replace(task, lost=task.lost + 1), TaskState.DEAD, event)
        message = f"the worker was lost {LOST_MAX} times while it ran this task"
        work_died(turn, task, Failure("lease_lost", message))
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
    check_active(turn, task)
    if event.deadline is Deadline.QUEUE and not _is_overdue(turn, task):
        return Rejection.STALE
    code = event.deadline.value
    failure = Failure(code, _DEADLINE_MESSAGES[event.deadline])
    turn.put(event.place, PayloadKind.ERROR, error_text(failure, node_id(turn, task)))
    again = try_again(turn, task, code, (), event.draw)
    if again is not None:
        _try_later(turn, task, event, again)
        return None
    _end_task(turn, task, TaskState.DEAD, event)
    work_died(turn, task, failure)
    return None


def on_backoff(turn: Turn, event: TimerFired) -> Rejection | None:
    """The back-off is over: `retry` -> `pending`, and dispatched."""
    task = turn.rows.tasks.get(event.place)
    if task is None or task.state is not TaskState.RETRY:
        return Rejection.STALE
    check_active(turn, task)
    turn.actions.append(ClearTimers(event.place, TimerKind.BACKOFF))
    work = work_of(turn, task)
    if isinstance(work, Call):
        _start_again(turn, task, work, event)
    else:
        _offer_again(turn, task, event, ends_lease=False)
    return None


def on_total_timeout(turn: Turn, event: TimerFired) -> Rejection | None:
    """All attempts together took too long; no lease reaches beyond this moment (F7). A child is waited for (F6)."""
    task = turn.rows.tasks.get(event.place)
    if task is None:
        return foreach.on_total_timeout(turn, event)
    if task.state not in (TaskState.PENDING, TaskState.RETRY):
        return Rejection.STALE
    check_active(turn, task)
    if task.child is not None:
        turn.actions.append(ClearTimers(event.place))
        end_child(turn, task, "total_timeout")
        return None
    _end_task(turn, task, TaskState.DEAD, event)
    work_died(turn, task, Failure("total_timeout", "all attempts together passed total_timeout"))
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


def _keep_late(turn: Turn, task: Task, event: AttemptSucceeded) -> None:
    """F8: stored, and done for C3, whatever the run's state. What does not fit did happen, but nothing can use it:
    should a retry come, the next attempt does the work again.
    """
    fits = event.output.size <= PAYLOAD_MAX
    attempt = task.attempt if fits else task.attempt + 1
    turn.update_task(replace(task, attempt=attempt, ended_lease=event.lease_id, late=fits))
    if fits:
        turn.put(event.place, PayloadKind.OUTPUT, event.output)
    turn.done_late(task)


def _is_overdue(turn: Turn, task: Task) -> bool:
    """A pause takes `queue_until` away and resume sets it anew (C6), perhaps since the deadline was read."""
    return task.queue_until is not None and task.queue_until <= turn.at


def check_active(turn: Turn, task: Task) -> None:
    """Open work belongs to an active node; a handler's to a run that closes."""
    parts = parts_of(task.place)
    if parts.undo or not parts.node:
        standing = turn.closing is not None and turn.closing.current == task.place
    else:
        standing = turn.nodes[task.node] == ACTIVE and turn.place(task.node) == parts.owner
    if not standing:
        raise InvariantViolated(f"task {task.place} is {task.state}, and nothing waits for it")


@dataclass(frozen=True, slots=True)
class Again:
    """Another attempt after `delay_us`; `rules`: failures so far by retry rule, this one included."""

    delay_us: int
    rules: tuple[int, ...]


def try_again(
    turn: Turn, task: Task, code: str, classes: tuple[str, ...], draw: float
) -> Again | None:
    """`attempts_left`: whether a failure is retried, by the work's retry policy, and when. Its error payload is put.

    Lost attempts are not counted, nor those before the last retry of the run (R3). The first rule that matches decides;
    an error in its `when` counts as not matching.
    """
    policy = work_of(turn, task).retry
    failures = task.attempt - task.lost - task.spent
    if code in NEVER_RETRIED or names_failure(policy.give_up_on, code, classes):
        return None
    seen = scope.of_failure(turn, task.place)
    for number, rule in enumerate(policy.rules):
        if rule.on and not names_failure(rule.on, code, classes):
            continue
        if rule.when is not None and turn.holds(rule.when, seen) is not True:
            continue
        counts = list(task.rules) + [0] * (len(policy.rules) - len(task.rules))
        counts[number] += 1
        if counts[number] >= rule.max_attempts:
            return None
        if policy.total is not None and failures >= policy.total:
            return None
        return Again(delay_us(rule, counts[number], draw), tuple(counts))
    if failures >= policy.max_attempts:
        return None
    return Again(delay_us(policy, failures, draw), task.rules)


def work_of(turn: Turn, task: Task) -> Work | Call:
    """What a task does: for its node, an item, a page or a handler."""
    parts = parts_of(task.place)
    detail: object
    if task.node < 0:
        handler = turn.graph.definition.on_failure
        detail = handler and handler.detail
    elif parts.undo:
        handler = turn.node(task.node).compensate
        detail = handler and handler.detail
    else:
        detail = turn.node(task.node).detail
    if isinstance(detail, Foreach):
        detail = detail.source if parts.page is not None else detail.body
    assert isinstance(detail, Work | Call)
    return detail


def node_id(turn: Turn, task: Task) -> str:
    """The node's id, for the `node` of an error value."""
    return turn.node(task.node).id if task.node >= 0 else "on_failure"


def check_move(
    task: Task, target: TaskState, event: AttemptEvent | TimerFired | ChildSettled
) -> None:
    """Every move of a task is a row of `TASK_MOVES`."""
    if not may_move_task(task.state, type(event).__name__, target):
        raise InvariantViolated(
            f"task {task.place} does not move from {task.state} to {target} on {type(event).__name__}"
        )


def _ended_by(task: Task, event: AttemptEvent | TimerFired) -> LeaseId | None:
    if isinstance(event, AttemptSucceeded | AttemptFailed):
        return event.lease_id
    return task.ended_lease


def _end_task(turn: Turn, task: Task, state: TaskState, event: AttemptEvent | TimerFired) -> None:
    check_move(task, state, event)
    ended = replace(task, state=state, queue_until=None, ended_lease=_ended_by(task, event))
    turn.update_task(ended)
    if task.total_until is not None or task.state is TaskState.RETRY:
        turn.actions.append(ClearTimers(task.place))


def _try_later(
    turn: Turn, task: Task, event: AttemptEvent, again: Again, at_least_us: int = 0
) -> None:
    check_move(task, TaskState.RETRY, event)
    waiting = replace(
        task,
        state=TaskState.RETRY,
        attempt=task.attempt + 1,
        queue_until=None,
        ended_lease=_ended_by(task, event),
        rules=again.rules,
    )
    turn.update_task(waiting)
    due = turn.at + max(again.delay_us, at_least_us)
    turn.actions.append(SetTimer(Timer(task.place, TimerKind.BACKOFF, due, turn.seq)))


def _start_again(turn: Turn, task: Task, call: Call, event: TimerFired) -> None:
    check_move(task, TaskState.PENDING, event)
    if task.node >= 0 and turn.active_at(task.place) is not None:
        turn.attempts[task.node] = task.attempt
    failure = start_again(turn, task, call)
    if failure is not None:
        _end_task(turn, task, TaskState.DEAD, event)
        work_died(turn, task, failure)


def _offer_again(
    turn: Turn, task: Task, event: LeaseExpired | TimerFired, *, ends_lease: bool = True
) -> None:
    check_move(task, TaskState.PENDING, event)
    offered = replace(
        task,
        state=TaskState.PENDING,
        queue_until=queue_until(turn, task.queue_timeout_us),
        held=turn.is_held(),
    )
    if task.node >= 0 and turn.active_at(task.place) is not None:
        turn.attempts[task.node] = task.attempt
    turn.update_task(offered, ends_lease=ends_lease)
    if not offered.held:
        turn.actions.append(DispatchTask(offered))
