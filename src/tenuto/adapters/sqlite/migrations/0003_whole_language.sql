-- Children, items and handlers: what tasks and runs know of each other, what runs tell each other, and the life of
-- definitions. Constraints on kinds cannot be widened in place, so `timers` and `payloads` are written anew.

ALTER TABLE runs ADD COLUMN parent TEXT;
ALTER TABLE runs ADD COLUMN parent_place TEXT;
ALTER TABLE runs ADD COLUMN source TEXT;
ALTER TABLE runs ADD COLUMN compensation TEXT NOT NULL DEFAULT 'none'
  CHECK (compensation IN ('none', 'complete', 'partial'));
-- lists show runs that nobody called; children are found by whoever called them
DROP INDEX runs_by_state;
CREATE INDEX runs_by_state ON runs (namespace, state, parent);
CREATE INDEX runs_top ON runs (namespace, run_id) WHERE parent IS NULL;
CREATE INDEX runs_by_parent ON runs (parent, run_id) WHERE parent IS NOT NULL;
CREATE INDEX runs_by_place ON runs (parent, parent_place, run_id) WHERE parent IS NOT NULL;
CREATE INDEX runs_by_source ON runs (source, run_id) WHERE source IS NOT NULL;

-- decided columns
ALTER TABLE tasks ADD COLUMN child TEXT;
ALTER TABLE tasks ADD COLUMN spent INTEGER NOT NULL DEFAULT 0;
-- a JSON array, empty text for none
ALTER TABLE tasks ADD COLUMN rules TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN late INTEGER NOT NULL DEFAULT 0 CHECK (late IN (0, 1));
ALTER TABLE tasks ADD COLUMN ending TEXT NOT NULL DEFAULT '';
-- how often it was handed out, to a worker or a child; not those that came back before anybody had begun
ALTER TABLE tasks ADD COLUMN handed INTEGER NOT NULL DEFAULT 0 CHECK (handed >= 0);
UPDATE tasks SET handed = 1
WHERE lease_id IS NOT NULL OR ended_lease IS NOT NULL OR attempt > 1 OR lost > 0;
CREATE INDEX tasks_children ON tasks (run_id, child) WHERE child IS NOT NULL;
-- what a closing run waits for: leases that outlive their task
CREATE INDEX tasks_lingering ON tasks (run_id, lease_until)
  WHERE state = 'cancelled' AND lease_until IS NOT NULL;

CREATE TABLE notices (
  run_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (
    kind IN ('start', 'settled', 'cancel', 'terminate', 'pause', 'retry')
  ),
  place TEXT NOT NULL,
  sender TEXT NOT NULL,
  data TEXT NOT NULL,
  sent_at INTEGER NOT NULL,
  PRIMARY KEY (run_id, kind, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX notices_sent ON notices (sent_at);

CREATE TABLE aliases (
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  alias TEXT NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (namespace, name, alias)
) STRICT, WITHOUT ROWID;

-- deleted versions: what runs that have ended need to be read, and numbers that are not given again
CREATE TABLE dropped_versions (
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  hash TEXT NOT NULL,
  source TEXT NOT NULL,
  graph TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (namespace, name, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX dropped_versions_by_hash ON dropped_versions (hash);

CREATE TABLE new_timers (
  run_id TEXT NOT NULL,
  place TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (
    kind IN (
      'backoff', 'total', 'wait', 'event', 'heartbeat', 'child', 'run', 'closing', 'drain',
      'continue'
    )
  ),
  due_at INTEGER NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (run_id, place, kind)
) STRICT, WITHOUT ROWID;
INSERT INTO new_timers (run_id, place, kind, due_at, version)
SELECT run_id, place, kind, due_at, version FROM timers;
DROP TABLE timers;
ALTER TABLE new_timers RENAME TO timers;
CREATE INDEX timers_due ON timers (due_at) WHERE kind <> 'drain';
-- due by leases, not by time
CREATE INDEX timers_draining ON timers (run_id) WHERE kind = 'drain';

CREATE TABLE new_payloads (
  run_id TEXT NOT NULL,
  place TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (
    kind IN ('input', 'output', 'error', 'vars', 'params', 'item', 'list', 'given')
  ),
  seq INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (run_id, place, kind, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO new_payloads (run_id, place, kind, seq, text)
SELECT run_id, place, kind, seq, text FROM payloads;
DROP TABLE payloads;
ALTER TABLE new_payloads RENAME TO payloads;
