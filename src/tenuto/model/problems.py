"""What can be wrong with a definition's shape, and the checks that look at one node and its edges (SEMANTICS V).

Positions in a file are none of its business: a problem names nodes and edges by number, `dsl` finds their lines.
What needs loops, dominators or races is in `structure` and `hazards`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenuto.model.definition import (
    INSTANT_TYPES,
    Call,
    Definition,
    Detail,
    Foreach,
    Node,
    NodeType,
    On,
)

_NAMED_MAX = 8


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. `hint` is the smallest repair; a `warning` doesn't make the definition illegal.

    `nodes` and `edges` are numbers, the one to point at first; either may be empty, not both.
    """

    code: str
    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    message: str
    hint: str
    warning: bool = False


def is_instant(node: Node) -> bool:
    """Whether a node ends inside the decision that activates it, whatever is evaluated (T7)."""
    is_let_go = isinstance(node.detail, Call) and not node.detail.wait
    return node.type in INSTANT_TYPES or is_let_go


def success_group(definition: Definition, outs: Sequence[int]) -> list[int]:
    """Of a node's out-edges those decided together when it succeeds (T4)."""
    return [n for n in outs if definition.edges[n].on is not On.FAILURE]


def failure_group(definition: Definition, outs: Sequence[int]) -> list[int]:
    """Of a node's out-edges those decided together when it ends dead (T4)."""
    return [n for n in outs if definition.edges[n].on is not On.SUCCESS]


def parallel_groups(definition: Definition, node: int, outs: Sequence[int]) -> list[list[int]]:
    """Groups of a node's out-edges that may be taken together, each of two or more edges (T4, T5).

    "A switch has none" (V) is read as: its `on: success` edges are none, since only one is taken; two failure edges
    of a switch are taken together like those of any node, so they are a group. A failure edge with `else` is never
    taken together with another failure edge, so it is in a group of its own, with the `always` edges.
    """
    failing = failure_group(definition, outs)
    otherwise = [n for n in failing if definition.edges[n].otherwise]
    groups = [[n for n in failing if n not in otherwise]]
    if definition.nodes[node].type is not NodeType.SWITCH:
        groups.insert(0, success_group(definition, outs))
    if otherwise:
        groups.append([n for n in failing if definition.edges[n].on is On.ALWAYS or n in otherwise])
    return [group for group in groups if len(group) > 1]


def chain(definition: Definition, nodes: Sequence[int]) -> str:
    """Write a path as `a → b → c`, its middle left out when it is long."""
    ids = [definition.nodes[node].id for node in nodes]
    if len(ids) > _NAMED_MAX:
        ids = [*ids[: _NAMED_MAX - 2], "…", *ids[-2:]]
    return "`" + " → ".join(ids) + "`"


def local_problems(definition: Definition) -> Iterator[Problem]:
    """Check every node by itself: its edges, its join, its type."""
    outs: list[list[int]] = [[] for _ in definition.nodes]
    ins: list[list[int]] = [[] for _ in definition.nodes]
    for number, edge in enumerate(definition.edges):
        outs[edge.source].append(number)
        if edge.loop_max is None:
            ins[edge.target].append(number)
    yield from _duplicates(definition)
    for node in range(len(definition.nodes)):
        yield from _type_problems(definition, node, outs[node])
        yield from _otherwise(definition, node, outs[node])
        yield from _join(definition, node, ins[node])
        yield from _compensation(definition, node)


def _duplicates(definition: Definition) -> Iterator[Problem]:
    seen: dict[object, int] = {}
    for number, edge in enumerate(definition.edges):
        when = edge.when.text if edge.when is not None else None
        first = seen.setdefault((edge.source, edge.target, edge.on, when, edge.otherwise), number)
        if first != number:
            arrow = chain(definition, (edge.source, edge.target))
            yield Problem(
                "duplicate_edge",
                (edge.source, edge.target),
                (number, first),
                f"the edge {arrow} is there twice",
                "remove one of the two, or let them differ in `on` or `when`",
            )


def _type_problems(definition: Definition, node: int, outs: Sequence[int]) -> Iterator[Problem]:
    match definition.nodes[node].type:
        case NodeType.SWITCH:
            yield from _switch(definition, node, outs)
        case NodeType.FORK:
            yield from _fork(definition, node, outs)
            yield from _conditional(definition, node, outs)
        case NodeType.FAIL | NodeType.END:
            if outs:
                it = definition.nodes[node]
                yield Problem(
                    "fail_has_successor",
                    (node,),
                    tuple(outs),
                    f"nothing runs after `{it.id}`: a node of type `{it.type}` closes the run",
                    f"remove the edge to `{definition.nodes[definition.edges[outs[0]].target].id}`",
                )
        case _:
            yield from _conditional(definition, node, outs)
    failing = [n for n in outs if definition.edges[n].on is On.FAILURE]
    if definition.nodes[node].optional and failing:
        yield Problem(
            "optional_with_failure_edge",
            (node,),
            tuple(failing),
            f"`{definition.nodes[node].id}` is optional, so its failure edge would never be taken",
            "remove `optional`, or the failure edge",
        )


def _switch(definition: Definition, node: int, outs: Sequence[int]) -> Iterator[Problem]:
    name = definition.nodes[node].id
    edges = definition.edges
    for number in outs:
        edge = edges[number]
        arrow = chain(definition, (node, edge.target))
        if edge.on is On.ALWAYS:
            yield Problem(
                "switch_always_edge",
                (node,),
                (number,),
                f"{arrow} is an `on: always` edge of a switch, which takes one edge only",
                f"lead `{definition.nodes[edge.target].id}` from the node before `{name}`",
            )
        elif edge.on is On.SUCCESS and edge.when is None and not edge.otherwise:
            yield Problem(
                "switch_edge_without_condition",
                (node,),
                (number,),
                f"{arrow} leaves a switch without a condition",
                "give it a `when`, or `else: true`",
            )
    if not any(edges[n].otherwise and edges[n].on is On.SUCCESS for n in outs):
        yield Problem(
            "switch_without_else",
            (node,),
            (),
            f"`{name}` fails with `no_match` when none of its conditions holds",
            "add an edge with `else: true`",
            warning=True,
        )


def _fork(definition: Definition, node: int, outs: Sequence[int]) -> Iterator[Problem]:
    for number in outs:
        edge = definition.edges[number]
        if edge.when is not None or edge.otherwise:
            arrow = chain(definition, (node, edge.target))
            yield Problem(
                "fork_edge_with_condition",
                (node,),
                (number,),
                f"{arrow} has a condition, but a fork takes all its edges",
                f"remove the condition, or make `{definition.nodes[node].id}` a switch",
            )


def _conditional(definition: Definition, node: int, outs: Sequence[int]) -> Iterator[Problem]:
    group = success_group(definition, outs)
    if group and all(definition.edges[n].when is not None for n in group):
        yield Problem(
            "all_edges_conditional",
            (node,),
            tuple(group),
            f"the branch ends silently after `{definition.nodes[node].id}` when no condition holds",
            "add an edge without `when`, or make it a `switch` with an `else`",
            warning=True,
        )


def _otherwise(definition: Definition, node: int, outs: Sequence[int]) -> Iterator[Problem]:
    """An `else` stands once among a switch's success edges, and once among any node's failure edges (T5)."""
    name = definition.nodes[node].id
    edges = definition.edges
    others = [n for n in outs if edges[n].otherwise]
    for on in (On.SUCCESS, On.FAILURE):
        rivals = [n for n in others if edges[n].on is on]
        if len(rivals) > 1:
            yield Problem(
                "two_else",
                (node,),
                tuple(rivals),
                f"`{name}` has {len(rivals)} edges with `else: true` on {on}",
                "keep one, and give the others a `when`",
            )
    if definition.nodes[node].type in (NodeType.SWITCH, NodeType.FORK):
        return
    for number in others:
        if edges[number].on is not On.FAILURE:
            yield Problem(
                "else_without_switch",
                (node,),
                (number,),
                f"{chain(definition, (node, edges[number].target))} says `else`, but `{name}` is no switch",
                f"lead `{name}` to a `switch` that decides, or write a `when`",
            )


def _join(definition: Definition, node: int, ins: Sequence[int]) -> Iterator[Problem]:
    needed = definition.nodes[node].join
    name = definition.nodes[node].id
    if needed > len(ins):
        yield Problem(
            "join_cannot_fill",
            (node,),
            tuple(ins),
            f"`{name}` waits for {needed} tokens and has {len(ins)} in-edge{'s' * (len(ins) != 1)}",
            f"write `join: {len(ins)}`, or lead more edges to it" if ins else "remove `join`",
        )
    elif needed > 1 and needed > (most := _most_of_one_end(definition, ins)):
        source = definition.nodes[definition.edges[ins[0]].source]
        switch = "the switch " if source.type is NodeType.SWITCH else ""
        yield Problem(
            "join_cannot_fill",
            (node, definition.edges[ins[0]].source),
            tuple(ins),
            f"`{name}` waits for {needed} tokens, but {switch}`{source.id}` sends {'one' if most == 1 else most}",
            "write `join: any`" if most == 1 else f"write `join: {most}`",
        )


def _most_of_one_end(definition: Definition, ins: Sequence[int]) -> int:
    """How many of the edges into a join can be taken: all, unless one switch or one failure decides them."""
    edges = [definition.edges[n] for n in ins]
    if len({edge.source for edge in edges}) > 1:
        return len(edges)
    if definition.nodes[edges[0].source].type is NodeType.SWITCH:
        return 1
    if any(edge.on is not On.FAILURE for edge in edges):
        return len(edges)
    otherwise = sum(edge.otherwise for edge in edges)
    return max(otherwise, len(edges) - otherwise)


def _compensation(definition: Definition, node: int) -> Iterator[Problem]:
    """C3: what a child did is its own to undo while it runs, and its parent's once it has succeeded."""
    it = definition.nodes[node]
    inline = _inline_of(it.detail)
    if inline is None or it.compensate is not None:
        return
    inner = next((n for n in definition.inlines[inline].nodes if n.compensate is not None), None)
    if inner is not None:
        yield Problem(
            "compensate_inside_only",
            (node,),
            (),
            f"nothing undoes `{inner.id}` once `do` of `{it.id}` has succeeded: its own `compensate` is for a failure "
            "inside",
            f"write a `compensate` on `{it.id}`, too",
            warning=True,
        )


def _inline_of(detail: Detail) -> int | None:
    """The inline graph that a node runs, for itself or for each item."""
    work = detail.body if isinstance(detail, Foreach) else detail
    return work.inline if isinstance(work, Call) else None
