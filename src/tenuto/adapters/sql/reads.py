"""The reads port over SQL. No writes, no SQL text; works on an engine that is open for reading only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from tenuto.adapters.sql import statements as s
from tenuto.adapters.sql.engine import Param, Row, SqlEngine, Steps
from tenuto.adapters.sql.rows import (
    epoch_suffix,
    items_range,
    pack,
    passes_range,
    read_definition,
    read_event,
    read_note,
    read_payload,
    read_run,
    read_run_with_snapshot,
    read_task_with_lease,
    read_timer,
    read_wait,
    unpack,
)
from tenuto.model.errors import NotFound
from tenuto.model.ids import (
    Place,
    RunId,
    first_run_id,
    item_place,
    parts_of,
    place_of,
)
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import TaskState
from tenuto.ports.reads import (
    AliasRow,
    Awaited,
    ItemView,
    NamedQueues,
    PassView,
    RunDetail,
    RunFilter,
    RunWhole,
    TaskFilter,
    TaskRow,
    VersionRow,
    WorkerRow,
    WorkflowRow,
)
from tenuto.ports.store import DefinitionRow, EventRow, NoteRow, PayloadRow, RunRow

_DRAWN_BEFORE_US = 60_000_000
"""A run's id is never drawn longer than this before the run is made."""
_COMPUTED = "["
"""How QUEUES tells of a queue that is an expression."""
_DIGITS_MAX = 18
"""Of a version's number: more than any database counts to."""


def _as_said(notes: list[NoteRow]) -> tuple[NoteRow, ...]:
    """By time, but those of one attempt by number: their moments come from several readings of the clock."""
    notes.sort(key=lambda note: (note.place, note.attempt, note.number))
    said: list[tuple[int, NoteRow]] = []
    for note in notes:
        before = said[-1] if said else None
        goes_on = (
            before is not None
            and before[1].number > 0
            and (before[1].place, before[1].attempt) == (note.place, note.attempt)
        )
        said.append((max(note.at, before[0]) if goes_on and before else note.at, note))
    return tuple(note for _, note in sorted(said, key=lambda each: each[0]))


def _read_item(row: list[Any]) -> ItemView:
    """A row of ITEMS."""
    task, lease = read_task_with_lease(row[1:])
    working = task.state is TaskState.PENDING and (lease or task.child) is not None
    return ItemView(
        index=row[0],
        place=task.place,
        state="running" if working else task.state,
        attempt=task.attempt,
        error=row[29],
        output=bool(row[30]),
        child=task.child,
        worker=None if lease is None else lease.worker,
    )


def _read_pass(row: list[Any]) -> PassView:
    """A row of PASSES_BY_PLACE."""
    return PassView(
        place=row[0],
        passes=parts_of(row[0]).passes,
        state=row[1],
        attempt=row[2],
        error=row[3],
        output=bool(row[4]),
    )


def _read_detail(run_id: RunId, row: Sequence[Any]) -> RunDetail:
    """A row of RUN. Raises NotFound."""
    runs, tasks, timers, waits, ready = map(unpack, row)
    if not runs:
        raise NotFound("run", run_id)
    run, snapshot = read_run_with_snapshot(runs[0])
    return RunDetail(
        run=run,
        snapshot=snapshot,
        tasks=tuple(read_task_with_lease(r) for r in sorted(tasks, key=lambda r: (r[2], r[1]))),
        timers=tuple(read_timer(r) for r in sorted(timers, key=lambda r: (r[3], r[1], r[2]))),
        waits=tuple(read_wait(r) for r in sorted(waits, key=lambda r: (r[5], r[1]))),
        ready=tuple(sorted(r[0] for r in ready)),
    )


class SqlReads:
    """`ports.reads.Reads` over any SqlEngine."""

    def __init__(self, engine: SqlEngine) -> None:
        self._engine = engine
        fill = engine.dialect.fill
        self._text = {
            name: fill(text)
            for module in (s.reads, s.registry)
            for name, text in vars(module).items()
            if name.isupper()
        }

    async def get_run(self, run_id: RunId, *, items: bool = True) -> RunDetail:
        return _read_detail(run_id, await self._one("RUN", run_id, int(items)))

    async def get_whole(
        self, run_id: RunId, keys: Sequence[PayloadKey], *, after: int = 0, limit: int = 10_000
    ) -> RunWhole:
        wanted = pack([(key.place, key.kind) for key in keys])
        row = await self._one("WHOLE_RUN", run_id, 0, after, limit, wanted)
        *parts, events, texts = row
        return RunWhole(
            detail=_read_detail(run_id, parts),
            events=tuple(read_event(r) for r in sorted(unpack(events))),
            texts={PayloadKey(Place(r[0]), PayloadKind(r[1])): r[2] for r in unpack(texts)},
        )

    async def list_runs(self, wanted: RunFilter) -> Sequence[RunRow]:
        linked = wanted.parent or wanted.source
        if linked is None:
            text = "TOP_RUNS" if wanted.top else "RUNS"
        else:
            text = "CHILD_RUNS" if wanted.parent else "REPLAYS"
        rows = await self._rows(
            text,
            wanted.namespace,
            wanted.workflow,
            pack(wanted.states) if wanted.states else None,
            wanted.before,
            wanted.limit,
            wanted.key,
            wanted.since,
            wanted.until,
            None if wanted.since is None else first_run_id(wanted.since - _DRAWN_BEFORE_US),
            linked,
        )
        return tuple(read_run(r) for r in sorted(rows, key=lambda r: str(r[0]), reverse=True))

    async def get_runs(self, run_ids: Sequence[RunId]) -> Sequence[RunRow]:
        rows = await self._rows("RUNS_BY_ID", pack(sorted((run_id,) for run_id in run_ids)))
        found = {str(r[0]): read_run(r) for r in rows}
        return tuple(found[run_id] for run_id in run_ids if run_id in found)

    async def list_run_ids(self, prefix: str) -> Sequence[RunId]:
        text = prefix.strip().lower()
        if not text or len(text) > 36:
            return ()
        rows = await self._rows("RUN_IDS", text, text + "\U0010ffff", len(text))
        return tuple(RunId(r[0]) for r in sorted(rows, reverse=True))

    async def find_run_by_key(self, namespace: str, workflow: str, key: str) -> RunId | None:
        row = await self._find("RUN_BY_KEY", namespace, workflow, key)
        return None if row is None else RunId(row[0])

    async def history(
        self, run_id: RunId, after: int = 0, limit: int = 10_000
    ) -> Sequence[EventRow]:
        rows = await self._rows("EVENTS", run_id, after, limit)
        return tuple(read_event(r) for r in sorted(rows))

    async def payloads(self, run_id: RunId, keys: Sequence[PayloadKey]) -> Mapping[PayloadKey, str]:
        found = await self.payloads_of_runs([(run_id, key) for key in keys])
        return {key: text for (_, key), text in found.items()}

    async def payloads_of_runs(
        self, wanted: Sequence[tuple[RunId, PayloadKey]]
    ) -> Mapping[tuple[RunId, PayloadKey], str]:
        rows = await self._rows(
            "PAYLOADS", pack(sorted((run, k.place, k.kind) for run, k in wanted))
        )
        return {
            (RunId(r[0]), PayloadKey(Place(r[1]), PayloadKind(r[2]))): r[3]
            for r in rows
            if r[3] is not None
        }

    async def all_payloads(self, run_id: RunId) -> Sequence[PayloadRow]:
        found: list[PayloadRow] = []
        place, kind, seq = "", "", -1
        while rows := sorted(await self._rows("ALL_PAYLOADS", run_id, place, kind, seq)):
            found += map(read_payload, rows)
            place, kind, seq, _ = rows[-1]
        return tuple(found)

    async def payload_rows(self, run_id: RunId, keys: Sequence[PayloadKey]) -> Sequence[PayloadRow]:
        rows = await self._rows("PAYLOAD_ROWS", pack([(run_id, k.place, k.kind) for k in keys]))
        return tuple(read_payload(r) for r in sorted(rows))

    async def find_children(self, run_id: RunId, places: Sequence[Place]) -> Mapping[Place, RunId]:
        rows = await self._rows("LAST_CHILDREN", pack([(run_id, place) for place in places]))
        return {Place(r[0]): RunId(r[1]) for r in rows if r[1] is not None}

    async def get_definition(self, content_hash: str) -> DefinitionRow:
        row = await self._find("DEFINITION_BY_HASH", content_hash)
        if row is None:
            raise NotFound("definition", content_hash)
        return read_definition(row)

    async def find_definition(self, namespace: str, name: str) -> DefinitionRow | None:
        row = await self._find("NEWEST_DEFINITION", namespace, name)
        return None if row is None else read_definition(row)

    async def get_version(self, namespace: str, name: str, version: int) -> DefinitionRow:
        row = await self._find("VERSION", namespace, name, version)
        if row is None:
            raise NotFound("version", f"{name} {version}")
        return read_definition(row)

    async def find_version(
        self, namespace: str, name: str, reference: str | None = None
    ) -> DefinitionRow | None:
        if reference is None:
            return await self.find_definition(namespace, name)
        if reference.isascii() and reference.isdigit():
            if len(reference) > _DIGITS_MAX:
                return None
            row = await self._find("VERSION", namespace, name, int(reference))
        else:
            row = await self._find("ALIASED_VERSION", namespace, name, reference)
        return None if row is None else read_definition(row)

    async def find_version_row(
        self, namespace: str, name: str, reference: str | None = None
    ) -> VersionRow | None:
        if reference is None:
            row = await self._find("NEWEST_ROW", namespace, name)
        elif not (reference.isascii() and reference.isdigit()):
            row = await self._find("ALIASED_ROW", namespace, name, reference)
        elif len(reference) > _DIGITS_MAX:
            return None
        else:
            row = await self._find("VERSION_ROW", namespace, name, int(reference))
        if row is None:
            return None
        return VersionRow(name=name, version=row[0], hash=row[1], created_at=row[2])

    async def list_aliases(self, namespace: str, name: str) -> Sequence[AliasRow]:
        rows = await self._rows("ALIASES", namespace, name)
        return tuple(AliasRow(alias=r[0], version=r[1]) for r in sorted(rows))

    async def list_workflows(
        self, namespace: str, *, after: str = "", limit: int = 50
    ) -> Sequence[WorkflowRow]:
        rows = await self._rows("WORKFLOWS", namespace, after, limit)
        return tuple(
            WorkflowRow(name=r[0], version=r[1], hash=r[2], created_at=r[3], versions=r[4])
            for r in sorted(rows)
        )

    async def list_versions(
        self, namespace: str, name: str, *, before: int | None = None, limit: int = 50
    ) -> Sequence[VersionRow]:
        rows = await self._rows("VERSIONS", namespace, name, before, limit)
        aliases: dict[int, list[str]] = {}
        for row in await self.list_aliases(namespace, name) if rows else ():
            aliases.setdefault(row.version, []).append(row.alias)
        return tuple(
            VersionRow(
                name=r[0],
                version=r[1],
                hash=r[2],
                created_at=r[3],
                aliases=tuple(aliases.get(r[1], ())),
            )
            for r in sorted(rows, key=lambda r: int(r[1]), reverse=True)
        )

    async def list_queues(self) -> NamedQueues:
        found = {str(name) for (name,) in await self._rows("QUEUES")}
        names = (orjson.loads(name) for name in found - {_COMPUTED})
        return NamedQueues(queues=frozenset(names), computed=_COMPUTED in found)

    async def list_items(
        self,
        run_id: RunId,
        place: Place,
        *,
        after: int = -1,
        limit: int = 100,
        states: Sequence[str] = (),
    ) -> Sequence[ItemView]:
        if states:
            where = (*items_range(place), epoch_suffix(place))
            rows = await self._rows(
                "ITEMS_IN_STATES", run_id, *where, pack(list(states)), after, limit
            )
        else:
            # Items begin in order, so a page is found by its places.
            page = range(after + 1, after + 1 + limit)
            rows = await self._rows(
                "ITEMS", pack([(run_id, item_place(place, index), index) for index in page])
            )
        return tuple(_read_item(r) for r in sorted(rows, key=lambda r: int(r[0])))

    async def list_passes(
        self, run_id: RunId, node: str, *, after: tuple[int, ...] = (), limit: int = 100
    ) -> Sequence[PassView]:
        rows = await self._rows("PASSES", run_id, *passes_range(f"{node}."))
        # The same pass done again in a later epoch (R3) stands for both.
        newest: dict[tuple[int, ...], int] = {}
        for parts in (parts_of(Place(place)) for (place,) in rows):
            newest[parts.passes] = max(parts.epoch, newest.get(parts.passes, 1))
        page = [
            place_of(node, passes, newest[passes]) for passes in sorted(newest) if passes > after
        ][:limit]
        rows = await self._rows("PASSES_BY_PLACE", pack([(run_id, place) for place in page]))
        found = {r[0]: r for r in rows}
        return tuple(_read_pass(found[place]) for place in page)

    async def list_tasks(self, wanted: TaskFilter) -> Sequence[TaskRow]:
        states = {*wanted.states}
        dead, open_ = {"dead"}, {"pending", "running", "retry"}
        text = "TASKS"
        if states and states <= dead:
            text = "DEAD_TASKS"
        elif states and states <= open_:
            text = "OPEN_TASKS"
        run_id, place = wanted.before or (None, None)
        rows = await self._rows(
            text,
            wanted.namespace,
            pack(wanted.states) if states else None,
            wanted.queue,
            run_id,
            place,
            wanted.limit,
        )
        rows.sort(key=lambda r: str(r[1]))
        rows.sort(key=lambda r: str(r[0]), reverse=True)
        found = []
        for r in rows:
            task, lease = read_task_with_lease(r)
            found.append(
                TaskRow(run_id=RunId(r[0]), workflow=r[28], task=task, lease=lease, error=r[29])
            )
        return tuple(found)

    async def notes(
        self, run_id: RunId, *, place: Place | None = None, limit: int = 10_000
    ) -> Sequence[NoteRow]:
        rows = await self._rows("NOTES", run_id, place, limit)
        return _as_said([read_note(r) for r in rows])

    async def list_workers(self) -> Sequence[WorkerRow]:
        return tuple(
            WorkerRow(
                id=r[0],
                queues=tuple(orjson.loads(r[1])),
                names=tuple(orjson.loads(r[2])),
                capacity=r[3],
                busy=r[4],
                lag_us=r[5],
                seen_at=r[6],
                version=r[7],
                labels=tuple((name, value) for name, value in orjson.loads(r[8])),
                lost=bool(r[9]),
            )
            for r in sorted(await self._rows("WORKERS"))
        )

    async def list_awaited(self, namespace: str, event: str | None = None) -> Sequence[Awaited]:
        rows = await self._rows("AWAITED", namespace, event)
        return tuple(Awaited(event=r[0], key=r[1], waits=r[2]) for r in sorted(rows))

    async def count_runs(self, namespace: str, *, top: bool = False) -> Mapping[str, int]:
        return {r[0]: r[1] for r in sorted(await self._rows("COUNTS", namespace, int(top)))}

    async def _find(self, name: str, *params: Param) -> Row | None:
        def job() -> Steps[Row | None]:
            row = yield ((self._text[name], params),)
            return row

        return await self._engine.read(job)

    async def _one(self, name: str, *params: Param) -> Row:
        row = await self._find(name, *params)
        assert row is not None
        return row

    async def _rows(self, name: str, *params: Param) -> list[list[Any]]:
        return unpack((await self._one(name, *params))[0])
