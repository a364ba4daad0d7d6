"""The machine's clock. Not for deciding rights across machines: a shared database has its own."""

from __future__ import annotations

import threading
import time


class SystemClock:
    """Wall-clock microseconds that never run backwards within this process, whatever the system clock does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def now(self) -> int:
        with self._lock:
            self._last = max(self._last, time.time_ns() // 1_000)
            return self._last
