"""Workers over a gateway in memory, started and stopped around a test: with real task processes, or embedded."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.gateway import MemoryGateway
from tests.support.worker import Half

from tenuto.model.ids import WorkerId
from tenuto.ports.gateway import WorkerInfo
from tenuto.worker.handle import Plan, spread
from tenuto.worker.launching import Launcher, python
from tenuto.worker.notes import Notebook
from tenuto.worker.processes import Processes
from tenuto.worker.registry import Registry
from tenuto.worker.runner import Runner
from tenuto.worker.supervisor import Supervisor
from tenuto.worker.user import UserExecutor

STAFF_APP = Path(__file__).with_name("staff_app.py")
ENTRY = "from tenuto.cli.task_process import main; main({pid})"


class Staff:
    """A running supervisor and what a test may do with it."""

    def __init__(
        self,
        gateway: MemoryGateway,
        supervisor: Supervisor,
        processes: Processes,
        launcher: Launcher,
        notebook: Notebook,
    ) -> None:
        self.gateway = gateway
        self.supervisor = supervisor
        self.processes = processes
        self.launcher = launcher
        self.notebook = notebook
        self.stopping = asyncio.Event()
        self.running: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Drain, and wait for the end."""
        self.stopping.set()
        assert self.running is not None
        await self.running


def plan_of(
    launcher: Launcher, app: str | Path, *, count: int = 1, threads: int = 16, children: int = 2
) -> Plan:
    """How to start task processes of an app."""
    return Plan(
        argv=python(ENTRY.format(pid=launcher.pid)),
        order={
            "app": str(app),
            "path": sys.path,
            "argv": sys.argv,
            "level": 20,
            "threads": spread(threads, count),
            "children": spread(children, count),
        },
    )


@asynccontextmanager
async def an_embedded(
    registry: Registry, *, lease_us: int = 60_000_000, threads: int = 16
) -> AsyncIterator[MemoryGateway]:
    """The worker that an embedded engine has, with the functions of a registry; its gateway."""
    notebook, gateway, stopping = Notebook(), MemoryGateway(lease_us=lease_us), asyncio.Event()
    user = UserExecutor(registry, threads=threads, notebook=notebook)
    info = WorkerInfo(id=WorkerId("w-1"), queues=("default",), names=registry.names(), capacity=50)
    runner = Runner(
        gateway, info, {"": user}, dice=Half(), lease_us=lease_us, drain_us=0, notebook=notebook
    )
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(runner.run(stopping))
            yield gateway
            stopping.set()
    finally:
        await user.close()


@asynccontextmanager
async def a_staff(
    app: str | Path,
    *,
    count: int = 2,
    capacity: int = 50,
    lease_us: int = 60_000_000,
    grace_us: int = 60_000_000,
    gateway: MemoryGateway | None = None,
    **plan: Any,
) -> AsyncIterator[Staff]:
    """`count` task processes that have loaded `app`, at work; all ended at the end. Raises Broken."""
    launcher, notebook = Launcher(), Notebook()
    processes = Processes(
        launcher,
        plan_of(launcher, app, count=count, **plan),
        notebook,
        count=count,
        draw=Half().draw,
    )
    try:
        await processes.start()
        gateway = gateway or MemoryGateway(lease_us=lease_us)
        info = WorkerInfo(id=WorkerId("w-1"), queues=("default",), names=(), capacity=capacity)
        supervisor = Supervisor(
            gateway,
            info,
            processes,
            {},
            notebook,
            dice=Half(),
            lease_us=lease_us,
            grace_us=grace_us,
        )
        staff = Staff(gateway, supervisor, processes, launcher, notebook)
        async with asyncio.TaskGroup() as group:
            staff.running = group.create_task(supervisor.run(staff.stopping))
            yield staff
            supervisor.hurry()
            staff.stopping.set()
    finally:
        await launcher.close()
