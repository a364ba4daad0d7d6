"""How often and how soon a failed attempt is tried again. Pure: chance comes in as a number."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tenuto.model.instants import MINUTE_US, SECOND_US

LOST_MAX = 5
"""Losses of a lease after which a task is dead with `lease_lost`, so a poison task cannot circle for ever."""


class Jitter(StrEnum):
    """How chance shortens a delay: not at all, down to zero, or down to half."""

    NONE = "none"
    FULL = "full"
    EQUAL = "equal"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`max_attempts` counts the first try. Defaults are SEMANTICS D."""

    max_attempts: int = 1
    initial_us: int = SECOND_US
    factor: float = 2.0
    max_us: int = MINUTE_US
    jitter: Jitter = Jitter.FULL


def delay_us(policy: RetryPolicy, attempt: int, draw: float) -> int:
    """Delay before the attempt after `attempt` (counted from 1), in microseconds.

    min(max, initial * factor^(attempt - 1)), then jitter by `draw` in [0, 1); never above the cap, saturating.
    """
    try:
        grown = policy.initial_us * policy.factor ** (attempt - 1)
    except OverflowError:
        grown = float(policy.max_us)
    base = int(min(float(policy.max_us), grown))
    if policy.jitter is Jitter.NONE:
        return base
    if policy.jitter is Jitter.FULL:
        return int(base * draw)
    return base // 2 + int((base - base // 2) * draw)
