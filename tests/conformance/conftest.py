"""The stores that must keep the port's promises, each on a clock turned by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.store import TurnedClock

from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import SqliteEngine, open_engine


@dataclass
class World:
    """One open store."""

    store: SqlStore
    reads: SqlReads
    clock: TurnedClock
    engine: SqliteEngine


@pytest.fixture(params=["sqlite-file", "sqlite-memory"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    clock = TurnedClock()
    path = ":memory:" if request.param == "sqlite-memory" else str(tmp_path / "tenuto.db")
    engine = open_engine(path, clock)
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
