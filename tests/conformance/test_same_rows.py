"""One trace of changes leaves the same rows in every store: SQLite and PostgreSQL, old and new."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.backing.postgres import start_postgres
from tests.support.shared_store import TABLES, ShelvedDatabase
from tests.support.store import (
    IDLE,
    LEASE_US,
    SECOND,
    START,
    WORKER,
    TurnedClock,
    a_beat,
    a_change,
    a_message,
    a_request,
    a_settlement,
    a_snapshot,
    a_start,
    a_success,
    a_task,
    commit,
    new_run_id,
)

from tenuto.adapters.postgres.routines import Routines
from tenuto.adapters.sql.engine import SqlEngine, Steps
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import open_engine
from tenuto.machine.events import TimerKind
from tenuto.machine.snapshot import OpenedWait, Timer
from tenuto.model.ids import LeaseId, Place
from tenuto.model.states import RunState, TaskState
from tenuto.ports.gateway import Note, NoteKind, WorkerInfo
from tenuto.ports.store import Claims, DefinitionRow, EagerGrant, NoticeKind, NoticeRow

RUNS = [new_run_id() for _ in range(6)]
KEYS = {
    "run_states": "run_id",
    "runs": "run_id",
    "tasks": "run_id, place",
    "events": "run_id, seq",
    "payloads": "run_id, place, kind, seq",
    "notes": "run_id, place, attempt, number",
    "aliases": "namespace, name, alias",
    "definitions": "namespace, name, version",
    "dropped_versions": "namespace, name, version",
    "mailbox": "id",
    "notices": "run_id, kind, place",
    "ready": "run_id, place",
    "run_keys": "namespace, workflow, key",
    "timers": "run_id, place, kind",
    "waits": "run_id, place",
    "workers": "id",
}


async def live(store: SqlStore, clock: TurnedClock) -> list[object]:
    """A bit of everything; what the store answered on the way."""
    one, two, three, four, five, six = RUNS
    said: list[object] = []
    work = [a_task(name, node=n, timeout_us=5 * SECOND) for n, name in enumerate("abc")]
    await store.put_worker(
        WorkerInfo(id=WORKER, queues=("default",), names=("work",), capacity=4),
        "engine-1",
        lease_us=LEASE_US,
    )
    row = DefinitionRow(
        namespace="default",
        name="order",
        version=1,
        hash="hash",
        source="é: ☃",
        graph="{}",
        created_at=START,
    )
    said += [await store.put_definition(row), await store.put_definition(replace(row, hash="h2"))]
    said.append(await store.put_alias("default", "order", "live", 2))
    await store.drop_version("default", "order", 1)
    await commit(
        store, *(a_start(run, *work, key=f"k-{RUNS.index(run)}") for run in (three, one, two))
    )
    clock.turn(SECOND)
    said.append(sorted((g.run_id, g.task.place) for g in await store.grant(a_request(*"12345"))))
    clock.turn(SECOND)
    beats = [
        a_beat(run, lease, place) for run in (two, one) for lease in "12345" for place in "abc"
    ]
    said.append(await store.heartbeat(WORKER, beats, IDLE, lease_us=LEASE_US))
    said.append(await store.release(WORKER, beats[:6]))
    note = Note(
        run_id=one,
        place=Place("a"),
        attempt=1,
        number=1,
        kind=NoteKind.LOG,
        text='said "\\" ☃',
        age_us=5,
    )
    said.append(
        await store.note([note, replace(note, number=0), replace(note, number=0, text="z")])
    )
    wait = OpenedWait(Place("w"), "approved", "k", 1, START)
    said.append(await store.post([a_message("m1")]))
    said.append(await store.post([a_message("m2", event_id="e")]))
    said.append(await store.post([a_message("m3", event_id="e")]))
    await commit(store, a_start(four, a_task("a"), a_task("w", node=1, state=TaskState.SUCCESS)))
    await commit(
        store,
        a_change(
            four, 1, waits=(wait,), timers=(Timer(Place("w"), TimerKind.EVENT, START + 9, 2),)
        ),
    )
    said.append(await store.due(limit=10, runs=None))
    await commit(
        store,
        a_change(
            four,
            2,
            claims=Claims(waits=((Place("w"), 1),), messages=("m1",)),  # type: ignore[arg-type]
            closed_waits=(Place("w"),),
            cleared=((Place("w"), None),),
        ),
    )
    await commit(store, a_change(one, 1, hold=True), a_change(three, 1, cancelled=(Place("b"),)))
    await commit(store, a_change(one, 2, release_at=clock.now()))
    notice = NoticeRow(run_id=six, kind=NoticeKind.START, place=Place("a"), sender=one, data="{}")
    await commit(
        store,
        a_change(
            one,
            3,
            notices=(notice,),
            waits=(replace(wait, key="other"),),
            timers=(Timer(Place(""), TimerKind.RUN, START + 99 * SECOND, 4),),
        ),
    )
    await commit(
        store,
        a_start(
            five,
            a_task("x", queue="other"),
            eager=(EagerGrant(place=Place("x"), worker=WORKER, lease_id=LeaseId("e")),),
        ),
    )
    await commit(store, a_success(five, 1, a_task("x", queue="other"), "e"))
    await commit(store, a_settlement(five, 2))
    await commit(
        store, a_change(two, 1, snapshot=a_snapshot(two, 2, state=RunState.CLOSING), close=True)
    )
    await commit(store, a_start(six, copy=(five, ())))
    await store.quarantine(three, "why")
    clock.turn(SECOND)
    said.append(await store.pulse(None))
    said.append((await store.commit([a_change(one, 1)], lease_us=LEASE_US)).losers)
    return said


async def rows_of(engine: SqlEngine) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, columns by name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for table in TABLES:

        def columns(table: str = table) -> Steps[list[str]]:
            text = (
                f"SELECT json_group_array(name) FROM pragma_table_xinfo('{table}')"
                if engine.dialect.now == "$now"
                else "SELECT json_agg(column_name) FROM information_schema.columns "
                f"WHERE table_name = '{table}' AND table_schema = 'public'"
            )
            row = yield ((text, ()),)
            assert row is not None
            return sorted(json.loads(row[0]))

        names = await engine.read(columns)

        def rows(table: str = table, names: list[str] = names) -> Steps[list[dict[str, Any]]]:
            listed = ", ".join(f"t.{name}" for name in names)
            text = (
                f"SELECT {{pack}}{listed}{{packed}} FROM "
                f"(SELECT * FROM {table} ORDER BY {KEYS[table]}) AS t"
            )
            row = yield ((engine.dialect.fill(text), ()),)
            assert row is not None
            return [dict(zip(names, each, strict=True)) for each in json.loads(row[0] or "[]")]

        found[table] = await engine.read(rows)
    return found


@pytest.mark.parametrize("version", [15, 18])
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_trace_leaves_the_same_rows_in_both(
    version: int, at_once: bool, tmp_path: Path
) -> None:
    """Catalogue I-15."""
    clock = TurnedClock()
    engine = open_engine(tmp_path / "tenuto.db", clock)
    expected_said = await live(SqlStore(engine), clock)
    expected = await rows_of(engine)
    await engine.close()

    database, clock = ShelvedDatabase(start_postgres(version)), TurnedClock()
    try:
        shared = await database.open(clock)
        if not at_once:
            shared.routines = Routines([each for each in shared.sequences() if not each.checked])
        said = await live(SqlStore(shared), clock)
        found = await rows_of(shared)
        await shared.close()
    finally:
        database.close()

    assert said == expected_said
    for table in TABLES:
        assert found[table] == expected[table], table
    assert all(found[table] for table in TABLES)
