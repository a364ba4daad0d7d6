"""What a commit checks before it writes. Read only, but for the row locks of an engine that has them.

Locks, in this order: run rows, task rows, messages, notices, each by id; then GUARD reads in a statement of its own,
because a statement that waited for a lock still sees its joined rows as of before the wait.
"""

# Locks the run rows of a commit in id order ($1: [[run, seq], …]), so commits cannot deadlock.
LOCK_RUNS = """
SELECT {pack}locked.run_id{packed}
FROM (
  SELECT run_id FROM run_states
  WHERE run_id IN (SELECT w.value->>0 FROM {each_1} AS w)
  ORDER BY run_id
  {for_update}
) AS locked
"""

# Locks the claimed task rows ($1: [[run, place, …], …]); heartbeats and releases touch them without the run's lock.
LOCK_TASKS = """
SELECT {pack}locked.run_id{packed}
FROM (
  SELECT run_id FROM tasks
  WHERE (run_id, place) IN (SELECT w.value->>0, w.value->>1 FROM {each_1} AS w)
  ORDER BY run_id, place
  {for_update}
) AS locked
"""

# Locks the claimed messages ($1: [[run, id], …]).
LOCK_MESSAGES = """
SELECT {pack}locked.id{packed}
FROM (
  SELECT id FROM mailbox
  WHERE id IN (SELECT w.value->>1 FROM {each_1} AS w)
  ORDER BY id
  {for_update}
) AS locked
"""

# Locks the claimed notices ($1: [[run, kind, place, sender]]); the run of a START does not exist yet.
LOCK_NOTICES = """
SELECT {pack}locked.run_id{packed}
FROM (
  SELECT run_id FROM notices
  WHERE (run_id, kind, place) IN (
    SELECT w.value->>0, w.value->>1, w.value->>2 FROM {each_1} AS w
  )
  ORDER BY run_id, kind, place
  {for_update}
) AS locked
"""

# One row: now; runs whose seq is not the expected one (0: the run must not exist) or of which a claim no longer stands;
# idempotency keys that are taken; eager grants refused because an entry of the queue, as urgent or more, has waited
# longer than a second, or because an old lease of the task still lives (R1). All by primary key, but for the queue: the
# top of `ready_by_queue`.
# $1 [[run, seq]] $2 leases [[run, place, attempt, lease]] $3 unleased [[run, place, attempt]]
# $4 timers [[run, place, kind, version]] $5 waits [[run, place, version]] $6 messages [[run, id]]
# $7 keys [[run, namespace, workflow, key]] $8 eager [[run, place, queue, priority, 1 if it may be leased]]
# $9 notices [[run, kind, place, sender]]
GUARD = """
SELECT
  {now},
  (
    SELECT {pack}loser.run_id{packed}
    FROM (
      SELECT w.value->>0 AS run_id FROM {each_1} AS w
      WHERE CAST(w.value->>1 AS BIGINT) <> COALESCE(
        (SELECT s.seq FROM run_states AS s WHERE s.run_id = w.value->>0), 0
      )
      UNION ALL
      SELECT w.value->>0 FROM {each_2} AS w
      WHERE NOT EXISTS (
        SELECT 1 FROM tasks AS t
        WHERE t.run_id = w.value->>0 AND t.place = w.value->>1
          AND t.attempt = CAST(w.value->>2 AS BIGINT) AND t.lease_id = w.value->>3
      )
      UNION ALL
      SELECT w.value->>0 FROM {each_3} AS w
      WHERE NOT EXISTS (
        SELECT 1 FROM tasks AS t
        WHERE t.run_id = w.value->>0 AND t.place = w.value->>1
          AND t.attempt = CAST(w.value->>2 AS BIGINT)
          AND t.state = 'pending' AND t.lease_id IS NULL
      )
      UNION ALL
      SELECT w.value->>0 FROM {each_4} AS w
      WHERE NOT EXISTS (
        SELECT 1 FROM timers AS t
        WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 AND t.kind = w.value->>2
          AND t.version = CAST(w.value->>3 AS BIGINT)
      )
      UNION ALL
      SELECT w.value->>0 FROM {each_5} AS w
      WHERE NOT EXISTS (
        SELECT 1 FROM waits AS a
        WHERE a.run_id = w.value->>0 AND a.place = w.value->>1
          AND a.version = CAST(w.value->>2 AS BIGINT)
      )
      UNION ALL
      SELECT w.value->>0 FROM {each_6} AS w
      WHERE NOT EXISTS (
        SELECT 1 FROM mailbox AS m
        WHERE m.id = w.value->>1 AND m.used = 0 AND m.keep_until > {now}
      )
      UNION ALL
      SELECT w.value->>0 FROM {each_9} AS w
      WHERE NOT EXISTS (
        SELECT 1 FROM notices AS n
        WHERE n.run_id = w.value->>0 AND n.kind = w.value->>1 AND n.place = w.value->>2
          AND n.sender = w.value->>3
      )
    ) AS loser
  ),
  (
    SELECT {pack}w.value->>0, k.run_id{packed}
    FROM {each_7} AS w
    CROSS JOIN run_keys AS k
    WHERE k.namespace = w.value->>1 AND k.workflow = w.value->>2 AND k.key = w.value->>3
  ),
  (
    SELECT {pack}w.value->>0, w.value->>1{packed}
    FROM {each_8} AS w
    WHERE EXISTS (
      SELECT 1 FROM ready AS r
      WHERE r.queue = w.value->>2 AND r.priority >= CAST(w.value->>3 AS BIGINT)
        AND r.since < {now} - 1000000
    )
    OR CAST(w.value->>4 AS BIGINT) = 1 AND EXISTS (
      SELECT 1 FROM tasks AS t
      WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 AND t.lease_id IS NOT NULL
    )
  )
"""
