"""Opening a PostgreSQL database: its schema brought up, looked at or refused in plain words; then an engine on it.

Each migration is a transaction under an advisory lock of the schema's, so any number of processes may start at once.
What waits for a table lock gives up soon, so that nothing queues up behind it, and tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import asyncpg

from tenuto.adapters.postgres.address import Address
from tenuto.adapters.postgres.connecting import Link, connect
from tenuto.adapters.postgres.errors import LOST, state_of, translate
from tenuto.adapters.sql.migrate import (
    APPLIED,
    CREATE_TABLE,
    Migration,
    due_migrations,
    read_migrations,
)
from tenuto.model.errors import Conflict, NotFound, Unavailable
from tenuto.ports.database import VERSION_MIN

T = TypeVar("T")

PACKAGE = "tenuto.adapters.postgres.migrations"
PATIENCE_S = 60.0
"""How long a migration waits for others, and who makes functions or partitions, in tries of lock_timeout."""
_UPGRADE = "bring it up: tenuto db upgrade"
NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"
_REGISTER = """
INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES ($1, $2, $3, $4)
"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('tenuto/' || current_schema(), 0))"


@asynccontextmanager
async def linked(address: Address, *, name: str) -> AsyncIterator[Link]:
    """A connection for a while. Raises TenutoErrors only."""
    link = await connect(address, name=name)
    try:
        yield link
    except LOST as error:
        raise translate(error, address.shown) from error
    finally:
        link.end()


async def current(address: Address) -> int:
    """The schema's version; 0 if there is none yet."""
    async with linked(address, name="tenuto db") as link:
        applied = await _applied(link)
    return applied[-1][0] if applied else 0


async def check(address: Address) -> None:
    """Whether this release can work with the schema. Raises NotFound, Conflict: older, newer or somebody else's."""
    async with linked(address, name="tenuto db") as link:
        await check_schema(link, address)


async def check_schema(link: Link, address: Address) -> None:
    """The same on an open connection."""
    applied = await _applied(link)
    due = due_migrations(read_migrations(PACKAGE), applied, where=address.shown)
    if not applied:
        raise _empty(address)
    if due:
        raise Conflict(f"{address.shown} has an older schema ({applied[-1][0]}); {_UPGRADE}")


def _empty(address: Address) -> NotFound:
    error = NotFound("schema", address.shown)
    error.args = (f"{address.shown} has no tables of Tenuto yet; make them: tenuto db upgrade",)
    return error


async def due(link: Link, address: Address) -> tuple[Migration, ...]:
    """Migrations that are not applied yet. Raises Conflict: a newer or somebody else's schema."""
    known = read_migrations(PACKAGE)
    return tuple(due_migrations(known, await _applied(link), where=address.shown))


async def upgrade(address: Address) -> tuple[str, ...]:
    """Bring the schema up; what was applied, by name. Safe beside running engines and other upgrades.

    Raises Conflict (a newer or foreign schema), Unavailable.
    """
    known = read_migrations(PACKAGE)
    done: list[str] = []
    async with linked(address, name="tenuto db upgrade") as link:
        await _require_version(link, address)
        await patiently(lambda: _prepare(link, address))
        while due := due_migrations(known, await _applied(link), where=address.shown):
            if await patiently(lambda: _apply(link, address, due[0])):
                done.append(f"{due[0].version:04}_{due[0].name}")
    return tuple(done)


async def read_now(link: Link) -> int:
    """The database's time."""
    now: int = await link.raw.fetchval(NOW)
    return now


async def patiently(work: Callable[[], Awaitable[T]]) -> T:
    """Do it again while others hold a lock that it needs. Raises what it raised last."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE_S
    while True:
        try:
            return await work()
        except asyncpg.PostgresError as error:
            if state_of(error) not in ("55P03", "40P01") or loop.time() > until:
                raise
            await asyncio.sleep(0.1)


async def _prepare(link: Link, address: Address) -> bool:
    """The schema, and the table of its versions."""
    raw = link.raw
    await raw.execute(link.begin)
    try:
        await raw.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"tenuto/{address.schema}"
        )
        if not await raw.fetchval("SELECT to_regnamespace($1)", address.schema):
            await raw.execute(f"CREATE SCHEMA {address.schema}")
        if not await raw.fetchval("SELECT to_regclass('schema_migrations')"):
            await raw.execute(CREATE_TABLE)
        await raw.execute("COMMIT")
    finally:
        if not raw.is_closed() and raw.is_in_transaction():
            await raw.execute("ROLLBACK")
    return True


async def _apply(link: Link, address: Address, migration: Migration) -> bool:
    """One migration, whole or not at all. False: somebody else was first."""
    raw = link.raw
    await raw.execute(link.begin)
    try:
        await raw.execute(_LOCK)
        if migration.version in {version for version, _ in await _applied(link)}:
            return False
        await raw.execute(migration.text)
        row = (migration.version, migration.name, migration.checksum, await read_now(link))
        await raw.execute(_REGISTER, *row)
        await raw.execute("COMMIT")
    except asyncpg.DuplicateTableError as error:
        raise Conflict(
            f"{address.shown} has tables of another program ({error}); name another database, or a schema of its "
            "own: ?schema=tenuto at the end of the URL"
        ) from error
    finally:
        if not raw.is_closed() and raw.is_in_transaction():
            await raw.execute("ROLLBACK")
    return True


async def _applied(link: Link) -> list[tuple[int, str]]:
    if not await link.raw.fetchval("SELECT to_regclass('schema_migrations')"):
        return []
    return [(row[0], row[1]) for row in await link.raw.fetch(APPLIED)]


async def _require_version(link: Link, address: Address) -> None:
    number = int(await link.raw.fetchval("SHOW server_version_num"))
    if number < VERSION_MIN:
        raise Unavailable(
            f"{address.shown} is PostgreSQL {number // 10_000}; Tenuto needs {VERSION_MIN // 10_000} or newer"
        )
