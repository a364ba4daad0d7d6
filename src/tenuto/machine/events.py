"""What happened, in the past tense, each with `at`. Facts only: ids, codes, numbers; never a payload's meaning.

`at` is the only time there is (microseconds). `Text`s carry the payload live and only its size when folding.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tenuto.model.ids import LeaseId, MessageId, Place, WorkerId
from tenuto.model.payload import Text


class TimerKind(StrEnum):
    """What a timer is for. One timer of a kind at a place."""

    BACKOFF = "backoff"
    TOTAL = "total"
    WAIT = "wait"
    EVENT = "event"
    """Timeout of a wait_for_event."""
    RUN = "run"
    CONTINUE = "continue"
    """Internal, due at once: 100 back edges were taken in one decision (T7)."""


class Deadline(StrEnum):
    """Which deadline column of a task passed. The value is the failure's code."""

    ATTEMPT = "timeout"
    QUEUE = "queue_timeout"
    HEARTBEAT = "heartbeat_timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The run exists; its input and vars are stored."""

    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSucceeded:
    """A worker reported success under the lease it names. `worker`, `leased_at`: for the timeline."""

    at: int
    place: Place
    attempt: int
    lease_id: LeaseId
    output: Text
    worker: WorkerId = WorkerId("")
    leased_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """A worker reported failure. `error` is the error value's JSON. `retry_after_us`: the other side asked for it.

    `draw` in [0, 1) decides jitter.
    """

    at: int
    place: Place
    attempt: int
    lease_id: LeaseId
    code: str
    error: Text
    draw: float
    retryable: bool = True
    retry_after_us: int = 0
    worker: WorkerId = WorkerId("")
    leased_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExpired:
    """Recovery found the lease dead: expired, or its process known to be gone. No failure of the node's own."""

    at: int
    place: Place
    attempt: int
    lease_id: LeaseId
    worker: WorkerId = WorkerId("")
    leased_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlinePassed:
    """A deadline column of the task row passed. `lease_id` as read; None where no lease is held (QUEUE)."""

    at: int
    place: Place
    attempt: int
    deadline: Deadline
    lease_id: LeaseId | None
    draw: float
    worker: WorkerId = WorkerId("")
    leased_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    """A timer came due. `version` is the one it was armed with; any mismatch is stale (C7)."""

    at: int
    place: Place
    kind: TimerKind
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReceived:
    """A message was matched to the open wait at `place`, opened by event number `version`."""

    at: int
    place: Place
    version: int
    message_id: MessageId
    payload: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    """Somebody asked to cancel the run."""

    at: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRequested:
    """Somebody asked to pause the run (C6)."""

    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRequested:
    """Somebody asked to resume the run (C6)."""

    at: int


Event = (
    RunStarted
    | AttemptSucceeded
    | AttemptFailed
    | LeaseExpired
    | DeadlinePassed
    | TimerFired
    | EventReceived
    | CancelRequested
    | PauseRequested
    | ResumeRequested
)


class Rejection(StrEnum):
    """Why an event changed nothing. Expected trouble, not an error."""

    STALE = "stale"
    DUPLICATE = "duplicate"
    """The report that already ended this lease: answered `ok` again."""
    RUN_FINAL = "run_final"
    ALREADY_PAUSED = "already_paused"
    NOT_PAUSED = "not_paused"
