-- Everything the engine keeps. Text ids that sort by time, so clustered keys that begin with run_id
-- are appended to. Instants and durations are microseconds. No foreign keys: the small work tables
-- (ready, timers, waits, mailbox, run_keys, workers) lose their rows when done.

CREATE TABLE definitions (
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version >= 1),
  hash TEXT NOT NULL,
  source TEXT NOT NULL,
  graph TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (namespace, name, version)
) STRICT;
CREATE INDEX definitions_by_hash ON definitions (hash);

CREATE TABLE runs (
  run_id TEXT NOT NULL PRIMARY KEY,
  namespace TEXT NOT NULL,
  workflow TEXT NOT NULL,
  version INTEGER NOT NULL,
  definition TEXT NOT NULL,
  key TEXT,
  state TEXT NOT NULL CHECK (
    state IN ('pending', 'running', 'closing', 'success', 'failed', 'cancelled', 'timed_out')
  ),
  paused INTEGER NOT NULL CHECK (paused IN (0, 1)),
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  output TEXT,
  error TEXT,
  CHECK ((ended_at IS NULL) = (state IN ('pending', 'running', 'closing')))
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_by_state ON runs (namespace, state);
CREATE INDEX runs_newest ON runs (namespace, run_id);

CREATE TABLE run_states (
  run_id TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL CHECK (seq >= 1),
  at INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (
    state IN ('pending', 'running', 'closing', 'success', 'failed', 'cancelled', 'timed_out')
  ),
  paused INTEGER NOT NULL CHECK (paused IN (0, 1)),
  nodes TEXT NOT NULL,
  edges TEXT NOT NULL,
  rest TEXT NOT NULL,
  quarantine TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
  run_id TEXT NOT NULL,
  place TEXT NOT NULL,
  -- decided columns: only a commit writes them
  node INTEGER NOT NULL,
  name TEXT NOT NULL,
  queue TEXT NOT NULL,
  priority INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'retry', 'success', 'dead', 'cancelled')),
  attempt INTEGER NOT NULL,
  lost INTEGER NOT NULL,
  input_seq INTEGER NOT NULL,
  timeout_us INTEGER,
  heartbeat_us INTEGER,
  queue_timeout_us INTEGER,
  total_until INTEGER,
  queue_until INTEGER,
  held INTEGER NOT NULL CHECK (held IN (0, 1)),
  ended_lease TEXT,
  -- lease columns: grants, heartbeats and releases write them; all set or none
  lease_id TEXT,
  worker TEXT,
  leased_at INTEGER,
  lease_until INTEGER,
  attempt_until INTEGER,
  heartbeat_until INTEGER,
  released_at INTEGER,
  -- when recovery has to look: a lease never reaches beyond attempt_until; waiting for a worker
  -- counts anew from a release
  due_at INTEGER GENERATED ALWAYS AS (
    CASE
      WHEN state <> 'pending' THEN NULL
      WHEN lease_id IS NOT NULL THEN min(lease_until, coalesce(heartbeat_until, lease_until))
      ELSE max(queue_until, coalesce(released_at + queue_timeout_us, queue_until))
    END
  ) VIRTUAL,
  PRIMARY KEY (run_id, place),
  CHECK ((lease_id IS NULL) = (worker IS NULL)),
  CHECK ((lease_id IS NULL) = (leased_at IS NULL)),
  CHECK ((lease_id IS NULL) = (lease_until IS NULL)),
  CHECK (lease_until <= attempt_until)
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_due ON tasks (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE events (
  run_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  place TEXT NOT NULL,
  data TEXT NOT NULL,
  PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE payloads (
  run_id TEXT NOT NULL,
  place TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('input', 'output', 'error', 'vars')),
  seq INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (run_id, place, kind, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE ready (
  run_id TEXT NOT NULL,
  place TEXT NOT NULL,
  queue TEXT NOT NULL,
  name TEXT NOT NULL,
  priority INTEGER NOT NULL,
  since INTEGER NOT NULL,
  PRIMARY KEY (run_id, place)
) STRICT, WITHOUT ROWID;
-- name last: rows that no worker here knows are skipped inside the index
CREATE INDEX ready_by_queue ON ready (queue, priority DESC, since, run_id, place, name);

CREATE TABLE timers (
  run_id TEXT NOT NULL,
  place TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('backoff', 'total', 'wait', 'event', 'run', 'continue')),
  due_at INTEGER NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (run_id, place, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX timers_due ON timers (due_at);

CREATE TABLE waits (
  run_id TEXT NOT NULL,
  place TEXT NOT NULL,
  namespace TEXT NOT NULL,
  event TEXT NOT NULL,
  key TEXT NOT NULL,
  version INTEGER NOT NULL,
  opened_at INTEGER NOT NULL,
  PRIMARY KEY (run_id, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX waits_by_address ON waits (namespace, event, key, opened_at, run_id, place);

CREATE TABLE mailbox (
  id TEXT NOT NULL PRIMARY KEY,
  namespace TEXT NOT NULL,
  event TEXT NOT NULL,
  key TEXT NOT NULL,
  payload TEXT NOT NULL,
  event_id TEXT,
  posted_at INTEGER NOT NULL,
  keep_until INTEGER NOT NULL,
  -- a used message stays, without its payload, so that its event_id is known until keep_until
  used INTEGER NOT NULL CHECK (used IN (0, 1)),
  -- a wait for its address was open when it came, or was opened since: a look at it may pay
  hinted INTEGER NOT NULL CHECK (hinted IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE INDEX mailbox_by_address ON mailbox (namespace, event, key, posted_at, id) WHERE used = 0;
CREATE INDEX mailbox_hinted ON mailbox (namespace, event, key, posted_at, id)
  WHERE used = 0 AND hinted = 1;
CREATE UNIQUE INDEX mailbox_event_ids ON mailbox (namespace, event_id) WHERE event_id IS NOT NULL;
CREATE INDEX mailbox_kept ON mailbox (keep_until);

CREATE TABLE run_keys (
  namespace TEXT NOT NULL,
  workflow TEXT NOT NULL,
  key TEXT NOT NULL,
  run_id TEXT NOT NULL,
  PRIMARY KEY (namespace, workflow, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
  id TEXT NOT NULL PRIMARY KEY,
  queues TEXT NOT NULL,
  names TEXT NOT NULL,
  labels TEXT NOT NULL,
  capacity INTEGER NOT NULL,
  version TEXT NOT NULL,
  incarnation TEXT NOT NULL,
  busy INTEGER NOT NULL,
  lag_us INTEGER NOT NULL,
  seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
