"""What `decide` stands on: the compact state of a run, and the decided rows that the event names.

`Snapshot` is one row of `run_states`. Its cost to copy and store grows with the letters (two bytes a node and edge)
and with what is sparse: loops, any/count joins, second attempts, failures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenuto.machine.events import TimerKind
from tenuto.model.ids import LeaseId, Place, RunId
from tenuto.model.payload import JoinView
from tenuto.model.states import NodeLetter, RunState, TaskState


@dataclass(frozen=True, slots=True)
class Record:
    """How a node last ended (L5), kept only where the letters cannot tell: in loops, and for any/count joins.

    `passes`: iterations of its loops when it ended. `view`: what a join saw when it acted (J4).
    """

    letter: NodeLetter
    passes: tuple[int, ...]
    view: JoinView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A run as decided by its event number `seq`.

    Attributes:
        seq: number of the last event; 0 before RunStarted.
        at: time of that event; the next event is never earlier.
        nodes, edges: one ASCII letter each, by number (`NodeLetter`, `EdgeLetter`).
        passes: current iteration of each loop, by loop number, from 1.
        live: how many nodes are not final.
        records: node -> Record, sparse.
        attempts: node -> attempts so far, where more than one; of its current or last pass.
        failures: places of unhandled dead nodes, first first (F2); not empty means the outcome can only be failed.
        closed_by: what else asked for the end after the first of `failures` (F2).
    """

    run_id: RunId
    seq: int
    at: int
    state: RunState
    paused: bool
    epoch: int
    nodes: bytes
    edges: bytes
    passes: tuple[int, ...]
    live: int
    records: Mapping[int, Record] = field(default_factory=dict)
    attempts: Mapping[int, int] = field(default_factory=dict)
    failures: tuple[Place, ...] = ()
    closed_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Decided columns of a task row (DESIGN section 5, Leases). Times in microseconds.

    Attributes:
        node: number in the graph.
        input_seq: event that made its input payload.
        timeout_us, heartbeat_us, queue_timeout_us: the clocks of the node, None for none.
        total_until: end of all attempts; no lease reaches beyond (F7).
        queue_until: when waiting for a worker becomes a failure; counts while no lease is held.
        held: the run is paused, so no lease may be granted (C6).
        ended_lease: the lease whose report ended the last attempt; the same report again is answered `ok`.
    """

    place: Place
    node: int
    name: str
    queue: str
    priority: int
    state: TaskState
    attempt: int
    lost: int
    input_seq: int
    timeout_us: int | None
    heartbeat_us: int | None
    queue_timeout_us: int | None
    total_until: int | None
    queue_until: int | None
    held: bool
    ended_lease: LeaseId | None


@dataclass(frozen=True, slots=True)
class Timer:
    """A durable "not before". `version` is the number of the event that armed it (C7)."""

    place: Place
    kind: TimerKind
    due_at: int
    version: int


@dataclass(frozen=True, slots=True)
class OpenedWait:
    """An open wait_for_event. `key` is None only while folding. `version` is the number of the event that opened it."""

    place: Place
    event: str
    key: str | None
    version: int
    opened_at: int


@dataclass(frozen=True, slots=True)
class Rows:
    """The decided rows that an event names, as they stand. A row that does not exist is absent."""

    tasks: Mapping[Place, Task] = field(default_factory=dict)
    timers: Mapping[tuple[Place, TimerKind], Timer] = field(default_factory=dict)
    waits: Mapping[Place, OpenedWait] = field(default_factory=dict)
