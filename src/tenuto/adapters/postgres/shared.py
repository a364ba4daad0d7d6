"""An open PostgreSQL database with all that belongs to it, ready for an engine among others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tenuto.adapters.postgres import opening
from tenuto.adapters.postgres.address import Address
from tenuto.adapters.postgres.clock import DbClock
from tenuto.adapters.postgres.engine import POOL, PostgresEngine
from tenuto.adapters.postgres.news import PostgresNews
from tenuto.adapters.postgres.partitions import Partitions, ensure
from tenuto.adapters.postgres.routines import Routines, make, refused
from tenuto.adapters.sql.engine import Steps
from tenuto.ports.clock import Clock
from tenuto.ports.news import News

_READ_ONLY = "SELECT current_setting('transaction_read_only')"


@dataclass(frozen=True, slots=True)
class Shared:
    """What `open_shared` opened. Its services are run by whoever asked for it."""

    engine: PostgresEngine
    clock: DbClock
    news: News
    partitions: Partitions
    warnings: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """Why runs may be refused, now or soon."""
        return self.partitions.problem

    @property
    def doubt(self) -> str | None:
        """What may be wrong with what it answers."""
        return self.engine.forked

    async def refusal(self) -> str | None:
        """Why nothing can be written just now, though it can be read. Raises Unavailable."""

        def job() -> Steps[bool]:
            row = yield ((_READ_ONLY, ()),)
            return row is not None and row[0] == "on"

        # Whoever asks how it stands must not wait behind what is stuck.
        if await self.engine.write(job, durable=False):
            return f"{self.engine.address.shown} is read-only: a standby, or no primary any more"
        return None


async def open_shared(
    address: Address,
    *,
    name: str,
    draw: Callable[[], float],
    listen: Address | None = None,
    pool: int = POOL,
    upgrade_first: bool = True,
    turned_clock: Clock | None = None,
    before_commit: Callable[[], None] | None = None,
) -> Shared:
    """Open a database for driving runs beside others.

    Args:
        address: where.
        name: of this process, for pg_stat_activity.
        draw: chance for the moments of new tries.
        listen: a way past a connection pooler, for news.
        pool: most connections of the engine's.
        upgrade_first: bring an older schema up; else it is refused.
        turned_clock: the database's time in tests.
        before_commit: called between the last statement and each COMMIT (fault injection).

    Raises Conflict, NotFound, Unavailable.
    """
    if upgrade_first:
        await opening.upgrade(address)
    async with opening.linked(address, name=name) as link:
        await opening.check_schema(link, address)
        now = await opening.read_now(link)
        await opening.patiently(lambda: ensure(link, now=now))
        warnings = await _warnings(link.raw.fetchval, pool)
        bounced = link.bounced
    clock = DbClock()
    clock.heard(now)
    engine = PostgresEngine(
        address,
        name=name,
        draw=draw,
        pool=pool,
        heard=clock.heard,
        turned_clock=turned_clock,
        before_commit=before_commit,
    )
    together = engine.sequences()
    async with opening.linked(address, name=name) as link:
        if await make(link, together):
            engine.routines = Routines(together)
        else:
            warnings += (refused(address),)
    clock.ask_by(_asking(engine))
    engine.start()
    if bounced and listen is None:
        pooled = (
            f"{address.shown} is reached through a connection pooler, which does not pass on LISTEN: replicas find "
            "each other's work by looking once a second; give postgres.listen_url, a URL of the server itself"
        )
        warnings += (pooled,)
    news = PostgresNews(listen or address, name=name, draw=draw, channel=address.channel)
    return Shared(engine, clock, news, Partitions(address), warnings)


def _asking(engine: PostgresEngine) -> Callable[[], None]:
    """Asks for the time without waiting for it; whoever asks again later makes up for an answer that never came."""

    def job() -> Steps[None]:
        row = yield ((opening.NOW, ()),)
        assert row is not None
        engine.heard(row[0])

    return lambda: engine.launch(job)


async def _warnings(ask: Callable[[str], Awaitable[Any]], pool: int) -> tuple[str, ...]:
    """What somebody should know about the server's settings."""
    found = []
    room = int(await ask("SHOW max_connections"))
    if pool * 2 > room:
        found.append(
            f"the pool of {pool} connections is more than half of the server's max_connections ({room}): "
            "a second process may find none left"
        )
    if await ask("SHOW fsync") != "on" or await ask("SHOW synchronous_commit") == "off":
        found.append("the server does not flush commits: a power cut loses work that was confirmed")
    return tuple(found)
