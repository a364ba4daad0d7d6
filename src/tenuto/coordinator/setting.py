"""What all services of one coordinator share: where time, names and chance come from, and what they are limited to."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenuto.coordinator.health import Health
from tenuto.model.errors import Unavailable
from tenuto.model.ids import RunId
from tenuto.ports.clock import Clock, Dice, Ids
from tenuto.ports.news import News, NoNews


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
    """`incarnation` names this process; workers are registered under it. `lease_us`: how long a lease lasts.

    `sole`: nobody else works on this store, so what its workers hold is theirs until it says otherwise (ADR 0007). Else
    leases end by the database's clock alone, and whatever is found due others may have found too. `news`: what the
    others are told. `health`: where loops say how they fare.
    """

    clock: Clock
    ids: Ids
    dice: Dice
    incarnation: str
    lease_us: int
    focus: Focus = field(default_factory=Focus)
    sole: bool = True
    news: News = field(default_factory=NoNews)
    health: Health = field(default_factory=Health)

    def ends_by(self, error: Exception) -> bool:
        """Whether a loop ends by what it met, and the process with it: by a bug, where nobody else is there.

        Where others work on the store they would meet the same row, and end one after the other.
        """
        return self.sole and not isinstance(error, Unavailable)
