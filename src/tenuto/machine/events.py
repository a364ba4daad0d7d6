"""What happened, in the past tense, each with `at`. Facts only: ids, codes, numbers; never a payload's meaning.

`at` is the only time there is (microseconds). `Text`s carry the payload live and only its size when folding.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tenuto.model.ids import LeaseId, MessageId, Place, RunId, WorkerId
from tenuto.model.payload import Text
from tenuto.model.states import RunState


class TimerKind(StrEnum):
    """What a timer is for. One timer of a kind at a place."""

    BACKOFF = "backoff"
    TOTAL = "total"
    WAIT = "wait"
    EVENT = "event"
    """Timeout of a wait_for_event."""
    HEARTBEAT = "heartbeat"
    """Silence of a wait_for_event."""
    CHILD = "child"
    """Timeout of a child run."""
    RUN = "run"
    CLOSING = "closing"
    """`closing_timeout` (C4)."""
    DRAIN = "drain"
    """Not by time: due when no task of the run has a live lease (C2)."""
    CONTINUE = "continue"
    """Internal, due at once: a decision was long enough: 100 back edges (T7), or 1,000 items begun."""


class Deadline(StrEnum):
    """Which deadline column of a task passed. The value is the failure's code."""

    ATTEMPT = "timeout"
    QUEUE = "queue_timeout"
    HEARTBEAT = "heartbeat_timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The run exists; its input and vars are stored.

    A child has `depth`; one that is waited for its `parent` (run, place) and, where it works on an item, `index`;
    `paused`: the parent is (C6). `priority`: of its tasks whose nodes set none (X1.3).
    """

    at: int
    parent: tuple[RunId, Place] | None = None
    index: int | None = None
    depth: int = 0
    paused: bool = False
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReplayed:
    """A new run that keeps what another one of the same version did, but for `node` and all that follows (R2).

    `nodes`, `edges`, `rest`: the source's snapshot, encoded (`columns.encode_snapshot`). The payloads that are kept are
    copied by the same commit.
    """

    at: int
    source: RunId
    node: str
    nodes: str
    edges: str
    rest: str


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

    `draw` in [0, 1) decides jitter. `classes`: names of the exception's classes, for retry rules.
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
    classes: tuple[str, ...] = ()
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
class HeartbeatReceived:
    """A sign of life for the open wait at `place`, opened by event number `version`."""

    at: int
    place: Place
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSettled:
    """The child run of `place` is final. `output` only for success, `error` (its error value) only otherwise.

    `state` FAILED with `code` `payload_too_large`: it succeeded, and its output does not fit. `draw` decides jitter.
    """

    at: int
    place: Place
    child: RunId
    state: RunState
    output: Text | None
    error: Text | None
    draw: float
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    """Somebody asked to cancel the run."""

    at: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateRequested:
    """Somebody asked to end the run at once, without handlers (C4); so did the parent, and it can't be refused."""

    at: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRequested:
    """Somebody asked to pause the run (C6)."""

    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRequested:
    """Somebody asked to resume the run (C6). `freeze`: deadlines move by the time that it was paused."""

    at: int
    freeze: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentPaused:
    """The parent's flag has changed, or may have (C6). `freeze`: as it was resumed."""

    at: int
    paused: bool
    freeze: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """No task of the closing run has a live lease (C2). `version` of the timer that asked.

    `started`: places of all tasks of which an attempt was ever handed out.
    """

    at: int
    version: int
    started: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequested:
    """Somebody asked to go on with a run that is final (R1).

    Facts, as loaded: `again`: (node id, indexes) of the items that did not succeed, of each foreach that could be
    retried inside; `children`: (place, child) of calls whose child allows a retry. `skip`: a node id that is taken as
    done with `output` instead of being run again. `paused`: the parent that waits for this run is (C6).
    """

    at: int
    again: tuple[tuple[str, tuple[int, ...]], ...] = ()
    children: tuple[tuple[Place, RunId], ...] = ()
    skip: str | None = None
    output: Text | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipRequested:
    """Somebody asked to take an active node as done, with this output."""

    at: int
    node: str
    output: Text


Event = (
    RunStarted
    | RunReplayed
    | AttemptSucceeded
    | AttemptFailed
    | LeaseExpired
    | DeadlinePassed
    | TimerFired
    | EventReceived
    | HeartbeatReceived
    | ChildSettled
    | CancelRequested
    | TerminateRequested
    | PauseRequested
    | ResumeRequested
    | ParentPaused
    | Drained
    | RetryRequested
    | SkipRequested
)


class Rejection(StrEnum):
    """Why an event changed nothing. Expected trouble, not an error."""

    STALE = "stale"
    DUPLICATE = "duplicate"
    """The report that already ended this lease: answered `ok` again."""
    RUN_FINAL = "run_final"
    ALREADY_PAUSED = "already_paused"
    NOT_PAUSED = "not_paused"
    NO_MATCH = "no_match"
    """The wait's `match` does not hold for the message: it stays where it is."""
    NOT_RETRYABLE = "not_retryable"
    NOT_ACTIVE = "not_active"
    """The node to skip has nothing under way."""
    CLOSING = "closing"
    """The outcome is decided, handlers are at work (C4)."""
    PARENT_PAUSED = "parent_paused"
    """A child of a paused parent is resumed with it (C6)."""
