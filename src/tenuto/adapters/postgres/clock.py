"""The database's time without asking for it each time: an offset to the monotonic clock, fed by answers.

For what needs no more than about the right time (an event's moment, an id). Rights are decided by the database in the
statement itself. Hosts whose clocks are hours apart agree by this one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tenuto.runtime.logging import get_logger

BACK_US = 30_000_000
"""Answers overtake each other, but not by so much: a statement is given up before."""
FRESH_US = 5_000_000
"""An offset that is older is asked for anew."""


_log = get_logger("postgres")


class DbClock:
    """`ports.clock.Clock`: never runs backwards within this process. Thread-safe.

    Args:
        ask: called when the offset is old, at most once a second; it is to bring an answer by `heard`, later. Until
            then the time goes on by the monotonic clock.
    """

    def __init__(
        self,
        ask: Callable[[], None] = lambda: None,
        *,
        monotonic_us: Callable[[], int] = lambda: time.monotonic_ns() // 1_000,
    ) -> None:
        self._ask = ask
        self._monotonic = monotonic_us
        self._lock = threading.Lock()
        self._offset = 0
        self._heard_at: int | None = None
        self._asked_at = -FRESH_US
        self._told = 0
        self._latest = 0

    def ask_by(self, ask: Callable[[], None]) -> None:
        """How it is asked for anew, from now on."""
        self._ask = ask

    def heard(self, now: int) -> None:
        """The database's time, as an answer that came just now said it: it is not later than now.

        Says so once when the database's clock was set back: until it is where it was, what was due then waits.
        """
        with self._lock:
            at = self._monotonic()
            self._offset, self._heard_at = now - at, at
            back_us = self._latest - now
            self._latest = now if back_us > BACK_US else max(self._latest, now)
        if back_us > BACK_US:
            _log.error(
                "clock_set_back",
                reason=f"by {back_us // 1_000_000} s; leases and timers set before end later by as much",
            )

    @property
    def age_us(self) -> int | None:
        """How old the last answer is; None before the first."""
        return None if self._heard_at is None else self._monotonic() - self._heard_at

    def now(self) -> int:
        with self._lock:
            at = self._monotonic()
            assert self._heard_at is not None, "the clock is read before the database was asked"
            stale = at - self._heard_at > FRESH_US and at - self._asked_at > 1_000_000
            if stale:
                self._asked_at = at
            self._told = max(self._told, at + self._offset)
            told = self._told
        if stale:
            self._ask()
        return told
