"""The store, as verbs. All writes of the engine go through here; each verb is one guarded transaction.

`commit` is the only write of decided columns. Every verb re-checks in its own statements whatever it was told, so a
caller may be late, repeated, or wrong. The time that decides rights is taken inside the statement, never passed in.

Raises, every verb: Unavailable (locked, full, read-only, broken: nothing was written), InvariantViolated (a bug).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tenuto.machine.actions import SettleRun
from tenuto.machine.events import Deadline, TimerKind
from tenuto.machine.snapshot import OpenedWait, Snapshot, Task, Timer
from tenuto.model.expressions import Message
from tenuto.model.ids import LeaseId, MessageId, Place, RunId, WorkerId
from tenuto.model.payload import PayloadKey
from tenuto.ports.gateway import Beat, Load, Note, NoteKind, Verdict, WorkerInfo

DEFAULT_NAMESPACE = "default"


# -- what load brings ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """Lease columns of a task row, all set or the row is not leased."""

    lease_id: LeaseId
    worker: WorkerId
    leased_at: int
    lease_until: int
    attempt_until: int | None
    heartbeat_until: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run as its user sees it. `definition` is the content hash of the pinned version.

    `output` and `error` are where the result is found once final (`machine.codec.decode_output`); texts as stored.
    """

    run_id: RunId
    namespace: str
    workflow: str
    version: int
    definition: str
    key: str | None
    state: str
    paused: bool
    created_at: int
    ended_at: int | None
    output: str | None = None
    error: str | None = None
    quarantine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """What to read, all optional, each by key. Unknown keys are simply absent from the answer."""

    runs: tuple[RunId, ...] = ()
    tasks: tuple[tuple[RunId, Place], ...] = ()
    timers: tuple[tuple[RunId, Place, TimerKind], ...] = ()
    waits: tuple[tuple[RunId, Place], ...] = ()
    payloads: tuple[tuple[RunId, PayloadKey], ...] = ()
    mailbox: tuple[tuple[str, str, str], ...] = ()
    """(namespace, event, key)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One consistent reading, without locks. `now` is the database's time. `payloads`: newest seq of each key."""

    now: int
    runs: Mapping[RunId, tuple[RunRow, Snapshot]] = field(default_factory=dict)
    tasks: Mapping[tuple[RunId, Place], tuple[Task, LeaseRow | None]] = field(default_factory=dict)
    timers: Mapping[tuple[RunId, Place, TimerKind], Timer] = field(default_factory=dict)
    waits: Mapping[tuple[RunId, Place], OpenedWait] = field(default_factory=dict)
    payloads: Mapping[tuple[RunId, PayloadKey], str] = field(default_factory=dict)
    mailbox: Mapping[tuple[str, str, str], Message] = field(default_factory=dict)
    """The oldest unused message of each address that has one."""


# -- what commit takes --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to insert. `key`: idempotency key, unique per (namespace, workflow)."""

    namespace: str
    workflow: str
    version: int
    definition: str
    key: str | None
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Rows that the events used up and that must still be there as read, or the change's run is a loser."""

    leases: tuple[tuple[Place, int, LeaseId], ...] = ()
    """(place, attempt, lease_id)"""
    unleased: tuple[tuple[Place, int], ...] = ()
    """(place, attempt): pending and without a lease (a queue_timeout)."""
    timers: tuple[tuple[Place, TimerKind, int], ...] = ()
    """(place, kind, version); the rows are removed by the change unless it sets them anew."""
    waits: tuple[tuple[Place, int], ...] = ()
    """(place, version)"""
    messages: tuple[MessageId, ...] = ()
    """Removed by the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One numbered row of the history: `kind` is the event's class name, `data` its JSON with the outcomes."""

    seq: int
    at: int
    kind: str
    place: Place
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadRow:
    """One JSON value, stored once."""

    key: PayloadKey
    seq: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerGrant:
    """A task that this change made ready, to be leased to `worker` in the same commit instead of a ready row.

    Refused by the store (then it gets its ready row) while an entry of the same queue with equal or higher priority
    has waited more than a second.
    """

    place: Place
    worker: WorkerId
    lease_id: LeaseId


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """All that a batch of decided events of one run writes: netted, each row at most once.

    Written in this order: claims and the guard `seq = expected_seq`; the run (if new), events, payloads; tasks created,
    updated, cancelled; timers and waits cleared, then set; `hold` / `release_at` / `close`; ready rows and eager
    grants; `settle`. `expected_seq` 0 with `new_run` inserts the run.

    Attributes:
        updated: (task, ends_lease): all decided columns; with ends_lease the lease columns are cleared.
        ready: tasks to offer; `EagerGrant`s name some of them.
        cleared: (place, kind or None for all).
    """

    run_id: RunId
    expected_seq: int
    snapshot: Snapshot
    new_run: NewRun | None = None
    claims: Claims = Claims()
    events: tuple[EventRow, ...] = ()
    payloads: tuple[PayloadRow, ...] = ()
    created: tuple[Task, ...] = ()
    updated: tuple[tuple[Task, bool], ...] = ()
    cancelled: tuple[Place, ...] = ()
    cleared: tuple[tuple[Place, TimerKind | None], ...] = ()
    timers: tuple[Timer, ...] = ()
    closed_waits: tuple[Place, ...] = ()
    waits: tuple[OpenedWait, ...] = ()
    hold: bool = False
    release_at: int | None = None
    close: bool = False
    ready: tuple[Task, ...] = ()
    eager: tuple[EagerGrant, ...] = ()
    settle: SettleRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What came of a commit.

    Attributes:
        now: the database's time in the transaction.
        losers: runs of which nothing was written: their seq or a claim had moved on. Load and decide them again.
        taken: new runs whose key exists already -> the run that has it; losers too.
        granted: eager grants that stand.
    """

    now: int
    losers: frozenset[RunId] = frozenset()
    taken: Mapping[RunId, RunId] = field(default_factory=dict)
    granted: frozenset[tuple[RunId, Place]] = frozenset()


# -- the other verbs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRequest:
    """Lease up to len(lease_ids) ready tasks of these queues and names, highest priority then longest waiting first.

    `runs`: only of these runs (None = any).
    """

    worker: WorkerId
    queues: tuple[str, ...]
    names: tuple[str, ...]
    lease_ids: tuple[LeaseId, ...]
    lease_us: int
    runs: tuple[RunId, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """One task leased: decided columns, lease columns, and its input text."""

    run_id: RunId
    task: Task
    lease: LeaseRow
    input: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """An external event to store. `event_id`: duplicates of it are dropped; `keep_us`: how long it waits unused."""

    id: MessageId
    namespace: str
    event: str
    key: str
    payload: str
    event_id: str | None
    keep_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """An unused message and the oldest open wait for its address (then run id, place)."""

    run_id: RunId
    wait: OpenedWait
    message_id: MessageId
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTask:
    """A task of which a lease or deadline is over. `deadline` None: the lease itself expired."""

    run_id: RunId
    place: Place
    attempt: int
    lease: LeaseRow | None
    deadline: Deadline | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What is due by the database's clock, at most `limit` of each, oldest first."""

    now: int
    tasks: tuple[DueTask, ...] = ()
    timers: tuple[tuple[RunId, Timer], ...] = ()
    matches: tuple[Match, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """When each loop is next due (database microseconds, None for never): one statement of index tops."""

    now: int
    tasks_at: int | None
    timers_at: int | None
    ready: int
    """How many ready rows wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionRow:
    """One immutable version. `graph`: `model.stored.encode_graph`'s text; `hash` covers the meaning, not the layout."""

    namespace: str
    name: str
    version: int
    hash: str
    source: str
    graph: str
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRow:
    """A note as kept (`ports.gateway.Note`). `at`: when it was said, by the store's clock."""

    run_id: RunId
    place: Place
    attempt: int
    number: int
    at: int
    kind: NoteKind
    text: str


class Store(Protocol):
    """The writes, and the readings that writes depend on."""

    async def load(self, request: LoadRequest) -> Loaded: ...

    async def commit(self, changes: Sequence[Change], *, lease_us: int) -> Committed:
        """Write every change whole or not at all; `lease_us` is for the eager grants."""
        ...

    async def grant(self, request: GrantRequest) -> Sequence[Granted]: ...

    async def heartbeat(
        self,
        worker: WorkerId,
        beats: Sequence[Beat],
        load: Load,
        *,
        lease_us: int,
        lapsed: bool = False,
    ) -> Sequence[Verdict]:
        """Extend live leases (never past attempt_until, not those of cancelled tasks) and note the worker's load.

        `lapsed`: those past lease_until too. Only for who knows that nobody else ends leases of this worker (ADR 0007).
        """
        ...

    async def note(self, notes: Sequence[Note]) -> Sequence[NoteRow]:
        """Keep what attempts said, as far as their tasks exist. Returns what was new, with the store's time."""
        ...

    async def release(self, worker: WorkerId, leases: Sequence[Beat]) -> int:
        """Clear leases that still stand and offer their tasks again. Returns how many."""
        ...

    async def post(self, message: NewMessage) -> bool:
        """Put a message into the mailbox. False: its event_id was there already, nothing stored."""
        ...

    async def put_definition(self, row: DefinitionRow) -> DefinitionRow:
        """Store a version unless the name's newest has the same hash. `version` given is ignored: the answer has it."""
        ...

    async def put_worker(self, worker: WorkerInfo, incarnation: str) -> None:
        """`incarnation` names the engine process that speaks for it."""
        ...

    async def drop_worker(self, worker: WorkerId) -> None: ...

    async def quarantine(self, run_id: RunId, reason: str | None) -> None:
        """Note that an event of this run cannot be decided (None lifts it). Nothing of it is granted meanwhile."""
        ...

    async def due(self, *, limit: int, runs: tuple[RunId, ...] | None) -> Due: ...

    async def abandoned(
        self, *, limit: int, alive: Sequence[WorkerId], runs: tuple[RunId, ...] | None
    ) -> Sequence[DueTask]:
        """Live leases of workers that are not among `alive`: after a restart all others are known dead."""
        ...

    async def pulse(self, runs: tuple[RunId, ...] | None) -> Pulse: ...

    async def close(self) -> None: ...
