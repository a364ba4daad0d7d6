"""What a decision stands on, read by key in one statement: a single statement is one consistent reading.

Everything by primary key or a range of it; messages by `mailbox_by_address`, waits by `waits_by_address`, children by
`runs_by_place`, the newest payload by the end of its key.
"""

from tenuto.adapters.sql.statements.columns import with_columns

# $1 [[run]] $2 tasks [[run, place]] $3 timers [[run, place, kind]] $4 waits [[run, place]]
# $5 payloads [[run, place, kind]] $6 messages [[namespace, event, key, after or null]]
# $7 notices [[run, kind, place]] $8 items [[run, place, first, end, epoch, number]]: places in [first, end) that end so
# $9 passes [[run, prefix, epoch asked for, end]]: places in [prefix, end) that go on with numbers, of any epoch
# $10 children [[parent, place]]
# $11 waits of addresses [[namespace, event, key]]
LOAD = with_columns("""
SELECT
  {now},
  (
    SELECT {pack}[run], [state]{packed}
    FROM {each_1} AS w
    CROSS JOIN runs AS r
    CROSS JOIN run_states AS s
    WHERE r.run_id = w.value->>0 AND s.run_id = w.value->>0
      {within_1[r.run_id]} {within_1[s.run_id]}
  ),
  (
    SELECT {pack}[task], [lease]{packed}
    FROM {each_2} AS w
    CROSS JOIN tasks AS t
    WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_2[t.run_id]}
  ),
  (
    SELECT {pack}t.run_id, t.place, t.kind, t.due_at, t.version{packed}
    FROM timers AS t
    WHERE (
        (t.run_id, t.place, t.kind) IN (
          SELECT w.value->>0, w.value->>1, w.value->>2 FROM {each_3} AS w
        )
      ) {is_so}
      {only_3[t.run_id]} {span_3[t.place]}
  ),
  (
    SELECT {pack}a.run_id, a.place, a.event, a.key, a.version, a.opened_at{packed}
    FROM waits AS a
    WHERE ((a.run_id, a.place) IN (SELECT w.value->>0, w.value->>1 FROM {each_4} AS w)) {is_so}
      {only_4[a.run_id]} {span_4[a.place]}
  ),
  (
    SELECT {pack}
      w.value->>0, w.value->>1, w.value->>2,
      (
        SELECT p.text FROM payloads AS p
        WHERE p.run_id = w.value->>0 AND p.place = w.value->>1 AND p.kind = w.value->>2
          {within_5[p.run_id]}
        ORDER BY p.seq DESC
        LIMIT 1
      )
    {packed}
    FROM {each_5} AS w
  ),
  (
    SELECT {pack}
      f.value->>0, f.value->>1, f.value->>2, f.value->>3, f.id,
      (SELECT m.payload FROM mailbox AS m WHERE m.id = f.id)
    {packed}
    FROM (
      SELECT
        w.value,
        (
          SELECT o.id FROM mailbox AS o
          WHERE o.namespace = w.value->>0 AND o.event = w.value->>1 AND o.key = w.value->>2
            AND o.used = 0 AND o.keep_until > {now}
            AND (o.posted_at, o.id) > (
              CASE
                WHEN w.value->>3 IS NULL THEN -1
                ELSE (SELECT b.posted_at FROM mailbox AS b WHERE b.id = w.value->>3)
              END,
              COALESCE(w.value->>3, '')
            )
          ORDER BY o.posted_at, o.id
          LIMIT 1
        ) AS id
      FROM {each_6} AS w
      {apart}
    ) AS f
    WHERE f.id IS NOT NULL
  ),
  (
    SELECT {pack}n.run_id, n.kind, n.place, n.sender, n.data, n.sent_at{packed}
    FROM notices AS n
    WHERE (
        (n.run_id, n.kind, n.place) IN (
          SELECT w.value->>0, w.value->>1, w.value->>2 FROM {each_7} AS w
        )
      ) {is_so}
      {only_7[n.run_id]}
  ),
  (
    SELECT {pack}
      CAST(w.value->>5 AS BIGINT), t.place, t.state,
      CASE WHEN t.state = 'success' THEN (
        SELECT p.text FROM payloads AS p
        WHERE p.run_id = t.run_id AND p.place = t.place AND p.kind = 'output'
          {within_8[p.run_id]}
        ORDER BY p.seq DESC
        LIMIT 1
      ) END,
      CASE WHEN t.state = 'dead' THEN (
        SELECT p.text FROM payloads AS p
        WHERE p.run_id = t.run_id AND p.place = t.place AND p.kind = 'error'
          {within_8[p.run_id]}
        ORDER BY p.seq DESC
        LIMIT 1
      ) END
    {packed}
    FROM {each_8} AS w
    CROSS JOIN tasks AS t
    WHERE t.run_id = w.value->>0 {within_8[t.run_id]}
      AND t.place >= w.value->>2 AND t.place < w.value->>3
      AND t.place LIKE '%]' || (w.value->>4)
  ),
  (
    SELECT {pack}
      w.value->>0, w.value->>1, CAST(w.value->>2 AS BIGINT), p.place, p.kind, p.seq, p.text
    {packed}
    FROM {each_9} AS w
    CROSS JOIN payloads AS p
    WHERE p.run_id = w.value->>0 {within_9[p.run_id]}
      AND p.place >= w.value->>1 AND p.place < w.value->>3
      AND p.kind IN ('output', 'error')
      AND ltrim(substr(p.place, length(w.value->>1) + 1), '.~0123456789') = ''
      AND p.seq = (
        SELECT max(q.seq) FROM payloads AS q
        WHERE q.run_id = p.run_id {within_9[q.run_id]}
          AND q.place = p.place AND q.kind = p.kind
      )
  ),
  (
    SELECT {pack}
      w.value->>0, w.value->>1,
      (
        SELECT r.run_id FROM runs AS r
        WHERE r.parent = w.value->>0 AND r.parent_place = w.value->>1
          {since_10[r.run_id]}
        ORDER BY r.run_id DESC
        LIMIT 1
      )
    {packed}
    FROM {each_10} AS w
  ),
  (
    SELECT {pack}
      a.run_id, a.place, a.event, a.key, a.version, a.opened_at, a.namespace
    {packed}
    FROM (SELECT DISTINCT w.value FROM {each_11} AS w) AS w
    {asked[waits AS a]}
      a.namespace = w.value->>0 AND a.event = w.value->>1 AND a.key = w.value->>2
    {_asked[a]}
  )
""")

# How far the runs $1 [[run]] are: [[run, seq]], and those that are final as they are read. Primary keys.
PROGRESS = with_columns("""
SELECT
  (
    SELECT {pack}s.run_id, s.seq{packed}
    FROM {each_1} AS w
    CROSS JOIN run_states AS s
    WHERE s.run_id = w.value->>0 {within_1[s.run_id]}
  ),
  (
    SELECT {pack}[run]{packed}
    FROM {each_1} AS w
    CROSS JOIN runs AS r
    CROSS JOIN run_states AS s
    WHERE r.run_id = w.value->>0 AND s.run_id = w.value->>0 AND r.ended_at IS NOT NULL
      {within_1[r.run_id]} {within_1[s.run_id]}
  )
""")

# Places of a run's tasks that were handed out, to a worker or a child. A range of the primary key. $1 run
STARTED = """
SELECT {pack}t.place{packed}
FROM tasks AS t
WHERE t.run_id = $1 AND t.handed > 0
"""
