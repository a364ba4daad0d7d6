"""The command `tenuto worker` as a process, and a server in memory that it works for."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.backing.keeper import Kept, descendants, keeper
from tests.support.gateway import MemoryGateway
from tests.support.worker import Half

from tenuto.rpc.server import WorkerServer

ROOT = Path(__file__).parents[2]


class FarWorker:
    """A process `tenuto worker`, and what it says."""

    def __init__(self, kept: Kept, log: Path) -> None:
        self.kept = kept
        self._log = log

    @property
    def said(self) -> str:
        """All that it has written so far."""
        return self._log.read_text() if self._log.exists() else ""

    async def until_said(self, text: str) -> None:
        """Wait until it has written that."""
        while text not in self.said:
            assert self.kept.alive, self.said
            await asyncio.sleep(0.02)

    async def ended(self, within_s: float = 60.0) -> int | None:
        """Wait for its end; the exit code."""
        return await asyncio.to_thread(self.kept.wait, within_s)

    def family(self) -> list[int]:
        """Its launcher, its task processes and their children."""
        return descendants(self.kept.pid)


@asynccontextmanager
async def a_server(
    gateway: MemoryGateway, *, port: int = 0, **options: Any
) -> AsyncIterator[WorkerServer]:
    """A gRPC server over a gateway in memory."""
    server = WorkerServer(gateway, port=port, dice=Half(), lease_us=gateway.lease_us, **options)
    await server.open()
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run(stopping))
        try:
            yield server
        finally:
            stopping.set()


@asynccontextmanager
async def far_workers(folder: Path) -> AsyncIterator[Callable[..., FarWorker]]:
    """Starts workers; ends them at the end."""
    started: list[FarWorker] = []

    def start(*words: str | Path, env: dict[str, str] | None = None) -> FarWorker:
        log = folder / f"worker-{len(started)}.log"
        kept = keeper().start(
            [sys.executable, "-m", "tenuto", "worker", *words],
            folder=folder,
            log=log,
            env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
        )
        started.append(FarWorker(kept, log))
        return started[-1]

    try:
        yield start
    finally:
        for worker in started:
            await asyncio.to_thread(worker.kept.kill)
