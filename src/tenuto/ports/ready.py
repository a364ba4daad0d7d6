"""What a dispatch through a broker needs of the store: grants by hint, and where the hint of each ready row went.

A ready row stands until its task is granted. Its `published` says who knows of it: nobody yet (`''`), the broker whose
*epoch* stands there, or nobody but the database (`ASIDE`). Whatever stands there is a hint too: it may be wrong, and
costs time then, never a task.

Raises, every verb: Unavailable, InvariantViolated, as those of `ports.store`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tenuto.model.ids import Place, RunId
from tenuto.ports.dispatch import Hint
from tenuto.ports.store import Granted, GrantRequest

ASIDE = "database"
"""`published` of a row that no broker offers any more. Epochs sort behind it."""


class HintVerdict(StrEnum):
    """What became of a hint."""

    GRANTED = "granted"
    TAKEN = "taken"
    """Somebody has it."""
    GONE = "gone"
    """It waits no more: done, cancelled, paused."""
    HELD = "held"
    """It waits, and is not to be had by this request: quarantined, past its end, of another queue or name."""
    BUSY = "busy"
    """Somebody is about to take or to withdraw it: ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HintedGrants:
    """What was leased, and a verdict for each hint."""

    granted: tuple[Granted, ...]
    verdicts: Mapping[tuple[RunId, Place], HintVerdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What there is to do for a broker, in one reading.

    Attributes:
        unpublished: queues with rows that no broker knows.
        served: queues of the workers that are not lost; `*` among them for all.
        aside: whether there are rows that only the database offers.
        stale: whether there are rows of another epoch.
    """

    unpublished: tuple[str, ...] = ()
    served: frozenset[str] = frozenset()
    aside: bool = False
    stale: bool = False


class ReadyRows(Protocol):
    """The ready rows."""

    async def grant(self, request: GrantRequest) -> Sequence[Granted]:
        """As `Store.grant`: any row, wherever its hint went."""
        ...

    async def grant_hinted(self, request: GrantRequest, hints: Sequence[Hint]) -> HintedGrants:
        """Lease exactly these tasks, in this order, as far as they may be had and `lease_ids` last.

        Hints beyond the last lease id have no verdict.
        """
        ...

    async def survey(self, epoch: str) -> Survey:
        """Workers that are lost (silent for as long as a lease lasts) are not counted."""
        ...

    async def take_unpublished(
        self, limits: Mapping[str, int], *, older_us: int, again_us: int
    ) -> Sequence[Hint]:
        """Rows that no broker knows, of these queues, so many of each; highest priority then longest waiting first.

        Not those younger than `older_us`, which whoever wrote them publishes, nor those that were taken less than
        `again_us` ago: so two that take at once get different ones.
        """
        ...

    async def mark_published(self, hints: Sequence[Hint], epoch: str, *, age_us: int) -> None:
        """Note where these hints went (`ASIDE`: nowhere). Only rows that existed `age_us` ago: a newer one of the same
        task is another offer. A row that is aside stays so.
        """
        ...

    async def unpublish(self, hints: Sequence[Hint], epoch: str) -> None:
        """The broker has lost these; as far as they still count as its."""
        ...

    async def unpublish_stale(self, epoch: str, limit: int) -> int:
        """Up to `limit` rows of other epochs are nobody's again. Returns how many."""
        ...

    async def lapsed(
        self, epoch: str, queue: str, *, older_us: int, limit: int, spaced: bool
    ) -> Sequence[Hint]:
        """Rows of one queue that were published longer than `older_us` ago, longest ago first.

        `spaced`: and longer ago than they had waited before: what is looked at in vain is looked at ever more rarely.
        """
        ...

    async def aside(
        self, queues: Sequence[str], names: Sequence[str], limit: int
    ) -> Sequence[Hint]:
        """Rows that only the database offers, of these queues and names."""
        ...
