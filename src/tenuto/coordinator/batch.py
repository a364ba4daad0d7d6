"""The events of one run decided one after another in memory, folded into one change. No I/O, no deciding.

A `Batch` is at once the overlay that the next decision reads (rows and texts as the earlier events of the batch left
them) and the net of what must be written: a row changed twice is written once, what was undone within the batch is
written nowhere (DESIGN section 5, "Group commit"). Orders on sets of rows (`HoldTasks`, `TellChildren`, …) have no
order among the others in a change, so the events that cause them travel alone. `CloseRun` and `CancelItems` may come
with any event: the store carries them out after all else, and nothing that they reach is made open again in one change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from tenuto.coordinator import telling
from tenuto.coordinator.callees import Callees
from tenuto.coordinator.mailbox import KEEP_US
from tenuto.coordinator.overlay import is_dropped, is_part, items_now, passes_now
from tenuto.machine.actions import (
    Action,
    CancelChild,
    CancelItems,
    CancelTask,
    ClearTimers,
    CloseRun,
    CloseWait,
    CopyKept,
    CreateTask,
    DispatchTask,
    DropPayloads,
    HoldTasks,
    OpenWait,
    PostMessage,
    PutPayload,
    ReleaseTasks,
    ReopenRun,
    RetryChild,
    SetTimer,
    SettleRun,
    ShiftTimers,
    StartChild,
    TellChildren,
    TellParent,
    TerminateChildren,
    UpdateTask,
    UseMessage,
)
from tenuto.machine.codec import encode_event
from tenuto.machine.decision import Decision
from tenuto.machine.events import (
    AttemptFailed,
    AttemptSucceeded,
    DeadlinePassed,
    Drained,
    Event,
    EventReceived,
    HeartbeatReceived,
    LeaseExpired,
    TimerFired,
    TimerKind,
)
from tenuto.machine.snapshot import OpenedWait, Rows, Snapshot, Task, Timer
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Message
from tenuto.model.graph import Graph
from tenuto.model.ids import RUN_PLACE, LeaseId, MessageId, Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import FINAL_TASK_STATES, RunState, TaskState
from tenuto.ports.store import (
    Change,
    Claims,
    EagerGrant,
    EventRow,
    ItemRow,
    NewMessage,
    NewRun,
    NoticeKind,
    NoticeRow,
    PayloadRow,
    RunRow,
)

ENTRY_SIZE = 200
"""What an entry of the cache of texts costs beside its characters: its key, and its share of the table."""
_NO_CLAIMS = Claims()


class Batch:
    """One run's events of one cycle.

    `texts` is the run's cache of payload texts and is written through (`grown`: by how many characters): when the
    change is not committed, the cache of this run must be dropped by the caller.

    Attributes:
        row: of the run; a new run's as it will be.
        mailbox, items, passes, callees, missing: what decisions asked for besides texts, for the evaluator; `missing`
            are payloads that were looked for in vain.
        replaced: an evaluator of before may have kept what is not true any more.
        notices: what is written to other runs, by whom and what about.
    """

    __slots__ = (
        "_cancelled",
        "_cancelled_items",
        "_claimed_leases",
        "_claimed_messages",
        "_claimed_notices",
        "_claimed_timers",
        "_claimed_waits",
        "_cleared",
        "_close",
        "_closed_waits",
        "_copy",
        "_created",
        "_dropped",
        "_hold",
        "_message_id",
        "_opened_waits",
        "_payloads",
        "_posts",
        "_release_at",
        "_reopen",
        "_set_timers",
        "_shift",
        "_tell_children",
        "_terminate_children",
        "_unleased",
        "_updated",
        "callees",
        "events",
        "expected_seq",
        "graph",
        "grown",
        "items",
        "mailbox",
        "missing",
        "new_run",
        "notices",
        "passes",
        "ready",
        "replaced",
        "row",
        "rows",
        "run_id",
        "settle",
        "snapshot",
        "tasks",
        "texts",
        "timers",
        "unknown",
        "uses_message",
        "waits",
    )

    def __init__(
        self,
        graph: Graph,
        row: RunRow,
        snapshot: Snapshot,
        texts: dict[PayloadKey, str],
        new_run: NewRun | None = None,
        *,
        message_id: Callable[[], MessageId],
    ) -> None:
        self.run_id: RunId = snapshot.run_id
        self.graph = graph
        self.row = row
        self.snapshot = snapshot
        self.expected_seq = snapshot.seq
        self.texts = texts
        self.new_run = new_run
        self.mailbox: dict[tuple[str, str, MessageId | None], Message] = {}
        self.items: dict[Place, Sequence[ItemRow]] = {}
        self.passes: dict[tuple[str, int], Sequence[PayloadRow]] = {}
        self.callees = Callees()
        self.missing: set[PayloadKey] = set()
        self.uses_message = False
        self.replaced = False
        self.grown = 0
        self.tasks: dict[Place, Task] = {}
        self.unknown: set[Place] = set()
        self.timers: dict[tuple[Place, TimerKind], Timer] = {}
        self.waits: dict[Place, OpenedWait] = {}
        self.rows = Rows(
            tasks=self.tasks,
            timers=self.timers,
            waits=self.waits,
            known=new_run is not None and new_run.source is None,
            absent=self.unknown,
        )
        self.events: list[EventRow] = []
        self.ready: dict[Place, Task] = {}
        self.settle: SettleRun | None = None
        self.notices: dict[tuple[RunId, NoticeKind, Place], NoticeRow] = {}
        self._message_id = message_id
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
        self._cancelled_items: dict[Place, None] = {}
        self._terminate_children = False
        self._tell_children: str | None = None
        self._posts: list[NewMessage] = []
        self._dropped: dict[Place, None] = {}
        self._shift: ShiftTimers | None = None
        self._reopen = False
        self._copy: tuple[RunId, tuple[str, ...]] | None = None
        self._claimed_leases: list[tuple[Place, int, LeaseId]] = []
        self._unleased: list[tuple[Place, int]] = []
        self._claimed_timers: list[tuple[Place, TimerKind, int]] = []
        self._claimed_waits: dict[tuple[Place, int], None] = {}
        self._claimed_messages: dict[MessageId, None] = {}
        self._claimed_notices: dict[tuple[NoticeKind, Place, RunId, int], None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write: no event, and no notice that is used up by being refused."""
        return not self.events and not self._claimed_notices

    @property
    def is_urgent(self) -> bool:
        """Whether something may be due by this change although no moment says so.

        A message posted meanwhile may match a wait that it opens, one that it posts may match any, and a run that
        closes may have drained.
        """
        return bool(self._opened_waits or self._posts) or self.snapshot.state is RunState.CLOSING

    @property
    def tells_many(self) -> bool:
        """Whether it may write notices that only the store knows."""
        return bool(
            self._close
            or self._cancelled_items
            or self._terminate_children
            or self._tell_children is not None
        )

    def touched(self) -> Iterable[Place] | None:
        """The tasks that it may change; None: also such as only the store knows."""
        if (
            self.tells_many
            or self._hold
            or self._reopen
            or self._release_at is not None
            or self._shift is not None
            or self._copy is not None
        ):
            return None
        return self.tasks.keys() | self._cancelled.keys()

    @property
    def posted(self) -> tuple[MessageId, ...]:
        """The messages that it puts into the mailbox."""
        return tuple(post.id for post in self._posts)

    @property
    def releases(self) -> bool:
        """Whether the change offers held tasks again (resume)."""
        return self._release_at is not None

    # -- what is learnt -------------------------------------------------------------------------------------------

    def put(self, key: PayloadKey, text: str, seq: int) -> None:
        """Store a payload under the number of the event that brings it."""
        if key in self.texts or key in self.missing:
            self.replaced = True
            self.missing.discard(key)
        self.texts[key] = text
        self.grown += len(text) + ENTRY_SIZE
        self._payloads.append(PayloadRow(key=key, seq=seq, text=text))

    def learn(self, key: PayloadKey, text: str) -> None:
        """Take in a stored payload that a decision asked for."""
        self.texts[key] = text
        self.grown += len(text) + ENTRY_SIZE

    def learn_task(self, place: Place, task: Task | None) -> None:
        """Take in a task row that a decision asked for, as the earlier events of the batch leave it."""
        if place in self.tasks:
            return
        if task is None:
            self.unknown.add(place)
        elif task.state not in FINAL_TASK_STATES and self._is_swept(place):
            self.tasks[place] = replace(task, state=TaskState.CANCELLED)
        else:
            self.tasks[place] = task

    def learn_items(self, place: Place, stored: Iterable[ItemRow]) -> None:
        """Take in the items of a foreach as stored."""
        swept = self._close or place in self._cancelled_items
        self.items[place] = items_now(place, stored, self.tasks, self.texts, swept=swept)

    def learn_passes(self, prefix: str, epoch: int, stored: Iterable[PayloadRow]) -> None:
        """Take in the outputs and errors of a node's passes as stored."""
        rows = passes_now(prefix, stored, self._payloads, self._dropped)
        self.passes[prefix, epoch] = rows

    # -- events ---------------------------------------------------------------------------------------------------

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
        if self.items or self.passes:
            self.items.clear()
            self.passes.clear()
            self.replaced = True

    def use_notice(self, notice: NoticeRow) -> None:
        """The notice, as loaded, is decided, or says nothing any more: it goes with this change."""
        claim = (notice.kind, notice.place, notice.sender, notice.sent_at)
        self._claimed_notices[claim] = None

    def tell(self, notice: NoticeRow) -> None:
        """Write a notice to another run; it takes the place of an earlier one that says the same."""
        self.notices[notice.run_id, notice.kind, notice.place] = notice

    def build(self, eager: tuple[EagerGrant, ...] = ()) -> Change:
        """The change that writes all of it."""
        return Change(
            run_id=self.run_id,
            expected_seq=self.expected_seq,
            snapshot=self.snapshot,
            new_run=self.new_run,
            claims=self._claims(),
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
            cancelled_items=tuple(self._cancelled_items),
            terminate_children=self._terminate_children,
            tell_children=self._tell_children,
            notices=tuple(self.notices.values()),
            posts=tuple(self._posts),
            dropped=tuple(self._dropped),
            shift=self._shift,
            reopen=self._reopen,
            copy=self._copy,
        )

    def next_due(self) -> int | None:
        """The earliest moment that this change makes something due; None for never."""
        moments = [timer.due_at for timer in self._set_timers.values()]
        moments += [t.queue_until for t in self.ready.values() if t.queue_until is not None]
        return min(moments) if moments else None

    # -- claims ---------------------------------------------------------------------------------------------------

    def _claims(self) -> Claims:
        if not (
            self._claimed_leases
            or self._claimed_timers
            or self._claimed_waits
            or self._claimed_messages
            or self._claimed_notices
            or self._unleased
        ):
            return _NO_CLAIMS
        return Claims(
            leases=tuple(self._claimed_leases),
            unleased=tuple(self._unleased),
            timers=tuple(self._claimed_timers),
            waits=tuple(self._claimed_waits),
            messages=tuple(self._claimed_messages),
            notices=tuple(self._claimed_notices),
        )

    def _claim(self, event: Event) -> None:
        if isinstance(event, AttemptSucceeded | AttemptFailed | LeaseExpired):
            self._claimed_leases.append((event.place, event.attempt, event.lease_id))
        elif isinstance(event, DeadlinePassed):
            if event.lease_id is None:
                self._unleased.append((event.place, event.attempt))
            else:
                self._claimed_leases.append((event.place, event.attempt, event.lease_id))
        elif isinstance(event, TimerFired):
            self._claim_timer(event.place, event.kind, event.version)
        elif isinstance(event, Drained):
            self._claim_timer(RUN_PLACE, TimerKind.DRAIN, event.version)
        elif isinstance(event, EventReceived):
            self._claimed_waits[event.place, event.version] = None
            self._use(event.message_id)
        elif isinstance(event, HeartbeatReceived):
            self._claimed_waits[event.place, event.version] = None

    def _claim_timer(self, place: Place, kind: TimerKind, version: int) -> None:
        self._claimed_timers.append((place, kind, version))
        self.timers.pop((place, kind), None)

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
            case PostMessage():
                self._post(action)
            case DropPayloads(places=places):
                self._drop(places)
            case StartChild():
                self.tell(telling.start(self.row, action))
            case CancelChild():
                self.tell(telling.cancel(self.run_id, action))
            case RetryChild():
                self.tell(telling.retry(self.run_id, action))
            case TellParent():
                self.tell(telling.settled(self.run_id, action))
            case SettleRun():
                self.settle = action
            case CloseRun():
                self._close_run()
            case CancelItems(place=place):
                self._cancel_items(place)
            case _:
                self._net_whole(action)

    def _net_whole(
        self,
        action: TerminateChildren
        | TellChildren
        | HoldTasks
        | ReleaseTasks
        | ShiftTimers
        | ReopenRun
        | CopyKept,
    ) -> None:
        """Orders on sets of rows, of events that travel alone."""
        match action:
            case TerminateChildren():
                self._terminate_children = True
            case TellChildren(freeze=freeze):
                self._tell_children = '{"freeze":true}' if freeze else "{}"
            case HoldTasks():
                self._hold = True
                self.ready.clear()
            case ReleaseTasks(at=at):
                self._release_at = at
            case ShiftTimers():
                self._shift = action
            case ReopenRun():
                self._reopen = True
            case CopyKept(source=source, but=but):
                self._copy = (source, but)
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

    def _cancel_items(self, foreach: Place) -> None:
        # As with `_close_run`: rows stay open in the change, or the store would not find their children.
        self._cancelled_items[foreach] = None
        places = [place for place in self.tasks if is_part(place, foreach)]
        places += [place for place, _ in self._set_timers if is_part(place, foreach)]
        for place in places:
            self.ready.pop(place, None)
            for kind in TimerKind:
                self._set_timers.pop((place, kind), None)
                self.timers.pop((place, kind), None)
            task = self.tasks.get(place)
            if task is not None and task.state not in FINAL_TASK_STATES:
                self.tasks[place] = replace(task, state=TaskState.CANCELLED)

    def _is_swept(self, place: Place) -> bool:
        """Whether a set order of this batch has cancelled the open task of a place that was not known then."""
        return self._close or any(is_part(place, foreach) for foreach in self._cancelled_items)

    def _post(self, action: PostMessage) -> None:
        if action.key.text is None or action.payload.text is None:
            raise InvariantViolated(f"run {self.run_id} emits {action.event} without its text")
        self._posts.append(
            NewMessage(
                id=self._message_id(),
                namespace=self.row.namespace,
                event=action.event,
                key=action.key.text,
                payload=action.payload.text,
                event_id=action.event_id,
                keep_us=KEEP_US if action.keep_us is None else action.keep_us,
            )
        )

    def _drop(self, places: Iterable[Place]) -> None:
        gone = dict.fromkeys(places)
        self._dropped |= gone
        for place in gone:
            for kind in PayloadKind:
                self.texts.pop(PayloadKey(place, kind), None)
        # What is put from now on stays: the store drops first.
        self._payloads = [row for row in self._payloads if not is_dropped(row.key.place, gone)]
