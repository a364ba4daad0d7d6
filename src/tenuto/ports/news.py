"""What coordinators over one store tell each other, to save a poll. May be lost, late or repeated: never a truth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol


class Topic(StrEnum):
    """What there may be to look at."""

    READY = "r"
    """Ready rows that nobody here took."""
    DUE = "d"
    """A timer, notice or message that is due earlier than others may know."""
    ENDED = "e"
    """Runs that are over; somebody may wait for them elsewhere."""


EVERYTHING = frozenset(Topic)


class News(Protocol):
    """A service, and its two verbs."""

    @property
    def name(self) -> str:
        """For task names and logs."""
        ...

    def tell(self, topic: Topic) -> None:
        """Tell the others, soon and not more often than needed. Never blocks; this process is not told."""
        ...

    def listen(self, heard: Callable[[frozenset[Topic]], None]) -> None:
        """Call `heard` on this loop with what others told; with everything after each time that it was out of touch."""
        ...

    async def run(self, stopping: asyncio.Event) -> None:
        """Carry news until told to stop."""
        ...


class NoNews:
    """Nobody else works on this store."""

    name = "news"

    def tell(self, topic: Topic) -> None:
        """Nobody to tell."""

    def listen(self, heard: Callable[[frozenset[Topic]], None]) -> None:
        """Nothing will be heard."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Nothing to carry."""
        await stopping.wait()
