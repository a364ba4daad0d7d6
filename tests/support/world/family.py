"""What runs share: the clock, the mailbox, the workflows that calls name, and the notices from run to run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.support.world.answers import text_of

from tenuto.machine.actions import StartChild
from tenuto.machine.decision import Decision
from tenuto.machine.events import (
    CancelRequested,
    ChildSettled,
    ParentPaused,
    RunStarted,
    TerminateRequested,
)
from tenuto.model.expressions import Callee, Fault
from tenuto.model.graph import Graph
from tenuto.model.ids import RUN_PLACE, LeaseId, MessageId, Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind, Text
from tenuto.model.states import FINAL_RUN_STATES, RunState, TaskState
from tenuto.ports.store import NoticeKind

if TYPE_CHECKING:
    from tests.support.world.run import World

INPUT = PayloadKey(RUN_PLACE, PayloadKind.INPUT)
VARS = PayloadKey(RUN_PLACE, PayloadKind.VARS)
_MOVING = {NoticeKind.PAUSE, NoticeKind.RETRY}
"""Notices that bring a child its parent's flag (C6)."""


@dataclass(frozen=True, slots=True)
class Lease:
    place: Place
    attempt: int
    lease_id: LeaseId
    granted_at: int


@dataclass(slots=True)
class Posted:
    message_id: MessageId
    event: str
    key: str
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A stored fact from one run to another. `start`: the order, with the texts that the child is given."""

    target: RunId
    kind: NoticeKind
    place: Place
    sender: RunId
    freeze: bool = False
    start: StartChild | None = None
    given: tuple[tuple[PayloadKey, Text], ...] = ()


@dataclass(slots=True, eq=False)
class Family:
    """Runs that call each other, and all that is around them.

    Attributes:
        now: the clock, microseconds; turned by hand, and by `World.fire` to the timer's due time.
        worlds: every run that began, by id.
        notices: what was written and not delivered yet; one of a kind, target and place.
        workflows: graphs that calls may name.
        refused: (message, run, place, version): what a wait's `match` refused.
    """

    now: int = 1_000_000_000
    worlds: dict[RunId, World] = field(default_factory=dict)
    mailbox: list[Posted] = field(default_factory=list)
    posted: set[str] = field(default_factory=set)
    notices: dict[tuple[RunId, NoticeKind, Place], Notice] = field(default_factory=dict)
    workflows: dict[str, Graph] = field(default_factory=dict)
    refused: set[tuple[MessageId, RunId, Place, int]] = field(default_factory=set)
    used: set[MessageId] = field(default_factory=set)
    numbers: Counter[str] = field(default_factory=Counter)

    def callee(self, name: str, input: Text) -> Callee | Fault:
        """Which version a workflow's name means: `workflows` knows one of each."""
        workflow = name.partition("@")[0]
        if workflow not in self.workflows:
            return Fault("unknown_workflow", f"there is no workflow {name}")
        return Callee(workflow, 1, f"hash-of-{workflow}", input, text_of("{}"))

    def write(self, notice: Notice) -> None:
        self.notices[notice.target, notice.kind, notice.place] = notice

    # -- delivering ---------------------------------------------------------------------------------------------

    def deliverable(self) -> list[Notice]:
        """Notices whose run can be told: all but a START's come to a run that exists."""
        return [
            notice
            for notice in self.notices.values()
            if notice.kind is NoticeKind.START or notice.target in self.worlds
        ]

    def deliver(self, notice: Notice) -> Decision | None:
        """Decide a notice in its run. None: there was nothing to tell any more."""
        key = (notice.target, notice.kind, notice.place)
        if self.notices.get(key) == notice:
            del self.notices[key]
        if notice.kind is NoticeKind.START:
            return self._begin(notice)
        world = self.worlds[notice.target]
        sender = self.worlds[notice.sender]
        match notice.kind:
            case NoticeKind.SETTLED:
                if sender.state not in FINAL_RUN_STATES:
                    return None  # it goes on: it will tell again
                return world.send(self.settled_of(sender, notice.place))
            case NoticeKind.CANCEL | NoticeKind.TERMINATE:
                return self._end(notice, world, sender)
            case NoticeKind.PAUSE:
                paused = sender.is_held
                return world.send(ParentPaused(at=self.now, paused=paused, freeze=notice.freeze))
            case NoticeKind.RETRY:
                return self._retry(notice, world, sender)
        raise AssertionError(notice)

    def settled_of(self, child: World, place: Place) -> ChildSettled:
        """What a parent is told of a final child."""
        assert child.settled is not None
        output, error = None, None
        if child.state is RunState.SUCCESS:
            output = text_of(child.output_text(child.settled.output))
        elif child.settled.error is not None:
            error = text_of(child.newest(child.settled.error) or "null")
        else:
            error = text_of(f'{{"code":"{child.state.value}"}}')
        return ChildSettled(
            at=self.now,
            place=place,
            child=child.run_id,
            state=child.state,
            output=output,
            error=error,
            draw=child.draw,
        )

    def _begin(self, notice: Notice) -> Decision:
        from tests.support.world.run import World

        order, parent = notice.start, self.worlds[notice.sender]
        assert order is not None
        if notice.target in self.worlds:
            return self.worlds[notice.target].send(self._started(notice, order, parent))
        if order.callee is not None:
            graph = self.workflows[order.callee.workflow]
        else:
            assert order.inline is not None
            graph = parent.graph.inlines[order.inline]
        child = World(graph, parent.script, family=self, run_id=order.child)
        child.path = f"{parent.path}/{order.place}#{parent.tries.get(order.place, 0)}"
        child.draw = parent.draw
        for key, text in notice.given:
            child.payloads[key, 0] = text
        self.worlds[order.child] = child
        return child.accept(self._started(notice, order, parent))

    def _started(self, notice: Notice, order: StartChild, parent: World) -> RunStarted:
        return RunStarted(
            at=self.now,
            parent=(parent.run_id, notice.place) if order.waited else None,
            index=order.index,
            depth=order.depth,
            paused=order.waited and parent.is_held,
            priority=order.priority,
        )

    def _end(self, notice: Notice, world: World, sender: World) -> Decision | None:
        """What was wanted when it was written counts only if it is still so: order does not matter."""
        task = sender.ledger.tasks[notice.place]
        unwanted = task.state is TaskState.CANCELLED or task.ending or sender.is_final
        if task.child != world.run_id or not unwanted:
            return None
        world.heard.add(notice.kind)
        if notice.kind is NoticeKind.TERMINATE:
            return world.send(TerminateRequested(at=self.now, reason="by its parent"))
        return world.send(CancelRequested(at=self.now, reason="by its parent"))

    def _retry(self, notice: Notice, world: World, sender: World) -> Decision | None:
        """A child that stays as it was tells its parent again, which waits for it."""
        task = sender.ledger.tasks[notice.place]
        decision = None
        if task.child == world.run_id and task.state is TaskState.PENDING and not task.ending:
            decision = world.send(world.retry_request())
        refused = decision is None or decision.rejected is not None
        if refused and task.child == world.run_id and world.is_final:
            self.write(
                replace(notice, target=notice.sender, kind=NoticeKind.SETTLED, sender=notice.target)
            )
        return decision

    # -- looking ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Nobody is forgotten: every open child knows what it has to know, or is told soon."""
        for world in tuple(self.worlds.values()):
            for place, child in world.open_children().items():
                self._check_child(world, place, child)

    def _check_child(self, parent: World, place: Place, child: RunId) -> None:
        name = f"{child} of {parent.path}/{place}"
        waiting = {kind for target, kind, _ in self.notices if target == child}
        world = self.worlds.get(child)
        if world is None:
            assert NoticeKind.START in waiting, f"{name} never begins"
            told = waiting
        else:
            told = waiting | world.heard
            if world.is_final and NoticeKind.RETRY not in waiting:
                telling = (parent.run_id, NoticeKind.SETTLED, place) in self.notices
                assert telling, f"{name} is final and its parent is not told"
                return
        task = parent.ledger.tasks[place]
        if parent.is_final:
            assert NoticeKind.TERMINATE in told, f"{name}: its parent is final"
        elif task.state is TaskState.CANCELLED or task.ending:
            cancelled = {NoticeKind.CANCEL, NoticeKind.TERMINATE} & told
            assert cancelled, f"{name} is not wanted any more"
        if world is not None and not parent.is_final and not waiting & _MOVING:
            assert world.snapshot.parent_paused == parent.is_held, f"C6: {name}"


def inline_texts(world: World, order: StartChild) -> tuple[tuple[PayloadKey, Text], ...]:
    """The payloads that a child is given, as they stand when it is ordered."""
    given = PayloadKey(order.place, PayloadKind.INPUT)
    if order.callee is None:
        copies = {INPUT: INPUT, VARS: VARS, PayloadKey(RUN_PLACE, PayloadKind.PARAMS): given}
    else:
        copies = {INPUT: given, VARS: PayloadKey(order.place, PayloadKind.VARS)}
    if order.item is not None:
        copies[PayloadKey(RUN_PLACE, PayloadKind.ITEM)] = order.item
    found = []
    for key, source in copies.items():
        text = world.newest(source)
        assert text is not None, f"{source} is given to a child and was never put"
        found.append((key, text_of(text)))
    return tuple(found)
