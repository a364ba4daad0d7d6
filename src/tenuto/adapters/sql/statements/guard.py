"""What a commit checks before it writes. Read only, but for the row locks of an engine that has them.

Locks, in this order: run rows, task rows, messages, notices, each by id, addresses; then GUARD reads in a statement of
its own, because a statement that waited for a lock still sees its joined rows as of before the wait.

Small tables are found empty now and again. What is asked of them row by row, apart, is looked up by key even by a plan
that was made then; a join with them would not be.
"""

# Locks the run rows of a commit in id order ($1: [[run, seq], …]), so commits cannot deadlock.
LOCK_RUNS = """
SELECT {pack}locked.run_id{packed}
FROM (
  SELECT s.run_id
  FROM {each_1} AS w
  CROSS JOIN run_states AS s
  WHERE s.run_id = w.value->>0 {within_1[s.run_id]}
  ORDER BY s.run_id
  {for_update}
) AS locked
"""

# Locks the task rows that are claimed or written, in order of their keys ($1: [[run, first place, last place]], the
# empty text for the open ones of the run): grants, heartbeats and releases touch them without the run's lock.
LOCK_TASKS = """
SELECT {pack}locked.run_id{packed}
FROM (
  SELECT t.run_id
  FROM {each_1} AS w
  CROSS JOIN tasks AS t
  WHERE t.run_id = w.value->>0 {within_1[t.run_id]}
    AND t.place >= w.value->>1 AND t.place <= w.value->>2
    AND (w.value->>1 > '' OR t.state IN ('pending', 'retry'))
  ORDER BY t.run_id, t.place
  {for_update}
) AS locked
"""

# Locks the claimed messages ($1: [[run, id], …]).
LOCK_MESSAGES = """
SELECT {pack}locked.id{packed}
FROM (
  SELECT m.id FROM mailbox AS m
  WHERE m.id {in_}SELECT w.value->>1 FROM {each_1} AS w{_in}
  ORDER BY m.id
  {for_update}
) AS locked
"""

# Locks the notices that are claimed and those that are written anew ($1: [[run, kind, place, …]]); the run of a START
# does not exist yet.
LOCK_NOTICES = """
SELECT {pack}locked.run_id{packed}
FROM (
  SELECT n.run_id FROM notices AS n
  WHERE (
      (n.run_id, n.kind, n.place) IN (
        SELECT w.value->>0, w.value->>1, w.value->>2 FROM {each_1} AS w
      )
    ) {is_so}
    {only_1[n.run_id]}
  ORDER BY n.run_id, n.kind, n.place
  {for_update}
) AS locked
"""

# One row: now; runs whose seq is not the expected one (0: the run must not exist) or of which a claim no longer stands
# (one without a lease: it was leased meanwhile, also if it was given back since, and waits anew);
# idempotency keys that are taken; eager grants refused because an entry of the queue, as urgent or more, has waited
# longer than a second, because an old lease of the task still lives (R1), or because the run was put into quarantine.
# All by primary key, but for the queue: the top of `ready_by_queue`.
# $1 [[run, seq]] $2 leases [[run, place, attempt, lease]] $3 unleased [[run, place, attempt]]
# $4 timers [[run, place, kind, version]] $5 waits [[run, place, version]] $6 messages [[run, id]]
# $7 keys [[run, namespace, workflow, key]] $8 eager [[run, place, queue, priority, 1 if it may be leased]]
# $9 notices [[run, kind, place, sender, sent_at]]
GUARD = """
SELECT
  {now},
  (
    SELECT {pack}loser.run_id{packed}
    FROM (
      SELECT w.value->>0 AS run_id FROM {each_1} AS w
      WHERE CAST(w.value->>1 AS BIGINT) <> COALESCE(
        (SELECT s.seq FROM run_states AS s WHERE s.run_id = w.value->>0 {within_1[s.run_id]}), 0
      )
      UNION ALL
      SELECT w.value->>0 FROM {each_2} AS w
      WHERE NOT EXISTS (
        SELECT 1 FROM tasks AS t
        WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_2[t.run_id]}
          AND t.attempt = CAST(w.value->>2 AS BIGINT) AND t.lease_id = w.value->>3
      )
      UNION ALL
      SELECT w.value->>0 FROM {each_3} AS w
      WHERE NOT EXISTS (
        SELECT 1 FROM tasks AS t
        WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_3[t.run_id]}
          AND t.attempt = CAST(w.value->>2 AS BIGINT)
          AND t.state = 'pending' AND t.lease_id IS NULL AND t.due_at <= {now}
      )
      UNION ALL
      SELECT w.value->>0 FROM {each_4} AS w
      WHERE NOT EXISTS (
        SELECT 1 FROM timers AS t
        WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 AND t.kind = w.value->>2
          AND t.version = CAST(w.value->>3 AS BIGINT)
        {apart}
      )
      UNION ALL
      SELECT w.value->>0 FROM {each_5} AS w
      WHERE NOT EXISTS (
        SELECT 1 FROM waits AS a
        WHERE a.run_id = w.value->>0 AND a.place = w.value->>1
          AND a.version = CAST(w.value->>2 AS BIGINT)
        {apart}
      )
      UNION ALL
      SELECT w.value->>0 FROM {each_6} AS w
      WHERE NOT EXISTS (
        SELECT 1 FROM mailbox AS m
        WHERE m.id = w.value->>1 AND m.used = 0 AND m.keep_until > {now}
        {apart}
      )
      UNION ALL
      SELECT w.value->>0 FROM {each_9} AS w
      WHERE NOT EXISTS (
        SELECT 1 FROM notices AS n
        WHERE n.run_id = w.value->>0 AND n.kind = w.value->>1 AND n.place = w.value->>2
          AND n.sender = w.value->>3 AND n.sent_at = CAST(w.value->>4 AS BIGINT)
        {apart}
      )
    ) AS loser
  ),
  (
    SELECT {pack}
      w.value->>0,
      (
        SELECT k.run_id FROM run_keys AS k
        WHERE k.namespace = w.value->>1 AND k.workflow = w.value->>2 AND k.key = w.value->>3
      )
    {packed}
    FROM {each_7} AS w
  ),
  (
    SELECT {pack}w.value->>0, w.value->>1{packed}
    FROM {each_8} AS w
    WHERE EXISTS (
      SELECT 1 FROM ready AS r
      WHERE r.queue = w.value->>2 AND r.priority >= CAST(w.value->>3 AS BIGINT)
        AND r.since < {now} - 1000000
      {apart}
    )
    OR CAST(w.value->>4 AS BIGINT) = 1 AND EXISTS (
      SELECT 1 FROM tasks AS t
      WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_8[t.run_id]}
        AND t.lease_id IS NOT NULL
    )
    OR EXISTS (
      SELECT 1 FROM run_states AS q
      WHERE q.run_id = w.value->>0 {within_8[q.run_id]} AND q.quarantine IS NOT NULL
    )
  )
"""
