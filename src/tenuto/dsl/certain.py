"""Which nodes may have no output although the run succeeded: the run's `output` must guard those.

Ways through the graph are tried, the last pass of every loop: the plain one, and from each way every other choice that
stands on it for the first time (another edge of a switch, a condition that does not hold, a failure that the run
survives). Every answer is such a way, so there is no false alarm from the shape; conditions are taken as independent.
The number of ways is bounded: of a very large graph some answers may be missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tenuto.model.definition import WORKER_TYPES, Edge, End, NodeType, On, WaitForEvent
from tenuto.model.graph import Graph
from tenuto.model.structure import Ancestry

_VISITS_MAX = 200_000
"""Nodes and edges looked at, over all ways."""
_WAYS_MAX = 1_000
_WORKING = WORKER_TYPES | {NodeType.CALL, NodeType.FOREACH}
"""Types whose work may fail."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """Something that goes otherwise than on the plain way: `node` fails, a switch takes `edge`, or `edge` flips."""

    node: int
    edge: int | None = None


def uncertain(graph: Graph, wanted: Collection[int]) -> Mapping[int, str]:
    """Of the wanted nodes those that may lack an output after a success -> when, in words."""
    return _Search(graph, wanted).found


class _Search:
    def __init__(self, graph: Graph, wanted: Collection[int]) -> None:
        self.graph = graph
        self._nodes = graph.definition.nodes
        self._edges = graph.definition.edges
        self._wanted = wanted
        self._ancestry: Ancestry | None = None
        self.doomed = self._find_doomed()
        self.found: dict[int, str] = {}
        self._run()

    def _run(self) -> None:
        cost = len(self._nodes) + len(self._edges)
        ways = min(_WAYS_MAX, _VISITS_MAX // cost + 1)
        waiting: deque[tuple[tuple[_Choice, ...], frozenset[_Choice]]] = deque([((), frozenset())])
        while waiting and ways and len(self.found) < len(self._wanted):
            ways -= 1
            choices, known = waiting.popleft()
            way = _Way(self, frozenset(choices))
            points = way.points - known
            waiting.extend(
                ((*choices, point), known | way.points)
                for point in sorted(points, key=lambda c: (c.node, c.edge or 0))
            )
            if way.succeeds:
                self._note(way, choices)

    def _note(self, way: _Way, choices: tuple[_Choice, ...]) -> None:
        for node in self._wanted:
            if node in self.found:
                continue
            if way.done[node] is not True:
                self.found[node] = self._words(choices)
                continue
            for end in way.ends:
                if end != node and not self._is_ancestor(node, end):
                    self.found[node] = f"when `{self._nodes[end].id}` ends the run first"
            for join in self._lost_to(node, way):
                self.found[node] = f"when `{self._nodes[join].id}` acts before it is done"

    def _lost_to(self, node: int, way: _Way) -> Iterator[int]:
        """Joins that cancel their losers and can act without this one."""
        for join, race in self.graph.races.items():
            if node in race and self._nodes[join].cancel_losers and way.done[join] is True:
                others = [
                    number
                    for number in self.graph.ins[join]
                    if way.taken[number]
                    and (source := self._edges[number].source) != node
                    and not self._is_ancestor(node, source)
                ]
                if len(others) >= self._nodes[join].join:
                    yield join

    def _words(self, choices: tuple[_Choice, ...]) -> str:
        if not choices:
            return "not every way leads to it"
        last = choices[-1]
        id = self._nodes[last.node].id
        if last.edge is None:
            return f"when `{id}` fails"
        if self._nodes[last.node].type is NodeType.SWITCH:
            return f"when `{id}` leads to `{self._nodes[self._edges[last.edge].target].id}`"
        target = self._nodes[self._edges[last.edge].target].id
        turned = "taken" if self.doomed[self._edges[last.edge].target] else "not taken"
        return f"when `{id} -> {target}` is {turned}"

    def _is_ancestor(self, node: int, of: int) -> bool:
        if self._ancestry is None:
            self._ancestry = Ancestry(self.graph)
        return self._ancestry.is_ancestor(node, of)

    def _find_doomed(self) -> list[bool]:
        """Nodes after which the run's `output` is not evaluated: the plain way avoids them."""
        doomed = [False] * len(self._nodes)
        for node in reversed(self.graph.order):
            detail = self._nodes[node].detail
            if (
                self._nodes[node].type is NodeType.FAIL
                or _ends_otherwise(detail)
                or self.repeats(node, On.FAILURE, wanted=False)
            ):
                doomed[node] = True
                continue
            ahead = [self._edges[number] for number in self.forward(node, On.FAILURE, wanted=False)]
            if self._nodes[node].type is NodeType.SWITCH:
                doomed[node] = bool(ahead) and all(doomed[edge.target] for edge in ahead)
            else:
                doomed[node] = any(
                    doomed[edge.target] and edge.when is None and self._nodes[edge.target].join < 2
                    for edge in ahead
                )
        return doomed

    def repeats(self, node: int, on: On, *, wanted: bool) -> bool:
        """Whether a back edge is taken for certain: then this is not the last pass."""
        if self._nodes[node].type is NodeType.SWITCH and not wanted:
            return False
        return any(
            self._edges[number].loop_max is not None
            and self._edges[number].when is None
            and (self._edges[number].on is on) is wanted
            for number in self.graph.outs[node]
        )

    def forward(self, node: int, on: On, *, wanted: bool = True) -> list[int]:
        """Forward edges out of a node, of a kind or of all others."""
        return [
            number
            for number in self.graph.outs[node]
            if self._edges[number].loop_max is None and (self._edges[number].on is on) is wanted
        ]


def _ends_otherwise(detail: object) -> bool:
    """An `end` with an output of its own, or that cancels."""
    return isinstance(detail, End) and (detail.cancelled or detail.output is not None)


class _Way:
    """One way through the graph. `done`: True success, False dead, None it did not run."""

    def __init__(self, search: _Search, choices: frozenset[_Choice]) -> None:
        self._search = search
        self._graph, self._choices = search.graph, choices
        self._nodes, self._edges = self._graph.definition.nodes, self._graph.definition.edges
        self.done: list[bool | None] = [None] * len(self._nodes)
        self.taken = [False] * len(self._edges)
        self.points: set[_Choice] = set()
        self.ends: list[int] = []
        self.succeeds = True
        self._led: list[frozenset[int]] = [frozenset()] * len(self._nodes)
        for node in self._graph.order:
            self._step(node)

    def _step(self, number: int) -> None:
        node, ins = self._nodes[number], self._graph.ins[number]
        taken = sum(self.taken[edge] for edge in ins)
        self._led[number] = frozenset[int]().union(*(self._leads(edge) for edge in ins))
        if node.join == 0:
            if ins and (not taken or self._is_cut_off(ins)):
                return
        elif taken < node.join:
            if not taken and not any(
                self.done[other] is False for other in self._graph.races.get(number, ())
            ):
                return
            self._end_dead(number)
            return
        if node.type is NodeType.FAIL or _ends_otherwise(node.detail):
            self.succeeds = False
        elif node.type is NodeType.END:
            self.ends.append(number)
        fails = _Choice(number)
        if self._may_fail(number):
            self.points.add(fails)
        if fails in self._choices:
            self._end_dead(number)
        else:
            self.done[number] = True
            self._decide(number)

    def _decide(self, number: int) -> None:
        """The edges after a success."""
        if self._search.repeats(number, On.FAILURE, wanted=False):
            self.succeeds = False
        doomed = self._search.doomed
        ahead = self._search.forward(number, On.FAILURE, wanted=False)
        if self._nodes[number].type is NodeType.SWITCH:
            if not ahead:
                return
            plain = next((edge for edge in ahead if not doomed[self._edges[edge].target]), ahead[0])
            self.points.update(_Choice(number, edge) for edge in ahead if edge != plain)
            chosen = next((e for e in ahead if _Choice(number, e) in self._choices), plain)
            self.taken[chosen] = True
            return
        for edge in ahead:
            holds = True
            if self._edges[edge].when is not None:
                holds = not doomed[self._edges[edge].target]
                flipped = _Choice(number, edge)
                self.points.add(flipped)
                holds ^= flipped in self._choices
            self.taken[edge] = holds

    def _end_dead(self, number: int) -> None:
        self.done[number] = False
        if self._nodes[number].optional:
            self._decide(number)
            for edge in self._graph.outs[number]:
                if self._nodes[self._edges[edge].target].join:
                    self.taken[edge] = False
            return
        handled = False
        if self._search.repeats(number, On.SUCCESS, wanted=False):
            self.succeeds = False
        # `else` is taken if no other is, so it is looked at last.
        for edge in sorted(self._graph.outs[number], key=lambda e: self._edges[e].otherwise):
            row: Edge = self._edges[edge]
            if row.loop_max is not None or row.on is On.SUCCESS:
                continue
            if row.on is On.FAILURE and row.otherwise and handled:
                continue
            self.taken[edge] = True
            handled = handled or row.on is On.FAILURE
        if not handled and not self._graph.raced[number]:
            self.succeeds = False

    def _may_fail(self, number: int) -> bool:
        node = self._nodes[number]
        if node.optional or self._search.forward(number, On.FAILURE):
            return True
        if not self._graph.raced[number]:
            return False
        if isinstance(node.detail, WaitForEvent):
            wait = node.detail
            ends = (wait.timeout_us, wait.heartbeat_timeout_us, wait.fail_when)
            return any(end is not None for end in ends)
        return node.type in _WORKING

    def _leads(self, edge: int) -> frozenset[int]:
        """J1: the handled failures that lead along an edge."""
        source = self._edges[edge].source
        if self._nodes[source].join:
            before: frozenset[int] = frozenset()
        else:
            before = self._led[source]
        is_handled_failure = (
            self.done[source] is False
            and not self._nodes[source].optional
            and not self._graph.raced[source]
        )
        return before | {source} if is_handled_failure else before

    def _is_cut_off(self, ins: tuple[int, ...]) -> bool:
        return any(
            not any(self.taken[edge] for edge in ins if failure in self._leads(edge))
            for failure in frozenset[int]().union(*map(self._leads, ins))
        )
