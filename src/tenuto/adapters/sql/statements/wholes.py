"""What a commit writes to sets of rows that it does not name one by one: items, children, a run's timers, copies.

Like `changes`: after the guard, under its locks. Items and pages of a foreach are a range of places, `[first, end)`.
"""

from tenuto.adapters.sql.statements.columns import copied_columns, kept_columns

# -- notices ------------------------------------------------------------------------------------------------------

# Rows of: run, kind, place, sender, data. A newer one takes the place of what it says again, with a moment of its own:
# whoever has read the older one must not remove it.
INSERT_NOTICES = """
INSERT INTO notices (run_id, kind, place, sender, data, sent_at)
SELECT w.value->>0, w.value->>1, w.value->>2, w.value->>3, w.value->>4, {now}
FROM {each_1} AS w
WHERE true
ON CONFLICT (run_id, kind, place)
DO UPDATE SET
  sender = excluded.sender,
  data = excluded.data,
  sent_at = {greatest}(excluded.sent_at, notices.sent_at + 1)
"""

# Rows of: run, kind, place, sender, sent_at; the guard has compared the last.
DELETE_NOTICES = """
DELETE FROM notices
WHERE (
    (run_id, kind, place, sender) IN (
      SELECT w.value->>0, w.value->>1, w.value->>2, w.value->>3 FROM {each_1} AS w
    )
  ) {is_so}
  {only_1[run_id]}
"""

# A cancel to the open children of open tasks of the runs [[run]] (C2), before CLOSE_TASKS. Index `tasks_children`: a
# bound on `child` makes it better than the primary key, under which a run has all its items.
CANCEL_CHILDREN = """
INSERT INTO notices (run_id, kind, place, sender, data, sent_at)
SELECT t.child, 'cancel', t.place, t.run_id, '{{}}', {now}
FROM {each_1} AS w
CROSS JOIN tasks AS t
WHERE t.run_id = w.value->>0 {within_1[t.run_id]}
  AND t.child > '' AND t.state IN ('pending', 'retry')
ON CONFLICT (run_id, kind, place)
DO UPDATE SET
  sender = excluded.sender,
  data = excluded.data,
  sent_at = {greatest}(excluded.sent_at, notices.sent_at + 1)
"""

# The same for the items [[run, first, end]] of foreach nodes, before CANCEL_ITEMS.
CANCEL_ITEM_CHILDREN = """
INSERT INTO notices (run_id, kind, place, sender, data, sent_at)
SELECT t.child, 'cancel', t.place, t.run_id, '{{}}', {now}
FROM {each_1} AS w
CROSS JOIN tasks AS t
WHERE t.run_id = w.value->>0 {within_1[t.run_id]}
  AND t.place >= w.value->>1 AND t.place < w.value->>2
  AND t.child IS NOT NULL AND t.state IN ('pending', 'retry')
ON CONFLICT (run_id, kind, place)
DO UPDATE SET
  sender = excluded.sender,
  data = excluded.data,
  sent_at = {greatest}(excluded.sent_at, notices.sent_at + 1)
"""

# A notice to every open child of the runs [[run, kind, data]], whatever its task's state. Index `tasks_children`.
TELL_CHILDREN = """
INSERT INTO notices (run_id, kind, place, sender, data, sent_at)
SELECT t.child, w.value->>1, t.place, t.run_id, w.value->>2, {now}
FROM {each_1} AS w
CROSS JOIN tasks AS t
WHERE t.run_id = w.value->>0 {within_1[t.run_id]}
  AND t.child > ''
ON CONFLICT (run_id, kind, place)
DO UPDATE SET
  sender = excluded.sender,
  data = excluded.data,
  sent_at = {greatest}(excluded.sent_at, notices.sent_at + 1)
"""

# Open children of the runs [[run]]. Index `tasks_children`.
OPEN_CHILDREN = """
SELECT {pack}t.child{packed}
FROM {each_1} AS w
CROSS JOIN tasks AS t
WHERE t.run_id = w.value->>0 {within_1[t.run_id]}
  AND t.child > ''
"""

# -- items --------------------------------------------------------------------------------------------------------

# Rows of: run, first, end; the lease columns stay, as CANCEL_TASKS leaves them.
CANCEL_ITEMS = """
UPDATE tasks SET state = 'cancelled'
FROM {each_1} AS w
WHERE tasks.run_id = w.value->>0 {within_1[tasks.run_id]}
  AND tasks.place >= w.value->>1 AND tasks.place < w.value->>2
  AND tasks.state IN ('pending', 'retry')
"""

# The same rows.
DELETE_READY_OF_ITEMS = """
DELETE FROM ready
WHERE run_id {in_}SELECT w.value->>0 FROM {each_1} AS w{_in}
  AND EXISTS (
    SELECT 1 FROM {each_1} AS w
    WHERE ready.run_id = w.value->>0
      AND ready.place >= w.value->>1 AND ready.place < w.value->>2
    {apart}
  )
"""

# The same rows.
DELETE_TIMERS_OF_ITEMS = """
DELETE FROM timers
WHERE run_id {in_}SELECT w.value->>0 FROM {each_1} AS w{_in}
  AND EXISTS (
    SELECT 1 FROM {each_1} AS w
    WHERE timers.run_id = w.value->>0
      AND timers.place >= w.value->>1 AND timers.place < w.value->>2
    {apart}
  )
"""

# -- payloads that a loop does not keep (L5) ----------------------------------------------------------------------

# Rows of: run, place.
DROP_PAYLOADS = """
DELETE FROM payloads
WHERE (run_id, place) IN (SELECT w.value->>0, w.value->>1 FROM {each_1} AS w)
  {within_1[payloads.run_id]}
"""

# Those of items and of inner loops' passes, but not what undoes them: rows of run, first, end, epoch; places in the
# range that end so.
DROP_INNER_PAYLOADS = """
DELETE FROM payloads
WHERE (run_id, place, kind, seq) IN (
  SELECT p.run_id, p.place, p.kind, p.seq
  FROM {each_1} AS w
  CROSS JOIN payloads AS p
  WHERE p.run_id = w.value->>0 {within_1[p.run_id]}
    AND p.place >= w.value->>1 AND p.place < w.value->>2
    AND p.place NOT LIKE '%!%'
    AND CASE
      WHEN w.value->>3 = '' THEN p.place NOT LIKE '%~%'
      ELSE p.place LIKE '%' || (w.value->>3)
    END
) {within_1[payloads.run_id]}
"""

# -- frozen timers (C6) -------------------------------------------------------------------------------------------

# $1 [[run, by, version]], $2 [[run, place]] of waits until a moment. Internal timers have no moment to shift.
# Said so that it does not imply the predicate of `timers_due`, which would then be read whole.
SHIFT_TIMERS = """
UPDATE timers SET
  due_at = due_at + (
    SELECT CAST(w.value->>1 AS BIGINT) FROM {each_1} AS w WHERE w.value->>0 = timers.run_id
  ),
  version = (
    SELECT CAST(w.value->>2 AS BIGINT) FROM {each_1} AS w WHERE w.value->>0 = timers.run_id
  )
WHERE run_id {in_}SELECT w.value->>0 FROM {each_1} AS w{_in}
  AND kind || '' NOT IN ('drain', 'continue')
  AND (run_id, place) NOT IN (SELECT b.value->>0, b.value->>1 FROM {each_2} AS b)
"""

# The same $1.
SHIFT_TASKS = """
UPDATE tasks SET total_until = total_until + CAST(w.value->>1 AS BIGINT)
FROM {each_1} AS w
WHERE tasks.run_id = w.value->>0 {within_1[tasks.run_id]}
  AND tasks.total_until IS NOT NULL
  AND tasks.state IN ('pending', 'retry')
"""

# -- what a replay keeps (R2) -------------------------------------------------------------------------------------

# A place's node is what stands before the first character that no id has. Number 0, so that whatever the new run puts
# itself is newer. $1 [[run, source]], $2 [[run, node]] that it does itself. A range of the primary key.
_kept = """
    AND [x].place <> '' AND [x].place NOT LIKE '%!%'
    AND (
      w.value->>0,
      substr(
        [x].place,
        1,
        length([x].place) - length(
          ltrim([x].place, '0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz')
        )
      )
    ) NOT IN (SELECT b.value->>0, b.value->>1 FROM {each_2} AS b)
"""
COPY_PAYLOADS = """
INSERT INTO payloads (run_id, place, kind, seq, text)
SELECT w.value->>0, p.place, p.kind, 0, p.text
FROM {each_1} AS w
CROSS JOIN payloads AS p
WHERE p.run_id = w.value->>1
  AND p.seq = (
    SELECT max(q.seq) FROM payloads AS q
    WHERE q.run_id = p.run_id AND q.place = p.place AND q.kind = p.kind
  )
""" + _kept.replace("[x]", "p")

# Tasks of items and pages: all that a foreach's list of items is read from. Not handed out: they stay the source's to
# undo.
COPY_ITEMS = f"""
INSERT INTO tasks (run_id, input_seq, held, handed, {kept_columns})
SELECT w.value->>0, 0, 0, 0, {copied_columns}
FROM {{each_1}} AS w
CROSS JOIN tasks AS t
WHERE t.run_id = w.value->>1 AND t.place LIKE '%[%'
""" + _kept.replace("[x]", "t")
