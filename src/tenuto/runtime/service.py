"""How long-running parts start, run and stop together: one way for all of them.

Not a supervisor: nothing is restarted here. A crash ends everything, and the process says so (crash-only).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol


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


async def unless(stopping: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do some work, and give it up as soon as `stopping` is set. False: it was given up. Raises what the work does."""
    trouble: Exception | None = None

    async def carry_out() -> None:
        nonlocal trouble
        try:
            await work
        except Exception as error:  # noqa: BLE001 - it is the caller's, and as it is: not in a group
            trouble = error

    async with asyncio.TaskGroup() as group:
        working = group.create_task(carry_out())
        told = group.create_task(stopping.wait())
        await asyncio.wait([working, told], return_when=asyncio.FIRST_COMPLETED)
        for task in (working, told):
            task.cancel()
    if trouble is not None:
        raise trouble
    if working.cancelled() and not stopping.is_set():
        raise asyncio.CancelledError  # by the work itself
    return not working.cancelled()


def is_ending() -> bool:
    """Whether the running task itself was cancelled, where a CancelledError came: libraries, gRPC above all, say by the
    same exception that a thing of theirs is over.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def pause(stopping: asyncio.Event, pause_us: int) -> bool:
    """Sleep, but no longer than until `stopping` is set. False: time to stop."""
    try:
        async with asyncio.timeout(pause_us / 1_000_000):
            await stopping.wait()
    except TimeoutError:
        return True
    return False
