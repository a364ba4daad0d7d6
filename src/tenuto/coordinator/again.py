"""What of a final run could be retried inside: the facts that a retry needs (SEMANTICS R1). Reads only."""

from __future__ import annotations

from tenuto.coordinator.graphs import Graphs
from tenuto.coordinator.waiting import Again
from tenuto.machine.plan import plan_retry, wanted
from tenuto.machine.snapshot import Snapshot
from tenuto.model.errors import NotFound
from tenuto.model.graph import Graph
from tenuto.model.ids import Place, RunId, parts_of
from tenuto.model.states import TaskState
from tenuto.ports.store import LoadRequest, Store


async def find_again(
    store: Store, graphs: Graphs, run_id: RunId, graph: Graph, snapshot: Snapshot
) -> Again:
    """Items that did not succeed, of each foreach that could be retried inside, and calls whose child allows a retry.

    Raises Unavailable.
    """
    lists, calls = wanted(graph, snapshot)
    if not lists and not calls:
        return Again()
    loaded = await store.load(
        LoadRequest(
            items=tuple((run_id, place) for place in lists),
            children=tuple((run_id, place) for place in calls),
        )
    )
    items = []
    for place in lists:
        node = parts_of(place).node
        begun = snapshot.items[graph.numbers[node]].next
        done = {
            row.index
            for row in loaded.items.get((run_id, place), ())
            if row.state == TaskState.SUCCESS
        }
        items.append((node, tuple(index for index in range(begun) if index not in done)))
    children = {place: child for (_, place), child in loaded.children.items()}
    return Again(tuple(items), await _allowing(store, graphs, children))


async def _allowing(
    store: Store, graphs: Graphs, children: dict[Place, RunId]
) -> tuple[tuple[Place, RunId], ...]:
    """Those children that allow a retry."""
    if not children:
        return ()
    runs = (await store.load(LoadRequest(runs=tuple(children.values())))).runs
    found = await graphs.fetch(dict.fromkeys(row.definition for row, _ in runs.values()))
    allowing = []
    for place, child in children.items():
        if child not in runs:
            continue
        row, snapshot = runs[child]
        graph = found[row.definition]
        if not isinstance(graph, NotFound) and plan_retry(graph, snapshot).refused is None:
            allowing.append((place, child))
    return tuple(allowing)
