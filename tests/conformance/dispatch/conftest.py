"""Every dispatch, on SQLite in memory and on PostgreSQL, with the real time: hints are about moments."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.support.backing.postgres import start_postgres
from tests.support.backing.redis import Redis, start_redis
from tests.support.dispatching import (
    Coordinator,
    Kind,
    database_dispatch,
    redis_dispatch,
    url_of,
)
from tests.support.shared_store import ShelvedDatabase

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.sql.engine import SqlEngine
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import open_engine


class Stage:
    """One store, one Redis, any number of coordinators."""

    def __init__(self, kind: Kind, store: SqlStore, redis: Redis | None) -> None:
        self.kind = kind
        self.store = store
        self.redis = redis
        self._coordinators: list[Coordinator] = []

    async def coordinator(self, name: str, *, store: Any = None, **more: Any) -> Coordinator:
        """One that runs; `store`: the store as it sees it."""
        store = store or self.store
        if self.redis is None:
            make = database_dispatch(store)
        else:
            own = {key: more.pop(key) for key in ("link", "window", "shards") if key in more}
            make = redis_dispatch(store, url_of(self.redis), **own)
        coordinator = Coordinator(name, self.store, make, **more)
        self._coordinators.append(coordinator)
        return await coordinator.start()

    async def close(self) -> None:
        for coordinator in self._coordinators:
            await coordinator.kill()


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, Redis]]:
    """Started on first use, emptied for each test."""
    made: dict[str, Redis] = {}
    yield made
    for server in made.values():
        server.close()


@pytest.fixture(scope="session")
def database() -> Iterator[list[ShelvedDatabase]]:
    """A database of PostgreSQL, made at its first use."""
    made: list[ShelvedDatabase] = []
    yield made
    for each in made:
        each.close()


@pytest.fixture(
    params=["database", "valkey", "redis", "cluster", "database-postgres", "valkey-postgres"]
)
async def stage(
    request: pytest.FixtureRequest, servers: dict[str, Redis], database: list[ShelvedDatabase]
) -> AsyncIterator[Stage]:
    kind, _, place = request.param.partition("-")
    redis = None
    if kind != "database":
        if kind not in servers:
            servers[kind] = (
                start_redis("valkey", cluster=2) if kind == "cluster" else start_redis(kind)
            )
        redis = servers[kind]
        redis.flush()
    engine: SqlEngine
    if place:
        if not database:
            database.append(ShelvedDatabase(start_postgres()))
        engine = await database[0].open()
    else:
        engine = open_engine(":memory:", SystemClock())
    stage = Stage(kind, SqlStore(engine), redis)
    yield stage
    await stage.close()
    await engine.close()
