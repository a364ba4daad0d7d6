"""A log of every right to execute, kept by triggers in the database itself: the engine does not know of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import asyncpg

_INSTALL = """
CREATE SCHEMA chaos;
CREATE TABLE chaos.leases (
  number BIGSERIAL PRIMARY KEY,
  at BIGINT NOT NULL,
  task TEXT NOT NULL,
  was TEXT,
  was_until BIGINT,
  lease TEXT,
  until BIGINT
);
CREATE FUNCTION chaos.note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  was TEXT := NULL;
  was_until BIGINT := NULL;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    was := OLD.lease_id;
    was_until := OLD.lease_until;
  END IF;
  IF was IS DISTINCT FROM NEW.lease_id OR was_until IS DISTINCT FROM NEW.lease_until THEN
    INSERT INTO chaos.leases (at, task, was, was_until, lease, until) VALUES (
      (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT, NEW.run_id || '/' || NEW.place,
      was, was_until, NEW.lease_id, NEW.lease_until
    );
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER chaos AFTER INSERT OR UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION chaos.note();
"""


@dataclass(slots=True)
class Right:
    """One lease. Microseconds of the database's clock.

    `until`: as last extended. `ended` None: it stands. `following`: the lease that took its place in the same write.
    """

    task: str
    lease: str
    granted: int
    until: int
    ended: int | None = None
    following: str | None = None

    @property
    def over(self) -> int:
        """From when on it was no right any more."""
        return self.until if self.ended is None else min(self.until, self.ended)

    @property
    def was_taken(self) -> bool:
        """Whether it was ended while it lived."""
        return self.ended is not None and self.ended < self.until


async def install(dsn: str) -> None:
    """Begin the log; the schema has to be there."""
    link = await asyncpg.connect(dsn)
    try:
        await link.execute(_INSTALL)
    finally:
        await link.close()


async def read(link: asyncpg.Connection) -> Sequence[Mapping[str, object]]:
    """The log, in the order in which it was written."""
    return [dict(r) for r in await link.fetch("SELECT * FROM chaos.leases ORDER BY number")]


def rights(log: Iterable[Mapping[str, object]]) -> dict[str, Right]:
    """Every lease that there ever was, by its id."""
    found: dict[str, Right] = {}
    for row in log:
        was, lease, at = row["was"], row["lease"], row["at"]
        assert isinstance(at, int)
        if was is not None and was != lease:
            ended = found[str(was)]
            ended.ended, ended.following = at, None if lease is None else str(lease)
        if lease is not None:
            until = row["until"]
            assert isinstance(until, int)
            if lease in found:
                found[str(lease)].until = until
            else:
                found[str(lease)] = Right(str(row["task"]), str(lease), at, until)
    return found
