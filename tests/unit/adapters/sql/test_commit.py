"""The job of a commit, driven by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from tests.support.store import (
    LEASE_US,
    START,
    WORKER,
    A,
    a_change,
    a_message,
    a_snapshot,
    a_start,
    a_task,
    new_run_id,
)

from tenuto.adapters.sql.commit import LARGE_LETTERS, Commit
from tenuto.adapters.sql.dialect import POSTGRES, SQLITE, Dialect
from tenuto.adapters.sql.engine import AtOnce, Row, Step
from tenuto.machine.snapshot import OpenedWait
from tenuto.model.ids import LeaseId, MessageId, Place, RunId
from tenuto.ports.store import Change, Claims, Committed, EagerGrant, NoticeKind, NoticeRow


class Names(dict[str, str]):
    """Every text is its own name."""

    def __missing__(self, name: str) -> str:
        return name


def drive(
    changes: Sequence[Change], guard: Row, *, dialect: Dialect = SQLITE
) -> tuple[list[str], Committed]:
    """Statements in the order sent, and the answer; `guard` is what GUARD answers."""
    steps = Commit(Names(), dialect, changes, lease_us=LEASE_US).job()
    sent: list[Step] = []
    try:
        group = next(steps)
        while True:
            sent += group
            group = steps.send(guard if group[-1][0] == "GUARD" else None)
    except StopIteration as end:
        return [text for text, _ in sent], end.value


def test_a_change_is_written_in_the_order_of_the_port() -> None:
    task = a_task()
    texts, _ = drive([a_start(new_run_id(), task, key="k")], (START, "[]", "[]", "[]"))

    assert texts == [
        "GUARD",
        "INSERT_KEYS",
        "INSERT_RUNS",
        "INSERT_STATES",
        "INSERT_EVENTS",
        "INSERT_PAYLOADS",
        "INSERT_PLAIN_TASKS",
        "INSERT_READY",
    ]


def test_nothing_is_written_for_losers() -> None:
    run_id = new_run_id()

    texts, done = drive([a_change(run_id, 1)], (START, f'[["{run_id}"]]', "[]", "[]"))

    assert texts == ["GUARD"]
    assert done.losers == {run_id}


def test_changes_share_their_statements() -> None:
    changes = [a_change(new_run_id(), 1) for _ in range(50)]

    texts, _ = drive(changes, (START, "[]", "[]", "[]"))

    assert texts == ["GUARD", "UPDATE_STATES", "INSERT_EVENTS"]


def test_rows_are_locked_before_they_are_checked() -> None:
    """In one order, whatever the change; what it does not touch is not locked. Catalogue C2."""
    change = a_change(
        new_run_id(),
        1,
        claims=Claims(
            messages=(MessageId("m"),), notices=((NoticeKind.CANCEL, Place("a"), new_run_id(), 1),)
        ),
        updated=((a_task(), True),),
        waits=(OpenedWait(Place("a"), "approved", "k", 1, START),),
    )
    locks = ["LOCK_RUNS", "LOCK_TASKS", "LOCK_MESSAGES", "LOCK_NOTICES", "LOCK_ADDRESSES"]

    texts, _ = drive([change], (START, "[]", "[]", "[]"), dialect=POSTGRES)
    assert texts[:6] == [*locks, "GUARD"]

    texts, _ = drive([a_change(new_run_id(), 1)], (START, "[]", "[]", "[]"), dialect=POSTGRES)
    assert texts[:2] == ["LOCK_RUNS", "GUARD"]


def test_messages_are_posted_in_the_order_of_their_event_ids() -> None:
    """Whichever runs they are of, as everybody posts (`adapters.sql.posting`); more old ones go than come."""
    runs = sorted(new_run_id() for _ in range(60))
    changes = [
        a_change(run, 1, posts=(a_message(f"m{n}", event_id=f"e{60 - n:02}"),))
        for n, run in enumerate(runs)
    ]
    steps = Commit(Names(), SQLITE, changes, lease_us=LEASE_US).job()
    next(steps)
    written = dict(steps.send((START, "[]", "[]", "[]")))
    steps.close()

    rows = orjson.loads(str(written["POST_MESSAGES"][0]))
    assert [row[5] for row in rows] == sorted(row[5] for row in rows)
    assert written["DELETE_OLD_MESSAGES"] == (120,)


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ({"updated": ((a_task("b"), True),)}, [["b", "b"]]),
        ({"cancelled": (Place("c"), Place("a"))}, [["a", "a"], ["c", "c"]]),
        ({"created": (a_task(),), "ready": (a_task(),)}, []),
        ({"cancelled_items": (Place("f"),)}, [["f[", "f\\"]]),
        ({"close": True}, [["", "\U0010ffff"]]),
        ({"release_at": START}, [["", "\U0010ffff"]]),
    ],
)
def test_tasks_that_others_may_write_too_are_locked(
    columns: dict[str, Any], rows: list[list[str]]
) -> None:
    run = new_run_id()
    steps = Commit(Names(), POSTGRES, [a_change(run, 1, **columns)], lease_us=LEASE_US).job()
    locked = dict(next(steps))
    steps.close()
    expected = orjson.dumps([[run, *row] for row in rows]).decode()
    assert locked.get("LOCK_TASKS", ("[]",)) == (expected,)


def at_once(*changes: Change) -> AtOnce[Committed] | None:
    return Commit(Names(), POSTGRES, changes, lease_us=LEASE_US).at_once()


def texts_of(job: AtOnce[Committed] | None) -> list[str]:
    assert job is not None
    return [text for text, _ in job.group]


def test_a_commit_that_hopes_is_one_group() -> None:
    """Locks, the moment, the checks that have something to check, all writes."""
    claims = Claims(leases=((Place("a"), 1, LeaseId("l")),))
    change = a_change(new_run_id(), 1, claims=claims, updated=((a_task(), True),), close=True)

    assert texts_of(at_once(change)) == [
        "LOCK_RUNS",
        "LOCK_TASKS",
        "MOMENT",
        "MOVED_RUNS",
        "LOST_LEASES",
        "UPDATE_RUNS",
        "UPDATE_STATES",
        "INSERT_EVENTS",
        "UPDATE_TASKS",
        "DELETE_TIMERS_OF_RUNS",
        "DELETE_WAITS_OF_RUNS",
        "CANCEL_CHILDREN",
        "CLOSE_TASKS",
        "DELETE_READY_OF_RUNS",
        "OPEN_CHILDREN",
    ]


def test_a_hoped_for_commit_grants_all_and_tells_all() -> None:
    run, other = new_run_id(), new_run_id()
    grant = EagerGrant(place=A, worker=WORKER, lease_id=LeaseId("l"))
    notice = NoticeRow(run_id=other, kind=NoticeKind.CANCEL, place=A, sender=run, data="{}")

    job = at_once(a_start(run, a_task(), eager=(grant,), notices=(notice,)))

    assert job is not None
    assert "INSERT_READY" not in texts_of(job)
    assert job.read((START, '[["child"]]')) == Committed(
        now=START, granted=frozenset({(run, A)}), told=(other, RunId("child"))
    )
    assert job.read((START, None)).told == (other,)


def test_leases_of_a_hoped_for_commit_begin_when_the_database_says() -> None:
    run, task = new_run_id(), a_task()
    grant = EagerGrant(place=A, worker=WORKER, lease_id=LeaseId("l"))

    job = at_once(a_start(run, task, eager=(grant,)))
    assert job is not None
    [(rows, moment)] = [params for text, params in job.group if text == "INSERT_PLAIN_TASKS"]

    assert moment is None
    assert orjson.loads(str(rows))[0][17:] == ["l", WORKER, LEASE_US, None, None, None]


def test_the_long_way_of_a_hoped_for_commit_is_its_job() -> None:
    job = at_once(a_change(new_run_id(), 1))
    assert job is not None
    steps = job()
    assert [text for text, _ in next(steps)] == ["LOCK_RUNS", "GUARD"]
    steps.close()


@pytest.mark.parametrize(
    "changes",
    [
        [a_start(new_run_id(), key="k") for _ in range(2)],
        [a_change(new_run_id(), 1, claims=Claims(messages=(MessageId("m"),))) for _ in range(2)],
    ],
    ids=["key", "message"],
)
def test_a_commit_with_rivals_hopes_for_nothing(changes: list[Change]) -> None:
    assert at_once(*changes) is None
    assert at_once(changes[0]) is not None


def test_only_one_large_state_is_written_at_once() -> None:
    letters = b"." * LARGE_LETTERS

    def change() -> Change:
        run = new_run_id()
        return a_change(run, 1, snapshot=a_snapshot(run, 2, nodes=letters))

    assert texts_of(at_once(change(), a_change(new_run_id(), 1)))[-1] == "UPDATE_STATE"
    assert at_once(change(), change()) is None


def test_an_engine_within_the_process_has_nothing_to_hope_for() -> None:
    commit = Commit(Names(), SQLITE, [a_change(new_run_id(), 1)], lease_us=LEASE_US)
    assert commit.at_once() is None


def test_a_job_may_be_driven_again() -> None:
    """The engine does so when a neighbour in the same transaction fails. Catalogue C8."""
    commit = Commit(Names(), SQLITE, [a_start(new_run_id(), a_task())], lease_us=LEASE_US)

    def sent() -> list[Sequence[Step]]:
        steps = commit.job()
        groups = [next(steps)]
        groups.append(steps.send((START, "[]", "[]", "[]")))
        steps.close()
        return groups

    assert sent() == sent()
