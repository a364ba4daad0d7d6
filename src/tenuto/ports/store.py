"""The store, as verbs. All writes of the engine go through here; each verb is one guarded transaction.

`commit` is the only write of decided columns. Every verb re-checks in its own statements whatever it was told, so a
caller may be late, repeated, or wrong. The time that decides rights is taken inside the statement, never passed in.

Raises, every verb: Unavailable (locked, full, read-only, broken: nothing was written), InvariantViolated (a bug).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from tenuto.machine.actions import SettleRun, ShiftTimers
from tenuto.machine.events import Deadline, TimerKind
from tenuto.machine.snapshot import OpenedWait, Snapshot, Task, Timer
from tenuto.model.expressions import Message
from tenuto.model.ids import LeaseId, MessageId, Place, RunId, WorkerId
from tenuto.model.payload import PayloadKey
from tenuto.ports.gateway import Beat, Load, Note, NoteKind, Verdict, WorkerInfo

DEFAULT_NAMESPACE = "default"
QUEUES_SHOWN = 1_000
"""Of a `Pulse`."""


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


def new_lease(
    task: Task, lease_id: LeaseId, worker: WorkerId, *, now: int, lease_us: int
) -> LeaseRow:
    """Lease a task from `now`: no lease reaches beyond its attempt's end (F7)."""
    ends = [until for until in (task.total_until,) if until is not None]
    if task.timeout_us is not None:
        ends.append(now + task.timeout_us)
    attempt_until = min(ends, default=None)
    return LeaseRow(
        lease_id=lease_id,
        worker=worker,
        leased_at=now,
        lease_until=min([now + lease_us, *ends]),
        attempt_until=attempt_until,
        heartbeat_until=None if task.heartbeat_us is None else now + task.heartbeat_us,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run as its user sees it. `definition` is the content hash of the pinned version.

    `output` and `error` are where the result is found once final (`machine.codec.decode_output`); texts as stored.
    `definition` of an inline graph's run: the hash, `#`, and the path of inline numbers (`graph.inline_of`).
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
    parent: tuple[RunId, Place] | None = None
    """The run and place that called it, also where it is not waited for."""
    source: RunId | None = None
    """The run that it replays."""
    compensation: str = "none"


class NoticeKind(StrEnum):
    """What a notice says to its run."""

    START = "start"
    """To a child that does not exist yet: begin."""
    SETTLED = "settled"
    """To a parent: the child of this place is final."""
    CANCEL = "cancel"
    TERMINATE = "terminate"
    PAUSE = "pause"
    """The parent's flag may have changed."""
    RETRY = "retry"
    """To a final child: go on (R1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRow:
    """A stored fact from one run to another: written by the commit that makes it true, removed by the one that decides
    it. One of a kind, target and place; a newer one takes its place.

    Attributes:
        run_id: whom it is for. `sender`: the other run.
        place: in the parent: of the call or item.
        data: JSON; of START what `Start` holds, else `{}` or `{"freeze": true}`.
        sent_at: when it was written, as read; another one of the same kind, target and place has another moment.
    """

    run_id: RunId
    kind: NoticeKind
    place: Place
    sender: RunId
    data: str = "{}"
    sent_at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRow:
    """One item of a foreach as stored. Texts are canonical JSON, None where there is none."""

    index: int
    state: str
    output: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """What to read, all optional, each by key. Unknown keys are simply absent from the answer."""

    runs: tuple[RunId, ...] = ()
    tasks: tuple[tuple[RunId, Place], ...] = ()
    timers: tuple[tuple[RunId, Place, TimerKind], ...] = ()
    waits: tuple[tuple[RunId, Place], ...] = ()
    payloads: tuple[tuple[RunId, PayloadKey], ...] = ()
    mailbox: tuple[tuple[str, str, str, MessageId | None], ...] = ()
    """(namespace, event, key, after this message): the oldest unused, or the next one (`Evaluator.mailbox`)"""
    notices: tuple[tuple[RunId, str, Place], ...] = ()
    """(target run, kind, place)"""
    items: tuple[tuple[RunId, Place], ...] = ()
    """Places of foreach nodes: states of their items' tasks, and the items' outputs and errors."""
    passes: tuple[tuple[RunId, str, int], ...] = ()
    """(run, prefix of the places `node.`, epoch): outputs and errors of a node's passes, whatever epoch is in their
    names (R3)."""
    children: tuple[tuple[RunId, Place], ...] = ()
    """(parent, place): which child run was started there last."""
    addresses: tuple[tuple[str, str, str], ...] = ()
    """(namespace, event, key): the open waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One consistent reading, without locks. `now` is the database's time. `payloads`: newest seq of each key."""

    now: int
    runs: Mapping[RunId, tuple[RunRow, Snapshot]] = field(default_factory=dict)
    tasks: Mapping[tuple[RunId, Place], tuple[Task, LeaseRow | None]] = field(default_factory=dict)
    timers: Mapping[tuple[RunId, Place, TimerKind], Timer] = field(default_factory=dict)
    waits: Mapping[tuple[RunId, Place], OpenedWait] = field(default_factory=dict)
    payloads: Mapping[tuple[RunId, PayloadKey], str] = field(default_factory=dict)
    mailbox: Mapping[tuple[str, str, str, MessageId | None], Message] = field(default_factory=dict)
    """By the request's key, where there is such a message."""
    notices: Mapping[tuple[RunId, str, Place], NoticeRow] = field(default_factory=dict)
    items: Mapping[tuple[RunId, Place], tuple[ItemRow, ...]] = field(default_factory=dict)
    """In no order; items that were never begun are absent."""
    passes: Mapping[tuple[RunId, str, int], tuple[PayloadRow, ...]] = field(default_factory=dict)
    children: Mapping[tuple[RunId, Place], RunId] = field(default_factory=dict)
    """Where there is one."""
    addresses: Mapping[tuple[str, str, str], tuple[tuple[RunId, OpenedWait], ...]] = field(
        default_factory=dict
    )
    """Oldest first; addresses that nobody waits for are absent."""


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
    parent: tuple[RunId, Place] | None = None
    source: RunId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Rows that the events used up and that must still be there as read, or the change's run is a loser."""

    leases: tuple[tuple[Place, int, LeaseId], ...] = ()
    """(place, attempt, lease_id)"""
    unleased: tuple[tuple[Place, int], ...] = ()
    """(place, attempt): pending, without a lease, and still waiting too long (a queue_timeout)."""
    timers: tuple[tuple[Place, TimerKind, int], ...] = ()
    """(place, kind, version); the rows are removed by the change unless it sets them anew."""
    waits: tuple[tuple[Place, int], ...] = ()
    """(place, version)"""
    messages: tuple[MessageId, ...] = ()
    """Removed by the change."""
    notices: tuple[tuple[NoticeKind, Place, RunId, int], ...] = ()
    """(kind, place, sender, sent_at) of notices to this run, as read; removed by the change."""


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
    has waited more than a second, or an old lease of the task lives.
    """

    place: Place
    worker: WorkerId
    lease_id: LeaseId


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """All that a batch of decided events of one run writes: netted, each row at most once.

    Written in this order: claims and the guard `seq = expected_seq`; the run (if new), events; payloads dropped, what a
    replay copies, payloads; tasks shifted, created, updated, cancelled, items cancelled; timers and waits cleared
    (all, if the run closes), timers shifted, then set; messages and notices; `hold` / `release_at` / `close` on the
    tasks; ready rows and eager grants; `settle`. `expected_seq` 0 with `new_run` inserts the run. Without events it
    only uses up its claims.

    Attributes:
        updated: (task, ends_lease): all decided columns; with ends_lease the lease columns are cleared.
        ready: tasks to offer; `EagerGrant`s name some of them. One that is still leased is not offered and not granted:
            whatever ends that lease offers it.
        cleared: (place, kind or None for all).
        cancelled_items: places of foreach nodes of which every open task is cancelled (`CancelItems`).
        close: `CloseRun`; sends the open children of open tasks a cancel.
        terminate_children, tell_children: notices to every open child of the run; the second with its data.
        notices: to insert as they are.
        posts: messages to put into the mailbox; one whose event_id is known is dropped.
        dropped: places whose payloads go, with those of the items and of the inner loops' passes there (L5).
        reopen: `ReopenRun`; the row's state is the snapshot's.
        copy: (source run, node ids that are not copied): `CopyKept`. Copies have number 0: what the run puts is newer.
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
    cancelled_items: tuple[Place, ...] = ()
    terminate_children: bool = False
    tell_children: str | None = None
    notices: tuple[NoticeRow, ...] = ()
    posts: tuple[NewMessage, ...] = ()
    dropped: tuple[Place, ...] = ()
    shift: ShiftTimers | None = None
    reopen: bool = False
    copy: tuple[RunId, tuple[str, ...]] | None = None


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
    told: tuple[RunId, ...] = ()
    """Runs to which the winners wrote notices: they are to be looked at."""


# -- the other verbs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A task that may be ready: ids and what routes it, no more."""

    run_id: RunId
    place: Place
    queue: str
    name: str
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRequest:
    """Lease up to len(lease_ids) ready tasks of these queues and names, highest priority first.

    Within one priority the queues take turns, from one request to the next too, so that a busy one starves no other;
    within a queue the longest waiting goes first. `runs`: only of these runs (None = any).
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
    """An unused message and an open wait for its address."""

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
    """Those of kind DRAIN are due when no task of their run has a live lease, whatever their moment."""
    matches: tuple[Match, ...] = ()
    """Each hinted message, oldest first, with every open wait for its address, oldest first (then run id, place)."""
    notices: tuple[NoticeRow, ...] = ()
    """A START belongs to its sender's run: the child does not exist yet."""
    unmatched: tuple[MessageId, ...] = ()
    """Hinted messages without an open wait: `unhint` them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """When each loop is next due (database microseconds, None for never): one statement of index tops."""

    now: int
    tasks_at: int | None
    timers_at: int | None
    ready: int
    """How many ready rows wait."""
    told_at: int | None = None
    """Since when the oldest notice waits, or the oldest message that a wait is open for."""
    queues: tuple[str, ...] = ()
    """On which ready rows wait, at most `QUEUES_SHOWN` of them, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionRow:
    """One immutable version. `graph`: `model.stored.encode_graph`'s text; `hash` covers the meaning, not the layout.

    `created`: of an answer of `put_definition`: it is new; else it was there.
    """

    namespace: str
    name: str
    version: int
    hash: str
    source: str
    graph: str
    created_at: int
    created: bool = field(default=False, compare=False)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is: the number of its last event, and the run itself once it is final."""

    run_id: RunId
    seq: int
    final: RunRow | None


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

    async def leases_of(self, worker: WorkerId) -> Sequence[Beat]:
        """All live leases of a worker; those of cancelled tasks among them."""
        ...

    async def release(self, worker: WorkerId, leases: Sequence[Beat], *, begun: bool = True) -> int:
        """Clear leases that still stand and offer their tasks again. Returns how many.

        `begun` False: nobody has worked under them, so for `started` they were not handed out.
        """
        ...

    async def ready_of(self, beats: Sequence[Beat]) -> Sequence[Hint]:
        """The ready rows of these tasks, whatever leases they name: what a release has offered again."""
        ...

    async def post(self, messages: Sequence[NewMessage]) -> Sequence[bool]:
        """Put messages into the mailbox, all or none; which were new, in order: of one event_id the first is kept.

        Of messages posted together the one with the smaller id is the older. Raises InvalidInput (an address).
        """
        ...

    async def unhint(
        self, messages: Sequence[MessageId], refused: Sequence[tuple[MessageId, RunId, Place, int]]
    ) -> None:
        """Leave these messages out of `due` until a wait for their address opens again.

        Not those for which another wait is open than the ones that refused them: (message, run, place, version).
        """
        ...

    async def started(self, run_id: RunId) -> Sequence[Place]:
        """Places of all tasks of a run of which an attempt was ever handed out, to a worker or a child."""
        ...

    async def put_definition(self, row: DefinitionRow) -> DefinitionRow:
        """Store a version unless the name's newest has the same hash. `version` given is ignored: the answer has it.

        The text of an older version is a new version. A deleted version's number is not given again.
        """
        ...

    async def drop_version(self, namespace: str, name: str, version: int) -> None:
        """Delete a version: nothing can be started by it any more. Runs that have ended are still found by its hash.

        Raises NotFound; Conflict while a run of it is not final, a child of it is about to start or an alias means it.
        """
        ...

    async def put_alias(self, namespace: str, name: str, alias: str, version: int) -> int | None:
        """Let `alias` mean this version from now on; what it meant before, None for nothing. Raises NotFound."""
        ...

    async def drop_alias(self, namespace: str, name: str, alias: str) -> bool:
        """Forget an alias. False: there was none."""
        ...

    async def put_worker(self, worker: WorkerInfo, incarnation: str, *, lease_us: int) -> None:
        """`incarnation` names the engine process that speaks for it; silent for longer than `lease_us`, it is lost.

        Forgets those that were lost long ago.
        """
        ...

    async def drop_worker(self, worker: WorkerId, incarnation: str) -> None:
        """Forget a worker that this engine process speaks for; not one that another has taken in since."""
        ...

    async def quarantine(self, run_id: RunId, reason: str | None) -> None:
        """Note that an event of this run cannot be decided (None lifts it). Nothing of it is granted meanwhile."""
        ...

    async def due(self, *, limit: int, runs: tuple[RunId, ...] | None) -> Due: ...

    async def abandoned(
        self, *, limit: int, alive: Sequence[WorkerId], runs: tuple[RunId, ...] | None
    ) -> Sequence[DueTask]:
        """Live leases of workers that are not among `alive`: after a restart all others are known dead."""
        ...

    async def pulse(self, runs: tuple[RunId, ...] | None, *, after: int = 0) -> Pulse:
        """When something becomes due. `after`: only moments of tasks and timers later than this one are told."""
        ...

    async def progress(self, runs: Sequence[RunId]) -> Sequence[Progress]:
        """How far those of these runs are that there are, in any order."""
        ...

    async def close(self) -> None: ...
