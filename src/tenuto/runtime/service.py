"""How long-running parts start, run and stop together: one way for all of them.

Not a supervisor: nothing is restarted here. A crash ends everything, and the process says so (crash-only).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol


class Service(Protocol):
    """A part that runs until it is told to stop."""

    @property
    def name(self) -> str:
        """For task names and logs."""
        ...

    async def run(self, stopping: asyncio.Event) -> None:
        """Work; return once `stopping` is set and the work at hand is safe.

        Cancelling is the second, hard stop: give up at once, recovery does the rest.
        """
        ...


async def serve(services: Sequence[Service], *, stop: asyncio.Event, grace_us: int) -> None:
    """Start services in the order given, stop them in reverse once `stop` is set.

    Order is dependency order: what others need stands first and goes last. Each service has `grace_us` to return
    before it is cancelled. A service that returns early is done; that ends nothing.

    Raises:
        ExceptionGroup: what a service raised; all others were cancelled first.
    """
    async with asyncio.TaskGroup() as group:
        running: list[tuple[asyncio.Task[None], asyncio.Event]] = []
        for service in services:
            stopping = asyncio.Event()
            task = group.create_task(service.run(stopping), name=service.name)
            running.append((task, stopping))
        await stop.wait()
        for task, stopping in reversed(running):
            stopping.set()
            await asyncio.wait([task], timeout=grace_us / 1_000_000)
            task.cancel()  # does nothing to one that has returned


async def pause(stopping: asyncio.Event, pause_us: int) -> bool:
    """Sleep, but no longer than until `stopping` is set. False: time to stop."""
    try:
        async with asyncio.timeout(pause_us / 1_000_000):
            await stopping.wait()
    except TimeoutError:
        return True
    return False
