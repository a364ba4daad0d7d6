"""How long to wait before trying again what failed for a passing reason. Not a task's retry: that is `model.retry`."""

from __future__ import annotations

from collections.abc import Callable

from tenuto.model.instants import SECOND_US


class Backoff:
    """Delays that double up to a cap, each shortened by chance to between half and all of it.

    Never zero: a loop that waits by it cannot spin. Full jitter would allow that.
    """

    def __init__(
        self,
        draw: Callable[[], float],
        *,
        initial_us: int = 50_000,
        max_us: int = 5 * SECOND_US,
    ) -> None:
        """`draw` yields numbers in [0, 1), e.g. `Dice.draw`."""
        assert 0 < initial_us <= max_us
        self._draw = draw
        self._initial_us = initial_us
        self._max_us = max_us
        self._next_us = initial_us

    def next_us(self) -> int:
        """The delay before the next try, in microseconds; each call grows the following one."""
        base = self._next_us
        self._next_us = min(base * 2, self._max_us)
        return base // 2 + int((base - base // 2) * self._draw())

    def reset(self) -> None:
        """Begin anew after a success."""
        self._next_us = self._initial_us
