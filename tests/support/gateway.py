"""A small gateway in memory for tests of the worker: hands out what it is given, keeps what it is told.

A real implementation of the port, without a store: leases are by id, a report of a lease that is not held is stale.
What a test wants to go wrong it says by `down`, `lost`, `cancelled` and `hold`.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence

from tenuto.model.errors import Unavailable
from tenuto.model.ids import LeaseId, Place, RunId, TaskId, WorkerId
from tenuto.ports.gateway import (
    Answer,
    Beat,
    Failed,
    Lease,
    Load,
    Note,
    Report,
    Result,
    Success,
    Verdict,
    WorkerInfo,
)

LEASE_US = 60_000_000
RUN = RunId("01890a5d-ac96-774b-bcce-b302099a8057")


class MemoryGateway:
    """Attributes that a test may set or read.

    down: verbs that raise Unavailable. lost: leases to be called stale. cancelled: leases to be called cancelled.
    hold: while cleared, reports wait before they are answered. calls: every verb called, in order.
    """

    def __init__(self, *, lease_us: int = LEASE_US) -> None:
        self.lease_us = lease_us
        self.tasks: deque[Lease] = deque()
        self.held: dict[LeaseId, Lease] = {}
        self.results: dict[TaskId, Result] = {}
        self.attempts: list[tuple[TaskId, int]] = []
        self.reports: list[Sequence[Report]] = []
        self.wants: list[int] = []
        self.asked: list[int] = []
        self.beats: list[Sequence[Beat]] = []
        self.loads: list[Load] = []
        self.released: list[TaskId] = []
        self.losses: list[TaskId] = []
        self.notes: list[Note] = []
        self.told: list[str] = []
        self.calls: list[str] = []
        self.down: set[str] = set()
        self.lost: set[LeaseId] = set()
        self.cancelled: set[LeaseId] = set()
        self.hold = asyncio.Event()
        self.hold.set()
        self.reported = asyncio.Event()
        self._offered = asyncio.Event()
        self._number = 0
        self._followers: dict[TaskId, list[Lease]] = {}
        self._changed = asyncio.Event()

    # -- for tests -------------------------------------------------------------------------------------------------

    def offer(
        self,
        name: str,
        params: object = None,
        *,
        place: str | None = None,
        attempt: int = 1,
        attempt_us: int | None = None,
        heartbeat_us: int | None = None,
        input: str | None = None,
        after: Lease | None = None,
    ) -> Lease:
        """Make a task ready, at once or by the commit of `after`'s report."""
        self._number += 1
        lease_us = self.lease_us if attempt_us is None else min(self.lease_us, attempt_us)
        lease = Lease(
            run_id=RUN,
            place=Place(place or f"n{self._number}"),
            lease_id=LeaseId(f"lease-{self._number}"),
            name=name,
            queue="default",
            attempt=attempt,
            input=json.dumps(params or {}) if input is None else input,
            lease_us=lease_us,
            attempt_us=attempt_us,
            heartbeat_us=heartbeat_us,
        )
        if after is None:
            self.tasks.append(lease)
            self._offered.set()
        else:
            self._followers.setdefault(after.task_id, []).append(lease)
        return lease

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until a condition on this gateway holds; looked at after every call of a verb."""
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    async def result(self, lease: Lease) -> Result:
        """Wait for the result of a task."""
        await self.until(lambda: lease.task_id in self.results)
        return self.results[lease.task_id]

    async def output(self, lease: Lease) -> object:
        """Wait for the output of a task that succeeds."""
        result = await self.result(lease)
        assert isinstance(result, Success), result
        output: object = json.loads(result.output)
        return output

    async def failure(self, lease: Lease) -> Failed:
        """Wait for the failure of a task that fails."""
        result = await self.result(lease)
        assert isinstance(result, Failed), result
        return result

    # -- the port --------------------------------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo, held: Sequence[Beat] | None = None) -> None:
        self._called("register")
        if held is not None:
            kept = {beat.lease_id for beat in held}
            self._offer_again([lease for lease in self.held if lease not in kept])

    async def lease(self, worker: WorkerId, free: int) -> Sequence[Lease]:
        self.asked.append(free)
        self._called("lease")
        while not self.tasks:
            self._offered.clear()
            await self._offered.wait()
        return self._grant(free)

    async def heartbeat(
        self, worker: WorkerId, beats: Sequence[Beat], load: Load
    ) -> Sequence[Verdict]:
        self.beats.append(beats)
        self.loads.append(load)
        self._called("heartbeat")
        return [self._verdict(beat.lease_id) for beat in beats]

    async def note(self, worker: WorkerId, notes: Sequence[Note]) -> None:
        self._called("note")
        self.notes += notes
        self.told += [note.text for note in notes]

    async def report(self, worker: WorkerId, reports: Sequence[Report], want: int) -> Answer:
        self.reports.append(reports)
        self.wants.append(want)
        self.reported.set()
        self._called("report")
        await self.hold.wait()
        verdicts = []
        for report in reports:
            verdict = self._verdict(report.lease_id)
            verdicts.append(verdict)
            if verdict is Verdict.OK:
                lease = self.held.pop(report.lease_id)
                assert (lease.run_id, lease.place, lease.attempt) == (
                    report.run_id,
                    report.place,
                    report.attempt,
                )
                self.results[lease.task_id] = report.result
                self.attempts.append((lease.task_id, report.attempt))
                self.tasks.extend(self._followers.pop(lease.task_id, ()))
        leases = self._grant(want) if want else []
        if self.tasks:
            self._offered.set()
        self._changed.set()
        return Answer(verdicts=tuple(verdicts), leases=tuple(leases))

    async def release(self, worker: WorkerId, beats: Sequence[Beat]) -> None:
        self._called("release")
        for beat in beats:
            lease = self.held.pop(beat.lease_id, None)
            if lease is not None:
                self.released.append(lease.task_id)
        self._changed.set()

    async def lose(self, worker: WorkerId, beats: Sequence[Beat]) -> None:
        self._called("lose")
        for beat in beats:
            lease = self.held.pop(beat.lease_id, None)
            if lease is not None:
                self.losses.append(lease.task_id)
        self._changed.set()

    async def leave(self, worker: WorkerId) -> None:
        self._called("leave")

    def _called(self, verb: str) -> None:
        self.calls.append(verb)
        self._changed.set()
        if verb in self.down:
            raise Unavailable(f"{verb} is down")

    def _offer_again(self, leases: Sequence[LeaseId]) -> None:
        self.tasks.extendleft(self.held.pop(lease) for lease in leases)
        if self.tasks:
            self._offered.set()

    def _grant(self, free: int) -> list[Lease]:
        leases = [self.tasks.popleft() for _ in range(min(free, len(self.tasks)))]
        for lease in leases:
            self.held[lease.lease_id] = lease
        return leases

    def _verdict(self, lease_id: LeaseId) -> Verdict:
        if lease_id in self.cancelled:
            return Verdict.CANCELLED
        if lease_id in self.lost or lease_id not in self.held:
            return Verdict.STALE
        return Verdict.OK
