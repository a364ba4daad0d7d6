"""What changed between two definitions: their texts line by line, their graphs node by node and edge by edge. Pure.

Values are shown as a definition writes them (`30s`, `${input.id}`), under the words that it has for them. A node of an
inline graph is called `outer/inner`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import unified_diff
from enum import Enum
from typing import Any

from tenuto.model.definition import (
    Call,
    Definition,
    Edge,
    Foreach,
    Handler,
    Node,
    NodeType,
    SetValue,
    Work,
)
from tenuto.model.expressions import Expression, ExpressionKind
from tenuto.model.instants import format_instant, write_duration
from tenuto.model.stored import content_hash
from tenuto.views.documents import Document

Said = dict[str, Any]
"""What a definition says, by the words that it has for it: `retry.max_attempts` -> 3."""

_WORDS = {"for_us": "for", "until_at": "until", "keep_us": "keep", "cancelled": "cancel"}
"""Fields that are called otherwise in a definition, beside those that only lose `_us`."""
_INPUTS = {NodeType.HTTP: "request", NodeType.CODE: ""}
"""Where the input of a worker's task stands; `params` of all others."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two. `label`: `order@3`, or a file's name; `source`: the text, which `definition` may not have."""

    label: str
    source: str
    definition: Definition


def diff_document(old: Side, new: Side) -> Document:
    """All that differs. `same`: they mean the same, whatever their texts look like."""
    before, after = _Whole(old.definition), _Whole(new.definition)
    return {
        "old": old.label,
        "new": new.label,
        "same": content_hash(old.definition) == content_hash(new.definition),
        "text": text_diff(old, new),
        "workflow": [*_changes(before.said, after.said), *_orders(before, after)],
        "nodes": {
            "added": [
                _node(id, said) for id, said in after.nodes.items() if id not in before.nodes
            ],
            "removed": [
                _node(id, said) for id, said in before.nodes.items() if id not in after.nodes
            ],
            "changed": [
                {**_node(id, said), "changes": found}
                for id, said in after.nodes.items()
                if id in before.nodes and (found := _changes(before.nodes[id], said))
            ],
        },
        "edges": {
            "added": [said for key, said in after.edges.items() if key not in before.edges],
            "removed": [said for key, said in before.edges.items() if key not in after.edges],
            "changed": [
                {**_ends(said), "changes": found}
                for key, said in after.edges.items()
                if key in before.edges and (found := _changes(before.edges[key], said))
            ],
        },
    }


def text_diff(old: Side, new: Side) -> list[str]:
    """The texts as `diff -u` compares them, without ends of lines."""
    return [
        line.rstrip("\n")
        for line in unified_diff(
            old.source.splitlines(keepends=True),
            new.source.splitlines(keepends=True),
            old.label,
            new.label,
        )
    ]


_Key = tuple[str, str, str, int]
"""Which edge is meant: from, to, on, and a number where several have the same."""


class _Whole:
    """A definition, its inline graphs included: what is said of the workflow, of each node and of each edge."""

    def __init__(self, definition: Definition) -> None:
        self.said = _workflow(definition)
        self.nodes: dict[str, Said] = {}
        self.edges: dict[_Key, Said] = {}
        self._add(definition, "")

    def _add(self, definition: Definition, above: str) -> None:
        for node in definition.nodes:
            said = self.nodes[above + node.id] = _said_of(node)
            for number in _inlines(node):
                inner = definition.inlines[number]
                if inner.output is not None:
                    said |= _plain(inner.output, "do.output")
                self._add(inner, f"{above}{node.id}/")
        for edge in definition.edges:
            said = _edge(edge, definition, above)
            number = 0
            while (key := (said["from"], said["to"], said["on"], number)) in self.edges:
                number += 1
            self.edges[key] = said


def _inlines(node: Node) -> Iterator[int]:
    """Numbers of the inline graphs that belong to a node."""
    bodies = [node.detail.body if isinstance(node.detail, Foreach) else node.detail]
    if node.compensate is not None:
        bodies.append(node.compensate.detail)
    for body in bodies:
        if isinstance(body, Call) and body.inline is not None:
            yield body.inline


def _orders(before: _Whole, after: _Whole) -> Iterator[Document]:
    """The order counts: of edges whose conditions hold the first is taken, of failures the first is told."""
    nodes = [[id for id in one.nodes if id in other.nodes] for one, other in _both(before, after)]
    edges = [
        [key for key in one.edges if key in other.edges] for one, other in _both(before, after)
    ]
    if nodes[0] != nodes[1]:
        yield {"what": "order of nodes", "old": nodes[0], "new": nodes[1]}
    if edges[0] != edges[1]:
        old, new = ([f"{key[0]} -> {key[1]}" for key in each] for each in edges)
        yield {"what": "order of edges", "old": old, "new": new}


def _both(before: _Whole, after: _Whole) -> tuple[tuple[_Whole, _Whole], ...]:
    return (before, after), (after, before)


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Document]:
    """What is not the same, in the newer's order; what is gone comes last, with null for its new value."""
    words = [*new, *(word for word in old if word not in new)]
    return [
        {"what": word, "old": old.get(word), "new": new.get(word)}
        for word in words
        if (word in old) != (word in new) or not _same(old[word], new[word])
    ]


def _same(old: object, new: object) -> bool:
    """Whether two JSON values are the same; `1`, `1.0` and `true` are not."""
    return json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)


def _node(id: str, said: Said) -> Document:
    return {"id": id, "type": said["type"]}


def _ends(said: Said) -> Document:
    return {"from": said["from"], "to": said["to"], "on": said["on"]}


# -- what is said -----------------------------------------------------------------------------------------------------


def _workflow(definition: Definition) -> Said:
    said: Said = {"name": definition.name, "description": definition.description}
    if definition.input_schema is not None:
        said["input"] = json.loads(definition.input_schema)
    said |= {f"vars.{name}": value for name, value in json.loads(definition.vars).items()}
    said |= _plain(definition.timeout_us, "timeout_us") | _plain(definition.output, "output")
    if definition.on_failure is not None:
        said |= _under("on_failure", _handler(definition.on_failure))
    said |= _plain(definition.closing_timeout_us, "closing_timeout_us")
    return said | {"semantics": definition.semantics}


def _said_of(node: Node) -> Said:
    said: Said = {"type": node.type.value, **_detail(node.type, node.detail)}
    if node.type is NodeType.JOIN or node.join:
        said["join"] = "all" if not node.join else "any" if node.join == 1 else node.join
    said |= {"cancel_losers": node.cancel_losers, "optional": node.optional}
    if node.compensate is not None:
        said |= _under("compensate", _handler(node.compensate))
    return said


def _handler(handler: Handler) -> Said:
    said = {"type": handler.type.value, **_detail(handler.type, handler.detail)}
    return said | ({"when": "started"} if handler.started else {})


def _detail(type: NodeType, detail: object) -> Said:
    match detail:
        case Work():
            return _work(_INPUTS.get(type, "params"), detail, named=type not in _INPUTS)
        case Call():
            named = detail.inline is None
            own = _fields(detail, but=("name", "inline", "input"))
            said = _plain(detail.name, "call") if named else {}
            return said | _plain(detail.input, "input" if named else "params") | own
        case Foreach():
            # A worker's task may stand in the foreach itself, or below `do`: that is the same.
            is_code = isinstance(detail.body, Work) and detail.body.name in ("http", "code")
            kind = NodeType(str(detail.body.name)) if is_code else NodeType.TASK
            said = {"do": kind.value} if is_code else {}
            own = _fields(detail, but=("body", "source"))
            if detail.source is not None:
                own |= _under("source", _work("params", detail.source, named=True))
            return said | _detail(kind, detail.body) | own
        case SetValue():
            return _plain(detail.value, "values")
        case None:
            return {}
        case _:
            return _fields(detail)


def _work(input: str, work: Work, *, named: bool) -> Said:
    said = _plain(work.name, "task") if named else {}
    if input:
        return said | _plain(work.input, input) | _fields(work, but=("name", "input"))
    program: Said = json.loads(work.input.text)
    params = program.pop("params", {})
    return program | _entries("params", params) | _fields(work, but=("name", "input"))


def _edge(edge: Edge, definition: Definition, above: str) -> Said:
    return {
        "from": above + definition.nodes[edge.source].id,
        "to": above + definition.nodes[edge.target].id,
        "on": edge.on.value,
        "when": None if edge.when is None else edge.when.text,
        "else": edge.otherwise,
        "loop": edge.loop_max,
        "keep": edge.loop_keep,
    }


# -- values as they are written ---------------------------------------------------------------------------------------


def _fields(shape: Any, but: Sequence[str] = ()) -> Said:
    said: Said = {}
    for each in fields(shape):
        if each.name not in but:
            said |= _plain(getattr(shape, each.name), each.name)
    return said


def _plain(value: object, field: str) -> Said:
    """A field's value under its word, or under several; nothing for None."""
    word = _WORDS.get(field, field.removesuffix("_us"))
    if value is None:
        return {}
    if isinstance(value, Expression):
        if value.kind is ExpressionKind.VALUE:
            return _entries(word, json.loads(value.text))
        return {word: value.text}
    if is_dataclass(value):
        return _under(word, _fields(value))
    if isinstance(value, tuple):
        return {word: [_fields(each) if is_dataclass(each) else each for each in value]}
    if isinstance(value, int) and not isinstance(value, bool):
        shown = {"_us": write_duration, "_at": format_instant}.get(field[-3:])
        return {word: value if shown is None else shown(value)}
    return {word: value.value if isinstance(value, Enum) else value}


def _entries(word: str, value: object) -> Said:
    """An object entry by entry."""
    if isinstance(value, dict) and value:
        return {f"{word}.{name}": each for name, each in value.items()}
    return {word: value}


def _under(word: str, said: Said) -> Said:
    return {f"{word}.{inner}": value for inner, value in said.items()}
