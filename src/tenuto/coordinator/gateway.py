"""The gateway to workers, in this process: the `TaskGateway` port over the coordinator and the store.

Theory of operation. A `lease` call parks as a seat. It is filled by a commit that makes a task ready (eager hand-out,
see `coordinator`), or by this service from what dispatch has at hand, whenever there may be something: at the start,
after commits that left ready rows, after releases, recovery and resume, and at news of other coordinators. Which one
comes first does not matter: a task is leased by compare-and-set. The service owns the grants, so a caller that goes
away loses nothing: what was granted for it is released, also where the answer of the store was lost.
Source: DESIGN section 5, "Leases", "Eager hand-out".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from tenuto.coordinator.coordinator import Coordinator
from tenuto.coordinator.handout import lease_of
from tenuto.coordinator.recovery import LostWaiting
from tenuto.coordinator.reports import ReportWaiting
from tenuto.coordinator.rounds import Rounds, woken
from tenuto.coordinator.seats import Seat, Seats
from tenuto.coordinator.setting import Setting
from tenuto.coordinator.waiting import LINGERS, Call
from tenuto.model.errors import Unavailable
from tenuto.model.ids import LeaseId, WorkerId
from tenuto.ports.dispatch import Want
from tenuto.ports.gateway import (
    ALL_QUEUES,
    Answer,
    Beat,
    Lease,
    Load,
    Note,
    Report,
    Verdict,
    WorkerInfo,
)
from tenuto.ports.news import Topic
from tenuto.ports.store import Granted, GrantRequest, Store

GRANTS_MAX = 200
"""Tasks leased in one transaction for one request."""
DOUBTS_MAX = 10_000
"""Leases whose grant was never answered, the oldest first out: those expire."""


class Gateway:
    """`TaskGateway` and the service behind it.

    Args:
        on_due: told when a lease's deadline passes.
    """

    name = "gateway"

    def __init__(
        self,
        coordinator: Coordinator,
        store: Store,
        seats: Seats,
        setting: Setting,
        *,
        on_due: Callable[[int], None],
    ) -> None:
        self._coordinator = coordinator
        self._store = store
        self._seats = seats
        self._setting = setting
        self._dispatch = coordinator.dispatch
        self._news = setting.news
        self._rounds = Rounds(self.name, setting, failed=self._refuse)
        self._on_due = on_due
        self._doubts: dict[LeaseId, WorkerId] = {}
        self._wanting = False
        if self._dispatch.name != "database":  # which asks the rows, and nobody beforehand
            seats.on_change = self._want_soon

    # -- the port -------------------------------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo, held: Sequence[Beat] | None = None) -> None:
        setting = self._setting
        await self._store.put_worker(worker, setting.incarnation, lease_us=setting.lease_us)
        if held is not None:
            kept = {beat.lease_id for beat in held}
            lost = [
                beat for beat in await self._store.leases_of(worker.id) if beat.lease_id not in kept
            ]
            await self._release(worker.id, lost, begun=False)
        self._seats.join(worker)

    async def lease(self, worker: WorkerId, free: int) -> Sequence[Lease]:
        info = self._seats.find(worker)
        if info is None:
            raise Unavailable(f"worker {worker} is not registered")
        seat = self._seats.park(info, free)
        assert seat.filled is not None
        try:
            await seat.filled
        except BaseException:
            self._seats.abandon(seat)
            raise
        return self._seats.collect(seat)

    async def heartbeat(
        self, worker: WorkerId, beats: Sequence[Beat], load: Load
    ) -> Sequence[Verdict]:
        # Recovery leaves a living worker's leases alone, so one that has run out is its own still (ADR 0007).
        alive = self._setting.sole and self._seats.is_alive(worker)
        return await self._store.heartbeat(
            worker, beats, load, lease_us=self._setting.lease_us, lapsed=alive
        )

    async def report(self, worker: WorkerId, reports: Sequence[Report], want: int) -> Answer:
        info = self._seats.find(worker)
        seat = None if info is None or want < 1 else Seat(info, want, None)
        call = Call(len(reports), seat)
        self._coordinator.submit(
            ReportWaiting(report, call, slot, worker) for slot, report in enumerate(reports)
        )
        try:
            await call.done
        except BaseException:
            if seat is not None:
                self._seats.abandon(seat)
            raise
        over = [
            Beat(run_id=report.run_id, place=report.place, lease_id=report.lease_id)
            for report, verdict in zip(reports, call.answers, strict=True)
            if verdict is Verdict.CANCELLED
        ]
        if over:
            await self._release(worker, over, begun=True)
        return Answer(
            verdicts=tuple(call.answers), leases=() if seat is None else self._seats.collect(seat)
        )

    async def note(self, worker: WorkerId, notes: Sequence[Note]) -> None:
        kept = await self._store.note(notes)
        self._coordinator.watchers.tell_notes(kept)

    async def release(self, worker: WorkerId, beats: Sequence[Beat]) -> None:
        await self._release(worker, beats, begun=True)

    async def _release(self, worker: WorkerId, beats: Sequence[Beat], *, begun: bool) -> None:
        """`begun` False: no worker has seen these leases."""
        if beats and await self._store.release(worker, beats, begun=begun):
            self._seats.offer()
            if self._dispatch.name != "database":  # which asks the rows
                with suppress(Unavailable):  # a second later they are found anyway
                    self._dispatch.offered(await self._store.ready_of(beats))
            self._news.tell(Topic.READY)
            self._on_due(0)  # a run that closes waits for the end of its leases (C2)

    async def lose(self, worker: WorkerId, beats: Sequence[Beat]) -> None:
        call = Call(len(beats))
        self._coordinator.submit(
            LostWaiting(beat.run_id, beat.place, beat.lease_id, worker, call, slot)
            for slot, beat in enumerate(beats)
        )
        await call.done
        # A cancelled task is decided already: only the run that closes waits for the end of its lease (C2).
        over = [beat for beat, answer in zip(beats, call.answers, strict=True) if answer is LINGERS]
        await self._release(worker, over, begun=True)

    async def leave(self, worker: WorkerId) -> None:
        self._seats.leave(worker)
        await self._store.drop_worker(worker, self._setting.incarnation)

    # -- the service ----------------------------------------------------------------------------------------------

    async def run(self, stopping: asyncio.Event) -> None:
        """Fill parked requests from the ready rows, and give back what nobody took."""
        wake = self._seats.wake
        async with woken(stopping, wake):
            while not stopping.is_set():
                await wake.wait()
                wake.clear()
                await self._rounds.go(self._serve, stopping)
            with suppress(Unavailable):  # what cannot be given back is found abandoned
                await self._give_back()

    async def _serve(self) -> None:
        await self._give_back()
        for seat in self._seats.hungry():
            await self._fill(seat)
        await self._give_back()

    async def _fill(self, seat: Seat) -> None:
        if not self._seats.is_hungry(seat):
            return  # a commit fills it, or has, since it was listed
        offers = self._seats.offers
        asked = min(seat.free, GRANTS_MAX)
        seat.reserved = seat.free  # no commit fills it meanwhile
        lease_ids = tuple(self._setting.ids.lease_id() for _ in range(asked))
        try:
            granted = await self._dispatch.claim(
                GrantRequest(
                    worker=seat.info.id,
                    queues=self._queues_of(seat.info),
                    names=seat.info.names,
                    lease_ids=lease_ids,
                    lease_us=self._setting.lease_us,
                    runs=self._setting.focus.runs(),
                )
            )
        except Exception:
            self._doubt(seat.info.id, lease_ids)
            raise
        finally:
            seat.reserved = 0
        if len(granted) < asked:
            self._seats.run_dry(seat.info.id, offers)
        seat.leases += [self._lease_of(each) for each in granted]
        self._seats.deliver(seat)

    def _lease_of(self, granted: Granted) -> Lease:
        row = granted.lease
        for moment in (row.lease_until, row.attempt_until, row.heartbeat_until):
            if moment is not None:
                self._on_due(moment)
        return lease_of(granted.run_id, granted.task, row, granted.input)

    def _queues_of(self, info: WorkerInfo) -> tuple[str, ...]:
        queues = info.queues
        return self._coordinator.graphs.queues if ALL_QUEUES in queues else queues

    def _doubt(self, worker: WorkerId, lease_ids: Sequence[LeaseId]) -> None:
        """A grant's answer was lost: these may stand, and nobody works under them."""
        self._doubts.update(dict.fromkeys(lease_ids, worker))
        for oldest in list(self._doubts)[:-DOUBTS_MAX]:
            del self._doubts[oldest]

    async def _resolve_doubts(self) -> None:
        """Find the leases whose grant was never answered, once the store answers again."""
        doubts = dict(self._doubts)
        for worker in dict.fromkeys(doubts.values()):
            standing = await self._store.leases_of(worker)
            unseen = [beat for beat in standing if beat.lease_id in doubts]
            await self._release(worker, unseen, begun=False)
        for lease_id in doubts:
            self._doubts.pop(lease_id, None)

    def _want_soon(self) -> None:
        """Tell the dispatch what is wanted here, once for all that changes now."""
        if not self._wanting:
            self._wanting = True
            asyncio.get_running_loop().call_soon(self._want)

    def _want(self) -> None:
        """All workers here, busy ones too: a task that one of them knows is not strange here."""
        self._wanting = False
        room: dict[WorkerId, int] = {}
        for seat in self._seats.parked():
            room[seat.info.id] = room.get(seat.info.id, 0) + max(0, seat.free - seat.reserved)
        infos = [self._seats.find(worker) for worker in self._seats.alive()]
        self._dispatch.want(
            [
                Want(queues=self._queues_of(info), names=info.names, free=room.get(info.id, 0))
                for info in infos
                if info is not None
            ]
        )

    async def _give_back(self) -> None:
        if self._doubts:
            await self._resolve_doubts()
        unclaimed = self._seats.unclaimed
        while unclaimed:
            worker = unclaimed[0][0]
            beats = [beat for owner, beat in unclaimed if owner == worker]
            await self._release(worker, beats, begun=False)
            given = {beat.lease_id for beat in beats}
            unclaimed[:] = [each for each in unclaimed if each[1].lease_id not in given]

    def _refuse(self, error: Exception) -> None:
        """Requests that could not be served come again by themselves."""
        if not isinstance(error, Unavailable):
            error = Unavailable(f"nothing can be handed out: {error}")
        for seat in self._seats.hungry():
            self._seats.refuse(seat, error)
        self._seats.wake.set()
