"""What all services of one coordinator share: where time, names and chance come from, and what they are limited to."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenuto.model.ids import RunId
from tenuto.ports.clock import Clock, Dice, Ids


class Focus:
    """Which runs this process drives: all, or those that it was told of."""

    def __init__(self, runs: frozenset[RunId] | None = None) -> None:
        self._runs = runs
        self._listed: tuple[RunId, ...] | None = None

    def add(self, run_id: RunId) -> None:
        """Drive this run too."""
        if self._runs is not None:
            self._runs |= {run_id}
            self._listed = None

    def __contains__(self, run_id: object) -> bool:
        return self._runs is None or run_id in self._runs

    def runs(self) -> tuple[RunId, ...] | None:
        """The runs, or None for all: the store's way of saying it."""
        if self._runs is not None and self._listed is None:
            self._listed = tuple(sorted(self._runs))
        return self._listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`incarnation` names this process; workers are registered under it. `lease_us`: how long a lease lasts."""

    clock: Clock
    ids: Ids
    dice: Dice
    incarnation: str
    lease_us: int
    focus: Focus = field(default_factory=Focus)
