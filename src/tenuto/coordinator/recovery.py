"""Leases that outlived their worker, turned into events. Nothing here ends a lease by itself: `decide` does.

At the start every lease in the store belongs to a process that is gone (the file is ours alone): all are ended at once,
without waiting for them to expire. Later, a lease that has run out ends only if no worker of this process holds it:
after a laptop's sleep the work goes on where it was, its next heartbeat renews the lease, and what it reports counts as
if nothing had happened (ADR 0007).

Where others work on the same store nobody owns leases: nothing is swept, nothing spared, and every coordinator ends
what has run out by the database's clock. If recovery dies half-way the rest is found again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenuto.coordinator.batch import Batch
from tenuto.coordinator.coordinator import Coordinator
from tenuto.coordinator.seats import Seats
from tenuto.coordinator.setting import Setting
from tenuto.coordinator.waiting import (
    LINGERS,
    AboutTask,
    Call,
    DueWaiting,
    Moment,
    Settled,
    Wanted,
)
from tenuto.machine.events import Deadline, Event, LeaseExpired, Rejection
from tenuto.model.ids import LeaseId, Place, RunId, WorkerId
from tenuto.model.states import TaskState
from tenuto.ports.gateway import Beat
from tenuto.ports.store import DueTask, Loaded, Store
from tenuto.runtime.logging import get_logger

ABANDONED_MAX = 500
_log = get_logger("recovery")


class Recovery:
    """Finds leases without a worker. `coordinator` is set before it is used.

    Attributes:
        holds: whether a worker of this process still works under a lease; one that it does not know is nobody's.
        doubts: whether the last `sift` left out something that nobody holds: to be looked at again soon.
    """

    def __init__(self, store: Store, seats: Seats, setting: Setting) -> None:
        self.coordinator: Coordinator
        self.holds: Callable[[LeaseId], bool] = lambda _: True
        self._store = store
        self._seats = seats
        self._focus = setting.focus
        self._sole = setting.sole
        self._unheld: set[LeaseId] = set()
        self.doubts = False

    async def sweep(self) -> int:
        """End every lease of a worker that this process does not know. Returns how many. Raises Unavailable."""
        if not self._sole:
            return 0
        ended = 0
        while True:
            found = await self._store.abandoned(
                limit=ABANDONED_MAX, alive=self._seats.alive(), runs=self._focus.runs()
            )
            call = Call(len(found))
            self.coordinator.submit(
                DueWaiting(task, call, slot, dead=True) for slot, task in enumerate(found)
            )
            await call.done
            moved = sum(answer is True for answer in call.answers)
            moved += await self._give_up(
                [
                    task
                    for task, answer in zip(found, call.answers, strict=True)
                    if answer is LINGERS
                ]
            )
            ended += moved
            if len(found) < ABANDONED_MAX or not moved:
                break
        if ended:
            _log.debug("leases_ended", count=ended)
        return ended

    async def _give_up(self, tasks: Sequence[DueTask]) -> int:
        """Clear leases of dead workers on cancelled tasks: a run that closes waits for them."""
        count = 0
        for task in tasks:
            if task.lease is not None:
                beat = Beat(run_id=task.run_id, place=task.place, lease_id=task.lease.lease_id)
                count += await self._store.release(task.lease.worker, [beat])
        return count

    def sift(self, tasks: Sequence[DueTask]) -> list[DueTask]:
        """Leave out leases and attempts that have run out while a worker of this process holds them.

        After a sleep or a step of the clock it does not know yet: its next heartbeat renews the lease or ends the work,
        and only then may the next attempt begin. One that no worker holds is left out the first time that it is seen:
        granted just before the sleep, it may still be on its way.
        """
        if not self._sole:
            return list(tasks)
        before, self._unheld = self._unheld, set()
        over = [task for task in tasks if self._is_over(task, before)]
        self.doubts = not self._unheld <= before
        return over

    def _is_over(self, task: DueTask, before: set[LeaseId]) -> bool:
        lease = task.lease
        if lease is None or task.deadline not in (None, Deadline.ATTEMPT):
            return True
        if not self._seats.is_alive(lease.worker):
            return True
        if self.holds(lease.lease_id):
            return False
        self._unheld.add(lease.lease_id)
        return lease.lease_id in before

    def fact(self, task: DueTask, call: Call, slot: int) -> DueWaiting:
        """What to decide about it."""
        lease = task.lease
        dead = self._sole and lease is not None and not self._seats.is_alive(lease.worker)
        return DueWaiting(task, call, slot, dead=dead)


class LostWaiting(AboutTask):
    """A lease whose worker says that the process which worked under it is dead. Its answer is as `DueWaiting`'s."""

    __slots__ = ("lease_id", "worker")

    def __init__(
        self,
        run_id: RunId,
        place: Place,
        lease_id: LeaseId,
        worker: WorkerId,
        call: Call,
        slot: int,
    ) -> None:
        super().__init__(run_id, call, slot)
        self.place = place
        self.lease_id = lease_id
        self.worker = worker

    def answer_to(self, rejected: Rejection | None) -> object:
        return rejected is None

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        task, lease = loaded.tasks.get((self.run_id, self.place), (None, None))
        if task is None or lease is None:
            return Settled(False)
        if lease.lease_id != self.lease_id or lease.worker != self.worker:
            return Settled(False)
        if task.state is TaskState.CANCELLED:
            return Settled(LINGERS)
        return LeaseExpired(
            at=max(moment.now, batch.snapshot.at),
            place=self.place,
            attempt=task.attempt,
            lease_id=lease.lease_id,
            worker=lease.worker,
            leased_at=lease.leased_at,
        )
