-- A ready row stands until its task is granted; where hints of it went: '' nowhere yet, 'database' to nobody but whoever
-- claims it here, else the epoch of the Redis that has it.

ALTER TABLE ready ADD COLUMN published TEXT NOT NULL DEFAULT '';
ALTER TABLE ready ADD COLUMN published_at INTEGER NOT NULL DEFAULT 0;
-- silent for longer, it is lost
ALTER TABLE workers ADD COLUMN lease_us INTEGER NOT NULL DEFAULT 10000000;
CREATE INDEX ready_unpublished ON ready (queue, priority DESC, since) WHERE published = '';
CREATE INDEX ready_published ON ready (published, queue, name, published_at) WHERE published > '';
