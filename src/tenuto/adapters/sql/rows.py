"""Values to rows and back: column order lives here, once. No SQL, no engine.

Rows go in and out as JSON arrays of arrays; a row is a list in the column order of its statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from tenuto.adapters.sql.engine import Param
from tenuto.machine.columns import decode_snapshot, encode_snapshot
from tenuto.machine.events import Deadline, TimerKind
from tenuto.machine.snapshot import OpenedWait, Snapshot, Task, Timer
from tenuto.model.errors import InvariantViolated
from tenuto.model.ids import LeaseId, Place, RunId, WorkerId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import TaskState
from tenuto.ports.gateway import NoteKind
from tenuto.ports.store import (
    DefinitionRow,
    DueTask,
    EventRow,
    Granted,
    LeaseRow,
    NewMessage,
    NoteRow,
    NoticeKind,
    NoticeRow,
    PayloadRow,
    RunRow,
)

Values = Sequence[Any]

NO_LEASE: tuple[Param, ...] = (None,) * 6
"""In place of a `lease_row`."""


def pack(rows: Sequence[object]) -> str:
    """Write rows as one parameter. Raises InvariantViolated for text that no database takes (a lone surrogate)."""
    try:
        return orjson.dumps(rows).decode()
    except TypeError as error:
        raise InvariantViolated(f"a row cannot be stored: {error}") from error


def unpack(text: str | None) -> list[list[Any]]:
    """Read what `pack(…)` of a statement answered."""
    rows: list[list[Any]] = orjson.loads(text) if text else []
    return rows


def task_row(run_id: RunId, task: Task) -> list[Param]:
    """The 22 decided columns, run id first."""
    return [
        *_plain_columns(run_id, task),
        task.child,
        task.spent,
        pack(task.rules) if task.rules else "",
        int(task.late),
        task.ending,
    ]


def plain_task_row(run_id: RunId, task: Task) -> list[Param] | None:
    """The first 17 of them; None if the others say something."""
    if task.child is not None or task.spent or task.rules or task.late or task.ending:
        return None
    return _plain_columns(run_id, task)


def _plain_columns(run_id: RunId, task: Task) -> list[Param]:
    return [
        run_id,
        task.place,
        task.node,
        task.name,
        task.queue,
        task.priority,
        task.state,
        task.attempt,
        task.lost,
        task.input_seq,
        task.timeout_us,
        task.heartbeat_us,
        task.queue_timeout_us,
        task.total_until,
        task.queue_until,
        int(task.held),
        task.ended_lease,
    ]


def read_task(row: Values) -> Task:
    """The 22 decided columns, run id first."""
    return Task(
        place=row[1],
        node=row[2],
        name=row[3],
        queue=row[4],
        priority=row[5],
        state=TaskState(row[6]),
        attempt=row[7],
        lost=row[8],
        input_seq=row[9],
        timeout_us=row[10],
        heartbeat_us=row[11],
        queue_timeout_us=row[12],
        total_until=row[13],
        queue_until=row[14],
        held=bool(row[15]),
        ended_lease=row[16],
        child=row[17],
        spent=row[18],
        rules=tuple(orjson.loads(row[19])) if row[19] else (),
        late=bool(row[20]),
        ending=row[21],
    )


def lease_row(task: Task, lease_id: LeaseId, worker: WorkerId, *, lease_us: int) -> list[Param]:
    """What `new_lease` says but for the moment, which the statement puts in: id, worker, three lengths and an end."""
    if task.timeout_us is not None:
        lease_us = min(lease_us, task.timeout_us)
    return [lease_id, worker, lease_us, task.timeout_us, task.total_until, task.heartbeat_us]


def pack_granted(granted: Sequence[Granted], *, lease_us: int) -> str:
    """Runs, places and leases, sorted as `within` needs them."""
    rows = [
        [
            each.run_id,
            each.task.place,
            *lease_row(each.task, each.lease.lease_id, each.lease.worker, lease_us=lease_us),
        ]
        for each in sorted(granted, key=lambda each: (each.run_id, each.task.place))
    ]
    return pack(rows)


def read_lease(row: Values) -> LeaseRow | None:
    """The six lease columns."""
    if row[0] is None:
        return None
    return LeaseRow(
        lease_id=row[0],
        worker=row[1],
        leased_at=row[2],
        lease_until=row[3],
        attempt_until=row[4],
        heartbeat_until=row[5],
    )


def read_task_with_lease(row: Values) -> tuple[Task, LeaseRow | None]:
    """Decided columns, then lease columns."""
    return read_task(row), read_lease(row[22:28])


def state_row(snapshot: Snapshot) -> list[Param]:
    """The decided columns of `run_states`."""
    nodes, edges, rest = encode_snapshot(snapshot)
    return [
        snapshot.run_id,
        snapshot.seq,
        snapshot.at,
        snapshot.state,
        int(snapshot.paused),
        nodes,
        edges,
        rest,
    ]


def read_run(row: Values) -> RunRow:
    """`run_columns`."""
    return RunRow(
        run_id=row[0],
        namespace=row[1],
        workflow=row[2],
        version=row[3],
        definition=row[4],
        key=row[5],
        state=row[6],
        paused=bool(row[7]),
        created_at=row[8],
        ended_at=row[9],
        output=row[10],
        error=row[11],
        parent=None if row[12] is None else (RunId(row[12]), Place(row[13])),
        source=row[14],
        compensation=row[15],
        quarantine=row[16],
    )


def read_run_with_snapshot(row: Values) -> tuple[RunRow, Snapshot]:
    """`run_columns`, then `state_columns`."""
    return read_run(row), decode_snapshot(RunId(row[0]), *row[17:24])


def timer_row(run_id: RunId, timer: Timer) -> list[Param]:
    """Run id first."""
    return [run_id, timer.place, timer.kind, timer.due_at, timer.version]


def read_timer(row: Values) -> Timer:
    """Run id first."""
    return Timer(Place(row[1]), TimerKind(row[2]), row[3], row[4])


def wait_row(run_id: RunId, wait: OpenedWait) -> list[Param]:
    """Run id first. Raises InvariantViolated for a key that no database takes."""
    if wait.key is None:
        raise InvariantViolated(f"the wait at {wait.place!r} of run {run_id} has no key")
    if "\0" in wait.key or "\0" in wait.event:
        raise InvariantViolated(f"the wait at {wait.place!r} of run {run_id} has NUL in its key")
    return [run_id, wait.place, wait.event, wait.key, wait.version, wait.opened_at]


def read_wait(row: Values) -> OpenedWait:
    """Run id first."""
    return OpenedWait(Place(row[1]), row[2], row[3], row[4], row[5])


def notice_row(notice: NoticeRow) -> list[Param]:
    """All columns but the time."""
    return [notice.run_id, notice.kind, notice.place, notice.sender, notice.data]


def read_notice(row: Values) -> NoticeRow:
    """All columns."""
    return NoticeRow(
        run_id=row[0],
        kind=NoticeKind(row[1]),
        place=row[2],
        sender=row[3],
        data=row[4],
        sent_at=row[5],
    )


def message_row(message: NewMessage) -> list[Param]:
    """The columns that the sender knows. Raises InvariantViolated for an address that no database takes."""
    if "\0" in message.event or "\0" in message.key:
        raise InvariantViolated(f"message {message.id} has NUL in its address")
    return [
        message.id,
        message.namespace,
        message.event,
        message.key,
        message.payload,
        message.event_id,
        message.keep_us,
    ]


def items_range(place: Place) -> tuple[str, str]:
    """Where the items of the foreach at `place` are, of every epoch: first place, end."""
    bare = place.partition("~")[0]
    return f"{bare}[0", f"{bare}[:"


def parts_range(place: Place) -> tuple[str, str]:
    """The same for items and pages."""
    bare = place.partition("~")[0]
    return f"{bare}[", f"{bare}\\"


def inner_range(place: Place) -> tuple[str, str]:
    """Where the passes of inner loops are, of every epoch, by the place of an outer one's."""
    bare = place.partition("~")[0]
    return f"{bare}.", f"{bare}/"


def passes_range(prefix: str) -> tuple[str, str]:
    """Where the passes of a node are, by the prefix of their places."""
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)


def epoch_suffix(place: Place) -> str:
    """How places of the same epoch end: nothing in the first."""
    return "".join(place.partition("~")[1:])


def event_row(run_id: RunId, event: EventRow) -> list[Param]:
    """Run id first."""
    return [run_id, event.seq, event.at, event.kind, event.place, event.data]


def read_event(row: Values) -> EventRow:
    """The columns of `events` without the run id."""
    return EventRow(seq=row[0], at=row[1], kind=row[2], place=row[3], data=row[4])


def payload_row(run_id: RunId, payload: PayloadRow) -> list[Param]:
    """Run id first."""
    return [run_id, payload.key.place, payload.key.kind, payload.seq, payload.text]


def read_payload(row: Values) -> PayloadRow:
    """The columns of `payloads` without the run id."""
    key = PayloadKey(Place(row[0]), PayloadKind(row[1]))
    return PayloadRow(key=key, seq=row[2], text=row[3])


def read_definition(row: Values) -> DefinitionRow:
    """The columns of `definitions` in table order."""
    return DefinitionRow(
        namespace=row[0],
        name=row[1],
        version=row[2],
        hash=row[3],
        source=row[4],
        graph=row[5],
        created_at=row[6],
    )


def read_due_task(row: Values) -> DueTask:
    """A row of DUE: what passed first, by its columns."""
    lease = read_lease(row[3:9])
    return DueTask(
        run_id=row[0], place=row[1], attempt=row[2], lease=lease, deadline=_deadline(lease)
    )


def read_abandoned_task(row: Values) -> DueTask:
    """A row of ABANDONED: the lease itself is over, whatever the deadlines say."""
    return DueTask(
        run_id=row[0], place=row[1], attempt=row[2], lease=read_lease(row[3:9]), deadline=None
    )


def _deadline(lease: LeaseRow | None) -> Deadline | None:
    if lease is None:
        return Deadline.QUEUE
    if lease.heartbeat_until is not None and lease.heartbeat_until < lease.lease_until:
        return Deadline.HEARTBEAT
    if lease.attempt_until == lease.lease_until:
        return Deadline.ATTEMPT
    return None


def note_row(note: NoteRow) -> list[Param]:
    """All columns."""
    return [note.run_id, note.place, note.attempt, note.number, note.at, note.kind, note.text]


def read_note(row: Values) -> NoteRow:
    """All columns."""
    return NoteRow(
        run_id=row[0],
        place=row[1],
        attempt=row[2],
        number=row[3],
        at=row[4],
        kind=NoteKind(row[5]),
        text=row[6],
    )
