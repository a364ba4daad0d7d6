"""Dispatch through the database alone: a claim is a grant from the ready rows. No broker, no hints kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tenuto.ports.dispatch import Hint, Want
from tenuto.ports.store import Granted, GrantRequest, Store


class DatabaseDispatch:
    """`ports.dispatch.Dispatch` over the store.

    Args:
        on_offer: told when something may be claimed.
    """

    name = "database"
    trouble = None

    def __init__(self, store: Store, on_offer: Callable[[], None]) -> None:
        self._store = store
        self._on_offer = on_offer

    async def claim(self, request: GrantRequest) -> Sequence[Granted]:
        return await self._store.grant(request)

    def offered(self, hints: Sequence[Hint]) -> None:
        if hints:
            self._on_offer()

    def want(self, wants: Sequence[Want]) -> None:
        """The ready rows are asked at each claim; nothing is fetched ahead."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Nothing to carry: rows of others are found by the poll of `timers`, and by news."""
        await stopping.wait()
