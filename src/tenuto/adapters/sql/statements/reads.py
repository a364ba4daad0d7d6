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
# $5 limit. Paused runs answer to the state `paused` as well as to their own.
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
  ORDER BY r.run_id DESC
  LIMIT $5
) AS p
CROSS JOIN run_states AS s
WHERE s.run_id = p.run_id
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
  k.id, k.queues, k.names, k.capacity, k.busy, k.lag_us, k.seen_at
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
FROM (SELECT state, count(*) AS many FROM runs WHERE namespace = $1 GROUP BY state) AS c
"""
