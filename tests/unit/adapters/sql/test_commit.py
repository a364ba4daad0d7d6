"""The job of a commit, driven by hand."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.store import LEASE_US, START, a_change, a_start, a_task, new_run_id
from tests.unit.adapters.sql.test_dialect import POSTGRES_LIKE

from tenuto.adapters.sql.commit import Commit
from tenuto.adapters.sql.dialect import SQLITE, Dialect
from tenuto.adapters.sql.engine import Row, Step
from tenuto.ports.store import Change, Committed


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
    texts, _ = drive([a_change(new_run_id(), 1)], (START, "[]", "[]", "[]"), dialect=POSTGRES_LIKE)

    assert texts[:5] == ["LOCK_RUNS", "LOCK_TASKS", "LOCK_MESSAGES", "LOCK_NOTICES", "GUARD"]


def test_a_job_may_be_driven_again() -> None:
    """The engine does so when a neighbour in the same transaction fails."""
    commit = Commit(Names(), SQLITE, [a_start(new_run_id(), a_task())], lease_us=LEASE_US)

    def sent() -> list[Sequence[Step]]:
        steps = commit.job()
        groups = [next(steps)]
        groups.append(steps.send((START, "[]", "[]", "[]")))
        steps.close()
        return groups

    assert sent() == sent()
