"""Eager hand-out: tasks that a commit makes ready are leased in that commit, to requests that wait here. No store.

A promise (`assign`) becomes a lease when the commit says that it stands (`deliver`); else the task has its ready row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenuto.coordinator.seats import Seat, Seats
from tenuto.coordinator.setting import Setting
from tenuto.coordinator.work import Work
from tenuto.machine.snapshot import Task
from tenuto.model.ids import RunId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.ports.gateway import Lease
from tenuto.ports.store import Committed, EagerGrant, LeaseRow, new_lease


class HandOut:
    """Promises and deliveries of one coordinator. `on_due`: told when a lease's deadline passes."""

    def __init__(self, seats: Seats, setting: Setting, on_due: Callable[[int], None]) -> None:
        self._seats = seats
        self._setting = setting
        self._on_due = on_due

    @staticmethod
    def promised(work: Work) -> tuple[EagerGrant, ...]:
        """What the change asks the store for."""
        return tuple(
            EagerGrant(place=task.place, worker=seat.info.id, lease_id=lease_id)
            for task, lease_id, seat in work.eager
        )

    def assign(self, works: Sequence[Work]) -> None:
        """Promise tasks that these changes make ready to seats: the reports' own first, then parked requests."""
        own: dict[Seat, None] = {}
        for work in works:
            for fact in work.facts:
                seat = fact.call.seat
                if seat is not None and seat.reserved < seat.free:
                    own[seat] = None
        open_seats = [*own, *sorted(self._seats.parked(), key=lambda seat: -seat.free)]
        for work in works:
            if not open_seats:
                return
            if work.remembered is None or work.remembered.row.quarantine is not None:
                continue  # nothing of it is handed out
            for task in work.batch.ready.values():
                if task.held or PayloadKey(task.place, PayloadKind.INPUT) not in work.batch.texts:
                    continue  # an input of before our time is read by the ordinary grant
                for seat in open_seats:
                    if seat.serves(task.queue, task.name):
                        seat.reserved += 1
                        work.eager.append((task, self._setting.ids.lease_id(), seat))
                        break
                else:
                    continue
                if seat.reserved >= seat.free:
                    open_seats.remove(seat)

    def deliver(self, work: Work, committed: Committed) -> list[tuple[Task, LeaseRow]]:
        """Hand over the leases that stand, and say which; a refused one has its ready row."""
        granted, lease_us = [], self._setting.lease_us
        for task, lease_id, seat in work.eager:
            if (work.run_id, task.place) not in committed.granted:
                seat.reserved -= 1
                continue
            row = new_lease(task, lease_id, seat.info.id, now=committed.now, lease_us=lease_us)
            text = work.batch.texts[PayloadKey(task.place, PayloadKind.INPUT)]
            seat.leases.append(lease_of(work.run_id, task, row, text))
            for moment in (row.lease_until, row.heartbeat_until):
                if moment is not None:
                    self._on_due(moment)
            granted.append((task, row))
        return granted

    def withdraw(self, work: Work) -> None:
        """The commit came to nothing: so do its promises."""
        for _, _, seat in work.eager:
            seat.reserved -= 1
            self._seats.wake.set()
        work.eager = []

    def give_up(self, work: Work) -> None:
        """What became of the commit is unknown. A lease that stands all the same is given back: nobody has it."""
        for task, lease_id, seat in work.eager:
            self._seats.return_unseen(seat.info.id, work.run_id, task.place, lease_id)
        self.withdraw(work)


def lease_of(run_id: RunId, task: Task, row: LeaseRow, text: str) -> Lease:
    """A granted task as its worker is told. `text`: its input."""
    return Lease(
        run_id=run_id,
        place=task.place,
        lease_id=row.lease_id,
        name=task.name,
        queue=task.queue,
        attempt=task.attempt,
        input=text,
        lease_us=row.lease_until - row.leased_at,
        attempt_us=None if row.attempt_until is None else row.attempt_until - row.leased_at,
        heartbeat_us=task.heartbeat_us,
    )
