"""External events: stored first, matched to waits afterwards.

Whoever stores a message looks for waits, and whoever opens a wait looks for messages: at the same time neither would
see the other. So where writers work side by side both lock the address first, in a statement of its own, so that the
next one sees what the other left.
"""

# Addresses of who only sends, together with other senders, always in the same order: $1 [[event, key]].
LOCK_ADDRESSES_TOGETHER = """
SELECT count(*) FROM (
  SELECT {lock_shared}a.name{locked} FROM (
    SELECT DISTINCT (w.value->>0) || '/' || (w.value->>1) AS name FROM {each_1} AS w ORDER BY 1
  ) AS a
) AS l
"""

# The same for whoever opens waits there, or both: $1 [[event, key]].
LOCK_ADDRESSES = """
SELECT count(*) FROM (
  SELECT {lock_alone}a.name{locked} FROM (
    SELECT DISTINCT (w.value->>0) || '/' || (w.value->>1) AS name FROM {each_1} AS w ORDER BY 1
  ) AS a
) AS l
"""

# The same for the addresses of messages $1 [[id]].
LOCK_MESSAGE_ADDRESSES = """
SELECT count(*) FROM (
  SELECT {lock_alone}a.name{locked} FROM (
    SELECT DISTINCT m.event || '/' || m.key AS name
    FROM mailbox AS m
    WHERE m.id {in_}SELECT w.value->>0 FROM {each_1} AS w{_in}
    ORDER BY 1
  ) AS a
) AS l
"""

# Which of the messages $1 [[id]] were stored, after POST_MESSAGES (`changes`).
STORED_MESSAGES = """
SELECT {pack}m.id{packed}
FROM mailbox AS m
WHERE m.id {in_}SELECT w.value->>0 FROM {each_1} AS w{_in}
"""

# Forgets messages, used or not, whose time is over; $1 at a time. Index `mailbox_kept`.
DELETE_OLD_MESSAGES = """
DELETE FROM mailbox
WHERE id {in_}
  SELECT id FROM mailbox
  WHERE keep_until <= {now}
  ORDER BY keep_until
  LIMIT $1
  {for_update} {skip_locked}
{_in}
"""

# Messages $1 [[id]] are not looked at until a wait for their address opens (HINT_MESSAGES), but for those for which
# another wait is open than the ones that refused them, $2 [[id, run, place, version]]. Index `waits_by_address`.
UNHINT_MESSAGES = """
UPDATE mailbox SET hinted = 0
WHERE id {in_}SELECT w.value->>0 FROM {each_1} AS w{_in}
  AND NOT EXISTS (
    SELECT 1 FROM waits AS a
    WHERE a.namespace = mailbox.namespace AND a.event = mailbox.event AND a.key = mailbox.key
      AND (mailbox.id, a.run_id, a.place, a.version) NOT IN (
        SELECT w.value->>0, w.value->>1, w.value->>2, CAST(w.value->>3 AS BIGINT)
        FROM {each_2} AS w
      )
    {apart}
  )
"""
