"""Random definitions and random fates: graphs from nested blocks or from loose edges, and what happens to a run.

Everything comes out of a `random.Random`; given Hypothesis's, a failure shrinks, given a seeded one, it repeats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from zlib import crc32

from tests.support.world import Answer, Lease, Script, World, repeat_of

from tenuto.machine.events import Deadline, Event, TimerKind
from tenuto.machine.snapshot import Timer
from tenuto.model.definition import (
    Definition,
    Detail,
    Edge,
    End,
    Fail,
    Node,
    NodeType,
    On,
    SetValue,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.expressions import Expression, ExpressionKind, Fault, Read, Root, Scope
from tenuto.model.graph import Graph, index
from tenuto.model.ids import LeaseId
from tenuto.model.instants import SECOND_US
from tenuto.model.retry import Jitter, RetryPolicy
from tenuto.model.states import TaskState
from tenuto.model.structure import analyse

FAULT = Fault("expression_error", "no such key")


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
    """

    nodes: int = 12
    races: bool = True
    ends: bool = True
    clocks: bool = True
    faults: int = 4
    reads: bool = True


# -- graphs -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Sketch:
    """A graph under construction. A block is (its first node, its last nodes)."""

    rng: Random
    taste: Taste
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    @property
    def room(self) -> int:
        return self.taste.nodes - len(self.nodes)

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def add(
        self, type: NodeType, *, join: int = 0, losers: bool = False, optional: bool = False
    ) -> int:
        id = f"n{len(self.nodes)}"
        detail = self.detail(id, type)
        self.nodes.append(Node(id, type, detail, join, losers, optional))
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
    ) -> None:
        number = len(self.edges)
        reads = self.reads(source) if when else ()
        text = Expression(ExpressionKind.CONDITION, f"w{number}", f"edges.{number}.when", reads)
        self.edges.append(Edge(source, target, on, text if when else None, otherwise, loop))

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
            reads = (Read(Root.NODES, earlier, self.rng.choice(("output", "error", "status"))),)
            reads += (Read(Root.ERROR),)
        return Expression(kind, f"v{id}", f"nodes.{id}", reads)

    def detail(self, id: str, type: NodeType) -> Detail:
        clocks = self.taste.clocks
        match type:
            case NodeType.TASK | NodeType.HTTP:
                return Work(
                    id,
                    self.value(id),
                    retry=RetryPolicy(
                        max_attempts=self.rng.choice((1, 1, 2, 4)),
                        initial_us=self.rng.choice((1000, SECOND_US)),
                        max_us=4 * SECOND_US,
                        jitter=self.rng.choice(tuple(Jitter)),
                    ),
                    timeout_us=SECOND_US if clocks and self.chance(20) else None,
                    total_timeout_us=9 * SECOND_US if clocks and self.chance(20) else None,
                    queue_timeout_us=5 * SECOND_US if clocks and self.chance(20) else None,
                    heartbeat_timeout_us=SECOND_US if clocks and self.chance(20) else None,
                )
            case NodeType.WAIT:
                return Wait(for_us=self.rng.choice((0, SECOND_US)))
            case NodeType.WAIT_FOR_EVENT:
                timeout = 7 * SECOND_US if clocks and self.chance(40) else None
                return WaitForEvent(f"e{id}", self.value(id, ExpressionKind.KEY), timeout)
            case NodeType.SET:
                return SetValue(self.value(id))
            case NodeType.FAIL:
                return Fail("stopped", self.value(id) if self.chance(50) else None)
            case NodeType.END:
                return End(self.chance(30), self.value(id) if self.chance(30) else None)
            case _:
                return None

    # -- blocks -------------------------------------------------------------------------------------------------

    def leaf(self, *, join: int = 0, optional: bool = False) -> int:
        kinds = [NodeType.TASK] * 6 + [
            NodeType.HTTP,
            NodeType.SET,
            NodeType.WAIT,
            NodeType.WAIT_FOR_EVENT,
        ]
        type = self.rng.choice(kinds)
        able = type in (NodeType.TASK, NodeType.HTTP, NodeType.WAIT_FOR_EVENT)
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
        self.edge(switch, header, when=True, loop=limit)
        if self.chance(15):
            self.edge(switch, header, when=True, loop=limit)
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
        return Definition(
            "flow", tuple(self.nodes), tuple(edges), timeout_us=run_timeout, output=output
        )


def block_definition(rng: Random, taste: Taste) -> Definition:
    """A graph of nested blocks; most are legal."""
    sketch = _Sketch(rng, taste)
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
    return index(
        _honest(definition, index(definition, analysis.structure)),
        analysis.structure,
    )


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

    nodes = []
    for number, node in enumerate(definition.nodes):
        match node.detail:
            case Work():
                input = kept(node.detail.input, number)
                assert input is not None
                nodes.append(replace(node, detail=replace(node.detail, input=input)))
            case SetValue():
                value = kept(node.detail.value, number)
                assert value is not None
                nodes.append(replace(node, detail=SetValue(value)))
            case WaitForEvent():
                key = kept(node.detail.key, number)
                assert key is not None
                nodes.append(replace(node, detail=replace(node.detail, key=key)))
            case Fail():
                nodes.append(
                    replace(
                        node, detail=replace(node.detail, message=kept(node.detail.message, number))
                    )
                )
            case End():
                nodes.append(
                    replace(
                        node, detail=replace(node.detail, output=kept(node.detail.output, number))
                    )
                )
            case _:
                nodes.append(node)
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


# -- fates --------------------------------------------------------------------------------------------------------


def _roll(seed: int, text: str) -> int:
    """0..99, the same in every process and in every order."""
    return crc32(f"{seed}/{text}".encode()) % 100


def script_of(graph: Graph, seed: int, taste: Taste) -> Script:
    """Answers that depend on the expression and on which call of it this is, never on the order of events."""

    def verdict(text: str) -> Callable[[Scope, int], bool | Fault]:
        def answer(scope: Scope, call: int) -> bool | Fault:
            rolled = _roll(seed, f"{text}/{call}")
            return FAULT if rolled < taste.faults else rolled % 2 == 0

        return answer

    def value(text: str) -> Callable[[Scope, int], str | Fault]:
        def answer(scope: Scope, call: int) -> str | Fault:
            rolled = _roll(seed, f"{text}/{call}")
            return FAULT if rolled < taste.faults else f'"{text}"'

        return answer

    texts = {e.when.text for e in graph.definition.edges if e.when is not None}
    script: dict[str, Answer] = {text: verdict(text) for text in texts}
    script |= {f"v{node.id}": value(node.id) for node in graph.definition.nodes}
    return script | {"vout": value("out")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """How often, in a hundred steps, something disturbs a run."""

    repeats: int = 15
    strays: int = 15
    losses: int = 10
    deadlines: int = 10
    pauses: int = 4
    cancels: int = 1
    late: int = 30
    failures: int = 30
    """Of a hundred attempts."""


CALM = Trouble(repeats=0, strays=0, losses=0, deadlines=0, pauses=0, cancels=0, late=0)
STEPS_MAX = 3000


def drive(world: World, rng: Random, seed: int, trouble: Trouble) -> World:
    """Carry a run to its end, in an order that `rng` chooses; what attempts yield is `seed`'s."""
    driver = _Driver(world, rng, seed, trouble)
    if trouble.pauses and driver.chance(trouble.pauses):
        world.pause()
    world.start()
    for _ in range(STEPS_MAX):
        if world.is_final:
            break
        driver.step()
    assert world.is_final, f"still {world.letters} after {STEPS_MAX} steps"
    driver.disturb()
    driver.late_success()
    world.check_history()
    return world


@dataclass(slots=True)
class _Driver:
    world: World
    rng: Random
    seed: int
    trouble: Trouble

    def chance(self, percent: int) -> bool:
        return percent > 0 and self.rng.randrange(100) < percent

    def step(self) -> None:
        world, trouble = self.world, self.trouble
        self.disturb()
        if self.chance(trouble.late):
            self.late_success()
        if world.is_final:
            return
        if self.chance(trouble.cancels):
            world.cancel("enough")
            return
        if self.chance(trouble.pauses):
            (world.resume if world.snapshot.paused else world.pause)()
        self.world.now += self.rng.choice((0, 1, 1000))
        moves = self.moves()
        if not moves:
            self.unblock()
            return
        self.rng.choice(moves)()

    def moves(self) -> list[Callable[[], object]]:
        world = self.world
        found: list[Callable[[], object]] = []
        found += [partial(world.grant, place) for place in sorted(world.ready)]
        for place, lease in sorted(world.leases.items()):
            if world.ledger.tasks[place].state is TaskState.PENDING:
                found += [partial(self.report, lease)] * 2
                if self.chance(self.trouble.losses):
                    found.append(partial(world.lose, place))
                    found.append(partial(world.release, place))
                if self.chance(self.trouble.deadlines):
                    found.append(partial(self.deadline, lease))
        due = [t for t in world.ledger.timers.values() if t.due_at <= world.now]
        found += [partial(world.fire, t.place, t.kind) for t in due]
        matched = world.match()
        if matched is not None:
            found.append(partial(world.accept, matched))
        waits = world.ledger.waits.values()
        found += [partial(world.put_message, wait.event, wait.key or "") for wait in waits]
        return found

    def unblock(self) -> None:
        """Nothing can happen by itself: the clock goes on, or a paused run is resumed."""
        world = self.world
        timers = sorted(world.ledger.timers.values(), key=lambda t: t.due_at)
        if world.snapshot.paused and (not timers or self.chance(50)):
            world.resume()
            return
        assert timers, "nothing can happen any more"
        world.now = max(world.now, timers[0].due_at)

    def report(self, lease: Lease) -> None:
        world = self.world
        task = world.ledger.tasks[lease.place]
        name = f"{lease.place}/{lease.attempt - task.lost}"
        if _roll(self.seed, name) < self.trouble.failures:
            retryable = _roll(self.seed, f"{name}/retryable") < 90
            after = 2 * SECOND_US if _roll(self.seed, f"{name}/after") < 20 else 0
            event = world.failure_of(lease)
            world.draw = self.rng.randrange(100) / 100
            world.accept(replace(event, retryable=retryable, retry_after_us=after))
        else:
            world.accept(world.success_of(lease))

    def deadline(self, lease: Lease) -> None:
        world = self.world
        task = world.ledger.tasks[lease.place]
        if task.timeout_us is not None:
            world.accept(world.deadline_of(lease.place, Deadline.ATTEMPT, lease))
        elif task.heartbeat_us is not None:
            world.accept(world.deadline_of(lease.place, Deadline.HEARTBEAT, lease))

    def disturb(self) -> None:
        world = self.world
        if self.chance(self.trouble.repeats) and (old := repeat_of(world.events)):
            event = self.rng.choice(old)
            before = world.snapshot
            assert world.send(replace(event, at=world.now)).rejected is not None, event
            assert world.snapshot is before
        if self.chance(self.trouble.strays):
            self.stray()
        if self.chance(self.trouble.deadlines):
            self.queue_deadline()

    def stray(self) -> None:
        """Reports and firings about what is not, not yet, or in another version."""
        world = self.world
        nodes = world.graph.definition.nodes
        place = world.place(self.rng.choice(nodes).id)
        task = world.ledger.tasks.get(place)
        lease = Lease(
            place,
            task.attempt + 1 if task is not None else 1,
            LeaseId("lease-of-nobody"),
            world.now,
        )
        kind = self.rng.choice(tuple(TimerKind))
        timer = world.ledger.timers.get((place, kind))
        version = timer.version + 1 if timer is not None else world.snapshot.seq
        wait = world.ledger.waits.get(place)
        events: list[Event] = [
            world.success_of(lease),
            world.failure_of(lease),
            world.loss_of(lease),
            world.firing_of(Timer(place, kind, world.now, version)),
        ]
        if wait is not None:
            message = world.mailbox[0] if world.mailbox else None
            if message is not None:
                late = replace(world.receipt_of(wait, message), version=wait.version + 1)
                assert world.send(late).rejected is not None
        for event in events:
            assert world.send(event).rejected is not None, event

    def queue_deadline(self) -> None:
        world = self.world
        for place in sorted(world.ready):
            task = world.ledger.tasks[place]
            if task.queue_until is not None:
                early = world.deadline_of(place, Deadline.QUEUE, None)
                if task.queue_until > max(world.now, world.snapshot.at):
                    assert world.send(early).rejected is not None
                elif not world.is_final:
                    world.accept(early)
                    return

    def late_success(self) -> None:
        """F8: a success under the live lease of a cancelled task changes neither node nor run."""
        world = self.world
        for place, lease in sorted(world.leases.items()):
            task = world.ledger.tasks[place]
            if task.state is TaskState.CANCELLED and self.chance(max(self.trouble.late, 50)):
                letters, edges = world.letters, world.edges
                assert world.send(world.failure_of(lease)).rejected is not None
                assert world.send(world.loss_of(lease)).rejected is not None
                world.accept(world.success_of(lease))
                assert (world.letters, world.edges) == (letters, edges)
                assert place not in world.leases
                return
