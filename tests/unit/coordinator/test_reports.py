"""What of a report is remembered, and when that is not enough."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.rows import LEASE, PLACE, TASK, WORKER

from tenuto.coordinator.reports import ReportWaiting
from tenuto.coordinator.waiting import NOBODY, Wanted
from tenuto.machine.snapshot import Task
from tenuto.model.ids import LeaseId, RunId, WorkerId
from tenuto.ports.gateway import Report, Success
from tenuto.ports.store import LeaseRow

RUN = RunId("r")
REPORT = Report(
    run_id=RUN, place=PLACE, attempt=1, lease_id=LeaseId("l"), result=Success(output="{}")
)


def is_loaded(
    *, task: Task = TASK, lease: LeaseRow = LEASE, worker: str | None = WORKER, now: int = 15
) -> bool:
    """Whether a report is compared with what is stored, when this is remembered."""
    fact = ReportWaiting(REPORT, NOBODY, 0, None if worker is None else WorkerId(worker))
    fact.recall({PLACE: (task, lease)}, now)
    wanted = Wanted()
    fact.want(wanted)
    return (RUN, PLACE) in wanted.tasks


def test_a_report_under_a_remembered_lease_needs_nothing() -> None:
    assert not is_loaded()
    assert not is_loaded(worker=None)


@pytest.mark.parametrize(
    "doubt",
    [
        {"lease": replace(LEASE, lease_id=LeaseId("other"))},
        {"task": replace(TASK, attempt=2)},
        {"worker": "another"},
        {"now": 20},
    ],
    ids=["lease", "attempt", "worker", "over"],
)
def test_in_doubt_the_database_is_asked(doubt: dict[str, object]) -> None:
    """A heartbeat may have made the lease longer; whoever it belongs to may have changed."""
    assert is_loaded(**doubt)  # type: ignore[arg-type]


def test_what_was_remembered_once_is_forgotten_when_it_is_tried_again() -> None:
    fact = ReportWaiting(REPORT, NOBODY, 0, WORKER)
    fact.recall({PLACE: (TASK, LEASE)}, 15)
    fact.recall({}, 15)
    wanted = Wanted()
    fact.want(wanted)

    assert (RUN, PLACE) in wanted.tasks
