"""What nodes and edges of a graph are called in pictures: a few words for each, the same in all of them."""

from __future__ import annotations

import json

from tenuto.model.definition import (
    Amount,
    Call,
    Detail,
    Edge,
    Emit,
    End,
    Fail,
    Foreach,
    Handler,
    Name,
    Node,
    On,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.expressions import Expression
from tenuto.model.graph import Graph
from tenuto.model.instants import format_duration, format_instant


def node_words(node: Node) -> str:
    """What a node does, in a few words."""
    detail = node.detail
    match detail:
        case Work() if detail.name == node.id:
            return "task"
        case Call(name=name) if name == node.id:
            return "call" if detail.wait else "call, goes on"
        case None if node.type == "join" or node.join:
            return f"{node.type} {join_words(node)}"
        case None:
            return str(node.type)
        case _:
            return _words(detail) or str(node.type)


def handler_words(handler: Handler) -> str:
    """What a handler does."""
    return f"{_words(handler.detail)}{' (also when only started)' if handler.started else ''}"


def join_words(node: Node) -> str:
    """How many tokens a node waits for."""
    return "all" if node.join == 0 else "any" if node.join == 1 else str(node.join)


def edge_words(edge: Edge) -> str:
    """When an edge is taken; empty for a plain one."""
    parts = []
    if edge.on is not On.SUCCESS:
        parts.append(str(edge.on))
    if edge.when is not None:
        parts.append(" ".join(edge.when.text.split()))
    if edge.otherwise:
        parts.append("else")
    if edge.loop_max is not None:
        parts.append(f"loop ≤ {edge.loop_max}")
    return " · ".join(parts)


def graph_inside(graph: Graph, detail: Detail) -> Graph | None:
    """The graph that stands in a node's `do:`, or in a handler's."""
    body = detail.body if isinstance(detail, Foreach) else detail
    if isinstance(body, Call) and body.inline is not None:
        return graph.inlines[body.inline]
    return None


def _words(detail: Detail) -> str:
    match detail:
        case Work(name="http"):
            return f"http {_word(detail, 'method')}".rstrip()
        case Work(name="code"):
            return f"code {_word(detail, 'language')}".rstrip()
        case Work():
            return f"task {_name(detail.name)}"
        case Call():
            called = "do" if detail.name is None else _name(detail.name)
            return f"call {called}" if detail.wait else f"call {called}, goes on"
        case Foreach():
            return _foreach(detail)
        case Wait(for_us=None, until_at=at):
            return f"waits until {_instant(at)}"
        case Wait(for_us=length):
            return f"waits {_length(length)}"
        case WaitForEvent():
            return f"event {_name(detail.event)}"
        case Emit():
            return f"emit {_name(detail.event)}"
        case Fail():
            return f"fail {detail.code}"
        case End(cancelled=True):
            return "end, cancelled"
        case _:
            return ""


def _foreach(foreach: Foreach) -> str:
    if foreach.over is not None:
        of = " ".join(foreach.over.text.split())
    else:
        assert foreach.source is not None
        of = f"pages of {_name(foreach.source.name)}"
    return f"foreach {of}: {_words(foreach.body)}"


def _name(name: Name | None) -> str:
    """A name; of a computed one its text."""
    if isinstance(name, Expression):
        text: object = json.loads(name.text)
        return str(text)
    return name or ""


def _length(length: Amount | None) -> str:
    return format_duration(length) if isinstance(length, int) else _amount(length)


def _instant(at: Amount | None) -> str:
    return format_instant(at)[:16].replace("T", " ") if isinstance(at, int) else _amount(at)


def _amount(computed: Expression | None) -> str:
    return str(json.loads(computed.text)) if computed is not None else ""


def _word(work: Work, key: str) -> str:
    """A plain word of a worker's input, empty where it is something else or a template."""
    given = json.loads(work.input.text)
    word = given.get(key, "") if isinstance(given, dict) else ""
    return word if isinstance(word, str) and word.isalpha() else ""
