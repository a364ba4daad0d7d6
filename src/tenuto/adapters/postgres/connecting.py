"""One connection with the settings that the engine relies on, directly or through a connection pooler.

A server takes the settings with the connection. A pooler in transaction mode (PgBouncer) does not: it refuses them, or
forgets them, and knows no prepared statements across transactions. Then each transaction says them itself (`begin`), no
statement is kept, and readings are transactions too.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from tenuto.adapters.postgres.address import Address
from tenuto.adapters.postgres.errors import is_bounced, refusal

CONNECT_S = 5.0
STATEMENTS_MAX = 512
"""Kept prepared: as many as the store has texts, so that none is planned twice."""
LOCK_MS = 2_000
STATEMENT_MS = 10_000

# Plans are made once, while tables may be empty, and kept: without these a plan that reads a whole table is chosen then
# and stays (performance.md section 5). Rows are looked up by key or read in order of an index, nothing else.
_PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_material": "off",
    "enable_memoize": "off",
    # A look-up by key must never seem dearer than a reading of the whole index.
    "random_page_cost": "0.01",
    "jit": "off",
}
_BOUNDS = {
    "lock_timeout": str(LOCK_MS),
    "statement_timeout": str(STATEMENT_MS),
    "idle_in_transaction_session_timeout": "10000",
}
_ALIVE = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


_LINEAGE = """
SELECT CASE WHEN NOT pg_is_in_recovery() THEN
  (SELECT CAST(system_identifier AS TEXT) FROM pg_control_system())
  || ', timeline ' || ltrim(left(pg_walfile_name(pg_current_wal_lsn()), 8), '0')
END
"""


@dataclass(slots=True)
class Link:
    """An open connection.

    Attributes:
        raw: the driver's.
        bounced: a pooler stands between.
        begin: opens a transaction.
        told: what `tenuto.now` was last set to (tests that turn the clock).
        lineage: which server's data this is, and how often a standby took over; None: it does not say.
    """

    raw: asyncpg.Connection[asyncpg.Record] = field(repr=False)
    bounced: bool
    begin: str
    told: int | None = None
    lineage: str | None = None
    born: int = 0
    """The generation of connections that it belongs to."""
    used: float = 0.0
    """When it last did something, by the loop's clock."""

    def end(self) -> None:
        """Close it at once, whatever it is doing."""
        self.raw.terminate()


async def connect(address: Address, *, name: str) -> Link:
    """Open a connection to a server that takes writes.

    Args:
        name: of this process, for pg_stat_activity.

    Raises Unavailable and InvariantViolated only; the text has the cause.
    """
    settings = {**_PLANS, **_BOUNDS, **_ALIVE, "search_path": address.schema}
    raw: asyncpg.Connection[asyncpg.Record] | None = None
    try:
        async with asyncio.timeout(CONNECT_S):
            try:
                raw = await _open(address, {**settings, "application_name": name})
                bounced = await _is_pooled(raw)
                if bounced:
                    raw.terminate()
            except asyncpg.PostgresError as error:
                if not is_bounced(error):
                    raise
                bounced = True
            if bounced:
                raw = await _open(address, {}, statements=0)
            assert raw is not None
            lineage = await _lineage(raw)
    except BaseException as error:
        if raw is not None:  # one that was let in and then did not answer
            raw.terminate()
        if not isinstance(error, Exception):
            raise
        given = address.has_password or bool(os.environ.get("PGPASSWORD"))
        raise refusal(error, address.shown, user=address.user, given=given) from error
    said = "".join(f"; SET LOCAL {key} = '{value}'" for key, value in settings.items())
    return Link(raw, bounced, f"BEGIN{said if bounced else ''}", lineage=lineage)


async def _open(
    address: Address, settings: dict[str, str], *, statements: int = STATEMENTS_MAX
) -> asyncpg.Connection[asyncpg.Record]:
    return await asyncpg.connect(
        address.url,
        timeout=CONNECT_S,
        statement_cache_size=statements,
        max_cached_statement_lifetime=0,
        max_cacheable_statement_size=0,
        server_settings=settings,
        target_session_attrs=SessionAttribute.read_write if settings else None,
    )


async def _lineage(raw: asyncpg.Connection[asyncpg.Record]) -> str | None:
    """The cluster's number and its timeline, which every promotion and every restored backup counts up."""
    try:
        lineage: str | None = await raw.fetchval(_LINEAGE)
    except asyncpg.PostgresError:  # not every server lets everybody ask
        return None
    return lineage


async def _is_pooled(raw: asyncpg.Connection[asyncpg.Record]) -> bool:
    """Whether somebody else answered the handshake: a pooler invents the number of the server's process."""
    return bool(await raw.fetchval("SELECT pg_backend_pid()") != raw.get_server_pid())
