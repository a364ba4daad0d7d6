"""A task row and its lease, for tests to change."""

from __future__ import annotations

from tenuto.machine.snapshot import Task
from tenuto.model.ids import LeaseId, Place, WorkerId
from tenuto.model.states import TaskState
from tenuto.ports.store import LeaseRow

PLACE, WORKER = Place("a"), WorkerId("w")
TASK = Task(
    place=PLACE,
    node=0,
    name="a",
    queue="default",
    priority=5,
    state=TaskState.PENDING,
    attempt=1,
    lost=0,
    input_seq=1,
    timeout_us=None,
    heartbeat_us=None,
    queue_timeout_us=None,
    total_until=None,
    queue_until=None,
    held=False,
    ended_lease=None,
)
LEASE = LeaseRow(
    lease_id=LeaseId("l"),
    worker=WORKER,
    leased_at=10,
    lease_until=20,
    attempt_until=None,
    heartbeat_until=None,
)
