"""Grants, heartbeats, releases: the statements on lease columns outside a commit."""

from tenuto.adapters.sql.statements.columns import with_columns

# Tasks to lease, highest priority first; within one priority the queues take turns, in the order in which they are
# given, longest waiting first in each. BRANCH is repeated for each queue, because only within one queue
# `ready_by_queue` gives that order without a sort; rows of unknown names are skipped inside the index. No join with the
# names: the queue would be read whole for each of them, then sorted, while little is known of `ready`.
# $1 names, $2 runs or null, $3 how many, $4… one queue each. Locks ready and task rows, skipping those of another claim
# or commit: whoever waited here with some of them in hand could deadlock.
BRANCH = """
    SELECT * FROM (
      SELECT r.run_id, r.place, r.priority, r.since, {number} AS queue_number
      FROM ready AS r
      CROSS JOIN tasks AS t
      WHERE r.queue = {queue}
        AND (r.name IN (SELECT w.value FROM {texts_1} AS w)) {is_so}
        AND (CAST($2 AS TEXT) IS NULL OR r.run_id IN (SELECT w.value FROM {texts_2} AS w))
        AND t.run_id = r.run_id AND t.place = r.place
        AND t.state = 'pending' AND t.lease_id IS NULL AND t.held = 0
        AND (t.total_until IS NULL OR t.total_until > {now})
        AND NOT EXISTS (
          SELECT 1 FROM run_states AS s
          WHERE s.run_id = r.run_id AND s.quarantine IS NOT NULL
          {apart}
        )
      ORDER BY r.priority DESC, r.since, r.run_id, r.place
      LIMIT $3
      {for_update} {skip_locked}
    ) AS branch
"""
CANDIDATES = with_columns("""
SELECT
  {now},
  (
    SELECT {pack}[task], p.text, c.since{packed}
    FROM (
      SELECT run_id, place, priority, since FROM (
        SELECT
          run_id, place, priority, since, queue_number,
          ROW_NUMBER() OVER (
            PARTITION BY queue_number, priority ORDER BY since, run_id, place
          ) AS turn
        FROM ({branches}) AS candidate
      ) AS ordered
      ORDER BY priority DESC, turn, queue_number
      LIMIT $3
    ) AS c
    CROSS JOIN tasks AS t
    CROSS JOIN payloads AS p
    WHERE t.run_id = c.run_id AND t.place = c.place
      AND p.run_id = t.run_id AND p.place = t.place AND p.kind = 'input' AND p.seq = t.input_seq
  )
""")

# Takes the offers of the tasks [[run, place, …]] that are leased now: whatever kept a lease from being written keeps
# its offer.
DELETE_GRANTED = """
DELETE FROM ready
WHERE ((run_id, place) IN (SELECT w.value->>0, w.value->>1 FROM {each_1} AS w)) {is_so}
  {only_1[run_id]} {span_1[place]}
  AND EXISTS (
    SELECT 1 FROM tasks AS t
    WHERE t.run_id = ready.run_id AND t.place = ready.place {within_1[t.run_id]}
      AND t.lease_id IS NOT NULL
    {apart}
  )
"""

# Locks the tasks of the leases $1 [[run, place, lease_id]], so that what is said of them next is still true when it is
# done.
LOCK_LEASES = """
SELECT {pack}locked.run_id{packed}
FROM (
  SELECT t.run_id
  FROM {each_1} AS w
  CROSS JOIN tasks AS t
  WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_1[t.run_id]}
    AND t.lease_id = w.value->>2
  ORDER BY t.run_id, t.place
  {for_update}
) AS locked
"""

# Now, and what becomes of each beat: [[run, place, lease_id, verdict]], in any order.
# $1 [[run, place, lease_id, alive]], $2 the worker, $3 = 1: nobody else ends its leases.
# A lease past lease_until is over, even before recovery has seen it, unless $3 = 1; an attempt past its end is over for
# everybody. Primary key.
VERDICTS = """
SELECT
  {now},
  (
    SELECT {pack}
      w.value->>0, w.value->>1, w.value->>2,
      COALESCE(
        (
          SELECT CASE
            WHEN t.state = 'cancelled' THEN 'cancelled'
            WHEN t.state = 'pending' AND (t.lease_until > {now} OR $3 = 1)
              AND COALESCE(t.attempt_until > {now}, true) THEN 'ok'
          END
          FROM tasks AS t
          WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_1[t.run_id]}
            AND t.lease_id = w.value->>2 AND t.worker = $2
        ),
        'stale'
      )
    {packed}
    FROM {each_1} AS w
  )
"""

# Extends the live leases among the same rows, $4 = lease_us. Repeats the checks of VERDICTS at the moment of VERDICTS,
# $5: what it called live may not have ended meanwhile. A heartbeat deadline
# that has passed is not moved any more. Primary key.
EXTEND_LEASES = """
UPDATE tasks SET
  lease_until = {least}(CAST($5 AS BIGINT) + $4, COALESCE(attempt_until, CAST($5 AS BIGINT) + $4)),
  heartbeat_until = CASE
    WHEN CAST(w.value->>3 AS BIGINT) = 1 AND heartbeat_until > CAST($5 AS BIGINT) THEN CAST($5 AS BIGINT) + heartbeat_us
    ELSE heartbeat_until
  END
FROM {each_1} AS w
WHERE tasks.run_id = w.value->>0 AND tasks.place = w.value->>1
  {within_1[tasks.run_id]}
  AND tasks.lease_id = w.value->>2 AND tasks.worker = $2
  AND tasks.state = 'pending' AND (tasks.lease_until > CAST($5 AS BIGINT) OR $3 = 1)
  AND COALESCE(tasks.attempt_until > CAST($5 AS BIGINT), true)
"""

# Live leases of worker $1, those of cancelled tasks too: [[run, place, lease_id]]. Indexes `tasks_due` and
# `tasks_lingering`, whole: they hold what is leased now.
LEASES_OF = """
SELECT {pack}l.run_id, l.place, l.lease_id{packed}
FROM (
  SELECT t.run_id, t.place, t.lease_id FROM tasks AS t
  WHERE t.due_at IS NOT NULL AND t.worker = $1 AND t.lease_until > {now}
  UNION ALL
  SELECT t.run_id, t.place, t.lease_id FROM tasks AS t
  WHERE t.state = 'cancelled' AND t.lease_until IS NOT NULL
    AND t.worker = $1 AND t.lease_until > {now}
) AS l
"""

# Now, and the leases among $1 [[run, place, lease_id]] of worker $2 that still stand: [[run, place, 1 if to be offered
# again]].
STANDING = """
SELECT
  {now},
  (
    SELECT {pack}
      t.run_id, t.place, CASE WHEN t.state = 'pending' AND t.held = 0 THEN 1 ELSE 0 END
    {packed}
    FROM {each_1} AS w
    CROSS JOIN tasks AS t
    WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_1[t.run_id]}
      AND t.lease_id = w.value->>2 AND t.worker = $2 AND t.lease_until > {now}
  )
"""

# Ready rows among $1 [[run, place]]. Primary key.
READY_OF = """
SELECT {pack}r.run_id, r.place, r.queue, r.name, r.priority{packed}
FROM ready AS r
WHERE ((r.run_id, r.place) IN (SELECT w.value->>0, w.value->>1 FROM {each_1} AS w)) {is_so}
  {only_1[r.run_id]} {span_1[r.place]}
"""

# Gives them back: the attempt stays, waiting for a worker counts anew. $3 = 0: nobody had begun, so it was not handed
# out. $4 = the moment of STANDING.
CLEAR_LEASES = """
UPDATE tasks SET
  lease_id = NULL,
  worker = NULL,
  leased_at = NULL,
  lease_until = NULL,
  attempt_until = NULL,
  heartbeat_until = NULL,
  handed = handed - CASE WHEN $3 = 0 AND handed > 0 THEN 1 ELSE 0 END,
  released_at = CAST($4 AS BIGINT)
FROM {each_1} AS w
WHERE tasks.run_id = w.value->>0 AND tasks.place = w.value->>1
  {within_1[tasks.run_id]}
  AND tasks.lease_id = w.value->>2 AND tasks.worker = $2 AND tasks.lease_until > CAST($4 AS BIGINT)
"""

# Offers the given-back tasks [[run, place]].
OFFER_TASKS = """
INSERT INTO ready (run_id, place, queue, name, priority, since)
SELECT t.run_id, t.place, t.queue, t.name, t.priority, {now}
FROM {each_1} AS w
CROSS JOIN tasks AS t
WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_1[t.run_id]}
ON CONFLICT (run_id, place) DO NOTHING
"""
