"""What a commit checks before it writes. Read only, but for the row locks of an engine that has them.

Locks, in this order: run rows, task rows, messages, notices, each by id, addresses; then the checks read in statements
of their own, because a statement that waited for a lock still sees its joined rows as of before the wait. A check finds
rows where something is not as the commit hopes: none if all is well. GUARD is all of them in one row.

Small tables are found empty now and again. What is asked of them row by row, apart, is looked up by key even by a plan
that was made then; a join with them would not be.
"""

from collections.abc import Sequence

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

# -- checks -------------------------------------------------------------------------------------------------------
# Each has rows for $1. All by primary key, but for the queue: the top of `ready_by_queue`.

# Runs whose seq is not the expected one, [[run, seq]]; 0: the run must not exist.
MOVED_RUNS = """
SELECT w.value->>0 AS run_id FROM {each_1} AS w
WHERE CAST(w.value->>1 AS BIGINT) <> COALESCE(
  (SELECT s.seq FROM run_states AS s WHERE s.run_id = w.value->>0 {within_1[s.run_id]}), 0
)
"""

# Runs of which a claimed lease is over, [[run, place, attempt, lease]].
LOST_LEASES = """
SELECT w.value->>0 AS run_id FROM {each_1} AS w
WHERE NOT EXISTS (
  SELECT 1 FROM tasks AS t
  WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_1[t.run_id]}
    AND t.attempt = CAST(w.value->>2 AS BIGINT) AND t.lease_id = w.value->>3
)
"""

# Runs of which a claimed task without a lease was leased meanwhile, also if it was given back since and waits anew,
# [[run, place, attempt]].
LEASED_MEANWHILE = """
SELECT w.value->>0 AS run_id FROM {each_1} AS w
WHERE NOT EXISTS (
  SELECT 1 FROM tasks AS t
  WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_1[t.run_id]}
    AND t.attempt = CAST(w.value->>2 AS BIGINT)
    AND t.state = 'pending' AND t.lease_id IS NULL AND t.due_at <= {now}
)
"""

# The same of timers, [[run, place, kind, version]].
GONE_TIMERS = """
SELECT w.value->>0 AS run_id FROM {each_1} AS w
WHERE NOT EXISTS (
  SELECT 1 FROM timers AS t
  WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 AND t.kind = w.value->>2
    AND t.version = CAST(w.value->>3 AS BIGINT)
  {apart}
)
"""

# Of waits, [[run, place, version]].
GONE_WAITS = """
SELECT w.value->>0 AS run_id FROM {each_1} AS w
WHERE NOT EXISTS (
  SELECT 1 FROM waits AS a
  WHERE a.run_id = w.value->>0 AND a.place = w.value->>1
    AND a.version = CAST(w.value->>2 AS BIGINT)
  {apart}
)
"""

# Of messages, [[run, id]]. Not `used = 0`: `mailbox_by_address` would do, whole for each, while it was found empty.
GONE_MESSAGES = """
SELECT w.value->>0 AS run_id FROM {each_1} AS w
WHERE NOT EXISTS (
  SELECT 1 FROM mailbox AS m
  WHERE m.id = w.value->>1 AND m.used <= 0 AND m.keep_until > {now}
  {apart}
)
"""

# Of notices, [[run, kind, place, sender, sent_at]].
GONE_NOTICES = """
SELECT w.value->>0 AS run_id FROM {each_1} AS w
WHERE NOT EXISTS (
  SELECT 1 FROM notices AS n
  WHERE n.run_id = w.value->>0 AND n.kind = w.value->>1 AND n.place = w.value->>2
    AND n.sender = w.value->>3 AND n.sent_at = CAST(w.value->>4 AS BIGINT)
  {apart}
)
"""

# Runs whose idempotency key is taken, and by which: [[run, namespace, workflow, key]].
TAKEN_KEYS = """
SELECT t.run_id, t.owner
FROM (
  SELECT
    w.value->>0 AS run_id,
    (
      SELECT k.run_id FROM run_keys AS k
      WHERE k.namespace = w.value->>1 AND k.workflow = w.value->>2 AND k.key = w.value->>3
    ) AS owner
  FROM {each_1} AS w
) AS t
WHERE t.owner IS NOT NULL
"""

# Eager grants that are refused, [[run, place, queue, priority, 1 if it may be leased]]: because an entry of the queue,
# as urgent or more, has waited longer than a second, because an old lease of the task still lives (R1), or because the
# run was put into quarantine.
REFUSED_GRANTS = """
SELECT w.value->>0 AS run_id, w.value->>1 AS place FROM {each_1} AS w
WHERE EXISTS (
  SELECT 1 FROM ready AS r
  WHERE r.queue = w.value->>2 AND r.priority >= CAST(w.value->>3 AS BIGINT)
    AND r.since < {now} - 1000000
  {apart}
)
OR CAST(w.value->>4 AS BIGINT) = 1 AND EXISTS (
  SELECT 1 FROM tasks AS t
  WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_1[t.run_id]}
    AND t.lease_id IS NOT NULL
)
OR EXISTS (
  SELECT 1 FROM run_states AS q
  WHERE q.run_id = w.value->>0 {within_1[q.run_id]} AND q.quarantine IS NOT NULL
)
"""

# The moment of a commit that is one call.
MOMENT = "SELECT {now}"


def _of(n: int, check: str) -> str:
    """The same check of parameter n."""
    return check.replace("_1}", f"_{n}}}").replace("_1[", f"_{n}[")


def _guard(losing: Sequence[str], keys: str, grants: str) -> str:
    losers = "UNION ALL".join(_of(n, check) for n, check in enumerate(losing, 1))
    keys, grants = _of(len(losing) + 1, keys), _of(len(losing) + 2, grants)
    return f"""
SELECT
  {{now}},
  (SELECT {{pack}}loser.run_id{{packed}} FROM ({losers}) AS loser),
  (SELECT {{pack}}taken.run_id, taken.owner{{packed}} FROM ({keys}) AS taken),
  (SELECT {{pack}}refused.run_id, refused.place{{packed}} FROM ({grants}) AS refused)
"""


# One row: now; runs that lose; keys that are taken; eager grants refused. $1 … $9 are the checks' rows in this order.
GUARD = _guard(
    (
        MOVED_RUNS,
        LOST_LEASES,
        LEASED_MEANWHILE,
        GONE_TIMERS,
        GONE_WAITS,
        GONE_MESSAGES,
        GONE_NOTICES,
    ),
    TAKEN_KEYS,
    REFUSED_GRANTS,
)
