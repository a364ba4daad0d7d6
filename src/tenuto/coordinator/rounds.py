"""The rounds of a loop: each is accounted for, and one that fails is tried again, later and later. No work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from tenuto.coordinator.setting import Setting
from tenuto.runtime.backoff import Backoff
from tenuto.runtime.service import pause

T = TypeVar("T")


class Rounds:
    """Those of one loop.

    Args:
        name: of the loop, in its account (`health`).
        every_us: it has a round at least so often; None: it waits for work.
        failed: called with what a round met, before the pause.
    """

    def __init__(
        self,
        name: str,
        setting: Setting,
        *,
        failed: Callable[[Exception], None],
        every_us: int | None = None,
    ) -> None:
        self._account = setting.health.loop(name, every_us=every_us)
        self._backoff = Backoff(setting.dice.draw)
        self._ends_by = setting.ends_by
        self._failed = failed

    async def go(self, work: Callable[[], Awaitable[T]], stopping: asyncio.Event) -> T | None:
        """Have one round. None: it failed, and the pause after that is over.

        Raises what the loop, and its process, end by.
        """
        self._account.begin()
        try:
            done = await work()
        except Exception as error:
            if self._ends_by(error):
                raise
            self._account.fail(error)
            self._failed(error)
            await pause(stopping, self._backoff.next_us())
            return None
        self._backoff.reset()
        self._account.end()
        return done


@asynccontextmanager
async def woken(stopping: asyncio.Event, *events: asyncio.Event) -> AsyncIterator[None]:
    """Whoever waits for these within is woken when it is time to stop."""

    async def wake() -> None:
        await stopping.wait()
        for event in events:
            event.set()

    async with asyncio.TaskGroup() as group:
        waker = group.create_task(wake())
        yield
        waker.cancel()
