"""What must be done, in the imperative: the orders that come out of a decision, in the order to be written.

The store turns each kind into rows; `fold` applies the same orders to rows in memory. An order names what it changes
by place, so it never needs a row that the decision did not read.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenuto.machine.events import TimerKind
from tenuto.machine.snapshot import OpenedWait, Task, Timer
from tenuto.model.ids import MessageId, Place
from tenuto.model.payload import Output, PayloadKey, Text
from tenuto.model.states import CancelReason, RunState


@dataclass(frozen=True, slots=True)
class CreateTask:
    """Insert this task. Its input payload is put by the same decision."""

    task: Task


@dataclass(frozen=True, slots=True)
class UpdateTask:
    """Write these decided columns. `ends_lease`: the lease that the event named is over, clear the lease columns."""

    task: Task
    ends_lease: bool = True


@dataclass(frozen=True, slots=True)
class CancelTask:
    """Set state `cancelled` where the state is not final; keep the lease columns (F7), withdraw its ready row."""

    place: Place
    reason: CancelReason


@dataclass(frozen=True, slots=True)
class DispatchTask:
    """Offer this task, pending and not held, to workers: a `ready` row, or an eager lease in the same commit."""

    task: Task


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Insert or replace the timer of this place and kind."""

    timer: Timer


@dataclass(frozen=True, slots=True)
class ClearTimers:
    """Remove the timers of this place: of one kind, or all (None)."""

    place: Place
    kind: TimerKind | None = None


@dataclass(frozen=True, slots=True)
class OpenWait:
    """Insert this wait."""

    wait: OpenedWait


@dataclass(frozen=True, slots=True)
class CloseWait:
    """Remove the wait of this place, if any."""

    place: Place


@dataclass(frozen=True, slots=True)
class UseMessage:
    """Remove this message from the mailbox; if it is gone the whole decision is void (a claim)."""

    message_id: MessageId


@dataclass(frozen=True, slots=True)
class PutPayload:
    """Store this JSON value under (key, number of the event being decided)."""

    key: PayloadKey
    value: Text


@dataclass(frozen=True, slots=True)
class HoldTasks:
    """Pause (C6): `held` on every open task of the run, `queue_until` cleared, ready rows withdrawn."""


@dataclass(frozen=True, slots=True)
class ReleaseTasks:
    """Resume (C6): `held` off on every open task, `queue_until` = at + `queue_timeout_us`; pending ones without a lease
    are dispatched again.
    """

    at: int


@dataclass(frozen=True, slots=True)
class CloseRun:
    """The outcome is decided (C2): every open task of the run becomes `cancelled` (lease columns stay), every timer,
    wait and ready row of it goes.
    """


@dataclass(frozen=True, slots=True)
class SettleRun:
    """The run is final. `output` only for success; `error` is the payload of the first unhandled failure, or None."""

    state: RunState
    at: int
    output: Output
    error: PayloadKey | None


Action = (
    CreateTask
    | UpdateTask
    | CancelTask
    | DispatchTask
    | SetTimer
    | ClearTimers
    | OpenWait
    | CloseWait
    | UseMessage
    | PutPayload
    | HoldTasks
    | ReleaseTasks
    | CloseRun
    | SettleRun
)
