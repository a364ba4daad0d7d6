"""The store port over SQL: each verb is one job. No SQL text here, no driver, no thread.

Theory of operation. A commit is: row locks (where the engine has them), one guard that reads everything that must
still hold, then the writes of the changes that passed, as one group of steps. All changes of a commit share each
statement, so its cost grows with rows, not with changes. The few steps matter: on SQLite each gives up the interpreter
lock and may wait milliseconds to have it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenuto.adapters.sql import statements as s
from tenuto.adapters.sql.commit import Commit
from tenuto.adapters.sql.engine import SqlEngine, Step, Steps
from tenuto.adapters.sql.rows import (
    lease_row,
    new_lease,
    note_row,
    pack,
    read_abandoned_task,
    read_definition,
    read_due_task,
    read_run_with_snapshot,
    read_task,
    read_task_with_lease,
    read_timer,
    read_wait,
    unpack,
)
from tenuto.machine.events import TimerKind
from tenuto.model.errors import InvalidInput
from tenuto.model.expressions import Message
from tenuto.model.ids import MessageId, RunId, WorkerId
from tenuto.model.payload import PayloadKey, PayloadKind, Text
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
    Pulse,
)

QUEUES_MAX = 100
"""Of one grant's statement; a worker that serves more has several. SQLite takes 500 parts in a compound SELECT."""


class SqlStore:
    """`ports.store.Store` over any SqlEngine."""

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
                s.registry,
            )
            for name, text in vars(module).items()
            if name.isupper() and name not in {"BRANCH", "CANDIDATES"}
        }
        self._candidates: dict[int, str] = {}

    # -- readings that writes depend on

    async def load(self, request: LoadRequest) -> Loaded:
        step: Step = (
            self._text["LOAD"],
            (
                pack([[run] for run in request.runs]),
                pack(request.tasks),
                pack(request.timers),
                pack(request.waits),
                pack([(run, key.place, key.kind) for run, key in request.payloads]),
                pack(request.mailbox),
            ),
        )

        def job() -> Steps[Loaded]:
            row = yield (step,)
            assert row is not None
            now, runs, tasks, timers, waits, payloads, mailbox = row
            return Loaded(
                now=now,
                runs={r[0]: read_run_with_snapshot(r) for r in unpack(runs)},
                tasks={(r[0], r[1]): read_task_with_lease(r) for r in unpack(tasks)},
                timers={(r[0], r[1], TimerKind(r[2])): read_timer(r) for r in unpack(timers)},
                waits={(r[0], r[1]): read_wait(r) for r in unpack(waits)},
                payloads={
                    (r[0], PayloadKey(r[1], PayloadKind(r[2]))): r[3]
                    for r in unpack(payloads)
                    if r[3] is not None
                },
                mailbox={
                    (r[0], r[1], r[2]): Message(MessageId(r[3]), Text(len(r[4].encode()), r[4]))
                    for r in unpack(mailbox)
                },
            )

        return await self._engine.read(job)

    async def due(self, *, limit: int, runs: tuple[RunId, ...] | None) -> Due:
        step: Step = (self._text["DUE"], (_focus(runs), limit))

        def job() -> Steps[Due]:
            row = yield (step,)
            assert row is not None
            now, tasks, timers, messages, waits = row
            return Due(
                now=now,
                tasks=tuple(
                    read_due_task(r) for r in sorted(unpack(tasks), key=lambda r: (r[9], r[0]))
                ),
                timers=tuple(
                    (r[0], read_timer(r))
                    for r in sorted(unpack(timers), key=lambda r: (r[3], r[0]))
                ),
                matches=_pair(unpack(messages), unpack(waits)),
            )

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

    async def pulse(self, runs: tuple[RunId, ...] | None) -> Pulse:
        step: Step = (self._text["PULSE"], (_focus(runs),))

        def job() -> Steps[Pulse]:
            row = yield (step,)
            assert row is not None
            now, tasks_at, timers_at, ready = row
            return Pulse(now=now, tasks_at=tasks_at, timers_at=timers_at, ready=ready)

        return await self._engine.read(job)

    # -- writes

    async def commit(self, changes: Sequence[Change], *, lease_us: int) -> Committed:
        commit = Commit(self._text, self._dialect, changes, lease_us=lease_us)
        return await self._engine.write(commit.job)

    async def grant(self, request: GrantRequest) -> Sequence[Granted]:
        limit = len(request.lease_ids)
        if not (limit and request.queues and request.names):
            return ()
        queues = tuple(dict.fromkeys(request.queues))
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
            found.sort(key=lambda r: (-r[5], r[18], r[0], r[1]))
            granted = []
            leases: list[list[object]] = []
            for r, lease_id in zip(found, request.lease_ids, strict=False):
                task = read_task(r)
                lease = new_lease(
                    task, lease_id, request.worker, now=now, lease_us=request.lease_us
                )
                granted.append(Granted(run_id=r[0], task=task, lease=lease, input=r[17]))
                leases.append([r[0], r[1], *lease_row(lease)])
            packed = pack(leases)
            yield ((self._text["LEASE_TASKS"], (packed,)), (self._text["DELETE_READY"], (packed,)))
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
        packed = pack([(b.run_id, b.place, b.lease_id, int(b.alive)) for b in beats])
        see: Step = (self._text["SEE_WORKER"], (worker, load.busy, load.capacity, load.lag_us))

        def job() -> Steps[Sequence[Verdict]]:
            row = yield ((self._text["VERDICTS"], (packed, worker, int(lapsed))),)
            assert row is not None
            verdicts = {(r[0], r[1], r[2]): Verdict(r[3]) for r in unpack(row[0])}
            yield ((self._text["EXTEND_LEASES"], (packed, worker, int(lapsed), lease_us)), see)
            return tuple(verdicts[b.run_id, b.place, b.lease_id] for b in beats)

        return await self._engine.write(job, durable=False)

    async def release(self, worker: WorkerId, leases: Sequence[Beat]) -> int:
        if not leases:
            return 0
        packed = pack([(b.run_id, b.place, b.lease_id) for b in leases])

        def job() -> Steps[int]:
            row = yield ((self._text["STANDING"], (packed, worker)),)
            assert row is not None
            standing = unpack(row[0])
            if standing:
                offers = pack([r[:2] for r in standing if r[2]])
                yield (
                    (self._text["CLEAR_LEASES"], (packed, worker)),
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
            yield ((self._text["INSERT_NOTES"], (pack([note_row(each) for each in kept]),)),)
            return kept

        return await self._engine.write(job, durable=False) if notes else ()

    async def post(self, message: NewMessage) -> bool:
        for name, text in (("event", message.event), ("key", message.key)):
            if "\0" in text or not _is_text(text):
                raise InvalidInput("cannot be stored: it has NUL or half a character", path=name)
        step: Step = (
            self._text["INSERT_MESSAGE"],
            (
                message.id,
                message.namespace,
                message.event,
                message.key,
                message.payload,
                message.event_id,
                message.keep_us,
            ),
        )

        def job() -> Steps[bool]:
            stored = yield ((self._text["DELETE_OLD_MESSAGES"], ()), step)
            return stored is not None

        return await self._engine.write(job)

    async def put_definition(self, row: DefinitionRow) -> DefinitionRow:
        def job() -> Steps[DefinitionRow]:
            newest = yield ((self._text["NEWEST_DEFINITION"], (row.namespace, row.name)),)
            if newest is not None and newest[3] == row.hash:
                return read_definition(newest)
            version = 1 if newest is None else newest[2] + 1
            stored = (row.namespace, row.name, version, row.hash, row.source, row.graph)
            yield ((self._text["INSERT_DEFINITION"], (*stored, row.created_at)),)
            return read_definition((*stored, row.created_at))

        return await self._engine.write(job)

    async def put_worker(self, worker: WorkerInfo, incarnation: str) -> None:
        await self._write(
            "PUT_WORKER",
            worker.id,
            pack(worker.queues),
            pack(worker.names),
            pack(worker.labels),
            worker.capacity,
            worker.version,
            incarnation,
        )

    async def drop_worker(self, worker: WorkerId) -> None:
        await self._write("DROP_WORKER", worker)

    async def quarantine(self, run_id: RunId, reason: str | None) -> None:
        await self._write("QUARANTINE", run_id, reason)

    async def close(self) -> None:
        await self._engine.close()

    async def _write(self, name: str, *params: str | int | None) -> None:
        def job() -> Steps[None]:
            yield ((self._text[name], params),)

        await self._engine.write(job)

    def _grant_text(self, queues: int) -> str:
        """CANDIDATES with a branch for each queue; a worker serves few, so few texts are made."""
        text = self._candidates.get(queues)
        if text is None:
            branches = "    UNION ALL\n".join(
                s.leases.BRANCH.replace("{queue}", f"${4 + n}") for n in range(queues)
            )
            text = self._dialect.fill(s.leases.CANDIDATES.replace("{branches}", branches))
            self._candidates[queues] = text
        return text


def _pair(messages: list[list[Any]], waits: list[list[Any]]) -> tuple[Match, ...]:
    """The oldest message of an address to its oldest wait (then run id, place), and so on, as far as both go."""
    by_address: dict[tuple[str, str, str], list[list[Any]]] = {}
    for wait in sorted(waits, key=lambda r: (r[5], r[0], r[1]), reverse=True):
        by_address.setdefault((wait[6], wait[2], wait[3]), []).append(wait)
    matches = []
    for message in sorted(messages, key=lambda r: (r[5], r[3])):
        waiting = by_address.get((message[0], message[1], message[2]))
        if waiting:
            wait = waiting.pop()
            matches.append(
                Match(
                    run_id=wait[0],
                    wait=read_wait(wait),
                    message_id=message[3],
                    payload=message[4],
                )
            )
    return tuple(matches)


def _focus(runs: tuple[RunId, ...] | None) -> str | None:
    return None if runs is None else pack(runs)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
