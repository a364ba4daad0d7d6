"""What a decision stands on, read by key in one statement: a single statement is one consistent reading.

Everything by primary key; the oldest message by `mailbox_by_address`, the newest payload by the end of its key.
"""

# $1 [[run]] $2 tasks [[run, place]] $3 timers [[run, place, kind]] $4 waits [[run, place]]
# $5 payloads [[run, place, kind]] $6 addresses [[namespace, event, key]]
LOAD = """
SELECT
  {now},
  (
    SELECT {pack}
      r.run_id, r.namespace, r.workflow, r.version, r.definition, r.key, r.state, r.paused,
      r.created_at, r.ended_at, r.output, r.error, s.quarantine,
      s.seq, s.at, s.state, s.paused, s.nodes, s.edges, s.rest
    {packed}
    FROM {each_1} AS w
    CROSS JOIN runs AS r
    CROSS JOIN run_states AS s
    WHERE r.run_id = w.value->>0 AND s.run_id = w.value->>0
  ),
  (
    SELECT {pack}
      t.run_id, t.place, t.node, t.name, t.queue, t.priority, t.state, t.attempt, t.lost,
      t.input_seq, t.timeout_us, t.heartbeat_us, t.queue_timeout_us, t.total_until,
      t.queue_until, t.held, t.ended_lease, t.lease_id, t.worker, t.leased_at, t.lease_until,
      t.attempt_until, t.heartbeat_until
    {packed}
    FROM {each_2} AS w
    CROSS JOIN tasks AS t
    WHERE t.run_id = w.value->>0 AND t.place = w.value->>1
  ),
  (
    SELECT {pack}t.run_id, t.place, t.kind, t.due_at, t.version{packed}
    FROM {each_3} AS w
    CROSS JOIN timers AS t
    WHERE t.run_id = w.value->>0 AND t.place = w.value->>1 AND t.kind = w.value->>2
  ),
  (
    SELECT {pack}a.run_id, a.place, a.event, a.key, a.version, a.opened_at{packed}
    FROM {each_4} AS w
    CROSS JOIN waits AS a
    WHERE a.run_id = w.value->>0 AND a.place = w.value->>1
  ),
  (
    SELECT {pack}
      w.value->>0, w.value->>1, w.value->>2,
      (
        SELECT p.text FROM payloads AS p
        WHERE p.run_id = w.value->>0 AND p.place = w.value->>1 AND p.kind = w.value->>2
        ORDER BY p.seq DESC
        LIMIT 1
      )
    {packed}
    FROM {each_5} AS w
  ),
  (
    SELECT {pack}m.namespace, m.event, m.key, m.id, m.payload{packed}
    FROM {each_6} AS w
    CROSS JOIN mailbox AS m
    WHERE m.id = (
      SELECT o.id FROM mailbox AS o
      WHERE o.namespace = w.value->>0 AND o.event = w.value->>1 AND o.key = w.value->>2
        AND o.used = 0 AND o.keep_until > {now}
      ORDER BY o.posted_at, o.id
      LIMIT 1
    )
  )
"""
