"""External events: stored first, matched to waits afterwards.

Whoever stores a message looks for waits, and whoever opens a wait looks for messages: at the same time neither would
see the other. So where writers work side by side both lock the address first, in a statement of its own, so that the
next one sees what the other left.
"""

# One address, together with other senders: $1 event $2 key.
LOCK_ADDRESS = """
SELECT {lock_shared}$1 || '/' || $2{locked}
"""

# Addresses for whoever opens waits there, or both, always in the same order: $1 [[event, key]].
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

# Stores a message unless its event_id is known; hinted when a wait for its address is open. One row if stored.
# $1 id $2 namespace $3 event $4 key $5 payload $6 event_id $7 keep_us
INSERT_MESSAGE = """
INSERT INTO mailbox (
  id, namespace, event, key, payload, event_id, posted_at, keep_until, used, hinted
)
SELECT
  $1, $2, $3, $4, $5, $6, {now}, {now} + $7, 0,
  CASE
    WHEN EXISTS (SELECT 1 FROM waits WHERE namespace = $2 AND event = $3 AND key = $4) THEN 1
    ELSE 0
  END
WHERE true
ON CONFLICT DO NOTHING
RETURNING id
"""

# Forgets messages, used or not, whose time is over; a hundred at a time. Index `mailbox_kept`.
DELETE_OLD_MESSAGES = """
DELETE FROM mailbox
WHERE id {in_}
  SELECT id FROM mailbox
  WHERE keep_until <= {now}
  ORDER BY keep_until
  LIMIT 100
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
