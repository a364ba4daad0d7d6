"""Random definitions: graphs from nested blocks or from loose edges, of all that a definition may hold.

Everything comes out of a `random.Random`; given Hypothesis's, a failure shrinks, given a seeded one, it repeats.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import Any

from tenuto.model.definition import (
    Call,
    Definition,
    Detail,
    Edge,
    Emit,
    End,
    Fail,
    Foreach,
    Handler,
    Node,
    NodeType,
    On,
    SetValue,
    Tolerance,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.graph import Graph, index
from tenuto.model.instants import DAY_US, SECOND_US
from tenuto.model.retry import Jitter, RetryPolicy, RetryRule
from tenuto.model.structure import analyse

_READ = ("output", "output", "error", "status", "failures", "items", "callback_key")
_UNDOABLE = (NodeType.TASK, NodeType.HTTP, NodeType.FOREACH, NodeType.CALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taste:
    """What may stand in a graph.

    Attributes:
        nodes: how many at most.
        races: any/count joins.
        ends: `end` nodes.
        clocks: timeouts of nodes and of the run.
        faults: how often an expression fails, in a hundred.
        reads: expressions read what ancestors left.
        whole: how many of a hundred leaves are a foreach or a call.
        inlines: how deep `do:` may be nested.
        undo: how many of a hundred works are undone when the run fails; also of handlers of the run.
        rules: how many of a hundred policies have rules.
        events: how many of a hundred leaves emit, or wait for an event in some special way.
    """

    nodes: int = 12
    races: bool = True
    ends: bool = True
    clocks: bool = True
    faults: int = 4
    reads: bool = True
    whole: int = 0
    inlines: int = 1
    undo: int = 0
    rules: int = 0
    events: int = 0


# -- graphs -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Sketch:
    """A graph under construction. A block is (its first node, its last nodes)."""

    rng: Random
    taste: Taste
    prefix: str = ""
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    inlines: list[Definition] = field(default_factory=list)

    @property
    def room(self) -> int:
        return self.taste.nodes - len(self.nodes)

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def add(
        self, type: NodeType, *, join: int = 0, losers: bool = False, optional: bool = False
    ) -> int:
        id = f"{self.prefix}n{len(self.nodes)}"
        detail = self.detail(id, type)
        undo = None
        if type in _UNDOABLE and self.chance(self.taste.undo):
            undo = self.handler(f"{id}u")
        self.nodes.append(Node(id, type, detail, join, losers, optional, undo))
        return len(self.nodes) - 1

    def edge(
        self,
        source: int,
        target: int,
        on: On = On.SUCCESS,
        *,
        when: bool = False,
        otherwise: bool = False,
        loop: int | None = None,
        keep: int | None = None,
    ) -> None:
        number = len(self.edges)
        reads = self.reads(source) if when else ()
        text = Expression(
            ExpressionKind.CONDITION, f"{self.prefix}w{number}", f"edges.{number}.when", reads
        )
        self.edges.append(Edge(source, target, on, text if when else None, otherwise, loop, keep))

    def reads(self, source: int) -> tuple[Read, ...]:
        """A condition reads its source, as it just ended, and `error` and `iteration`."""
        if not self.taste.reads or self.chance(40):
            return ()
        id = self.nodes[source].id
        fields = ("output", "error", "status", "attempts")
        return (
            Read(Root.NODES, id, self.rng.choice(fields)),
            Read(Root.ERROR),
            Read(Root.ITERATION),
            Read(Root.INPUT),
        )

    def value(self, id: str, kind: ExpressionKind = ExpressionKind.VALUE) -> Expression:
        reads: tuple[Read, ...] = ()
        if self.taste.reads and self.nodes and self.chance(40):
            earlier = self.rng.choice(self.nodes).id
            reads = (Read(Root.NODES, earlier, self.rng.choice(_READ)), Read(Root.ERROR))
            reads += (Read(Root.INDEX), Read(Root.PARAMS), Read(Root.ITEM), Read(Root.NODE))
        return Expression(kind, f"v{id}", f"nodes.{id}", reads)

    def detail(self, id: str, type: NodeType) -> Detail:
        match type:
            case NodeType.TASK | NodeType.HTTP:
                return self.work(id)
            case NodeType.WAIT:
                return Wait(for_us=self.rng.choice((0, SECOND_US)))
            case NodeType.WAIT_FOR_EVENT:
                return self.wait_for_event(id)
            case NodeType.SET:
                return SetValue(self.value(id))
            case NodeType.EMIT:
                keep = self.rng.choice((None, SECOND_US))
                return Emit(f"e{id}", self.value(id, ExpressionKind.KEY), self.value(id), keep)
            case NodeType.CALL:
                return self.call(id, waits=not self.chance(15))
            case NodeType.FOREACH:
                return self.foreach(id)
            case NodeType.FAIL:
                return Fail("stopped", self.value(id) if self.chance(50) else None)
            case NodeType.END:
                return End(self.chance(30), self.value(id) if self.chance(30) else None)
            case _:
                return None

    def work(self, id: str, input: Expression | None = None) -> Work:
        clocks = self.taste.clocks
        return Work(
            id,
            self.value(id) if input is None else input,
            retry=self.policy(id),
            timeout_us=SECOND_US if clocks and self.chance(20) else None,
            total_timeout_us=9 * SECOND_US if clocks and self.chance(20) else None,
            queue_timeout_us=5 * SECOND_US if clocks and self.chance(20) else None,
            heartbeat_timeout_us=SECOND_US if clocks and self.chance(20) else None,
        )

    def policy(self, id: str) -> RetryPolicy:
        rules: tuple[RetryRule, ...] = ()
        if self.chance(self.taste.rules):
            when = Expression(ExpressionKind.CONDITION, f"r{id}", f"{id}.retry.rules.0.when")
            rules = (
                RetryRule(
                    self.rng.choice((("timeout",), ("boom", "child_failed"), ())),
                    self.rng.choice((1, 2, 3)),
                    when=when if self.chance(50) else None,
                    initial_us=1000,
                ),
                RetryRule(("*",), 2),
            )[: self.rng.choice((1, 2))]
        return RetryPolicy(
            max_attempts=self.rng.choice((1, 1, 2, 4)),
            initial_us=self.rng.choice((1000, SECOND_US)),
            max_us=4 * SECOND_US,
            jitter=self.rng.choice(tuple(Jitter)),
            rules=rules,
            total=3 if rules and self.chance(30) else None,
            give_up_on=("bad",) if self.chance(self.taste.rules) else (),
        )

    def wait_for_event(self, id: str) -> WaitForEvent:
        clocks, special = self.taste.clocks, self.taste.events
        timeout = 7 * SECOND_US if clocks and self.chance(40) else None
        key = self.value(id, ExpressionKind.KEY)
        return WaitForEvent(
            f"e{id}",
            None if self.chance(special // 2) else key,
            timeout,
            match=self.of_event(f"m{id}") if self.chance(special) else None,
            fail_when=self.of_event(f"f{id}") if self.chance(special) else None,
            heartbeat_timeout_us=SECOND_US if clocks and self.chance(special) else None,
        )

    def of_event(self, text: str) -> Expression:
        return Expression(ExpressionKind.CONDITION, text, text, (Read(Root.EVENT),))

    def call(self, id: str, *, waits: bool = True, inline: bool = False) -> Call:
        """A named workflow, or an inline graph."""
        number = None
        if self.taste.inlines > 0 and (inline or self.chance(70)):
            number = len(self.inlines)
            smaller = replace(self.taste, nodes=4, inlines=self.taste.inlines - 1)
            made = _legal_inline(self.rng, smaller, f"{self.prefix}i{number}")
            self.inlines.append(made)
        clocks = self.taste.clocks
        output = (Read(Root.OUTPUT),)
        told = Expression(ExpressionKind.VALUE, f"o{id}", f"nodes.{id}.output", output)
        return Call(
            "sub" if number is None else None,
            number,
            self.value(id),
            output=told if self.chance(30) else None,
            wait=waits,
            retry=replace(self.policy(id), max_attempts=self.rng.choice((1, 1, 2))),
            timeout_us=5 * SECOND_US if clocks and self.chance(25) else None,
            total_timeout_us=9 * SECOND_US if clocks and self.chance(25) else None,
        )

    def foreach(self, id: str) -> Foreach:
        reads = (Read(Root.ITEM), Read(Root.INDEX))
        item = Expression(ExpressionKind.VALUE, f"x{id}", f"nodes.{id}.params", reads)
        body: Work | Call = self.work(id, item)
        if self.taste.inlines > 0 and self.chance(35):
            body = replace(self.call(id, inline=True), input=item)
        paged = self.chance(25)
        source = Expression(
            ExpressionKind.VALUE, f"s{id}", f"nodes.{id}.source", (Read(Root.CURSOR),)
        )
        return Foreach(
            body,
            over=None if paged else Expression(ExpressionKind.ITEMS, f"l{id}", f"nodes.{id}.over"),
            source=self.work(f"{id}p", source) if paged else None,
            concurrency=self.rng.choice((1, 2, 3, 100)),
            tolerate=self.rng.choice(
                (Tolerance(), Tolerance(1), Tolerance(50, percent=True), Tolerance(9))
            ),
            batch=self.rng.choice((0, 0, 0, 2)),
            total_timeout_us=9 * SECOND_US if self.taste.clocks and self.chance(15) else None,
        )

    def handler(self, id: str) -> Handler:
        """What undoes a node's work, or runs after a failed run."""
        started = self.chance(30)
        rolled = self.rng.randrange(100)
        if rolled < 10:
            emit = Emit(f"e{id}", self.value(id, ExpressionKind.KEY), self.value(id))
            return Handler(NodeType.EMIT, emit, started)
        if rolled < 30 and self.taste.whole:
            return Handler(NodeType.CALL, self.call(id, waits=not self.chance(20)), started)
        return Handler(NodeType.TASK, self.work(id), started)

    # -- blocks -------------------------------------------------------------------------------------------------

    def leaf(self, *, join: int = 0, optional: bool = False) -> int:
        kinds = [NodeType.TASK] * 6 + [
            NodeType.HTTP,
            NodeType.SET,
            NodeType.WAIT,
            NodeType.WAIT_FOR_EVENT,
        ]
        type = self.rng.choice(kinds)
        if self.chance(self.taste.whole):
            type = self.rng.choice((NodeType.FOREACH, NodeType.FOREACH, NodeType.CALL))
        elif self.chance(self.taste.events):
            type = self.rng.choice((NodeType.EMIT, NodeType.WAIT_FOR_EVENT))
        able = type in (*_UNDOABLE, NodeType.WAIT_FOR_EVENT)
        return self.add(type, join=join, optional=optional and able)

    def block(self, depth: int) -> tuple[int, list[int]]:
        if depth <= 0 or self.room < 4:
            node = self.leaf(optional=self.chance(10))
            return node, [node]
        shapes = [self.sequence] * 3 + [self.parallel, self.choice, self.attempt, self.loop] * 2
        shapes += [self.retry_loop, self.tidy]
        if self.taste.races:
            shapes += [self.race] * 2
        return self.rng.choice(shapes)(depth - 1)

    def sequence(self, depth: int) -> tuple[int, list[int]]:
        first, ends = self.block(depth)
        for _ in range(self.rng.randint(1, 2)):
            if not ends:
                break
            ends = self.after(ends, depth)
        return first, ends

    def after(self, ends: list[int], depth: int) -> list[int]:
        """Lead several ends into one next block."""
        first, following = self.block(depth)
        for end in ends:
            self.edge(
                end, first, when=self.chance(15) and self.nodes[end].type is not NodeType.FORK
            )
        return following

    def branches(self, depth: int) -> tuple[int, list[list[int]]]:
        fork = self.add(self.rng.choice((NodeType.FORK, NodeType.TASK, NodeType.SET)))
        found: list[list[int]] = []
        for _ in range(self.rng.randint(2, 3)):
            if self.room < 2 and len(found) >= 1:
                break
            first, ends = self.block(depth - 1)
            self.edge(fork, first)
            found.append(ends)
        return fork, found

    def parallel(self, depth: int) -> tuple[int, list[int]]:
        fork, found = self.branches(depth)
        join = self.add(self.rng.choice((NodeType.JOIN, NodeType.TASK)))
        for end in [end for ends in found for end in ends]:
            self.edge(end, join, On.ALWAYS if self.chance(10) else On.SUCCESS)
        return fork, [join]

    def race(self, depth: int) -> tuple[int, list[int]]:
        fork, found = self.branches(depth)
        ends = [end for ends in found for end in ends]
        needed = self.rng.randint(1, max(1, len(ends)))
        type = self.rng.choice((NodeType.JOIN, NodeType.JOIN, NodeType.TASK))
        join = self.add(type, join=needed, losers=self.chance(60))
        for end in ends:
            self.edge(end, join)
        return fork, [join]

    def choice(self, depth: int) -> tuple[int, list[int]]:
        switch = self.add(NodeType.SWITCH)
        ends: list[int] = []
        for _ in range(self.rng.randint(1, 2)):
            if self.taste.ends and self.chance(12):
                first: int = self.add(NodeType.END if self.chance(60) else NodeType.FAIL)
                more: list[int] = []
            else:
                first, more = self.block(depth - 1)
            self.edge(switch, first, when=True)
            ends += more
        if self.room > 0 and self.chance(85):
            first, more = self.block(depth - 2)
            self.edge(switch, first, otherwise=True)
            ends += more
        return self.merged(switch, ends)

    def merged(self, first: int, ends: list[int]) -> tuple[int, list[int]]:
        if len(ends) > 1 and self.chance(70):
            merge = self.add(NodeType.JOIN, join=1 if self.taste.races and self.chance(30) else 0)
            for end in ends:
                self.edge(end, merge)
            return first, [merge]
        return first, ends

    def attempt(self, depth: int) -> tuple[int, list[int]]:
        """A node whose failure leads somewhere: back to the main road, or to a handler of its own."""
        node = self.leaf()
        repair = self.leaf()
        self.edge(node, repair, On.FAILURE, when=self.chance(30))
        if self.room > 1 and self.chance(25):
            other = self.leaf()
            self.edge(node, other, On.FAILURE, otherwise=True)
        return self.merged(node, [node, repair] if self.chance(60) else [node])

    def tidy(self, depth: int) -> tuple[int, list[int]]:
        node = self.leaf()
        cleanup = self.leaf()
        self.edge(node, cleanup, On.ALWAYS)
        return node, [node] if self.chance(60) else [cleanup]

    def loop(self, depth: int) -> tuple[int, list[int]]:
        """A header, a body, and a switch that goes back or on."""
        header = self.leaf()
        ends = [header]
        if self.chance(70):
            first, ends = self.block(depth)
            self.edge(header, first)
        switch = self.add(NodeType.SWITCH)
        for end in ends:
            self.edge(end, switch)
        limit = self.rng.randint(1, 3)
        keep = self.rng.choice((None, None, 1, 2))
        self.edge(switch, header, when=True, loop=limit, keep=keep)
        if self.chance(15):
            self.edge(switch, header, when=True, loop=limit, keep=keep)
        after = self.leaf()
        self.edge(switch, after, otherwise=True)
        return header, [after]

    def retry_loop(self, depth: int) -> tuple[int, list[int]]:
        """A failure that goes back to the header."""
        header = self.leaf()
        ends = [header]
        if self.chance(60):
            first, ends = self.block(depth - 1)
            self.edge(header, first)
        last = self.leaf()
        for end in ends:
            self.edge(end, last)
        gives_up = self.chance(30)
        when = gives_up or self.chance(30)
        self.edge(last, header, On.FAILURE, loop=self.rng.randint(1, 3), when=when)
        if gives_up:
            self.edge(last, self.leaf(), On.FAILURE, otherwise=True)
        return header, [last] if self.chance(80) else []

    def finished(self) -> Definition:
        """Shuffle the edges: their numbers decide what comes first (T2)."""
        edges = list(self.edges)
        if self.chance(50):
            self.rng.shuffle(edges)
        run_timeout = 30 * SECOND_US if self.taste.clocks and self.chance(15) else None
        output = None
        if self.taste.reads and self.chance(30):
            reads = tuple(Read(Root.NODES, node.id, "output") for node in self.nodes)
            output = Expression(ExpressionKind.VALUE, "vout", "output", reads)
        inline = bool(self.prefix)
        last = None
        if not inline and self.chance(self.taste.undo):
            last = self.handler("last")
        return Definition(
            "flow",
            tuple(self.nodes),
            tuple(edges),
            timeout_us=None if inline else run_timeout,
            output=output,
            on_failure=last,
            closing_timeout_us=60 * SECOND_US if self.taste.clocks else DAY_US,
            inlines=tuple(self.inlines),
            inline=inline,
        )


def _legal_inline(rng: Random, taste: Taste, prefix: str) -> Definition:
    """An inline graph that is legal; after some tries one of a single task."""
    for _ in range(5):
        made = block_definition(rng, taste, prefix)
        if legal(made) is not None:
            return made
    sketch = _Sketch(rng, replace(taste, whole=0, events=0), prefix)
    sketch.add(NodeType.TASK)
    return sketch.finished()


def block_definition(rng: Random, taste: Taste, prefix: str = "") -> Definition:
    """A graph of nested blocks; most are legal. `prefix`: of the ids and expressions of an inline graph."""
    sketch = _Sketch(rng, taste, prefix)
    sketch.sequence(rng.randint(1, 4))
    if sketch.room > 3 and sketch.chance(20):
        sketch.block(2)
    for _ in range(rng.randint(0, 1)):
        number = len(sketch.nodes)
        source, target = rng.randrange(number), rng.randrange(number)
        if sketch.nodes[source].type in (NodeType.TASK, NodeType.SET) and source < target:
            sketch.edge(source, target, rng.choice(tuple(On)), when=sketch.chance(30))
    return sketch.finished()


def loose_definition(rng: Random, taste: Taste) -> Definition:
    """Nodes and edges thrown together; a few are legal, and those are odd."""
    sketch = _Sketch(rng, taste)
    kinds = [NodeType.TASK] * 4 + [
        NodeType.SWITCH,
        NodeType.FORK,
        NodeType.SET,
        NodeType.JOIN,
        NodeType.WAIT,
    ]
    count = rng.randint(2, min(9, taste.nodes))
    for _ in range(count):
        racing = taste.races and sketch.chance(20)
        sketch.add(rng.choice(kinds), join=int(racing), losers=racing and sketch.chance(60))
    for target in range(1, count):
        for source in sorted({rng.randrange(target) for _ in range(rng.choice((1, 1, 1, 2, 3)))}):
            _loose_edge(sketch, source, target, None)
    for _ in range(rng.choice((0, 1, 1, 2))):
        source, target = sorted((rng.randrange(count), rng.randrange(count)), reverse=True)
        _loose_edge(sketch, source, target, 2)
    return sketch.finished()


def _loose_edge(sketch: _Sketch, source: int, target: int, loop: int | None) -> None:
    type = sketch.nodes[source].type
    if type is NodeType.SWITCH:
        otherwise = sketch.chance(30)
        sketch.edge(source, target, when=not otherwise, otherwise=otherwise, loop=loop)
    elif type is NodeType.FORK:
        sketch.edge(source, target, loop=loop)
    else:
        on = sketch.rng.choice((On.SUCCESS, On.SUCCESS, On.FAILURE, On.ALWAYS))
        otherwise = on is On.FAILURE and sketch.chance(25)
        when = not otherwise and sketch.chance(25)
        sketch.edge(source, target, on, when=when, otherwise=otherwise, loop=loop)


def legal(definition: Definition) -> Graph | None:
    """The graph of a definition, or None when it has an error."""
    analysis = analyse(definition)
    if analysis.structure is None or any(not p.warning for p in analysis.problems):
        return None
    inlines = []
    for inner in definition.inlines:
        graph = legal(inner)
        if graph is None:
            return None
        inlines.append(graph)
    honest = _honest(definition, index(definition, analysis.structure))
    return index(honest, analysis.structure, tuple(inlines))


def _honest(definition: Definition, graph: Graph) -> Definition:
    """Take out the reads that the compiler would refuse: of nodes that are not ancestors (X2)."""
    above = _ancestors(graph)

    def kept(expression: Expression | None, node: int) -> Expression | None:
        if expression is None:
            return None
        allowed = (
            above[node] | {node} if expression.kind is ExpressionKind.CONDITION else above[node]
        )
        reads = tuple(
            read
            for read in expression.reads
            if read.root is not Root.NODES or graph.numbers[read.node] in allowed
        )
        return replace(expression, reads=reads)

    def honest(detail: Detail, number: int) -> Detail:
        """The same with every expression in it honest."""
        if detail is None:
            return None
        changes: dict[str, Any] = {}
        for f in fields(detail):
            value = getattr(detail, f.name)
            if isinstance(value, Expression):
                changes[f.name] = kept(value, number)
            elif isinstance(value, Work | Call):
                changes[f.name] = honest(value, number)
        return replace(detail, **changes) if changes else detail

    nodes = [
        replace(node, detail=honest(node.detail, number))
        for number, node in enumerate(definition.nodes)
    ]
    edges = tuple(replace(e, when=kept(e.when, e.source)) for e in definition.edges)
    return replace(definition, nodes=tuple(nodes), edges=edges)


def _ancestors(graph: Graph) -> list[set[int]]:
    above: list[set[int]] = [set() for _ in graph.order]
    for node in graph.order:
        for number in graph.ins[node]:
            source = graph.definition.edges[number].source
            above[node] |= above[source] | {source}
    return above


def random_graph(rng: Random, taste: Taste, *, loose: bool = False) -> Graph | None:
    """One try; None when it is not legal."""
    return legal((loose_definition if loose else block_definition)(rng, taste))
