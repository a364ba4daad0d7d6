"""What a look at a shared database finds, for people who keep one. Nothing is decided by it."""

from __future__ import annotations

from dataclasses import dataclass

AWAY = "database is away: "
"""What a server's readiness begins with then."""
VERSION_MIN = 150_000
"""Of PostgreSQL, as the server numbers itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What was found.

    Attributes:
        number: of the server's version, as 150018.
        due: migrations that are not applied yet, by name.
        until: when the last partition ends, in microseconds; None: there are none.
        covered: runs of this moment have a partition.
        connections: allowed, and in use.
        durable: what is committed survives a power cut.
        fixed: it takes no writes: a standby.
        almighty: the role may do everything.
        pooled: a connection pooler stands between.
        hears: whether a NOTIFY arrives over the way for LISTEN.
        offset_us: this machine's clock against the server's.
        round_trip_us: of a short statement.
    """

    version: str
    number: int
    due: tuple[str, ...]
    until: int | None
    covered: bool
    connections: tuple[int, int]
    durable: bool
    fixed: bool
    almighty: bool
    pooled: bool
    hears: bool
    offset_us: int
    round_trip_us: int

    @property
    def is_too_old(self) -> bool:
        """Whether the server lacks what Tenuto needs."""
        return self.number < VERSION_MIN
