"""A worker of a cluster: the runner, its task processes and what it runs itself, as one service. Imports no user code.

Between them it only passes words on: when leases have been extended, which tasks there are now, when to drain. Knows no
signals and no settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from tenuto.model.errors import Unavailable
from tenuto.ports.clock import Dice
from tenuto.ports.executor import Executor
from tenuto.ports.gateway import TaskGateway, WorkerInfo
from tenuto.runtime.logging import get_logger
from tenuto.worker.notes import Notebook
from tenuto.worker.processes import Processes
from tenuto.worker.runner import LEASE_US, Runner
from tenuto.worker.telling import Telling

GRACE_US = 30_000_000
_AGAIN_S = 0.2

log = get_logger("worker")


class Supervisor:
    """Works until told to stop, then finishes or gives back what it has begun. One `run` in its life.

    Attributes:
        runner: the loop of leases.
    """

    name = "worker"

    def __init__(
        self,
        gateway: TaskGateway,
        info: WorkerInfo,
        processes: Processes,
        own: Mapping[str, Executor],
        notebook: Notebook,
        *,
        dice: Dice,
        lease_us: int | Callable[[], int] = LEASE_US,
        grace_us: int = GRACE_US,
    ) -> None:
        """`processes` have been started. `info`: without names: they are those of `processes` and of `own`, which are
        executed here.
        """
        self._gateway = gateway
        self._processes = processes
        self._own = own
        self._news = asyncio.Event()
        self.runner = Runner(
            Telling(gateway),
            replace(info, names=self._names()),
            {**own, "": processes},
            dice=dice,
            lease_us=lease_us,
            drain_us=grace_us,
            notebook=notebook,
        )
        self.runner.says_outages = False
        self.runner.on_extended = processes.extend
        processes.fence_of = self.runner.fence_of
        processes.on_change = self._news.set

    async def run(self, stopping: asyncio.Event) -> None:
        """Work; drain once `stopping` is set."""
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._processes.run(over), name="worker-processes")
            others = [
                group.create_task(self._announce(), name="worker-names"),
                group.create_task(_when(stopping, self._processes.drain), name="worker-drain"),
            ]
            try:
                await self.runner.run(stopping)
            finally:
                over.set()
                for other in others:
                    other.cancel()

    def hurry(self) -> None:
        """While it drains: give back at once what has not ended."""
        self.runner.hurry()

    def _names(self) -> tuple[str, ...]:
        return (*(known.name for known in self._processes.known), *self._own)

    async def _announce(self) -> None:
        """Tell of other tasks than before: after a reload, or while no process can be started."""
        while True:
            await self._news.wait()
            self._news.clear()
            if self._names() == self.runner.info.names:
                continue
            # The runner's first, or it would announce the old names once more after a doubt.
            self.runner.info = replace(self.runner.info, names=self._names())
            try:
                await self._gateway.register(self.runner.info)
            except Unavailable:
                await asyncio.sleep(_AGAIN_S)  # the runner says so, and announces it itself
                self._news.set()


async def _when(event: asyncio.Event, what: Callable[[], None]) -> None:
    await event.wait()
    what()
