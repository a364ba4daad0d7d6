"""What recovery, timers, the mailbox loop and waiting notices look for. Read only; index `tasks_due`, `timers_due`,
`timers_draining`, `mailbox_hinted`, `notices_sent`.

A DRAIN timer (C2) is due by leases, not by time: when none of the run is live. While a run drains, only tasks that were
cancelled have leases: index `tasks_lingering`.

Quarantined runs are left out here and in PULSE: an event of theirs cannot be decided, so it would be due for ever.
$1 everywhere: the runs asked about as a JSON array, or null for all.
"""

# Messages and waits are paired by the reader of the answer, in order, address by address: a join of the two ranked sets
# took 950 ms for a thousand of each, this takes a few. The sign before `keep_until` leaves its index out: among the
# hinted messages there are far fewer. $2 how many of each, $3 how many waits of an address.
DUE = """
WITH matched AS MATERIALIZED (
  SELECT m.namespace, m.event, m.key, m.id, m.payload, m.posted_at
  FROM mailbox AS m
  WHERE m.used = 0 AND m.hinted = 1 AND +m.keep_until > {now}
    AND EXISTS (
      SELECT 1 FROM waits AS o
      WHERE o.namespace = m.namespace AND o.event = m.event AND o.key = m.key
        AND (CAST($1 AS TEXT) IS NULL OR o.run_id IN (SELECT w.value FROM {texts_1} AS w))
        AND NOT EXISTS (
          SELECT 1 FROM run_states AS s
          WHERE s.run_id = o.run_id AND s.quarantine IS NOT NULL
          {apart}
        )
      {apart}
    )
  ORDER BY m.posted_at, m.id
  LIMIT $2
)
SELECT
  {now},
  (
    SELECT {pack}
      d.run_id, d.place, d.attempt, d.lease_id, d.worker, d.leased_at, d.lease_until,
      d.attempt_until, d.heartbeat_until, d.due_at
    {packed}
    FROM (
      SELECT * FROM tasks AS t
      WHERE t.due_at <= {now}
        AND (CAST($1 AS TEXT) IS NULL OR t.run_id IN (SELECT w.value FROM {texts_1} AS w))
        AND NOT EXISTS (
          SELECT 1 FROM run_states AS s
          WHERE s.run_id = t.run_id AND s.quarantine IS NOT NULL
          {apart}
        )
      ORDER BY t.due_at
      LIMIT $2
    ) AS d
  ),
  (
    SELECT {pack}d.run_id, d.place, d.kind, d.due_at, d.version{packed}
    FROM (
      SELECT * FROM (
        SELECT t.run_id, t.place, t.kind, t.due_at, t.version FROM timers AS t
        WHERE t.due_at <= {now} AND t.kind <> 'drain'
          AND (CAST($1 AS TEXT) IS NULL OR t.run_id IN (SELECT w.value FROM {texts_1} AS w))
          AND NOT EXISTS (
            SELECT 1 FROM run_states AS s
            WHERE s.run_id = t.run_id AND s.quarantine IS NOT NULL
            {apart}
          )
        ORDER BY t.due_at
        LIMIT $2
      ) AS timed
      UNION ALL
      SELECT * FROM (
        SELECT t.run_id, t.place, t.kind, t.due_at, t.version FROM timers AS t
        WHERE t.kind = 'drain'
          AND NOT EXISTS (
            SELECT 1 FROM tasks AS k
            WHERE k.run_id = t.run_id AND k.state = 'cancelled' AND k.lease_until > {now}
          )
          AND (CAST($1 AS TEXT) IS NULL OR t.run_id IN (SELECT w.value FROM {texts_1} AS w))
          AND NOT EXISTS (
            SELECT 1 FROM run_states AS s
            WHERE s.run_id = t.run_id AND s.quarantine IS NOT NULL
            {apart}
          )
        LIMIT $2
      ) AS drained
    ) AS d
  ),
  (
    SELECT {pack}m.namespace, m.event, m.key, m.id, m.payload, m.posted_at{packed}
    FROM matched AS m
  ),
  (
    SELECT {pack}
      a.run_id, a.place, a.event, a.key, a.version, a.opened_at, a.namespace
    {packed}
    FROM (
      SELECT
        o.run_id, o.place, o.event, o.key, o.version, o.opened_at, o.namespace,
        row_number() OVER (
          PARTITION BY o.namespace, o.event, o.key ORDER BY o.opened_at, o.run_id, o.place
        ) AS nth
      FROM (SELECT DISTINCT namespace, event, key FROM matched) AS m
      {asked[waits AS o]}
        o.namespace = m.namespace AND o.event = m.event AND o.key = m.key
      {_asked[o]}
      WHERE (CAST($1 AS TEXT) IS NULL OR o.run_id IN (SELECT w.value FROM {texts_1} AS w))
        AND NOT EXISTS (
          SELECT 1 FROM run_states AS s
          WHERE s.run_id = o.run_id AND s.quarantine IS NOT NULL
          {apart}
        )
    ) AS a
    WHERE a.nth <= $3
  ),
  (
    SELECT {pack}n.run_id, n.kind, n.place, n.sender, n.data, n.sent_at{packed}
    FROM (
      SELECT * FROM (
        SELECT * FROM notices AS o
        WHERE o.kind = 'start'
          AND (
            CAST($1 AS TEXT) IS NULL
            OR o.run_id IN (SELECT w.value FROM {texts_1} AS w)
            OR o.sender IN (SELECT w.value FROM {texts_1} AS w)
          )
          AND NOT EXISTS (
            SELECT 1 FROM run_states AS s
            WHERE s.run_id = o.sender AND s.quarantine IS NOT NULL
            {apart}
          )
        ORDER BY o.sent_at
        LIMIT $2
      ) AS begins
      UNION ALL
      SELECT * FROM (
        SELECT * FROM notices AS o
        WHERE o.kind <> 'start'
          AND (CAST($1 AS TEXT) IS NULL OR o.run_id IN (SELECT w.value FROM {texts_1} AS w))
          AND NOT EXISTS (
            SELECT 1 FROM run_states AS s
            WHERE s.run_id = o.run_id AND s.quarantine IS NOT NULL
            {apart}
          )
        ORDER BY o.sent_at
        LIMIT $2
      ) AS others
    ) AS n
  ),
  (
    SELECT {pack}u.id{packed}
    FROM (
      SELECT b.id FROM mailbox AS b
      WHERE b.used = 0 AND b.hinted = 1
        AND NOT EXISTS (
          SELECT 1 FROM waits AS o
          WHERE o.namespace = b.namespace AND o.event = b.event AND o.key = b.key
          {apart}
        )
      LIMIT $2
    ) AS u
  )
"""

# Live leases of workers that are not among $1, at most $2, of the runs $3 or of all.
# `tasks_due` holds every live lease.
ABANDONED = """
SELECT {pack}
  d.run_id, d.place, d.attempt, d.lease_id, d.worker, d.leased_at, d.lease_until,
  d.attempt_until, d.heartbeat_until, d.due_at
{packed}
FROM (
  SELECT * FROM tasks AS t
  WHERE t.due_at IS NOT NULL AND t.lease_id IS NOT NULL
    AND t.worker NOT IN (SELECT w.value FROM {texts_1} AS w)
    AND (CAST($3 AS TEXT) IS NULL OR t.run_id IN (SELECT w.value FROM {texts_3} AS w))
    AND NOT EXISTS (
      SELECT 1 FROM run_states AS s
      WHERE s.run_id = t.run_id AND s.quarantine IS NOT NULL
      {apart}
    )
  ORDER BY t.due_at
  LIMIT $2
) AS d
"""

# Index tops; of each run that drains the end of its last live lease; since when the oldest notice waits, or any message
# that is hinted; the queues of ready rows, one probe of `ready_by_queue` each (a condition on the queue must be there).
# Ready rows are counted up to a thousand: more is only "many".
PULSE = """
SELECT
  {now},
  (
    SELECT t.due_at FROM tasks AS t
    WHERE t.due_at > CAST($2 AS BIGINT)
      AND (CAST($1 AS TEXT) IS NULL OR t.run_id IN (SELECT w.value FROM {texts_1} AS w))
      AND NOT EXISTS (
        SELECT 1 FROM run_states AS s
        WHERE s.run_id = t.run_id AND s.quarantine IS NOT NULL
        {apart}
      )
    ORDER BY t.due_at
    LIMIT 1
  ),
  (
    SELECT min(e.due_at) FROM (
      SELECT * FROM (
        SELECT t.due_at FROM timers AS t
        WHERE t.due_at > CAST($2 AS BIGINT) AND t.kind <> 'drain'
          AND (CAST($1 AS TEXT) IS NULL OR t.run_id IN (SELECT w.value FROM {texts_1} AS w))
          AND NOT EXISTS (
            SELECT 1 FROM run_states AS s
            WHERE s.run_id = t.run_id AND s.quarantine IS NOT NULL
            {apart}
          )
        ORDER BY t.due_at
        LIMIT 1
      ) AS timed
      UNION ALL
      SELECT COALESCE(
        (
          SELECT max(k.lease_until) FROM tasks AS k
          WHERE k.run_id = t.run_id AND k.state = 'cancelled' AND k.lease_until > {now}
        ),
        {now}
      )
      FROM timers AS t
      WHERE t.kind = 'drain'
        AND (
          CAST($2 AS BIGINT) = 0
          OR EXISTS (
            SELECT 1 FROM tasks AS k
            WHERE k.run_id = t.run_id AND k.state = 'cancelled'
              AND k.lease_until > CAST($2 AS BIGINT)
            {apart}
          )
        )
        AND (CAST($1 AS TEXT) IS NULL OR t.run_id IN (SELECT w.value FROM {texts_1} AS w))
        AND NOT EXISTS (
          SELECT 1 FROM run_states AS s
          WHERE s.run_id = t.run_id AND s.quarantine IS NOT NULL
          {apart}
        )
    ) AS e
  ),
  (
    SELECT count(*) FROM (
      SELECT 1 FROM ready AS r
      WHERE (CAST($1 AS TEXT) IS NULL OR r.run_id IN (SELECT w.value FROM {texts_1} AS w))
        AND NOT EXISTS (
          SELECT 1 FROM run_states AS s
          WHERE s.run_id = r.run_id AND s.quarantine IS NOT NULL
          {apart}
        )
      LIMIT 1000
    ) AS waiting
  ),
  (
    SELECT min(n.since) FROM (
      SELECT * FROM (
        SELECT o.sent_at AS since FROM notices AS o
        WHERE (
            CAST($1 AS TEXT) IS NULL
            OR o.run_id IN (SELECT w.value FROM {texts_1} AS w)
            OR o.kind = 'start' AND o.sender IN (SELECT w.value FROM {texts_1} AS w)
          )
          AND NOT EXISTS (
            SELECT 1 FROM run_states AS s
            WHERE s.run_id = CASE WHEN o.kind = 'start' THEN o.sender ELSE o.run_id END
              AND s.quarantine IS NOT NULL
              {apart}
          )
        ORDER BY o.sent_at
        LIMIT 1
      ) AS noticed
      UNION ALL
      SELECT * FROM (
        SELECT m.posted_at AS since FROM mailbox AS m
        WHERE m.used = 0 AND m.hinted = 1
        LIMIT 1
      ) AS posted
    ) AS n
  ),
  (
    WITH RECURSIVE q (queue, nth) AS (
      SELECT (SELECT r.queue FROM ready AS r WHERE r.queue >= '' ORDER BY r.queue LIMIT 1), 1
      UNION ALL
      SELECT
        (SELECT r.queue FROM ready AS r WHERE r.queue > q.queue ORDER BY r.queue LIMIT 1),
        q.nth + 1
      FROM q
      WHERE q.queue IS NOT NULL AND q.nth < 1000
    )
    SELECT {pack}q.queue{packed} FROM q WHERE q.queue IS NOT NULL
  )
"""
