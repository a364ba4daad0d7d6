"""Ready rows and a broker: grants by hint, and where each row's hint went (`ports.ready`).

Statements that change several rows lock them first and skip those of others: what waits for a row while it holds
another could deadlock with a commit that withdraws both.
"""

from tenuto.adapters.sql.statements.columns import with_columns

# -- grants -------------------------------------------------------------------------------------------------------

_may_be_had = """
      COALESCE(r.queue, '') IN (SELECT q.value FROM {texts_2} AS q)
      AND r.name IN (SELECT n.value FROM {texts_3} AS n)
      AND t.state = 'pending' AND t.lease_id IS NULL AND t.held = 0
      AND (t.total_until IS NULL OR t.total_until > {now})
      AND NOT EXISTS (
        SELECT 1 FROM run_states AS s
        WHERE s.run_id = r.run_id {within_1[s.run_id]} AND s.quarantine IS NOT NULL
        {apart}
      )
"""
# $1 [[run, place]], $2 queues, $3 names. The database's time; the tasks that may be had, locked, with their inputs;
# what is to be said of the others: [[run, place, verdict]]. Primary keys: the queue is said so that it does not imply
# the predicate of `ready_by_queue`.
HINTED = with_columns(f"""
SELECT
  {{now}},
  (
    SELECT {{pack}}[task], p.text{{packed}}
    FROM (
      SELECT t.*
      FROM ready AS r
      CROSS JOIN tasks AS t
      WHERE ((r.run_id, r.place) IN (SELECT w.value->>0, w.value->>1 FROM {{each_1}} AS w)) {{is_so}}
        {{only_1[r.run_id]}} {{span_1[r.place]}}
        AND t.run_id = r.run_id AND t.place = r.place {{within_1[t.run_id]}}
        AND {_may_be_had}
      {{for_update}} {{skip_locked}}
    ) AS t
    CROSS JOIN payloads AS p
    WHERE p.run_id = t.run_id AND p.place = t.place AND p.kind = 'input' AND p.seq = t.input_seq
      {{within_1[p.run_id]}}
  ),
  (
    SELECT {{pack}}
      w.value->>0, w.value->>1,
      COALESCE(
        (
          SELECT CASE WHEN {_may_be_had} THEN 'busy' ELSE 'held' END
          FROM ready AS r
          CROSS JOIN tasks AS t
          WHERE r.run_id = w.value->>0 AND r.place = w.value->>1
            AND t.run_id = r.run_id AND t.place = r.place {{within_1[t.run_id]}}
        ),
        (
          SELECT CASE WHEN t.lease_id IS NULL THEN 'gone' ELSE 'taken' END
          FROM tasks AS t
          WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {{within_1[t.run_id]}}
        ),
        'gone'
      )
    {{packed}}
    FROM {{each_1}} AS w
  )
""")

# -- what there is to do ------------------------------------------------------------------------------------------

# $1 epoch. Queues are found by a step along `ready_unpublished` for each;
# the rest are tops of `ready_published`.
SURVEY = """
SELECT
  (
    WITH RECURSIVE found(queue) AS (
      SELECT * FROM (
        SELECT r.queue FROM ready AS r WHERE r.published = '' ORDER BY r.queue LIMIT 1
      ) AS first
      UNION ALL
      SELECT (
        SELECT r.queue FROM ready AS r
        WHERE r.published = '' AND r.queue > f.queue
        ORDER BY r.queue
        LIMIT 1
      )
      FROM found AS f
      WHERE f.queue IS NOT NULL
    )
    SELECT {pack}f.queue{packed} FROM found AS f WHERE f.queue IS NOT NULL
  ),
  (
    SELECT {pack}k.queues{packed}
    FROM (SELECT DISTINCT queues FROM workers WHERE seen_at > {now} - lease_us) AS k
  ),
  CASE WHEN EXISTS (
    SELECT 1 FROM ready AS r WHERE r.published > '' AND r.published = 'database'
  ) THEN 1 ELSE 0 END,
  CASE WHEN EXISTS (
    SELECT 1 FROM ready AS r
    WHERE r.published > '' AND r.published > 'database' AND r.published < $1
  ) OR EXISTS (
    SELECT 1 FROM ready AS r WHERE r.published > '' AND r.published > $1
  ) THEN 1 ELSE 0 END
"""

# $1 queue, $2 waiting at least so long, $3 not taken since so long, $4 how many. Index `ready_unpublished`.
UNPUBLISHED = """
SELECT {pack}u.run_id, u.place, u.queue, u.name, u.priority, u.since{packed}
FROM (
  SELECT r.run_id, r.place, r.queue, r.name, r.priority, r.since
  FROM ready AS r
  WHERE r.published = '' AND r.queue = $1
    AND r.since <= {now} - $2 AND r.published_at <= {now} - $3
  ORDER BY r.priority DESC, r.since
  LIMIT $4
  {for_update} {skip_locked}
) AS u
"""
# Rows of: run, place.
TAKE_UNPUBLISHED = """
UPDATE ready SET published_at = {now}
WHERE ((run_id, place) IN (SELECT w.value->>0, w.value->>1 FROM {each_1} AS w)) {is_so}
  {only_1[run_id]} {span_1[place]}
"""

# Rows of other epochs than $1, at most $2: [[run, place]]. Ranges of `ready_published`.
_stale = """
  SELECT * FROM (
    SELECT r.run_id, r.place FROM ready AS r
    WHERE r.published > '' AND [which]
    LIMIT $2
    {for_update} {skip_locked}
  ) AS [name]
"""
STALE = (
    "SELECT {pack}u.run_id, u.place{packed}\nFROM ("
    + _stale.replace("[which]", "r.published > 'database' AND r.published < $1").replace(
        "[name]", "below"
    )
    + "  UNION ALL"
    + _stale.replace("[which]", "r.published > $1").replace("[name]", "above")
    + ") AS u\n"
)

# $1 epoch, $2 queue, $3 published at least so long ago, $4 = 1: and longer ago than it had waited before, $5 how many.
# Index `ready_published`; a queue has no more published rows than the windows of its streams.
LAPSED = """
SELECT {pack}u.run_id, u.place, u.queue, u.name, u.priority, u.published_at{packed}
FROM (
  SELECT r.run_id, r.place, r.queue, r.name, r.priority, r.published_at
  FROM ready AS r
  WHERE r.published > '' AND r.published = $1 AND r.queue = $2
    AND r.published_at <= {now} - $3
    AND ($4 = 0 OR {now} - r.published_at >= r.published_at - r.since)
  ORDER BY r.published_at
  LIMIT $5
) AS u
"""

# $1 queues, $2 names, $3 how many. Index `ready_published`.
ASIDE = """
SELECT {pack}u.run_id, u.place, u.queue, u.name, u.priority, u.since{packed}
FROM (
  SELECT r.run_id, r.place, r.queue, r.name, r.priority, r.since
  FROM ready AS r
  WHERE r.published > '' AND r.published = 'database'
    AND r.queue IN (SELECT q.value FROM {texts_1} AS q)
    AND r.name IN (SELECT n.value FROM {texts_2} AS n)
    AND NOT EXISTS (
      SELECT 1 FROM run_states AS s WHERE s.run_id = r.run_id AND s.quarantine IS NOT NULL
      {apart}
    )
  ORDER BY r.published_at
  LIMIT $3
) AS u
"""

# -- where hints went ---------------------------------------------------------------------------------------------

_locked = """
WHERE (
    (run_id, place) IN (
      SELECT r.run_id, r.place FROM ready AS r
      WHERE ((r.run_id, r.place) IN (SELECT w.value->>0, w.value->>1 FROM {each_1} AS w)) {is_so}
        {only_1[r.run_id]} {span_1[r.place]}
        AND [which]
      {for_update} {skip_locked}
    )
  ) {is_so}
  {only_1[run_id]} {span_1[place]}
"""
# $1 [[run, place]], $2 epoch, $3 the age of the hints.
MARK_PUBLISHED = "UPDATE ready SET published = $2, published_at = {now}\n" + _locked.replace(
    "[which]",
    "r.since <= {now} - $3 AND (r.published <> 'database' OR $2 = 'database')",
)
# $1 [[run, place]], $2 epoch.
UNPUBLISH = "UPDATE ready SET published = '', published_at = 0\n" + _locked.replace(
    "[which]", "r.published = $2"
)
# $1 [[run, place]], locked already.
CLEAR_PUBLISHED = """
UPDATE ready SET published = '', published_at = 0
WHERE ((run_id, place) IN (SELECT w.value->>0, w.value->>1 FROM {each_1} AS w)) {is_so}
  {only_1[run_id]} {span_1[place]}
"""
