"""Who could take work now: the workers of this process and their requests that wait for a task. No store.

A *seat* is a request for up to `free` leases: a report that wants more, or a parked `lease` call. A commit may fill
seats with tasks that it makes ready (eager hand-out); what is left is filled by the gateway from the ready rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from tenuto.model.ids import LeaseId, Place, RunId, WorkerId
from tenuto.ports.dispatch import Hint
from tenuto.ports.gateway import ALL_QUEUES, Beat, Lease, WorkerInfo


def _unheard() -> None:
    """Nobody wants to know."""


class Seat:
    """A request for up to `free` leases. `reserved`: places promised within a commit under way."""

    __slots__ = (
        "_all_queues",
        "filled",
        "free",
        "gone",
        "info",
        "leases",
        "names",
        "queues",
        "reserved",
    )

    def __init__(self, info: WorkerInfo, free: int, filled: asyncio.Future[None] | None) -> None:
        self.serve_as(info)
        self.free = free
        self.reserved = 0
        self.leases: list[Lease] = []
        self.filled = filled
        self.gone = False

    def serves(self, queue: str, name: str) -> bool:
        """Whether its worker can do such a task and has room."""
        return (
            self.reserved < self.free
            and name in self.names
            and (self._all_queues or queue in self.queues)
        )

    def serve_as(self, info: WorkerInfo) -> None:
        """Its worker announced itself anew."""
        self.info = info
        self.queues = frozenset(info.queues)
        self.names = frozenset(info.names)
        self._all_queues = ALL_QUEUES in self.queues


class Seats:
    """All workers and parked requests of this process; `on_change` is called when what they could take has changed.

    `wake` is set when a parked request may be filled from the ready rows; a worker is *dry* while its last grant found
    less than it asked for and no ready row has been written since.
    """

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.on_change: Callable[[], None] = _unheard
        self.offers = 0
        self.unclaimed: list[tuple[WorkerId, Beat]] = []
        """Leases whose requester is gone, or that nobody can know of: to be given back."""
        self._workers: dict[WorkerId, WorkerInfo] = {}
        self._parked: dict[Seat, None] = {}
        self._dry: dict[WorkerId, int] = {}

    # -- workers --------------------------------------------------------------------------------------------------

    def join(self, info: WorkerInfo) -> None:
        """A worker registered, perhaps again and with more names."""
        self._workers[info.id] = info
        self.on_change()
        self.offers += (
            1  # a grant under way looks for the old names: that it finds nothing says nothing
        )
        for seat in self._parked:
            if seat.info.id == info.id:
                seat.serve_as(info)
                self.wake.set()

    def leave(self, worker: WorkerId) -> None:
        """A worker is gone: its parked requests end empty."""
        self._workers.pop(worker, None)
        self._dry.pop(worker, None)
        self.on_change()
        for seat in [seat for seat in self._parked if seat.info.id == worker]:
            self.dismiss(seat)

    def find(self, worker: WorkerId) -> WorkerInfo | None:
        """A registered worker."""
        return self._workers.get(worker)

    def is_alive(self, worker: str) -> bool:
        """Whether a worker of this process."""
        return worker in self._workers

    def alive(self) -> tuple[WorkerId, ...]:
        """All workers of this process."""
        return tuple(self._workers)

    # -- requests -------------------------------------------------------------------------------------------------

    def park(self, info: WorkerInfo, free: int) -> Seat:
        """Wait for work: `filled` is resolved when `leases` has some."""
        seat = Seat(info, free, asyncio.get_running_loop().create_future())
        self._parked[seat] = None
        self.on_change()
        if not self.is_dry(info.id):
            self.wake.set()
        return seat

    def abandon(self, seat: Seat) -> None:
        """The requester is gone; what was delivered is given back, what is on its way will be."""
        seat.gone = True
        self._unpark(seat)
        if seat.leases:
            leases, seat.leases = seat.leases, []
            for lease in leases:
                self.return_unseen(seat.info.id, lease.run_id, lease.place, lease.lease_id)

    def return_unseen(
        self, worker: WorkerId, run_id: RunId, place: Place, lease_id: LeaseId
    ) -> None:
        """Nobody has seen this lease, if it stands at all: have it given back."""
        self.unclaimed.append((worker, Beat(run_id=run_id, place=place, lease_id=lease_id)))
        self.wake.set()

    def parked(self) -> Iterable[Seat]:
        """Requests with room, longest waiting first."""
        return self._parked

    def hungry(self) -> list[Seat]:
        """Parked requests that the ready rows might fill, and that no commit is filling."""
        return [seat for seat in self._parked if self.is_hungry(seat)]

    def is_hungry(self, seat: Seat) -> bool:
        """Whether a parked request might be filled from the ready rows, by nobody else."""
        return seat in self._parked and not seat.reserved and not self.is_dry(seat.info.id)

    def deliver(self, seat: Seat) -> None:
        """A seat got what it gets now. A parked request ends with its first leases; a report ends by itself."""
        filled = seat.filled
        if seat.gone or (filled is not None and filled.cancelled()):
            self.abandon(seat)
        elif filled is not None and seat.leases and not filled.done():
            self._unpark(seat)
            filled.set_result(None)

    def collect(self, seat: Seat) -> tuple[Lease, ...]:
        """The requester takes what it got, and is gone: what comes later is given back."""
        leases, seat.leases = tuple(seat.leases), []
        seat.gone = True
        self._unpark(seat)
        return leases

    def dismiss(self, seat: Seat) -> None:
        """End a parked request without a lease."""
        self._unpark(seat)
        if seat.filled is not None and not seat.filled.done():
            seat.filled.set_result(None)

    def refuse(self, seat: Seat, error: BaseException) -> None:
        """End a parked request with an error."""
        self._unpark(seat)
        if seat.filled is not None and not seat.filled.done():
            seat.filled.set_exception(error)

    def could_take(self, hints: Iterable[Hint]) -> bool:
        """Whether parked requests have room for all of these tasks, and know them."""
        room = sum(seat.free - seat.reserved for seat in self._parked)
        served: set[tuple[str, str]] = set()
        for hint in hints:
            room -= 1
            asked = (hint.queue, hint.name)
            if room < 0 or (
                asked not in served and not any(seat.serves(*asked) for seat in self._parked)
            ):
                return False
            served.add(asked)
        return True

    def _unpark(self, seat: Seat) -> None:
        if seat in self._parked:
            del self._parked[seat]
            self.on_change()

    # -- ready rows -----------------------------------------------------------------------------------------------

    def offer(self) -> None:
        """Ready rows were written, or became grantable."""
        self.offers += 1
        self._dry.clear()
        if self._parked:
            self.wake.set()

    def is_dry(self, worker: WorkerId) -> bool:
        """Whether nothing is ready for this worker, as far as is known."""
        return self._dry.get(worker) == self.offers

    def run_dry(self, worker: WorkerId, offers: int) -> None:
        """A grant that began at `offers` found less than it asked for."""
        self._dry[worker] = offers
