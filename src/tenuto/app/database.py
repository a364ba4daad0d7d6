"""Opening a database of either kind: the one place that knows which adapter a URL means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.app.access import CLUSTER
from tenuto.coordinator.mailbox import Message, new_message
from tenuto.model.errors import InvalidInput, Unavailable
from tenuto.ports.news import News, NoNews
from tenuto.runtime.service import Service
from tenuto.settings import database as settings

if TYPE_CHECKING:
    from tenuto.adapters.postgres.address import Address
    from tenuto.adapters.sql.engine import SqlEngine
    from tenuto.ports.clock import Clock
    from tenuto.ports.database import Looked
    from tenuto.ports.reads import Reads
    from tenuto.ports.store import NewMessage

_CLUSTER = f"PostgreSQL needs {CLUSTER}"


def _healthy() -> str | None:
    return None


def _never(told: Callable[[], None]) -> None:
    """A file is no other file after all."""


async def _writable() -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An open database, and what comes with it. Close `engine` at the end, on the loop that opened it.

    Attributes:
        clock: the store's time.
        sole: nobody but this process decides about the runs in it.
        news: of other processes on it; a service, among `services` already.
        services: to be run as long as it is open.
        held: descriptors that keep others away, for children.
        place: for people, without a password.
        refusal: asks why nothing can be written just now; None while something can. Raises Unavailable.
        problem: why it may soon refuse what it takes now; None while it is well.
        doubt: why it may not have all that was committed; None while it has.
        on_fork: calls this before anything is read from a server that took over.
        warnings: what somebody should know about where it is.
    """

    engine: SqlEngine
    clock: Clock
    sole: bool
    place: str
    news: News = field(default_factory=NoNews)
    services: Sequence[Service] = ()
    held: tuple[int, ...] = ()
    refusal: Callable[[], Awaitable[str | None]] = _writable
    problem: Callable[[], str | None] = _healthy
    doubt: Callable[[], str | None] = _healthy
    on_fork: Callable[[Callable[[], None]], None] = _never
    warnings: tuple[str, ...] = ()


async def open_database(
    database: settings.Database,
    *,
    clock: Clock | None = None,
    before_commit: Callable[[], None] | None = None,
    name: str = "tenuto",
    upgrade: bool = True,
) -> Opened:
    """Open for driving runs.

    Args:
        clock: in place of the machine's (SQLite) or, in tests only, of the database's (PostgreSQL).
        before_commit: called between the last statement and each COMMIT (fault injection).
        name: of this process, for whoever looks at the server's connections.
        upgrade: bring an older schema up. False: refuse it. SQLite always does.

    Raises:
        Conflict: in use by another engine; an older, a newer or another program's schema.
        Unavailable: cannot be reached, made, read or written; says why.
    """
    if database.url is None:
        from tenuto.adapters.sqlite.engine import open_engine

        time = clock or SystemClock()
        engine = open_engine(database.place, time, before_commit=before_commit)
        return Opened(
            engine=engine,
            clock=time,
            sole=True,
            place=str(database),
            held=engine.held(),
            warnings=engine.warnings,
        )
    from tenuto.adapters.local.dice import SystemDice

    address = _address(database.url)
    from tenuto.adapters.postgres.shared import open_shared

    shared = await open_shared(
        address,
        listen=None if database.listen_url is None else _address(database.listen_url),
        pool=database.pool,
        name=name,
        draw=SystemDice().draw,
        upgrade_first=upgrade,
        turned_clock=clock,
        before_commit=before_commit,
    )
    return Opened(
        engine=shared.engine,
        clock=clock or shared.clock,
        sole=False,
        place=str(database),
        news=shared.news,
        services=(shared.partitions, shared.news),
        refusal=shared.refusal,
        problem=lambda: shared.problem,
        doubt=lambda: shared.doubt,
        on_fork=shared.engine.on_fork,
        warnings=shared.warnings,
    )


@asynccontextmanager
async def reading(database: settings.Database) -> AsyncIterator[Reads]:
    """Open for looking only, beside whoever drives it.

    Raises NotFound, Conflict (another version), Unavailable.
    """
    if database.path is not None:
        from tenuto.app.files import read_only

        with read_only(database.path) as kept:
            yield kept.reads
        return
    from tenuto.adapters.sql.reads import SqlReads

    opened = await open_database(database, name="tenuto, looking", upgrade=False)
    try:
        yield SqlReads(opened.engine)
    finally:
        await opened.engine.close()


def post_message(database: settings.Database, message: Message) -> bool:
    """Put a message into the mailbox, engine running or not. False: its event id was there already.

    Raises InvalidInput, NotFound, Conflict (another version), Unavailable.
    """
    if database.path is not None:
        from tenuto.app import files

        return files.post_message(database.path, message)
    return asyncio.run(_post(database, new_message(Uuid7Ids(), message)))


async def _post(database: settings.Database, message: NewMessage) -> bool:
    from tenuto.adapters.sql.store import SqlStore

    opened = await open_database(database, name="tenuto, sending", upgrade=False)
    try:
        [stored] = await SqlStore(opened.engine).post((message,))
    finally:
        await opened.engine.close()
    return stored


# -- the schema of a PostgreSQL database (`tenuto db`) --------------------------------------------------------------


async def upgrade_schema(database: settings.Database) -> tuple[str, ...]:
    """Bring the schema up, and make partitions ahead; names of what was applied, empty if nothing was due.

    Raises InvalidInput (not PostgreSQL), Conflict (a newer or foreign schema), Unavailable.
    """
    address = _postgres(database)
    from tenuto.adapters.postgres.opening import upgrade

    applied = await upgrade(address)
    await _make_partitions(address)
    return applied


async def due_migrations(database: settings.Database) -> tuple[str, ...]:
    """What `upgrade_schema` would apply, by name. Raises as that."""
    address = _postgres(database)
    from tenuto.adapters.postgres.opening import due, linked

    async with linked(address, name="tenuto db") as link:
        return tuple(f"{each.version:04}_{each.name}" for each in await due(link, address))


async def look_at(database: settings.Database) -> Looked:
    """What there is to know before a server starts on it. Raises InvalidInput, Conflict, Unavailable."""
    address = _postgres(database)
    from tenuto.adapters.postgres.looking import look

    listen = address if database.listen_url is None else _address(database.listen_url)
    return await look(address, listen=listen, now_us=SystemClock().now())


async def current_schema(database: settings.Database) -> int:
    """The schema's version; 0 if there is none yet. Raises InvalidInput, Unavailable."""
    address = _postgres(database)
    from tenuto.adapters.postgres.opening import current

    return await current(address)


async def check_schema(database: settings.Database) -> None:
    """Whether this release can work with the schema. Raises InvalidInput, NotFound, Conflict, Unavailable."""
    address = _postgres(database)
    from tenuto.adapters.postgres.opening import check

    await check(address)


async def list_partitions(database: settings.Database) -> Sequence[tuple[str, int, int]]:
    """(suffix, from, until) of each partition, oldest first; moments of the runs' ids."""
    address = _postgres(database)
    from tenuto.adapters.postgres import partitions
    from tenuto.adapters.postgres.opening import linked

    async with linked(address, name="tenuto db") as link:
        found = await partitions.list_all(link)
    moment = partitions.time_of
    return [(each.suffix, moment(each.first), moment(each.end)) for each in found]


async def drop_partition(database: settings.Database, suffix: str, *, dry_run: bool = False) -> int:
    """Drop all that is known of the runs of a span of time; how many. `dry_run`: only look whether that may be.

    Raises NotFound; Conflict for one of now or later, and while a run in it is not over, or has a parent or a child
    that is not over.
    """
    address = _postgres(database)
    from tenuto.adapters.postgres import partitions
    from tenuto.adapters.postgres.opening import linked

    async with linked(address, name="tenuto db") as link:
        runs = await partitions.may_drop(link, suffix)
        if not dry_run:
            await partitions.drop(link, suffix)
    return runs


async def _make_partitions(address: Address) -> None:
    from tenuto.adapters.postgres import partitions
    from tenuto.adapters.postgres.opening import linked, read_now

    async with linked(address, name="tenuto db") as link:
        await partitions.ensure(link, now=await read_now(link))


def _postgres(database: settings.Database) -> Address:
    if database.url is None:
        raise InvalidInput(
            f"{database} is a file: an engine brings it up when it opens it; for a server's database set "
            "TENUTO_DATABASE, or --database, to postgresql://user@host/name",
            path="database",
        )
    return _address(database.url)


def _address(url: str) -> Address:
    try:
        import asyncpg  # noqa: F401 - the extra may not be installed

        from tenuto.adapters.postgres.address import read_address
    except ModuleNotFoundError as error:
        raise Unavailable(_CLUSTER) from error
    return read_address(url)
