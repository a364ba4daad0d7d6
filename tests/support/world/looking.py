"""What a run of the simulated world holds, and looking at it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.support.world.answers import Asked, Script, compact, text_of
from tests.support.world.family import INPUT, VARS, Family, Lease, Notice, Posted

from tenuto.machine import actions as act
from tenuto.machine import codec
from tenuto.machine.decide import initial
from tenuto.machine.decision import Decision
from tenuto.machine.events import Event, TimerKind
from tenuto.machine.fold import Ledger
from tenuto.machine.snapshot import Snapshot, Task, Timer
from tenuto.model.graph import Graph
from tenuto.model.ids import RUN_PLACE, Place, RunId, item_place, parts_of, place_of
from tenuto.model.payload import ItemsView, JoinView, Output, PayloadKey, PayloadKind, Text
from tenuto.model.states import FINAL_RUN_STATES, RunState, TaskState
from tenuto.ports.store import NoticeKind

if TYPE_CHECKING:
    from tests.support.world.checks import Checking

RUN = RunId("01980000-0000-7000-8000-000000000001")


class Looking:
    """The part of `World` that changes nothing: what it holds, and how to look at it.

    Attributes:
        family: what it shares with the runs that it calls and that call it.
        script: what expressions yield, here and in its children.
        draw: chance that events bring along.
        path: where it stands under the run that nobody called, the same in every order of events.
        history: (at, parts) of the accepted events, as stored.
        asked: every evaluation of an accepted decision.
        settled: the SettleRun action, while final.
        started: every child that was ordered, oldest first.
        handed: places of which an attempt was ever handed out.
        copied: items' tasks that a replay took over.
        heard: what its parent told it since it began or was re-opened.
        checking: what is remembered for the checks.
    """

    checking: Checking

    def __init__(
        self,
        graph: Graph,
        script: Script | None = None,
        *,
        family: Family | None = None,
        run_id: RunId = RUN,
        workflows: dict[str, Graph] | None = None,
    ) -> None:
        self.graph = graph
        self.script: Script = script if script is not None else {}
        self.family = family if family is not None else Family(workflows=workflows or {})
        self.run_id = run_id
        self.draw = 0.5
        self.path = ""
        self.snapshot: Snapshot = initial(run_id, graph)
        self.ledger = Ledger()
        self.payloads: dict[tuple[PayloadKey, int], Text] = {
            (INPUT, 0): text_of("{}"),
            (VARS, 0): text_of("{}"),
        }
        self.ready: set[Place] = set()
        self.leases: dict[Place, Lease] = {}
        self.history: list[tuple[int, codec.EventParts]] = []
        self.events: list[Event] = []
        self.asked: list[Asked] = []
        self.calls: Counter[str] = Counter()
        self.settled: act.SettleRun | None = None
        self.decision = Decision(self.snapshot)
        self.needs = 0
        self.started: list[act.StartChild] = []
        self.tries: Counter[Place] = Counter()
        self.handed: set[Place] = set()
        self.copied: dict[Place, Task] = {}
        self.heard: set[NoticeKind] = set()

    # -- looking ------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        return self.family.now

    @now.setter
    def now(self, at: int) -> None:
        self.family.now = at

    @property
    def mailbox(self) -> list[Posted]:
        return self.family.mailbox

    @property
    def letters(self) -> str:
        """One letter per node, in the order of their numbers."""
        return self.snapshot.nodes.decode()

    @property
    def edges(self) -> str:
        return self.snapshot.edges.decode()

    @property
    def state(self) -> RunState:
        return self.snapshot.state

    @property
    def is_final(self) -> bool:
        return self.snapshot.state in FINAL_RUN_STATES

    @property
    def is_held(self) -> bool:
        """Paused by its own flag or its parent's (C6)."""
        return self.snapshot.paused or self.snapshot.parent_paused

    @property
    def parent_is_held(self) -> bool:
        """Whether the run that waits for this one is paused (C6)."""
        parent = self.snapshot.parent
        return parent is not None and self.family.worlds[parent[0]].is_held

    @property
    def notices(self) -> list[Notice]:
        """Notices of this run or to it that were not delivered yet."""
        return [n for n in self.family.notices.values() if self.run_id in (n.sender, n.target)]

    def letter(self, id: str) -> str:
        return self.letters[self.graph.numbers[id]]

    def place(self, name: str) -> Place:
        """Place of a node's current pass; any other name is a place already."""
        node = self.graph.numbers.get(name)
        if node is None:
            return Place(name)
        passes = tuple(self.snapshot.passes[loop] for loop in self.graph.loops_of[node])
        return place_of(name, passes, self.snapshot.ids.get(node, 1))

    def task(self, name: str) -> Task:
        return self.ledger.tasks[self.place(name)]

    def timer(self, name: str, kind: TimerKind) -> Timer:
        return self.ledger.timers[self.place(name) if name else RUN_PLACE, kind]

    def payload(self, name: str, kind: PayloadKind) -> str | None:
        """Newest text under a place, or None."""
        return self.newest(PayloadKey(self.place(name) if name else RUN_PLACE, kind))

    def error(self, name: str) -> str:
        found = self.payload(name, PayloadKind.ERROR)
        assert found is not None, f"{name} has no error"
        return found

    def output(self) -> dict[str, object] | list[object] | str | None:
        """The run's output: a JSON text, or a view as {id: JSON text, view or None}."""
        assert self.settled is not None
        return self.read(self.settled.output)

    def read(self, output: Output) -> dict[str, object] | list[object] | str | None:
        if isinstance(output, PayloadKey):
            return self.newest(output)
        if isinstance(output, JoinView):
            return {upstream: self.read(part) for upstream, part in output.entries}
        if isinstance(output, ItemsView):
            return [self._item(output.place, index) for index in range(output.total)]
        return None

    def output_text(self, output: Output) -> str:
        """An output as one JSON text."""
        value = self.read(output)
        if isinstance(value, str):
            return value
        return compact(value)

    def _item(self, place: Place, index: int) -> str | None:
        at = item_place(place, index)
        task = self.ledger.tasks.get(at) or self.copied.get(at)
        if task is None or task.state is not TaskState.SUCCESS:
            return None
        return self.newest(PayloadKey(at, PayloadKind.OUTPUT))

    def last_asked(self, where: str) -> Asked:
        """The newest evaluation of the expression at `where`."""
        return next(asked for asked in reversed(self.asked) if asked.expression.where == where)

    def newest(self, key: PayloadKey) -> str | None:
        """The text of a payload that counts, or None (L5)."""
        found = [(seq, text) for (at, seq), text in self.payloads.items() if at == key]
        return max(found, key=lambda pair: pair[0])[1].text if found else None

    def item_states(self, place: Place) -> dict[int, TaskState]:
        """States of the items of the foreach at a place, by index."""
        found = {}
        for at, task in self.ledger.tasks.items():
            parts = parts_of(at)
            if parts.index is not None and parts.owner == place:
                found[parts.index] = task.state
        return found

    def open_children(self) -> dict[Place, RunId]:
        """Children whose end is not decided here yet, by place."""
        tasks = self.ledger.tasks.values()
        return {task.place: task.child for task in tasks if task.child is not None}

    def numbered(self, kind: str) -> str:
        """A name that nothing has yet."""
        numbers = self.family.numbers
        numbers[kind] += 1
        return f"{kind}-{numbers[kind]}"
