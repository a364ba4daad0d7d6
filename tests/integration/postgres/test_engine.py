"""The engine on PostgreSQL under accidents: nothing written twice, nothing half, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import pytest
from tests.support.backing.postgres import Postgres
from tests.support.backing.proxy import Proxy
from tests.support.shared_store import ShelvedDatabase

from tenuto.adapters.postgres import connecting, opening
from tenuto.adapters.postgres import engine as module
from tenuto.adapters.postgres.address import read_address
from tenuto.adapters.postgres.clock import DbClock
from tenuto.adapters.postgres.connecting import Link
from tenuto.adapters.postgres.engine import PostgresEngine
from tenuto.adapters.postgres.partitions import Partitions
from tenuto.adapters.postgres.shared import Shared
from tenuto.adapters.sql.engine import Job, Step, Steps
from tenuto.model.errors import InvariantViolated, Unavailable
from tenuto.ports.news import NoNews

COUNT = "SELECT count(*) FROM aliases WHERE namespace = $1"
ADD = "INSERT INTO aliases (namespace, name, alias, version) VALUES ($1, $2, '', 1)"


def steps(*group: Step) -> Job[Any]:
    """A job of one group; yields the first column of its last row."""

    def job() -> Steps[Any]:
        row = yield group
        return None if row is None else row[0]

    return job


def add(space: str, name: str = "x") -> Job[Any]:
    return steps((ADD, (space, name)))


async def count(engine: PostgresEngine, space: str) -> int:
    return int(await engine.read(steps((COUNT, (space,)))))


@asynccontextmanager
async def opened(url: str, *, pool: int = 3, **more: Any) -> AsyncIterator[PostgresEngine]:
    engine = PostgresEngine(read_address(url), name="tests", draw=lambda: 0.5, pool=pool, **more)
    engine.start()
    try:
        yield engine
    finally:
        await engine.close()


async def eventually(engine: PostgresEngine, space: str, seconds: float = 60.0) -> int:
    """What is stored, once it can be read. `seconds`: a limit on hangs, not a promise."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                return await count(engine, space)
            except Unavailable:
                await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is given up because the machine stood still: the tests of these bounds set them anew."""
    monkeypatch.setattr(module, "ACQUIRE_S", 100.0)
    monkeypatch.setattr(module, "AGAIN_S", 100.0)


class Door:
    """Jobs wait before it in their transactions while it is shut (`async with`): their connections are busy for as long
    as a test wants, whatever the machine does meanwhile.
    """

    NUMBER = 4711

    def __init__(self, link: Link) -> None:
        self._link = link

    async def __aenter__(self) -> Self:
        await self._link.raw.execute(f"SELECT pg_advisory_lock({self.NUMBER})")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._link.raw.execute(f"SELECT pg_advisory_unlock({self.NUMBER})")

    def wait(self) -> Job[Any]:
        """A job that ends once it is open."""
        return steps(
            ("SET LOCAL lock_timeout = 0", ()),
            ("SET LOCAL statement_timeout = 0", ()),
            (f"SELECT pg_advisory_xact_lock_shared({self.NUMBER})", ()),
        )

    async def until_waited_at(self, count: int) -> None:
        """Until so many jobs are there."""
        waiting = (
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1"
            " AND NOT granted"
        )
        async with asyncio.timeout(60):
            while await self._link.raw.fetchval(waiting, self.NUMBER) < count:  # noqa: ASYNC110 - seen from outside only
                await asyncio.sleep(0.01)


@pytest.fixture
async def door(shelved: ShelvedDatabase, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Door]:
    """Who waits there is not given up."""
    monkeypatch.setattr(module, "STATEMENT_S", 100.0)
    async with opening.linked(shelved.address, name="door") as link:
        yield Door(link)


@pytest.fixture
async def engine(shelved: ShelvedDatabase) -> AsyncIterator[PostgresEngine]:
    made = await shelved.open(pool=3)
    yield made
    await made.close()


# -- the way of a job ---------------------------------------------------------------------------------------------


async def test_a_write_is_there_for_the_next_reading(engine: PostgresEngine) -> None:
    await engine.write(add("plain"))
    assert await count(engine, "plain") == 1


async def test_a_job_that_fails_writes_nothing(engine: PostgresEngine) -> None:
    """Catalogue A3."""

    def job() -> Steps[None]:
        yield ((ADD, ("half", "x")),)
        raise InvariantViolated("the job itself")

    with pytest.raises(InvariantViolated, match="the job itself"):
        await engine.write(job)
    assert await count(engine, "half") == 0


async def test_many_jobs_go_side_by_side(engine: PostgresEngine) -> None:
    """More than there are connections; the last one stays free for what must not wait (D6)."""
    arrived: set[int] = set()

    def meet(n: int) -> Job[Any]:
        def job() -> Steps[Any]:
            arrived.add(n)
            yield (("SELECT pg_sleep(0.05)", ()),)
            yield ((ADD, ("many", str(n))),)

        return job

    async with asyncio.TaskGroup() as group:
        for n in range(20):
            group.create_task(engine.write(meet(n), durable=n != 7))
    assert await count(engine, "many") == 20


async def test_D6_heartbeats_pass_where_commits_wait(engine: PostgresEngine, door: Door) -> None:
    async with asyncio.TaskGroup() as group, door:
        busy = [group.create_task(engine.write(door.wait())) for _ in range(6)]
        await door.until_waited_at(2)
        await engine.write(add("beat"), durable=False)
        assert not any(task.done() for task in busy)


async def test_D6_who_waits_too_long_for_a_connection_is_told(
    shelved: ShelvedDatabase, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catalogue J7."""
    async with opened(shelved.url, pool=1) as engine, asyncio.TaskGroup() as group, door:
        group.create_task(engine.write(door.wait()))
        await door.until_waited_at(1)
        monkeypatch.setattr(module, "ACQUIRE_S", 0.1)
        with pytest.raises(Unavailable, match="all 1 connections were busy"):
            await engine.write(add("late"))


# -- cancelled callers (D8) ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("after_ms", [0, 1, 2, 3, 5, 8, 13, 21])
async def test_D8_a_cancelled_caller_leaves_its_job_whole(
    engine: PostgresEngine, after_ms: int
) -> None:
    space = f"cancel-{after_ms}"

    def job() -> Steps[None]:
        yield ((ADD, (space, "first")), ("SELECT pg_sleep(0.005)", ()))
        yield ((ADD, (space, "second")),)

    async with asyncio.TaskGroup() as group:
        caller = group.create_task(engine.write(job))
        await asyncio.sleep(after_ms / 1_000)
        caller.cancel()
    await asyncio.sleep(0.1)
    assert await count(engine, space) in (0, 2)


async def test_D8_a_storm_of_cancellations_costs_no_connection(engine: PostgresEngine) -> None:
    for round_ in range(10):
        async with asyncio.TaskGroup() as group:
            callers = [
                group.create_task(engine.write(add("storm", f"{round_}-{n}"))) for n in range(30)
            ]
            await asyncio.sleep(0.002 * round_)
            for caller in callers:
                caller.cancel()
    async with asyncio.timeout(60):
        await engine.write(add("storm", "last"))
    assert await count(engine, "storm") >= 1


# -- lost races (C7, D16) -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["40001", "40P01", "55P03", "23505"])
async def test_C7_a_lost_race_runs_the_whole_job_again(engine: PostgresEngine, state: str) -> None:
    tries = 0

    def job() -> Steps[int]:
        nonlocal tries
        tries += 1
        yield ((ADD, (f"race-{state}", "x")),)
        if tries < 3:
            yield ((f"DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '{state}'; END $$", ()),)
        return tries

    assert await engine.write(job) == 3
    assert await count(engine, f"race-{state}") == 1


async def test_C7_tries_are_bounded(engine: PostgresEngine) -> None:
    """By their number here, not by the time that they take."""
    tries = 0

    def job() -> Steps[None]:
        nonlocal tries
        tries += 1
        yield (("DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '40001'; END $$", ()),)

    with pytest.raises(Unavailable):
        await engine.write(job)
    assert tries == module.TRIES


async def test_C7_two_that_lock_crosswise_both_come_through(engine: PostgresEngine) -> None:
    for name in "ab":
        await engine.write(add("cross", name))
    change = "UPDATE aliases SET version = version + 1 WHERE namespace = 'cross' AND name = $1"

    def crosswise(first: str, second: str) -> Job[Any]:
        def job() -> Steps[None]:
            yield ((change, (first,)), ("SELECT pg_sleep(0.1)", ()))
            yield ((change, (second,)),)

        return job

    async with asyncio.TaskGroup() as group:
        group.create_task(engine.write(crosswise("a", "b")))
        group.create_task(engine.write(crosswise("b", "a"), durable=False))
    found = await engine.read(
        steps(("SELECT sum(version) FROM aliases WHERE namespace = 'cross'", ()))
    )
    assert int(found) == 2 + 4


async def test_C11_a_lock_that_somebody_keeps_is_not_waited_for_for_ever(
    engine: PostgresEngine, shelved: ShelvedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGAIN_S", 1.0)
    await engine.write(add("kept"))
    async with opening.linked(shelved.address, name="other") as other:
        # Also if the machine stands still: the server would end a transaction that is idle for 10 s.
        await other.raw.execute("SET idle_in_transaction_session_timeout = 0")
        await other.raw.execute("BEGIN; DELETE FROM aliases WHERE namespace = 'kept'")
        with pytest.raises(Unavailable, match="waited too long for a lock"):
            await engine.write(
                steps(("UPDATE aliases SET version = 2 WHERE namespace = 'kept'", ()))
            )
        await other.raw.execute("ROLLBACK")
    assert await count(engine, "kept") == 1


async def test_D7_a_statement_that_takes_too_long_costs_its_connection_only(
    engine: PostgresEngine,
) -> None:
    with pytest.raises(Unavailable, match="took too long"):
        await engine.write(
            steps(
                (ADD, ("slow", "x")),
                ("SET LOCAL statement_timeout = 20", ()),
                ("SELECT pg_sleep(5)", ()),
            )
        )
    assert await count(engine, "slow") == 0
    await engine.write(add("slow"))
    assert await count(engine, "slow") == 1


async def test_a_plan_that_a_migration_made_stale_is_made_anew(
    engine: PostgresEngine, shelved: ShelvedDatabase
) -> None:
    """Catalogue L2."""
    everything = steps(("SELECT * FROM aliases", ()))
    for _ in range(4):
        await engine.read(everything)
        await engine.write(everything)
    async with opening.linked(shelved.address, name="other") as other:
        await other.raw.execute("ALTER TABLE aliases ADD COLUMN more TEXT")
        try:
            await engine.read(everything)
            await engine.write(everything)
            await engine.write(everything, durable=False)
        finally:
            await other.raw.execute("ALTER TABLE aliases DROP COLUMN more")


# -- lost connections ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("after", "stored"), [(False, 0), (True, 1)])
async def test_A4_a_connection_lost_in_commit_is_unknown_and_not_run_again(
    shelved: ShelvedDatabase, proxy: Callable[[str], Proxy], after: bool, stored: int
) -> None:
    space, runs = f"unknown-{after}", 0

    def job() -> Steps[None]:
        nonlocal runs
        runs += 1
        yield ((ADD, (space, str(runs))),)

    through = proxy(shelved.url)
    async with opened(through.url(shelved.url)) as engine:
        await engine.write(add("warm", space))
        sprung = through.cut_at_commit(after=after)
        with pytest.raises(Unavailable, match="is unknown"):
            await engine.write(job)
        assert sprung.is_set()
        assert await eventually(engine, space) == stored
    assert runs == 1


async def test_a_connection_lost_before_commit_is_run_again(
    shelved: ShelvedDatabase, proxy: Callable[[str], Proxy]
) -> None:
    through = proxy(shelved.url)
    async with opened(through.url(shelved.url)) as engine:
        await engine.write(add("warm", "again"))
        through.cut()
        await engine.write(add("again"))
        assert await count(engine, "again") == 1


async def test_D19_a_network_that_swallows_everything_is_given_up(
    shelved: ShelvedDatabase, proxy: Callable[[str], Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    through = proxy(shelved.url)
    async with opened(through.url(shelved.url)) as engine:
        await engine.write(add("hole", "1"))
        through.black_hole()
        with monkeypatch.context() as patch:
            patch.setattr(module, "STATEMENT_S", 0.3)
            patch.setattr(connecting, "CONNECT_S", 0.3)
            with pytest.raises(Unavailable, match="does not answer"):
                await engine.write(add("hole", "2"))
        through.heal()
        assert await eventually(engine, "hole") == 1


async def test_D1_a_restart_is_over_in_a_moment(shelved: ShelvedDatabase, server: Postgres) -> None:
    async with opened(shelved.url) as engine:
        await engine.write(add("restart", "1"))
        await asyncio.to_thread(server.restart)
        assert await eventually(engine, "restart") == 1
        await engine.write(add("restart", "2"))
        assert engine.is_away is None


async def test_D2_a_crash_of_the_server_loses_nothing_that_was_told(
    shelved: ShelvedDatabase, server: Postgres
) -> None:
    async with opened(shelved.url) as engine:
        await engine.write(add("crash", "1"))
        await asyncio.to_thread(server.crash)
        with pytest.raises(Unavailable):
            await engine.write(add("crash", "2"))
        await asyncio.to_thread(server.start)
        assert await eventually(engine, "crash") == 1


async def test_D3_a_primary_that_became_read_only_is_left_at_once(
    shelved: ShelvedDatabase, server: Postgres
) -> None:
    """Catalogue D5."""
    name = shelved.url.rpartition("/")[2]
    async with opened(shelved.url) as engine:
        await engine.write(add("standby", "1"))
        await engine.read(steps((COUNT, ("standby",))))
        server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        try:
            with pytest.raises(Unavailable, match="read-only"):
                await engine.write(
                    steps(("SET LOCAL transaction_read_only = on", ()), (ADD, ("standby", "2")))
                )
            # No old connection is used any more, and a new one is not taken from a server that refuses writes.
            with pytest.raises(Unavailable, match="read-only"):
                await engine.write(add("standby", "3"))
        finally:
            server.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        assert await eventually(engine, "standby") == 1


async def test_D4_a_standby_that_took_over_is_told_before_anything_is_read_from_it(
    shelved: ShelvedDatabase, server: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    """It may lack the last commits: nothing remembered counts any more, and people are told."""
    async with opened(shelved.url) as engine:
        forked: list[int] = []
        engine.on_fork(lambda: forked.append(1))
        await engine.write(add("fork", "1"))
        await asyncio.to_thread(server.restart)
        assert await eventually(engine, "fork") == 1
        assert (forked, engine.forked) == ([], None)

        def promote() -> None:
            server.stop()
            (server.server.data / "standby.signal").touch()
            server.start()
            server.execute("SELECT pg_promote()")

        await asyncio.to_thread(promote)
        assert await eventually(engine, "fork") == 1
        assert forked == [1]
        assert engine.forked is not None
        assert "timeline 2; before:" in engine.forked
        await engine.write(add("fork", "2"))
        assert caplog.text.count("database_replaced") == 1


async def test_C11_whoever_asks_how_it_stands_waits_behind_nothing(
    shelved: ShelvedDatabase, door: Door
) -> None:
    async with opened(shelved.url, pool=3) as engine, asyncio.TaskGroup() as group, door:
        slow = [group.create_task(engine.write(door.wait())) for _ in range(6)]
        await door.until_waited_at(2)
        shared = Shared(engine, DbClock(), NoNews(), Partitions(shelved.address))
        async with asyncio.timeout(60):
            assert await shared.refusal() is None
        assert not any(each.done() for each in slow)


async def test_C12_a_bug_in_a_lane_is_its_jobs_error_and_the_lane_lives(
    shelved: ShelvedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shelved.url, pool=1) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(engine, "_carry_out", _bug)
            with pytest.raises(InvariantViolated, match="a bug"):
                await engine.write(add("bug"))
        await engine.write(add("bug"))
        assert await count(engine, "bug") == 1


async def _bug(*_: object) -> None:
    raise RuntimeError("a bug")


async def test_while_the_server_is_away_everybody_is_told_at_once(
    shelved: ShelvedDatabase, proxy: Callable[[str], Proxy], caplog: pytest.LogCaptureFixture
) -> None:
    through = proxy(shelved.url)
    async with opened(through.url(shelved.url)) as engine:
        await engine.write(add("away", "1"))
        through.refuse()
        for n in range(50):
            with pytest.raises(Unavailable, match=r"cannot be reached|closed the connection"):
                await engine.write(add("away", f"lost-{n}"))
        assert engine.is_away is not None
        through.heal()
        assert await eventually(engine, "away") == 1


async def test_nothing_is_taken_after_the_end(shelved: ShelvedDatabase) -> None:
    engine = await shelved.open()
    await engine.write(add("end"))
    await engine.close()
    await engine.close()
    with pytest.raises(Unavailable, match="is closed"):
        await engine.write(add("end"))


async def test_the_end_waits_for_what_was_taken(shelved: ShelvedDatabase) -> None:
    engine = await shelved.open()
    async with asyncio.TaskGroup() as group:
        writes = [group.create_task(engine.write(add("finish", str(n)))) for n in range(10)]
        await asyncio.sleep(0)
        await engine.close()
    assert all(write.exception() is None for write in writes)


async def test_D13_a_server_without_a_connection_left_slows_down_and_refuses_nobody(
    shelved: ShelvedDatabase, server: Postgres
) -> None:
    """The lanes that have one do all the work."""
    await until_nobody_is_connected(server)  # those of other tests would count
    server.execute("ALTER ROLE tenuto CONNECTION LIMIT 2")
    try:
        async with opened(shelved.url, pool=6) as engine, asyncio.TaskGroup() as group:
            for n in range(60):
                group.create_task(engine.write(add("limit", str(n))))
    finally:
        server.execute("ALTER ROLE tenuto CONNECTION LIMIT -1")
    async with opened(shelved.url) as engine:
        assert await count(engine, "limit") == 60


async def until_nobody_is_connected(server: Postgres) -> None:
    """A server sees the end of a connection a moment after it was closed."""
    there = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'tenuto'"
    async with asyncio.timeout(60):
        while server.fetch(there) != [(0,)]:  # noqa: ASYNC110 - seen from outside only
            await asyncio.sleep(0.02)
