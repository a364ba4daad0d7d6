"""Order and dominance in directed graphs, and the forward flow of a definition. No rule of the language.

Nodes are numbers 0..n-1; START and END are one virtual node, number n, in the tree that needs it. Nothing recurses: a
definition may be 10,000 nodes deep.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tenuto.model.definition import Definition

_NONE = -1


@dataclass(frozen=True, slots=True)
class Tree:
    """A dominator tree. `parent[v]` is v's immediate dominator; -1 for the root and for what the root doesn't reach.

    `first` and `last` are the numbers of a walk of the tree: those of a subtree are one interval.
    """

    root: int
    parent: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]

    def reaches(self, node: int) -> bool:
        """Whether the root leads to `node` at all."""
        return self.first[node] != _NONE

    def dominates(self, a: int, b: int) -> bool:
        """Whether every path from the root to `b` passes `a` (a node dominates itself)."""
        return self.first[b] != _NONE and self.first[a] <= self.first[b] <= self.last[a]

    def tops(self) -> tuple[int, ...]:
        """For each node its dominator right below the root; -1 for the root.

        Two nodes share a dominator other than the root exactly if their tops are one.
        """
        top = [_NONE] * len(self.parent)
        for node in sorted(filter(self.reaches, range(len(top))), key=self.first.__getitem__):
            parent = self.parent[node]
            if parent != _NONE:
                top[node] = node if parent == self.root else top[parent]
        return tuple(top)


@dataclass(frozen=True, slots=True)
class Flow:
    """The forward graph of a definition without forward cycles.

    Attributes:
        ins: forward in-edges of a node, ascending.
        outs: all out-edges of a node, ascending; back edges too.
        order, rank: topological order, smallest number first; position of a node in it.
        dominators: over nodes 0..n-1 and START, which is n and leads to every node without forward in-edges.
    """

    definition: Definition
    ins: tuple[tuple[int, ...], ...]
    outs: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    rank: tuple[int, ...]
    dominators: Tree

    @property
    def start(self) -> int:
        return len(self.definition.nodes)

    def name(self, node: int) -> str:
        """Id of a node."""
        return self.definition.nodes[node].id

    def between(self, above: int, below: int, *, barred: Collection[int] = ()) -> set[int]:
        """Nodes that lead to `below` by forward edges without passing `above` or, in between, a barred one.

        With `above` the immediate dominator of `below`, all of them are dominated by it. Barred nodes are in the
        answer; what leads to them alone is not.
        """
        edges = self.definition.edges
        found: set[int] = set()
        work = [below]
        while work:
            node = work.pop()
            if node in barred and node != below:
                continue
            for number in self.ins[node]:
                source = edges[number].source
                if source != above and source not in found:
                    found.add(source)
                    work.append(source)
        return found


def flow_of(definition: Definition) -> Flow | None:
    """Order a definition; None when its forward edges have a cycle."""
    count = len(definition.nodes)
    ins: list[list[int]] = [[] for _ in range(count)]
    outs: list[list[int]] = [[] for _ in range(count)]
    successors: list[list[int]] = [[] for _ in range(count + 1)]
    for number, edge in enumerate(definition.edges):
        outs[edge.source].append(number)
        if edge.loop_max is None:
            ins[edge.target].append(number)
            successors[edge.source].append(edge.target)
    order = topological_order(successors[:count])
    if len(order) < count:
        return None
    successors[count] = [node for node in range(count) if not ins[node]]
    rank = [0] * count
    for position, node in enumerate(order):
        rank[node] = position
    return Flow(
        definition=definition,
        ins=tuple(map(tuple, ins)),
        outs=tuple(map(tuple, outs)),
        order=order,
        rank=tuple(rank),
        dominators=dominator_tree(count, successors),
    )


def topological_order(successors: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Order nodes so that every edge points ahead; of those possible, the smallest number comes first.

    Nodes on a cycle or behind one are left out. Cost: n log n.
    """
    waits_for = [0] * len(successors)
    for targets in successors:
        for target in targets:
            waits_for[target] += 1
    ready = [node for node, left in enumerate(waits_for) if not left]
    order = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for target in successors[node]:
            waits_for[target] -= 1
            if not waits_for[target]:
                heapq.heappush(ready, target)
    return tuple(order)


def reachable(successors: Sequence[Sequence[int]], sources: Iterable[int]) -> set[int]:
    """The sources and all that they lead to."""
    found = set(sources)
    work = list(found)
    while work:
        for target in successors[work.pop()]:
            if target not in found:
                found.add(target)
                work.append(target)
    return found


def strong_components(successors: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Sets of nodes that lie on cycles together, ascending; a single node only if it leads to itself."""
    count = len(successors)
    index = [_NONE] * count
    low = [0] * count
    on_stack = [False] * count
    stack: list[int] = []
    found: list[tuple[int, ...]] = []
    clock = 0
    for root in range(count):
        if index[root] != _NONE:
            continue
        walk = [(root, iter(successors[root]))]
        index[root] = low[root] = clock
        clock += 1
        stack.append(root)
        on_stack[root] = True
        while walk:
            node, rest = walk[-1]
            for target in rest:
                if index[target] == _NONE:
                    index[target] = low[target] = clock
                    clock += 1
                    stack.append(target)
                    on_stack[target] = True
                    walk.append((target, iter(successors[target])))
                    break
                if on_stack[target]:
                    low[node] = min(low[node], index[target])
            else:
                walk.pop()
                if walk:
                    above = walk[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == index[node]:
                    members: list[int] = []
                    while not members or members[-1] != node:
                        members.append(stack.pop())
                        on_stack[members[-1]] = False
                    if len(members) > 1 or node in successors[node]:
                        found.append(tuple(sorted(members)))
    return sorted(found)


def shortest_path(
    successors: Sequence[Sequence[int]],
    source: int,
    targets: Collection[int],
    within: Collection[int],
) -> tuple[int, ...]:
    """A shortest path of at least one edge from `source` to one of `targets`, inside `within`; or nothing."""
    came_from: dict[int, int] = {}
    work = deque([source])
    while work:
        node = work.popleft()
        for target in successors[node]:
            if target not in within or target in came_from:
                continue
            came_from[target] = node
            if target in targets:
                path = [target, node]
                while path[-1] != source:
                    path.append(came_from[path[-1]])
                return tuple(reversed(path))
            work.append(target)
    return ()


def dominator_tree(root: int, successors: Sequence[Sequence[int]]) -> Tree:
    """Find immediate dominators. Cost: m log n, on any graph.

    Source: Lengauer and Tarjan, A fast algorithm for finding dominators in a flowgraph (1979), the simple version.
    """
    count = len(successors)
    above, vertex, number = _depth_first(root, successors)
    predecessors: list[list[int]] = [[] for _ in range(count)]
    for node in vertex:
        for target in successors[node]:
            predecessors[target].append(node)
    semi = number[:]
    label = list(range(count))
    link = [_NONE] * count
    bucket: list[list[int]] = [[] for _ in range(count)]
    idom = [_NONE] * count

    def lowest(node: int) -> int:
        """Node of least semidominator on the linked path above `node`; shortens the path."""
        if link[node] == _NONE:
            return node
        path = []
        at = node
        while link[link[at]] != _NONE:
            path.append(at)
            at = link[at]
        for step in reversed(path):
            up = link[step]
            if semi[label[up]] < semi[label[step]]:
                label[step] = label[up]
            link[step] = link[up]
        return label[node]

    for node in reversed(vertex[1:]):
        for source in predecessors[node]:
            semi[node] = min(semi[node], semi[lowest(source)])
        bucket[vertex[semi[node]]].append(node)
        parent = above[node]
        link[node] = parent
        for member in bucket[parent]:
            best = lowest(member)
            idom[member] = best if semi[best] < semi[member] else parent
        bucket[parent].clear()
    for node in vertex[1:]:
        if idom[node] != vertex[semi[node]]:
            idom[node] = idom[idom[node]]
    children: list[list[int]] = [[] for _ in range(count)]
    for node in vertex[1:]:
        children[idom[node]].append(node)
    first, last = _intervals(root, children)
    return Tree(root, tuple(idom), tuple(first), tuple(last))


def _depth_first(
    root: int, successors: Sequence[Sequence[int]]
) -> tuple[list[int], list[int], list[int]]:
    """Parent of each node in a depth-first walk, nodes by their number in it, and that number; -1 if not reached."""
    above = [_NONE] * len(successors)
    number = [_NONE] * len(successors)
    vertex: list[int] = []
    work = [(root, _NONE)]
    while work:
        node, parent = work.pop()
        if number[node] != _NONE:
            continue
        number[node] = len(vertex)
        above[node] = parent
        vertex.append(node)
        work.extend((t, node) for t in reversed(successors[node]) if number[t] == _NONE)
    return above, vertex, number


def _intervals(root: int, children: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    first = [_NONE] * len(children)
    last = [_NONE] * len(children)
    clock = 0
    walk = [(root, iter(children[root]))]
    first[root] = clock
    while walk:
        node, rest = walk[-1]
        child = next(rest, None)
        if child is None:
            last[node] = clock
            walk.pop()
        else:
            clock += 1
            first[child] = clock
            walk.append((child, iter(children[child])))
    return first, last
