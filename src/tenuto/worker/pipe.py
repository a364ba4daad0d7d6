"""A task process's way to its supervisor: messages leave whole, and in the order in which they were given, whichever
threads give them. Reads nothing.

What the supervisor does not take gathers, bounded by the attempts that it has given: each has one last word that does
not wait.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from typing import Any

from tenuto.worker.frames import pack


class Pipe:
    """Writes to a socket that waits. A supervisor that is gone is not told of: who reads from the socket sees to it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._writing = threading.Lock()
        self._frames: deque[memoryview] = deque()

    def send(self, message: dict[str, Any]) -> None:
        """Tell something, after all that was told before. Waits while the supervisor takes nothing."""
        self._frames.append(memoryview(pack(message)))
        self.flush()

    def offer(self, message: dict[str, Any]) -> bool:
        """The same without waiting. False: some of it is left, and leaves with the next message, or by `flush`."""
        self._frames.append(memoryview(pack(message)))
        if not self._writing.acquire(blocking=False):
            return False
        try:
            return self._write(socket.MSG_DONTWAIT)
        finally:
            self._writing.release()

    def flush(self) -> None:
        """Have all leave that was told. Waits."""
        with self._writing:
            self._write(0)

    def _write(self, flags: int) -> bool:
        """Only by who holds the lock; others may add frames meanwhile."""
        while self._frames:
            frame = self._frames[0]
            try:
                sent = self._socket.send(frame, flags)
            except BlockingIOError:
                return False
            except OSError:
                self._frames.clear()
                return True
            if sent < len(frame):
                self._frames[0] = frame[sent:]
            else:
                self._frames.popleft()
        return True
