"""D14: PgBouncer in transaction mode between the engine and the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.support.backing.pgbouncer import PgBouncer, start_pgbouncer
from tests.support.shared_store import ShelvedDatabase
from tests.support.store import a_request, a_start, a_task, commit

from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.adapters.postgres import opening
from tenuto.adapters.postgres.address import read_address
from tenuto.adapters.postgres.shared import Shared, open_shared
from tenuto.adapters.sql.store import SqlStore
from tenuto.model.ids import RunId
from tenuto.ports.store import LoadRequest


@pytest.fixture(scope="module")
def bouncer(shelved: ShelvedDatabase) -> Iterator[PgBouncer]:
    made = start_pgbouncer(shelved.server)
    yield made
    made.close()


async def opened(url: str, listen: str | None = None) -> Shared:
    return await open_shared(
        read_address(url),
        listen=None if listen is None else read_address(listen),
        name="tests",
        draw=lambda: 0.5,
        pool=6,
    )


async def test_the_store_works_through_it(shelved: ShelvedDatabase, bouncer: PgBouncer) -> None:
    """Catalogue D14."""
    shared = await opened(bouncer.dsn_of(shelved.url), shelved.url)
    store, ids = SqlStore(shared.engine), Uuid7Ids()

    async def one() -> RunId:
        run = ids.run_id(shared.clock.now())
        await commit(store, a_start(run, a_task()))
        [granted] = await store.grant(a_request(f"lease-{run}", runs=(run,)))
        assert granted.run_id == run
        loaded = await store.load(LoadRequest(runs=(run,), tasks=((run, granted.task.place),)))
        assert loaded.tasks[run, granted.task.place][1] == granted.lease
        return run

    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(one()) for _ in range(40)]
    assert len({run.result() for run in runs}) == 40
    assert not any("pooler" in warning for warning in shared.warnings)
    await shared.engine.close()


async def test_the_settings_hold_in_each_transaction(
    shelved: ShelvedDatabase, bouncer: PgBouncer
) -> None:
    """Catalogue D9."""
    async with opening.linked(read_address(bouncer.dsn_of(shelved.url)), name="tests") as link:
        assert link.bounced
        await link.raw.execute(link.begin)
        found = [
            await link.raw.fetchval(f"SHOW {name}")
            for name in ("enable_seqscan", "lock_timeout", "plan_cache_mode", "search_path")
        ]
        await link.raw.execute("COMMIT")
    assert found == ["off", "2s", "force_generic_plan", "public"]


async def test_without_a_way_past_it_there_is_a_warning(
    shelved: ShelvedDatabase, bouncer: PgBouncer
) -> None:
    shared = await opened(bouncer.dsn_of(shelved.url))
    await shared.engine.close()
    [warning] = [each for each in shared.warnings if "pooler" in each]
    assert "connection pooler" in warning
    assert "postgres.listen_url" in warning


async def test_a_server_itself_is_not_taken_for_one(shelved: ShelvedDatabase) -> None:
    async with opening.linked(shelved.address, name="tests") as link:
        assert not link.bounced
