"""A `World` with what tests of foreach and calls look at: the last decision's orders, items, and called workflows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from tests.support.world import RUN, Family, Script, World, text_of

from tenuto.machine.actions import Action, DispatchTask
from tenuto.machine.events import RunStarted, TimerKind
from tenuto.machine.snapshot import Items
from tenuto.model.expressions import Callee, Fault, Scope
from tenuto.model.graph import Graph
from tenuto.model.ids import Place
from tenuto.model.payload import PayloadKey, PayloadKind, Text
from tenuto.model.states import FINAL_TASK_STATES

A = TypeVar("A", bound=Action)


@dataclass(eq=False)
class Register(Family):
    """Workflows in versions. A name without one means the newest, and then defaults of the input are filled in."""

    newest: int = 3
    unknown: frozenset[str] = frozenset()
    called: list[tuple[str, str | None]] = field(default_factory=list)

    def callee(self, name: str, input: Text) -> Callee | Fault:
        self.called.append((name, input.text))
        workflow, _, version = name.partition("@")
        if workflow in self.unknown:
            return Fault("unknown_workflow", f"there is no workflow {workflow}")
        if version.isdigit():
            return Callee(workflow, int(version), f"hash-{version}", input, text_of("{}"))
        filled = text_of(f'{{"filled":{input.text}}}')
        return Callee(workflow, self.newest, f"hash-{self.newest}", filled, text_of("{}"))


class Desk(World):
    """One run; `register`: the workflows it may call."""

    def __init__(
        self, graph: Graph, script: Script | None = None, *, unknown: frozenset[str] = frozenset()
    ) -> None:
        self.register = Register(unknown=unknown)
        super().__init__(graph, script, family=self.register, run_id=RUN)

    def begin(self, *, index: int | None = None, depth: int = 0, priority: int = 0) -> Desk:
        """Start it, as a child that works on an item if there is an `index`."""
        self.payloads[PayloadKey(Place(""), PayloadKind.ITEM), 0] = text_of('"item"')
        self.payloads[PayloadKey(Place(""), PayloadKind.PARAMS), 0] = text_of("{}")
        self.accept(RunStarted(at=self.now, index=index, depth=depth, priority=priority))
        return self

    @property
    def children(self) -> int:
        return self.snapshot.children

    def items(self, node: str = "each") -> Items:
        return self.snapshot.items[self.graph.numbers[node]]

    def open(self) -> list[str]:
        """Places of open tasks, oldest first."""
        tasks = self.ledger.tasks.values()
        return [task.place for task in tasks if task.state not in FINAL_TASK_STATES]

    def timers(self, place: str) -> set[TimerKind]:
        return {kind for at, kind in self.ledger.timers if at == place}

    def did(self, kind: type[A]) -> list[A]:
        """The last decision's orders of a kind."""
        assert self.decision is not None
        return [action for action in self.decision.actions if isinstance(action, kind)]

    def dispatched(self) -> list[str]:
        return [action.task.place for action in self.did(DispatchTask)]

    def scope_at(self, where: str) -> Scope:
        """What the newest evaluation of the expression at `where` could see."""
        return self.last_asked(where).scope
