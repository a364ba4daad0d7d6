"""A graph as text for a terminal: node by node in layers, each with the edges that leave it. Knows no states.

    1  charge    http POST
         → both
    2  both      join all
         → ship        nodes.charge.output.status < 300
         ↩ charge      failure · loop ≤ 3

What a `do:` holds stands indented below its node.
"""

from __future__ import annotations

from collections.abc import Iterator

from tenuto.model.definition import Detail, Handler
from tenuto.model.graph import Graph
from tenuto.views.words import edge_words, graph_inside, handler_words, node_words

_FORWARD, _BACK, _UNDO = "→", "↩", "↶"
_WIDE = 40
"""Columns that are aligned at most; a longer id moves its own line only."""


def graph_text(graph: Graph) -> str:
    """Draw a graph; deterministic."""
    definition = graph.definition
    nodes, edges = len(definition.nodes), len(definition.edges)
    head = f"{definition.name}: {_count(nodes, 'node')}, {_count(edges, 'edge')}"
    return "\n".join([head, "", *_lines(graph), *_last(graph)]) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    nodes = graph.definition.nodes
    layers = _layers(graph)
    numbers = len(str(max(layers)))
    wide = min(max(len(node.id) for node in nodes), _WIDE)
    below = " " * (numbers + 4)
    shown = 0
    for number in sorted(graph.order, key=lambda node: (layers[node], node)):
        node, layer = nodes[number], layers[number]
        row = f"{layer if layer != shown else '':>{numbers}}  {node.id:<{wide}}  {node_words(node)}"
        shown = layer
        marks = ["optional"] if node.optional else []
        if node.join and node.type != "join":
            marks.append(f"join {'any' if node.join == 1 else node.join}")
        if node.cancel_losers:
            marks.append("cancels the losers")
        yield ", ".join([row.rstrip(), *marks])
        for line in _inside(graph, node.detail):
            yield f"{below}{line}"
        if node.compensate is not None:
            for line in _handler(graph, node.compensate, f"{_UNDO} undone by"):
                yield f"{below}{line}"
        for edge in (graph.definition.edges[at] for at in graph.outs[number]):
            arrow = _FORWARD if edge.loop_max is None else _BACK
            words = edge_words(edge)
            target = nodes[edge.target].id
            yield f"{below}{arrow} {target:<{wide}}  {words}".rstrip()


def _inside(graph: Graph, detail: Detail) -> Iterator[str]:
    """The graph of a `do:`, behind a line that holds it together."""
    inner = graph_inside(graph, detail)
    if inner is not None:
        yield from (f"│ {line}" for line in _lines(inner))


def _handler(graph: Graph, handler: Handler, how: str) -> Iterator[str]:
    yield f"{how} {handler_words(handler)}"
    yield from _inside(graph, handler.detail)


def _last(graph: Graph) -> Iterator[str]:
    handler = graph.definition.on_failure
    if handler is not None:
        yield ""
        yield from _handler(graph, handler, "after a failure:")


def _layers(graph: Graph) -> list[int]:
    """How many nodes the longest way to each has; back edges are no way."""
    layers = [1] * len(graph.definition.nodes)
    for number in graph.order:
        for edge in (graph.definition.edges[at] for at in graph.outs[number]):
            if edge.loop_max is None:
                layers[edge.target] = max(layers[edge.target], layers[number] + 1)
    return layers


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
