"""How often and how soon a failed attempt is tried again. Pure: chance comes in as a number."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tenuto.model.expressions import Expression
from tenuto.model.instants import MINUTE_US, SECOND_US

LOST_MAX = 5
"""Losses of a lease after which a task is dead with `lease_lost`, so a poison task cannot circle for ever."""


class Jitter(StrEnum):
    """How chance shortens a delay: not at all, down to zero, or down to half."""

    NONE = "none"
    FULL = "full"
    EQUAL = "equal"


@dataclass(frozen=True, slots=True)
class RetryRule:
    """What to do about some failures: the first rule that matches decides.

    A rule matches if one of `on` names the failure (empty: any does) and `when` (a condition over `error`) holds.
    `on`: a failure's code, the name of an exception class it is or derives from, `http.4xx`/`http.5xx`, or `*`.
    `max_attempts`: tries that may end in a failure of this rule, the first included. The clocks are the rule's own.
    """

    on: tuple[str, ...]
    max_attempts: int
    when: Expression | None = None
    initial_us: int = SECOND_US
    factor: float = 2.0
    max_us: int = MINUTE_US
    jitter: Jitter = Jitter.FULL


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`max_attempts` counts the first try. Defaults are SEMANTICS D.

    `total`: tries in all, whatever rules say; None for no such bound (`max_attempts` was not written beside `rules`).
    `give_up_on`: failures never retried, named as in a rule; they come before the rules.
    """

    max_attempts: int = 1
    initial_us: int = SECOND_US
    factor: float = 2.0
    max_us: int = MINUTE_US
    jitter: Jitter = Jitter.FULL
    rules: tuple[RetryRule, ...] = ()
    total: int | None = None
    give_up_on: tuple[str, ...] = ()


def names_failure(names: tuple[str, ...], code: str, classes: tuple[str, ...]) -> bool:
    """Whether one of `names` stands for a failure: its code, a class of it, `http.4xx` or `http.5xx`, or `*`."""
    status = f"{code[:6]}xx" if code.startswith("http.") and len(code) == len("http.500") else None
    return any(n in (code, status, "*") or n in classes for n in names)


def delay_us(policy: RetryPolicy | RetryRule, attempt: int, draw: float) -> int:
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
