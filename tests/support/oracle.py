"""The rules of J, L4 and T1 once more, by brute force and from SEMANTICS alone: what the machine is compared with.

Slow and plain on purpose. It reads letters and the definition; of the graph's indexes only the races and the loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from tenuto.model.graph import Graph

FINAL = frozenset("sxkc")


class Say(Enum):
    """What J says of a pending node."""

    WAIT = "wait"
    ACT = "act"
    SKIP = "skip"
    UNSATISFIED = "unsatisfied"


def say(graph: Graph, nodes: str, edges: str, node: int) -> Say:
    """J1, J2 for a pending node."""
    ins = [n for n, e in enumerate(graph.definition.edges) if e.target == node and not e.loop_max]
    letters = [edges[n] for n in ins]
    open_ones = [letter for letter in letters if letter in "-w"]
    taken = [n for n in ins if edges[n] == "t"]
    needed = graph.definition.nodes[node].join
    if needed:
        if len(taken) >= needed:
            return Say.ACT
        if open_ones:
            return Say.WAIT
        failed = [n for n in graph.races.get(node, ()) if nodes[n] == "x"]
        return Say.UNSATISFIED if taken or failed else Say.SKIP
    if open_ones:
        return Say.WAIT
    if not ins:
        return Say.ACT
    if not taken:
        return Say.SKIP
    raced = {member for race in graph.races.values() for member in race}
    for f, letter in enumerate(nodes):
        if letter == "x" and not graph.definition.nodes[f].optional and f not in raced:
            led = _led_in_edges(graph, f, node)
            if led and not led & set(taken):
                return Say.SKIP
    return Say.ACT


def _led_in_edges(graph: Graph, source: int, join: int) -> set[int]:
    """In-edges of `join` that `source` leads to by forward edges, not through any/count joins."""
    edges = graph.definition.edges
    found: set[int] = set()
    seen: set[int] = set()
    work = [source]
    while work:
        node = work.pop()
        if node in seen:
            continue
        seen.add(node)
        for number, edge in enumerate(edges):
            if edge.source != node or edge.loop_max:
                continue
            if edge.target == join:
                found.add(number)
            elif not graph.definition.nodes[edge.target].join:
                work.append(edge.target)
    return found


def loop_closed(graph: Graph, edges: Sequence[str] | str, loop: int) -> bool:
    """L4: all its back edges are dead in the same pass."""
    return all(edges[n] == "d" for n in graph.loops[loop].back)


def left_loops(graph: Graph, number: int) -> Iterator[int]:
    """Loops that an edge leaves."""
    edge = graph.definition.edges[number]
    for at, loop in enumerate(graph.loops):
        if edge.source in loop.body and edge.target not in loop.body:
            yield at


def restless(graph: Graph, nodes: str, edges: str) -> list[str]:
    """What a decided open run must not leave behind: a node that could move, an edge that contradicts T1 or L4."""
    wrong = []
    for node, letter in enumerate(nodes):
        name = graph.definition.nodes[node].id
        if letter == "." and (said := say(graph, nodes, edges, node)) is not Say.WAIT:
            wrong.append(f"{name} is pending, but J says {said.value}")
        for number in graph.outs[node]:
            if (letter in FINAL) != (edges[number] != "-"):
                wrong.append(f"{name} is {letter!r} and its edge {number} is {edges[number]!r}")
            if letter in "kc" and edges[number] not in "dw":
                wrong.append(f"{name} is {letter!r} and its edge {number} is {edges[number]!r}")
    for number, edge in enumerate(graph.definition.edges):
        if edge.loop_max and edges[number] == "t":
            wrong.append(f"back edge {number} is taken and nothing was reset")
        left_closed = all(loop_closed(graph, edges, at) for at in left_loops(graph, number))
        if edges[number] == "w" and left_closed:
            wrong.append(f"edge {number} is withheld though its loops are closed")
        if edges[number] == "d" and not left_closed:
            wrong.append(f"edge {number} is dead before its loops are closed")
    return wrong
