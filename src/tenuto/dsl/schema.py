"""The JSON Schema (2020-12) of definitions, for editors: made from the tables of keys that the reader goes by.

It says which keys stand where and what each may be. What the graph means, and what stands inside expressions, it does
not say: a text with `${…}` in it fits wherever one may be computed. Types of nodes are written in lower case here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import orjson

from tenuto.dsl import keys, limits
from tenuto.dsl.code import LANGUAGES
from tenuto.dsl.yaml import Json
from tenuto.model import names
from tenuto.model.definition import (
    CONCURRENCY_MAX,
    ITEMS_MAX,
    NODES_MAX,
    PRIORITY_MAX,
    WORKER_TYPES,
    NodeType,
    On,
)
from tenuto.model.retry import Jitter

Schema = dict[str, Json]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FILE = "definition.schema.json"

_REQUIRED: Mapping[NodeType, tuple[str, ...]] = {
    NodeType.HTTP: ("request",),
    NodeType.CODE: ("language", "code"),
    NodeType.TASK: ("task",),
    NodeType.WAIT_FOR_EVENT: ("event",),
    NodeType.SET: ("values",),
    NodeType.EMIT: ("event", "key"),
    NodeType.FAIL: ("code",),
}
_ONE_OF: Mapping[NodeType, tuple[tuple[str, ...], ...]] = {
    NodeType.CALL: (("call", "do"),),
    NodeType.FOREACH: (("over", "source"), ("do", "task", "call")),
    NodeType.WAIT: (("for", "until"),),
}
"""Of each group of keys exactly one stands there."""
_NOT_BESIDE: Mapping[NodeType, Mapping[str, tuple[str, ...]]] = {
    NodeType.CALL: {"do": ("input",), "call": ("params",)},
    NodeType.FOREACH: {"task": ("input", "output"), "call": ("params",), "do": ("input", "output")},
}
"""Key -> keys that have no meaning beside it."""


def definition_schema() -> Schema:
    """The whole schema."""
    return {
        "$schema": DIALECT,
        "title": "A Tenuto workflow",
        **_mapping(
            keys.TOP,
            required=("name", "nodes"),
            other={
                "name": _text(names.NAME),
                "description": {"type": "string"},
                "vars": _named({}, limits.ID),
                "input": {"type": "object", "description": "JSON Schema (2020-12) of the input"},
                "timeout": _ref("fixed_duration"),
                "closing_timeout": _ref("fixed_duration"),
                "defaults": _mapping(keys.WORK_KEYS),
                "on_failure": _ref("handler"),
                **_GRAPH,
            },
        ),
        "$defs": _definitions(),
    }


def schema_text() -> str:
    """The schema as it is published."""
    return orjson.dumps(definition_schema(), option=orjson.OPT_INDENT_2).decode() + "\n"


def _definitions() -> Schema:
    return {
        "template": {"type": "string", "pattern": r"(^|[^$])\$\{"},
        "span": _text(_DURATION, "such as 500ms or 1h30m; 0s for none"),
        "fixed_duration": _text(
            re.compile(f"(?=.*[1-9]){_DURATION.pattern}"), "such as 500ms or 1h30m"
        ),
        "duration": {"anyOf": [_ref("fixed_duration"), _ref("template")]},
        "moment": _text(_MOMENT, "RFC 3339 with an offset", or_computed=True),
        "condition": {
            "type": ["string", "boolean"],
            "description": "a CEL expression, without ${…}",
        },
        "expression": {"type": "string", "description": "a CEL expression, without ${…}"},
        "key": {"type": ["string", "integer"]},
        "params": {"anyOf": [{"type": "object"}, _ref("template")]},
        "nodes": {
            **_named(_ref("node"), limits.ID),
            "minProperties": 1,
            "maxProperties": NODES_MAX,
        },
        "node": {"oneOf": [_ref(str(type)) for type in NodeType]},
        "edge": {"anyOf": [{"type": "string", "pattern": r"^\s*\S+\s*->\s*\S+\s*$"}, _edge()]},
        "retry": _mapping(keys.RETRY),
        "rule": _mapping(keys.RULE, required=("max_attempts",)),
        "request": _request(),
        "source": _mapping(
            ("task", "params", *keys.WORK_KEYS),
            required=("task",),
            other={
                "params": {"anyOf": [{"type": "object"}, {"type": "string", "pattern": "cursor"}]}
            },
        ),
        "handler": {"oneOf": [_ref(f"{type}_handler") for type in keys.LEAF_TYPES]},
        "undo": {"oneOf": [_ref(f"{type}_undo") for type in keys.LEAF_TYPES]},
        "do": {"oneOf": [_graph(), *(_ref(f"{type}_alone") for type in NodeType)]},
        **{str(type): _node(type, (*keys.COMMON, *keys.OWN[type])) for type in NodeType},
        **{f"{type}_alone": _node(type, _alone(type)) for type in NodeType},
        **{f"{type}_handler": _node(type, _leaf(type)) for type in keys.LEAF_TYPES},
        **{
            f"{type}_undo": _node(type, (*_leaf(type), "when"), {"when": {"const": "started"}})
            for type in keys.LEAF_TYPES
        },
    }


def _node(
    type: NodeType, allowed: tuple[str, ...], means: Mapping[str, Json] | None = None
) -> Schema:
    other: Schema = {"type": {"const": str(type)}, **_TYPED.get(type, {}), **(means or {})}
    schema = _mapping(allowed, required=("type", *_REQUIRED.get(type, ())), other=other)
    groups: list[Json] = [
        {"oneOf": [{"required": [key]} for key in group]} for group in _ONE_OF.get(type, ())
    ]
    groups += [
        _when({"required": [key]}, others) for key, others in _NOT_BESIDE.get(type, {}).items()
    ]
    if type is NodeType.CALL:
        is_let_go: Schema = {"required": ["wait"], "properties": {"wait": {"const": False}}}
        groups.append(_when(is_let_go, ("output", "retry", "timeout", "total_timeout")))
    if type is NodeType.FOREACH:
        groups += _bodies()
    return {**schema, "allOf": groups} if groups else schema


def _when(condition: Schema, refused: Iterable[str], then: Schema | None = None) -> Schema:
    """Under a condition some keys have no meaning."""
    other = dict[str, Json].fromkeys(refused, False)
    return {"if": condition, "then": {"properties": {**other, **(then or {})}}}


def _bodies() -> list[Json]:
    """What a `do` of a foreach leaves to the keys beside it: a worker does the one node, a call is the item's run, and
    all else is a graph.
    """
    types = [str(type) for type in sorted(WORKER_TYPES)]
    works = _do_is({"properties": {"type": {"enum": [*types]}}})
    called: Schema = {"properties": {"type": {"const": "call"}, "wait": {"not": {"const": False}}}}
    calls = _do_is(called)
    no_worker = [key for key in keys.ITEM_KEYS if key not in keys.CHILD_KEYS]
    alone: Schema = {"do": {"properties": {"optional": False}}}
    return [
        _when({"required": ["call"]}, no_worker),
        _when(works, ("params",), alone),
        _when(calls, ("params",), alone),
        _when({"required": ["do"], "not": works}, no_worker),
        *(_not_twice(works, key) for key in keys.ITEM_KEYS),
        *(_not_twice(calls, key) for key in keys.CHILD_KEYS),
    ]


def _do_is(schema: Schema) -> Schema:
    return {"required": ["do"], "properties": {"do": {"required": ["type"], **schema}}}


def _not_twice(condition: Schema, key: str) -> Schema:
    """A key that stands beside `do` does not stand in it."""
    both: Schema = {"allOf": [condition, {"required": [key]}]}
    return _when(both, (), {"do": {"properties": {key: False}}})


def _leaf(type: NodeType) -> tuple[str, ...]:
    """The keys of a handler."""
    return ("type", *(key for key in keys.OWN[type] if key not in keys.NOT_ON_LEAVES))


def _alone(type: NodeType) -> tuple[str, ...]:
    """The keys of a node that is all of a `do:`."""
    return ("type", *(key for key in keys.OWN[type] if key != "compensate"))


def _graph() -> Schema:
    return _mapping(keys.GRAPH, required=("nodes",), other=_GRAPH)


def _edge() -> Schema:
    loop = _mapping(
        keys.LOOP,
        required=("max",),
        other={"max": _whole(1, limits.PASSES_MAX), "keep": _whole(1, limits.PASSES_MAX)},
    )
    other: Schema = {
        "from": {"type": "string"},
        "to": {"type": "string"},
        "on": _choice(On),
        "when": _ref("condition"),
        "else": {"type": "boolean"},
        "loop": loop,
    }
    return _mapping(keys.EDGE, required=("from", "to"), other=other)


def _request() -> Schema:
    scalars = _named({"type": ["string", "number", "boolean", "null"]})
    basic = _mapping(
        ("username", "password"),
        required=("username", "password"),
        other={"username": {"type": "string"}, "password": {"type": "string"}},
    )
    auth = _mapping(("bearer", "basic"), other={"bearer": {"type": "string"}, "basic": basic})
    bodies = ("json", "body", "form")
    schema = _mapping(
        keys.REQUEST_KEYS,
        required=("url",),
        other={
            "url": _text(re.compile(r"[hH][tT][tT][pP][sS]?://[^\s]+"), or_computed=True),
            "method": _text(re.compile("|".join(map(_any_case, keys.METHODS))), or_computed=True),
            "headers": scalars,
            "query": scalars,
            "form": scalars,
            "json": {},
            "body": {"type": "string"},
            "auth": {**auth, "minProperties": 1, "maxProperties": 1},
        },
    )
    pairs = [(a, b) for number, a in enumerate(bodies) for b in bodies[number + 1 :]]
    return {**schema, "allOf": [{"not": {"required": [a, b]}} for a, b in pairs]}


# --- pieces ------------------------------------------------------------------------------------------

_DURATION = re.compile(r"(?:[0-9]+(?:ms|s|m|h|d))+")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def _mapping(
    allowed: Iterable[str], *, required: Iterable[str] = (), other: Mapping[str, Json] | None = None
) -> Schema:
    """A mapping of these keys, and those that begin with `x-`. `other`: what keys mean here, beside `_MEANS`."""
    means = {**_MEANS, **(other or {})}
    schema: Schema = {
        "type": "object",
        "properties": {key: means[key] for key in allowed},
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
    }
    needed: list[Json] = [*required]
    return {**schema, "required": needed} if needed else schema


def _named(value: Schema, pattern: re.Pattern[str] | None = None) -> Schema:
    """Things by names of the user's, which expressions read where there is a pattern."""
    schema: Schema = {"type": "object", "additionalProperties": value}
    if pattern is not None:
        reserved: Json = {"enum": [*sorted(limits.RESERVED)]}
        schema["propertyNames"] = {"pattern": f"^{pattern.pattern}$", "not": reserved}
    return schema


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _choice(words: Iterable[str]) -> Schema:
    return {"enum": [str(word) for word in words]}


def _text(pattern: re.Pattern[str], about: str = "", *, or_computed: bool = False) -> Schema:
    schema: Schema = {"type": "string", "pattern": f"^(?:{pattern.pattern})$"}
    if about:
        schema["description"] = about
    return {"anyOf": [schema, _ref("template")]} if or_computed else schema


def _name(pattern: re.Pattern[str]) -> Schema:
    return _text(pattern, or_computed=True)


def _whole(low: int, high: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high}


def _count(low: int, high: int) -> Schema:
    return {"anyOf": [_whole(low, high), _ref("template")]}


def _or_list(item: Schema, most: int | None = None) -> Schema:
    several: Schema = {"type": "array", "items": item}
    if most is not None:
        several |= {"minItems": 1, "maxItems": most}
    return {"anyOf": [item, several]}


def _any_case(word: str) -> str:
    return "".join(f"[{letter}{letter.lower()}]" for letter in word)


_FAILURE = _text(re.compile(rf"\*|{limits.FAILURE_CODE.pattern}"))
_MEANS: Mapping[str, Json] = {
    # edges of a node
    "needs": _or_list({"type": "string"}),
    "join": {"anyOf": [{"enum": ["all", "any"]}, _whole(1, limits.JOIN_MAX)]},
    "cancel_losers": {"type": "boolean"},
    # work
    "queue": _name(names.NAME),
    "priority": _count(0, PRIORITY_MAX),
    "retry": _ref("retry"),
    **dict.fromkeys(keys.CLOCKS, _ref("duration")),
    "optional": {"type": "boolean"},
    "compensate": _ref("undo"),
    "request": _ref("request"),
    "language": _choice(LANGUAGES),
    "code": {"type": "string"},
    "params": _ref("params"),
    "task": _name(names.TASK_NAME),
    # retry
    "max_attempts": _whole(1, limits.ATTEMPTS_MAX),
    "initial": _ref("span"),
    "max": _ref("span"),
    "factor": {"type": "number", "minimum": 1, "maximum": limits.FACTOR_MAX},
    "jitter": _choice(Jitter),
    "rules": {"type": "array", "items": _ref("rule"), "maxItems": limits.RULES_MAX},
    "give_up_on": _or_list(_FAILURE, limits.NAMES_MAX),
    "on": _or_list(_FAILURE, limits.NAMES_MAX),
    "when": _ref("condition"),
    # waits and events
    "for": {"anyOf": [_ref("span"), _ref("template")]},
    "until": _ref("moment"),
    "event": _name(names.EVENT_NAME),
    "key": _ref("key"),
    "match": _ref("condition"),
    "fail_when": _ref("condition"),
    "payload": {},
    "keep": _ref("duration"),
    # bodies
    "over": _ref("expression"),
    "source": _ref("source"),
    "do": _ref("do"),
    "call": _name(limits.WORKFLOW_NAME),
    "input": {},
    "output": {},
    "wait": {"type": "boolean"},
    "concurrency": _count(1, CONCURRENCY_MAX),
    "tolerate": {
        "anyOf": [
            _whole(0, ITEMS_MAX),
            {"type": "string", "pattern": r"^(?:100|[0-9]{1,2}|0[0-9]{2})\s*%$"},
            _ref("template"),
        ]
    },
    "batch": _count(1, limits.BATCH_MAX),
    # the others
    "values": _ref("params"),
    "as": _choice(("success", "cancelled")),
    "message": _ref("key"),
    "details": {},
}
"""What a key may be, wherever it stands; what differs from place to place is said there."""
_TYPED: Mapping[NodeType, Mapping[str, Json]] = {
    NodeType.FAIL: {"code": _text(limits.FAILURE_CODE)}
}
_GRAPH: Mapping[str, Json] = {
    "nodes": _ref("nodes"),
    "edges": {"type": "array", "items": _ref("edge")},
    "output": {},
}
