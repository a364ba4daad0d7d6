"""What people and clients read. Read only; nothing here is on the way of a decision."""

RUN = """
SELECT
  (
    SELECT {pack}
      r.run_id, r.namespace, r.workflow, r.version, r.definition, r.key, r.state, r.paused,
      r.created_at, r.ended_at, r.output, r.error, s.quarantine,
      s.seq, s.at, s.state, s.paused, s.nodes, s.edges, s.rest
    {packed}
    FROM runs AS r
    CROSS JOIN run_states AS s
    WHERE r.run_id = $1 AND s.run_id = $1
  ),
  (
    SELECT {pack}
      t.run_id, t.place, t.node, t.name, t.queue, t.priority, t.state, t.attempt, t.lost,
      t.input_seq, t.timeout_us, t.heartbeat_us, t.queue_timeout_us, t.total_until,
      t.queue_until, t.held, t.ended_lease, t.lease_id, t.worker, t.leased_at, t.lease_until,
      t.attempt_until, t.heartbeat_until
    {packed}
    FROM tasks AS t WHERE t.run_id = $1
  ),
  (
    SELECT {pack}t.run_id, t.place, t.kind, t.due_at, t.version{packed}
    FROM timers AS t WHERE t.run_id = $1
  ),
  (
    SELECT {pack}a.run_id, a.place, a.event, a.key, a.version, a.opened_at{packed}
    FROM waits AS a WHERE a.run_id = $1
  ),
  (SELECT {pack}r.place{packed} FROM ready AS r WHERE r.run_id = $1)
"""

# A page, newest first, down the primary key. $1 namespace $2 workflow or null $3 states or null $4 before or null
# $5 limit $6 key or null $7 since or null $8 until or null $9 an id before those since. Ids are drawn a moment before
# the run is made. Paused runs answer to the state `paused` as well as to their own.
RUNS = """
SELECT {pack}
  p.run_id, p.namespace, p.workflow, p.version, p.definition, p.key, p.state, p.paused,
  p.created_at, p.ended_at, p.output, p.error, s.quarantine
{packed}
FROM (
  SELECT * FROM runs AS r
  WHERE r.namespace = $1
    AND ($2 IS NULL OR r.workflow = $2)
    AND (
      $3 IS NULL
      OR r.state IN (SELECT w.value FROM {each_3} AS w)
      OR (r.paused = 1 AND 'paused' IN (SELECT w.value FROM {each_3} AS w))
    )
    AND ($4 IS NULL OR r.run_id < $4)
    AND ($6 IS NULL OR r.key = $6)
    AND ($7 IS NULL OR (r.run_id >= $9 AND r.created_at >= $7))
    AND ($8 IS NULL OR r.created_at < $8)
  ORDER BY r.run_id DESC
  LIMIT $5
) AS p
CROSS JOIN run_states AS s
WHERE s.run_id = p.run_id
"""

# $1 ids.
RUNS_BY_ID = """
SELECT {pack}
  r.run_id, r.namespace, r.workflow, r.version, r.definition, r.key, r.state, r.paused,
  r.created_at, r.ended_at, r.output, r.error, s.quarantine
{packed}
FROM {each_1} AS w
CROSS JOIN runs AS r
CROSS JOIN run_states AS s
WHERE r.run_id = w.value->>0 AND s.run_id = w.value->>0
"""

# $1 first characters, $2 the same with a last one after all others, $3 the length. The end of an id has no index.
RUN_IDS = """
SELECT {pack}p.run_id{packed}
FROM (
  SELECT run_id FROM runs
  WHERE (run_id >= $1 AND run_id < $2) OR substr(run_id, 37 - $3) = $1
  ORDER BY run_id DESC
  LIMIT 10
) AS p
"""

RUN_BY_KEY = """
SELECT run_id FROM run_keys WHERE namespace = $1 AND workflow = $2 AND key = $3
"""

EVENTS = """
SELECT {pack}e.seq, e.at, e.kind, e.place, e.data{packed}
FROM (
  SELECT * FROM events WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3
) AS e
"""

PAYLOADS = """
SELECT {pack}
  w.value->>0, w.value->>1, w.value->>2,
  (
    SELECT p.text FROM payloads AS p
    WHERE p.run_id = w.value->>0 AND p.place = w.value->>1 AND p.kind = w.value->>2
    ORDER BY p.seq DESC
    LIMIT 1
  )
{packed}
FROM {each_1} AS w
"""

# Rows of one run from a place on, a bounded page: payloads may be large. $2… the key of the last row read.
ALL_PAYLOADS = """
SELECT {pack}p.place, p.kind, p.seq, p.text{packed}
FROM (
  SELECT * FROM payloads
  WHERE run_id = $1 AND (place, kind, seq) > ($2, $3, $4)
  ORDER BY place, kind, seq
  LIMIT 500
) AS p
"""

WORKERS = """
SELECT {pack}
  k.id, k.queues, k.names, k.capacity, k.busy, k.lag_us, k.seen_at, k.version, k.labels
{packed}
FROM (SELECT * FROM workers ORDER BY id) AS k
"""

# Index `waits_by_address`. $2 event or null.
AWAITED = """
SELECT {pack}a.event, a.key, a.many{packed}
FROM (
  SELECT event, key, count(*) AS many FROM waits
  WHERE namespace = $1 AND ($2 IS NULL OR event = $2)
  GROUP BY event, key
  ORDER BY event, key
  LIMIT 1000
) AS a
"""

# Index `runs_by_state`.
COUNTS = """
SELECT {pack}c.state, c.many{packed}
FROM (
  SELECT r.state, count(*) AS many FROM runs AS r
  WHERE r.namespace = $1 AND r.state NOT IN ('pending', 'running')
  GROUP BY r.state
  UNION ALL
  SELECT o.state, count(*) AS many FROM (
    SELECT CASE WHEN paused = 1 THEN 'paused' ELSE state END AS state FROM runs
    WHERE namespace = $1 AND state IN ('pending', 'running')
  ) AS o
  GROUP BY o.state
) AS c
"""

# $1 namespace $2 name $3 version
VERSION = """
SELECT namespace, name, version, hash, source, graph, created_at
FROM definitions
WHERE namespace = $1 AND name = $2 AND version = $3
"""

# $1 namespace $2 the name before the page $3 limit
WORKFLOWS = """
SELECT {pack}d.name, d.version, d.hash, d.created_at, n.many{packed}
FROM (
  SELECT name, max(version) AS newest, count(*) AS many
  FROM definitions
  WHERE namespace = $1 AND name > $2
  GROUP BY name
  ORDER BY name
  LIMIT $3
) AS n
CROSS JOIN definitions AS d
WHERE d.namespace = $1 AND d.name = n.name AND d.version = n.newest
"""

# $1 namespace $2 name $3 the version before the page or null $4 limit
VERSIONS = """
SELECT {pack}d.name, d.version, d.hash, d.created_at{packed}
FROM (
  SELECT name, version, hash, created_at
  FROM definitions
  WHERE namespace = $1 AND name = $2 AND ($3 IS NULL OR version < $3)
  ORDER BY version DESC
  LIMIT $4
) AS d
"""

# $1 namespace $2 states or null $3 queue or null $4 run id before the page or null $5 its place $6 limit. A
# pending task with a lease is running.
_tasks = """
SELECT {pack}
  t.run_id, t.place, t.node, t.name, t.queue, t.priority, t.state, t.attempt, t.lost,
  t.input_seq, t.timeout_us, t.heartbeat_us, t.queue_timeout_us, t.total_until,
  t.queue_until, t.held, t.ended_lease, t.lease_id, t.worker, t.leased_at, t.lease_until,
  t.attempt_until, t.heartbeat_until, t.workflow,
  (
    SELECT p.text FROM payloads AS p
    WHERE p.run_id = t.run_id AND p.place = t.place AND p.kind = 'error' AND t.state = 'dead'
    ORDER BY p.seq DESC
    LIMIT 1
  )
{packed}
FROM (
  SELECT t.*, r.workflow
  FROM tasks AS t
  JOIN runs AS r ON r.run_id = t.run_id
  WHERE r.namespace = $1
    AND (
      $2 IS NULL
      OR CASE WHEN t.state = 'pending' AND t.lease_id IS NOT NULL THEN 'running' ELSE t.state END
        IN (SELECT w.value FROM {each_2} AS w)
    )
    AND ($3 IS NULL OR t.queue = $3)
    AND ($4 IS NULL OR t.run_id < $4 OR (t.run_id = $4 AND t.place > $5))
    AND [which]
  ORDER BY t.run_id DESC, t.place
  LIMIT $6
) AS t
"""
TASKS = _tasks.replace("[which]", "1 = 1")
# Index `tasks_dead`.
DEAD_TASKS = _tasks.replace("[which]", "t.state = 'dead'")
# Open tasks are those of open runs: index `runs_by_state`.
OPEN_TASKS = _tasks.replace("[which]", "r.state IN ('pending', 'running', 'closing')")

# The newest of a run, or of one place in it. $1 run $2 place or null $3 limit
NOTES = """
SELECT {pack}n.run_id, n.place, n.attempt, n.number, n.at, n.kind, n.text{packed}
FROM (
  SELECT * FROM notes
  WHERE run_id = $1 AND ($2 IS NULL OR place = $2)
  ORDER BY at DESC, attempt DESC, number DESC
  LIMIT $3
) AS n
"""
