"""What nodes, handlers and edges are called in pictures."""

from __future__ import annotations

import pytest
from tests.unit.views.whole import WHOLE, graph_of

from tenuto.views.picture import graph_svg
from tenuto.views.words import edge_words, graph_inside, handler_words, node_words


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ('type: wait, for: "${input.pause}"', "waits ${input.pause}"),
        ('type: wait, until: "${input.at}"', "waits until ${input.at}"),
        ("type: task, task: a", "task"),
        ("type: call, call: a", "call"),
        ("type: call, call: a, wait: false", "call, goes on"),
        ('type: call, call: "${input.name}"', "call ${input.name}"),
        ("type: call, do: {type: fork}", "call do"),
        (
            "type: foreach, over: input.l, do: {type: http, request: {url: 'http://h'}}",
            "foreach input.l: http",
        ),
        ("type: end, as: cancelled", "end, cancelled"),
        ("type: end", "end"),
        ("type: emit, event: paid, key: k", "emit paid"),
        ("type: join", "join all"),
    ],
)
def test_a_node_is_called_by_what_it_does(node: str, words: str) -> None:
    graph = graph_of(f"name: n\nnodes:\n  a: {{{node}}}\n")

    assert node_words(graph.definition.nodes[0]) == words


def test_edges_say_when_they_are_taken() -> None:
    words = [edge_words(edge) for edge in graph_of(WHOLE).definition.edges]

    assert words[:5] == ["", "failure · error.code == 'timeout'", "failure · else", "loop ≤ 3", ""]


def test_handlers_and_what_stands_inside() -> None:
    graph = graph_of(WHOLE)
    nodes = graph.definition.nodes

    assert nodes[0].compensate is not None
    assert handler_words(nodes[0].compensate) == "http DELETE (also when only started)"
    assert graph_inside(graph, nodes[1].detail) is graph.inlines[0]
    assert graph_inside(graph, nodes[2].detail) is None


def test_a_picture_marks_the_nodes_that_hold_a_graph() -> None:
    svg = graph_svg(graph_of(WHOLE))

    assert svg.count('class="sheet"') == 1
    assert "each: foreach input.list: call do, pending, 2 nodes inside" in svg
