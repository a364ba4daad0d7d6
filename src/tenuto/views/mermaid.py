"""A graph as a Mermaid flowchart, which many wikis and repositories draw. Graphs of `do:` become subgraphs."""

from __future__ import annotations

from collections.abc import Iterator

from tenuto.model.definition import Node, NodeType, On
from tenuto.model.graph import Graph
from tenuto.views.words import edge_words, graph_inside, handler_words, node_words

_ESCAPED = str.maketrans(
    {
        '"': "#quot;",
        "#": "#35;",
        "<": "#lt;",
        ">": "#gt;",
        "&": "#amp;",
        "`": "#96;",
        "\\": "#92;",
        "|": "#124;",
        "\n": " ",
        "\r": " ",
    }
)
"""What would end a text, or mean more than itself in one, as Mermaid's own entities."""
_FRAMES = {
    NodeType.SWITCH: ("{", "}"),
    NodeType.FORK: ("{{", "}}"),
    NodeType.JOIN: ("{{", "}}"),
    NodeType.WAIT: ("([", "])"),
    NodeType.WAIT_FOR_EVENT: ("([", "])"),
    NodeType.END: ("((", "))"),
    NodeType.FAIL: ("[/", "/]"),
    NodeType.CALL: ("[[", "]]"),
    NodeType.FOREACH: ("[[", "]]"),
}
"""Type -> what stands around a text, which shapes the box; a rectangle for all others."""
_INDENT = "  "


def graph_mermaid(graph: Graph) -> str:
    """Draw a graph; deterministic."""
    lines = ["flowchart TD", *(_INDENT + line for line in _lines(graph, "n"))]
    handler = graph.definition.on_failure
    if handler is not None:
        lines.append(f"{_INDENT}on_failure[[{_text('after a failure', handler_words(handler))}]]")
    return "\n".join(lines) + "\n"


def _lines(graph: Graph, prefix: str) -> Iterator[str]:
    definition = graph.definition
    for number, node in enumerate(definition.nodes):
        yield from _node(graph, node, f"{prefix}{number}")
    for edge in definition.edges:
        arrow = "-.->" if edge.loop_max is not None or edge.on is On.FAILURE else "-->"
        words = edge_words(edge)
        label = f"|{_text(words)}|" if words else ""
        yield f"{prefix}{edge.source} {arrow}{label} {prefix}{edge.target}"


def _node(graph: Graph, node: Node, id: str) -> Iterator[str]:
    said = [node.id, node_words(node)]
    if node.compensate is not None:
        said.append(f"undone by {handler_words(node.compensate)}")
    inner = graph_inside(graph, node.detail)
    if inner is None:
        before, after = _FRAMES.get(node.type, ("[", "]"))
        yield f"{id}{before}{_text(*said)}{after}"
        return
    yield f"subgraph {id}[{_text(*said)}]"
    yield from (_INDENT + line for line in _lines(inner, f"{id}_"))
    yield "end"


def _text(*lines: str) -> str:
    """A quoted text of some lines."""
    return f'"{"<br/>".join(_escape(line) for line in lines)}"'


def _escape(text: str) -> str:
    shown = (each if each.isprintable() or each in "\n\r" else "\ufffd" for each in text)
    return "".join(shown).translate(_ESCAPED)
