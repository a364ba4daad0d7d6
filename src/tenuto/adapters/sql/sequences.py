"""Statements that follow one another in jobs, in an order that never changes: an engine may send such a row as one.

No SQL text here. A group of a job's steps that is part of a sequence, in its order, may be carried out by one call. In
a checked sequence some are checks: where one finds a row, all that follows is left out, and nothing is answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenuto.adapters.sql import statements as s
from tenuto.adapters.sql.commit import CHECKS, LEASING, WRITES
from tenuto.adapters.sql.dialect import Dialect

_TEXTS = {
    name: text
    for module in (s.guard, s.mailbox, s.changes, s.wholes)
    for name, text in vars(module).items()
    if name.isupper()
}
_LOCKS = ("LOCK_RUNS", "LOCK_TASKS", "LOCK_MESSAGES", "LOCK_NOTICES", "LOCK_ADDRESSES")
_WRITES = (
    "DELETE_OLD_MESSAGES",
    *(text for text, *_ in WRITES),
    "UPDATE_STATE",
    "OPEN_CHILDREN",
)
_BEAT = (s.leases.LOCK_LEASES, s.leases.VERDICTS)
_BEATEN = (s.leases.EXTEND_LEASES, s.registry.SEE_WORKER)
_GRANTED = (s.changes.LEASE_TASKS, s.leases.DELETE_GRANTED)
_RELEASE = (s.leases.LOCK_LEASES, s.leases.STANDING)
_RELEASED = (s.leases.CLEAR_LEASES, s.leases.OFFER_TASKS)
_POSTED = ("DELETE_OLD_MESSAGES", "POST_MESSAGES", "STORED_MESSAGES")


@dataclass(frozen=True, slots=True)
class Checked:
    """A sequence that goes on only if all is as hoped.

    Attributes:
        texts: in order.
        moment: which of them says when this is; once for all that follows.
        checks: these find rows where something is not as hoped.
        timed: which parameter of these is that moment.
    """

    texts: tuple[str, ...]
    moment: str
    checks: frozenset[str]
    timed: Mapping[str, int] = field(hash=False)


def sequences(dialect: Dialect) -> tuple[tuple[str, ...], ...]:
    """Each as filled texts. Of the last one of a row its answer counts, if it has one."""
    guard = tuple(_TEXTS[name] for name in (*_LOCKS, "GUARD"))
    writes = tuple(_TEXTS[name] for name in _WRITES)
    post = tuple(_TEXTS[name] for name in ("LOCK_ADDRESSES_TOGETHER", *_POSTED))
    return tuple(
        tuple(dialect.fill(text) for text in texts)
        for texts in (guard, writes, post, _BEAT, _BEATEN, _GRANTED, _RELEASE, _RELEASED)
    )


def whole_commit(dialect: Dialect) -> Checked:
    """A commit in which nobody loses and nothing is refused, as filled texts."""
    filled = {name: dialect.fill(text) for name, text in _TEXTS.items()}
    return Checked(
        texts=tuple(filled[name] for name in (*_LOCKS, "MOMENT", *CHECKS, *_WRITES)),
        moment=filled["MOMENT"],
        checks=frozenset(filled[name] for name in CHECKS),
        timed={filled[name]: 2 for name in LEASING},
    )


def whole_post(dialect: Dialect) -> Checked:
    """Messages put into the mailbox, as filled texts: nothing can be other than hoped."""
    names = ("LOCK_ADDRESSES_TOGETHER", "MOMENT", *_POSTED)
    return Checked(
        texts=tuple(dialect.fill(_TEXTS[name]) for name in names),
        moment=dialect.fill(_TEXTS["MOMENT"]),
        checks=frozenset(),
        timed={},
    )
