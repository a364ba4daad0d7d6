"""Ctrl-C, in two steps: the first asks for a gentle stop, the second ends the process at once.

Nothing is lost either way: what is stored is stored, and leases of a dead process are given out
again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While entered, SIGINT and SIGTERM come here. Only for the main thread.

    `on_first` is called in the handler by the first one; it must only wake whoever looks at `code`.
    """

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self._before: dict[int, Any] = {}
        self._line = "stopped at once"
        self.code: int | None = None
        """Exit code of the first signal, 128 plus its number; None while there was none."""

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def say_at_end(self, line: str) -> None:
        """What the second signal prints: how to go on."""
        self._line = line

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.code is None:
            self.code = 128 + number
            self._on_first()
            return
        # Unbuffered, and past every lock that the interrupted code may hold.
        os.write(2, f"\n{self._line}\n".encode(errors="replace"))
        os._exit(128 + number)
