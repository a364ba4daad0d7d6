"""Definitions, workers, quarantine: small writes outside a run's history."""

NEWEST_DEFINITION = """
SELECT namespace, name, version, hash, source, graph, created_at
FROM definitions
WHERE namespace = $1 AND name = $2
ORDER BY version DESC
LIMIT 1
"""

# $1 namespace $2 name $3 version $4 hash $5 source $6 graph $7 created_at; two writers of one version: one fails.
INSERT_DEFINITION = """
INSERT INTO definitions (namespace, name, version, hash, source, graph, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""

# The oldest version of this content: the hash covers the meaning, so any will do. Index `definitions_by_hash`.
DEFINITION_BY_HASH = """
SELECT namespace, name, version, hash, source, graph, created_at
FROM definitions
WHERE hash = $1
ORDER BY created_at, version
LIMIT 1
"""

# $1 id $2 queues $3 names $4 labels $5 capacity $6 version $7 incarnation
PUT_WORKER = """
INSERT INTO workers (
  id, queues, names, labels, capacity, version, incarnation, busy, lag_us, seen_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, {now})
ON CONFLICT (id) DO UPDATE SET
  queues = excluded.queues,
  names = excluded.names,
  labels = excluded.labels,
  capacity = excluded.capacity,
  version = excluded.version,
  incarnation = excluded.incarnation,
  seen_at = excluded.seen_at
"""

# $1 id $2 busy $3 capacity $4 lag_us
SEE_WORKER = """
UPDATE workers SET busy = $2, capacity = $3, lag_us = $4, seen_at = {now} WHERE id = $1
"""

DROP_WORKER = """
DELETE FROM workers WHERE id = $1
"""

# $1 run $2 reason or null
QUARANTINE = """
UPDATE run_states SET quarantine = $2 WHERE run_id = $1
"""
