"""Values to rows and back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.store import LEASE_US, START, WORKER, A, a_task

from tenuto.adapters.sql.rows import (
    NO_LEASE,
    epoch_suffix,
    inner_range,
    items_range,
    lease_row,
    pack,
    pack_granted,
    parts_range,
    plain_task_row,
    read_due_task,
    read_lease,
    read_task,
    read_timer,
    read_wait,
    task_row,
    timer_row,
    unpack,
    wait_row,
)
from tenuto.machine.events import Deadline, TimerKind
from tenuto.machine.snapshot import OpenedWait, Timer
from tenuto.model.errors import InvariantViolated
from tenuto.model.ids import LeaseId, Place, RunId, item_place, page_place, undo_place
from tenuto.model.states import TaskState
from tenuto.ports.store import Granted, new_lease

RUN = RunId("run")


def test_a_task_survives_the_way_through_a_row() -> None:
    task = a_task(
        node=3,
        name="http",
        queue="q",
        priority=-2,
        state=TaskState.RETRY,
        attempt=4,
        lost=1,
        input_seq=9,
        timeout_us=1,
        heartbeat_us=2,
        queue_timeout_us=3,
        total_until=4,
        queue_until=5,
        held=True,
        ended_lease=LeaseId("l"),
        child=RunId("child"),
        spent=6,
        rules=(0, 2),
        late=True,
        ending="timeout",
    )

    assert read_task(unpack(pack([task_row(RUN, task)]))[0]) == task


@pytest.mark.parametrize(
    "columns",
    [{"child": RunId("r")}, {"spent": 1}, {"rules": (0, 1)}, {"late": True}, {"ending": "timeout"}],
    ids=str,
)
def test_a_task_that_is_not_plain_is_written_whole(columns: dict[str, Any]) -> None:
    assert plain_task_row(RUN, a_task(**columns)) is None
    assert plain_task_row(RUN, a_task()) == task_row(RUN, a_task())[:17]


def test_a_lease_is_written_without_its_moment() -> None:
    """The database puts that in; what comes of it: tests/conformance/test_commit.py."""
    task = a_task(timeout_us=7, total_until=START + 9, heartbeat_us=3)

    row = lease_row(task, LeaseId("l"), WORKER, lease_us=LEASE_US)

    assert row == ["l", WORKER, 7, 7, START + 9, 3]
    assert len(NO_LEASE) == len(row)


def test_a_lease_is_read_as_the_database_has_it() -> None:
    lease = new_lease(a_task(timeout_us=7), LeaseId("l"), WORKER, now=START, lease_us=LEASE_US)

    assert read_lease(("l", WORKER, START, START + 7, START + 7, None)) == lease
    assert read_lease(NO_LEASE) is None


def test_granted_leases_are_sorted_by_run() -> None:
    """The bounds of a set say first and last."""
    lease = new_lease(a_task(), LeaseId("l"), WORKER, now=START, lease_us=LEASE_US)
    granted = [
        Granted(run_id=RunId(run), task=a_task(place), lease=lease, input="1")
        for run, place in (("b", "a"), ("a", "b"), ("a", "a"))
    ]

    rows = unpack(pack_granted(granted, lease_us=LEASE_US))

    assert [row[:2] for row in rows] == [["a", "a"], ["a", "b"], ["b", "a"]]
    assert rows[0][2:] == lease_row(a_task(), LeaseId("l"), WORKER, lease_us=LEASE_US)


@pytest.mark.parametrize(
    ("columns", "until", "attempt_until"),
    [
        ({}, START + LEASE_US, None),
        ({"timeout_us": 5}, START + 5, START + 5),
        ({"total_until": START + 4, "timeout_us": 5}, START + 4, START + 4),
        ({"timeout_us": 2 * LEASE_US}, START + LEASE_US, START + 2 * LEASE_US),
    ],
    ids=str,
)
def test_a_lease_ends_with_the_first_of_its_bounds(
    columns: dict[str, Any], until: int, attempt_until: int | None
) -> None:
    lease = new_lease(a_task(**columns), LeaseId("l"), WORKER, now=START, lease_us=LEASE_US)

    assert (lease.lease_until, lease.attempt_until) == (until, attempt_until)


def test_timers_and_waits_survive_the_way_through_a_row() -> None:
    timer, wait = Timer(A, TimerKind.EVENT, 5, 2), OpenedWait(A, "e", "k", 2, 6)

    assert read_timer(timer_row(RUN, timer)) == timer
    assert read_wait(wait_row(RUN, wait)) == wait


def test_a_wait_without_a_key_is_a_bug() -> None:
    with pytest.raises(InvariantViolated, match="no key"):
        wait_row(RUN, OpenedWait(A, "e", None, 2, 6))


@pytest.mark.parametrize(
    ("lease_until", "attempt_until", "heartbeat_until", "deadline"),
    [
        (10, None, None, None),
        (10, 20, 15, None),
        (10, 10, None, Deadline.ATTEMPT),
        (10, 10, 9, Deadline.HEARTBEAT),
        (10, None, 9, Deadline.HEARTBEAT),
    ],
)
def test_what_passed_first_is_what_is_due(
    lease_until: int,
    attempt_until: int | None,
    heartbeat_until: int | None,
    deadline: Deadline | None,
) -> None:
    lease = ["l", "w", 1, lease_until, attempt_until, heartbeat_until]

    assert read_due_task([RUN, A, 1, *lease, 9]).deadline == deadline


def test_text_with_half_a_character_is_refused() -> None:
    with pytest.raises(InvariantViolated, match="cannot be stored"):
        pack([["\ud800"]])


@pytest.mark.parametrize("place", ["each", "each.1.2", "each~3", "each.1.2~3"])
def test_items_and_pages_lie_within_their_ranges_and_nothing_else(place: str) -> None:
    foreach = Place(place)
    items, parts, inner = items_range(foreach), parts_range(foreach), inner_range(foreach)

    def within(other: Place, bounds: tuple[str, str]) -> bool:
        return bounds[0] <= other < bounds[1]

    for index in (0, 9, 10, 99_999):
        assert within(item_place(foreach, index), items)
        assert within(item_place(foreach, index), parts)
        assert not within(item_place(foreach, index), inner)
    assert within(page_place(foreach, 0), parts)
    assert not within(page_place(foreach, 0), items)
    bare = place.partition("~")[0]
    assert within(Place(f"{bare}.7"), inner)
    for other in (foreach, undo_place(foreach), Place(f"{bare}x[0]"), Place(f"{bare}_[0]")):
        assert not any(within(other, bounds) for bounds in (items, parts, inner))


def test_the_epoch_of_a_place_is_how_it_ends() -> None:
    assert epoch_suffix(Place("each.1[0]")) == ""
    assert epoch_suffix(Place("each.1[0]~12")) == "~12"
