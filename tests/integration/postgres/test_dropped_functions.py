"""The functions of a server that runs are gone: dropped, restored from before this release, or not this user's to call.

Anything else than going on would put each run into quarantine that something is decided of.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import pytest
from tests.support.backing.postgres import Postgres
from tests.support.crowd import Crowd
from tests.support.crowded import FAMILY, failing
from tests.support.shared_store import YEARS_US, ShelvedDatabase, prepare
from tests.support.store import (
    LEASE_US,
    START,
    a_change,
    a_message,
    a_start,
    a_task,
    commit,
    new_run_id,
    seq_of,
)

from tenuto.adapters.postgres import connecting, opening, routines
from tenuto.adapters.postgres import mending as module
from tenuto.adapters.postgres.address import read_address
from tenuto.adapters.postgres.engine import PostgresEngine
from tenuto.adapters.postgres.routines import Routine, Routines, make
from tenuto.adapters.postgres.shared import Shared, open_shared
from tenuto.adapters.sql.store import SqlStore
from tenuto.app.database import Opened, open_database
from tenuto.model.ids import RunId
from tenuto.runtime.backoff import Backoff
from tenuto.settings import Database

DROP = """
DO $$
DECLARE called text;
BEGIN
  FOR called IN SELECT CAST(CAST(oid AS regprocedure) AS text) FROM pg_proc WHERE proname LIKE '{}%' LOOP
    EXECUTE 'DROP FUNCTION ' || called;
  END LOOP;
END $$
"""
ALL = "tenuto\\_"
COUNT = "SELECT count(*) FROM pg_proc WHERE proname LIKE 'tenuto\\_%'"


@pytest.fixture
async def engine(server: Postgres) -> AsyncIterator[PostgresEngine]:
    made = await ShelvedDatabase(server).open(pool=4)
    yield made
    await made.close()


async def drop(engine: PostgresEngine, which: str = ALL) -> None:
    async with opening.linked(engine.address, name="tests") as link:
        await link.raw.execute(DROP.format(which))


async def count(engine: PostgresEngine) -> int:
    async with opening.linked(engine.address, name="tests") as link:
        return int(await link.raw.fetchval(COUNT))


async def until(seen: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if seen():
                return
            await asyncio.sleep(0.001)


async def until_called(engine: PostgresEngine, routines: Routines) -> None:
    await until(lambda: engine.routines is routines)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[str], int]:
    """How often something was written to the log."""
    caplog.set_level("INFO", logger="tenuto")
    return lambda name: sum(f"event={name!r}" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("which", ["tenuto\\_at\\_once\\_", ALL])
async def test_a_commit_without_its_function_goes_the_long_way_and_they_are_made_once(
    engine: PostgresEngine, said: Callable[[str], int], which: str
) -> None:
    store, run, called = SqlStore(engine), new_run_id(), engine.routines
    await commit(store, a_start(run, a_task()))
    before = await count(engine)
    await drop(engine, which)

    await commit(store, a_change(run, 1))
    assert said("functions_gone") == 1  # they may be back by now
    await until_called(engine, called)
    await commit(store, a_change(run, 2))

    assert await count(engine) == before
    assert await seq_of(store, run) == 3
    assert (said("functions_gone"), said("functions_back")) == (1, 1)


async def test_commits_in_mid_work_go_on_when_all_functions_are_dropped(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice: nothing may be left over from the first time. No commit is refused, lost or made twice."""
    monkeypatch.setattr(module, "CALM_S", 0.0)
    store, called = SqlStore(engine), engine.routines
    before = await count(engine)
    stop = asyncio.Event()

    async def work() -> int:
        run = new_run_id()
        await commit(store, a_start(run, a_task()))
        for seq in itertools.count(1):
            if stop.is_set():
                return seq - await seq_of(store, run)
            done = await store.commit([a_change(run, seq)], lease_us=LEASE_US)
            assert not done.losers
            await store.post([a_message(f"{run}-{seq}")])
        raise AssertionError

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        working = [group.create_task(work()) for _ in range(6)]
        for _ in range(2):
            await asyncio.sleep(0.2)
            await drop(engine)
            await until(lambda: engine.routines is not called)
            await until_called(engine, called)
        await asyncio.sleep(0.2)
        stop.set()

    assert [task.result() for task in working] == [0] * 6
    assert await count(engine) == before


async def test_functions_that_vanish_again_at_once_are_made_after_a_while(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[int] = []

    def next_us(backoff: Backoff) -> int:
        if backoff is engine._mending._backoff:  # others wait for locks, or for connections
            pauses.append(1)
        return 200_000

    monkeypatch.setattr(Backoff, "next_us", next_us)
    store, run, called = SqlStore(engine), new_run_id(), engine.routines
    await commit(store, a_start(run))
    for seq in (1, 2):
        await drop(engine)
        await commit(store, a_change(run, seq))
        await until_called(engine, called)
    assert len(pauses) == 1


async def test_the_copy_of_a_server_that_takes_over_is_looked_at_before_it_is_called(
    engine: PostgresEngine, said: Callable[[str], int]
) -> None:
    store, run, called = SqlStore(engine), new_run_id(), engine.routines
    await commit(store, a_start(run))
    before = await count(engine)
    await drop(engine)
    engine._lineage = "another"
    engine._generation += 1  # its connections are no good

    await commit(store, a_change(run, 1))
    await until_called(engine, called)

    assert said("database_replaced") == 1
    assert not said("functions_gone")  # nobody called what is not there
    assert await count(engine) == before


@pytest.mark.parametrize("after_s", [0, 0.01, 0.03, 0.1])
async def test_an_engine_that_is_closed_meanwhile_leaves_nothing_behind(
    engine: PostgresEngine, after_s: float
) -> None:
    store, run = SqlStore(engine), new_run_id()
    await commit(store, a_start(run))
    await drop(engine)
    await commit(store, a_change(run, 1))
    await asyncio.sleep(after_s)
    async with asyncio.timeout(20):  # shorter than a try to make them, of which it is rid
        await engine.close()
    await engine.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "postgres-functions"]


async def test_runs_go_on_when_the_functions_of_their_servers_are_dropped(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two coordinators, in mid-work: no run is put into quarantine, and none of their loops has trouble for long."""
    monkeypatch.setattr(module, "CALM_S", 0.0)
    url = server.create_database()
    journal = failing(random.Random(1), 0)

    async def again() -> Opened:
        return await open_database(Database(url=url, pool=4))

    async with Crowd(again, dice=random.Random(1)) as crowd:
        members = [await crowd.join() for _ in range(2)]
        for _ in range(2):
            crowd.hire(journal, ["work"])
        runs: list[RunId] = []
        for _ in range(3):
            runs += [await crowd.begin(FAMILY) for _ in range(4)]
            async with opening.linked(read_address(url), name="tests") as link:
                await link.raw.execute(DROP.format(ALL))
            await asyncio.sleep(0.3)
        await crowd.settle()

        assert await crowd.check() > len(runs)
        assert not journal.overlaps
        assert [member.core.health.troubles() for member in members] == [{}, {}]


# -- another user's ------------------------------------------------------------------------------------------------


async def a_role(server: Postgres, url: str, name: str, *, may_create: bool) -> str:
    """A role that works with tables of another one; the database's URL for it."""
    parts = urlsplit(url)
    create = "CREATE, " if may_create else ""
    for text in (
        f"CREATE ROLE {name} LOGIN PASSWORD '{name}'",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        f"GRANT {create}USAGE ON SCHEMA public TO {name}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {name}",
    ):
        await asyncio.to_thread(server.execute, text, parts.path.strip("/"))
    return urlunsplit(parts._replace(netloc=f"{name}:{name}@{parts.hostname}:{parts.port}"))


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Shared]:
    shared = await open_shared(
        read_address(url), name="tests", draw=lambda: 0.5, upgrade_first=False
    )
    try:
        yield shared
    finally:
        await shared.engine.close()


async def go_on(shared: Shared) -> None:
    store, run = SqlStore(shared.engine), new_run_id()
    await commit(store, a_start(run))
    await commit(store, a_change(run, 1))
    assert await seq_of(store, run) == 2


@pytest.mark.parametrize("may_create", [False, True])
async def test_functions_of_another_user_that_may_not_be_called_are_done_without(
    server: Postgres, may_create: bool
) -> None:
    url, name = server.create_database(), f"second_{may_create}".lower()
    await prepare(read_address(url), [START], YEARS_US)
    default = "ALTER DEFAULT PRIVILEGES FOR ROLE tenuto REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC"
    await asyncio.to_thread(server.execute, default, urlsplit(url).path.strip("/"))
    other = await a_role(server, url, name, may_create=may_create)

    async with opened(url) as first:
        assert first.engine.routines.all
        await go_on(first)
        async with opened(other) as second:
            assert not second.engine.routines.all
            assert any("GRANT EXECUTE" in warning for warning in second.warnings)
            await go_on(second)
        grant = f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO {name}"
        async with opening.linked(first.engine.address, name="tests") as link:
            await link.raw.execute(grant)
        async with opened(other) as second:
            assert second.engine.routines.all
            await go_on(second)


@pytest.mark.parametrize("how", ["dropped", "revoked"])
async def test_who_may_not_make_them_stays_with_statements_one_by_one(
    server: Postgres, said: Callable[[str], int], how: str
) -> None:
    url, name = server.create_database(), f"modest_{how}"
    await prepare(read_address(url), [START], YEARS_US)
    other = await a_role(server, url, name, may_create=False)
    async with opened(url) as first, opened(other) as second:
        assert second.engine.routines.all
        await go_on(second)
        if how == "dropped":
            await drop(first.engine)
        else:
            async with opening.linked(first.engine.address, name="tests") as link:
                await link.raw.execute(
                    "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC"
                )
        await go_on(second)
        await until(lambda: said("functions_refused") > 0)
        await go_on(second)
        assert not second.engine.routines.all
        assert (said("functions_gone"), said("functions_refused")) == (1, 1)
        await go_on(first)


async def test_processes_that_find_them_missing_together_make_them_once(
    engine: PostgresEngine,
) -> None:
    """As different users the second could not replace what the first has made."""
    await drop(engine)

    async def one() -> bool:
        async with opening.linked(engine.address, name="tests") as link:
            return await make(link, engine.sequences())

    assert all(await asyncio.gather(*(one() for _ in range(4))))
    assert await count(engine) == len(engine.sequences())


async def test_who_starts_while_another_makes_them_slowly_waits_for_it(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several servers start at once on a new database and a slow machine: none of them ends by that."""
    monkeypatch.setitem(connecting._BOUNDS, "lock_timeout", "20")  # ms: it is over at once
    url, again, looked = server.create_database(), asyncio.Event(), []
    await prepare(read_address(url), [START], YEARS_US)
    there = routines._there

    async def counted(link: connecting.Link, wanted: Sequence[Routine]) -> dict[str, bool]:
        looked.append(1)
        if len(looked) == 2:  # it has given up the first wait, and tries anew
            again.set()
        return await there(link, wanted)

    monkeypatch.setattr(routines, "_there", counted)
    async with opening.linked(read_address(url), name="other") as other:
        await other.raw.execute(
            f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; {routines._LOCK}"
        )
        async with asyncio.TaskGroup() as group:
            trying = group.create_task(again.wait())
            starting = group.create_task(
                open_shared(read_address(url), name="tests", draw=lambda: 0.5, upgrade_first=False)
            )
            starting.add_done_callback(lambda _: again.set())
            await trying
            await other.raw.execute("COMMIT")
    shared = starting.result()
    assert shared.engine.routines.all
    await shared.engine.close()
