"""Making events: what a coordinator would build from what it read, and what workers report."""

from __future__ import annotations

from tests.support.world.answers import text_of
from tests.support.world.family import Lease, Posted
from tests.support.world.looking import Looking

from tenuto.machine import columns
from tenuto.machine.events import (
    AttemptFailed,
    AttemptSucceeded,
    ChildSettled,
    Deadline,
    DeadlinePassed,
    Drained,
    EventReceived,
    HeartbeatReceived,
    LeaseExpired,
    RetryRequested,
    RunReplayed,
    SkipRequested,
    TimerFired,
    TimerKind,
)
from tenuto.machine.snapshot import OpenedWait, Timer
from tenuto.model.definition import Call, Foreach, NodeType
from tenuto.model.ids import LeaseId, Place, RunId, WorkerId
from tenuto.model.states import RunState, TaskState

WORKER = WorkerId("worker-1")


class Making(Looking):
    """The part of `World` that builds events without sending them."""

    def lease_id(self) -> LeaseId:
        return LeaseId(self.numbered("lease"))

    def success_of(self, lease: Lease, output: str = "{}") -> AttemptSucceeded:
        return AttemptSucceeded(
            at=self.now,
            place=lease.place,
            attempt=lease.attempt,
            lease_id=lease.lease_id,
            output=text_of(output),
            worker=WORKER,
            leased_at=lease.granted_at,
        )

    def failure_of(self, lease: Lease, code: str = "boom") -> AttemptFailed:
        return AttemptFailed(
            at=self.now,
            place=lease.place,
            attempt=lease.attempt,
            lease_id=lease.lease_id,
            code=code,
            error=text_of(f'{{"code":"{code}"}}'),
            draw=self.draw,
            worker=WORKER,
            leased_at=lease.granted_at,
        )

    def loss_of(self, lease: Lease) -> LeaseExpired:
        return LeaseExpired(
            at=self.now,
            place=lease.place,
            attempt=lease.attempt,
            lease_id=lease.lease_id,
            worker=WORKER,
            leased_at=lease.granted_at,
        )

    def deadline_of(self, place: Place, deadline: Deadline, lease: Lease | None) -> DeadlinePassed:
        return DeadlinePassed(
            at=self.now,
            place=place,
            attempt=self.ledger.tasks[place].attempt if lease is None else lease.attempt,
            deadline=deadline,
            lease_id=None if lease is None else lease.lease_id,
            draw=self.draw,
            worker=WORKER if lease is not None else WorkerId(""),
            leased_at=lease.granted_at if lease is not None else 0,
        )

    def firing_of(self, timer: Timer) -> TimerFired:
        return TimerFired(at=self.now, place=timer.place, kind=timer.kind, version=timer.version)

    def receipt_of(self, wait: OpenedWait, message: Posted) -> EventReceived:
        return EventReceived(
            at=self.now,
            place=wait.place,
            version=wait.version,
            message_id=message.message_id,
            payload=text_of(message.payload),
        )

    def beat_of(self, wait: OpenedWait) -> HeartbeatReceived:
        return HeartbeatReceived(at=self.now, place=wait.place, version=wait.version)

    def drained_event(self) -> Drained:
        version = self.timer("", TimerKind.DRAIN).version
        return Drained(at=self.now, version=version, started=tuple(sorted(self.handed)))

    def settled_event(
        self,
        place: Place,
        child: RunId,
        state: RunState,
        output: str,
        error: str,
        code: str = "",
    ) -> ChildSettled:
        succeeded = state is RunState.SUCCESS
        return ChildSettled(
            at=self.now,
            place=place,
            child=child,
            state=state,
            output=text_of(output) if succeeded else None,
            error=None if succeeded else text_of(error),
            draw=self.draw,
            code=code,
        )

    def skip_of(self, name: str, output: str = "{}") -> SkipRequested:
        return SkipRequested(at=self.now, node=name, output=text_of(output))

    def retry_request(self, skip: str | None = None, output: str = "{}") -> RetryRequested:
        """What a coordinator asks for, with the facts that it loads for it (R1)."""
        return RetryRequested(
            at=self.now,
            again=tuple(self._again()),
            children=tuple(self._retryable_children()),
            skip=skip,
            output=None if skip is None else text_of(output),
            paused=self.parent_is_held,
        )

    def replay_of(self, node: str) -> RunReplayed:
        return RunReplayed(
            at=self.now,
            source=self.run_id,
            node=node,
            nodes=self.letters,
            edges=self.edges,
            rest=columns.encode_snapshot(self.snapshot)[2],
        )

    def _again(self) -> list[tuple[str, tuple[int, ...]]]:
        """Of each foreach, the items that were begun and did not succeed."""
        found = []
        for node, items in sorted(self.snapshot.items.items()):
            it = self.graph.definition.nodes[node]
            assert isinstance(it.detail, Foreach)
            states = self.item_states(self.place(it.id))
            left = [
                index for index in range(items.next) if states.get(index) is not TaskState.SUCCESS
            ]
            found.append((it.id, tuple(left)))
        return found

    def _retryable_children(self) -> list[tuple[Place, RunId]]:
        """Calls whose last child allows a retry."""
        found = []
        for it in self.graph.definition.nodes:
            if it.type is not NodeType.CALL:
                continue
            assert isinstance(it.detail, Call)
            place = self.place(it.id)
            mine = [order for order in self.started if order.place == place and order.waited]
            child = self.family.worlds.get(mine[-1].child) if mine else None
            if child is not None and child.allows_retry():
                found.append((place, child.run_id))
        return found

    def allows_retry(self) -> bool:
        """R1, as far as this run's own state says it."""
        snapshot = self.snapshot
        if not self.is_final or snapshot.state is RunState.SUCCESS or snapshot.children:
            return False
        if snapshot.compensation != "none" or "end" in snapshot.closed_by:
            return False
        if self.checking.undoing.ended_by_node() or self.checking.undoing.failed_on_purpose():
            return False
        return bool(self.checking.retried_first())
