"""Folding: a run's decided columns again, from its history alone. No CEL, no payloads, no clock.

`Ledger` applies actions to rows in memory. The coordinator uses the same class as overlay while it decides several
events of one run before they are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import assert_never

from tenuto.machine.actions import (
    Action,
    CancelTask,
    ClearTimers,
    CloseRun,
    CloseWait,
    CreateTask,
    DispatchTask,
    HoldTasks,
    OpenWait,
    PutPayload,
    ReleaseTasks,
    SetTimer,
    SettleRun,
    UpdateTask,
    UseMessage,
)
from tenuto.machine.decide import decide, initial
from tenuto.machine.decision import Decision, Needs
from tenuto.machine.events import Event, TimerKind
from tenuto.machine.snapshot import OpenedWait, Rows, Snapshot, Task, Timer
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Expression, Fault, Message, Outcome, Scope, Verdict
from tenuto.model.graph import Graph
from tenuto.model.ids import Place, RunId
from tenuto.model.payload import Text
from tenuto.model.states import FINAL_TASK_STATES, TaskState


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

    def _apply(self, action: Action) -> None:
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
                    self.tasks[task.place] = replace(task, held=True, queue_until=None)
            case ReleaseTasks():
                for task in self._open_tasks():
                    self.tasks[task.place] = _released(task, action.at)
            case CloseRun():
                for task in self._open_tasks():
                    self._cancel(task.place)
                self.timers.clear()
                self.waits.clear()
            case DispatchTask() | UseMessage() | PutPayload() | SettleRun():
                pass
            case _:
                assert_never(action)

    def _cancel(self, place: Place) -> None:
        task = self.tasks.get(place)
        if task is not None and task.state not in FINAL_TASK_STATES:
            self.tasks[place] = replace(task, state=TaskState.CANCELLED)

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

    def evaluate(self, expression: Expression, scope: Scope) -> Verdict | Text | Fault:
        outcome = self._next()
        if isinstance(outcome, Message):
            raise InvariantViolated(
                f"history has a mailbox look-up where {expression.where} was asked"
            )
        return outcome

    def mailbox(self, event: str, key: Text) -> Message:
        outcome = self._next()
        if not isinstance(outcome, Message):
            raise InvariantViolated(f"history has no mailbox look-up for {event}")
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
