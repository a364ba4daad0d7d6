"""Grants, heartbeats, releases: the statements on lease columns outside a commit."""

from tenuto.adapters.sql.statements.columns import with_columns

# Tasks to lease, highest priority then longest waiting. BRANCH is repeated for each queue, because only within one
# queue `ready_by_queue` gives that order without a sort; rows of unknown names are skipped inside the index.
# $1 names, $2 runs or null, $3 how many, $4… one queue each. Locks the ready rows, skipping those of another claim.
BRANCH = """
    SELECT * FROM (
      SELECT r.run_id, r.place, r.priority, r.since
      FROM ready AS r
      CROSS JOIN tasks AS t
      CROSS JOIN run_states AS s
      WHERE r.queue = {queue}
        AND r.name IN (SELECT w.value FROM {each_1} AS w)
        AND ($2 IS NULL OR r.run_id IN (SELECT w.value FROM {each_2} AS w))
        AND t.run_id = r.run_id AND t.place = r.place
        AND t.state = 'pending' AND t.lease_id IS NULL AND t.held = 0
        AND (t.total_until IS NULL OR t.total_until > {now})
        AND s.run_id = r.run_id AND s.quarantine IS NULL
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
      SELECT run_id, place, priority, since FROM ({branches}) AS candidate
      ORDER BY priority DESC, since, run_id, place
      LIMIT $3
    ) AS c
    CROSS JOIN tasks AS t
    CROSS JOIN payloads AS p
    WHERE t.run_id = c.run_id AND t.place = c.place
      AND p.run_id = t.run_id AND p.place = t.place AND p.kind = 'input' AND p.seq = t.input_seq
  )
""")

# What becomes of each beat: [[run, place, lease_id, verdict]], in any order.
# $1 [[run, place, lease_id, alive]], $2 the worker, $3 = 1: nobody else ends its leases.
# A lease past lease_until is over, even before recovery has seen it, unless $3 = 1; an attempt past its end is over for
# everybody. Primary key.
VERDICTS = """
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
      WHERE t.run_id = w.value->>0 AND t.place = w.value->>1
        AND t.lease_id = w.value->>2 AND t.worker = $2
    ),
    'stale'
  )
{packed}
FROM {each_1} AS w
"""

# Extends the live leases among the same rows, $4 = lease_us. Repeats the checks of VERDICTS. A heartbeat deadline
# that has passed is not moved any more. Primary key.
EXTEND_LEASES = """
UPDATE tasks SET
  lease_until = {least}({now} + $4, COALESCE(attempt_until, {now} + $4)),
  heartbeat_until = CASE
    WHEN CAST(w.value->>3 AS BIGINT) = 1 AND heartbeat_until > {now} THEN {now} + heartbeat_us
    ELSE heartbeat_until
  END
FROM {each_1} AS w
WHERE tasks.run_id = w.value->>0 AND tasks.place = w.value->>1
  AND tasks.lease_id = w.value->>2 AND tasks.worker = $2
  AND tasks.state = 'pending' AND (tasks.lease_until > {now} OR $3 = 1)
  AND COALESCE(tasks.attempt_until > {now}, true)
"""

# Leases among $1 [[run, place, lease_id]] of worker $2 that still stand: [[run, place, 1 if to be offered again]].
STANDING = """
SELECT {pack}
  t.run_id, t.place, CASE WHEN t.state = 'pending' AND t.held = 0 THEN 1 ELSE 0 END
{packed}
FROM {each_1} AS w
CROSS JOIN tasks AS t
WHERE t.run_id = w.value->>0 AND t.place = w.value->>1
  AND t.lease_id = w.value->>2 AND t.worker = $2 AND t.lease_until > {now}
"""

# Gives them back: the attempt stays, waiting for a worker counts anew. $3 = 0: nobody had begun, so it was not handed
# out.
CLEAR_LEASES = """
UPDATE tasks SET
  lease_id = NULL,
  worker = NULL,
  leased_at = NULL,
  lease_until = NULL,
  attempt_until = NULL,
  heartbeat_until = NULL,
  handed = handed - CASE WHEN $3 = 0 AND handed > 0 THEN 1 ELSE 0 END,
  released_at = {now}
FROM {each_1} AS w
WHERE tasks.run_id = w.value->>0 AND tasks.place = w.value->>1
  AND tasks.lease_id = w.value->>2 AND tasks.worker = $2 AND tasks.lease_until > {now}
"""

# Offers the given-back tasks [[run, place]].
OFFER_TASKS = """
INSERT INTO ready (run_id, place, queue, name, priority, since)
SELECT t.run_id, t.place, t.queue, t.name, t.priority, {now}
FROM {each_1} AS w
CROSS JOIN tasks AS t
WHERE t.run_id = w.value->>0 AND t.place = w.value->>1
ON CONFLICT (run_id, place) DO NOTHING
"""
