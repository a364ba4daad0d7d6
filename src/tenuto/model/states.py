"""States and their legal moves, as data. No logic beyond looking them up.

Tasks and runs move by the rows of `TASK_MOVES` and `RUN_MOVES`: the machine asserts every change against them, the
tables' CHECK constraints name the same states, `docs/states.md` is drawn from them and the property tests walk them.
For nodes the rules of SEMANTICS (T, J, F, L) are the guards, so only the letters stand here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RunState(StrEnum):
    """Where a run stands. Pause is a flag beside it, shown as `paused` while the outcome is open (C6)."""

    PENDING = "pending"
    RUNNING = "running"
    CLOSING = "closing"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class TaskState(StrEnum):
    """Stored states of a task row. `running` is `pending` under a live lease; `failed` is passed through."""

    PENDING = "pending"
    RETRY = "retry"
    SUCCESS = "success"
    DEAD = "dead"
    CANCELLED = "cancelled"


class NodeLetter(StrEnum):
    """State of a node, one letter in `run_states.nodes`."""

    PENDING = "."
    ACTIVE = "a"
    SUCCESS = "s"
    DEAD = "x"
    SKIPPED = "k"
    CANCELLED = "c"


class EdgeLetter(StrEnum):
    """State of an edge, one letter in `run_states.edges` (SEMANTICS T1)."""

    UNDECIDED = "-"
    TAKEN = "t"
    DEAD = "d"
    WITHHELD = "w"


NODE_STATUS = {
    NodeLetter.PENDING: "pending",
    NodeLetter.ACTIVE: "active",
    NodeLetter.SUCCESS: "success",
    NodeLetter.DEAD: "dead",
    NodeLetter.SKIPPED: "skipped",
    NodeLetter.CANCELLED: "cancelled",
}

FINAL_RUN_STATES = frozenset(
    {RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED, RunState.TIMED_OUT}
)
FINAL_TASK_STATES = frozenset({TaskState.SUCCESS, TaskState.DEAD, TaskState.CANCELLED})
FINAL_NODE_LETTERS = frozenset(
    {NodeLetter.SUCCESS, NodeLetter.DEAD, NodeLetter.SKIPPED, NodeLetter.CANCELLED}
)


class CancelReason(StrEnum):
    """Why a node or task was cancelled."""

    CLOSING = "closing"
    RACE = "race"
    RESET = "reset"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Move:
    """One legal move: in state `source`, on `event`, if `guard` holds, to state `target`."""

    source: str
    event: str
    guard: str
    target: str


TASK_MOVES: tuple[Move, ...] = (
    Move("pending", "AttemptSucceeded", "lease_matches", "success"),
    Move("pending", "AttemptSucceeded", "payload_too_large", "dead"),
    Move("pending", "AttemptFailed", "attempts_left", "retry"),
    Move("pending", "AttemptFailed", "no_attempt_left", "dead"),
    Move("pending", "LeaseExpired", "losses_left", "pending"),
    Move("pending", "LeaseExpired", "no_loss_left", "dead"),
    Move("pending", "DeadlinePassed", "attempts_left", "retry"),
    Move("pending", "DeadlinePassed", "no_attempt_left", "dead"),
    Move("pending", "TimerFired", "total_timeout", "dead"),
    Move("retry", "TimerFired", "backoff_over", "pending"),
    Move("retry", "TimerFired", "total_timeout", "dead"),
    Move("pending", "ChildSettled", "child_succeeded", "success"),
    Move("pending", "ChildSettled", "attempts_left", "retry"),
    Move("pending", "ChildSettled", "no_attempt_left", "dead"),
    Move("pending", "*", "node_cancelled", "cancelled"),
    Move("retry", "*", "node_cancelled", "cancelled"),
    Move("dead", "*", "reopened", "pending"),
    Move("cancelled", "*", "reopened", "pending"),
    Move("cancelled", "*", "reopened_and_succeeded_late", "success"),
)

RUN_MOVES: tuple[Move, ...] = (
    Move("pending", "RunStarted", "always", "running"),
    Move("running", "*", "settled", "success"),
    Move("running", "*", "settled_with_failure", "failed"),
    Move("running", "*", "unhandled_failure", "failed"),
    Move("running", "*", "end_node_reached", "success"),
    Move("running", "*", "end_node_reached_as_cancelled", "cancelled"),
    Move("running", "CancelRequested", "outcome_open", "cancelled"),
    Move("running", "TimerFired", "run_timeout", "timed_out"),
    Move("running", "TerminateRequested", "always", "cancelled"),
    Move("running", "*", "outcome_decided_and_work_left", "closing"),
    Move("closing", "*", "closed", "success"),
    Move("closing", "*", "closed", "failed"),
    Move("closing", "*", "closed", "cancelled"),
    Move("closing", "*", "closed", "timed_out"),
    Move("failed", "RetryRequested", "retryable", "running"),
    Move("cancelled", "RetryRequested", "retryable", "running"),
    Move("timed_out", "RetryRequested", "retryable", "running"),
    Move("pending", "RunReplayed", "always", "running"),
)

_TASK_TARGETS = frozenset((m.source, m.event, m.target) for m in TASK_MOVES)
_RUN_TARGETS = frozenset((m.source, m.target) for m in RUN_MOVES)


def may_move_task(source: str, event: str, target: str) -> bool:
    """Whether `TASK_MOVES` has a row for this move under some guard."""
    return (source, event, target) in _TASK_TARGETS or (source, "*", target) in _TASK_TARGETS


def may_move_run(source: str, target: str) -> bool:
    """Whether `RUN_MOVES` has a row for this move under some event and guard."""
    return (source, target) in _RUN_TARGETS
