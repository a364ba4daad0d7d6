"""What `doctor` and `db check` find out of a cluster's parts, in words with cures. Looks and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tenuto.cli.console import say
from tenuto.cli.look import now_us
from tenuto.model.errors import Denied, InvalidInput, TenutoError
from tenuto.model.instants import format_duration, format_instant
from tenuto.model.version import VERSION
from tenuto.ports.access import MAKE_TOKEN
from tenuto.ports.database import Looked
from tenuto.settings import Database, Settings
from tenuto.settings.tree import Auth

OFFSET_US = 5_000_000
"""Clocks that lie further apart are worth a word; nothing goes by a machine's clock."""
SOON_US = 86_400_000_000


class Grade(StrEnum):
    """How a check went."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `cure` is empty where nothing needs to be done."""

    name: str
    grade: Grade
    found: str
    cure: str = ""


def print_checks(checks: Sequence[Check]) -> None:
    """A line for each, and one for its cure."""
    width = max(len(each.name) for each in checks)
    for each in checks:
        say(f"{each.grade:<8} {each.name:<{width}}  {each.found}")
        if each.cure:
            say(f"{'':<8} {'':<{width}}  → {each.cure}")


def of_database(database: Database, looked: Looked) -> Iterator[Check]:
    """What was found, with cures."""
    took = format_duration(looked.round_trip_us)
    yield Check("connection", Grade.OK, f"{database}, a statement takes {took}")
    yield _version(looked)
    yield _schema(looked)
    yield _partitions(looked)
    if looked.fixed:
        cure = "name the primary; with several hosts in the URL, it is found"
        yield Check("writing", Grade.ERROR, "the server takes no writes: it is a standby", cure)
    yield _news(database, looked)
    yield _connections(database, looked)
    if not looked.durable:
        cure = "set fsync and synchronous_commit to on"
        yield Check("durability", Grade.WARNING, "a power cut loses what was confirmed", cure)
    if looked.almighty:
        cure = "let the server use a role of its own that owns its schema and no more"
        yield Check("role", Grade.WARNING, "this role is a superuser", cure)
    yield _clock(looked)


def _version(looked: Looked) -> Check:
    if looked.is_too_old:
        return Check(
            "version", Grade.ERROR, f"PostgreSQL {looked.version}", "Tenuto needs 15 or newer"
        )
    return Check("version", Grade.OK, f"PostgreSQL {looked.version}")


def _schema(looked: Looked) -> Check:
    if looked.due:
        return Check("schema", Grade.ERROR, f"lacks {', '.join(looked.due)}", "tenuto db upgrade")
    return Check("schema", Grade.OK, "up to date")


def _partitions(looked: Looked) -> Check:
    if looked.until is None:
        return Check("partitions", Grade.ERROR, "there are none", "tenuto db upgrade")
    left_us, until = looked.until - now_us(), format_instant(looked.until)
    if left_us <= 0:
        return Check(
            "partitions", Grade.ERROR, f"the last one ended at {until}", "tenuto db upgrade"
        )
    if not looked.covered:
        found = "there is none for runs of this moment: no run can be started"
        return Check("partitions", Grade.ERROR, found, "tenuto db upgrade")
    if left_us < SOON_US:
        cure = "a server makes more; start one, or: tenuto db upgrade"
        return Check("partitions", Grade.WARNING, f"the last one ends at {until}", cure)
    return Check("partitions", Grade.OK, f"made until {until}")


def _news(database: Database, looked: Looked) -> Check:
    way = "by postgres.listen_url" if database.listen_url else "by the same URL"
    pooled = "through a connection pooler; " if looked.pooled else ""
    if looked.hears:
        return Check("news", Grade.OK, f"{pooled}NOTIFY arrives {way}")
    cure = "set postgres.listen_url to a URL of the server itself; until then servers look once a second"
    return Check("news", Grade.WARNING, f"{pooled}NOTIFY does not arrive {way}", cure)


def _connections(database: Database, looked: Looked) -> Check:
    most, used = looked.connections
    found = f"{most} allowed, {used} in use, {database.pool} and one wanted by each process (postgres.pool)"
    if most - used < database.pool + 1 and not looked.pooled:
        cure = "make postgres.pool smaller, or max_connections of the server larger"
        return Check("connections", Grade.WARNING, found, cure)
    return Check("connections", Grade.OK, found)


def _clock(looked: Looked) -> Check:
    apart = format_duration(abs(looked.offset_us))
    which = "ahead of" if looked.offset_us > 0 else "behind"
    found = f"this machine is {apart} {which} the server"
    if abs(looked.offset_us) < OFFSET_US:
        return Check("clock", Grade.OK, found)
    cure = (
        "runs go by the server's clock and come to no harm; tokens may seem expired: set it right"
    )
    return Check("clock", Grade.WARNING, found, cure)


# -- what else a cluster has -----------------------------------------------------------------------


def of_cluster(database: Database, settings: Settings) -> Iterator[Check]:
    """PostgreSQL, Redis, the server that commands ask, and the token for it, as far as they are named."""
    if database.is_postgres:
        yield from _of_postgres(database)
    if settings.redis.url:
        yield _of_redis(settings.redis.url)
    if settings.url:
        yield _of_server(settings)
    if settings.auth.token or settings.auth.token_file:
        yield _of_token(settings.auth)


def _of_postgres(database: Database) -> Iterator[Check]:
    from tenuto.app.database import look_at

    try:
        looked = asyncio.run(look_at(database))
    except TenutoError as error:
        yield Check("database", Grade.ERROR, str(error))
        return
    yield from of_database(database, looked)


def _of_redis(url: str) -> Check:
    from tenuto.app.dispatch import look_at_redis

    try:
        address, warning = asyncio.run(look_at_redis(url))
    except InvalidInput as error:
        return Check("redis", Grade.ERROR, str(error).removeprefix("redis.url: "))
    except TenutoError as error:
        cure = "servers make do with the database meanwhile"
        return Check("redis", Grade.WARNING, str(error), cure)
    if warning is not None:
        return Check("redis", Grade.WARNING, warning)
    return Check("redis", Grade.OK, f"{address} keeps what it is given")


def _of_server(settings: Settings) -> Check:
    from tenuto.app.access import token_of
    from tenuto.sdk.remote import Remote

    async def ask() -> tuple[str, list[str]]:
        async with Remote(settings.url, token=token_of(settings.auth)) as remote:
            found = await remote.health()
            return remote.version, list(found.get("degraded", ()))

    try:
        version, degraded = asyncio.run(ask())
    except Denied as error:
        return Check("server", Grade.ERROR, str(error))
    except TenutoError as error:
        return Check(
            "server", Grade.ERROR, str(error), "`tenuto db check` says more, where the server runs"
        )
    found = f"{settings.url} is ready, Tenuto {version}"
    if degraded:
        return Check("server", Grade.WARNING, f"{found}; {'; '.join(degraded)}")
    if version != VERSION:
        return Check(
            "server",
            Grade.WARNING,
            f"{found}, and this is {VERSION}",
            "bring the older one up to date",
        )
    return Check("server", Grade.OK, found)


def _of_token(auth: Auth) -> Check:
    from tenuto.app.access import peek_token, token_of

    try:
        claims = peek_token(token_of(auth)() or "")
    except TenutoError as error:
        return Check("token", Grade.ERROR, str(error))
    left_us = claims.expires_at - now_us()
    until = f"scope {claims.scope}, until {format_instant(claims.expires_at)}"
    if left_us <= 0:
        return Check(
            "token",
            Grade.ERROR,
            f"{until}: it has expired",
            f"get another: {MAKE_TOKEN[claims.scope]}",
        )
    if left_us < SOON_US:
        return Check(
            "token", Grade.WARNING, until, f"it ends soon; get another: {MAKE_TOKEN[claims.scope]}"
        )
    return Check("token", Grade.OK, until)
