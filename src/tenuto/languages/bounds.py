"""How much of what one program prints is passed on. Counts only: writes and drops nothing itself."""

from __future__ import annotations

LINES_MAX = 1_000
TEXT_MAX = 256 * 1024
"""Characters of one execution, all lines together."""
LINE_MAX = 8 * 1024
"""Characters of one line; what is beyond is cut."""


class Bounds:
    """What one execution has printed so far."""

    def __init__(self) -> None:
        self._lines = 0
        self._text = 0
        self.dropped = 0
        """Lines that were not admitted."""

    def admit(self, line: str) -> bool:
        """Whether there is room for one more line; once there was none, there is none for any later one."""
        size = min(len(line), LINE_MAX)
        if self.dropped or self._lines >= LINES_MAX or self._text + size > TEXT_MAX:
            self.dropped += 1
            return False
        self._lines += 1
        self._text += size
        return True
