"""The stores that must keep the port's promises, each on a clock turned by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.backing.postgres import start_postgres
from tests.support.shared_store import ShelvedDatabase
from tests.support.store import TurnedClock

from tenuto.adapters.postgres.routines import Routines
from tenuto.adapters.sql.engine import SqlEngine
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import open_engine


@dataclass
class World:
    """One open store."""

    store: SqlStore
    reads: SqlReads
    clock: TurnedClock
    engine: SqlEngine


@pytest.fixture(scope="session")
def shelf() -> Iterator[dict[int, ShelvedDatabase]]:
    """A database of each version of PostgreSQL, made at its first use and emptied for each test."""
    made: dict[int, ShelvedDatabase] = {}
    yield made
    for database in made.values():
        database.close()


@pytest.fixture(params=["sqlite-file", "sqlite-memory", "postgres-15", "postgres-18"])
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, shelf: dict[int, ShelvedDatabase]
) -> AsyncIterator[World]:
    clock = TurnedClock()
    kind, _, variant = str(request.param).partition("-")
    engine: SqlEngine
    if kind == "postgres":
        version = int(variant)
        if version not in shelf:
            shelf[version] = ShelvedDatabase(start_postgres(version))
        engine = shared = await shelf[version].open(clock, pool=1)
        if version == 15:  # commits go the long way, as where functions may not be made
            shared.routines = Routines([each for each in shared.sequences() if not each.checked])
    else:
        engine = open_engine(
            ":memory:" if variant == "memory" else str(tmp_path / "tenuto.db"), clock
        )
    yield World(SqlStore(engine), SqlReads(engine), clock, engine)
    await engine.close()


@pytest.fixture
def store(world: World) -> SqlStore:
    return world.store


@pytest.fixture
def reads(world: World) -> SqlReads:
    return world.reads


@pytest.fixture
def clock(world: World) -> TurnedClock:
    return world.clock
