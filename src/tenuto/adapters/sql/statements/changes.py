"""What a commit writes, after its guard. Every text takes one JSON array of rows ($1) and finds rows by primary key.

The guard has the locks already; a text that names a row which is not there changes nothing.
"""

from tenuto.adapters.sql.statements.columns import with_lease

# New runs: [[run, namespace, workflow, version, definition, key, state, paused, created_at, ended_at, output, error,
# compensation, parent, its place, source]].
INSERT_RUNS = """
INSERT INTO runs (
  run_id, namespace, workflow, version, definition, key, state, paused, created_at, ended_at,
  output, error, compensation, parent, parent_place, source
)
SELECT
  w.value->>0, w.value->>1, w.value->>2, CAST(w.value->>3 AS BIGINT), w.value->>4, w.value->>5,
  w.value->>6, CAST(w.value->>7 AS BIGINT), CAST(w.value->>8 AS BIGINT),
  CAST(w.value->>9 AS BIGINT), w.value->>10, w.value->>11, w.value->>12, w.value->>13,
  w.value->>14, w.value->>15
FROM {each_1} AS w
"""

# What users see of runs whose state or pause changed: [[run, state, paused, ended_at, output, error,
# compensation]].
UPDATE_RUNS = """
UPDATE runs SET
  state = w.value->>1,
  paused = CAST(w.value->>2 AS BIGINT),
  ended_at = CAST(w.value->>3 AS BIGINT),
  output = w.value->>4,
  error = w.value->>5,
  compensation = w.value->>6
FROM {each_1} AS w
WHERE runs.run_id = w.value->>0 {within_1[runs.run_id]}
"""

# Rows of: namespace, workflow, key, run.
INSERT_KEYS = """
INSERT INTO run_keys (namespace, workflow, key, run_id)
SELECT w.value->>0, w.value->>1, w.value->>2, w.value->>3
FROM {each_1} AS w
"""

# Rows of: run, seq, at, state, paused, nodes, edges, rest.
INSERT_STATES = """
INSERT INTO run_states (run_id, seq, at, state, paused, nodes, edges, rest)
SELECT
  w.value->>0, CAST(w.value->>1 AS BIGINT), CAST(w.value->>2 AS BIGINT), w.value->>3,
  CAST(w.value->>4 AS BIGINT), w.value->>5, w.value->>6, w.value->>7
FROM {each_1} AS w
"""

# The same columns, then the expected seq once more: a belt beside the guard.
UPDATE_STATES = """
UPDATE run_states SET
  seq = CAST(w.value->>1 AS BIGINT),
  at = CAST(w.value->>2 AS BIGINT),
  state = w.value->>3,
  paused = CAST(w.value->>4 AS BIGINT),
  nodes = w.value->>5,
  edges = w.value->>6,
  rest = w.value->>7
FROM {each_1} AS w
WHERE run_states.run_id = w.value->>0 {within_1[run_states.run_id]}
  AND run_states.seq = CAST(w.value->>8 AS BIGINT)
"""

# The same for one run of many nodes, its columns as parameters of their own: 20 KB of letters through JSON cost 97 µs,
# here 20 (bench/store_commit.py --nodes 10000).
UPDATE_STATE = """
UPDATE run_states SET
  seq = $2,
  at = $3,
  state = $4,
  paused = $5,
  nodes = $6,
  edges = $7,
  rest = $8
WHERE run_id = $1 AND seq = $9
"""

# Rows of: run, seq, at, kind, place, data.
INSERT_EVENTS = """
INSERT INTO events (run_id, seq, at, kind, place, data)
SELECT
  w.value->>0, CAST(w.value->>1 AS BIGINT), CAST(w.value->>2 AS BIGINT), w.value->>3,
  w.value->>4, w.value->>5
FROM {each_1} AS w
"""

# Rows of: run, place, kind, seq, text.
INSERT_PAYLOADS = """
INSERT INTO payloads (run_id, place, kind, seq, text)
SELECT w.value->>0, w.value->>1, w.value->>2, CAST(w.value->>3 AS BIGINT), w.value->>4
FROM {each_1} AS w
"""

# Tasks of which the last five decided columns say nothing, as most: run, place, the other decided columns in order,
# lease_id, worker and what says how long (`with_lease`), null unless the task is leased in this commit; $2 its moment.
# INSERT_TASKS can do it too, in 15 µs a row instead of 10.5.
INSERT_PLAIN_TASKS = with_lease(
    """
INSERT INTO tasks (
  run_id, place, node, name, queue, priority, state, attempt, lost, input_seq, timeout_us,
  heartbeat_us, queue_timeout_us, total_until, queue_until, held, ended_lease, lease_id, worker,
  leased_at, lease_until, attempt_until, heartbeat_until, handed
)
SELECT
  w.value->>0, w.value->>1, CAST(w.value->>2 AS BIGINT), w.value->>3, w.value->>4,
  CAST(w.value->>5 AS BIGINT), w.value->>6, CAST(w.value->>7 AS BIGINT),
  CAST(w.value->>8 AS BIGINT), CAST(w.value->>9 AS BIGINT), CAST(w.value->>10 AS BIGINT),
  CAST(w.value->>11 AS BIGINT), CAST(w.value->>12 AS BIGINT), CAST(w.value->>13 AS BIGINT),
  CAST(w.value->>14 AS BIGINT), CAST(w.value->>15 AS BIGINT), w.value->>16, w.value->>17,
  w.value->>18, [leased_at], [lease_until], [attempt_until], [heartbeat_until],
  CASE WHEN w.value->>17 IS NULL THEN 0 ELSE 1 END
FROM {each_1} AS w
""",
    first=19,
)

# The same rows with all decided columns before those of the lease.
INSERT_TASKS = with_lease(
    """
INSERT INTO tasks (
  run_id, place, node, name, queue, priority, state, attempt, lost, input_seq, timeout_us,
  heartbeat_us, queue_timeout_us, total_until, queue_until, held, ended_lease, child, spent,
  rules, late, ending, lease_id, worker, leased_at, lease_until, attempt_until,
  heartbeat_until, handed
)
SELECT
  w.value->>0, w.value->>1, CAST(w.value->>2 AS BIGINT), w.value->>3, w.value->>4,
  CAST(w.value->>5 AS BIGINT), w.value->>6, CAST(w.value->>7 AS BIGINT),
  CAST(w.value->>8 AS BIGINT), CAST(w.value->>9 AS BIGINT), CAST(w.value->>10 AS BIGINT),
  CAST(w.value->>11 AS BIGINT), CAST(w.value->>12 AS BIGINT), CAST(w.value->>13 AS BIGINT),
  CAST(w.value->>14 AS BIGINT), CAST(w.value->>15 AS BIGINT), w.value->>16, w.value->>17,
  CAST(w.value->>18 AS BIGINT), w.value->>19, CAST(w.value->>20 AS BIGINT), w.value->>21,
  w.value->>22, w.value->>23, [leased_at], [lease_until], [attempt_until], [heartbeat_until],
  CASE WHEN COALESCE(w.value->>17, w.value->>22) IS NULL THEN 0 ELSE 1 END
FROM {each_1} AS w
""",
    first=24,
)

# All decided columns, in the same order, then 1 where the lease is over: its columns are cleared.
UPDATE_TASKS = """
UPDATE tasks SET
  node = CAST(w.value->>2 AS BIGINT),
  name = w.value->>3,
  queue = w.value->>4,
  priority = CAST(w.value->>5 AS BIGINT),
  state = w.value->>6,
  attempt = CAST(w.value->>7 AS BIGINT),
  lost = CAST(w.value->>8 AS BIGINT),
  input_seq = CAST(w.value->>9 AS BIGINT),
  timeout_us = CAST(w.value->>10 AS BIGINT),
  heartbeat_us = CAST(w.value->>11 AS BIGINT),
  queue_timeout_us = CAST(w.value->>12 AS BIGINT),
  total_until = CAST(w.value->>13 AS BIGINT),
  queue_until = CAST(w.value->>14 AS BIGINT),
  held = CAST(w.value->>15 AS BIGINT),
  ended_lease = w.value->>16,
  child = w.value->>17,
  spent = CAST(w.value->>18 AS BIGINT),
  rules = w.value->>19,
  late = CAST(w.value->>20 AS BIGINT),
  ending = w.value->>21,
  handed = CASE WHEN w.value->>17 IS NULL OR handed > 0 THEN handed ELSE 1 END,
  lease_id = CASE WHEN CAST(w.value->>22 AS BIGINT) = 1 THEN NULL ELSE lease_id END,
  worker = CASE WHEN CAST(w.value->>22 AS BIGINT) = 1 THEN NULL ELSE worker END,
  leased_at = CASE WHEN CAST(w.value->>22 AS BIGINT) = 1 THEN NULL ELSE leased_at END,
  lease_until = CASE WHEN CAST(w.value->>22 AS BIGINT) = 1 THEN NULL ELSE lease_until END,
  attempt_until = CASE WHEN CAST(w.value->>22 AS BIGINT) = 1 THEN NULL ELSE attempt_until END,
  heartbeat_until = CASE WHEN CAST(w.value->>22 AS BIGINT) = 1 THEN NULL ELSE heartbeat_until END,
  released_at = CASE WHEN CAST(w.value->>22 AS BIGINT) = 1 THEN NULL ELSE released_at END
FROM {each_1} AS w
WHERE tasks.run_id = w.value->>0 AND tasks.place = w.value->>1
  {within_1[tasks.run_id]}
"""

# Leases to tasks that exist, [[run, place, lease_id, worker, what says how long]]; only to one that is pending, free
# and not held. $2 the moment.
LEASE_TASKS = with_lease(
    """
UPDATE tasks SET
  lease_id = w.value->>2,
  worker = w.value->>3,
  leased_at = [leased_at],
  lease_until = [lease_until],
  attempt_until = [attempt_until],
  heartbeat_until = [heartbeat_until],
  handed = handed + 1,
  released_at = NULL
FROM {each_1} AS w
WHERE tasks.run_id = w.value->>0 AND tasks.place = w.value->>1
  {within_1[tasks.run_id]}
  AND tasks.state = 'pending' AND tasks.lease_id IS NULL AND tasks.held = 0
""",
    first=4,
)

# Rows of: run, place; the lease columns stay (SEMANTICS F7).
CANCEL_TASKS = """
UPDATE tasks SET state = 'cancelled'
FROM {each_1} AS w
WHERE tasks.run_id = w.value->>0 AND tasks.place = w.value->>1
  {within_1[tasks.run_id]}
  AND tasks.state IN ('pending', 'retry')
"""

# The same for every open task of the runs [[run]].
CLOSE_TASKS = """
UPDATE tasks SET state = 'cancelled'
FROM {each_1} AS w
WHERE tasks.run_id = w.value->>0 {within_1[tasks.run_id]}
  AND tasks.state IN ('pending', 'retry')
"""

# Pause of the runs [[run]] (C6).
HOLD_TASKS = """
UPDATE tasks SET held = 1, queue_until = NULL
FROM {each_1} AS w
WHERE tasks.run_id = w.value->>0 {within_1[tasks.run_id]}
  AND tasks.state IN ('pending', 'retry')
  AND tasks.child IS NULL
"""

# Resume of the runs [[run, at]] (C6).
RELEASE_TASKS = """
UPDATE tasks SET
  held = 0,
  queue_until = CAST(w.value->>1 AS BIGINT) + queue_timeout_us,
  released_at = NULL
FROM {each_1} AS w
WHERE tasks.run_id = w.value->>0 {within_1[tasks.run_id]}
  AND tasks.state IN ('pending', 'retry')
"""

# Offers what a resume released: pending tasks of the runs [[run, at]] that nobody holds and no child does.
OFFER_RELEASED = """
INSERT INTO ready (run_id, place, queue, name, priority, since)
SELECT t.run_id, t.place, t.queue, t.name, t.priority, {now}
FROM {each_1} AS w
CROSS JOIN tasks AS t
WHERE t.run_id = w.value->>0 {within_1[t.run_id]}
  AND t.state = 'pending' AND t.lease_id IS NULL
  AND t.child IS NULL
ON CONFLICT (run_id, place) DO NOTHING
"""

# Rows of: run, place, queue, name, priority; only of tasks that may be had. One that is still leased under an earlier
# epoch (R1) is offered when that lease ends, by whatever ends it.
INSERT_READY = """
INSERT INTO ready (run_id, place, queue, name, priority, since)
SELECT
  w.value->>0, w.value->>1, w.value->>2, w.value->>3, CAST(w.value->>4 AS BIGINT), {now}
FROM {each_1} AS w
WHERE EXISTS (
  SELECT 1 FROM tasks AS t
  WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_1[t.run_id]}
    AND t.state = 'pending' AND t.lease_id IS NULL AND t.held = 0 AND t.child IS NULL
)
ON CONFLICT (run_id, place) DO NOTHING
"""

# Rows of: run, place.
DELETE_READY = """
DELETE FROM ready
WHERE ((run_id, place) IN (SELECT w.value->>0, w.value->>1 FROM {each_1} AS w)) {is_so}
  {only_1[run_id]} {span_1[place]}
"""

# Rows of: run.
DELETE_READY_OF_RUNS = """
DELETE FROM ready WHERE run_id {in_}SELECT w.value->>0 FROM {each_1} AS w{_in}
"""

# Rows of: run, place, kind, due_at, version.
INSERT_TIMERS = """
INSERT INTO timers (run_id, place, kind, due_at, version)
SELECT
  w.value->>0, w.value->>1, w.value->>2, CAST(w.value->>3 AS BIGINT), CAST(w.value->>4 AS BIGINT)
FROM {each_1} AS w
WHERE true
ON CONFLICT (run_id, place, kind)
DO UPDATE SET due_at = excluded.due_at, version = excluded.version
"""

# Rows of: run, place, kind.
DELETE_TIMERS = """
DELETE FROM timers
WHERE (
    (run_id, place, kind) IN (
      SELECT w.value->>0, w.value->>1, w.value->>2 FROM {each_1} AS w
    )
  ) {is_so}
  {only_1[run_id]} {span_1[place]}
"""

# Rows of: run.
DELETE_TIMERS_OF_RUNS = """
DELETE FROM timers WHERE run_id {in_}SELECT w.value->>0 FROM {each_1} AS w{_in}
"""

# Rows of: run, place, event, key, version, opened_at; the namespace is the run's.
INSERT_WAITS = """
INSERT INTO waits (run_id, place, namespace, event, key, version, opened_at)
SELECT
  w.value->>0, w.value->>1, r.namespace, w.value->>2, w.value->>3, CAST(w.value->>4 AS BIGINT),
  CAST(w.value->>5 AS BIGINT)
FROM {each_1} AS w
CROSS JOIN runs AS r
WHERE r.run_id = w.value->>0 {within_1[r.run_id]}
"""

# A message that came between load and commit would be seen by nobody: mark those of the new waits' addresses.
# The same rows as INSERT_WAITS; index `mailbox_by_address`.
HINT_MESSAGES = """
UPDATE mailbox SET hinted = 1
WHERE hinted = 0 AND id {in_}
  SELECT m.id
  FROM (
    SELECT r.namespace, w.value->>2 AS event, w.value->>3 AS key
    FROM {each_1} AS w
    CROSS JOIN runs AS r
    WHERE r.run_id = w.value->>0 {within_1[r.run_id]}
  ) AS n
  {asked[mailbox AS m]}
    m.namespace = n.namespace AND m.event = n.event AND m.key = n.key AND m.used = 0
  {_asked[m]}
{_in}
"""

# Rows of: run, place.
DELETE_WAITS = """
DELETE FROM waits
WHERE ((run_id, place) IN (SELECT w.value->>0, w.value->>1 FROM {each_1} AS w)) {is_so}
  {only_1[run_id]} {span_1[place]}
"""

# Rows of: run.
DELETE_WAITS_OF_RUNS = """
DELETE FROM waits WHERE run_id {in_}SELECT w.value->>0 FROM {each_1} AS w{_in}
"""

# Rows of: run, id; the row stays without its payload until keep_until, so that its event_id is known.
USE_MESSAGES = """
UPDATE mailbox SET used = 1, payload = ''
WHERE id {in_}SELECT w.value->>1 FROM {each_1} AS w{_in}
"""

# Puts messages into the mailbox, [[id, namespace, event, key, payload, event_id, keep_us]]: one whose event_id is known
# is dropped, one for which a wait is open is hinted. In the order of `posting.by_event_id`: who inserts an id waits for
# whoever is about to insert the same.
POST_MESSAGES = """
INSERT INTO mailbox (
  id, namespace, event, key, payload, event_id, posted_at, keep_until, used, hinted
)
SELECT
  w.value->>0, w.value->>1, w.value->>2, w.value->>3, w.value->>4, w.value->>5, {now},
  {now} + CAST(w.value->>6 AS BIGINT), 0,
  CASE
    WHEN EXISTS (
      SELECT 1 FROM waits AS a
      WHERE a.namespace = w.value->>1 AND a.event = w.value->>2 AND a.key = w.value->>3
      {apart}
    ) THEN 1
    ELSE 0
  END
FROM {each_1} AS w
WHERE true
ON CONFLICT DO NOTHING
"""
