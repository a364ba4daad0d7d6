"""The gateways that must keep the port's promises: the coordinator's own, and the one over gRPC on the loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.support.gateways import Desk, a_desk
from tests.support.store import TurnedClock

from tenuto.adapters.sqlite.engine import SqliteEngine, open_engine


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
async def engine(clock: TurnedClock) -> AsyncIterator[SqliteEngine]:
    opened = open_engine(":memory:", clock)
    yield opened
    await opened.close()


@pytest.fixture(params=["near", "grpc"])
async def desk(
    request: pytest.FixtureRequest, engine: SqliteEngine, clock: TurnedClock
) -> AsyncIterator[Desk]:
    """Each promise is tried on both."""
    async with a_desk(engine, clock, remote=request.param == "grpc") as desk:
        yield desk


@pytest.fixture
async def far(engine: SqliteEngine, clock: TurnedClock) -> AsyncIterator[Desk]:
    """What only a network can do wrong."""
    async with a_desk(engine, clock, remote=True) as desk:
        yield desk
