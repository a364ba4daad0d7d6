"""External events: stored first, matched to waits afterwards."""

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
WHERE id IN (SELECT id FROM mailbox WHERE keep_until <= {now} ORDER BY keep_until LIMIT 100)
"""

# Messages $1 [[id]] are not looked at until a wait for their address opens (HINT_MESSAGES), but for those for which
# another wait is open than the ones that refused them, $2 [[id, run, place, version]]. Index `waits_by_address`.
UNHINT_MESSAGES = """
UPDATE mailbox SET hinted = 0
WHERE id IN (SELECT w.value->>0 FROM {each_1} AS w)
  AND NOT EXISTS (
    SELECT 1 FROM waits AS a
    WHERE a.namespace = mailbox.namespace AND a.event = mailbox.event AND a.key = mailbox.key
      AND (mailbox.id, a.run_id, a.place, a.version) NOT IN (
        SELECT w.value->>0, w.value->>1, w.value->>2, CAST(w.value->>3 AS BIGINT)
        FROM {each_2} AS w
      )
  )
"""
