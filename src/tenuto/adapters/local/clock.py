"""The machine's clock. Not for deciding rights across machines: a shared database has its own."""

from __future__ import annotations

import threading
import time


class SystemClock:
    """Wall-clock microseconds that never run backwards within this process, whatever the system clock does.

    While the system clock lies behind what was told already, because somebody set it back, this one runs at half speed
    until the other has caught up: waits last at most twice as long, where standing still would stop them for as long as
    the step was.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told = 0
        self._told_at = 0

    def now(self) -> int:
        with self._lock:
            at = time.monotonic_ns() // 1_000
            now = max(time.time_ns() // 1_000, self._told + (at - self._told_at) // 2)
            if now > self._told:
                self._told, self._told_at = now, at
            return self._told
