"""One decision in progress: a mutable working copy of a snapshot, thrown away unless it becomes the decision.

Everything below `decide` writes through a `Turn`. It holds no rules: those are in tokens (T, J, F), loops (L),
activation, clocks and closing (C).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from heapq import heappop, heappush
from typing import TypeVar

from tenuto.machine.actions import (
    Action,
    CancelItems,
    CreateTask,
    PutPayload,
    StartChild,
    UpdateTask,
    UseMessage,
)
from tenuto.machine.codec import error_text
from tenuto.machine.decision import Decision, Needs
from tenuto.machine.snapshot import Closing, Done, Items, Record, Rows, Snapshot, Task
from tenuto.model.definition import Amount, Name, Node, NodeType, Tolerance
from tenuto.model.expressions import (
    Callee,
    Evaluator,
    Expression,
    ExpressionKind,
    Fault,
    Listed,
    Message,
    Missing,
    Named,
    Number,
    Outcome,
    Page,
    Scope,
    Verdict,
)
from tenuto.model.failures import Failure
from tenuto.model.graph import Graph
from tenuto.model.ids import MessageId, Place, parts_of, place_of
from tenuto.model.payload import (
    PAYLOAD_MAX,
    ItemsView,
    Output,
    PayloadKey,
    PayloadKind,
    Text,
)
from tenuto.model.states import FINAL_NODE_LETTERS, FINAL_RUN_STATES, NodeLetter, RunState

FINAL_LETTERS = frozenset(ord(letter) for letter in FINAL_NODE_LETTERS)
PENDING = ord(NodeLetter.PENDING)
ACTIVE = ord(NodeLetter.ACTIVE)
SUCCESS = ord(NodeLetter.SUCCESS)
DEAD = ord(NodeLetter.DEAD)


class Faulty(Exception):
    """Something asked for cannot be had: `failure`, on its way to whoever says what that ends. Stays in the machine."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


T = TypeVar("T")


def sound(outcome: T | Fault) -> T:
    """What an expression yielded. Raises Faulty where it failed."""
    if isinstance(outcome, Fault):
        raise Faulty(Failure(outcome.code, outcome.message))
    return outcome


_NOTHING = Missing()


class Unknown(Exception):
    """Something must be loaded first; `decide` turns it into `Needs`. Never leaves the machine."""

    def __init__(self, missing: Missing = _NOTHING, tasks: tuple[Place, ...] = ()) -> None:
        self.needs = Needs(missing, tasks)


class Turn:
    """A run while one event is decided.

    Attributes:
        seq, at: number and time of the event.
        nodes, edges: the letters, as ordinals.
        actions, outcomes, ends: what the decision will list.
        fresh: payloads put by this decision.
        backs: back edges taken so far (T7).
        starts: loop headers to begin without J (L3).
        begun: items begun so far (a long list waits for the next decision).
        taken_up: node -> what it does instead of beginning anew (R1).
        touched: tasks written by this decision, as it left them; `dropped`: places of foreach nodes whose open items it
            cancelled; `forgotten`: places of old passes whose payloads it dropped (L5, `keep`).
    """

    __slots__ = (
        "_agenda",
        "_waiting",
        "actions",
        "at",
        "attempts",
        "backs",
        "begun",
        "children",
        "closed_by",
        "closing",
        "compensation",
        "depth",
        "done",
        "dropped",
        "edges",
        "ends",
        "epoch",
        "evaluator",
        "failures",
        "forgotten",
        "fresh",
        "graph",
        "ids",
        "index",
        "items",
        "live",
        "nodes",
        "old",
        "outcomes",
        "parent",
        "parent_paused",
        "passes",
        "paused",
        "paused_since",
        "priority",
        "records",
        "rows",
        "seq",
        "source",
        "starts",
        "state",
        "taken_up",
        "touched",
    )

    def __init__(
        self, graph: Graph, snapshot: Snapshot, rows: Rows, at: int, evaluator: Evaluator
    ) -> None:
        self.graph = graph
        self.old = snapshot
        self.rows = rows
        self.evaluator = evaluator
        self.seq = snapshot.seq + 1
        self.at = at
        self.state = snapshot.state
        self.paused = snapshot.paused
        self.nodes = bytearray(snapshot.nodes)
        self.edges = bytearray(snapshot.edges)
        self.passes = list(snapshot.passes)
        self.live = snapshot.live
        self.records = dict(snapshot.records)
        self.attempts = dict(snapshot.attempts)
        self.failures = list(snapshot.failures)
        self.closed_by = list(snapshot.closed_by)
        self.epoch = snapshot.epoch
        self.parent = snapshot.parent
        self.index = snapshot.index
        self.depth = snapshot.depth
        self.parent_paused = snapshot.parent_paused
        self.paused_since = snapshot.paused_since
        self.children = snapshot.children
        self.items: dict[int, Items] = dict(snapshot.items)
        self.ids: dict[int, int] = dict(snapshot.ids)
        self.done: list[Done] = list(snapshot.done)
        self.closing: Closing | None = snapshot.closing
        self.compensation = snapshot.compensation
        self.source = snapshot.source
        self.priority = snapshot.priority
        self.actions: list[Action] = []
        self.outcomes: list[Outcome] = []
        self.ends: list[tuple[int, NodeLetter]] = []
        self.fresh: dict[PayloadKey, Text] = {}
        self.backs = 0
        self.starts: list[int] = []
        self.begun = 0
        self.taken_up: dict[int, Callable[[], None]] = {}
        self.touched: dict[Place, Task] = {}
        self.dropped: set[Place] = set()
        self.forgotten: set[Place] = set()
        self._agenda: list[int] = []
        self._waiting: set[int] = set()

    # -- the end of the decision ----------------------------------------------------------------------------------

    def decision(self) -> Decision:
        """Freeze what was decided."""
        snapshot = Snapshot(
            run_id=self.old.run_id,
            seq=self.seq,
            at=self.at,
            state=self.state,
            paused=self.paused,
            epoch=self.epoch,
            nodes=bytes(self.nodes),
            edges=bytes(self.edges),
            passes=tuple(self.passes),
            live=self.live,
            records=self.records,
            attempts=self.attempts,
            failures=tuple(self.failures),
            closed_by=tuple(self.closed_by),
            parent=self.parent,
            index=self.index,
            depth=self.depth,
            parent_paused=self.parent_paused,
            paused_since=self.paused_since,
            children=self.children,
            items=self.items,
            ids=self.ids,
            done=tuple(self.done),
            closing=self.closing,
            compensation=self.compensation,
            source=self.source,
            priority=self.priority,
        )
        return Decision(snapshot, tuple(self.actions), tuple(self.outcomes), ends=tuple(self.ends))

    # -- nodes ----------------------------------------------------------------------------------------------------

    def node(self, number: int) -> Node:
        return self.graph.definition.nodes[number]

    def is_open(self) -> bool:
        """Whether the run's outcome is still to be decided."""
        return self.state is RunState.RUNNING

    def is_held(self) -> bool:
        """Whether no lease may be granted: paused by its own flag or its parent's (C6)."""
        return self.paused or self.parent_paused

    def is_final(self) -> bool:
        return self.state in FINAL_RUN_STATES

    def passes_of(self, node: int) -> tuple[int, ...]:
        """Current iteration of each loop around a node, outermost first."""
        loops = self.graph.loops_of[node]
        return tuple(self.passes[loop] for loop in loops) if loops else ()

    def place(self, node: int) -> Place:
        """Where the node's current pass lives (L3, R3)."""
        return place_of(self.node(node).id, self.passes_of(node), self.ids.get(node, 1))

    def active_at(self, place: Place) -> int | None:
        """The node that is active at exactly this place, or None: another pass, another state, no such node."""
        node = self.graph.numbers.get(place.partition("~")[0].partition(".")[0])
        if node is None or self.nodes[node] != ACTIVE or self.place(node) != place:
            return None
        return node

    def active_owner(self, place: Place) -> int | None:
        """The node that is active and to which this place belongs: its own, an item's or a page's."""
        return self.active_at(parts_of(place).owner)

    # -- tasks ----------------------------------------------------------------------------------------------------

    def task(self, place: Place) -> Task | None:
        """The task row of a place as this decision left it, or None if there is none."""
        self.foresee((place,))
        return self.touched.get(place) or self.rows.tasks.get(place)

    def foresee(self, places: Iterable[Place]) -> None:
        """Make sure of all these task rows at once: each that is asked for alone costs a reading."""
        if self.rows.known:
            return
        known = (self.touched, self.rows.tasks, self.rows.absent)
        lacking = tuple(p for p in places if not any(p in rows for rows in known))
        if lacking:
            raise Unknown(tasks=lacking)

    def create_task(self, task: Task) -> None:
        """Insert a task."""
        self.touched[task.place] = task
        self.actions.append(CreateTask(task))

    def update_task(self, task: Task, *, ends_lease: bool = True) -> None:
        """Write a task's decided columns."""
        self.touched[task.place] = task
        self.actions.append(UpdateTask(task, ends_lease))

    def mark(self, node: int, letter: NodeLetter, view: Output = None) -> None:
        """Give a node a new letter, keep `live` true, and its record where letters are not enough (L5)."""
        was, now = self.nodes[node], ord(letter)
        self.nodes[node] = now
        self.live += (was in FINAL_LETTERS) - (now in FINAL_LETTERS)
        if now not in FINAL_LETTERS:
            if now == ACTIVE and was in FINAL_LETTERS:
                self.ends.pop()  # T7: its end is put off
                self.forget(self.place(node))
            return
        if was in FINAL_LETTERS:
            self.ends.pop()  # T6: its end was another one
        self.ends.append((node, letter))
        if self.node(node).compensate is not None and was != PENDING:
            self._remember(node, letter)
        old = self.records.get(node)
        if view is not None or old is not None or self.graph.loops_of[node]:
            passes = self.passes_of(node)
            if was == ACTIVE and view is None and node in self.items:
                view = ItemsView(self.place(node), self.items[node].listed)
            if view is None and old is not None and old.passes == passes:
                view = old.view
            self.records[node] = Record(letter, passes, view, self.ids.get(node, 1))

    # -- work to undo (C3) ----------------------------------------------------------------------------------------

    def _remember(self, node: int, letter: NodeLetter) -> None:
        """Work with a `compensate` has ended. What was cancelled may still succeed (F8), only a foreach may not."""
        handler = self.node(node).compensate
        assert handler is not None
        sure = letter is NodeLetter.SUCCESS
        may_succeed = (
            letter is NodeLetter.CANCELLED and self.node(node).type is not NodeType.FOREACH
        )
        if sure or handler.started or may_succeed:
            items = self.items[node].listed if node in self.items else None
            self._list(Done(self.place(node), self.seq, sure, items))

    def done_late(self, task: Task) -> None:
        """A success came after the cancel of a node's work: it counts as done, from now on (F8)."""
        parts = parts_of(task.place)
        own = parts.node and parts.owner == task.place and not parts.undo
        if own and self.node(task.node).compensate is not None:
            self._list(Done(task.place, self.seq))

    def doubt(self, place: Place) -> None:
        """What ended `success` at this place was not its own work: a skip."""
        self.done = [replace(d, sure=False) if d.place == place else d for d in self.done]

    def _list(self, done: Done) -> None:
        """One entry for each place (R3); work that has succeeded stays where it stands (T6, L2)."""
        if any(old.sure and old.place == done.place for old in self.done):
            return
        self.forget(done.place)
        self.done.append(done)

    def forget(self, place: Place) -> None:
        """The work of this place is undone, or did not end after all (T7): nothing else takes it from the list."""
        self.done = [done for done in self.done if done.place != place]

    # -- tokens ---------------------------------------------------------------------------------------------------

    def arrive(self, node: int) -> None:
        """A token reached a node: it is looked at by J if it is pending (T3)."""
        if self.nodes[node] == PENDING and node not in self._waiting:
            self._waiting.add(node)
            heappush(self._agenda, self.graph.rank[node])

    def start(self, header: int) -> None:
        """A back edge was taken: its header starts at once (L3)."""
        self.starts.append(header)

    def woken(self) -> Iterable[int]:
        """The pending nodes that are to be looked at, in no order."""
        return self._waiting

    def next_woken(self) -> int | None:
        """The next pending node to look at, in topological order (T7). A race may have cancelled one that was woken."""
        while self._agenda:
            node = self.graph.order[heappop(self._agenda)]
            self._waiting.discard(node)
            if self.nodes[node] == PENDING:
                return node
        return None

    # -- payloads and expressions ---------------------------------------------------------------------------------

    def put(self, place: Place, kind: PayloadKind, value: Text) -> PayloadKey:
        """Store a payload. One event stores one value of a key: a second takes the place of the first."""
        key = PayloadKey(place, kind)
        put = PutPayload(key, value)
        if key in self.fresh:
            self.actions[self.actions.index(PutPayload(key, self.fresh[key]))] = put
        else:
            self.actions.append(put)
        self.fresh[key] = value
        return key

    def take_back(self, count: int) -> None:
        """Forget all actions but the first `count`, and what they say of payloads, tasks and children."""
        for action in self.actions[count:]:
            if isinstance(action, PutPayload):
                self.fresh.pop(action.key, None)
            elif isinstance(action, StartChild) and action.waited:
                self.children -= 1
        del self.actions[count:]
        left = (a.task for a in self.actions if isinstance(a, CreateTask | UpdateTask))
        self.touched = {task.place: task for task in left}
        self.dropped = {a.place for a in self.actions if isinstance(a, CancelItems)}

    def put_error(self, node: int, failure: Failure) -> None:
        self.put(self.place(node), PayloadKind.ERROR, error_text(failure, self.node(node).id))

    def put_next_error(self, node: int, failure: Failure) -> None:
        """Store an error; one that the node had already in this decision becomes its `details.cause` (L2)."""
        cause = self.fresh.get(PayloadKey(self.place(node), PayloadKind.ERROR))
        if cause is not None and cause.text is not None:
            told = replace(failure, details=f'{{"cause":{cause.text}}}')
            if error_text(told, self.node(node).id).size <= PAYLOAD_MAX:
                failure = told
        self.put_error(node, failure)

    def holds(self, expression: Expression, scope: Scope) -> bool | Fault:
        """Ask for a condition's verdict."""
        outcome = self._ask(expression, scope)
        if isinstance(outcome, Verdict):
            return outcome.holds
        assert isinstance(outcome, Fault), expression.kind
        return outcome

    def value(self, expression: Expression, scope: Scope) -> Text | Fault:
        """Ask for a value; one that is too large is a fault."""
        assert expression.kind is not ExpressionKind.CONDITION
        outcome = self._ask(expression, scope)
        assert isinstance(outcome, Text | Fault), expression.kind
        if isinstance(outcome, Text) and outcome.size > PAYLOAD_MAX:
            return _too_large(expression, outcome.size)
        return outcome

    def name(self, name: Name, scope: Callable[[Expression], Scope]) -> str | Fault:
        """A name, asked for if it is computed (X1)."""
        if isinstance(name, str):
            return name
        outcome = self._ask(name, scope(name))
        assert isinstance(outcome, Named | Fault), name.kind
        return outcome.text if isinstance(outcome, Named) else outcome

    def number(self, amount: Amount, scope: Callable[[Expression], Scope]) -> int | Fault:
        """A number, asked for if it is computed (X1)."""
        if isinstance(amount, int):
            return amount
        outcome = self._ask(amount, scope(amount))
        assert isinstance(outcome, Number | Fault), amount.kind
        return outcome.value if isinstance(outcome, Number) else outcome

    def tolerance(
        self, tolerance: Tolerance | Expression, scope: Callable[[Expression], Scope]
    ) -> Tolerance | Fault:
        """How many items may fail, asked for if it is computed (X1)."""
        if isinstance(tolerance, Tolerance):
            return tolerance
        outcome = self._ask(tolerance, scope(tolerance))
        assert isinstance(outcome, Number | Fault), tolerance.kind
        if isinstance(outcome, Fault):
            return outcome
        return Tolerance(outcome.value, outcome.percent)

    def listed(self, expression: Expression, scope: Scope) -> Listed | Fault:
        """Ask for a list; one that is too large is a fault."""
        outcome = self._ask(expression, scope)
        assert isinstance(outcome, Listed | Fault), expression.kind
        if isinstance(outcome, Listed) and outcome.text.size > PAYLOAD_MAX:
            return _too_large(expression, outcome.text.size)
        return outcome

    def page(self, output: PayloadKey) -> Page | Fault:
        """Ask what a page of a list holds."""
        found = self.evaluator.page(output, self.fresh)
        if isinstance(found, Missing):
            raise Unknown(found)
        self.outcomes.append(found)
        return found

    def callee(self, name: str, input: Text) -> Callee | Fault:
        """Ask which version a workflow's name means, and whether it takes this input (F6)."""
        found = self.evaluator.callee(name, input)
        if isinstance(found, Missing):
            raise Unknown(found)
        self.outcomes.append(found)
        return found

    def message(self, event: str, key: Text, after: MessageId | None = None) -> Message:
        """Look into the mailbox; what this decision has used is passed over."""
        while True:
            found = self.evaluator.mailbox(event, key, after)
            if isinstance(found, Missing):
                raise Unknown(found)
            if found.id is None or UseMessage(found.id) not in self.actions:
                self.outcomes.append(found)
                return found
            after = found.id

    def _ask(
        self, expression: Expression, scope: Scope
    ) -> Verdict | Text | Named | Number | Listed | Fault:
        outcome = self.evaluator.evaluate(expression, scope)
        if isinstance(outcome, Missing):
            raise Unknown(outcome)
        self.outcomes.append(outcome)
        return outcome


def _too_large(expression: Expression, size: int) -> Fault:
    return Fault(
        "payload_too_large",
        f"{expression.where} yields {size:,} bytes; the limit is {PAYLOAD_MAX:,}",
    )
