"""Leases that outlived their worker, turned into events. Nothing here ends a lease by itself: `decide` does.

At the start every lease in the store belongs to a process that is gone (the file is ours alone): all are ended at once,
without waiting for them to expire. Later, a lease that has run out ends only if no worker of this process
holds it: after a laptop's sleep the work goes on where it was, and what it reports counts as if nothing had happened.
If recovery dies half-way the rest is found again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenuto.coordinator.coordinator import Coordinator
from tenuto.coordinator.seats import Seats
from tenuto.coordinator.setting import Setting
from tenuto.coordinator.waiting import Call, DueWaiting
from tenuto.model.ids import LeaseId
from tenuto.ports.store import DueTask, Store
from tenuto.runtime.logging import get_logger

ABANDONED_MAX = 500
_log = get_logger("recovery")


class Recovery:
    """Finds leases without a worker. `coordinator` is set before it is used.

    Attributes:
        holds: whether a worker of this process still works under a lease; one that it does not know is nobody's.
    """

    def __init__(self, store: Store, seats: Seats, setting: Setting) -> None:
        self.coordinator: Coordinator
        self.holds: Callable[[LeaseId], bool] = lambda _: True
        self._store = store
        self._seats = seats
        self._focus = setting.focus

    async def sweep(self) -> int:
        """End every lease of a worker that this process does not know. Returns how many. Raises Unavailable."""
        ended = 0
        while True:
            found = await self._store.abandoned(limit=ABANDONED_MAX, alive=self._seats.alive())
            wanted = [task for task in found if task.run_id in self._focus]
            call = Call(len(wanted))
            self.coordinator.submit(
                DueWaiting(task, call, slot, dead=True) for slot, task in enumerate(wanted)
            )
            await call.done
            moved = sum(answer is True for answer in call.answers)
            ended += moved
            if len(found) < ABANDONED_MAX or not moved:
                break
        if ended:
            _log.debug("leases_ended", count=ended)
        return ended

    def sift(self, tasks: Sequence[DueTask]) -> list[DueTask]:
        """Leave out leases that have run out while their worker lives in this process."""
        return [
            task
            for task in tasks
            if task.deadline is not None
            or task.lease is None
            or not self._seats.is_alive(task.lease.worker)
            or not self.holds(task.lease.lease_id)
        ]

    def fact(self, task: DueTask, call: Call, slot: int) -> DueWaiting:
        """What to decide about it."""
        return DueWaiting(task, call, slot)
