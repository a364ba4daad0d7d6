"""One run in the simulated world: looking at it, and making things happen to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from unittest.mock import patch

from tests.support.world import checks, writing
from tests.support.world.answers import Script, Table, text_of
from tests.support.world.events import Making
from tests.support.world.family import INPUT, Family, Lease, Posted
from tests.support.world.looking import RUN
from tests.support.world.watching import WatchedTurn

from tenuto.machine import codec, columns
from tenuto.machine import decide as decider
from tenuto.machine.clocks import AttemptEvent
from tenuto.machine.decide import decide
from tenuto.machine.decision import Decision, Needs
from tenuto.machine.events import (
    AttemptFailed,
    AttemptSucceeded,
    CancelRequested,
    ChildSettled,
    Deadline,
    DeadlinePassed,
    Drained,
    Event,
    EventReceived,
    LeaseExpired,
    ParentPaused,
    PauseRequested,
    Rejection,
    ResumeRequested,
    RunReplayed,
    RunStarted,
    TerminateRequested,
    TimerFired,
    TimerKind,
)
from tenuto.machine.fold import Ledger, fold
from tenuto.machine.snapshot import Rows, Snapshot
from tenuto.model.expressions import Message
from tenuto.model.graph import Graph
from tenuto.model.ids import RUN_PLACE, MessageId, RunId, parts_of
from tenuto.model.states import RunState, TaskState
from tenuto.ports.store import NoticeKind

NEEDS_MAX = 1_000
"""Rounds of one decision; a mailbox is looked through message by message."""


class World(Making):
    """A run and all that is around it. Verbs make something happen; properties show letters."""

    def __init__(
        self,
        graph: Graph,
        script: Script | None = None,
        *,
        family: Family | None = None,
        run_id: RunId = RUN,
        workflows: dict[str, Graph] | None = None,
    ) -> None:
        super().__init__(graph, script, family=family, run_id=run_id, workflows=workflows)
        self.family.worlds[run_id] = self
        self.checking = checks.Checking(self)

    # -- happening ----------------------------------------------------------------------------------------------

    def start(self) -> World:
        self.accept(RunStarted(at=self.now))
        return self

    def grant(self, name: str) -> Lease:
        """Lease a ready task to a worker."""
        place = self.place(name)
        assert place in self.ready, f"{place} is not ready: {sorted(self.ready)}"
        assert place not in self.leases, f"I2: {place} is leased"
        self.ready.discard(place)
        attempt = self.ledger.tasks[place].attempt
        lease = Lease(place, attempt, self.lease_id(), self.now)
        self.leases[place] = lease
        self.handed.add(place)
        return lease

    def release(self, name: str) -> None:
        """A draining worker gives its lease back."""
        lease = self.leases.pop(self.place(name))
        task = self.ledger.tasks[lease.place]
        if task.state is TaskState.PENDING and not task.held:
            self.ready.add(lease.place)

    def lapse(self, name: str) -> None:
        """The lease of a task that is over lapses: its worker never says anything again."""
        lease = self.leases.pop(self.place(name))
        assert self.ledger.tasks[lease.place].state is not TaskState.PENDING

    def succeed(self, name: str, output: str = "{}") -> Decision:
        """A worker takes the task, if none has it, and reports success."""
        return self.accept(self.success_of(self._lease(name), output))

    def fail(
        self,
        name: str,
        code: str = "boom",
        *,
        retryable: bool = True,
        retry_after_us: int = 0,
        classes: tuple[str, ...] = (),
    ) -> Decision:
        """A worker takes the task, if none has it, and reports failure."""
        event = self.failure_of(self._lease(name), code)
        return self.accept(
            replace(event, retryable=retryable, retry_after_us=retry_after_us, classes=classes)
        )

    def lose(self, name: str) -> Decision:
        """The worker that has the task is gone."""
        return self.accept(self.loss_of(self._lease(name)))

    def pass_deadline(self, name: str, deadline: Deadline) -> Decision:
        lease = None if deadline is Deadline.QUEUE else self._lease(name)
        return self.accept(self.deadline_of(self.place(name), deadline, lease))

    def fire(self, name: str, kind: TimerKind) -> Decision:
        """Turn the clock to the moment a timer is due, and fire it."""
        timer = self.timer(name, kind)
        self.now = max(self.now, timer.due_at)
        return self.accept(self.firing_of(timer))

    def go_on(self) -> int:
        """Fire the internal timers of T7 until none is left. Returns how many there were."""
        fired = 0
        while found := [t for t in self.ledger.timers.values() if t.kind is TimerKind.CONTINUE]:
            self.accept(self.firing_of(found[0]))
            fired += 1
        return fired

    def put_message(self, event: str, key: str = "k", payload: str = "{}") -> MessageId:
        """Store a message in the mailbox; nobody is told."""
        message = Posted(MessageId(self.numbered("message")), event, key, payload)
        self.mailbox.append(message)
        return message.message_id

    def post(self, event: str, key: str = "k", payload: str = "{}") -> Decision | None:
        """Store a message and hand it to the oldest open wait that wants it, if there is one."""
        self.put_message(event, key, payload)
        decision = None
        while (matched := self.match()) is not None:
            decision = self.offer(matched)
            if decision.rejected is None:
                return decision
        return decision

    def offer(self, event: EventReceived) -> Decision:
        """Offer a message to the wait that it was matched to. One that is refused is not offered to it again."""
        decision = self.send(event)
        assert decision.rejected in (None, Rejection.NO_MATCH), decision.rejected
        if decision.rejected is not None:
            self.family.refused.add((event.message_id, self.run_id, event.place, event.version))
        return decision

    def match(self) -> EventReceived | None:
        """The oldest unused message that an open wait waits for, as an event."""
        for message in self.mailbox:
            fitting = [
                wait
                for wait in self.ledger.waits.values()
                if (wait.event, wait.key) == (message.event, message.key)
                and (message.message_id, self.run_id, wait.place, wait.version)
                not in self.family.refused
            ]
            if fitting:
                wait = min(fitting, key=lambda w: (w.opened_at, w.place))
                return self.receipt_of(wait, message)
        return None

    def heartbeat(self, name: str) -> Decision:
        """A sign of life for an open wait."""
        return self.accept(self.beat_of(self.ledger.waits[self.place(name)]))

    def cancel(self, reason: str = "") -> Decision:
        return self.accept(CancelRequested(at=self.now, reason=reason))

    def terminate(self, reason: str = "") -> Decision:
        return self.accept(TerminateRequested(at=self.now, reason=reason))

    def pause(self) -> Decision:
        return self.accept(PauseRequested(at=self.now))

    def resume(self, *, freeze: bool = False) -> Decision:
        return self.accept(ResumeRequested(at=self.now, freeze=freeze))

    def parent_pauses(self, paused: bool = True, *, freeze: bool = False) -> Decision:
        """The parent's flag has changed."""
        return self.accept(ParentPaused(at=self.now, paused=paused, freeze=freeze))

    def drained(self) -> Decision:
        """No task of the closing run has a live lease (C2): the store says so."""
        assert not self.leases, f"live leases: {sorted(self.leases)}"
        return self.accept(self.drained_event())

    def skip(self, name: str, output: str = "{}") -> Decision:
        """Somebody takes an active node as done."""
        return self.accept(self.skip_of(name, output))

    def retry(self, skip: str | None = None, output: str = "{}") -> Decision:
        """Somebody asks for the run to go on (R1)."""
        return self.accept(self.retry_request(skip, output))

    def replay(self, node: str, input: str = "{}", run_id: str = "replay") -> World:
        """A new run of the same graph that keeps what this one did, but for `node` and what follows (R2)."""
        world, event = self.copy_for(node, input, run_id)
        world.accept(event)
        return world

    def copy_for(
        self, node: str, input: str = "{}", run_id: str = "replay"
    ) -> tuple[World, RunReplayed]:
        """The run that would replay this one, before it begins, with what the decision may read, and its event."""
        world = World(self.graph, self.script, family=self.family, run_id=RunId(run_id))
        world.path = f"{self.path}~"
        world.payloads[INPUT, 0] = text_of(input)
        first = self.checking.retried_first() | {self.graph.numbers[node]}
        again = self.checking.reached(first, self.edges)
        nodes = self.graph.definition.nodes
        kept = {nodes[n].id for n in range(len(nodes)) if n not in again}
        for key in {key for key, _ in self.payloads}:
            parts = parts_of(key.place)
            if parts.node in kept and not parts.undo:
                text = self.newest(key)
                assert text is not None
                world.payloads[key, 0] = text_of(text)
        for place, task in self.ledger.tasks.items():
            parts = parts_of(place)
            if parts.index is not None and parts.node in kept and not parts.undo:
                world.copied[place] = task
        return world, self.replay_of(node)

    # -- children -----------------------------------------------------------------------------------------------

    def child(self, name: str) -> World:
        """The open child of a call or an item; it begins if it did not yet."""
        place = self.place(name)
        child = self.open_children()[place]
        start = self.family.notices.get((child, NoticeKind.START, place))
        if start is not None:
            self.family.deliver(start)
        return self.family.worlds[child]

    def settle_child(
        self,
        name: str,
        state: RunState = RunState.SUCCESS,
        output: str = "{}",
        error: str = '{"code":"boom"}',
        code: str = "",
    ) -> Decision:
        """The open child of a place ends, without a run of its own."""
        place = self.place(name)
        child = self.open_children()[place]
        for key in [key for key in self.family.notices if key[0] == child]:
            del self.family.notices[key]
        return self.accept(self.settled_event(place, child, state, output, error, code))

    def tell(self, kind: NoticeKind | None = None) -> int:
        """Deliver the notices of this run's family, oldest first, until there are none. Returns how many."""
        told = 0
        while fitting := [n for n in self.family.deliverable() if kind is None or n.kind is kind]:
            self.family.deliver(fitting[0])
            told += 1
        return told

    # -- one event ----------------------------------------------------------------------------------------------

    def accept(self, event: Event) -> Decision:
        """Send an event that must not be rejected."""
        decision = self.send(event)
        assert decision.rejected is None, f"{event} is rejected: {decision.rejected}"
        return decision

    def send(self, event: Event) -> Decision:
        """Decide an event, write what it orders, check everything."""
        table = Table(self)
        found = self._decide(event, table)
        self.decision = found
        if found.rejected is not None:
            assert found.snapshot is self.snapshot
            assert not found.actions
            assert not found.outcomes
            return found
        table.accept()
        before, self.snapshot = self.snapshot, found.snapshot
        self.checking.before_writing(before, found, event, WatchedTurn.last)
        for action in found.actions:
            writing.write(self, action, event)
        self.events.append(event)
        self.history.append((event.at, codec.encode_event(event, found.outcomes)))
        self.checking.after_writing(before, event, WatchedTurn.last)
        self.family.check()
        return found

    def _decide(self, event: Event, table: Table) -> Decision:
        for _ in range(NEEDS_MAX):
            WatchedTurn.event = event
            with patch.object(decider, "Turn", WatchedTurn):
                found = decide(self.graph, self.snapshot, self._rows(event, table), event, table)
            if isinstance(found, Decision):
                return found
            self._load(found, table)
        raise AssertionError("decide never has enough")

    def fold(self) -> tuple[Snapshot, Ledger]:
        """Fold the whole history from its stored form."""
        return fold(
            self.run_id,
            self.graph,
            (codec.decode_event(p.kind, at, p.place, p.data) for at, p in self.history),
        )

    def check_history(self) -> None:
        """I5: the whole history folds to exactly the stored state."""
        snapshot, ledger = self.fold()
        assert columns.encode_snapshot(snapshot) == columns.encode_snapshot(self.snapshot)
        assert snapshot == self.snapshot
        assert checks.without_keys(ledger) == checks.without_keys(self.ledger)

    # -- what a coordinator loads -------------------------------------------------------------------------------

    def _rows(self, event: Event, table: Table) -> Rows:
        """What an event names, and what was asked for; nothing else."""
        place = RUN_PLACE if isinstance(event, Drained) else getattr(event, "place", None)
        ledger = self.ledger
        asked = {place, *table.places}
        return Rows(
            {at: task for at, task in ledger.tasks.items() if at in asked},
            {key: timer for key, timer in ledger.timers.items() if key[0] == place},
            {at: wait for at, wait in ledger.waits.items() if at == place},
            known=False,
            absent=frozenset(at for at in asked if at is not None and at not in ledger.tasks),
        )

    def _load(self, needs: Needs, table: Table) -> None:
        """What a coordinator does with `Needs`: every text that is asked for must be stored."""
        missing = needs.missing
        assert needs != Needs()
        self.needs += 1
        for place in needs.tasks:
            assert place not in table.places, f"{place} is asked for twice"
            table.places.add(place)
        for key in missing.payloads:
            assert self.newest(key) is not None, f"{key} is asked for and was never put"
            assert key not in table.known, f"{key} is asked for twice"
            table.known.add(key)
        table.known |= set(missing.maybe)
        table.items |= set(missing.items)
        table.passes |= set(missing.passes)
        for address in missing.mailbox:
            assert address not in table.looked
            table.looked[address] = self._message(*address)
        table.called |= set(missing.callees)
        table.again()

    def _message(self, event: str, key: str, after: MessageId | None) -> Message:
        """The oldest message of an address, or the next one."""
        fitting = [m for m in self.mailbox if (m.event, m.key) == (event, key)]
        if after is not None:
            ids = [m.message_id for m in fitting]
            fitting = fitting[ids.index(after) + 1 :]
        if not fitting:
            return Message(None)
        return Message(fitting[0].message_id, text_of(fitting[0].payload))

    # -- small things -------------------------------------------------------------------------------------------

    def _lease(self, name: str) -> Lease:
        place = self.place(name)
        return self.leases[place] if place in self.leases else self.grant(name)


def repeat_of(
    events: Iterable[Event],
) -> list[AttemptEvent | TimerFired | EventReceived | ChildSettled]:
    """Those events that must be rejected when they come a second time."""
    return [
        event
        for event in events
        if isinstance(
            event,
            AttemptSucceeded
            | AttemptFailed
            | LeaseExpired
            | DeadlinePassed
            | TimerFired
            | EventReceived
            | ChildSettled,
        )
    ]
