"""Folding: a run's decided columns again, from its history alone. No CEL, no payloads, no clock.

`Ledger` applies actions to rows in memory. The coordinator uses the same class as overlay while it decides several
events of one run before they are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from tenuto.machine.actions import (
    Action,
    CancelChild,
    CancelItems,
    CancelTask,
    ClearTimers,
    CloseRun,
    CloseWait,
    CopyKept,
    CreateTask,
    DispatchTask,
    DropPayloads,
    HoldTasks,
    OpenWait,
    PostMessage,
    PutPayload,
    ReleaseTasks,
    ReopenRun,
    RetryChild,
    SetTimer,
    SettleRun,
    ShiftTimers,
    StartChild,
    TellChildren,
    TellParent,
    TerminateChildren,
    UpdateTask,
    UseMessage,
)
from tenuto.machine.decide import decide, initial
from tenuto.machine.decision import Decision, Needs
from tenuto.machine.events import Event, TimerKind
from tenuto.machine.snapshot import OpenedWait, Rows, Snapshot, Task, Timer
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import (
    Callee,
    Expression,
    Fault,
    Listed,
    Message,
    Named,
    Number,
    Outcome,
    Page,
    Scope,
    Verdict,
)
from tenuto.model.graph import Graph
from tenuto.model.ids import MessageId, Place, RunId, parts_of
from tenuto.model.payload import PayloadKey, Text
from tenuto.model.states import FINAL_TASK_STATES, TaskState

_NEVER_SHIFTED = (TimerKind.DRAIN, TimerKind.CONTINUE)
"""Internal: they are due when something is so, or at once."""


@dataclass(slots=True)
class Ledger:
    """Decided rows in memory, changed by actions exactly as the store changes its tables."""

    tasks: dict[Place, Task] = field(default_factory=dict)
    timers: dict[tuple[Place, TimerKind], Timer] = field(default_factory=dict)
    waits: dict[Place, OpenedWait] = field(default_factory=dict)

    def rows(self) -> Rows:
        """A view for `decide`; it shows later changes too."""
        return Rows(self.tasks, self.timers, self.waits)

    def apply(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self._apply(action)

    def _apply(self, action: Action) -> None:  # noqa: C901 - one arm per order
        match action:
            case CreateTask() | UpdateTask():
                self.tasks[action.task.place] = action.task
            case CancelTask():
                self._cancel(action.place)
            case SetTimer():
                self.timers[action.timer.place, action.timer.kind] = action.timer
            case ClearTimers():
                for kind in TimerKind if action.kind is None else (action.kind,):
                    self.timers.pop((action.place, kind), None)
            case OpenWait():
                self.waits[action.wait.place] = action.wait
            case CloseWait():
                self.waits.pop(action.place, None)
            case HoldTasks():
                for task in self._open_tasks():
                    if task.child is None:
                        self.tasks[task.place] = replace(task, held=True, queue_until=None)
            case ReleaseTasks():
                for task in self._open_tasks():
                    self.tasks[task.place] = _released(task, action.at)
            case CloseRun():
                for task in self._open_tasks():
                    self._cancel(task.place)
                self.timers.clear()
                self.waits.clear()
            case CancelItems():
                self._cancel_items(action.place)
            case ShiftTimers():
                self._shift(action)
            case (
                DispatchTask()
                | UseMessage()
                | PutPayload()
                | DropPayloads()
                | PostMessage()
                | StartChild()
                | CancelChild()
                | RetryChild()
                | TerminateChildren()
                | TellChildren()
                | TellParent()
                | ReopenRun()
                | CopyKept()
                | SettleRun()
            ):
                pass
            case _:
                assert_never(action)

    def _cancel(self, place: Place) -> None:
        task = self.tasks.get(place)
        if task is not None and task.state not in FINAL_TASK_STATES:
            self.tasks[place] = replace(task, state=TaskState.CANCELLED)

    def _cancel_items(self, foreach: Place) -> None:
        for task in self._open_tasks():
            parts = parts_of(task.place)
            if parts.owner == foreach and not parts.undo and task.place != foreach:
                self._cancel(task.place)
                for kind in TimerKind:
                    self.timers.pop((task.place, kind), None)

    def _shift(self, shift: ShiftTimers) -> None:
        for key, timer in self.timers.items():
            if timer.kind not in _NEVER_SHIFTED and timer.place not in shift.but:
                later = timer.due_at + shift.by_us
                self.timers[key] = replace(timer, due_at=later, version=shift.version)
        for task in self._open_tasks():
            if task.total_until is not None:
                until = task.total_until + shift.by_us
                self.tasks[task.place] = replace(task, total_until=until)

    def _open_tasks(self) -> list[Task]:
        return [task for task in self.tasks.values() if task.state not in FINAL_TASK_STATES]


def _released(task: Task, at: int) -> Task:
    """C6: `queue_timeout` is set anew, whole, at resume."""
    until = None if task.queue_timeout_us is None else at + task.queue_timeout_us
    return replace(task, held=False, queue_until=until)


class Recorded:
    """An evaluator that answers from an event's recorded outcomes, in call order (X8)."""

    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        self._left = list(outcomes)[::-1]

    def evaluate(
        self, expression: Expression, scope: Scope
    ) -> Verdict | Text | Named | Number | Listed | Fault:
        outcome = self._next()
        if isinstance(outcome, Message | Page | Callee):
            raise InvariantViolated(
                f"history has {type(outcome).__name__} where {expression.where} was asked"
            )
        return outcome

    def mailbox(self, event: str, key: Text, after: MessageId | None = None) -> Message:
        outcome = self._next()
        if not isinstance(outcome, Message):
            raise InvariantViolated(f"history has no mailbox look-up for {event}")
        return outcome

    def page(self, output: PayloadKey, fresh: Mapping[PayloadKey, Text]) -> Page | Fault:
        outcome = self._next()
        if not isinstance(outcome, Page | Fault):
            raise InvariantViolated(f"history has no page at {output.place}")
        return outcome

    def callee(self, name: str, input: Text) -> Callee | Fault:
        outcome = self._next()
        if not isinstance(outcome, Callee | Fault):
            raise InvariantViolated(f"history has no version of {name}")
        return outcome

    def finish(self) -> None:
        """All outcomes must have been asked for."""
        if self._left:
            raise InvariantViolated(f"history has {len(self._left)} outcomes too many")

    def _next(self) -> Outcome:
        if not self._left:
            raise InvariantViolated("history has too few outcomes for its event")
        return self._left.pop()


def fold(
    run_id: RunId, graph: Graph, history: Iterable[tuple[Event, tuple[Outcome, ...]]]
) -> tuple[Snapshot, Ledger]:
    """Fold a whole history, oldest first.

    Returns:
        The run's snapshot and all its decided rows, as they should be stored.

    Raises:
        InvariantViolated: the history contradicts itself.
    """
    snapshot, ledger = initial(run_id, graph), Ledger()
    for decision in fold_steps(run_id, graph, history, ledger):
        snapshot = decision.snapshot
    return snapshot, ledger


def fold_steps(
    run_id: RunId,
    graph: Graph,
    history: Iterable[tuple[Event, tuple[Outcome, ...]]],
    ledger: Ledger,
) -> Iterator[Decision]:
    """What was decided on each event of a history, oldest first; `ledger`, empty at first, has the rows.

    Raises:
        InvariantViolated: the history contradicts itself.
    """
    snapshot = initial(run_id, graph)
    for event, outcomes in history:
        recorded = Recorded(outcomes)
        decision = decide(graph, snapshot, ledger.rows(), event, recorded)
        if isinstance(decision, Needs) or decision.rejected is not None:
            raise InvariantViolated(
                f"event {snapshot.seq + 1} of {run_id} is refused by the machine"
            )
        recorded.finish()
        snapshot = decision.snapshot
        ledger.apply(decision.actions)
        yield decision
