"""Builders for tests of a store: a clock turned by hand, tasks, and the changes of a small run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.machine.actions import SettleRun
from tenuto.machine.snapshot import Snapshot, Task
from tenuto.model.ids import LeaseId, MessageId, Place, RunId, WorkerId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import RunState, TaskState
from tenuto.ports.gateway import Beat, Load
from tenuto.ports.store import (
    Change,
    Claims,
    DefinitionRow,
    EventRow,
    GrantRequest,
    LoadRequest,
    NewMessage,
    NewRun,
    PayloadRow,
    Store,
)

START = 1_750_000_000_000_000
SECOND = 1_000_000
LEASE_US = 10 * SECOND
WORKER = WorkerId("worker-1")
IDLE = Load(busy=0, capacity=50)
A = Place("a")
_IDS = Uuid7Ids()


class TurnedClock:
    """Stands still until it is turned."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> int:
        return self.at

    def turn(self, us: int) -> None:
        self.at += us


def new_run_id() -> RunId:
    """Growing, like those of the engine."""
    return _IDS.run_id(START)


def a_task(place: str = "a", **columns: Any) -> Task:
    values: dict[str, Any] = {
        "place": Place(place),
        "node": 0,
        "name": "work",
        "queue": "default",
        "priority": 0,
        "state": TaskState.PENDING,
        "attempt": 1,
        "lost": 0,
        "input_seq": 1,
        "timeout_us": None,
        "heartbeat_us": None,
        "queue_timeout_us": None,
        "total_until": None,
        "queue_until": None,
        "held": False,
        "ended_lease": None,
    }
    return Task(**(values | columns))


def a_snapshot(run_id: RunId, seq: int, **columns: Any) -> Snapshot:
    values: dict[str, Any] = {
        "run_id": run_id,
        "seq": seq,
        "at": START,
        "state": RunState.RUNNING,
        "paused": False,
        "epoch": 1,
        "nodes": b"a.",
        "edges": b"-",
        "passes": (),
        "live": 2,
    }
    return Snapshot(**(values | columns))


def an_event(seq: int, kind: str = "RunStarted", place: str = "") -> EventRow:
    return EventRow(seq=seq, at=START, kind=kind, place=Place(place), data="{}")


def an_input(place: str, seq: int = 1, text: str = '{"n":1}') -> PayloadRow:
    return PayloadRow(key=PayloadKey(Place(place), PayloadKind.INPUT), seq=seq, text=text)


def a_start(
    run_id: RunId,
    *tasks: Task,
    key: str | None = None,
    namespace: str = "default",
    workflow: str = "order",
    **change: Any,
) -> Change:
    """A new run with these tasks, all offered."""
    values: dict[str, Any] = {
        "run_id": run_id,
        "expected_seq": 0,
        "snapshot": a_snapshot(run_id, 1),
        "new_run": NewRun(
            namespace=namespace,
            workflow=workflow,
            version=1,
            definition="hash",
            key=key,
            created_at=START,
        ),
        "events": (an_event(1),),
        "payloads": tuple(an_input(task.place) for task in tasks),
        "created": tasks,
        "ready": tuple(task for task in tasks if task.state is TaskState.PENDING),
    }
    return Change(**(values | change))


def a_change(run_id: RunId, expected: int, **change: Any) -> Change:
    """The next event of a run."""
    values: dict[str, Any] = {
        "run_id": run_id,
        "expected_seq": expected,
        "snapshot": a_snapshot(run_id, expected + 1),
        "events": (an_event(expected + 1, "AttemptSucceeded", "a"),),
    }
    return Change(**(values | change))


def a_success(run_id: RunId, expected: int, task: Task, lease_id: str, **change: Any) -> Change:
    """The report that ends a task."""
    lease = LeaseId(lease_id)
    done = replace(task, state=TaskState.SUCCESS, ended_lease=lease)
    return a_change(
        run_id,
        expected,
        **(
            {
                "claims": Claims(leases=((task.place, task.attempt, lease),)),
                "updated": ((done, True),),
            }
            | change
        ),
    )


def a_settlement(run_id: RunId, expected: int, state: RunState = RunState.SUCCESS) -> Change:
    """The run is over."""
    output = PayloadKey(A, PayloadKind.OUTPUT) if state is RunState.SUCCESS else None
    error = None if state is RunState.SUCCESS else PayloadKey(A, PayloadKind.ERROR)
    return a_change(
        run_id,
        expected,
        snapshot=a_snapshot(run_id, expected + 1, state=state, live=0),
        settle=SettleRun(state, START, output, error),
    )


def a_message(
    id: str = "m1", *, key: str = "k", event_id: str | None = None, **columns: Any
) -> NewMessage:
    values: dict[str, Any] = {
        "id": MessageId(id),
        "namespace": "default",
        "event": "approved",
        "key": key,
        "payload": '{"ok":true}',
        "event_id": event_id,
        "keep_us": 60 * SECOND,
    }
    return NewMessage(**(values | columns))


def a_request(*lease_ids: str, **columns: Any) -> GrantRequest:
    values: dict[str, Any] = {
        "worker": WORKER,
        "queues": ("default",),
        "names": ("work",),
        "lease_ids": tuple(map(LeaseId, lease_ids)),
        "lease_us": LEASE_US,
    }
    return GrantRequest(**(values | columns))


def a_beat(run_id: RunId, lease_id: str, place: str = "a", *, alive: bool = False) -> Beat:
    return Beat(run_id=run_id, place=Place(place), lease_id=LeaseId(lease_id), alive=alive)


@dataclass
class Leased:
    """A started run whose only task is leased."""

    run_id: RunId
    task: Task
    lease_id: str = "lease-1"
    extra: dict[str, Any] = field(default_factory=dict)


async def a_leased_run(store: Store, lease_id: str = "lease-1", **columns: Any) -> Leased:
    run_id = new_run_id()
    task = a_task(**columns)
    await commit(store, a_start(run_id, task))
    granted = await store.grant(
        a_request(lease_id, queues=(task.queue,), names=(task.name,), runs=(run_id,))
    )
    assert [g.run_id for g in granted] == [run_id]
    return Leased(run_id, task, lease_id)


def a_definition(hash: str, *, name: str = "order", namespace: str = "default") -> DefinitionRow:
    return DefinitionRow(
        namespace=namespace,
        name=name,
        version=0,
        hash=hash,
        source=f"name: {name}  # {hash}",
        graph="{}",
        created_at=START,
    )


async def commit(store: Store, *changes: Change) -> None:
    """Commit what must not lose."""
    done = await store.commit(changes, lease_us=LEASE_US)
    assert not done.losers


async def seq_of(store: Store, run_id: RunId) -> int:
    """The run's seq as stored; 0 if there is no such run."""
    loaded = await store.load(LoadRequest(runs=(run_id,)))
    return loaded.runs[run_id][1].seq if run_id in loaded.runs else 0


async def due_places(
    store: Store, runs: Sequence[RunId] | None = None
) -> list[tuple[str, str | None]]:
    due = await store.due(limit=100, runs=None if runs is None else tuple(runs))
    return [(str(task.place), task.deadline) for task in due.tasks]
