"""What each server committed, noted by triggers: the database knows who speaks to it, by the name of the connection."""

from __future__ import annotations

import asyncpg

_INSTALL = """
CREATE SCHEMA IF NOT EXISTS chaos;
CREATE TABLE chaos.work (server TEXT NOT NULL, tx BIGINT NOT NULL, events INT NOT NULL, ended INT NOT NULL);
CREATE FUNCTION chaos.wrote() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO chaos.work
  SELECT current_setting('application_name'), txid_current(), count(*), 0 FROM written;
  RETURN NULL;
END $$;
CREATE FUNCTION chaos.ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO chaos.work VALUES (current_setting('application_name'), txid_current(), 0, 1);
  RETURN NULL;
END $$;
CREATE TRIGGER chaos_events AFTER INSERT ON events REFERENCING NEW TABLE AS written
  FOR EACH STATEMENT EXECUTE FUNCTION chaos.wrote();
CREATE TRIGGER chaos_runs AFTER UPDATE ON runs FOR EACH ROW
  WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION chaos.ended();
"""
BY_SERVER = """
SELECT server, count(DISTINCT tx), sum(events)::BIGINT, sum(ended)::BIGINT FROM chaos.work GROUP BY 1 ORDER BY 1
"""
"""Name of the connection, commits that decided something, events in them, runs that they ended."""


async def install(dsn: str) -> None:
    """Begin to note; the schema has to be there."""
    link = await asyncpg.connect(dsn)
    try:
        await link.execute(_INSTALL)
    finally:
        await link.close()
