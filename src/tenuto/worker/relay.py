"""Passes on what task processes print, and remembers the last lines of each. A thread of its own: a terminal or a pipe
that takes nothing more holds up the prints of tasks, and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

LINES = 30
"""Lines remembered of each process."""
_LINE_MAX = 400
_CHUNK = 1 << 16
_LOOK_S = 0.01


class Tail:
    """The last lines that a process has printed, on stdout and stderr alike. Written by one thread, read by any.

    Attributes:
        pipes: how many of them are still read; for the relay to change.
    """

    def __init__(self) -> None:
        self.pipes = 0
        self._lines: deque[str] = deque(maxlen=LINES)

    def lines(self) -> list[str]:
        """A copy of them, the oldest first."""
        return list(self._lines)

    async def until_over(
        self, within_s: float, hurried: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait for the end of its pipes, which somebody whom it started may hold open; not once one is `hurried`."""
        until = monotonic() + within_s
        while self.pipes and monotonic() < until and not hurried():  # noqa: ASYNC110 - another thread's
            await asyncio.sleep(_LOOK_S)

    def add(self, text: bytes) -> None:
        """Take whole lines."""
        for line in text.decode(errors="backslashreplace").splitlines():
            self._lines.append(line[:_LINE_MAX])


class Relay:
    """Reads pipes and writes to our own stdout and stderr."""

    def __init__(self, write: Callable[[int, bytes], None] | None = None) -> None:
        """`write`: takes what is for descriptor 1 or 2; None: it is written there."""
        self._write = write or _written
        self._lock = threading.Lock()
        self._new: deque[tuple[int, int, Tail]] = deque()
        self._thread: threading.Thread | None = None
        self._woken, self._wake = -1, -1
        self._closing = False

    def add(self, handle: int, target: int, tail: Tail) -> None:
        """Pass on what comes from a pipe's end, which becomes ours, until it is closed."""
        with self._lock:
            tail.pipes += 1
            self._new.append((handle, target, tail))
            if self._wake < 0:
                self._woken, self._wake = os.pipe()
                os.set_blocking(self._woken, False)
            if self._thread is None:
                thread = threading.Thread(target=self._main, name="tenuto-relay", daemon=True)
                thread.start()
                self._thread = thread
            os.write(self._wake, b"\0")

    def close(self, within_s: float) -> None:
        """Pass on what is there, and end; what hangs after `within_s` is left behind."""
        with self._lock:
            thread, self._closing = self._thread, True
            if thread is None:
                return
            os.write(self._wake, b"\0")
        thread.join(within_s)

    def _main(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._woken, selectors.EVENT_READ)
        parts: dict[int, bytearray] = {}
        while True:
            ready = selector.select(0.0 if self._closing else None)
            if self._closing and not ready and not self._new:
                return
            for key, _ in ready:
                if key.fd == self._woken:
                    with suppress(BlockingIOError):
                        os.read(self._woken, _CHUNK)
                else:
                    target, tail = key.data
                    if not self._pass_on(key.fd, target, tail, parts[key.fd]):
                        selector.unregister(key.fd)
                        del parts[key.fd]
                        os.close(key.fd)
                        with self._lock:
                            tail.pipes -= 1
            with self._lock:
                new = list(self._new)
                self._new.clear()
            for handle, target, tail in new:
                parts[handle] = bytearray()
                selector.register(handle, selectors.EVENT_READ, (target, tail))

    def _pass_on(self, handle: int, target: int, tail: Tail, part: bytearray) -> bool:
        """One reading. False: there will be no other."""
        try:
            data = os.read(handle, _CHUNK)
        except OSError:
            data = b""
        part += data
        end = part.rfind(b"\n") + 1 if data else len(part)
        if len(part) - end > _CHUNK:  # a line without an end
            end = len(part)
        tail.add(bytes(part[:end]))
        del part[:end]
        if data:
            self._write(target, data)
        return bool(data)


def _written(target: int, data: bytes) -> None:
    """Write all of it, or lose it: whoever read it has left."""
    rest = memoryview(data)
    with suppress(OSError):
        while rest:
            rest = rest[os.write(target, rest) :]
