"""What attempts say while they run: written beside a run's history, never read by a decision."""

NOW = """
SELECT {now}
"""

# $1 rows (run_id, place, attempt, number, at, kind, text). A line is written once; of number 0, the progress, the
# newest stands.
INSERT_NOTES = """
INSERT INTO notes (run_id, place, attempt, number, at, kind, text)
SELECT
  w.value->>0, w.value->>1, CAST(w.value->>2 AS BIGINT), CAST(w.value->>3 AS BIGINT),
  CAST(w.value->>4 AS BIGINT), w.value->>5, w.value->>6
FROM {each_1} AS w
WHERE EXISTS (
  SELECT 1 FROM tasks AS t
  WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 {within_1[t.run_id]}
)
ON CONFLICT (run_id, place, attempt, number) DO UPDATE SET
  at = excluded.at,
  text = excluded.text
WHERE notes.number = 0
"""
