-- A ready row stands until its task is granted; where hints of it went: '' nowhere yet, 'database' to nobody but whoever
-- claims it here, else the epoch of the Redis that has it.

ALTER TABLE ready ADD COLUMN published TEXT NOT NULL DEFAULT '';
ALTER TABLE ready ADD COLUMN published_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX ready_unpublished ON ready (since) WHERE published = '';
