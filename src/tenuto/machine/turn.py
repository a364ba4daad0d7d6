"""One decision in progress: a mutable working copy of a snapshot, thrown away unless it becomes the decision.

Everything below `decide` writes through a `Turn`. It holds no rules: those are in tokens (T, J, F), loops (L),
activation, clocks and closing (C).
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush

from tenuto.machine.actions import Action, PutPayload, UseMessage
from tenuto.machine.codec import error_text
from tenuto.machine.decision import Decision, Needs
from tenuto.machine.snapshot import Record, Rows, Snapshot
from tenuto.model.definition import Node
from tenuto.model.expressions import (
    Evaluator,
    Expression,
    ExpressionKind,
    Fault,
    Message,
    Missing,
    Outcome,
    Scope,
    Verdict,
)
from tenuto.model.failures import Failure
from tenuto.model.graph import Graph
from tenuto.model.ids import Place, place_of
from tenuto.model.payload import PAYLOAD_MAX, JoinView, PayloadKey, PayloadKind, Text
from tenuto.model.states import FINAL_NODE_LETTERS, FINAL_RUN_STATES, NodeLetter, RunState

FINAL_LETTERS = frozenset(ord(letter) for letter in FINAL_NODE_LETTERS)
PENDING = ord(NodeLetter.PENDING)
ACTIVE = ord(NodeLetter.ACTIVE)
SUCCESS = ord(NodeLetter.SUCCESS)
DEAD = ord(NodeLetter.DEAD)


class Unknown(Exception):
    """The evaluator lacks texts; `decide` turns it into `Needs`. Never leaves the machine."""

    def __init__(self, missing: Missing) -> None:
        self.needs = Needs(missing.payloads, missing.mailbox)


class Turn:
    """A run while one event is decided.

    Attributes:
        seq, at: number and time of the event.
        nodes, edges: the letters, as ordinals.
        actions, outcomes, ends: what the decision will list.
        fresh: payloads put by this decision.
        backs: back edges taken so far (T7).
        starts: loop headers to begin without J (L3).
    """

    __slots__ = (
        "_agenda",
        "_waiting",
        "actions",
        "at",
        "attempts",
        "backs",
        "closed_by",
        "edges",
        "ends",
        "evaluator",
        "failures",
        "fresh",
        "graph",
        "live",
        "nodes",
        "old",
        "outcomes",
        "passes",
        "paused",
        "records",
        "rows",
        "seq",
        "starts",
        "state",
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
        self.actions: list[Action] = []
        self.outcomes: list[Outcome] = []
        self.ends: list[tuple[int, NodeLetter]] = []
        self.fresh: dict[PayloadKey, Text] = {}
        self.backs = 0
        self.starts: list[int] = []
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
            epoch=self.old.epoch,
            nodes=bytes(self.nodes),
            edges=bytes(self.edges),
            passes=tuple(self.passes),
            live=self.live,
            records=self.records,
            attempts=self.attempts,
            failures=tuple(self.failures),
            closed_by=tuple(self.closed_by),
        )
        return Decision(snapshot, tuple(self.actions), tuple(self.outcomes), ends=tuple(self.ends))

    # -- nodes ----------------------------------------------------------------------------------------------------

    def node(self, number: int) -> Node:
        return self.graph.definition.nodes[number]

    def is_open(self) -> bool:
        """Whether the run's outcome is still to be decided."""
        return self.state is RunState.RUNNING

    def is_final(self) -> bool:
        return self.state in FINAL_RUN_STATES

    def passes_of(self, node: int) -> tuple[int, ...]:
        """Current iteration of each loop around a node, outermost first."""
        loops = self.graph.loops_of[node]
        return tuple(self.passes[loop] for loop in loops) if loops else ()

    def place(self, node: int) -> Place:
        """Where the node's current pass lives (L3)."""
        return place_of(self.node(node).id, self.passes_of(node), self.old.epoch)

    def active_at(self, place: Place) -> int | None:
        """The node that is active at exactly this place, or None: another pass, another state, no such node."""
        node = self.graph.numbers.get(place.partition("~")[0].partition(".")[0])
        if node is None or self.nodes[node] != ACTIVE or self.place(node) != place:
            return None
        return node

    def mark(self, node: int, letter: NodeLetter, view: JoinView | None = None) -> None:
        """Give a node a new letter, keep `live` true, and its record where letters are not enough (L5)."""
        was, now = self.nodes[node], ord(letter)
        self.nodes[node] = now
        self.live += (was in FINAL_LETTERS) - (now in FINAL_LETTERS)
        if now not in FINAL_LETTERS:
            if now == ACTIVE and was in FINAL_LETTERS:
                self.ends.pop()  # T7: its end is put off
            return
        if was in FINAL_LETTERS:
            self.ends.pop()  # T6: its end was another one
        self.ends.append((node, letter))
        old = self.records.get(node)
        if view is not None or old is not None or self.graph.loops_of[node]:
            passes = self.passes_of(node)
            if view is None and old is not None and old.passes == passes:
                view = old.view
            self.records[node] = Record(letter, passes, view)

    # -- tokens ---------------------------------------------------------------------------------------------------

    def arrive(self, node: int) -> None:
        """A token reached a node: it is looked at by J if it is pending (T3)."""
        if self.nodes[node] == PENDING and node not in self._waiting:
            self._waiting.add(node)
            heappush(self._agenda, self.graph.rank[node])

    def start(self, header: int) -> None:
        """A back edge was taken: its header starts at once (L3)."""
        self.starts.append(header)

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
        """Forget all actions but the first `count`, and the payloads that they put."""
        for action in self.actions[count:]:
            if isinstance(action, PutPayload):
                self.fresh.pop(action.key, None)
        del self.actions[count:]

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
            return Fault(
                "payload_too_large",
                f"{expression.where} yields {outcome.size:,} bytes; the limit is {PAYLOAD_MAX:,}",
            )
        return outcome

    def message(self, event: str, key: Text) -> Message:
        """Look into the mailbox. The oldest message is found once a decision; the next waiter opens its wait."""
        found = self.evaluator.mailbox(event, key)
        if isinstance(found, Missing):
            raise Unknown(found)
        if found.id is not None and UseMessage(found.id) in self.actions:
            found = Message(None)
        self.outcomes.append(found)
        return found

    def _ask(self, expression: Expression, scope: Scope) -> Verdict | Text | Fault:
        outcome = self.evaluator.evaluate(expression, scope)
        if isinstance(outcome, Missing):
            raise Unknown(outcome)
        self.outcomes.append(outcome)
        return outcome
