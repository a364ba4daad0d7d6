"""Hypothesis strategies for definitions of any shape, and the slow, plain way to say what their structure is.

The plain way follows the words of SEMANTICS: dominance is tried by removing nodes, a body by walking back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from hypothesis import strategies as st
from tests.support.graphs import condition

from tenuto.model.definition import Definition, Edge, Node, NodeType, On
from tenuto.model.graph import Loop

Successors = list[list[int]]


@st.composite
def digraphs(draw: st.DrawFn, *, nodes_max: int = 9) -> Successors:
    """Any directed graph: cycles, loops to itself, twin edges, parts that nothing leads to."""
    count = draw(st.integers(1, nodes_max))
    node = st.integers(0, count - 1)
    return [draw(st.lists(node, max_size=4)) for _ in range(count)]


@st.composite
def definitions(draw: st.DrawFn, *, nodes_max: int = 12) -> Definition:
    """Forward edges without a cycle, any joins, and back edges whose header dominates their source.

    Node numbers say nothing about the order of nodes. Errors of V that leave the structure alone may be in it.
    """
    count = draw(st.integers(1, nodes_max))
    name_of = draw(st.permutations(range(count)))
    pairs = [(a, b) for b in range(count) for a in range(max(0, b - 4), b)]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=2 * count)) if pairs else []
    ons = st.sampled_from([On.SUCCESS, On.SUCCESS, On.SUCCESS, On.FAILURE, On.ALWAYS])
    edges = [Edge(name_of[a], name_of[b], on=draw(ons)) for a, b in chosen]
    edges = [
        replace(edge, otherwise=edge.on is On.FAILURE and draw(st.booleans())) for edge in edges
    ]
    forward: Successors = [[] for _ in range(count)]
    for edge in edges:
        forward[edge.source].append(edge.target)
    legal = [
        (source, header)
        for source in range(count)
        for header in range(count)
        if dominates(forward, starts(forward), header, source)
    ]
    for source, header in draw(st.lists(st.sampled_from(legal), max_size=4, unique=True)):
        on = draw(ons)
        edges.append(Edge(source, header, on, condition("again"), loop_max=3))
    joins = st.sampled_from([0, 0, 1, 2])
    nodes = tuple(Node(f"n{n}", NodeType.TASK, join=draw(joins)) for n in range(count))
    return Definition("any", nodes, tuple(draw(st.permutations(edges))))


def forward_of(definition: Definition) -> Successors:
    """Successors by forward edges."""
    found: Successors = [[] for _ in definition.nodes]
    for edge in definition.edges:
        if edge.loop_max is None:
            found[edge.source].append(edge.target)
    return found


def starts(successors: Successors) -> list[int]:
    """Nodes that nothing leads to."""
    led = {target for targets in successors for target in targets}
    return [node for node in range(len(successors)) if node not in led]


def walk(
    onward: Callable[[int], Iterable[int]], sources: Iterable[int], without: int | None = None
) -> set[int]:
    """The sources and all that they lead to when one node is taken out."""
    found = {source for source in sources if source != without}
    work = list(found)
    while work:
        for target in onward(work.pop()):
            if target != without and target not in found:
                found.add(target)
                work.append(target)
    return found


def dominates(successors: Successors, roots: Iterable[int], a: int, b: int) -> bool:
    """Whether no root leads to `b`, which they do, when `a` is taken out."""
    roots = list(roots)
    return b in walk(successors.__getitem__, roots) and b not in walk(
        successors.__getitem__, roots, without=a
    )


def body_of(definition: Definition, header: int) -> set[int]:
    """L1: the header and all that reach a source of its back edges without passing it."""
    edges = definition.edges
    sources = [e.source for e in edges if e.loop_max is not None and e.target == header]
    back: Successors = [[] for _ in definition.nodes]
    for edge in edges:
        back[edge.target].append(edge.source)
    return walk(back.__getitem__, sources, without=header) | {header}


def ways_out(
    definition: Definition, loop: Loop | None, loops: Iterable[Loop]
) -> dict[int, list[int]]:
    """Successors inside a loop, or in all; -1 is END, where leaving and repeating the loop lead."""
    members = range(len(definition.nodes)) if loop is None else sorted(loop.body)
    found: dict[int, list[int]] = {-1: []}
    for node in members:
        targets = [edge.target for edge in definition.edges if edge.source == node]
        found[node] = [
            -1 if loop is not None and (t == loop.header or t not in loop.body) else t
            for t in targets
        ] or [-1]
    for each in loops:
        left = any(e.source in each.body and e.target not in each.body for e in definition.edges)
        if not left and each.header in found:
            found[each.header].append(-1)
    return found


def always_passes(ways: dict[int, list[int]], node: int, by: int) -> bool:
    """Whether every way from `node` to END passes `by`."""
    return -1 not in walk(ways.__getitem__, [node], without=by)
