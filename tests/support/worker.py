"""A runner with real executors over a gateway in memory, started and stopped around a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.support.gateway import MemoryGateway

from tenuto.model.ids import WorkerId
from tenuto.ports.executor import Executor
from tenuto.ports.gateway import WorkerInfo
from tenuto.worker.notes import Notebook
from tenuto.worker.registry import Registry
from tenuto.worker.runner import Runner
from tenuto.worker.user import UserExecutor


class Half:
    """Dice that always show the middle."""

    def draw(self) -> float:
        return 0.5


async def turns_until(holds: Callable[[], object]) -> None:
    """Let the loop turn until a condition holds that nobody announces."""
    while not holds():  # noqa: ASYNC110  there is no event to wait for, and the test's timeout bounds it
        await asyncio.sleep(0)


class Crew:
    """A running worker and what a test may do with it."""

    def __init__(self, gateway: MemoryGateway, runner: Runner, user: UserExecutor) -> None:
        self.gateway = gateway
        self.runner = runner
        self.user = user
        self.stopping = asyncio.Event()
        self.running: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Drain, and wait for the end."""
        self.stopping.set()
        assert self.running is not None
        await self.running


@asynccontextmanager
async def a_crew(
    functions: Mapping[str, Callable[..., Any]] | None = None,
    *,
    executors: Mapping[str, Executor] | None = None,
    capacity: int = 50,
    threads: int = 16,
    process: bool = False,
    processes: int = 2,
    held: Sequence[int] = (),
    lease_us: int = 60_000_000,
    drain_us: int = 60_000_000,
    loop: asyncio.AbstractEventLoop | None = None,
    gateway: MemoryGateway | None = None,
) -> AsyncIterator[Crew]:
    """A worker that knows `functions` (`process`: in processes of their own); cancelled at the end if it still runs."""
    registry = Registry()
    for name, function in (functions or {}).items():
        registry.add(function, name=name, process=process)
    notebook = Notebook()
    user = UserExecutor(
        registry, loop=loop, threads=threads, processes=processes, held=held, notebook=notebook
    )
    gateway = gateway or MemoryGateway(lease_us=lease_us)
    info = WorkerInfo(
        id=WorkerId("w-1"), queues=("default",), names=registry.names(), capacity=capacity
    )
    runner = Runner(
        gateway,
        info,
        {"": user, **(executors or {})},
        dice=Half(),
        lease_us=lease_us,
        drain_us=drain_us,
        notebook=notebook,
    )
    crew = Crew(gateway, runner, user)
    try:
        async with asyncio.TaskGroup() as group:
            crew.running = group.create_task(runner.run(crew.stopping))
            yield crew
            crew.running.cancel()
    finally:
        await user.close()
