"""Warnings about branches that run side by side: legal graphs that may do what their author did not mean (SEMANTICS V).

`race_leak`: a node before an any/count join is not answered for by it. `failure_cuts_join`: a handled failure skips a
`join: all`. `end_while_parallel`: an `end` may cancel what still runs. They are hints: where a graph is so entangled
that a warning would cost too long a search, it is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tenuto.model.definition import NodeType, On
from tenuto.model.flow import Flow
from tenuto.model.problems import Problem, chain, failure_group, parallel_groups

SEARCH_MAX = 300_000
"""Nodes and edges looked at for all `failure_cuts_join` of a definition, well under half a second."""


def hazards(
    flow: Flow, raced: frozenset[int], leaking: Mapping[int, Sequence[int]]
) -> Iterator[Problem]:
    """Find the warnings of a legal flow.

    `raced`: nodes in the race of some join (J3). `leaking`: any/count join -> edges that pass by it.
    """
    yield from _race_leaks(flow, leaking)
    yield from _Cuts(flow, raced).problems()
    yield from _ends_while_parallel(flow)


# --- race_leak ---------------------------------------------------------------------------------------


def _race_leaks(flow: Flow, leaking: Mapping[int, Sequence[int]]) -> Iterator[Problem]:
    if not any(leaking.values()):
        return
    definition = flow.definition
    onward = _shortest_ends(flow)
    for join, numbers in leaking.items():
        for number in numbers:
            edge = definition.edges[number]
            path = [edge.source, edge.target]
            while edge.loop_max is None and (after := onward[path[-1]]) is not None:
                path.append(after)
            name, last = flow.name(edge.source), flow.name(path[-1])
            yield Problem(
                "race_leak",
                (edge.source, join),
                (number,),
                f"{chain(definition, path)} gets past the join `{flow.name(join)}`, so `{name}` isn't in its race: a "
                f"failure of `{name}` is not answered for, and the join cannot cancel it",
                f"take `{name}` out of the loop's way back"
                if edge.loop_max is not None
                else f"lead `{last}` to `{flow.name(join)}` if `{name}` is to take part",
                warning=True,
            )


def _shortest_ends(flow: Flow) -> list[int | None]:
    """For each node the next one on a shortest forward path to a node where paths end."""
    edges = flow.definition.edges
    onward: list[int | None] = [None] * len(flow.order)
    far = [0] * len(flow.order)
    for node in reversed(flow.order):
        targets = [edges[n].target for n in flow.outs[node] if edges[n].loop_max is None]
        if targets:
            onward[node] = best = min(targets, key=far.__getitem__)
            far[node] = far[best] + 1
    return onward


# --- failure_cuts_join -------------------------------------------------------------------------------


class _Cuts:
    """Looks for nodes f whose handled failure skips a `join: all` although another of its in-edges is taken (J1)."""

    def __init__(self, flow: Flow, raced: frozenset[int]) -> None:
        self._flow = flow
        self._edges = flow.definition.edges
        self._nodes = flow.definition.nodes
        self._any = frozenset(n for n, node in enumerate(self._nodes) if node.join)
        self._handled = frozenset(
            n
            for n, node in enumerate(self._nodes)
            if not node.optional
            and n not in raced
            and any(self._edges[e].loop_max is None for e in self._on_failure(n))
        )
        self._left = SEARCH_MAX

    def problems(self) -> Iterator[Problem]:
        if not self._handled:
            return
        for join, node in enumerate(self._nodes):
            if node.join or len(self._flow.ins[join]) < 2 or self._left <= 0:
                continue
            cut = self._cut(join)
            if cut is None:
                continue
            name, missed = self._flow.name(cut[0]), self._flow.name(self._edges[cut[1]].source)
            yield Problem(
                "failure_cuts_join",
                (join, cut[0]),
                (cut[1],),
                f"`{node.id}` is skipped when `{name}` fails, even if `{missed}` succeeds",
                f"lead the failure branch of `{name}` to `{node.id}` if it is to run all the same",
                warning=True,
            )

    def _cut(self, join: int) -> tuple[int, int] | None:
        """The first node that cuts this join off, with the in-edge that may be taken in vain."""
        flow = self._flow
        above = flow.dominators.parent[join]
        region = flow.between(above, join, barred=self._any)
        self._left -= len(region)
        for node in sorted(region & self._handled):
            if self._left <= 0:
                return None
            repaired = self._leads_to(
                [self._edges[n].target for n in self._on_failure(node) if self._is_forward(n)],
                region,
            )
            if join in repaired:
                continue
            led = self._leads_to([node], region) | {node}
            for number in flow.ins[join]:
                self._left -= 1
                source = self._edges[number].source
                is_led = source == node or (source in led and source not in self._any)
                if not is_led and not self._exclude(node, source, number):
                    return node, number
        return None

    def _leads_to(self, sources: Sequence[int], region: Collection[int]) -> set[int]:
        """What the sources lead to inside the region, or just behind it, not through any/count joins."""
        found = set(sources)
        work = list(found)
        first = set(sources) & self._handled
        while work:
            node = work.pop()
            if node not in region or (node in self._any and node not in first):
                continue
            for number in self._flow.outs[node]:
                target = self._edges[number].target
                self._left -= 1
                if self._is_forward(number) and target not in found:
                    found.add(target)
                    work.append(target)
        return found

    def _exclude(self, node: int, source: int, number: int) -> bool:
        """Whether one decision keeps `node` and the in-edge `number` of `source` from happening both.

        Only the plain case is seen: the last node before both decides, and each branch has no other way in.
        """
        tree = self._flow.dominators
        meet = source
        while not tree.dominates(meet, node):
            meet = tree.parent[meet]
            self._left -= 1
        if meet in (self._flow.start, node):
            return False
        left = self._branch(meet, node)
        right = [number] if source == meet else self._branch(meet, source)
        return bool(left and right) and all(
            self._are_rivals(meet, a, b) for a in left for b in right
        )

    def _branch(self, meet: int, node: int) -> list[int]:
        """Edges by which `meet` leads to the branch of `node`; empty if others lead into it too."""
        tree = self._flow.dominators
        while tree.parent[node] != meet:
            node = tree.parent[node]
            self._left -= 1
        ins = self._flow.ins[node]
        return list(ins) if all(self._edges[n].source == meet for n in ins) else []

    def _are_rivals(self, node: int, a: int, b: int) -> bool:
        on = {self._edges[a].on, self._edges[b].on}
        if on == {On.SUCCESS, On.FAILURE}:
            return True
        if a == b:
            return False
        if on == {On.FAILURE}:
            return self._edges[a].otherwise != self._edges[b].otherwise
        return on == {On.SUCCESS} and self._nodes[node].type is NodeType.SWITCH

    def _on_failure(self, node: int) -> list[int]:
        return failure_group(self._flow.definition, self._flow.outs[node])

    def _is_forward(self, number: int) -> bool:
        return self._edges[number].loop_max is None


# --- end_while_parallel --------------------------------------------------------------------------------


def _ends_while_parallel(flow: Flow) -> Iterator[Problem]:
    definition, tree = flow.definition, flow.dominators
    beside: dict[int, tuple[int, int] | None] = {flow.start: None}
    for end, node in enumerate(definition.nodes):
        if node.type is not NodeType.END:
            continue
        path = [end]
        while path[-1] not in beside:
            path.append(tree.parent[path[-1]])
        for at in reversed(path[:-1]):
            above = tree.parent[at]
            beside[at] = beside[above] or _side_branch(flow, above, at)
        found = beside[end]
        if found is not None:
            start, other = found
            where = "from the start" if start == flow.start else f"after `{flow.name(start)}`"
            yield Problem(
                "end_while_parallel",
                (end, other),
                (),
                f"`{node.id}` ends the run while `{flow.name(other)}` may still be running {where}, and cancels it",
                f"let both meet in a join before `{node.id}`",
                warning=True,
            )


def _side_branch(flow: Flow, above: int, below: int) -> tuple[int, int] | None:
    """A node at or under `above` that starts something beside the way to `below`, and what it starts.

    `below` is a child of `above` in the dominator tree, so all ways to it lie between the two. A `join: all` collects
    what starts on them; an any/count join leaves the losers running unless it cancels them.
    """
    edges = flow.definition.edges
    it = flow.definition.nodes[below]
    region = flow.between(above, below)
    inside = region | {below}
    if above == flow.start:
        roots = [node for node in flow.order if not flow.ins[node]]
        groups = [(above, [(node, node in inside) for node in roots])]
    else:
        groups = []
    for node in sorted(region | ({above} - {flow.start})):
        for group in parallel_groups(flow.definition, node, flow.outs[node]):
            forward = [edges[n].target for n in group if edges[n].loop_max is None]
            groups.append((node, [(target, target in inside) for target in forward]))
    for node, targets in groups:
        staying = [target for target, stays in targets if stays]
        leaving = [target for target, stays in targets if not stays]
        if staying and leaving:
            return node, leaving[0]
        if len(staying) > 1 and it.join and not it.cancel_losers:
            return node, next((target for target in staying if target != below), below)
    return None
