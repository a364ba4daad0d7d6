"""How ready tasks reach the coordinators whose workers can do them. Hints only: the store's grant decides.

A ready row stands in the store until its task is granted. Whoever may be wrong about it, late or twice, loses nothing:
a grant is a compare-and-set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tenuto.ports.store import Granted, GrantRequest, Hint

__all__ = ["Dispatch", "Hint", "Want"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What one connected worker serves, and how many tasks it could take now."""

    queues: tuple[str, ...]
    names: tuple[str, ...]
    free: int


class Dispatch(Protocol):
    """A service, and three verbs for the gateway. None of them waits for a task.

    Raises of `claim`: Unavailable; what was taken meanwhile is offered again.
    """

    @property
    def name(self) -> str:
        """`database` or `redis`."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why it falls back to the database just now, in words; None: it is well."""
        ...

    async def claim(self, request: GrantRequest) -> Sequence[Granted]:
        """Lease up to `len(request.lease_ids)` tasks that are at hand, highest priority then longest waiting first."""
        ...

    def offered(self, hints: Sequence[Hint]) -> None:
        """A commit of this process has left these ready rows. Never blocks."""
        ...

    def want(self, wants: Sequence[Want]) -> None:
        """What the workers connected here could take now; told again at each change. Never blocks."""
        ...

    async def run(self, stopping: asyncio.Event) -> None:
        """Carry hints until told to stop."""
        ...
