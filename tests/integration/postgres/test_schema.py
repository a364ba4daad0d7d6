"""The schema of a PostgreSQL database: brought up, checked, refused; and its partitions, made ahead and dropped."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
from tests.support.backing.postgres import Postgres
from tests.support.store import (
    LEASE_US,
    START,
    a_settlement,
    a_start,
    a_task,
    commit,
)

from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.adapters.postgres import opening, partitions
from tenuto.adapters.postgres.address import Address, read_address
from tenuto.adapters.postgres.engine import PostgresEngine
from tenuto.adapters.postgres.looking import look
from tenuto.adapters.postgres.partitions import DAY_US, SPAN_US, Partitions
from tenuto.adapters.sql.migrate import read_migrations
from tenuto.adapters.sql.store import SqlStore
from tenuto.app.database import open_database
from tenuto.model.errors import Conflict, NotFound, Unavailable
from tenuto.model.ids import Place, RunId, child_run_id, first_run_id
from tenuto.settings.database import Database

NEWEST = len(read_migrations(opening.PACKAGE))


@pytest.fixture
def url(server: Postgres) -> Iterator[str]:
    made = server.create_database()
    yield made
    server.drop_database(made)


@pytest.fixture
def address(url: str) -> Address:
    return read_address(url)


# -- migrations ---------------------------------------------------------------------------------------------------


async def test_an_empty_database_is_brought_up_once(address: Address) -> None:
    assert await opening.current(address) == 0
    with pytest.raises(NotFound, match="tenuto db upgrade"):
        await opening.check(address)
    assert await opening.upgrade(address) == ("0001_tables",)
    assert await opening.upgrade(address) == ()
    await opening.check(address)
    assert await opening.current(address) == NEWEST


async def test_A11_many_that_bring_it_up_at_once_do_it_once(address: Address) -> None:
    """Catalogue L3, L12."""
    async with asyncio.TaskGroup() as group:
        tries = [group.create_task(opening.upgrade(address)) for _ in range(8)]
    assert sorted(len(each.result()) for each in tries) == [0] * 7 + [1]
    await opening.check(address)


async def test_a_schema_of_its_own_lies_beside_others(url: str) -> None:
    for name in ("one", "two"):
        await opening.upgrade(read_address(f"{url}?schema={name}"))
    assert await opening.current(read_address(f"{url}?options=-csearch_path%3Done")) == NEWEST
    assert await opening.current(read_address(url)) == 0


async def test_a_newer_schema_is_refused(address: Address) -> None:
    """Catalogue L4."""
    await opening.upgrade(address)
    async with opening.linked(address, name="tests") as link:
        await link.raw.execute("INSERT INTO schema_migrations VALUES (99, 'later', 'x', 1)")
    for act in (opening.check, opening.upgrade):
        with pytest.raises(Conflict, match="newer Tenuto"):
            await act(address)


async def test_a_changed_migration_is_refused(address: Address) -> None:
    await opening.upgrade(address)
    async with opening.linked(address, name="tests") as link:
        await link.raw.execute("UPDATE schema_migrations SET checksum = 'other'")
    with pytest.raises(Conflict, match="another build"):
        await opening.check(address)


async def test_tables_of_another_program_are_left_alone(address: Address) -> None:
    async with opening.linked(address, name="tests") as link:
        await link.raw.execute("CREATE TABLE runs (of_another TEXT)")
    with pytest.raises(Conflict, match="another program"):
        await opening.upgrade(address)
    async with opening.linked(address, name="tests") as link:
        assert await link.raw.fetchval("SELECT to_regclass('tasks')") is None


# -- bad addresses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("/t", "/absent_t"), "does not exist; make it with `createdb`"),
        (("tenuto:tenuto@", "tenuto:guess-7@"), "refuses the password given for the user 'tenuto'"),
        (
            ("tenuto:tenuto@", "tenuto@"),
            "wants a password of the user 'tenuto', and none was given",
        ),
        (("tenuto:tenuto@", "nobody_here:guess-7@"), "user 'nobody_here'"),
    ],
)
async def test_a_wrong_url_is_told_with_its_cure_and_without_the_password(
    url: str, change: tuple[str, str], said: str
) -> None:
    with pytest.raises(Unavailable, match=said) as raised:
        before, after = change
        await open_database(Database(url=after.join(url.rsplit(before, 1))))
    assert "guess-7" not in str(raised.value)


async def test_an_address_where_nobody_listens_is_told(url: str) -> None:
    from tests.support.backing.ports import free_port

    host, _, rest = url.rpartition(":")
    with pytest.raises(Unavailable, match="nobody listens there"):
        await opening.check(read_address(f"{host}:{free_port()}/{rest.partition('/')[2]}"))


# -- partitions ---------------------------------------------------------------------------------------------------


@pytest.fixture
async def engine(address: Address) -> AsyncIterator[PostgresEngine]:
    await opening.upgrade(address)
    async with opening.linked(address, name="tests") as link:
        for week in (0, 2):  # two of them each: now and the next
            await partitions.ensure(link, now=START + week * SPAN_US, ahead=1)
    made = PostgresEngine(address, name="tests", draw=lambda: 0.5, pool=2)
    made.start()
    yield made
    await made.close()


def a_run(week: int) -> RunId:
    return Uuid7Ids().run_id(START + week * SPAN_US)


async def suffixes(address: Address) -> list[str]:
    async with opening.linked(address, name="tests") as link:
        return [each.suffix for each in await partitions.list_all(link)]


async def drop(address: Address, suffix: str) -> None:
    async with opening.linked(address, name="tests") as link:
        await partitions.drop(link, suffix)


async def test_partitions_are_made_ahead_and_once(address: Address, engine: PostgresEngine) -> None:
    before = await suffixes(address)
    assert len(before) == 4
    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(make(address, START))
    assert await suffixes(address) == before


async def make(address: Address, now: int, **how: int) -> None:
    async with opening.linked(address, name="tests") as link:
        await partitions.ensure(link, now=now, **{"ahead": 1, **how})


async def test_another_span_fills_the_gaps_only(address: Address, engine: PostgresEngine) -> None:
    await make(address, START + 4 * SPAN_US, span_us=DAY_US, ahead=20)
    async with opening.linked(address, name="tests") as link:
        found = await partitions.list_all(link)
    assert all(a.end <= b.first for a, b in itertools.pairwise(found))
    await commit(SqlStore(engine), a_start(Uuid7Ids().run_id(START + 4 * SPAN_US + 11 * DAY_US)))


async def test_a_run_without_a_partition_is_refused_in_plain_words(engine: PostgresEngine) -> None:
    with pytest.raises(Unavailable, match="has no partition for a run of this moment"):
        await SqlStore(engine).commit([a_start(a_run(50))], lease_us=LEASE_US)


async def test_the_service_makes_them_and_says_when_it_cannot(
    address: Address, engine: PostgresEngine
) -> None:
    service = Partitions(address)
    await service.look()
    assert service.problem is None
    async with opening.linked(address, name="tests") as link:
        await commit(SqlStore(engine), a_start(Uuid7Ids().run_id(await opening.read_now(link))))
    lost = Partitions(replace(address, url=address.url.replace("tenuto:tenuto@", "tenuto:no@")))
    await lost.look()
    assert lost.problem is not None
    assert "cannot be made" in lost.problem


async def test_a_partition_whose_runs_are_over_is_dropped_whole(
    address: Address, engine: PostgresEngine
) -> None:
    """Catalogue L7."""
    store, run = SqlStore(engine), a_run(0)
    await commit(store, a_start(run, a_task(), key="k"))
    await commit(store, a_settlement(run, 1))
    before = await suffixes(address)
    [suffix] = [each for each in before if each == "20250609"]

    await drop(address, suffix)

    assert await suffixes(address) == [each for each in before if each != suffix]
    async with opening.linked(address, name="tests") as link:
        left = await link.raw.fetchval(
            "SELECT count(*) FROM pg_class WHERE relname LIKE $1", f"%_p{suffix}%"
        )
        assert left == 0
        assert await link.raw.fetchval("SELECT count(*) FROM run_keys") == 0
    with pytest.raises(NotFound):
        await drop(address, suffix)


async def test_a_partition_with_a_live_run_is_kept(
    address: Address, engine: PostgresEngine
) -> None:
    run = a_run(0)
    await commit(SqlStore(engine), a_start(run, a_task()))
    with pytest.raises(Conflict, match=f"holds run {run}, which is not over"):
        await drop(address, "20250609")
    await commit(SqlStore(engine), a_settlement(run, 1))  # it is whole


@pytest.mark.parametrize("live", ["parent", "child"])
async def test_a_partition_with_a_live_parent_or_child_is_kept(
    address: Address, engine: PostgresEngine, live: str
) -> None:
    """Catalogue L8."""
    store, parent = SqlStore(engine), a_run(0)
    child = child_run_id(START + 2 * SPAN_US, parent, Place("a"), 1, 1)
    start = a_start(child, a_task())
    assert start.new_run is not None
    await commit(store, a_start(parent, a_task()))
    await commit(store, replace(start, new_run=replace(start.new_run, parent=(parent, Place("a")))))
    await commit(store, a_settlement(child if live == "parent" else parent, 1))
    over = "20250609" if live == "child" else "20250623"
    with pytest.raises(Conflict, match=f"whose {live} .* is not over"):
        await drop(address, over)
    await commit(store, a_settlement(parent if live == "parent" else child, 1))
    await drop(address, over)


async def test_a_drop_that_was_cut_short_is_finished_by_the_next(
    address: Address, engine: PostgresEngine
) -> None:
    """Catalogue A11."""
    async with opening.linked(address, name="tests") as link:
        for table in ("run_states", "runs"):
            await link.raw.execute(
                f"ALTER TABLE {table} DETACH PARTITION {table}_p20250609 CONCURRENTLY"
            )
    await drop(address, "20250609")
    async with opening.linked(address, name="tests") as link:
        assert not await link.raw.fetchval(
            "SELECT count(*) FROM pg_class WHERE relname LIKE '%_p20250609'"
        )


async def test_a_partition_of_now_or_later_is_never_dropped_and_made_again_when_it_is_gone(
    address: Address, engine: PostgresEngine
) -> None:
    service = Partitions(address)
    await service.look()
    async with opening.linked(address, name="tests") as link:
        now = await opening.read_now(link)
        needed = [each for each in await partitions.list_all(link) if each.end > first_run_id(now)]
        for each in needed:
            for act in (partitions.may_drop, partitions.drop):
                with pytest.raises(Conflict, match=f"partition {each.suffix} is needed"):
                    await act(link, each.suffix)
        assert await partitions.covers(link, now)

        await link.raw.execute(f"DROP TABLE tasks_p{needed[0].suffix}")
        assert not await partitions.covers(link, now)
        looked = await look(address, listen=address, now_us=now)
        assert (looked.covered, looked.until is not None) == (False, True)
        await service.look()
        assert await partitions.covers(link, now)


async def test_before_a_partition_is_dropped_it_is_said_how_many_runs_go(
    address: Address, engine: PostgresEngine
) -> None:
    run = a_run(0)
    await commit(SqlStore(engine), a_start(run, a_task()))
    await commit(SqlStore(engine), a_settlement(run, 1))
    async with opening.linked(address, name="tests") as link:
        assert await partitions.may_drop(link, "20250609") == 1


async def test_a_database_without_tables_is_told_with_the_cure(address: Address) -> None:
    with pytest.raises(NotFound) as raised:
        await opening.check(address)
    cure = "make them: tenuto db upgrade"
    assert str(raised.value) == f"{address.shown} has no tables of Tenuto yet; {cure}"
