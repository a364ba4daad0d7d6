"""Partitions of what grows with the runs: made ahead, looked after, dropped when nothing in them lives.

A partition holds the runs of a span of time, by the time in their ids. There is no default one: a row without a
partition is refused with a clear error, where a default one would have to be moved under locks later.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import UTC, datetime

import asyncpg

from tenuto.adapters.postgres.address import Address
from tenuto.adapters.postgres.connecting import Link
from tenuto.adapters.postgres.errors import translate
from tenuto.adapters.postgres.opening import linked, read_now
from tenuto.model.errors import Conflict, NotFound, TenutoError
from tenuto.model.ids import first_run_id
from tenuto.model.instants import format_instant
from tenuto.runtime.logging import get_logger
from tenuto.runtime.service import pause

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
SPAN_US = 7 * DAY_US
AHEAD = 4
"""Partitions made before they are needed."""
LOOK_US = 30_000_000
"""A partition of now that somebody took away is made again so soon."""
_MONDAY_US = 4 * DAY_US  # 1970-01-05
_BEFORE_US = HOUR_US
"""Ids are drawn a moment before their rows are written, by clocks that may lie back a little."""
DETACH_S = 60

# `run_states` first: without its row a run can be neither decided nor started.
TABLES = ("run_states", "runs", "tasks", "events", "payloads", "notes")
_UPDATED = {"run_states": 70, "runs": 85, "tasks": 70}
"""Fill factors: a new version of a row has its place on the same page."""

_BOUND = re.compile(r"FROM \('([^']*)'\) TO \('([^']*)'\)")
_NAME = re.compile(r"[a-z0-9_]+")

_LIST = """
SELECT p.relname, c.relname, pg_get_expr(c.relpartbound, c.oid), i.inhdetachpending
FROM pg_inherits AS i
JOIN pg_class AS c ON c.oid = i.inhrelid
JOIN pg_class AS p ON p.oid = i.inhparent
WHERE p.relnamespace = to_regnamespace(current_schema()) AND p.relkind = 'p'
  AND p.relname = ANY($1)
ORDER BY 1, 2
"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('tenuto/' || current_schema(), 0))"
_OPEN = "state IN ('pending', 'running', 'closing')"

_log = get_logger("partitions")


@dataclass(frozen=True, slots=True)
class Partition:
    """A span of run ids, [first, end), of all tables. `suffix` is what its tables' names end with."""

    suffix: str
    first: str
    end: str


@dataclass(frozen=True, slots=True)
class _Piece:
    table: str
    name: str
    first: str
    end: str
    pending: bool


def planned(
    now: int, *, span_us: int, ahead: int, have: list[tuple[str, str]]
) -> list[tuple[int, int]]:
    """Spans of time that have no partition yet: from a little before now to `ahead` spans after it.

    Args:
        have: bounds that exist, as texts; of whatever span they were made.
    """
    start = now - _BEFORE_US
    begin = (start - _MONDAY_US) // span_us * span_us + _MONDAY_US
    taken = sorted(have)
    found = []
    for n in range(ahead + 2):
        at, end = begin + n * span_us, begin + (n + 1) * span_us
        if at > now + ahead * span_us:
            break
        # An existing one may lie across: only the gaps are made.
        for first, last in taken:
            if first <= first_run_id(at) < last:
                at = max(at, time_of(last))
            elif first_run_id(at) < first < first_run_id(end):
                found.append((at, time_of(first)))
                at = time_of(last)
        if at < end:
            found.append((at, end))
    return found


def time_of(bound: str) -> int:
    """The moment of a bound, in microseconds."""
    return int(bound.replace("-", "")[:12].ljust(12, "0"), 16) * 1_000


def suffix_of(at: int, span_us: int) -> str:
    """What the tables of a partition that begins then are called after."""
    begin = datetime.fromtimestamp(at / 1_000_000, UTC)
    return f"{begin:%Y%m%d}" if span_us % DAY_US == 0 else f"{begin:%Y%m%d_%H%M%S}"


async def list_all(link: Link) -> list[Partition]:
    """Partitions by time, oldest first, as the table `runs` has them."""
    return [
        Partition(piece.name.removeprefix("runs_p"), piece.first, piece.end)
        for piece in sorted(await _pieces(link), key=lambda piece: piece.first)
        if piece.table == "runs"
    ]


async def ensure(
    link: Link, *, now: int, span_us: int = SPAN_US, ahead: int = AHEAD
) -> tuple[str, ...]:
    """Make what is missing from now on; names of the new ones. Safe on every replica at once."""
    if not _missing(await _pieces(link), now, span_us, ahead):
        return ()
    await link.raw.execute(link.begin)
    try:
        await link.raw.execute(_LOCK)
        missing = _missing(await _pieces(link), now, span_us, ahead)
        for table, at, end in missing:
            await _make(link, table, at, end, span_us)
        await link.raw.execute("COMMIT")
    finally:
        if not link.raw.is_closed() and link.raw.is_in_transaction():
            await link.raw.execute("ROLLBACK")
    return tuple(dict.fromkeys(suffix_of(at, span_us) for _, at, _ in missing))


async def covers(link: Link, now: int) -> bool:
    """Whether each table has a partition for runs of this moment."""
    at = first_run_id(now)
    return {p.table for p in await _pieces(link) if p.first <= at < p.end} == {*TABLES}


async def may_drop(link: Link, suffix: str) -> int:
    """Whether `drop` would, just now: how many runs would go. Raises as that."""
    pieces = [p for p in await _pieces(link) if p.name == f"{p.table}_p{suffix}"]
    if not pieces and not await _loose(link, suffix):
        raise NotFound("partition", suffix, "list them: tenuto db partitions")
    _refuse_needed(pieces, suffix, await read_now(link))
    runs = 0
    for piece in pieces:
        if piece.table == "runs":
            await _refuse_live(link, piece)
            runs = int(await link.raw.fetchval(f"SELECT count(*) FROM {piece.name}"))
    return runs


async def drop(link: Link, suffix: str) -> None:
    """Drop a partition of all tables, for good.

    Raises NotFound; Conflict for one of now or later, and while a run in it is not over, or has a parent or a child
    that is not over.
    """
    pieces = [p for p in await _pieces(link) if p.name == f"{p.table}_p{suffix}"]
    by_table = {piece.table: piece for piece in pieces}
    loose = await _loose(link, suffix)
    if not by_table and not loose:
        raise NotFound("partition", suffix, "list them: tenuto db partitions")
    _refuse_needed(pieces, suffix, await read_now(link))
    await link.raw.execute(f"SET statement_timeout = '{DETACH_S}s'; SET lock_timeout = '10s'")
    if "runs" in by_table:
        await _refuse_live(link, by_table["runs"])
    for table in TABLES:
        piece = by_table.get(table)
        if piece is None:
            continue
        if piece.pending:
            await link.raw.execute(f"ALTER TABLE {table} DETACH PARTITION {piece.name} FINALIZE")
        else:
            await link.raw.execute(
                f"ALTER TABLE {table} DETACH PARTITION {piece.name} CONCURRENTLY"
            )
        if table == "run_states" and "runs" in by_table:
            # Nobody can change a run of it any more: what lives now was begun again just before.
            try:
                await _refuse_live(link, by_table["runs"])
            except Conflict:
                await link.raw.execute(
                    f"ALTER TABLE run_states ATTACH PARTITION {piece.name} "
                    f"FOR VALUES FROM ('{piece.first}') TO ('{piece.end}')"
                )
                raise
    if "runs" in by_table:
        bounds = (by_table["runs"].first, by_table["runs"].end)
        await link.raw.execute("DELETE FROM run_keys WHERE run_id >= $1 AND run_id < $2", *bounds)
    for name in [f"{table}_p{suffix}" for table in TABLES]:
        await link.raw.execute(f"DROP TABLE IF EXISTS {name}")


class Partitions:
    """The service that makes them ahead, on a connection of its own for each look.

    Attributes:
        problem: why runs of now, or of soon, may be refused; None while all is well.
    """

    name = "partitions"

    def __init__(
        self,
        address: Address,
        *,
        span_us: int = SPAN_US,
        ahead: int = AHEAD,
        look_us: int = LOOK_US,
    ) -> None:
        self._address = address
        self._span_us = span_us
        self._ahead = ahead
        self._look_us = min(look_us, span_us)
        self.problem: str | None = None

    async def look(self) -> None:
        """Make what is missing. Raises nothing: what is wrong stands in `problem`."""
        try:
            async with linked(self._address, name="tenuto partitions") as link:
                now = await read_now(link)
                try:
                    made = await ensure(link, now=now, span_us=self._span_us, ahead=self._ahead)
                except asyncpg.PostgresError as error:
                    made = ()
                    missing = _missing(await _pieces(link), now, self._span_us, 1)
                    if not missing:
                        _log.info("partitions_delayed", reason=str(error))
                        self.problem = None
                        return
                    raise translate(error, self._address.shown) from error
        except TenutoError as error:
            if self.problem is None:
                _log.warning("partitions_not_made", reason=str(error))
            self.problem = f"partitions cannot be made: {error}"
        else:
            if made:
                _log.info("partitions_made", names=list(made))
            self.problem = None

    async def run(self, stopping: asyncio.Event) -> None:
        """Look now and then."""
        await self.look()
        while await pause(stopping, self._look_us if self.problem is None else 5_000_000):
            await self.look()


async def _pieces(link: Link) -> list[_Piece]:
    pieces = []
    for table, name, bound, pending in await link.raw.fetch(_LIST, list(TABLES)):
        found = _BOUND.search(bound or "")
        if found:
            pieces.append(_Piece(table, name, found[1], found[2], pending))
    return pieces


async def _loose(link: Link, suffix: str) -> bool:
    """Whether an earlier drop was cut short after the last detachment."""
    if not _NAME.fullmatch(suffix):
        return False
    names = [f"{table}_p{suffix}" for table in TABLES]
    return bool(
        await link.raw.fetchval(
            "SELECT count(*) FROM unnest(CAST($1 AS text[])) AS n WHERE to_regclass(n) IS NOT NULL",
            names,
        )
    )


def _missing(
    pieces: list[_Piece], now: int, span_us: int, ahead: int
) -> list[tuple[str, int, int]]:
    return [
        (table, at, end)
        for table in TABLES
        for at, end in planned(
            now,
            span_us=span_us,
            ahead=ahead,
            have=[(piece.first, piece.end) for piece in pieces if piece.table == table],
        )
    ]


async def _make(link: Link, table: str, at: int, end: int, span_us: int) -> None:
    """Beside the parent first: to attach locks out nobody, to create a partition would."""
    name = f"{table}_p{suffix_of(at, span_us)}"
    fill = f" WITH (fillfactor = {_UPDATED[table]})" if table in _UPDATED else ""
    await link.raw.execute(
        f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS "
        f"INCLUDING GENERATED){fill}"
    )
    if table in ("run_states", "tasks"):
        await link.raw.execute(
            f"ALTER TABLE {name} SET (autovacuum_vacuum_scale_factor = 0.02, "
            "autovacuum_vacuum_threshold = 2000, autovacuum_analyze_scale_factor = 0.05)"
        )
    await link.raw.execute(
        f"ALTER TABLE {table} ATTACH PARTITION {name} "
        f"FOR VALUES FROM ('{first_run_id(at)}') TO ('{first_run_id(end)}')"
    )


def _refuse_needed(pieces: list[_Piece], suffix: str, now: int) -> None:
    """Raise Conflict for a partition whose time is not over: without it no run could be started."""
    ends = max((piece.end for piece in pieces), default="")
    if ends > first_run_id(now - _BEFORE_US):
        raise Conflict(
            f"partition {suffix} is needed: runs of now, or of later, go there until "
            f"{format_instant(time_of(ends))[:16]}Z; only what is past can be dropped"
        )


async def _refuse_live(link: Link, runs: _Piece) -> None:
    live = await link.raw.fetchval(f"SELECT run_id FROM {runs.name} WHERE {_OPEN} LIMIT 1")
    if live is not None:
        raise Conflict(f"partition {runs.name} holds run {live}, which is not over")
    parent = await link.raw.fetchrow(
        f"SELECT c.run_id, p.run_id FROM {runs.name} AS c JOIN runs AS p ON p.run_id = c.parent "
        f"WHERE p.{_OPEN} LIMIT 1"
    )
    if parent is not None:
        raise Conflict(
            f"partition {runs.name} holds run {parent[0]}, whose parent {parent[1]} is not over"
        )
    child = await link.raw.fetchrow(
        f"SELECT run_id, parent FROM runs WHERE parent >= $1 AND parent < $2 AND {_OPEN} LIMIT 1",
        runs.first,
        runs.end,
    )
    if child is not None:
        raise Conflict(
            f"partition {runs.name} holds run {child[1]}, whose child {child[0]} is not over"
        )
