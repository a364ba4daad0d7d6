"""Statements that follow one another in jobs, in an order that never changes: an engine may send such a row as one.

No SQL text here. A group of a job's steps that is part of a sequence, in its order, may be carried out by one call.
"""

from __future__ import annotations

from tenuto.adapters.sql import statements as s
from tenuto.adapters.sql.commit import WRITES
from tenuto.adapters.sql.dialect import Dialect

_CHANGES = {
    name: text
    for module in (s.changes, s.wholes)
    for name, text in vars(module).items()
    if name.isupper()
}
_COMMIT = (
    s.guard.LOCK_RUNS,
    s.guard.LOCK_TASKS,
    s.guard.LOCK_MESSAGES,
    s.guard.LOCK_NOTICES,
    s.mailbox.LOCK_ADDRESSES,
    s.guard.GUARD,
)
_BEAT = (s.leases.LOCK_LEASES, s.leases.VERDICTS)
_BEATEN = (s.leases.EXTEND_LEASES, s.registry.SEE_WORKER)
_GRANTED = (s.changes.LEASE_TASKS, s.leases.DELETE_GRANTED)
_RELEASE = (s.leases.LOCK_LEASES, s.leases.STANDING)
_RELEASED = (s.leases.CLEAR_LEASES, s.leases.OFFER_TASKS)


def sequences(dialect: Dialect) -> tuple[tuple[str, ...], ...]:
    """Each as filled texts. Of the last one of a row its answer counts, if it has one."""
    writes = (*(_CHANGES[text] for text, *_ in WRITES), _CHANGES["OPEN_CHILDREN"])
    return tuple(
        tuple(dialect.fill(text) for text in texts)
        for texts in (_COMMIT, writes, _BEAT, _BEATEN, _GRANTED, _RELEASE, _RELEASED)
    )
