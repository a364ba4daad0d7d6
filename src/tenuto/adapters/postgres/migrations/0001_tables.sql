-- Everything the engine keeps, as SQLite's migrations 0001 to 0004 leave it. Text ids that sort by time: ranges of them
-- are the partitions of what grows with the runs, which others make (`adapters.postgres.partitions`); there is no
-- default one. Partitions are told apart by operators of their own (`~>=~`, text_pattern_ops), which no index knows: a
-- statement's bounds leave partitions out, and never tempt the planner to read a range of an index for them. Texts
-- compare byte by byte. Instants and durations are microseconds. No foreign keys: the small work tables (ready, timers,
-- waits, mailbox, notices, run_keys, workers) lose their rows when done.

CREATE TABLE definitions (
  namespace TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  version INTEGER NOT NULL CHECK (version >= 1),
  hash TEXT COLLATE "C" NOT NULL,
  source TEXT COLLATE "C" NOT NULL,
  graph TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, name, version)
);
CREATE INDEX definitions_by_hash ON definitions (hash);

CREATE TABLE aliases (
  namespace TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  alias TEXT COLLATE "C" NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (namespace, name, alias)
);

-- deleted versions: what runs that have ended need to be read, and numbers that are not given again
CREATE TABLE dropped_versions (
  namespace TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  version INTEGER NOT NULL,
  hash TEXT COLLATE "C" NOT NULL,
  source TEXT COLLATE "C" NOT NULL,
  graph TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, name, version)
);
CREATE INDEX dropped_versions_by_hash ON dropped_versions (hash);

CREATE TABLE runs (
  run_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  namespace TEXT COLLATE "C" NOT NULL,
  workflow TEXT COLLATE "C" NOT NULL,
  version INTEGER NOT NULL,
  definition TEXT COLLATE "C" NOT NULL,
  key TEXT COLLATE "C",
  state TEXT COLLATE "C" NOT NULL CHECK (
    state IN ('pending', 'running', 'closing', 'success', 'failed', 'cancelled', 'timed_out')
  ),
  paused SMALLINT NOT NULL CHECK (paused IN (0, 1)),
  created_at BIGINT NOT NULL,
  ended_at BIGINT,
  output TEXT COLLATE "C",
  error TEXT COLLATE "C",
  parent TEXT COLLATE "C",
  parent_place TEXT COLLATE "C",
  source TEXT COLLATE "C",
  compensation TEXT COLLATE "C" NOT NULL DEFAULT 'none'
    CHECK (compensation IN ('none', 'complete', 'partial')),
  CHECK ((ended_at IS NULL) = (state IN ('pending', 'running', 'closing')))
) PARTITION BY RANGE (run_id text_pattern_ops);
CREATE INDEX runs_by_state ON runs (namespace, state, parent);
CREATE INDEX runs_newest ON runs (namespace, run_id);
CREATE INDEX runs_by_workflow ON runs (namespace, workflow, run_id);
-- lists show runs that nobody called; children are found by whoever called them
CREATE INDEX runs_top ON runs (namespace, run_id) WHERE parent IS NULL;
CREATE INDEX runs_by_parent ON runs (parent, run_id) WHERE parent IS NOT NULL;
CREATE INDEX runs_by_place ON runs (parent, parent_place, run_id) WHERE parent IS NOT NULL;
CREATE INDEX runs_by_source ON runs (source, run_id) WHERE source IS NOT NULL;

CREATE TABLE run_states (
  run_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  seq BIGINT NOT NULL CHECK (seq >= 1),
  at BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL CHECK (
    state IN ('pending', 'running', 'closing', 'success', 'failed', 'cancelled', 'timed_out')
  ),
  paused SMALLINT NOT NULL CHECK (paused IN (0, 1)),
  nodes TEXT COLLATE "C" NOT NULL,
  edges TEXT COLLATE "C" NOT NULL,
  rest TEXT COLLATE "C" NOT NULL,
  quarantine TEXT COLLATE "C"
) PARTITION BY RANGE (run_id text_pattern_ops);

CREATE TABLE tasks (
  run_id TEXT COLLATE "C" NOT NULL,
  place TEXT COLLATE "C" NOT NULL,
  -- decided columns: only a commit writes them
  node INTEGER NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  queue TEXT COLLATE "C" NOT NULL,
  priority INTEGER NOT NULL,
  state TEXT COLLATE "C" NOT NULL
    CHECK (state IN ('pending', 'retry', 'success', 'dead', 'cancelled')),
  attempt INTEGER NOT NULL,
  lost INTEGER NOT NULL,
  input_seq BIGINT NOT NULL,
  timeout_us BIGINT,
  heartbeat_us BIGINT,
  queue_timeout_us BIGINT,
  total_until BIGINT,
  queue_until BIGINT,
  held SMALLINT NOT NULL CHECK (held IN (0, 1)),
  ended_lease TEXT COLLATE "C",
  child TEXT COLLATE "C",
  spent BIGINT NOT NULL DEFAULT 0,
  -- a JSON array, empty text for none
  rules TEXT COLLATE "C" NOT NULL DEFAULT '',
  late SMALLINT NOT NULL DEFAULT 0 CHECK (late IN (0, 1)),
  ending TEXT COLLATE "C" NOT NULL DEFAULT '',
  -- how often it was handed out, to a worker or a child; not those that came back before anybody had begun
  handed INTEGER NOT NULL DEFAULT 0 CHECK (handed >= 0),
  -- lease columns: grants, heartbeats and releases write them; all set or none
  lease_id TEXT COLLATE "C",
  worker TEXT COLLATE "C",
  leased_at BIGINT,
  lease_until BIGINT,
  attempt_until BIGINT,
  heartbeat_until BIGINT,
  released_at BIGINT,
  -- when recovery has to look: a lease never reaches beyond attempt_until; waiting for a worker
  -- counts anew from a release
  due_at BIGINT GENERATED ALWAYS AS (
    CASE
      WHEN state <> 'pending' THEN NULL
      WHEN lease_id IS NOT NULL THEN LEAST(lease_until, heartbeat_until)
      WHEN queue_until IS NOT NULL THEN GREATEST(queue_until, released_at + queue_timeout_us)
    END
  ) STORED,
  PRIMARY KEY (run_id, place),
  CHECK ((lease_id IS NULL) = (worker IS NULL)),
  CHECK ((lease_id IS NULL) = (leased_at IS NULL)),
  CHECK ((lease_id IS NULL) = (lease_until IS NULL)),
  CHECK (lease_until <= attempt_until)
) PARTITION BY RANGE (run_id text_pattern_ops);
-- predicates that no statement on named tasks implies: an index of what is open would be read whole for one of them
CREATE INDEX tasks_due ON tasks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_dead ON tasks (run_id, place) WHERE state = 'dead';
CREATE INDEX tasks_children ON tasks (run_id, child) WHERE child IS NOT NULL;
-- what a closing run waits for: leases that outlive their task
CREATE INDEX tasks_lingering ON tasks (run_id, lease_until)
  WHERE state = 'cancelled' AND lease_until IS NOT NULL;

CREATE TABLE events (
  run_id TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  at BIGINT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  place TEXT COLLATE "C" NOT NULL,
  data TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (run_id, seq)
) PARTITION BY RANGE (run_id text_pattern_ops);

CREATE TABLE payloads (
  run_id TEXT COLLATE "C" NOT NULL,
  place TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL CHECK (
    kind IN ('input', 'output', 'error', 'vars', 'params', 'item', 'list', 'given')
  ),
  seq BIGINT NOT NULL,
  text TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (run_id, place, kind, seq)
) PARTITION BY RANGE (run_id text_pattern_ops);

CREATE TABLE notes (
  run_id TEXT COLLATE "C" NOT NULL,
  place TEXT COLLATE "C" NOT NULL,
  attempt INTEGER NOT NULL,
  number INTEGER NOT NULL CHECK (number >= 0),
  at BIGINT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('stdout', 'stderr', 'log', 'progress')),
  text TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (run_id, place, attempt, number)
) PARTITION BY RANGE (run_id text_pattern_ops);

-- A ready row stands until its task is granted. `published`, where hints of it went: '' nowhere yet, 'database' to
-- nobody but whoever claims it here, else the epoch of the Redis that has it.
CREATE TABLE ready (
  run_id TEXT COLLATE "C" NOT NULL,
  place TEXT COLLATE "C" NOT NULL,
  queue TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  priority INTEGER NOT NULL,
  since BIGINT NOT NULL,
  published TEXT COLLATE "C" NOT NULL DEFAULT '',
  published_at BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (run_id, place)
) WITH (fillfactor = 70);
-- name last: rows that no worker here knows are skipped inside the index. The predicate is true of every row; only a
-- condition on the queue implies it, so that no statement about a run's rows reads the whole index for them, as it would
-- by a plan that was made while the table was known to be empty.
CREATE INDEX ready_by_queue ON ready (queue, priority DESC, since, run_id, place, name)
  WHERE queue IS NOT NULL;
CREATE INDEX ready_unpublished ON ready (queue, priority DESC, since) WHERE published = '';
CREATE INDEX ready_published ON ready (published, queue, name, published_at) WHERE published > '';

CREATE TABLE timers (
  run_id TEXT COLLATE "C" NOT NULL,
  place TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL CHECK (
    kind IN (
      'backoff', 'total', 'wait', 'event', 'heartbeat', 'child', 'run', 'closing', 'drain',
      'continue'
    )
  ),
  due_at BIGINT NOT NULL,
  version BIGINT NOT NULL,
  PRIMARY KEY (run_id, place, kind)
);
CREATE INDEX timers_due ON timers (due_at) WHERE kind <> 'drain';
-- due by leases, not by time
CREATE INDEX timers_draining ON timers (run_id) WHERE kind = 'drain';

CREATE TABLE waits (
  run_id TEXT COLLATE "C" NOT NULL,
  place TEXT COLLATE "C" NOT NULL,
  namespace TEXT COLLATE "C" NOT NULL,
  event TEXT COLLATE "C" NOT NULL,
  key TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  opened_at BIGINT NOT NULL,
  PRIMARY KEY (run_id, place)
);
-- the same, for conditions on a namespace
CREATE INDEX waits_by_address ON waits (namespace, event, key, opened_at, run_id, place)
  WHERE namespace IS NOT NULL;

CREATE TABLE notices (
  run_id TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL CHECK (
    kind IN ('start', 'settled', 'cancel', 'terminate', 'pause', 'retry')
  ),
  place TEXT COLLATE "C" NOT NULL,
  sender TEXT COLLATE "C" NOT NULL,
  data TEXT COLLATE "C" NOT NULL,
  sent_at BIGINT NOT NULL,
  PRIMARY KEY (run_id, kind, place)
);
CREATE INDEX notices_sent ON notices (sent_at);

CREATE TABLE mailbox (
  id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  namespace TEXT COLLATE "C" NOT NULL,
  event TEXT COLLATE "C" NOT NULL,
  key TEXT COLLATE "C" NOT NULL,
  payload TEXT COLLATE "C" NOT NULL,
  event_id TEXT COLLATE "C",
  posted_at BIGINT NOT NULL,
  keep_until BIGINT NOT NULL,
  -- a used message stays, without its payload, so that its event_id is known until keep_until
  used SMALLINT NOT NULL CHECK (used IN (0, 1)),
  -- a wait for its address was open when it came, or was opened since: a look at it may pay
  hinted SMALLINT NOT NULL CHECK (hinted IN (0, 1))
);
CREATE INDEX mailbox_by_address ON mailbox (namespace, event, key, posted_at, id) WHERE used = 0;
CREATE INDEX mailbox_hinted ON mailbox (namespace, event, key, posted_at, id)
  WHERE used = 0 AND hinted = 1;
CREATE UNIQUE INDEX mailbox_event_ids ON mailbox (namespace, event_id) WHERE event_id IS NOT NULL;
CREATE INDEX mailbox_kept ON mailbox (keep_until);

CREATE TABLE run_keys (
  namespace TEXT COLLATE "C" NOT NULL,
  workflow TEXT COLLATE "C" NOT NULL,
  key TEXT COLLATE "C" NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (namespace, workflow, key)
);

CREATE TABLE workers (
  id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  queues TEXT COLLATE "C" NOT NULL,
  names TEXT COLLATE "C" NOT NULL,
  labels TEXT COLLATE "C" NOT NULL,
  capacity INTEGER NOT NULL,
  version TEXT COLLATE "C" NOT NULL,
  incarnation TEXT COLLATE "C" NOT NULL,
  -- silent for longer, it is lost
  lease_us BIGINT NOT NULL,
  busy INTEGER NOT NULL,
  lag_us BIGINT NOT NULL,
  seen_at BIGINT NOT NULL
) WITH (fillfactor = 50);

-- These turn over all the time and stay small: cleaned early, and by rows, not by a share of what was.
ALTER TABLE ready SET (
  autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE timers SET (
  autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE waits SET (
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000
);
ALTER TABLE notices SET (
  autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 1000
);
ALTER TABLE mailbox SET (
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000
);
ALTER TABLE workers SET (
  autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 200
);
