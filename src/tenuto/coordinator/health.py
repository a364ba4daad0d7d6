"""How the loops of a process fare: when each last succeeded, what is wrong with it. Read by whoever asks for readiness.

Nothing is restarted here. A loop says when it begins a piece of work, that it went well, or why it did not; one that
only works when there is something to do is fine while it waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tenuto.model.errors import Unavailable
from tenuto.runtime.logging import get_logger

_log = get_logger("health")
SECOND_US = 1_000_000
STUCK_US = 30 * SECOND_US
"""A piece of work that takes longer is taken for stuck; a commit on a slow disk takes a second."""
FAILED_US = 10 * SECOND_US
"""How long a failure counts of a loop that waits to be asked: it cannot show that it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """How one loop fares.

    Attributes:
        age_us: since its last success (or since it was made).
        reason: why it is not well, in words; None: it is.
    """

    name: str
    age_us: int
    reason: str | None


class Account:
    """One loop's own account. `every_us`: it succeeds at least so often, None for one that waits for work."""

    __slots__ = ("_began_at", "_every_us", "_failed_at", "_now", "_ok_at", "_reason", "name")

    def __init__(self, name: str, now: Callable[[], int], every_us: int | None) -> None:
        self.name = name
        self._now = now
        self._every_us = every_us
        self._ok_at = now()
        self._began_at: int | None = None
        self._failed_at = 0
        self._reason: str | None = None

    def begin(self) -> None:
        """A piece of work begins."""
        self._began_at = self._now()

    def end(self) -> None:
        """It is done; it went well unless `fail` said otherwise."""
        if self._began_at is not None:
            self._ok_at = self._now()
            self._began_at = self._reason = None

    def fail(self, error: BaseException) -> None:
        """It came to nothing, and will be tried again. A bug is logged."""
        if not isinstance(error, Unavailable):
            _log.error("loop_failed", loop=self.name, reason=str(error), exc_info=error)
        self._began_at = None
        self._failed_at = self._now()
        self._reason = " ".join(str(error).split()) or type(error).__name__

    def read(self) -> Loop:
        """As it is now."""
        now, every_us = self._now(), self._every_us
        age_us, reason = now - self._ok_at, self._reason
        if every_us is None and now - self._failed_at > FAILED_US:
            reason = None
        if reason is None and self._began_at is not None and now - self._began_at > STUCK_US:
            reason = f"no end of what it began {(now - self._began_at) // SECOND_US} s ago"
        if reason is None and every_us is not None and age_us > every_us + STUCK_US:
            reason = f"no success for {age_us // SECOND_US} s"
        return Loop(name=self.name, age_us=age_us, reason=reason)


class Health:
    """All loops of a process. `now`: microseconds that only go forward; the running loop's, unless a test says else."""

    def __init__(self, now: Callable[[], int] | None = None) -> None:
        self._now = now or _loop_us
        self._accounts: dict[str, Account] = {}

    def loop(self, name: str, *, every_us: int | None = None) -> Account:
        """The account of a loop, under a name of its own."""
        account = self._accounts[name] = Account(name, self._now, every_us)
        return account

    def loops(self) -> tuple[Loop, ...]:
        """All of them, by name."""
        return tuple(self._accounts[name].read() for name in sorted(self._accounts))

    def troubles(self) -> dict[str, str]:
        """Name -> reason of those that are not well; empty: the process is ready."""
        return {loop.name: loop.reason for loop in self.loops() if loop.reason is not None}


def _loop_us() -> int:
    return int(asyncio.get_running_loop().time() * SECOND_US)
