"""The indexed graph of a definition: everything that `decide` looks up, computed once. Immutable; no algorithms.

`structure` finds loops, dominators and races; `index` puts them beside plain look-up tables. Node and edge are numbers
everywhere; passes are the iterations of the loops that hold a node, outermost first (SEMANTICS L3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tenuto.model.definition import Definition, On


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop: `header`, the nodes of `body` (header included), its `back` edges and `max` passes (L1, L2).

    `parent` is the innermost loop around it, or None. `exits` are the forward edges that leave the body. `keep`: passes
    whose outputs are kept, None for all (L5).
    """

    header: int
    body: frozenset[int]
    back: tuple[int, ...]
    max: int
    parent: int | None
    exits: tuple[int, ...]
    keep: int | None = None


@dataclass(frozen=True, slots=True)
class Structure:
    """What `structure.analyse` found. Lists are indexed by node number.

    `order`: nodes in topological order of the forward graph. `loops`: outer before inner. `races`: for each any/count
    join its race (J3), without nodes that leak.
    """

    order: tuple[int, ...]
    loops: tuple[Loop, ...]
    races: Mapping[int, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Graph:
    """A definition with its indexes. Tuples are indexed by node or edge number.

    Attributes:
        rank: position of a node in topological order.
        ins: forward in-edges of a node, ascending.
        in_span: `(low, high)` when `ins` are exactly the numbers low..high-1, so a scan is one `find`; else None.
        outs: all out-edges of a node, ascending; back edges too.
        loops_of: loops around a node, outermost first (indexes into `loops`).
        leaves: loops that a forward edge leaves, empty for most.
        back_of: the loop that a back edge repeats, None for a forward edge.
        raced: whether the node is in the race of some any/count join (F1).
        sinks: nodes without an out-edge that a success could take, and not `end` or `fail` (C5).
        numbers: node id -> number.
        inlines: the graphs of `do:` blocks, by number (`Call.inline`).
    """

    definition: Definition
    order: tuple[int, ...]
    rank: tuple[int, ...]
    ins: tuple[tuple[int, ...], ...]
    in_span: tuple[tuple[int, int] | None, ...]
    outs: tuple[tuple[int, ...], ...]
    loops: tuple[Loop, ...]
    loops_of: tuple[tuple[int, ...], ...]
    leaves: tuple[tuple[int, ...], ...]
    back_of: tuple[int | None, ...]
    races: Mapping[int, frozenset[int]]
    raced: tuple[bool, ...]
    roots: tuple[int, ...]
    sinks: tuple[int, ...]
    numbers: Mapping[str, int]
    inlines: tuple[Graph, ...] = ()


def inline_of(graph: Graph, path: str) -> Graph:
    """The inline graph at a path of numbers from the outermost, `0` or `2.0`; the graph itself for an empty one."""
    for number in filter(None, path.split(".")):
        graph = graph.inlines[int(number)]
    return graph


def index(definition: Definition, structure: Structure, inlines: tuple[Graph, ...] = ()) -> Graph:
    """Put the look-up tables beside a definition whose structure is legal. Cost: linear in nodes and edges.

    `inlines`: the graphs of `definition.inlines`, in order.
    """
    nodes, edges, loops = definition.nodes, definition.edges, structure.loops
    count = len(nodes)
    ins: list[list[int]] = [[] for _ in range(count)]
    outs: list[list[int]] = [[] for _ in range(count)]
    for number, edge in enumerate(edges):
        outs[edge.source].append(number)
        if edge.loop_max is None:
            ins[edge.target].append(number)
    around: list[list[int]] = [[] for _ in range(count)]
    back_of: list[int | None] = [None] * len(edges)
    leaves: list[list[int]] = [[] for _ in edges]
    for at, loop in enumerate(loops):
        for node in loop.body:
            around[node].append(at)
        for number in loop.back:
            back_of[number] = at
        for number in loop.exits:
            leaves[number].append(at)
    rank = [0] * count
    for position, node in enumerate(structure.order):
        rank[node] = position
    raced = frozenset(node for race in structure.races.values() for node in race)
    return Graph(
        definition=definition,
        order=structure.order,
        rank=tuple(rank),
        ins=tuple(map(tuple, ins)),
        in_span=tuple(_span(numbers) for numbers in ins),
        outs=tuple(map(tuple, outs)),
        loops=loops,
        loops_of=tuple(map(tuple, around)),
        leaves=tuple(map(tuple, leaves)),
        back_of=tuple(back_of),
        races=structure.races,
        raced=tuple(node in raced for node in range(count)),
        roots=tuple(node for node in structure.order if not ins[node]),
        sinks=tuple(
            node
            for node in range(count)
            if nodes[node].type not in ("end", "fail")
            and all(edges[number].on is On.FAILURE for number in outs[node])
        ),
        numbers={node.id: number for number, node in enumerate(nodes)},
        inlines=inlines,
    )


def _span(numbers: Sequence[int]) -> tuple[int, int] | None:
    if not numbers or numbers[-1] - numbers[0] != len(numbers) - 1:
        return None
    return numbers[0], numbers[-1] + 1
