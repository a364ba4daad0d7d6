"""What people and clients read. Read only; nothing here is on the way of a decision."""

from tenuto.adapters.sql.statements.columns import with_columns

# $1 run $2 1 with the rows of items and pages, 0 without.
RUN = with_columns("""
SELECT
  (
    SELECT {pack}[run], [state]{packed}
    FROM runs AS r
    CROSS JOIN run_states AS s
    WHERE r.run_id = $1 AND s.run_id = $1
  ),
  (
    SELECT {pack}[task], [lease]{packed}
    FROM tasks AS t WHERE t.run_id = $1 AND ($2 = 1 OR t.place NOT LIKE '%[%')
  ),
  (
    SELECT {pack}t.run_id, t.place, t.kind, t.due_at, t.version{packed}
    FROM timers AS t WHERE t.run_id = $1 AND ($2 = 1 OR t.place NOT LIKE '%[%')
  ),
  (
    SELECT {pack}a.run_id, a.place, a.event, a.key, a.version, a.opened_at{packed}
    FROM waits AS a WHERE a.run_id = $1
  ),
  (
    SELECT {pack}r.place{packed}
    FROM ready AS r WHERE r.run_id = $1 AND ($2 = 1 OR r.place NOT LIKE '%[%')
  )
""")

# The same, with a page of events and the newest texts of some keys, all by primary keys. $3 number of the event before
# $4 limit $5 keys [[place, kind]]
WHOLE_RUN = (
    RUN
    + """,
  (
    SELECT {pack}e.seq, e.at, e.kind, e.place, e.data{packed}
    FROM (
      SELECT * FROM events WHERE run_id = $1 AND seq > $3 ORDER BY seq LIMIT $4
    ) AS e
  ),
  (
    SELECT {pack}
      w.value->>0, w.value->>1,
      (
        SELECT p.text FROM payloads AS p
        WHERE p.run_id = $1 AND p.place = w.value->>0 AND p.kind = w.value->>1
        ORDER BY p.seq DESC
        LIMIT 1
      )
    {packed}
    FROM {each_5} AS w
  )
"""
)

# A page, newest first. $1 namespace $2 workflow or null $3 states or null $4 before or null $5 limit $6 key or null
# $7 since or null $8 until or null $9 an id before those since $10 the parent or source. Ids are drawn a moment before
# the run is made. Paused runs answer to the state `paused` as well as to their own.
_runs = with_columns("""
SELECT {pack}[run]{packed}
FROM (
  SELECT * FROM runs AS o
  WHERE o.namespace = $1
    AND (CAST($2 AS TEXT) IS NULL OR o.workflow = $2)
    AND (
      CAST($3 AS TEXT) IS NULL
      OR o.state IN (SELECT w.value FROM {texts_3} AS w)
      OR (o.paused = 1 AND 'paused' IN (SELECT w.value FROM {texts_3} AS w))
    )
    AND (CAST($4 AS TEXT) IS NULL OR o.run_id < $4)
    AND (CAST($6 AS TEXT) IS NULL OR o.key = $6)
    AND (CAST($7 AS BIGINT) IS NULL OR (o.run_id >= $9 AND o.created_at >= $7))
    AND (CAST($8 AS BIGINT) IS NULL OR o.created_at < $8)
    AND [which]
  ORDER BY o.run_id DESC
  LIMIT $5
) AS r
CROSS JOIN run_states AS s
WHERE s.run_id = r.run_id
""")
# Index `runs_newest`.
RUNS = _runs.replace("[which]", "CAST($10 AS TEXT) IS NULL")
# Index `runs_top`.
TOP_RUNS = _runs.replace("[which]", "o.parent IS NULL AND CAST($10 AS TEXT) IS NULL")
# Index `runs_by_parent`.
CHILD_RUNS = _runs.replace("[which]", "o.parent = $10")
# Index `runs_by_source`.
REPLAYS = _runs.replace("[which]", "o.source = $10")

# $1 ids.
RUNS_BY_ID = with_columns("""
SELECT {pack}[run]{packed}
FROM {each_1} AS w
CROSS JOIN runs AS r
CROSS JOIN run_states AS s
WHERE r.run_id = w.value->>0 AND s.run_id = w.value->>0
  {within_1[r.run_id]} {within_1[s.run_id]}
""")

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
      {within_1[p.run_id]}
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

# Every row of the keys $1 [[run, place, kind]]. Primary key.
PAYLOAD_ROWS = """
SELECT {pack}p.place, p.kind, p.seq, p.text{packed}
FROM {each_1} AS w
CROSS JOIN payloads AS p
WHERE p.run_id = w.value->>0 AND p.place = w.value->>1 AND p.kind = w.value->>2
  {within_1[p.run_id]}
"""

# The newest child of each of the places $1 [[run, place]]. Index `runs_by_place`.
LAST_CHILDREN = """
SELECT {pack}
  w.value->>1,
  (
    SELECT r.run_id FROM runs AS r
    WHERE r.parent = w.value->>0 AND r.parent_place = w.value->>1
      {since_1[r.run_id]}
    ORDER BY r.run_id DESC
    LIMIT 1
  )
{packed}
FROM {each_1} AS w
"""

WORKERS = """
SELECT {pack}
  k.id, k.queues, k.names, k.capacity, k.busy, k.lag_us, k.seen_at, k.version, k.labels,
  CASE WHEN k.seen_at < {now} - k.lease_us THEN 1 ELSE 0 END
{packed}
FROM (SELECT * FROM workers ORDER BY id) AS k
"""

# Index `waits_by_address`. $2 event or null.
AWAITED = """
SELECT {pack}a.event, a.key, a.many{packed}
FROM (
  SELECT event, key, count(*) AS many FROM waits
  WHERE namespace = $1 AND (CAST($2 AS TEXT) IS NULL OR event = $2)
  GROUP BY event, key
  ORDER BY event, key
  LIMIT 1000
) AS a
"""

# Index `runs_by_state`. $1 namespace $2 1 for those only that no run called
COUNTS = """
SELECT {pack}c.state, c.many{packed}
FROM (
  SELECT r.state, count(*) AS many FROM runs AS r
  WHERE r.namespace = $1 AND r.state NOT IN ('pending', 'running')
    AND ($2 = 0 OR r.parent IS NULL)
  GROUP BY r.state
  UNION ALL
  SELECT o.state, count(*) AS many FROM (
    SELECT CASE WHEN paused = 1 THEN 'paused' ELSE state END AS state FROM runs
    WHERE namespace = $1 AND state IN ('pending', 'running') AND ($2 = 0 OR parent IS NULL)
  ) AS o
  GROUP BY o.state
) AS c
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

# A version without its text and graph, which may be large: the newest, one by number, one by alias.
# $1 namespace $2 name
NEWEST_ROW = """
SELECT version, hash, created_at
FROM definitions
WHERE namespace = $1 AND name = $2
ORDER BY version DESC
LIMIT 1
"""
# $3 version
VERSION_ROW = """
SELECT version, hash, created_at
FROM definitions
WHERE namespace = $1 AND name = $2 AND version = $3
"""
# $3 alias
ALIASED_ROW = """
SELECT d.version, d.hash, d.created_at
FROM aliases AS a
CROSS JOIN definitions AS d
WHERE a.namespace = $1 AND a.name = $2 AND a.alias = $3
  AND d.namespace = a.namespace AND d.name = a.name AND d.version = a.version
"""

# $1 namespace $2 name $3 the version before the page or null $4 limit
VERSIONS = """
SELECT {pack}d.name, d.version, d.hash, d.created_at{packed}
FROM (
  SELECT name, version, hash, created_at
  FROM definitions
  WHERE namespace = $1 AND name = $2 AND (CAST($3 AS BIGINT) IS NULL OR version < $3)
  ORDER BY version DESC
  LIMIT $4
) AS d
"""

# $1 namespace $2 name
ALIASES = """
SELECT {pack}a.alias, a.version{packed}
FROM aliases AS a
WHERE a.namespace = $1 AND a.name = $2
"""

# Queues of work in stored graphs, as JSON texts, each once; `[` for one that is computed. By the text that
# `model.stored` writes, where the keys of work are in order and no quote within a string is bare:
# `"queue":"mail","queue_timeout_us":…` or `"queue":["name",…`. A name has up to 100 characters.
QUEUES = """
SELECT {pack}q.name{packed}
FROM (
  SELECT DISTINCT
    CASE
      WHEN substr(p.value, 1, 1) = '[' THEN '['
      ELSE substr(p.value, 1, {position}(p.value, ',"queue_timeout_us":') - 1)
    END AS name
  FROM definitions AS d
  CROSS JOIN {cut[d.graph]}
  WHERE substr(p.value, 1, 8) = '["name",'
    OR (
      substr(p.value, 1, 1) = '"'
      AND {position}(substr(p.value, 1, 130), '","queue_timeout_us":') BETWEEN 3 AND 102
    )
) AS q
"""

# The items $1 [[run, place, index]] of a foreach as people see them. Primary key.
_items = with_columns("""
SELECT {pack}
  [index], [task], [lease],
  CASE WHEN t.state = 'dead' THEN (
    SELECT p.text FROM payloads AS p
    WHERE p.run_id = t.run_id AND p.place = t.place AND p.kind = 'error'
      [own]
    ORDER BY p.seq DESC
    LIMIT 1
  ) END,
  CASE WHEN EXISTS (
    SELECT 1 FROM payloads AS p
    WHERE p.run_id = t.run_id AND p.place = t.place AND p.kind = 'output'
      [own]
  ) THEN 1 ELSE 0 END
{packed}
""")
ITEMS = (
    _items.replace("[index]", "CAST(w.value->>2 AS BIGINT)").replace(
        "[own]", "{within_1[p.run_id]}"
    )
    + """
FROM {each_1} AS w
CROSS JOIN tasks AS t
WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_1[t.run_id]}
"""
)
# The same for items in some states ($5), by a range of the primary key: [$2, $3), those that end with $4. After the
# index $6, at most $7.
ITEMS_IN_STATES = (
    _items.replace("[index]", "t.nth").replace("[own]", "AND p.run_id = $1")
    + """
FROM (
  SELECT * FROM (
    SELECT
      k.*,
      CASE WHEN k.place LIKE '%]' || $4 THEN CAST(
        substr(k.place, length($2), length(k.place) - length($2) - length($4)) AS BIGINT
      ) END AS nth
    FROM tasks AS k
    WHERE k.run_id = $1 AND k.place >= $2 AND k.place < $3 AND k.place LIKE '%]' || $4
      AND CASE
        WHEN k.state = 'pending' AND COALESCE(k.lease_id, k.child) IS NOT NULL THEN 'running'
        ELSE k.state
      END IN (SELECT w.value FROM {texts_5} AS w)
  ) AS numbered
  WHERE numbered.nth > $6
  ORDER BY numbered.nth
  LIMIT $7
) AS t
"""
)

# Places of the passes of a node, [[place]]: what starts with $2, ends before $3 and goes on with numbers, of any epoch.
# Ranges of primary keys. $1 run
PASSES = """
SELECT {pack}f.place{packed}
FROM (
  SELECT p.place FROM payloads AS p
  WHERE p.run_id = $1 AND p.place >= $2 AND p.place < $3
    AND ltrim(substr(p.place, length($2) + 1), '.~0123456789') = ''
  UNION
  SELECT t.place FROM tasks AS t
  WHERE t.run_id = $1 AND t.place >= $2 AND t.place < $3
    AND ltrim(substr(t.place, length($2) + 1), '.~0123456789') = ''
) AS f
"""

# What is known of the places $1 [[run, place]]: state and attempt of the task, the error, 1 if there is an output.
PASSES_BY_PLACE = """
SELECT {pack}
  w.value->>1,
  (
    SELECT t.state FROM tasks AS t
    WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_1[t.run_id]}
  ),
  (
    SELECT t.attempt FROM tasks AS t
    WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_1[t.run_id]}
  ),
  (
    SELECT p.text FROM payloads AS p
    WHERE p.run_id = w.value->>0 AND p.place = w.value->>1 AND p.kind = 'error'
      {within_1[p.run_id]}
    ORDER BY p.seq DESC
    LIMIT 1
  ),
  CASE WHEN EXISTS (
    SELECT 1 FROM payloads AS p
    WHERE p.run_id = w.value->>0 AND p.place = w.value->>1 AND p.kind IN ('output', 'given')
      {within_1[p.run_id]}
  ) THEN 1 ELSE 0 END
{packed}
FROM {each_1} AS w
"""

# $1 namespace $2 states or null $3 queue or null $4 run id before the page or null $5 its place $6 limit. A
# pending task with a lease, or with a child under way, is running.
_tasks = with_columns("""
SELECT {pack}
  [task], [lease], t.workflow,
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
      CAST($2 AS TEXT) IS NULL
      OR CASE
        WHEN t.state = 'pending' AND COALESCE(t.lease_id, t.child) IS NOT NULL THEN 'running'
        ELSE t.state
      END IN (SELECT w.value FROM {texts_2} AS w)
    )
    AND (CAST($3 AS TEXT) IS NULL OR t.queue = $3)
    AND (CAST($4 AS TEXT) IS NULL OR t.run_id < $4 OR (t.run_id = $4 AND t.place > $5))
    AND [which]
  ORDER BY t.run_id DESC, t.place
  LIMIT $6
) AS t
""")
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
  WHERE run_id = $1 AND (CAST($2 AS TEXT) IS NULL OR place = $2)
  ORDER BY at DESC, attempt DESC, number DESC
  LIMIT $3
) AS n
"""
