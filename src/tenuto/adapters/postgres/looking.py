"""A look at a PostgreSQL database and at the way to it, for `tenuto db check` and `tenuto doctor`. Changes nothing."""

from __future__ import annotations

import asyncio
import time

from tenuto.adapters.postgres import partitions
from tenuto.adapters.postgres.address import Address
from tenuto.adapters.postgres.opening import due, linked, read_now
from tenuto.ports.database import Looked

LISTEN_S = 2.0

_FACTS = """
SELECT current_setting('server_version') AS version, current_setting('max_connections')::int AS most,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used,
       current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off' AS durable,
       current_setting('transaction_read_only') = 'on' AS fixed,
       coalesce((SELECT rolsuper FROM pg_roles WHERE rolname = current_user), false) AS almighty
"""


async def look(address: Address, *, listen: Address, now_us: int) -> Looked:
    """Look. `now_us`: this machine's time at the call. Raises Conflict (a newer or foreign schema), Unavailable."""
    called = time.monotonic()
    async with linked(address, name="tenuto db check") as link:
        began = time.monotonic()
        told_at = await read_now(link)
        ended = time.monotonic()
        here_at = now_us + int(((began + ended) / 2 - called) * 1_000_000)
        facts = await link.raw.fetchrow(_FACTS)
        assert facts is not None
        number = int(await link.raw.fetchval("SHOW server_version_num"))
        missing = tuple(f"{each.version:04}_{each.name}" for each in await due(link, address))
        ends = [each.end for each in await partitions.list_all(link)]
        covered = await partitions.covers(link, told_at)
        pooled = link.bounced
    return Looked(
        version=facts["version"].split()[0],
        number=number,
        due=missing,
        until=partitions.time_of(max(ends)) if ends else None,
        covered=covered,
        connections=(facts["most"], facts["used"]),
        durable=facts["durable"],
        fixed=facts["fixed"],
        almighty=facts["almighty"],
        pooled=pooled,
        hears=await _hears(listen),
        offset_us=here_at - told_at,
        round_trip_us=int((ended - began) * 1_000_000),
    )


async def _hears(address: Address) -> bool:
    """Whether a message to oneself arrives, on a channel that nobody else uses."""
    heard = asyncio.Event()

    def take(*_: object) -> None:
        heard.set()

    async with linked(address, name="tenuto db check") as link:
        channel = f"{address.channel}_check"
        await link.raw.add_listener(channel, take)
        await link.raw.execute("SELECT pg_notify($1, '')", channel)
        try:
            async with asyncio.timeout(LISTEN_S):
                await heard.wait()
        except TimeoutError:
            return False
        return True
