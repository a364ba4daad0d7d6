-- What attempts say while they run, and the lists that people page through.

CREATE TABLE notes (
  run_id TEXT NOT NULL,
  place TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  number INTEGER NOT NULL CHECK (number >= 0),
  at INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('stdout', 'stderr', 'log', 'progress')),
  text TEXT NOT NULL,
  PRIMARY KEY (run_id, place, attempt, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX tasks_dead ON tasks (run_id, place) WHERE state = 'dead';
CREATE INDEX runs_by_workflow ON runs (namespace, workflow, run_id);
