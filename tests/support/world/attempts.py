"""How a task may move, and how often and how soon an attempt may be tried again (I3, I4, I13, R3)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.world.looking import Looking

from tenuto.machine.events import (
    AttemptFailed,
    ChildSettled,
    DeadlinePassed,
    Event,
    LeaseExpired,
)
from tenuto.machine.snapshot import Task, Timer
from tenuto.model.definition import Call, Foreach, Work
from tenuto.model.ids import parts_of
from tenuto.model.retry import LOST_MAX, Jitter, RetryPolicy
from tenuto.model.states import FINAL_TASK_STATES, TASK_MOVES, TaskState

if TYPE_CHECKING:
    from tests.support.world.run import World


def is_child_work(world: Looking, task: Task) -> bool:
    """Whether a child run does what the task is for."""
    return isinstance(work_of(world, task), Call)


def work_of(world: Looking, task: Task) -> Work | Call:
    """What a task does: for its node, an item, a page or a handler."""
    definition = world.graph.definition
    parts = parts_of(task.place)
    detail: object
    if not parts.node:
        assert definition.on_failure is not None
        detail = definition.on_failure.detail
    else:
        node = definition.nodes[world.graph.numbers[parts.node]]
        if parts.undo:
            assert node.compensate is not None
            detail = node.compensate.detail
        else:
            detail = node.detail
    if isinstance(detail, Foreach):
        detail = detail.source if parts.page is not None else detail.body
    assert isinstance(detail, Work | Call), task
    return detail


def check_update(world: World, old: Task, new: Task, event: Event) -> None:
    """A task moves as the tables say, attempts only grow, and within the policy (I3, I4, I13)."""
    if world.snapshot.epoch > 1 and (
        old.state is TaskState.DEAD
        or (old.state is TaskState.CANCELLED and new.state is not old.state)
        or (old.late and not new.late)
    ):
        _check_reopened(world, old, new)
        return
    assert new.attempt in (old.attempt, old.attempt + 1), f"I3: {old} -> {new}"
    assert new.lost in (old.lost, old.lost + 1)
    assert old.lost == new.lost or isinstance(event, LeaseExpired)
    assert new.lost <= LOST_MAX
    assert new.spent == old.spent
    if old.state in FINAL_TASK_STATES:
        assert old.state is TaskState.CANCELLED, f"I4: {old} -> {new}"
        assert not (new.late and new.attempt != old.attempt), f"I3: {old} -> {new}"
        same = replace(
            old,
            attempt=new.attempt,
            ended_lease=new.ended_lease,
            late=new.late,
            child=new.child,
            ending=new.ending,
        )
        assert new == same, f"I4: {old} -> {new}"
        return
    if old.state in FINAL_TASK_STATES:
        assert old.state is TaskState.CANCELLED, f"I4: {old} -> {new}"
        same = replace(
            old, ended_lease=new.ended_lease, late=new.late, child=new.child, ending=new.ending
        )
        if not new.late:  # a late success of no use: the attempt is over all the same (I3)
            same = replace(same, attempt=new.attempt)
        assert new == same, f"I4: {old} -> {new}"
        return
    failures = new.attempt - new.lost - new.spent
    assert failures <= _allowance(work_of(world, new).retry), f"I13: {new}"
    moves = {(m.source, m.event, m.target) for m in TASK_MOVES}
    move = (old.state, type(event).__name__, new.state)
    fits = move in moves or (old.state, "*", new.state) in moves or old.state is new.state
    assert fits, f"{old.state} -> {new.state} on {event}"
    if old.state is new.state and not isinstance(event, LeaseExpired):
        assert is_child_work(world, new), f"{old} -> {new} on {event}"


def _check_reopened(world: World, old: Task, new: Task) -> None:
    if old.late:
        if new.state is not TaskState.SUCCESS:  # what came late is of no use, and over
            assert (new.attempt, new.late) == (old.attempt + 1, False), f"F8: {old} -> {new}"
        return
    if new.state is TaskState.DEAD:
        return
    assert new.state is TaskState.PENDING, f"R3: {new}"
    grown = old.attempt + (old.state is TaskState.DEAD)
    assert new.attempt in (grown, old.attempt + 1), f"R3: {old} -> {new}"
    assert new.attempt - new.spent - new.lost == 1, f"R3: a fresh allowance: {new}"
    assert new.rules == (), f"R3: a fresh allowance: {new}"
    world.checking.reopened.add(new.place)


def check_backoff(world: World, timer: Timer, event: Event) -> None:
    """I13: never shorter than configured, never above the cap unless the other side asked for it."""
    assert isinstance(event, AttemptFailed | DeadlinePassed | ChildSettled)
    task = world.ledger.tasks[timer.place]
    policy = work_of(world, task).retry
    asked = event.retry_after_us if isinstance(event, AttemptFailed) else 0
    delay = timer.due_at - world.snapshot.at
    if policy.rules:
        cap = max(policy.max_us, *(rule.max_us for rule in policy.rules))
        assert asked <= delay <= max(cap, asked), f"I13: {delay}"
        return
    failures = task.attempt - 1 - task.lost - task.spent
    whole = policy.initial_us
    for _ in range(failures - 1):
        whole = min(policy.max_us, int(whole * policy.factor))
    whole = min(policy.max_us, whole)
    low, high = {
        Jitter.NONE: (whole, whole),
        Jitter.EQUAL: (whole // 2, whole),
        Jitter.FULL: (0, whole),
    }[policy.jitter]
    assert max(low, asked) <= delay <= max(high, asked), f"I13: {delay} not in {low}..{high}"


def _allowance(policy: RetryPolicy) -> int:
    """The most attempts that a policy may lead to."""
    most = policy.max_attempts + sum(rule.max_attempts for rule in policy.rules)
    return most if policy.total is None else min(most, max(policy.total, 1))
