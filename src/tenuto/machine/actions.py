"""What must be done, in the imperative: the orders that come out of a decision, in the order to be written.

The store turns each kind into rows; `fold` applies the same orders to rows in memory. An order names what it changes
by place, so it never needs a row that the decision did not read.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenuto.machine.events import TimerKind
from tenuto.machine.snapshot import OpenedWait, Task, Timer
from tenuto.model.expressions import Callee
from tenuto.model.ids import MessageId, Place, RunId
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
class DropPayloads:
    """Remove the payloads of these places: passes that a loop does not keep (L5)."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class PostMessage:
    """Put a message into the mailbox (`emit`). `event_id` makes it one, however often it is posted."""

    event: str
    key: Text
    payload: Text
    event_id: str
    keep_us: int | None


@dataclass(frozen=True, slots=True)
class StartChild:
    """Start a child run for `place`.

    Its input is the payload (place, INPUT) of this run: the input of the workflow `callee`, whose vars are at
    (place, VARS); or the `params` of the inline graph number `inline` of this run's graph, which gets this run's input
    and vars too.

    Attributes:
        waited: its end is decided here, and cancel, pause and terminate reach it. The task row at `place` has it.
        index, item: of the foreach item that it works on, and where the item is found in this run.
        depth: levels of runs above it.
        priority: of its tasks whose nodes set none: this run's.
    """

    place: Place
    child: RunId
    callee: Callee | None
    inline: int | None
    waited: bool
    depth: int
    index: int | None = None
    item: PayloadKey | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class CancelChild:
    """Send the open child of `place` a cancel, or a `terminate` that it can't refuse."""

    place: Place
    child: RunId
    terminate: bool = False


@dataclass(frozen=True, slots=True)
class RetryChild:
    """Ask the final child of `place` to go on (R1). The task row at `place` has it as its open child again."""

    place: Place
    child: RunId


@dataclass(frozen=True, slots=True)
class CancelItems:
    """Cancel what is open of the foreach at `place`: items and pages, as `CancelTask` does each; their open children
    get a cancel, their timers go.
    """

    place: Place


@dataclass(frozen=True, slots=True)
class TerminateChildren:
    """Send every open child of the run a `terminate` (C4), also those that were sent a cancel before."""


@dataclass(frozen=True, slots=True)
class TellChildren:
    """Tell every open child that this run's pause has changed (C6); `freeze`: as it was resumed."""

    freeze: bool = False


@dataclass(frozen=True, slots=True)
class TellParent:
    """Tell the parent that this run is final; in the commit that settles it."""

    parent: RunId
    place: Place


@dataclass(frozen=True, slots=True)
class HoldTasks:
    """Pause (C6): `held` on every open task that no child does, `queue_until` cleared, ready rows withdrawn."""


@dataclass(frozen=True, slots=True)
class ReleaseTasks:
    """Resume (C6): `held` off on every open task, `queue_until` = at + `queue_timeout_us`; pending ones without a lease
    are dispatched again, but for those that a child does.
    """

    at: int


@dataclass(frozen=True, slots=True)
class ShiftTimers:
    """Resume with `--freeze-timers` (C6): every timer of the run, and `total_until` of every open task, is later by
    this much; not DRAIN and CONTINUE timers, nor those of the places `but`: waits until a moment. The timers get a new
    `version` (C7).
    """

    by_us: int
    version: int
    but: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class CloseRun:
    """The outcome is decided (C2): every open task of the run becomes `cancelled` (lease columns stay), every timer,
    wait and ready row of it goes; every open child gets a cancel, but those of tasks cancelled before.
    """


@dataclass(frozen=True, slots=True)
class ReopenRun:
    """The run is not final any more (R1): its row says so again, without output, error and end."""


@dataclass(frozen=True, slots=True)
class CopyKept:
    """Replay (R2): copy the payloads of `source`, and the task rows of its foreach items, for all places but those of
    the nodes `but` and the handlers. The run's own input and vars are put by whoever starts it.
    """

    source: RunId
    but: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettleRun:
    """The run is final. `output` only for success; `error` is the payload of the first unhandled failure, or None.

    `compensation`: `none`, `complete` or `partial` (C4).
    """

    state: RunState
    at: int
    output: Output
    error: PayloadKey | None
    compensation: str = "none"


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
    | DropPayloads
    | PostMessage
    | StartChild
    | CancelChild
    | RetryChild
    | CancelItems
    | TerminateChildren
    | TellChildren
    | TellParent
    | HoldTasks
    | ReleaseTasks
    | ShiftTimers
    | CloseRun
    | ReopenRun
    | CopyKept
    | SettleRun
)
