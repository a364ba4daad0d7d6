"""Definitions, workers, quarantine: small writes outside a run's history."""

NEWEST_DEFINITION = """
SELECT namespace, name, version, hash, source, graph, created_at
FROM definitions
WHERE namespace = $1 AND name = $2
ORDER BY version DESC
LIMIT 1
"""

# The highest version that was ever deleted, or null. $1 namespace $2 name
DROPPED_VERSION = """
SELECT max(version) FROM dropped_versions WHERE namespace = $1 AND name = $2
"""

# $1 namespace $2 name $3 version $4 hash $5 source $6 graph $7 created_at; two writers of one version: one fails.
INSERT_DEFINITION = """
INSERT INTO definitions (namespace, name, version, hash, source, graph, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""

# Until the end of the transaction nobody else means or deletes versions of a workflow. $1 namespace $2 name
LOCK_VERSIONS = """
SELECT {lock_alone}'workflow/' || $1 || '/' || $2{locked}
"""

# $1 namespace $2 name $3 version
VERSION = """
SELECT namespace, name, version, hash, source, graph, created_at
FROM definitions
WHERE namespace = $1 AND name = $2 AND version = $3
"""

# $1 namespace $2 name $3 alias
ALIASED_VERSION = """
SELECT d.namespace, d.name, d.version, d.hash, d.source, d.graph, d.created_at
FROM aliases AS a
CROSS JOIN definitions AS d
WHERE a.namespace = $1 AND a.name = $2 AND a.alias = $3
  AND d.namespace = a.namespace AND d.name = a.name AND d.version = a.version
"""

# $1 namespace $2 name $3 alias
ALIAS = """
SELECT version FROM aliases WHERE namespace = $1 AND name = $2 AND alias = $3
"""

# $1 namespace $2 name $3 alias $4 version
PUT_ALIAS = """
INSERT INTO aliases (namespace, name, alias, version)
VALUES ($1, $2, $3, $4)
ON CONFLICT (namespace, name, alias) DO UPDATE SET version = excluded.version
"""

# One row if there was one. $1 namespace $2 name $3 alias
DROP_ALIAS = """
DELETE FROM aliases
WHERE namespace = $1 AND name = $2 AND alias = $3
RETURNING alias
"""

# What still needs a version: its open runs (how many, the oldest, the newest), its aliases (how many, the first), a
# child that is about to start. Index `runs_by_state`; notices of that kind wait for moments.
# $1 namespace $2 name $3 version $4 hash
VERSION_USERS = """
SELECT r.runs, r.oldest, r.newest, a.aliases, a.alias, (
  SELECT n.run_id FROM notices AS n
  WHERE n.kind = 'start' AND n.data LIKE '%' || $4 || '%'
  LIMIT 1
)
FROM (
  SELECT count(*) AS runs, min(run_id) AS oldest, max(run_id) AS newest
  FROM runs
  WHERE namespace = $1 AND state IN ('pending', 'running', 'closing')
    AND workflow = $2 AND version = $3
) AS r
CROSS JOIN (
  SELECT count(*) AS aliases, min(alias) AS alias
  FROM aliases
  WHERE namespace = $1 AND name = $2 AND version = $3
) AS a
"""

# Runs that have ended are shown, verified and done again by it, and its number is not given again.
# $1 namespace $2 name $3 version
KEEP_DROPPED = """
INSERT INTO dropped_versions (namespace, name, version, hash, source, graph, created_at)
SELECT namespace, name, version, hash, source, graph, created_at
FROM definitions
WHERE namespace = $1 AND name = $2 AND version = $3
"""

# $1 namespace $2 name $3 version
DROP_VERSION = """
DELETE FROM definitions WHERE namespace = $1 AND name = $2 AND version = $3
"""

# The oldest version of this content, deleted ones last: the hash covers the meaning, so any will do. Indexes
# `definitions_by_hash` and `dropped_versions_by_hash`.
DEFINITION_BY_HASH = """
SELECT namespace, name, version, hash, source, graph, created_at
FROM (
  SELECT 0 AS dropped, namespace, name, version, hash, source, graph, created_at
  FROM definitions
  WHERE hash = $1
  UNION ALL
  SELECT 1 AS dropped, namespace, name, version, hash, source, graph, created_at
  FROM dropped_versions
  WHERE hash = $1
) AS d
ORDER BY dropped, created_at, version
LIMIT 1
"""

# $1 id $2 queues $3 names $4 labels $5 capacity $6 version $7 incarnation $8 how long it may be silent
PUT_WORKER = """
INSERT INTO workers (
  id, queues, names, labels, capacity, version, incarnation, lease_us, busy, lag_us, seen_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, 0, {now})
ON CONFLICT (id) DO UPDATE SET
  queues = excluded.queues,
  names = excluded.names,
  labels = excluded.labels,
  capacity = excluded.capacity,
  version = excluded.version,
  incarnation = excluded.incarnation,
  lease_us = excluded.lease_us,
  seen_at = excluded.seen_at
"""

# $1 id $2 busy $3 capacity $4 lag_us
SEE_WORKER = """
UPDATE workers SET busy = $2, capacity = $3, lag_us = $4, seen_at = {now} WHERE id = $1
"""

# Forgets a worker that incarnation $2 speaks for. $1 id
DROP_WORKER = """
DELETE FROM workers WHERE id = $1 AND incarnation = $2
"""

# Forgets workers that never left and were not seen for $1.
DROP_LOST_WORKERS = """
DELETE FROM workers WHERE seen_at < {now} - $1
"""

# $1 run $2 reason or null
QUARANTINE = """
UPDATE run_states SET quarantine = $2 WHERE run_id = $1
"""
