"""What the runner knows of one lease that it holds, and what it may ask of those who execute. No loops, no gateway."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Protocol, runtime_checkable

from tenuto.model.ids import TaskId
from tenuto.ports.clock import Alarm
from tenuto.ports.gateway import Beat, Lease, Report, Result


class ProcessLost(Exception):
    """The process in which the work ran is dead for certain: no result, and what it did last nobody knows."""


@runtime_checkable
class Gate(Protocol):
    """An executor whose work may outlive its result: threads cannot be stopped."""

    def busy(self, task_id: TaskId) -> bool:
        """Whether work of that task still runs."""
        ...

    async def until_free(self, task_id: TaskId) -> None:
        """Wait until it does not."""
        ...

    def take_beat(self, task_id: TaskId) -> bool:
        """Whether the task sent a heartbeat of its own since this was last asked."""
        ...


class Stop(Enum):
    """Why the work of an attempt was stopped from here, or has stopped without a result."""

    TIMEOUT = "timeout"
    FORGET = "forget"
    RELEASE = "release"
    LOSE = "lose"


class Attempt:
    """A held lease. Times are seconds of the loop's clock."""

    __slots__ = ("begun", "fence_at", "gated", "job", "lease", "over_at", "result", "stop", "timer")

    def __init__(self, lease: Lease, fence_at: float, over_at: float | None) -> None:
        self.lease = lease
        self.fence_at = fence_at
        self.over_at = over_at
        self.gated = False
        self.begun = False
        """Its job has taken its first step: cancelled before that, it would take none."""
        self.job: asyncio.Task[None] | None = None
        self.result: Result | None = None
        self.stop: Stop | None = None
        self.timer: Alarm | None = None

    def beat(self, *, alive: bool = False) -> Beat:
        """It, to be extended or given back."""
        lease = self.lease
        return Beat(run_id=lease.run_id, place=lease.place, lease_id=lease.lease_id, alive=alive)

    def report(self) -> Report:
        """How it ended; only once it has a result."""
        lease = self.lease
        assert self.result is not None
        return Report(
            run_id=lease.run_id,
            place=lease.place,
            attempt=lease.attempt,
            lease_id=lease.lease_id,
            result=self.result,
        )
