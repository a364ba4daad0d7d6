"""The stored form of a graph, and the hash of what a definition means. No analysis: a stored graph loads by reading.

The text is JSON, `{"v": 1, "definition": …, "structure": …}`; expressions carry the names that they read, so loading
needs no CEL. `Definition.source` is not in it: the text that a user wrote is stored beside it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

from tenuto.model.definition import (
    SEMANTICS_VERSION,
    Definition,
    Detail,
    Edge,
    End,
    Fail,
    Node,
    NodeType,
    On,
    SetValue,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.graph import Graph, Loop, Structure, index
from tenuto.model.retry import Jitter, RetryPolicy

VERSION = 1


def encode_graph(graph: Graph) -> str:
    """Write a graph as ASCII JSON. The same graph gives the same text."""
    structure = {
        "order": graph.order,
        "loops": [
            [loop.header, sorted(loop.body), loop.back, loop.max, loop.parent, loop.exits]
            for loop in graph.loops
        ],
        "races": [[join, sorted(race)] for join, race in sorted(graph.races.items())],
    }
    definition = _definition(graph.definition, _expression)
    return _text({"v": VERSION, "definition": definition, "structure": structure})


def decode_graph(text: str) -> Graph:
    """Read what `encode_graph` wrote; `definition.source` is empty.

    Raises:
        InvariantViolated: not such a text, or of another version. We wrote it, so it is no user's fault.
    """
    try:
        stored = json.loads(text)
        version = stored["v"]
        if version != VERSION:
            raise InvariantViolated(f"a stored graph has version {version}, expected {VERSION}")
        return index(_read_definition(stored["definition"]), _read_structure(stored["structure"]))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise InvariantViolated(f"a stored graph cannot be read: {error!r}") from error


def content_hash(definition: Definition) -> str:
    """Name what a definition means: sha256, 64 hex digits.

    In: the name, every node and edge in order, texts of expressions, clocks, schema, constants, and the version of the
    rules. Out: source, description, and what is derived from an expression's text or place.
    """
    meaning = _definition(definition, lambda expression: [expression.kind, expression.text])
    del meaning["description"]
    text = _text({"semantics": SEMANTICS_VERSION, "definition": meaning})
    return hashlib.sha256(text.encode("ascii")).hexdigest()


# --- writing -----------------------------------------------------------------------------------------

_WriteExpression = Callable[[Expression], list[Any]]


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _expression(expression: Expression) -> list[Any]:
    reads = [[read.root, read.node, read.field] for read in expression.reads]
    return [expression.kind, expression.text, expression.where, reads]


def _definition(definition: Definition, write: _WriteExpression) -> dict[str, Any]:
    return {
        "name": definition.name,
        "description": definition.description,
        "vars": definition.vars,
        "input_schema": definition.input_schema,
        "timeout_us": definition.timeout_us,
        "output": _optional(definition.output, write),
        "nodes": [
            [
                node.id,
                node.type,
                node.join,
                node.cancel_losers,
                node.optional,
                _detail(node.detail, write),
            ]
            for node in definition.nodes
        ],
        "edges": [
            [
                edge.source,
                edge.target,
                edge.on,
                _optional(edge.when, write),
                edge.otherwise,
                edge.loop_max,
            ]
            for edge in definition.edges
        ],
    }


def _optional(expression: Expression | None, write: _WriteExpression) -> list[Any] | None:
    return None if expression is None else write(expression)


def _detail(detail: Detail, write: _WriteExpression) -> dict[str, Any] | None:
    """Fields by name, with the shape's name as `is`."""
    match detail:
        case None:
            return None
        case Work():
            return {
                "is": "work",
                "name": detail.name,
                "input": write(detail.input),
                "queue": detail.queue,
                "priority": detail.priority,
                "retry": [
                    detail.retry.max_attempts,
                    detail.retry.initial_us,
                    detail.retry.factor,
                    detail.retry.max_us,
                    detail.retry.jitter,
                ],
                "timeout_us": detail.timeout_us,
                "total_timeout_us": detail.total_timeout_us,
                "queue_timeout_us": detail.queue_timeout_us,
                "heartbeat_timeout_us": detail.heartbeat_timeout_us,
            }
        case Wait():
            return {"is": "wait", "for_us": detail.for_us, "until_at": detail.until_at}
        case WaitForEvent():
            return {
                "is": "wait_for_event",
                "event": detail.event,
                "key": write(detail.key),
                "timeout_us": detail.timeout_us,
            }
        case SetValue():
            return {"is": "set", "value": write(detail.value)}
        case Fail():
            return {
                "is": "fail",
                "code": detail.code,
                "message": _optional(detail.message, write),
                "details": _optional(detail.details, write),
            }
        case End():
            return {
                "is": "end",
                "cancelled": detail.cancelled,
                "output": _optional(detail.output, write),
            }
        case _:
            assert_never(detail)


# --- reading -----------------------------------------------------------------------------------------


def _read_definition(stored: Mapping[str, Any]) -> Definition:
    return Definition(
        name=stored["name"],
        description=stored["description"],
        vars=stored["vars"],
        input_schema=stored["input_schema"],
        timeout_us=stored["timeout_us"],
        output=_read_optional(stored["output"]),
        nodes=tuple(
            Node(id, NodeType(type), _read_detail(detail), join, cancel_losers, optional)
            for id, type, join, cancel_losers, optional, detail in stored["nodes"]
        ),
        edges=tuple(
            Edge(source, target, On(on), _read_optional(when), otherwise, loop_max)
            for source, target, on, when, otherwise, loop_max in stored["edges"]
        ),
    )


def _read_structure(stored: Mapping[str, Any]) -> Structure:
    return Structure(
        order=tuple(stored["order"]),
        loops=tuple(
            Loop(header, frozenset(body), tuple(back), max, parent, tuple(exits))
            for header, body, back, max, parent, exits in stored["loops"]
        ),
        races={join: frozenset(race) for join, race in stored["races"]},
    )


def _read_expression(stored: Sequence[Any]) -> Expression:
    kind, text, where, reads = stored
    found = tuple(Read(Root(root), node, field) for root, node, field in reads)
    return Expression(ExpressionKind(kind), text, where, found)


def _read_optional(stored: Sequence[Any] | None) -> Expression | None:
    return None if stored is None else _read_expression(stored)


def _read_detail(stored: Mapping[str, Any] | None) -> Detail:
    if stored is None:
        return None
    match stored["is"]:
        case "work":
            attempts, initial_us, factor, max_us, jitter = stored["retry"]
            return Work(
                name=stored["name"],
                input=_read_expression(stored["input"]),
                queue=stored["queue"],
                priority=stored["priority"],
                retry=RetryPolicy(attempts, initial_us, factor, max_us, Jitter(jitter)),
                timeout_us=stored["timeout_us"],
                total_timeout_us=stored["total_timeout_us"],
                queue_timeout_us=stored["queue_timeout_us"],
                heartbeat_timeout_us=stored["heartbeat_timeout_us"],
            )
        case "wait":
            return Wait(stored["for_us"], stored["until_at"])
        case "wait_for_event":
            return WaitForEvent(
                stored["event"], _read_expression(stored["key"]), stored["timeout_us"]
            )
        case "set":
            return SetValue(_read_expression(stored["value"]))
        case "fail":
            return Fail(
                stored["code"],
                _read_optional(stored["message"]),
                _read_optional(stored["details"]),
            )
        case "end":
            return End(stored["cancelled"], _read_optional(stored["output"]))
        case other:
            raise ValueError(f"no such detail: {other!r}")
