"""A database of an earlier release is brought up without losing a row."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.store import (
    LEASE_US,
    START,
    WORKER,
    A,
    TurnedClock,
    a_change,
    a_message,
    a_request,
    a_task,
    commit,
)

from tenuto.adapters.sql.migrate import Migration, read_migrations
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite import opening
from tenuto.adapters.sqlite.engine import open_engine
from tenuto.machine.events import TimerKind
from tenuto.machine.snapshot import Timer
from tenuto.model.ids import LeaseId, Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.ports.store import Claims, LoadRequest, PayloadRow

RUN, OLD = (
    RunId("01970000-0000-7000-8000-000000000001"),
    RunId("01960000-0000-7000-8000-000000000002"),
)
ROWS = f"""
INSERT INTO definitions VALUES ('default', 'order', 1, 'h1', 'name: order', '{{}}', {START});
INSERT INTO runs VALUES
  ('{RUN}', 'default', 'order', 1, 'h1', 'k', 'running', 0, {START}, NULL, NULL, NULL),
  ('{OLD}', 'default', 'order', 1, 'h1', NULL, 'failed', 0, {START}, {START}, NULL, '["a","error"]');
INSERT INTO run_states VALUES
  ('{RUN}', 3, {START}, 'running', 0, 'aaa', '--', '{{"live":3}}', NULL),
  ('{OLD}', 9, {START}, 'failed', 0, 'x', '', '{{"live":0}}', NULL);
INSERT INTO tasks (
  run_id, place, node, name, queue, priority, state, attempt, lost, input_seq, held, ended_lease,
  lease_id, worker, leased_at, lease_until
) VALUES
  ('{RUN}', 'a', 0, 'work', 'default', 0, 'pending', 1, 0, 1, 0, NULL, 'l1', '{WORKER}', {START},
   {START + LEASE_US}),
  ('{RUN}', 'b', 0, 'work', 'default', 0, 'pending', 1, 0, 1, 0, NULL, NULL, NULL, NULL, NULL),
  ('{RUN}', 'c', 0, 'work', 'default', 0, 'retry', 2, 0, 1, 0, 'l0', NULL, NULL, NULL, NULL),
  ('{OLD}', 'a', 0, 'work', 'default', 0, 'dead', 1, 0, 1, 0, 'l9', NULL, NULL, NULL, NULL);
INSERT INTO events VALUES ('{RUN}', 1, {START}, 'RunStarted', '', '{{}}');
INSERT INTO payloads VALUES
  ('{RUN}', 'a', 'input', 1, '{{"n":1}}'), ('{RUN}', 'b', 'input', 1, '{{"n":2}}'),
  ('{RUN}', '', 'vars', 1, '{{}}'), ('{OLD}', 'a', 'error', 9, '{{"code":"x"}}');
INSERT INTO ready VALUES ('{RUN}', 'b', 'default', 'work', 0, {START});
INSERT INTO timers VALUES
  ('{RUN}', 'c', 'backoff', {START + 5}, 3), ('{RUN}', '', 'run', {START + 9}, 1);
INSERT INTO waits VALUES ('{RUN}', 'w', 'default', 'approved', 'k', 1, {START});
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with rows, as the release before left it."""
    file = str(tmp_path / "old.db")
    known = read_migrations("tenuto.adapters.sqlite.migrations")

    def earlier(package: str) -> tuple[Migration, ...]:
        return known[:2]

    with monkeypatch.context() as patch:
        patch.setattr(opening, "read_migrations", earlier)
        connection = opening.connect(file)
        opening.migrate(connection, file, at=0)
    connection.executescript(ROWS)
    connection.close()
    return file


async def test_every_row_of_an_older_database_is_there(path: str) -> None:
    engine = open_engine(path, TurnedClock())
    reads = SqlReads(engine)
    try:
        detail = await reads.get_run(RUN)
        assert [
            (task.place, task.state, lease and lease.lease_id) for task, lease in detail.tasks
        ] == [
            ("a", "pending", "l1"),
            ("b", "pending", None),
            ("c", "retry", None),
        ]
        assert detail.tasks[1][0] == a_task("b")
        assert detail.timers == (
            Timer(Place("c"), TimerKind.BACKOFF, START + 5, 3),
            Timer(Place(""), TimerKind.RUN, START + 9, 1),
        )
        assert (detail.ready, [wait.place for wait in detail.waits]) == (("b",), ["w"])
        assert (detail.run.parent, detail.run.source, detail.run.compensation) == (
            None,
            None,
            "none",
        )
        assert len(await reads.all_payloads(RUN)) == 3
        assert (await reads.get_run(OLD)).run.error == '["a","error"]'
        assert await reads.count_runs("default", top=True) == {"failed": 1, "running": 1}
        assert (await reads.get_definition("h1")).version == 1
    finally:
        await engine.close()


async def test_what_an_older_release_handed_out_is_known(path: str) -> None:
    engine = open_engine(path, TurnedClock())
    try:
        store = SqlStore(engine)
        assert await store.started(RUN) == ("a", "c")
        assert await store.started(OLD) == ("a",)
    finally:
        await engine.close()


async def test_an_older_run_goes_on(path: str) -> None:
    clock = TurnedClock()
    engine = open_engine(path, clock)
    store, reads = SqlStore(engine), SqlReads(engine)
    try:
        (granted,) = await store.grant(a_request("l2"))
        assert (granted.task.place, granted.input) == ("b", '{"n":2}')
        new = PayloadRow(key=PayloadKey(A, PayloadKind.LIST), seq=4, text="[1]")
        timer = Timer(A, TimerKind.HEARTBEAT, START + 1, 4)
        claims = Claims(
            leases=((A, 1, LeaseId("l1")),), timers=((Place("c"), TimerKind.BACKOFF, 3),)
        )
        await commit(store, a_change(RUN, 3, claims=claims, payloads=(new,), timers=(timer,)))
        await store.post([a_message()])

        assert len((await store.due(limit=9, runs=None)).matches) == 1
        clock.turn(9)
        due = (await store.due(limit=9, runs=None)).timers
        assert [timer.kind for _, timer in due] == [TimerKind.HEARTBEAT, TimerKind.RUN]
        loaded = await store.load(LoadRequest(payloads=((RUN, new.key),)))
        assert loaded.payloads == {(RUN, new.key): "[1]"}
        assert [event.seq for event in await reads.history(RUN)] == [1, 4]
    finally:
        await engine.close()


async def test_a_database_is_brought_up_once(path: str) -> None:
    for _ in range(2):
        engine = open_engine(path, TurnedClock())
        await engine.close()

    connection = opening.connect(path)
    applied = connection.execute("SELECT version FROM schema_migrations").fetchall()
    leftovers = connection.execute(
        "SELECT name FROM sqlite_schema WHERE name LIKE 'new_%'"
    ).fetchall()
    connection.close()
    assert applied == [(n,) for n in range(1, len(applied) + 1)]
    assert leftovers == []


@pytest.mark.parametrize("kind", [*TimerKind])
async def test_every_kind_of_timer_has_its_place_in_the_table(path: str, kind: TimerKind) -> None:
    engine = open_engine(path, TurnedClock())
    try:
        timer = Timer(A, kind, START, 4)
        await commit(SqlStore(engine), a_change(RUN, 3, timers=(timer,)))
        assert timer in (await SqlReads(engine).get_run(RUN)).timers
    finally:
        await engine.close()


@pytest.mark.parametrize("kind", [*PayloadKind])
async def test_every_kind_of_payload_has_its_place_in_the_table(
    path: str, kind: PayloadKind
) -> None:
    engine = open_engine(path, TurnedClock())
    try:
        row = PayloadRow(key=PayloadKey(A, kind), seq=4, text="1")
        await commit(SqlStore(engine), a_change(RUN, 3, payloads=(row,)))
        assert row in await SqlReads(engine).all_payloads(RUN)
    finally:
        await engine.close()
