"""What a retry or a replay does, told by node ids: for people, before and after. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tenuto.coordinator.waiting import Again
from tenuto.machine.plan import Plan
from tenuto.machine.snapshot import Items
from tenuto.model.graph import Graph
from tenuto.model.ids import parts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Node ids, in topological order.

    Attributes:
        first: what failed or was cut short, or the node to replay from; done again if its turn comes.
        unbegun: of `first`, those whose turn had not come when the run ended.
        nodes: what is in `first`, and all that follows from it.
        repeated: of them those that had succeeded: their work is done a second time.
        inside: foreach and call nodes that go on where they stood; `items`: how many items of each foreach,
            those included that had not begun; `listed`: of how many.
        anew: foreach and call nodes that start whole.
        kept: nodes that keep what they did.
        changed: kept nodes that have read an input which is another one now.
        called: waits whose `callback_key` was told to somebody by the run as it was: that call will not reach them.
        skipped: the node that is taken as done.
    """

    first: tuple[str, ...]
    nodes: tuple[str, ...]
    unbegun: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    items: tuple[tuple[str, int], ...] = ()
    listed: tuple[tuple[str, int], ...] = ()
    anew: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    skipped: str | None = None


def outlook_json(outlook: Outlook) -> dict[str, object]:
    """As JSON values."""
    return {
        "first": list(outlook.first),
        "unbegun": list(outlook.unbegun),
        "nodes": list(outlook.nodes),
        "repeated": list(outlook.repeated),
        "inside": list(outlook.inside),
        "items": dict(outlook.items),
        "listed": dict(outlook.listed),
        "anew": list(outlook.anew),
        "kept": list(outlook.kept),
        "changed": list(outlook.changed),
        "called": list(outlook.called),
        "skipped": outlook.skipped,
    }


def outlook_of(
    graph: Graph,
    plan: Plan,
    again: Again,
    *,
    skip: str | None = None,
    lists: Mapping[int, Items] | None = None,
) -> Outlook:
    """Name the nodes of a plan. A call goes on inside only if its child allows it.

    `lists`: how far each foreach is; of one that is taken up again, items that had not begun are done too.
    """
    nodes = graph.definition.nodes
    allowing = {parts_of(place).node for place, _ in again.children}
    allowing |= {node for node, _ in again.items}
    inside = tuple(n for n in plan.inside if nodes[n].id in allowing and nodes[n].id != skip)
    refused = [n for n in plan.inside if n not in inside and nodes[n].id != skip]
    redone = set(plan.nodes)
    known = lists or {}
    taken_up = [(node, indexes) for node, indexes in again.items if node != skip]

    def ids(numbers: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(nodes[n].id for n in numbers)

    def unbegun(node: str) -> int:
        items = known.get(graph.numbers[node])
        return 0 if items is None else items.listed - items.next

    return Outlook(
        first=ids(plan.first),
        unbegun=ids(plan.unbegun),
        nodes=ids(plan.nodes),
        repeated=ids(plan.repeated),
        inside=ids(inside),
        items=tuple((node, len(indexes) + unbegun(node)) for node, indexes in taken_up),
        listed=tuple(
            (node, known[number].listed)
            for node, _ in taken_up
            if (number := graph.numbers[node]) in known
        ),
        anew=ids(tuple(sorted((*plan.anew, *refused), key=graph.rank.__getitem__))),
        kept=ids(tuple(n for n in graph.order if n not in redone)),
        changed=ids(plan.changed),
        called=ids(plan.called),
        skipped=skip,
    )
