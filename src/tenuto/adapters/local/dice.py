"""Chance. Only jitter hangs on it, so it need not be secret."""

from __future__ import annotations

import random


class SystemDice:
    """Draws from a generator of its own, seeded by the system or by the caller."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)

    def draw(self) -> float:
        return self._random.random()
