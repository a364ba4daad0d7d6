"""What `decide` stands on: the compact state of a run, and the decided rows that the event names.

`Snapshot` is one row of `run_states`. Its cost to copy and store grows with the letters (two bytes a node and edge)
and with what is sparse: loops, any/count joins, second attempts, failures.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from tenuto.machine.events import TimerKind
from tenuto.model.ids import LeaseId, Place, RunId
from tenuto.model.payload import Output, PayloadKey
from tenuto.model.states import NodeLetter, RunState, TaskState


@dataclass(frozen=True, slots=True)
class Record:
    """How a node last ended (L5), kept only where the letters cannot tell: in loops, and for any/count joins.

    `passes`: iterations of its loops when it ended. `epoch`: in the name of the place where it ended (R3). `view`: its
    output where type and place do not tell: what a join saw when it acted (J4), the items of a foreach, what was given
    to a node that was skipped by hand. `recalled`: of the pass before the one that a retry does again; how it ended is
    known by its payloads only.
    """

    letter: NodeLetter
    passes: tuple[int, ...]
    view: Output = None
    epoch: int = 1
    recalled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A foreach from its activation on, and how it ended: counters only, so an item costs the same whatever the list.

    States and texts of single items are in their task rows and payloads.

    Attributes:
        listed: items known so far; `complete`: there are no more pages.
        next: index of the next item to begin.
        active: items begun and not ended, back-off included.
        succeeded, failed: items ended so; those cancelled are in neither.
        concurrency, tolerate, percent, batch: as evaluated once.
        pages: of a paged list: index of the first item of each page fetched.
        fetching: whether a page is on its way.
        again: items to do again after a retry (R1), ascending; they begin before `next`.
        first: index of the item that failed first.
    """

    listed: int
    complete: bool
    next: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    concurrency: int
    tolerate: int
    percent: bool = False
    batch: int = 0
    pages: tuple[int, ...] = ()
    fetching: bool = False
    again: tuple[int, ...] = ()
    first: int | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """Work to undo (C3): its place, and the number of the event that ended it.

    `sure` False: it did not succeed. It is undone if it does after all (F8), or with `when: started` if an attempt of
    it was handed out. `items`: how many a foreach listed, so that its undo can read them when its pass is long over.
    """

    place: Place
    seq: int
    sure: bool = True
    items: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """A run whose outcome is decided and that is not final yet (C2-C4).

    Attributes:
        outcome: the final state to come; `output`, `error`: what `SettleRun` will say.
        drained: handlers may run.
        todo: places of the work left to undo, next first.
        current: place of the handler under way, or None.
        undone, failed: compensations that ended so.
        last: the `on_failure` handler has its turn, or had it.
    """

    outcome: RunState
    output: Output = None
    error: PayloadKey | None = None
    drained: bool = False
    todo: tuple[Place, ...] = ()
    current: Place | None = None
    undone: int = 0
    failed: int = 0
    last: bool = False

    @property
    def by_end(self) -> bool:
        """Whether success or an `end` node decided it: there is no error, and nothing is undone (F4)."""
        return self.error is None


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
        parent: run and place that wait for this run's end, or None.
        index: of the item that it works on; `depth`: levels of runs above it.
        parent_paused: the parent's flag, as last heard (C6); `paused_since`: since when either is set, or None.
        children: open children: their end is not decided here yet (C1).
        items: node -> a foreach begun in its current or last pass.
        ids: node -> epoch in the names of its places, where it is not 1 (R3).
        done: work to undo should the run fail, oldest end first (C3).
        closing: set between the outcome and the final state.
        compensation: `none`, `complete` or `partial` (C4).
        source: the run that this one replays (R2), or None.
        priority: of its tasks whose nodes set none (X1.3).
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
    parent: tuple[RunId, Place] | None = None
    index: int | None = None
    depth: int = 0
    parent_paused: bool = False
    paused_since: int | None = None
    children: int = 0
    items: Mapping[int, Items] = field(default_factory=dict)
    ids: Mapping[int, int] = field(default_factory=dict)
    done: tuple[Done, ...] = ()
    closing: Closing | None = None
    compensation: str = "none"
    source: RunId | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Decided columns of a task row (DESIGN section 5, Leases). Times in microseconds.

    Attributes:
        node: number in the graph; -1 for the run's `on_failure` handler.
        input_seq: event that made its input payload.
        timeout_us, heartbeat_us, queue_timeout_us: the clocks of the node, None for none.
        total_until: end of all attempts; no lease reaches beyond (F7).
        queue_until: when waiting for a worker becomes a failure; counts while no lease is held.
        held: the run is paused, so no lease may be granted (C6).
        ended_lease: the lease whose report ended the last attempt; the same report again is answered `ok`.
        child: the open child run that does the work instead of a worker, or None. A task that a child does is never
            dispatched: `pending` means that the child is under way.
        spent: attempts before the last retry (R1): the allowance counts from there.
        rules: failures so far by retry rule, by its number.
        late: it is cancelled, and a success came after that (F8).
        ending: why a child was cancelled that is waited for still (F6): `timeout` or `total_timeout`, else empty.
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
    child: RunId | None = None
    spent: int = 0
    rules: tuple[int, ...] = ()
    late: bool = False
    ending: str = ""


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
    """The decided rows that an event names, as they stand. A row that does not exist is absent.

    `known` False: a task row that is absent from `tasks` may exist all the same, and has to be asked for (`Needs`).
    `absent`: places asked for that have no task row.
    """

    tasks: Mapping[Place, Task] = field(default_factory=dict)
    timers: Mapping[tuple[Place, TimerKind], Timer] = field(default_factory=dict)
    waits: Mapping[Place, OpenedWait] = field(default_factory=dict)
    known: bool = True
    absent: AbstractSet[Place] = frozenset()
