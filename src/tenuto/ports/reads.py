"""What people and clients read: runs, histories, results, workers. Never a base for a decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tenuto.machine.snapshot import OpenedWait, Snapshot, Task, Timer
from tenuto.model.ids import Place, RunId, WorkerId
from tenuto.model.payload import PayloadKey
from tenuto.ports.store import DefinitionRow, EventRow, LeaseRow, NoteRow, PayloadRow, RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """All given conditions hold.

    Attributes:
        key: the idempotency key of the start.
        since, until: created at or after, created before.
        before: only runs older than this id (the page's cursor).
        parent: only runs that this one called; `source`: only replays of this one. At most one of the two.
        top: without runs that another one called, as people's lists are; says nothing beside `parent` and `source`.
    """

    namespace: str = "default"
    workflow: str | None = None
    states: tuple[str, ...] = ()
    key: str | None = None
    since: int | None = None
    until: int | None = None
    before: RunId | None = None
    parent: RunId | None = None
    source: RunId | None = None
    top: bool = False
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """All given conditions hold. `states`: of `TASK_STATES`; empty for all.

    `before`: only tasks that come after this (run id, place) in the page's order: newest run first, then by place.
    """

    namespace: str = "default"
    states: tuple[str, ...] = ()
    queue: str | None = None
    before: tuple[RunId, Place] | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A task with its run's workflow, its lease if it has one, and the failure of a dead one as JSON text."""

    run_id: RunId
    workflow: str
    task: Task
    lease: LeaseRow | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRow:
    """The newest version of a name, and how many versions there are."""

    name: str
    version: int
    hash: str
    created_at: int
    versions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """One version without its text, and the aliases that mean it now."""

    name: str
    version: int
    hash: str
    created_at: int
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedQueues:
    """The queues that definitions name; `computed`: one of them names a queue by an expression, so it may be any."""

    queues: frozenset[str]
    computed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """An address that open waits wait for, and how many of them there are."""

    event: str
    key: str
    waits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker as last heard of. `lost`: it has been silent for as long as a lease lasts, three beats."""

    id: str
    queues: tuple[str, ...]
    names: tuple[str, ...]
    capacity: int
    busy: int
    lag_us: int
    seen_at: int
    version: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasRow:
    """A name for a version, which may be given to another one."""

    alias: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemView:
    """One item of a foreach as people see it.

    Attributes:
        state: of `TASK_STATES`: `running` under a lease, or while its child does.
        error: of a dead one, as JSON text; `output`: whether there is one.
        child: the run that does it, while that is open.
    """

    index: int
    place: Place
    state: str
    attempt: int
    error: str | None
    output: bool
    child: RunId | None = None
    worker: WorkerId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassView:
    """One pass of a node in a loop, as far as it was kept.

    Attributes:
        passes: the iteration of each loop around it, outermost first.
        state, attempt: of its task, None if the node has none.
        error: the last one, as JSON text; `output`: whether there is one.
    """

    place: Place
    passes: tuple[int, ...]
    state: str | None
    attempt: int | None
    error: str | None
    output: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """Everything about one run but payloads and history."""

    run: RunRow
    snapshot: Snapshot
    tasks: tuple[tuple[Task, LeaseRow | None], ...]
    timers: tuple[Timer, ...]
    waits: tuple[OpenedWait, ...]
    ready: tuple[str, ...]
    """Places with a ready row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWhole:
    """A run with what a report of it needs beside.

    Attributes:
        detail: as `get_run` reads it, without the rows of items.
        events: a page of its history.
        texts: the newest text of each key that was asked for; None where there is none.
    """

    detail: RunDetail
    events: Sequence[EventRow]
    texts: Mapping[PayloadKey, str | None]


class Reads(Protocol):
    """`get` raises NotFound, `find` may answer None, `list` is a page, newest first."""

    async def get_run(self, run_id: RunId, *, items: bool = True) -> RunDetail:
        """`items` False: without the rows of items and pages, of which there may be a hundred thousand."""
        ...

    async def get_whole(
        self, run_id: RunId, keys: Sequence[PayloadKey], *, after: int = 0, limit: int = 10_000
    ) -> RunWhole:
        """In one reading: the run, its events with seq > after, in order, and the texts of these keys."""
        ...

    async def get_runs(self, run_ids: Sequence[RunId]) -> Sequence[RunRow]:
        """Those of these runs that there are, in order."""
        ...

    async def list_runs(self, wanted: RunFilter) -> Sequence[RunRow]: ...

    async def list_run_ids(self, prefix: str) -> Sequence[RunId]:
        """Runs whose id starts or ends with this text; at most 10. People copy eight characters of it."""
        ...

    async def find_run_by_key(self, namespace: str, workflow: str, key: str) -> RunId | None: ...

    async def history(
        self, run_id: RunId, after: int = 0, limit: int = 10_000
    ) -> Sequence[EventRow]:
        """Events with seq > after, in order."""
        ...

    async def payloads(self, run_id: RunId, keys: Sequence[PayloadKey]) -> Mapping[PayloadKey, str]:
        """Newest text of each key that has one."""
        ...

    async def payloads_of_runs(
        self, wanted: Sequence[tuple[RunId, PayloadKey]]
    ) -> Mapping[tuple[RunId, PayloadKey], str]:
        """The same for keys of many runs."""
        ...

    async def all_payloads(self, run_id: RunId) -> Sequence[PayloadRow]: ...

    async def payload_rows(self, run_id: RunId, keys: Sequence[PayloadKey]) -> Sequence[PayloadRow]:
        """All that was ever stored under these keys, whatever its number."""
        ...

    async def find_children(self, run_id: RunId, places: Sequence[Place]) -> Mapping[Place, RunId]:
        """The run that was called last at each of these places that has called one."""
        ...

    async def get_definition(self, content_hash: str) -> DefinitionRow: ...

    async def find_definition(self, namespace: str, name: str) -> DefinitionRow | None:
        """The newest version."""
        ...

    async def get_version(self, namespace: str, name: str, version: int) -> DefinitionRow: ...

    async def find_version(
        self, namespace: str, name: str, reference: str | None = None
    ) -> DefinitionRow | None:
        """What `name@reference` means: a number is a version, other text an alias, None the newest version."""
        ...

    async def find_version_row(
        self, namespace: str, name: str, reference: str | None = None
    ) -> VersionRow | None:
        """As `find_version`, without text and graph, which may be large and never change; nor its aliases."""
        ...

    async def list_aliases(self, namespace: str, name: str) -> Sequence[AliasRow]:
        """By alias."""
        ...

    async def list_workflows(
        self, namespace: str, *, after: str = "", limit: int = 50
    ) -> Sequence[WorkflowRow]:
        """By name, those after `after`."""
        ...

    async def list_versions(
        self, namespace: str, name: str, *, before: int | None = None, limit: int = 50
    ) -> Sequence[VersionRow]: ...

    async def list_queues(self) -> NamedQueues:
        """What all versions of all namespaces name, without deleted ones. Reads every graph: not to be asked often."""
        ...

    async def list_items(
        self,
        run_id: RunId,
        place: Place,
        *,
        after: int = -1,
        limit: int = 100,
        states: Sequence[str] = (),
    ) -> Sequence[ItemView]:
        """Items of the foreach at `place` after this index, in order; those not begun are left out.

        `states`: only those, of `TASK_STATES`.
        """
        ...

    async def list_passes(
        self, run_id: RunId, node: str, *, after: tuple[int, ...] = (), limit: int = 100
    ) -> Sequence[PassView]:
        """Passes of a node in loops after this one, oldest first; of one that was done again the last time."""
        ...

    async def list_tasks(self, wanted: TaskFilter) -> Sequence[TaskRow]: ...

    async def notes(
        self, run_id: RunId, *, place: Place | None = None, limit: int = 10_000
    ) -> Sequence[NoteRow]:
        """What attempts said, by time, then attempt and number; the newest `limit` of them."""
        ...

    async def list_workers(self) -> Sequence[WorkerRow]: ...

    async def list_awaited(self, namespace: str, event: str | None = None) -> Sequence[Awaited]:
        """What open waits wait for, of one event or of all; at most 1,000 addresses."""
        ...

    async def count_runs(self, namespace: str, *, top: bool = False) -> Mapping[str, int]:
        """State as people see it (`paused` is one) -> how many; without those of which there are none.

        `top`: of those only that no run called.
        """
        ...
