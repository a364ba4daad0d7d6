"""Lists of columns that several statements select, in the order in which `adapters.sql.rows` reads them.

Not statements: a text that says `[task]` gets the list put in when its module is loaded.
"""

from __future__ import annotations

task_columns = (
    "t.run_id, t.place, t.node, t.name, t.queue, t.priority, t.state, t.attempt, t.lost,"
    " t.input_seq, t.timeout_us, t.heartbeat_us, t.queue_timeout_us, t.total_until,"
    " t.queue_until, t.held, t.ended_lease, t.child, t.spent, t.rules, t.late, t.ending"
)
"""The decided columns."""
lease_columns = (
    "t.lease_id, t.worker, t.leased_at, t.lease_until, t.attempt_until, t.heartbeat_until"
)
run_columns = (
    "r.run_id, r.namespace, r.workflow, r.version, r.definition, r.key, r.state, r.paused,"
    " r.created_at, r.ended_at, r.output, r.error, r.parent, r.parent_place, r.source,"
    " r.compensation, s.quarantine"
)
state_columns = "s.seq, s.at, s.state, s.paused, s.nodes, s.edges, s.rest"

kept_columns = (
    "place, node, name, queue, priority, state, attempt, lost, timeout_us, heartbeat_us,"
    " queue_timeout_us, total_until, queue_until, ended_lease, spent, rules, late, ending"
)
"""What a replay copies of a task: not its child, its leases and the number of its input."""
copied_columns = ", ".join(f"t.{name}" for name in kept_columns.split(", "))


def with_columns(text: str) -> str:
    """Put the lists in."""
    return (
        text.replace("[task]", task_columns)
        .replace("[lease]", lease_columns)
        .replace("[run]", run_columns)
        .replace("[state]", state_columns)
    )


def with_lease(text: str, first: int) -> str:
    """Put in how a lease that begins at $2 ends; NULLs without one. No lease reaches beyond its attempt's end (F7).

    From column `first` on a row of $1 says: its length, the attempt's, when all attempts end, a heartbeat's length
    (`adapters.sql.rows.lease_row`).
    """
    us, attempt_us, end, heartbeat_us = (
        f"CAST(w.value->>{n} AS BIGINT)" for n in range(first, first + 4)
    )
    now = "CAST($2 AS BIGINT)"
    times = {
        "[leased_at]": f"CASE WHEN w.value->>{first} IS NULL THEN NULL ELSE {now} END",
        "[lease_until]": f"{{least}}({now} + {us}, COALESCE({end}, {now} + {us}))",
        "[attempt_until]": f"COALESCE({{least}}({now} + {attempt_us}, {end}), {now} + {attempt_us}, {end})",
        "[heartbeat_until]": f"{now} + {heartbeat_us}",
    }
    for name, time in times.items():
        text = text.replace(name, time)
    return text
