"""The store port over SQL: each verb is one job. No SQL text here, no driver, no thread.

Theory of operation. A commit is: row locks (where the engine has them), one guard that reads everything that must
still hold, then the writes of the changes that passed, as one group of steps. All changes of a commit share each
statement, so its cost grows with rows, not with changes. The few steps matter: on SQLite each gives up the interpreter
lock and may wait milliseconds to have it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tenuto.adapters.sql import statements as s
from tenuto.adapters.sql.commit import Commit
from tenuto.adapters.sql.engine import SqlEngine, Step, Steps
from tenuto.adapters.sql.loading import load_params, read_loaded
from tenuto.adapters.sql.posting import Posting
from tenuto.adapters.sql.ready import SqlReadyRows
from tenuto.adapters.sql.rows import (
    Values,
    note_row,
    pack,
    pack_granted,
    read_abandoned_task,
    read_definition,
    read_due_task,
    read_notice,
    read_run,
    read_task,
    read_timer,
    read_wait,
    unpack,
)
from tenuto.machine.snapshot import OpenedWait
from tenuto.model.errors import Conflict, NotFound, TenutoError
from tenuto.model.ids import LeaseId, MessageId, Place, RunId, WorkerId
from tenuto.ports.gateway import Beat, Load, Note, Verdict, WorkerInfo
from tenuto.ports.store import (
    Change,
    Committed,
    DefinitionRow,
    Due,
    DueTask,
    Granted,
    GrantRequest,
    Loaded,
    LoadRequest,
    Match,
    NewMessage,
    NoteRow,
    Progress,
    Pulse,
    new_lease,
)

_Dated = TypeVar("_Dated", Loaded, Due, Pulse, Committed)

PAIRS_PER_MESSAGE = 20
"""Of messages and waits that `due` answers at most, for each message that it may."""
_TURNS_MAX = 10_000
"""Queues whose turn is remembered."""
FORGET_WORKER_US = 3_600_000_000
"""How long a worker that never left is listed as lost."""
REFUSING_US = 1_000_000
"""A queue that is behind refuses eager grants for a while: so long a commit that asks for some hopes for nothing."""
QUEUES_MAX = 100
"""Of one grant's statement; a worker that serves more has several. SQLite takes 500 parts in a compound SELECT."""


class Turns:
    """Which queue was served longest ago. A hint of this process, so that a busy queue starves no other of its workers:
    what is forgotten costs a turn.
    """

    def __init__(self) -> None:
        self._served: dict[str, None] = {}

    def order(self, queues: Sequence[str]) -> tuple[str, ...]:
        """These queues, each once: never served, then served longest ago, first."""
        places = {queue: n for n, queue in enumerate(self._served)}
        return tuple(sorted(dict.fromkeys(queues), key=lambda queue: places.get(queue, -1)))

    def served(self, queues: Sequence[str]) -> None:
        """Tasks of these queues were granted, in this order."""
        for queue in queues:
            self._served.pop(queue, None)
            self._served[queue] = None
        while len(self._served) > _TURNS_MAX:
            del self._served[next(iter(self._served))]


class SqlStore(SqlReadyRows):
    """`ports.store.Store` and `ports.ready.ReadyRows` over any SqlEngine."""

    def __init__(self, engine: SqlEngine) -> None:
        self._engine = engine
        self._dialect = engine.dialect
        fill = engine.dialect.fill
        self._text = {
            name: fill(text)
            for module in (
                s.guard,
                s.changes,
                s.leases,
                s.mailbox,
                s.due,
                s.load,
                s.notes,
                s.ready,
                s.registry,
                s.wholes,
            )
            for name, text in vars(module).items()
            if name.isupper() and name not in {"BRANCH", "CANDIDATES"}
        }
        self._candidates: dict[int, str] = {}
        self._turns = Turns()
        self._told_us, self._refused_us = 0, -REFUSING_US
        """When the last commit was, and the last that was refused a grant; by the database's clock."""

    # -- readings that writes depend on

    async def load(self, request: LoadRequest) -> Loaded:
        step: Step = (self._text["LOAD"], load_params(request))

        def job() -> Steps[Loaded]:
            row = yield (step,)
            assert row is not None
            return read_loaded(request, row)

        return self._told(await self._engine.read(job))

    async def due(self, *, limit: int, runs: tuple[RunId, ...] | None) -> Due:
        step: Step = (self._text["DUE"], (_focus(runs), limit, PAIRS_PER_MESSAGE * limit))

        def job() -> Steps[Due]:
            row = yield (step,)
            assert row is not None
            now, tasks, timers, messages, waits, notices, unmatched = row
            return Due(
                now=now,
                tasks=tuple(
                    read_due_task(r) for r in sorted(unpack(tasks), key=lambda r: (r[9], r[0]))
                ),
                timers=tuple(
                    (r[0], read_timer(r))
                    for r in sorted(unpack(timers), key=lambda r: (r[3], r[0]))
                )[:limit],
                matches=_pair(unpack(messages), unpack(waits), PAIRS_PER_MESSAGE * limit),
                # Of one commit a START comes first: the others are for a run that exists.
                notices=tuple(
                    read_notice(r)
                    for r in sorted(unpack(notices), key=lambda r: (r[5], r[1] != "start"))
                ),
                unmatched=tuple(MessageId(r[0]) for r in unpack(unmatched)),
            )

        return self._told(await self._engine.read(job))

    async def started(self, run_id: RunId) -> Sequence[Place]:
        step: Step = (self._text["STARTED"], (run_id,))

        def job() -> Steps[Sequence[Place]]:
            row = yield (step,)
            assert row is not None
            return tuple(sorted(Place(r[0]) for r in unpack(row[0])))

        return await self._engine.read(job)

    async def abandoned(
        self, *, limit: int, alive: Sequence[WorkerId], runs: tuple[RunId, ...] | None
    ) -> Sequence[DueTask]:
        step: Step = (self._text["ABANDONED"], (pack(list(alive)), limit, _focus(runs)))

        def job() -> Steps[Sequence[DueTask]]:
            row = yield (step,)
            assert row is not None
            rows = sorted(unpack(row[0]), key=lambda r: (r[9], r[0]))
            return tuple(read_abandoned_task(r) for r in rows)

        return await self._engine.read(job)

    async def pulse(self, runs: tuple[RunId, ...] | None, *, after: int = 0) -> Pulse:
        step: Step = (self._text["PULSE"], (_focus(runs), after))

        def job() -> Steps[Pulse]:
            row = yield (step,)
            assert row is not None
            now, tasks_at, timers_at, ready, told_at, queues = row
            return Pulse(
                now=now,
                tasks_at=tasks_at,
                timers_at=timers_at,
                ready=ready,
                told_at=told_at,
                queues=tuple(sorted(r[0] for r in unpack(queues))),
            )

        return self._told(await self._engine.read(job))

    async def progress(self, runs: Sequence[RunId]) -> Sequence[Progress]:
        step: Step = (self._text["PROGRESS"], (pack([[run] for run in sorted(runs)]),))

        def job() -> Steps[Sequence[Progress]]:
            row = yield (step,)
            assert row is not None
            finals = {run.run_id: run for run in map(read_run, unpack(row[1]))}
            return tuple(
                Progress(run_id=RunId(r[0]), seq=r[1], final=finals.get(RunId(r[0])))
                for r in unpack(row[0])
            )

        return await self._engine.read(job) if runs else ()

    # -- writes

    async def commit(self, changes: Sequence[Change], *, lease_us: int) -> Committed:
        commit = Commit(self._text, self._dialect, changes, lease_us=lease_us)
        hopeful = not commit.grants or self._told_us - self._refused_us >= REFUSING_US
        done = await self._engine.write((commit.at_once() if hopeful else None) or commit.job)
        self._told_us = done.now
        if any(run not in done.losers for run, _ in commit.grants.keys() - done.granted):
            self._refused_us = done.now
        return self._told(done)

    async def grant(self, request: GrantRequest) -> Sequence[Granted]:
        limit = len(request.lease_ids)
        if not (limit and request.queues and request.names):
            return ()
        queues = self._turns.order(request.queues)
        common = (pack(request.names), _focus(request.runs), limit)
        finds: list[Step] = [
            (self._grant_text(len(some)), (*common, *some))
            for some in (queues[n : n + QUEUES_MAX] for n in range(0, len(queues), QUEUES_MAX))
        ]

        def job() -> Steps[Sequence[Granted]]:
            found = []
            for find in finds:
                row = yield (find,)
                assert row is not None
                now = row[0]
                found += unpack(row[1])
            if not found:
                return ()
            found = _by_turns(found, queues)
            granted = []
            for r, lease_id in zip(found, request.lease_ids, strict=False):
                task = read_task(r)
                lease = new_lease(
                    task, lease_id, request.worker, now=now, lease_us=request.lease_us
                )
                granted.append(Granted(run_id=r[0], task=task, lease=lease, input=r[22]))
            packed = pack_granted(granted, lease_us=request.lease_us)
            yield (
                (self._text["LEASE_TASKS"], (packed, now)),
                (self._text["DELETE_GRANTED"], (packed,)),
            )
            self._turns.served([each.task.queue for each in granted])
            return tuple(granted)

        return await self._engine.write(job, durable=False)

    async def heartbeat(
        self,
        worker: WorkerId,
        beats: Sequence[Beat],
        load: Load,
        *,
        lease_us: int,
        lapsed: bool = False,
    ) -> Sequence[Verdict]:
        packed = pack(sorted((b.run_id, b.place, b.lease_id, int(b.alive)) for b in beats))
        see: Step = (self._text["SEE_WORKER"], (worker, load.busy, load.capacity, load.lag_us))

        def job() -> Steps[Sequence[Verdict]]:
            if not beats:
                yield (see,)
                return ()
            row = yield (
                *self._locked(packed),
                (self._text["VERDICTS"], (packed, worker, int(lapsed))),
            )
            assert row is not None
            now = row[0]
            verdicts = {(r[0], r[1], r[2]): Verdict(r[3]) for r in unpack(row[1])}
            extend = (self._text["EXTEND_LEASES"], (packed, worker, int(lapsed), lease_us, now))
            yield (extend, see)
            return tuple(verdicts[b.run_id, b.place, b.lease_id] for b in beats)

        return await self._engine.write(job, durable=False)

    async def leases_of(self, worker: WorkerId) -> Sequence[Beat]:
        step: Step = (self._text["LEASES_OF"], (worker,))

        def job() -> Steps[Sequence[Beat]]:
            row = yield (step,)
            assert row is not None
            return tuple(
                Beat(run_id=RunId(r[0]), place=Place(r[1]), lease_id=LeaseId(r[2]))
                for r in sorted(unpack(row[0]))
            )

        return await self._engine.read(job)

    async def release(self, worker: WorkerId, leases: Sequence[Beat], *, begun: bool = True) -> int:
        if not leases:
            return 0
        packed = pack(sorted((b.run_id, b.place, b.lease_id) for b in leases))

        def job() -> Steps[int]:
            row = yield (*self._locked(packed), (self._text["STANDING"], (packed, worker)))
            assert row is not None
            standing = sorted(unpack(row[1]))
            if standing:
                offers = pack([r[:2] for r in standing if r[2]])
                yield (
                    (self._text["CLEAR_LEASES"], (packed, worker, int(begun), row[0])),
                    (self._text["OFFER_TASKS"], (offers,)),
                )
            return len(standing)

        return await self._engine.write(job)

    async def note(self, notes: Sequence[Note]) -> Sequence[NoteRow]:
        def job() -> Steps[Sequence[NoteRow]]:
            row = yield ((self._text["NOW"], ()),)
            assert row is not None
            kept = tuple(
                NoteRow(
                    run_id=note.run_id,
                    place=note.place,
                    attempt=note.attempt,
                    number=note.number,
                    at=row[0] - note.age_us,
                    kind=note.kind,
                    text=note.text,
                )
                for note in notes
            )
            # A statement may write a row once: of one attempt's progress the newest stands.
            rows = {
                (note.run_id, note.place, note.attempt, note.number): note_row(note)
                for note in kept
            }
            yield ((self._text["INSERT_NOTES"], (pack([rows[key] for key in sorted(rows)]),)),)
            return kept

        return await self._engine.write(job, durable=False) if notes else ()

    async def post(self, messages: Sequence[NewMessage]) -> Sequence[bool]:
        if not messages:
            return ()
        posting = Posting(self._text, self._dialect, messages)
        return await self._engine.write(posting.at_once() or posting.job)

    async def unhint(
        self, messages: Sequence[MessageId], refused: Sequence[tuple[MessageId, RunId, Place, int]]
    ) -> None:
        if not messages:
            return
        params = (pack([[message] for message in messages]), pack(refused))
        unhint: Step = (self._text["UNHINT_MESSAGES"], params)
        lock: Step = (self._text["LOCK_MESSAGE_ADDRESSES"], params[:1])
        steps = (lock, unhint) if self._dialect.locks_rows else (unhint,)

        def job() -> Steps[None]:
            yield steps

        # A mark that a power cut brings back is only looked at once more.
        await self._engine.write(job, durable=False)

    async def put_definition(self, row: DefinitionRow) -> DefinitionRow:
        name = (row.namespace, row.name)

        def job() -> Steps[DefinitionRow]:
            newest = yield ((self._text["NEWEST_DEFINITION"], name),)
            if newest is not None and newest[3] == row.hash:
                return read_definition(newest)
            dropped = yield ((self._text["DROPPED_VERSION"], name),)
            assert dropped is not None
            version = 1 + max(newest[2] if newest else 0, dropped[0] or 0)
            stored = (*name, version, row.hash, row.source, row.graph, row.created_at)
            yield ((self._text["INSERT_DEFINITION"], stored),)
            return replace(read_definition(stored), created=True)

        return await self._engine.write(job)

    async def drop_version(self, namespace: str, name: str, version: int) -> None:
        key = (namespace, name, version)
        lock = self._lock_versions(namespace, name)

        def job() -> Steps[TenutoError | None]:
            row = yield (*lock, (self._text["VERSION"], key))
            if row is None:
                return NotFound("version", f"{name} {version}")
            users = yield ((self._text["VERSION_USERS"], (*key, row[3])),)
            assert users is not None
            user = _user_of_version(users, name)
            if user:
                return Conflict(f"version {version} of {name!r} cannot be deleted: {user}")
            yield ((self._text["KEEP_DROPPED"], key), (self._text["DROP_VERSION"], key))
            return None

        refusal = await self._engine.write(job)
        if refusal is not None:
            raise refusal

    async def put_alias(self, namespace: str, name: str, alias: str, version: int) -> int | None:
        key = (namespace, name, alias)
        lock = self._lock_versions(namespace, name)

        def job() -> Steps[tuple[bool, int | None]]:
            row = yield (*lock, (self._text["VERSION"], (namespace, name, version)))
            if row is None:
                return False, None
            before = yield ((self._text["ALIAS"], key),)
            yield ((self._text["PUT_ALIAS"], (*key, version)),)
            return True, None if before is None else before[0]

        found, before = await self._engine.write(job)
        if not found:
            raise NotFound("version", f"{name} {version}")
        return before

    async def drop_alias(self, namespace: str, name: str, alias: str) -> bool:
        def job() -> Steps[bool]:
            row = yield ((self._text["DROP_ALIAS"], (namespace, name, alias)),)
            return row is not None

        return await self._engine.write(job)

    async def put_worker(self, worker: WorkerInfo, incarnation: str, *, lease_us: int) -> None:
        row = (
            worker.id,
            pack(worker.queues),
            pack(worker.names),
            pack(worker.labels),
            worker.capacity,
            worker.version,
            incarnation,
            lease_us,
        )
        drop: Step = (self._text["DROP_LOST_WORKERS"], (FORGET_WORKER_US,))

        def job() -> Steps[None]:
            yield (drop, (self._text["PUT_WORKER"], row))

        await self._engine.write(job)

    async def drop_worker(self, worker: WorkerId, incarnation: str) -> None:
        await self._write("DROP_WORKER", worker, incarnation)

    async def quarantine(self, run_id: RunId, reason: str | None) -> None:
        await self._write("QUARANTINE", run_id, reason)

    async def close(self) -> None:
        await self._engine.close()

    async def _write(self, name: str, *params: str | int | None) -> None:
        def job() -> Steps[None]:
            yield ((self._text[name], params),)

        await self._engine.write(job)

    def _told(self, answer: _Dated) -> _Dated:
        """An answer that says the time, for whoever goes by it."""
        self._engine.heard(answer.now)
        return answer

    def _locked(self, leases: str) -> tuple[Step, ...]:
        """What locks the tasks of these leases, where rows have locks."""
        return ((self._text["LOCK_LEASES"], (leases,)),) if self._dialect.locks_rows else ()

    def _lock_versions(self, namespace: str, name: str) -> tuple[Step, ...]:
        """What keeps a version from being meant and deleted at once, where writers work side by side."""
        lock: Step = (self._text["LOCK_VERSIONS"], (namespace, name))
        return (lock,) if self._dialect.locks_rows else ()

    def _grant_text(self, queues: int) -> str:
        """CANDIDATES with a branch for each queue; a worker serves few, so few texts are made."""
        text = self._candidates.get(queues)
        if text is None:
            branches = "    UNION ALL\n".join(
                s.leases.BRANCH.replace("{queue}", f"${4 + n}").replace("{number}", str(n))
                for n in range(queues)
            )
            text = self._dialect.fill(s.leases.CANDIDATES.replace("{branches}", branches))
            self._candidates[queues] = text
        return text


def _by_turns(found: list[list[Any]], queues: Sequence[str]) -> list[list[Any]]:
    """Rows of CANDIDATES in its order, whatever order their packing left them in."""
    numbers = {queue: n for n, queue in enumerate(queues)}
    taken: dict[tuple[str, int], int] = {}
    ordered = []
    for r in sorted(found, key=lambda r: (-r[5], r[23], r[0], r[1])):
        turn = taken[r[4], r[5]] = taken.get((r[4], r[5]), 0) + 1
        ordered.append((-r[5], turn, numbers[r[4]], r))
    ordered.sort(key=lambda each: each[:3])
    return [each[3] for each in ordered]


def _pair(messages: list[list[Any]], waits: list[list[Any]], pairs_max: int) -> tuple[Match, ...]:
    """Each message, oldest first, with every wait for its address, oldest first (then run id, place).

    Messages are left out once there are so many pairs, but none is cut short: the wait that takes it may be the last.
    """
    by_address: dict[tuple[str, str, str], list[tuple[RunId, OpenedWait]]] = {}
    for r in sorted(waits, key=lambda r: (r[5], r[0], r[1])):
        by_address.setdefault((r[6], r[2], r[3]), []).append((RunId(r[0]), read_wait(r)))
    matches: list[Match] = []
    for namespace, event, key, message, payload, _ in sorted(messages, key=lambda r: (r[5], r[3])):
        waiting = by_address.get((namespace, event, key), ())
        if matches and len(matches) + len(waiting) > pairs_max:
            break
        matches += (
            Match(run_id=run_id, wait=wait, message_id=MessageId(message), payload=payload)
            for run_id, wait in waiting
        )
    return tuple(matches)


def _focus(runs: tuple[RunId, ...] | None) -> str | None:
    return None if runs is None else pack(runs)


def _user_of_version(users: Values, name: str) -> str:
    """Who still needs a version, of VERSION_USERS, and the cure; empty for nobody."""
    runs, oldest, newest, aliases, alias, child = users
    if runs:
        named = f"run {oldest}" if runs == 1 else f"{runs:,} runs of it, {oldest} to {newest},"
        verb = "is" if runs == 1 else "are"
        return f"{named} {verb} not over; wait for the end, or cancel: tenuto run cancel ID"
    if aliases:
        more = f" (and {aliases - 1} more)" if aliases > 1 else ""
        return (
            f"the alias {alias!r}{more} means it; let it mean another one, or drop it: "
            f"tenuto workflow alias {name} {alias} --drop"
        )
    return "" if child is None else f"run {child} of it is about to start; try again in a moment"
