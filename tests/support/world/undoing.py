"""Closing and undoing: what is due, in which order, and that it is done (C2-C4). From SEMANTICS, not from the code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.world.watching import WatchedTurn

from tenuto.machine import actions as act
from tenuto.machine.decision import Decision
from tenuto.machine.events import (
    AttemptSucceeded,
    ChildSettled,
    Drained,
    Event,
    RetryRequested,
    SkipRequested,
    TerminateRequested,
    TimerFired,
    TimerKind,
)
from tenuto.machine.snapshot import Snapshot
from tenuto.model.definition import Call, NodeType, Work
from tenuto.model.ids import ON_FAILURE, RUN_PLACE, Place, parts_of, undo_place, with_epoch
from tenuto.model.states import FINAL_RUN_STATES, FINAL_TASK_STATES, RunState, TaskState

if TYPE_CHECKING:
    from tests.support.world.run import World


@dataclass(frozen=True, slots=True)
class Ended:
    """Work that may have to be undone: when it was decided that it ended, and whether it succeeded."""

    place: Place
    seq: int
    order: int
    sure: bool


class Undoing:
    """What a run has to undo, and what it began to undo.

    Attributes:
        ended: work that may have to be undone, by place.
        handlers: places of the handlers that began, in order; whether one that ends at once did.
        may_succeed: work that could be undone was withdrawn: it may succeed still (F8).
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.ended: dict[Place, Ended] = {}
        self.handlers: dict[Place, bool] = {}
        self.may_succeed = False

    def note_ends(self, event: Event, turn: WatchedTurn) -> None:
        """Remember what may have to be undone, in the order in which it was decided (C3)."""
        world, seq = self.world, self.world.snapshot.seq
        if isinstance(event, AttemptSucceeded | ChildSettled):
            self._note_work(event, seq)
        for order, (node, place, letter) in enumerate(turn.ended):
            it = world.graph.definition.nodes[node]
            if it.compensate is None:
                continue
            given = is_given(event, place)
            self.may_succeed = self.may_succeed or given or letter == "c"
            if letter == "s" and not given and not self._has_row(it.detail):
                self.ended[place] = Ended(place, seq, order, True)
            elif it.compensate.started and (letter in "xc" or given) and not self._is_done(place):
                self.ended[place] = Ended(place, seq, order, False)

    def _note_work(self, event: AttemptSucceeded | ChildSettled, seq: int) -> None:
        task = self.world.ledger.tasks[event.place]
        parts = parts_of(event.place)
        plain = parts.node and parts.index is None and parts.page is None and not parts.undo
        succeeded = task.state is TaskState.SUCCESS or task.late
        if isinstance(event, ChildSettled):  # also when what its `output` makes of it is an error
            succeeded = event.state is RunState.SUCCESS
        if not plain or not succeeded:
            return
        node = self.world.graph.definition.nodes[task.node]
        if node.compensate is not None:
            self.ended[event.place] = Ended(event.place, seq, -1, True)

    def _is_done(self, place: Place) -> bool:
        return place in self.ended and self.ended[place].sure

    @staticmethod
    def _has_row(detail: object) -> bool:
        return isinstance(detail, Work) or (isinstance(detail, Call) and detail.wait)

    def due_undoing(self) -> list[Place]:
        """C3: the places whose work is to be undone, next first."""
        handed = set(self.world.handed)
        handed |= {p.owner for place in handed if (p := parts_of(place)).index is not None}
        found = [e for e in self.ended.values() if e.sure or e.place in handed]
        found.sort(key=lambda e: (e.seq, e.order), reverse=True)
        return [e.place for e in found]

    def check(self, before: Snapshot, event: Event) -> None:
        world = self.world
        closing = world.snapshot.closing
        if world.state is not RunState.CLOSING:
            assert closing is None
            if world.is_final and before.state not in FINAL_RUN_STATES:
                self._check_end(before, event)
            return
        assert closing is not None
        if before.state is RunState.RUNNING:
            self._check_why(closing.outcome)
        ledger = world.ledger
        assert world.snapshot.live == 0
        assert not ledger.waits
        open_tasks = {p for p, t in ledger.tasks.items() if t.state not in FINAL_TASK_STATES}
        assert open_tasks <= {closing.current}, f"C2: {sorted(open_tasks)}"
        timers = {(place, kind) for place, kind in ledger.timers if not place}
        drain, clock = (RUN_PLACE, TimerKind.DRAIN), (RUN_PLACE, TimerKind.CLOSING)
        if not closing.drained:
            assert not open_tasks
            assert timers == ({drain} if not world.snapshot.children else set()), timers
            assert closing.current is None
            return
        assert timers == (set() if world.is_held else {clock}), f"C4: {timers}"
        assert closing.current is not None, "C4: nothing is under way"
        assert set(world.leases) <= {closing.current}, "C2: an undo beside live work"
        assert world.snapshot.children <= 1
        assert set(world.open_children()) <= {closing.current}, "C2: an undo beside a child"
        if isinstance(event, Drained):
            self._check_drained()

    def _check_why(self, outcome: RunState) -> None:
        """C2: with neither handlers nor an open child a run is final at once."""
        last = self.world.graph.definition.on_failure is not None
        due = bool(self.ended) or (last and outcome in (RunState.FAILED, RunState.TIMED_OUT))
        handlers = (due or self.may_succeed) and not self.ended_by_node()
        assert self.world.snapshot.children or handlers, "C2: it closes for nothing"

    def _check_drained(self) -> None:
        """The due list is exactly what C3 says, latest end first."""
        closing = self.world.snapshot.closing
        assert closing is not None
        assert not self.world.leases, "C2: a live lease"
        listed = [place for place in self.handlers if parts_of(place).undo]
        listed += [undo_place(place) for place in closing.todo]
        due = [undo_place(place) for place in self.due_undoing()]
        assert listed == due, f"C3: {listed} are due, not {due}"

    def note_handlers(self, found: Decision) -> None:
        """Handlers begin one after the other, each once, `on_failure` last (C3, C4)."""
        for action in found.actions:
            place = _place_of(action)
            if place is None or not _is_handler(place):
                continue
            if place not in self.handlers:
                assert place == ON_FAILURE or all(
                    parts_of(earlier).undo or parts_of(earlier).epoch != self.world.snapshot.epoch
                    for earlier in self.handlers
                ), f"C4: {place} after on_failure"
                self.handlers[place] = False
            if isinstance(action, act.PostMessage | act.StartChild):
                self.handlers[place] = True

    def _has_succeeded(self, handler: Place) -> bool:
        task = self.world.ledger.tasks.get(handler)
        return self.handlers[handler] if task is None else task.state is TaskState.SUCCESS

    def _check_end(self, before: Snapshot, event: Event) -> None:
        """A run that ended by closing did all that it had to, unless it was cut short (C2-C4)."""
        world = self.world
        settled = world.settled
        assert settled is not None
        if world.snapshot.parent is not None:
            actions = world.decision.actions
            assert any(isinstance(a, act.TellParent) for a in actions), "its parent is not told"
        cut_short = isinstance(event, TerminateRequested) or (
            isinstance(event, TimerFired) and event.kind is TimerKind.CLOSING
        )
        due = [undo_place(place) for place in self.due_undoing()]
        undone = [place for place in self.handlers if parts_of(place).undo]
        last = with_epoch(ON_FAILURE, world.snapshot.epoch)
        if not cut_short:
            assert not world.snapshot.children, "C1: an open child"
            closed = settled.state is not RunState.SUCCESS and not self.ended_by_node()
            assert undone == (due if closed else []), f"C3: {undone} were undone, not {due}"
            handler = world.graph.definition.on_failure is not None
            wanted = closed and handler and settled.state is not RunState.CANCELLED
            assert (last in self.handlers) == wanted, f"C4: on_failure: {self.handlers}"
        whole = len(undone) == len(due) and all(map(self._has_succeeded, undone))
        told = "none" if not undone else "complete" if whole else "partial"
        assert settled.compensation == told, f"C4: {settled.compensation}, not {told}"

    def ended_by_node(self) -> bool:
        """Whether an `end` decided the outcome (F4)."""
        world = self.world
        nodes = world.graph.definition.nodes
        reached = any(n.type is NodeType.END and world.letter(n.id) == "s" for n in nodes)
        return reached and not world.snapshot.failures

    def failed_on_purpose(self) -> bool:
        """Whether a `fail` ended the run, or would have (F4)."""
        graph = self.world.graph
        ids = {parts_of(place).node for place in self.world.snapshot.failures}
        nodes = graph.definition.nodes
        return any(nodes[graph.numbers[id]].type is NodeType.FAIL for id in ids if id)

    def ended_as_cancelled(self) -> bool:
        """An `end` with `as: cancelled` is no error."""
        world = self.world
        if world.snapshot.state is not RunState.CANCELLED:
            return False
        return self.ended_by_node()


def is_given(event: Event, place: Place) -> bool:
    """Whether somebody takes the node of this place as done: its own work did not succeed."""
    node = parts_of(place).node
    return (isinstance(event, SkipRequested) and event.node == node) or (
        isinstance(event, RetryRequested) and event.skip == node
    )


def _is_handler(place: Place) -> bool:
    parts = parts_of(place)
    return parts.undo or place.startswith(ON_FAILURE)


def _place_of(action: act.Action) -> Place | None:
    """The place at which an order makes something begin."""
    match action:
        case act.CreateTask(task=task):
            return task.place
        case act.PutPayload(key=key):
            return key.place
        case act.StartChild(place=place):
            return place
        case act.PostMessage(event_id=event_id):
            return Place(event_id.partition("/")[2])
        case _:
            return None
