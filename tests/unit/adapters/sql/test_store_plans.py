"""Hot statements find their rows by index: a scan that grows with the store would be paid on every event."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tenuto.adapters.sql import statements as s
from tenuto.adapters.sql.dialect import PARAMS_MAX, SQLITE
from tenuto.adapters.sqlite.opening import connect, migrate

HOT = {
    **{
        name: text
        for module in (s.guard, s.changes, s.load, s.mailbox, s.registry, s.due, s.leases, s.wholes)
        for name, text in vars(module).items()
        if name.isupper() and name not in {"BRANCH", "CANDIDATES"}
    },
    "CANDIDATES": s.leases.CANDIDATES.replace(
        "{branches}", s.leases.BRANCH.replace("{queue}", "$4").replace("{number}", "0")
    ),
    **{
        name: getattr(s.reads, name)
        for name in (
            "RUN",
            "WHOLE_RUN",
            "NEWEST_ROW",
            "VERSION_ROW",
            "ALIASED_ROW",
            "RUNS",
            "TOP_RUNS",
            "CHILD_RUNS",
            "REPLAYS",
            "ITEMS",
            "ITEMS_IN_STATES",
            "PASSES",
            "PASSES_BY_PLACE",
            "ALIASES",
            "COUNTS",
            "RUNS_BY_ID",
            "RUN_BY_KEY",
            "EVENTS",
            "PAYLOADS",
        )
    },
}
TABLES = [
    "definitions",
    "runs",
    "run_states",
    "tasks",
    "events",
    "payloads",
    "ready",
    "timers",
    "waits",
    "mailbox",
    "run_keys",
    "notices",
    "aliases",
]

# In order of an index and cut by a LIMIT, so no more rows are read than asked for, or all of a partial index that holds
# only what is wanted; notices wait for moments only.
BOUNDED = {
    "PULSE": {
        "timers_due",
        "ready_by_queue",
        "tasks_due",
        "timers_draining",
        "notices_sent",
        "mailbox_hinted",
    },
    "LEASES_OF": {"tasks_due", "tasks_lingering"},
    "DUE": {"mailbox_hinted", "timers_draining", "notices_sent"},
    "VERSION_USERS": {"n"},
}


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    with closing(connect(":memory:")) as made:
        migrate(made, ":memory:", at=0)
        yield made


@pytest.mark.parametrize("name", HOT)
def test_no_table_is_scanned(connection: sqlite3.Connection, name: str) -> None:
    """Catalogue J3."""
    scans = [step for step in plan(connection, HOT[name]) if _scanned(step, HOT[name])]
    allowed = BOUNDED.get(name, set())

    assert [step for step in scans if step.split()[-1] not in allowed] == []


def test_the_plan_of_a_statement_without_index_shows_the_scan(
    connection: sqlite3.Connection,
) -> None:
    text = "SELECT * FROM tasks AS t WHERE t.worker = $2"

    assert [step for step in plan(connection, text) if _scanned(step, text)] == ["SCAN t"]


def test_due_tasks_are_found_by_their_due_time(connection: sqlite3.Connection) -> None:
    steps = "\n".join(plan(connection, s.due.DUE))

    assert "SEARCH t USING INDEX tasks_due (due_at>? AND due_at<?)" in steps or (
        "SEARCH t USING INDEX tasks_due (due_at<?)" in steps
    )
    assert "SEARCH t USING INDEX timers_due (due_at<?)" in steps


def test_messages_are_looked_for_among_the_hinted_only(connection: sqlite3.Connection) -> None:
    steps = [step for step in plan(connection, s.due.DUE) if "mailbox" in step]

    assert steps == ["SCAN m USING INDEX mailbox_hinted", "SCAN b USING INDEX mailbox_hinted"]


@pytest.mark.parametrize("name", ["CANCEL_CHILDREN", "TELL_CHILDREN", "OPEN_CHILDREN"])
def test_open_children_are_found_without_the_items_beside_them(
    connection: sqlite3.Connection, name: str
) -> None:
    steps = plan(connection, getattr(s.wholes, name))

    assert [step for step in steps if " t " in step] == [
        step for step in steps if "tasks_children (run_id=? AND child>?)" in step
    ]
    assert any("tasks_children" in step for step in steps)


@pytest.mark.parametrize("name", ["DUE", "PULSE"])
def test_a_draining_run_is_asked_for_its_lingering_leases_only(
    connection: sqlite3.Connection, name: str
) -> None:
    steps = plan(connection, getattr(s.due, name))

    assert "SEARCH k USING INDEX tasks_lingering (run_id=? AND lease_until>?)" in steps


def test_the_next_message_is_found_from_the_one_before(connection: sqlite3.Connection) -> None:
    steps = "\n".join(plan(connection, s.load.LOAD))

    assert "(namespace=? AND event=? AND key=? AND (posted_at,id)>(?,?))" in steps


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("RUNS", "runs_newest"),
        ("TOP_RUNS", "runs_top"),
        ("CHILD_RUNS", "runs_by_parent"),
        ("REPLAYS", "runs_by_source"),
    ],
)
def test_a_page_of_runs_comes_out_of_its_own_index(
    connection: sqlite3.Connection, name: str, index: str
) -> None:
    """Catalogue J10."""
    steps = plan(connection, getattr(s.reads, name))

    assert any(f"USING INDEX {index}" in step for step in steps)
    assert not [step for step in steps if "TEMP" in step]


def test_candidates_come_sorted_out_of_their_index(connection: sqlite3.Connection) -> None:
    steps = plan(connection, HOT["CANDIDATES"])

    assert "SEARCH r USING COVERING INDEX ready_by_queue (queue=?)" in steps
    assert steps.count("USE TEMP B-TREE FOR ORDER BY") == 2, "only the merged few are sorted"


def plan(connection: sqlite3.Connection, text: str) -> list[str]:
    binding: dict[str, object] = {str(n): "[]" for n in range(1, PARAMS_MAX + 1)} | {"now": 1}
    rows = connection.execute("EXPLAIN QUERY PLAN " + SQLITE.fill(text), binding).fetchall()
    return [row[3] for row in rows]


def _scanned(step: str, text: str) -> str | None:
    """The table that a step scans, by its name or alias."""
    match = re.match(r"SCAN (\w+)", step)
    if match is None or "VIRTUAL TABLE" in step:
        return None
    names = {alias: table for table, alias in re.findall(r"(\w+) AS (\w+)", text)}
    table = names.get(match[1], match[1])
    return table if table in TABLES else None
