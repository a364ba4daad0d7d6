"""The events of one run decided one after another in memory, folded into one change. No I/O, no deciding.

A `Batch` is at once the overlay that the next decision reads (rows and texts as the earlier events of the batch left
them) and the net of what must be written: a row changed twice is written once, what was undone within the batch is
written nowhere (DESIGN section 5, "Group commit"). Orders on sets of rows (`HoldTasks`, `ReleaseTasks`) have no order
among the others in a change, so the events that cause them travel alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from tenuto.machine.actions import (
    Action,
    CancelTask,
    ClearTimers,
    CloseRun,
    CloseWait,
    CreateTask,
    DispatchTask,
    HoldTasks,
    OpenWait,
    PutPayload,
    ReleaseTasks,
    SetTimer,
    SettleRun,
    UpdateTask,
    UseMessage,
)
from tenuto.machine.codec import encode_event
from tenuto.machine.decision import Decision
from tenuto.machine.events import (
    AttemptFailed,
    AttemptSucceeded,
    DeadlinePassed,
    Event,
    EventReceived,
    LeaseExpired,
    TimerFired,
    TimerKind,
)
from tenuto.machine.snapshot import OpenedWait, Rows, Snapshot, Task, Timer
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Message
from tenuto.model.graph import Graph
from tenuto.model.ids import LeaseId, MessageId, Place, RunId
from tenuto.model.payload import PayloadKey
from tenuto.model.states import FINAL_TASK_STATES, TaskState
from tenuto.ports.store import Change, Claims, EagerGrant, EventRow, NewRun, PayloadRow

_NO_CLAIMS = Claims()


class Batch:
    """One run's events of one cycle.

    `texts` is the run's cache of payload texts and is written through (`grown`: by how many characters): when the
    change is not committed, the cache of this run must be dropped by the caller.
    """

    __slots__ = (
        "_cancelled",
        "_claimed_leases",
        "_claimed_messages",
        "_claimed_timers",
        "_claimed_waits",
        "_cleared",
        "_close",
        "_closed_waits",
        "_created",
        "_hold",
        "_opened_waits",
        "_payloads",
        "_release_at",
        "_set_timers",
        "_unleased",
        "_updated",
        "events",
        "expected_seq",
        "graph",
        "grown",
        "mailbox",
        "namespace",
        "new_run",
        "ready",
        "replaced",
        "rows",
        "run_id",
        "settle",
        "snapshot",
        "tasks",
        "texts",
        "timers",
        "uses_message",
        "waits",
    )

    def __init__(
        self,
        graph: Graph,
        namespace: str,
        snapshot: Snapshot,
        texts: dict[PayloadKey, str],
        new_run: NewRun | None = None,
    ) -> None:
        self.run_id: RunId = snapshot.run_id
        self.graph = graph
        self.namespace = namespace
        self.snapshot = snapshot
        self.expected_seq = snapshot.seq
        self.texts = texts
        self.new_run = new_run
        self.mailbox: dict[tuple[str, str], Message] = {}
        self.uses_message = False
        self.replaced = False
        self.grown = 0
        self.tasks: dict[Place, Task] = {}
        self.timers: dict[tuple[Place, TimerKind], Timer] = {}
        self.waits: dict[Place, OpenedWait] = {}
        self.rows = Rows(tasks=self.tasks, timers=self.timers, waits=self.waits)
        self.events: list[EventRow] = []
        self.ready: dict[Place, Task] = {}
        self.settle: SettleRun | None = None
        self._payloads: list[PayloadRow] = []
        self._created: dict[Place, Task] = {}
        self._updated: dict[Place, tuple[Task, bool]] = {}
        self._cancelled: dict[Place, None] = {}
        self._cleared: dict[tuple[Place, TimerKind | None], None] = {}
        self._set_timers: dict[tuple[Place, TimerKind], Timer] = {}
        self._closed_waits: dict[Place, None] = {}
        self._opened_waits: dict[Place, OpenedWait] = {}
        self._hold = False
        self._release_at: int | None = None
        self._close = False
        self._claimed_leases: list[tuple[Place, int, LeaseId]] = []
        self._unleased: list[tuple[Place, int]] = []
        self._claimed_timers: list[tuple[Place, TimerKind, int]] = []
        self._claimed_waits: list[tuple[Place, int]] = []
        self._claimed_messages: dict[MessageId, None] = {}

    @property
    def opens_waits(self) -> bool:
        """Whether a message posted meanwhile could match a wait that this change opens."""
        return bool(self._opened_waits)

    @property
    def releases(self) -> bool:
        """Whether the change offers held tasks again (resume)."""
        return self._release_at is not None

    def put(self, key: PayloadKey, text: str, seq: int) -> None:
        """Store a payload under the number of the event that brings it."""
        if key in self.texts:
            self.replaced = True
        self.texts[key] = text
        self.grown += len(text)
        self._payloads.append(PayloadRow(key=key, seq=seq, text=text))

    def learn(self, key: PayloadKey, text: str) -> None:
        """Take in a stored payload that a decision asked for."""
        self.texts[key] = text
        self.grown += len(text)

    def apply(self, event: Event, decision: Decision) -> None:
        """Take over an accepted decision: its row of the history, its claims, its orders."""
        snapshot = decision.snapshot
        parts = encode_event(event, decision.outcomes)
        self.snapshot = snapshot
        self.events.append(
            EventRow(
                seq=snapshot.seq, at=event.at, kind=parts.kind, place=parts.place, data=parts.data
            )
        )
        self._claim(event)
        for action in decision.actions:
            self._net(action)

    def build(self, eager: tuple[EagerGrant, ...] = ()) -> Change:
        """The change that writes all of it."""
        claims = _NO_CLAIMS
        if (
            self._claimed_leases
            or self._claimed_timers
            or self._claimed_waits
            or self._claimed_messages
            or self._unleased
        ):
            claims = Claims(
                leases=tuple(self._claimed_leases),
                unleased=tuple(self._unleased),
                timers=tuple(self._claimed_timers),
                waits=tuple(self._claimed_waits),
                messages=tuple(self._claimed_messages),
            )
        return Change(
            run_id=self.run_id,
            expected_seq=self.expected_seq,
            snapshot=self.snapshot,
            new_run=self.new_run,
            claims=claims,
            events=tuple(self.events),
            payloads=tuple(self._payloads),
            created=tuple(self._created.values()),
            updated=tuple(self._updated.values()),
            cancelled=tuple(self._cancelled),
            cleared=tuple(self._cleared),
            timers=tuple(self._set_timers.values()),
            closed_waits=tuple(self._closed_waits),
            waits=tuple(self._opened_waits.values()),
            hold=self._hold,
            release_at=self._release_at,
            close=self._close,
            ready=tuple(self.ready.values()),
            eager=eager,
            settle=self.settle,
        )

    def next_due(self) -> int | None:
        """The earliest moment that this change makes something due; None for never."""
        moments = [timer.due_at for timer in self._set_timers.values()]
        moments += [t.queue_until for t in self.ready.values() if t.queue_until is not None]
        return min(moments) if moments else None

    # -- claims ---------------------------------------------------------------------------------------------------

    def _claim(self, event: Event) -> None:
        if isinstance(event, AttemptSucceeded | AttemptFailed | LeaseExpired):
            self._claimed_leases.append((event.place, event.attempt, event.lease_id))
        elif isinstance(event, DeadlinePassed):
            if event.lease_id is None:
                self._unleased.append((event.place, event.attempt))
            else:
                self._claimed_leases.append((event.place, event.attempt, event.lease_id))
        elif isinstance(event, TimerFired):
            self._claimed_timers.append((event.place, event.kind, event.version))
            self.timers.pop((event.place, event.kind), None)
        elif isinstance(event, EventReceived):
            self._claimed_waits.append((event.place, event.version))
            self._use(event.message_id)

    def _use(self, message_id: MessageId) -> None:
        # The address may hold a next message, which only the store knows: look-ups of later events start anew.
        self._claimed_messages[message_id] = None
        self.uses_message = True
        self.mailbox.clear()

    # -- orders ---------------------------------------------------------------------------------------------------

    def _net(self, action: Action) -> None:  # noqa: C901 - one arm per order
        match action:
            case UpdateTask(task=task, ends_lease=ends_lease):
                self._update(task, ends_lease=ends_lease)
            case PutPayload(key=key, value=value):
                if value.text is None:
                    raise InvariantViolated(f"payload {key} of run {self.run_id} has no text")
                self.put(key, value.text, self.snapshot.seq)
            case CreateTask(task=task):
                self._created[task.place] = self.tasks[task.place] = task
            case DispatchTask(task=task):
                self.ready[task.place] = task
            case CancelTask(place=place):
                self._cancel(place)
            case SetTimer(timer=timer):
                key_of = (timer.place, timer.kind)
                self._set_timers[key_of] = self.timers[key_of] = timer
            case ClearTimers(place=place, kind=kind):
                self._clear(place, kind)
            case OpenWait(wait=wait):
                self._opened_waits[wait.place] = self.waits[wait.place] = wait
            case CloseWait(place=place):
                self._opened_waits.pop(place, None)
                self.waits.pop(place, None)
                self._closed_waits[place] = None
            case UseMessage(message_id=message_id):
                self._use(message_id)
            case SettleRun():
                self.settle = action
            case CloseRun():
                self._close_run()
            case HoldTasks():
                self._hold = True
                self.ready.clear()
            case ReleaseTasks(at=at):
                self._release_at = at
            case _:
                assert_never(action)

    def _update(self, task: Task, *, ends_lease: bool) -> None:
        place = task.place
        self.tasks[place] = task
        if task.state is not TaskState.PENDING:
            self.ready.pop(place, None)
        elif place in self.ready:
            self.ready[place] = task
        if place in self._created:
            self._created[place] = task
            return
        self._cancelled.pop(place, None)
        earlier = self._updated.get(place)
        self._updated[place] = (task, ends_lease or (earlier is not None and earlier[1]))

    def _cancel(self, place: Place) -> None:
        self.ready.pop(place, None)
        task = self.tasks.get(place)
        if task is not None:
            if task.state in FINAL_TASK_STATES:
                return
            task = self.tasks[place] = replace(task, state=TaskState.CANCELLED)
            if place in self._created:
                self._created[place] = task
                return
            if place in self._updated:
                self._updated[place] = (task, self._updated[place][1])
                return
        self._cancelled[place] = None

    def _clear(self, place: Place, kind: TimerKind | None) -> None:
        self._cleared[(place, kind)] = None
        for timers in (self._set_timers, self.timers):
            if kind is not None:
                timers.pop((place, kind), None)
            elif timers:
                for key in [key for key in timers if key[0] == place]:
                    del timers[key]

    def _close_run(self) -> None:
        # The store cancels every open task and removes timers, waits and ready rows after all else of the change.
        self._close = True
        self.ready.clear()
        self._set_timers.clear()
        self._opened_waits.clear()
        self.timers.clear()
        self.waits.clear()
        for place, task in self.tasks.items():
            if task.state not in FINAL_TASK_STATES:
                self.tasks[place] = replace(task, state=TaskState.CANCELLED)
