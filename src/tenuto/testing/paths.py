"""In which order the nodes of a run ended: its history folded once more, step by step. Reads nothing itself."""

from __future__ import annotations

from collections.abc import Iterable

from tenuto.machine.events import Event
from tenuto.machine.fold import Ledger, fold_steps
from tenuto.model.expressions import Outcome
from tenuto.model.graph import Graph
from tenuto.model.ids import RunId
from tenuto.model.states import NodeLetter

_ENDED = (NodeLetter.SUCCESS, NodeLetter.DEAD)


def path_of(
    run_id: RunId, graph: Graph, history: Iterable[tuple[Event, tuple[Outcome, ...]]]
) -> list[str]:
    """Nodes that ended as success or dead, in the order of their ends, once for each pass of a loop."""
    nodes = graph.definition.nodes
    return [
        nodes[number].id
        for decision in fold_steps(run_id, graph, history, Ledger())
        for number, letter in decision.ends
        if letter in _ENDED
    ]
