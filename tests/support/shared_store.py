"""A PostgreSQL database with Tenuto's schema, emptied for each test: quicker than a new one each time."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.backing.postgres import Postgres, in_a_thread
from tests.support.store import START

from tenuto.adapters.postgres import opening, partitions
from tenuto.adapters.postgres.address import Address, read_address
from tenuto.adapters.postgres.engine import PostgresEngine
from tenuto.adapters.postgres.routines import Routines, make
from tenuto.adapters.sql.engine import Steps
from tenuto.ports.clock import Clock

TABLES = (
    *partitions.TABLES,
    "aliases",
    "definitions",
    "dropped_versions",
    "mailbox",
    "notices",
    "ready",
    "run_keys",
    "timers",
    "waits",
    "workers",
)
EMPTY = f"DO $$ BEGIN {' '.join(f'DELETE FROM {table};' for table in TABLES)} END $$"
YEARS_US = 520 * partitions.SPAN_US
"""One partition is enough for most tests."""


async def prepare(address: Address, moments: Sequence[int], span_us: int) -> None:
    """Schema, and partitions for these moments."""
    await opening.upgrade(address)
    async with opening.linked(address, name="tests") as link:
        for moment in moments:
            await partitions.ensure(link, now=moment, span_us=span_us, ahead=0)


def _empty() -> Steps[None]:
    yield ((EMPTY, ()),)


class ShelvedDatabase:
    """One database of a server that ends with it; partitions for runs of these moments."""

    def __init__(
        self, server: Postgres, *, moments: Sequence[int] = (START,), span_us: int = YEARS_US
    ) -> None:
        self.server = server
        self._made: set[bool] = set()  # functions, by whether the clock is the server's
        self.url = server.create_database()
        self.address = read_address(self.url)
        in_a_thread(lambda: prepare(self.address, moments, span_us))

    async def open(self, clock: Clock | None = None, *, pool: int = 4) -> PostgresEngine:
        """Empty it and open an engine on it."""
        engine = PostgresEngine(
            self.address, name="tests", draw=lambda: 0.5, pool=pool, turned_clock=clock
        )
        together = engine.sequences()
        if (clock is None) not in self._made:
            async with opening.linked(self.address, name="tests") as link:
                assert await make(link, together)
            self._made.add(clock is None)
        engine.routines = Routines(together)
        engine.start()
        await engine.write(_empty)
        return engine

    def close(self) -> None:
        self.server.close()
