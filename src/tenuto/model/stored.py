"""The stored form of a graph, and the hash of what a definition means. No analysis: a stored graph loads by reading.

The text is JSON, `{"v": 1, "definition": …, "structure": …}`; expressions carry the names that they read, so loading
needs no CEL. `Definition.source` is not in it: the text that a user wrote is stored beside it.

The form is sparse where it grew: what a definition does not use of the later language is not written, so the texts and
hashes of older definitions stay what they are. An expression is a list, a fixed value never is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

from tenuto.model.definition import (
    Amount,
    Call,
    Definition,
    Detail,
    Edge,
    Emit,
    End,
    Fail,
    Foreach,
    Handler,
    Node,
    NodeType,
    On,
    SetValue,
    Tolerance,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.graph import Graph, Loop, Structure, index
from tenuto.model.instants import DAY_US
from tenuto.model.retry import Jitter, RetryPolicy, RetryRule

VERSION = 1
_FIRST_SEMANTICS = 1
"""Of a stored graph that does not say by which rules it runs."""


def encode_graph(graph: Graph) -> str:
    """Write a graph as ASCII JSON. The same graph gives the same text."""
    definition = _definition(graph.definition, _expression)
    stored = {"v": VERSION, "definition": definition, "structure": _structure(graph)}
    if graph.definition.semantics != _FIRST_SEMANTICS:
        stored["semantics"] = graph.definition.semantics
    return _text(stored)


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
        semantics = stored.get("semantics", _FIRST_SEMANTICS)
        return _read_graph(_read_definition(stored["definition"], semantics), stored["structure"])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise InvariantViolated(f"a stored graph cannot be read: {error!r}") from error


def content_hash(definition: Definition) -> str:
    """Name what a definition means: sha256, 64 hex digits.

    In: the name, every node and edge in order, texts of expressions, clocks, schema, constants, and the version of the
    rules. Out: source, description, and what is derived from an expression's text or place.
    """
    meaning = _definition(definition, lambda expression: [expression.kind, expression.text])
    del meaning["description"]
    text = _text({"semantics": definition.semantics, "definition": meaning})
    return hashlib.sha256(text.encode("ascii")).hexdigest()


# --- writing -----------------------------------------------------------------------------------------

_WriteExpression = Callable[[Expression], list[Any]]


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _expression(expression: Expression) -> list[Any]:
    reads = [[read.root, read.node, read.field] for read in expression.reads]
    return [expression.kind, expression.text, expression.where, reads]


def _structure(graph: Graph) -> dict[str, Any]:
    structure: dict[str, Any] = {
        "order": graph.order,
        "loops": [
            [
                *(loop.header, sorted(loop.body), loop.back, loop.max, loop.parent, loop.exits),
                *_unless_none(loop.keep),
            ]
            for loop in graph.loops
        ],
        "races": [[join, sorted(race)] for join, race in sorted(graph.races.items())],
    }
    if graph.inlines:
        structure["inlines"] = [_structure(inner) for inner in graph.inlines]
    return structure


def _definition(definition: Definition, write: _WriteExpression) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": definition.name,
        "description": definition.description,
        "vars": definition.vars,
        "input_schema": definition.input_schema,
        "timeout_us": definition.timeout_us,
        "output": _value(definition.output, write),
        "nodes": [
            [
                *(node.id, node.type, node.join, node.cancel_losers, node.optional),
                _detail(node.detail, write),
                *_unless_none(_handler(node.compensate, write)),
            ]
            for node in definition.nodes
        ],
        "edges": [
            [
                *(edge.source, edge.target, edge.on, _value(edge.when, write)),
                *(edge.otherwise, edge.loop_max),
                *_unless_none(edge.loop_keep),
            ]
            for edge in definition.edges
        ],
    }
    if definition.on_failure is not None:
        written["on_failure"] = _handler(definition.on_failure, write)
    if definition.closing_timeout_us != DAY_US:
        written["closing_timeout_us"] = definition.closing_timeout_us
    if definition.inlines:
        written["inlines"] = [_definition(inner, write) for inner in definition.inlines]
    if definition.inline:
        written["inline"] = True
    return written


def _unless_none(value: object) -> tuple[Any, ...]:
    """A last element that older forms do not have."""
    return () if value is None else (value,)


def _value(value: Expression | str | int | None, write: _WriteExpression) -> Any:
    """What is fixed as it is, what is computed as a list."""
    return write(value) if isinstance(value, Expression) else value


def _retry(policy: RetryPolicy, write: _WriteExpression) -> list[Any]:
    more: dict[str, Any] = {}
    if policy.rules:
        more["rules"] = [
            [
                *(rule.on, rule.max_attempts, _value(rule.when, write)),
                *(rule.initial_us, rule.factor, rule.max_us, rule.jitter),
            ]
            for rule in policy.rules
        ]
    if policy.total is not None:
        more["total"] = policy.total
    if policy.give_up_on:
        more["give_up_on"] = policy.give_up_on
    return [
        *(policy.max_attempts, policy.initial_us, policy.factor, policy.max_us, policy.jitter),
        *_unless_none(more or None),
    ]


def _handler(handler: Handler | None, write: _WriteExpression) -> list[Any] | None:
    if handler is None:
        return None
    return [handler.type, handler.started, _detail(handler.detail, write)]


def _detail(detail: Detail, write: _WriteExpression) -> dict[str, Any] | None:
    """Fields by name, with the shape's name as `is`."""
    match detail:
        case None:
            return None
        case Work():
            return {
                "is": "work",
                "name": _value(detail.name, write),
                "input": write(detail.input),
                "queue": _value(detail.queue, write),
                "priority": 0 if detail.priority is None else _value(detail.priority, write),
                **({"zero": True} if detail.priority == 0 else {}),
                "retry": _retry(detail.retry, write),
                "timeout_us": _value(detail.timeout_us, write),
                "total_timeout_us": _value(detail.total_timeout_us, write),
                "queue_timeout_us": _value(detail.queue_timeout_us, write),
                "heartbeat_timeout_us": _value(detail.heartbeat_timeout_us, write),
            }
        case Call():
            return {
                "is": "call",
                "name": _value(detail.name, write),
                "inline": detail.inline,
                "input": write(detail.input),
                "output": _value(detail.output, write),
                "wait": detail.wait,
                "retry": _retry(detail.retry, write),
                "timeout_us": _value(detail.timeout_us, write),
                "total_timeout_us": _value(detail.total_timeout_us, write),
            }
        case Foreach():
            return _foreach(detail, write)
        case Wait():
            return {
                "is": "wait",
                "for_us": _value(detail.for_us, write),
                "until_at": _value(detail.until_at, write),
            }
        case WaitForEvent():
            written = {
                "is": "wait_for_event",
                "event": _value(detail.event, write),
                "key": _value(detail.key, write),
                "timeout_us": _value(detail.timeout_us, write),
            }
            later = {
                "match": _value(detail.match, write),
                "fail_when": _value(detail.fail_when, write),
                "heartbeat_timeout_us": _value(detail.heartbeat_timeout_us, write),
            }
            return written | {key: value for key, value in later.items() if value is not None}
        case SetValue():
            return {"is": "set", "value": write(detail.value)}
        case Emit():
            return {
                "is": "emit",
                "event": _value(detail.event, write),
                "key": write(detail.key),
                "payload": write(detail.payload),
                "keep_us": _value(detail.keep_us, write),
            }
        case Fail():
            return {
                "is": "fail",
                "code": detail.code,
                "message": _value(detail.message, write),
                "details": _value(detail.details, write),
            }
        case End():
            return {
                "is": "end",
                "cancelled": detail.cancelled,
                "output": _value(detail.output, write),
            }
        case _:
            assert_never(detail)


def _foreach(detail: Foreach, write: _WriteExpression) -> dict[str, Any]:
    tolerate = detail.tolerate
    return {
        "is": "foreach",
        "body": _detail(detail.body, write),
        "over": _value(detail.over, write),
        "source": _detail(detail.source, write),
        "concurrency": _value(detail.concurrency, write),
        "tolerate": {"count": tolerate.count, "percent": tolerate.percent}
        if isinstance(tolerate, Tolerance)
        else write(tolerate),
        "batch": _value(detail.batch, write),
        "total_timeout_us": _value(detail.total_timeout_us, write),
    }


# --- reading -----------------------------------------------------------------------------------------


def _read_graph(definition: Definition, stored: Mapping[str, Any]) -> Graph:
    inlines = [
        _read_graph(inner, below)
        for inner, below in zip(definition.inlines, stored.get("inlines", ()), strict=True)
    ]
    return index(definition, _read_structure(stored), tuple(inlines))


def _read_definition(stored: Mapping[str, Any], semantics: int) -> Definition:
    return Definition(
        name=stored["name"],
        description=stored["description"],
        vars=stored["vars"],
        input_schema=stored["input_schema"],
        timeout_us=stored["timeout_us"],
        output=_read_optional(stored["output"]),
        nodes=tuple(_read_node(*node) for node in stored["nodes"]),
        edges=tuple(_read_edge(*edge) for edge in stored["edges"]),
        on_failure=_read_handler(stored.get("on_failure")),
        closing_timeout_us=stored.get("closing_timeout_us", DAY_US),
        inlines=tuple(_read_definition(each, semantics) for each in stored.get("inlines", ())),
        inline=stored.get("inline", False),
        semantics=semantics,
    )


def _read_node(
    id: str,
    type: str,
    join: int,
    cancel_losers: bool,  # noqa: FBT001 - elements of a row
    optional: bool,  # noqa: FBT001
    detail: Mapping[str, Any] | None,
    compensate: Sequence[Any] | None = None,
) -> Node:
    handler = _read_handler(compensate)
    return Node(id, NodeType(type), _read_detail(detail), join, cancel_losers, optional, handler)


def _read_edge(
    source: int,
    target: int,
    on: str,
    when: Sequence[Any] | None,
    otherwise: bool,  # noqa: FBT001 - an element of a row
    loop_max: int | None,
    loop_keep: int | None = None,
) -> Edge:
    return Edge(source, target, On(on), _read_optional(when), otherwise, loop_max, loop_keep)


def _read_structure(stored: Mapping[str, Any]) -> Structure:
    return Structure(
        order=tuple(stored["order"]),
        loops=tuple(
            Loop(header, frozenset(body), tuple(back), max, parent, tuple(exits), *keep)
            for header, body, back, max, parent, exits, *keep in stored["loops"]
        ),
        races={join: frozenset(race) for join, race in stored["races"]},
    )


def _read_expression(stored: Sequence[Any]) -> Expression:
    kind, text, where, reads = stored
    found = tuple(Read(Root(root), node, field) for root, node, field in reads)
    return Expression(ExpressionKind(kind), text, where, found)


def _read_optional(stored: Sequence[Any] | None) -> Expression | None:
    return None if stored is None else _read_expression(stored)


def _read_value(stored: Any) -> Any:
    """A fixed value, or an expression."""
    return _read_expression(stored) if isinstance(stored, list) else stored


def _read_retry(stored: Sequence[Any]) -> RetryPolicy:
    attempts, initial_us, factor, max_us, jitter, *rest = stored
    more: Mapping[str, Any] = rest[0] if rest else {}
    return RetryPolicy(
        *(attempts, initial_us, factor, max_us, Jitter(jitter)),
        rules=tuple(_read_rule(*rule) for rule in more.get("rules", ())),
        total=more.get("total"),
        give_up_on=tuple(more.get("give_up_on", ())),
    )


def _read_rule(
    on: Sequence[str],
    max_attempts: int,
    when: Sequence[Any] | None,
    initial_us: int,
    factor: float,
    max_us: int,
    jitter: str,
) -> RetryRule:
    clocks = (initial_us, factor, max_us, Jitter(jitter))
    return RetryRule(tuple(on), max_attempts, _read_optional(when), *clocks)


def _read_handler(stored: Sequence[Any] | None) -> Handler | None:
    if stored is None:
        return None
    type, started, written = stored
    detail = _read_detail(written)
    if not isinstance(detail, Work | Call | Emit):
        raise ValueError(f"no such handler: {written!r}")  # noqa: TRY004 - of a stored text, not of a type
    return Handler(NodeType(type), detail, started)


def _read_detail(stored: Mapping[str, Any] | None) -> Detail:
    if stored is None:
        return None
    match stored["is"]:
        case "work":
            return _read_work(stored)
        case "call":
            return _read_call(stored)
        case "foreach":
            return _read_foreach(stored)
        case "wait":
            return Wait(_read_value(stored["for_us"]), _read_value(stored["until_at"]))
        case "wait_for_event":
            return WaitForEvent(
                _read_value(stored["event"]),
                _read_optional(stored["key"]),
                _read_value(stored["timeout_us"]),
                _read_optional(stored.get("match")),
                _read_optional(stored.get("fail_when")),
                _read_value(stored.get("heartbeat_timeout_us")),
            )
        case "set":
            return SetValue(_read_expression(stored["value"]))
        case "emit":
            return Emit(
                _read_value(stored["event"]),
                _read_expression(stored["key"]),
                _read_expression(stored["payload"]),
                _read_value(stored["keep_us"]),
            )
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


def _read_work(stored: Mapping[str, Any]) -> Work:
    return Work(
        name=_read_value(stored["name"]),
        input=_read_expression(stored["input"]),
        queue=_read_value(stored["queue"]),
        priority=_read_priority(stored),
        retry=_read_retry(stored["retry"]),
        timeout_us=_read_value(stored["timeout_us"]),
        total_timeout_us=_read_value(stored["total_timeout_us"]),
        queue_timeout_us=_read_value(stored["queue_timeout_us"]),
        heartbeat_timeout_us=_read_value(stored["heartbeat_timeout_us"]),
    )


def _read_priority(stored: Mapping[str, Any]) -> Amount | None:
    """0 alone stands for none, as it did before runs had a priority: so the hashes of older definitions stay."""
    priority: Amount = _read_value(stored["priority"])
    return None if priority == 0 and not stored.get("zero", False) else priority


def _read_call(stored: Mapping[str, Any]) -> Call:
    return Call(
        name=_read_value(stored["name"]),
        inline=stored["inline"],
        input=_read_expression(stored["input"]),
        output=_read_optional(stored["output"]),
        wait=stored["wait"],
        retry=_read_retry(stored["retry"]),
        timeout_us=_read_value(stored["timeout_us"]),
        total_timeout_us=_read_value(stored["total_timeout_us"]),
    )


def _read_foreach(stored: Mapping[str, Any]) -> Foreach:
    body = _read_work if stored["body"]["is"] == "work" else _read_call
    tolerate = stored["tolerate"]
    return Foreach(
        body=body(stored["body"]),
        over=_read_optional(stored["over"]),
        source=None if stored["source"] is None else _read_work(stored["source"]),
        concurrency=_read_value(stored["concurrency"]),
        tolerate=Tolerance(**tolerate)
        if isinstance(tolerate, dict)
        else _read_expression(tolerate),
        batch=_read_value(stored["batch"]),
        total_timeout_us=_read_value(stored["total_timeout_us"]),
    )
