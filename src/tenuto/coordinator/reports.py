"""What waits to be decided of a worker: its report about one attempt. No I/O."""

from __future__ import annotations

from tenuto.coordinator.batch import Batch
from tenuto.coordinator.waiting import (
    AboutTask,
    Call,
    Leased,
    Moment,
    Settled,
    Wanted,
    text_of,
)
from tenuto.machine.codec import error_text
from tenuto.machine.events import AttemptFailed, AttemptSucceeded, Event, Rejection
from tenuto.machine.snapshot import Task
from tenuto.model.failures import Failure, FailureKind
from tenuto.model.ids import WorkerId
from tenuto.model.states import TaskState
from tenuto.ports.gateway import Report, Success, Verdict
from tenuto.ports.store import LeaseRow, Loaded


class ReportWaiting(AboutTask):
    """A worker's report. `worker`: who says so; None: whoever holds the lease.

    `known`: the task and the lease, when our own commit granted it and it has not run out since: what became of it in
    the meantime the guard of the commit finds out, which claims that very lease.
    """

    __slots__ = ("known", "report", "worker")

    def __init__(
        self, report: Report, call: Call, slot: int, worker: WorkerId | None = None
    ) -> None:
        super().__init__(report.run_id, call, slot)
        self.report = report
        self.worker = worker
        self.place = report.place
        self.known: tuple[Task, LeaseRow] | None = None

    def recall(self, leased: Leased, now: int) -> None:
        found = leased.get(self.place)
        self.known = found if found is not None and self._is_of(*found, now) else None

    def _is_of(self, task: Task, lease: LeaseRow, now: int) -> bool:
        """Whether the report is that of this lease, and in time as far as is known: heartbeats make leases longer."""
        report = self.report
        return (
            lease.lease_id == report.lease_id
            and task.attempt == report.attempt
            and self.worker in {None, lease.worker}
            and lease.lease_until > now
        )

    def want(self, wanted: Wanted) -> None:
        if self.known is None:
            super().want(wanted)

    def fill(self, batch: Batch, loaded: Loaded) -> None:
        if self.known is None:
            super().fill(batch, loaded)
        else:
            batch.tasks[self.place] = self.known[0]

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        found = self.known or loaded.tasks.get((self.run_id, self.place))
        if found is None:
            return Settled(Verdict.STALE)
        task, lease = found
        if self.known is None:
            verdict = self._verdict(task, lease, loaded.now, moment)
            if verdict is not None:
                return Settled(verdict)
        assert lease is not None
        report = self.report
        at = max(moment.now, batch.snapshot.at)
        result = report.result
        if isinstance(result, Success):
            return AttemptSucceeded(
                at=at,
                place=self.place,
                attempt=report.attempt,
                lease_id=report.lease_id,
                output=text_of(result.output),
                worker=lease.worker,
                leased_at=lease.leased_at,
            )
        if task.state is TaskState.CANCELLED:
            return Settled(Verdict.CANCELLED)
        failure = Failure(result.code, result.message, FailureKind.TASK, result.details)
        node = batch.graph.definition.nodes[task.node].id if task.node >= 0 else ""
        return AttemptFailed(
            at=at,
            place=self.place,
            attempt=report.attempt,
            lease_id=report.lease_id,
            code=result.code,
            error=error_text(failure, node),
            draw=moment.dice.draw(),
            retryable=result.retryable,
            retry_after_us=result.retry_after_us,
            classes=result.classes,
            worker=lease.worker,
            leased_at=lease.leased_at,
        )

    def _verdict(
        self, task: Task, lease: LeaseRow | None, now: int, moment: Moment
    ) -> Verdict | None:
        """What a task as loaded says of the report, if that is no event."""
        report = self.report
        if lease is None or lease.lease_id != report.lease_id:
            return Verdict.OK if task.ended_lease == report.lease_id else Verdict.STALE
        if task.attempt != report.attempt or self.worker not in {None, lease.worker}:
            return Verdict.STALE
        if lease.lease_until <= now and not moment.workers.is_alive(lease.worker):
            return Verdict.STALE
        return None

    def answer_to(self, rejected: Rejection | None) -> object:
        if rejected is None or rejected is Rejection.DUPLICATE:
            return Verdict.OK
        return Verdict.CANCELLED if rejected is Rejection.RUN_FINAL else Verdict.STALE

    def absent(self) -> object:
        return Verdict.STALE

    def poisoned(self, error: BaseException) -> object:
        # The worker can do nothing about it: it drops the work, and the lease is ended by recovery.
        return Verdict.STALE
