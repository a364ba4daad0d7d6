"""A task's failure: data, not an exception.

Stored as the node's error payload `{code, message, kind, details, node}`; expressions read it as `error`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FailureKind(StrEnum):
    """Who is at fault."""

    TASK = "task"
    """The node's own work failed."""
    ENGINE = "engine"
    """A rule of the machine ended it: no match, a join that cannot fill, a passed deadline."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt or a node failed.

    `code` is stable and short (`http.503`, `timeout`, `ValueError`); `details` is the canonical JSON text of anything
    more, or None. `retryable` False means no attempt can help (F5).
    """

    code: str
    message: str
    kind: FailureKind = FailureKind.ENGINE
    details: str | None = None
    retryable: bool = True


NEVER_RETRIED = frozenset(
    {
        "expression_error",
        "no_match",
        "loop_exhausted",
        "join_unsatisfied",
        "payload_too_large",
        "queue_timeout",
        "lease_lost",
    }
)
"""SEMANTICS F5, and `lease_lost` after `lost_max` losses (DESIGN section 3)."""
