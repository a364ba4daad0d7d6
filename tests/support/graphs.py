"""Definitions and graphs in one line of text, for tests of what comes after the loader.

`graph("a -> b; b -> c when 'x'; c -> b loop 3; a -failure-> d; e", types={"c": "switch"}, join={"d": 1})`: statements
end with `;` or a line's end, nodes are numbered as they appear, `-success->`, `-failure->`, `-always->` say `on`,
`when 'text'` is a condition, `else` and `loop N` what they say. A word alone is a node without edges. Nodes are tasks
unless `types` says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import assert_never

from tenuto.model.definition import (
    Call,
    Definition,
    Detail,
    Edge,
    Emit,
    End,
    Fail,
    Foreach,
    Node,
    NodeType,
    On,
    SetValue,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.expressions import Expression, ExpressionKind
from tenuto.model.graph import Graph, index
from tenuto.model.instants import SECOND_US
from tenuto.model.structure import analyse

_STATEMENT = re.compile(
    r"(?P<source>\w+)"
    r"(?:\s*-(?:(?P<on>success|failure|always)-)?>\s*(?P<target>\w+)"
    r"(?:\s+when\s+'(?P<when>[^']*)')?(?P<otherwise>\s+else)?(?:\s+loop\s+(?P<loop>\d+))?)?"
)


def definition(
    text: str,
    *,
    types: Mapping[str, str] | None = None,
    join: Mapping[str, int] | None = None,
    details: Mapping[str, Detail] | None = None,
    cancel_losers: Collection[str] = (),
    optional: Collection[str] = (),
    name: str = "test",
    timeout_us: int | None = None,
    output: Expression | None = None,
) -> Definition:
    """Build a definition; it need not be legal."""
    numbers: dict[str, int] = {}
    edges: list[Edge] = []
    for statement in filter(None, (part.strip() for part in re.split(r"[;\n]", text))):
        found = _STATEMENT.fullmatch(statement)
        if found is None:
            raise ValueError(f"not a statement: {statement!r}")
        source = numbers.setdefault(found["source"], len(numbers))
        if found["target"] is None:
            continue
        target = numbers.setdefault(found["target"], len(numbers))
        edges.append(
            Edge(
                source,
                target,
                on=On(found["on"] or "success"),
                when=condition(found["when"]) if found["when"] is not None else None,
                otherwise=bool(found["otherwise"]),
                loop_max=int(found["loop"]) if found["loop"] else None,
            )
        )
    types, join, details = types or {}, join or {}, details or {}
    named = {*types, *join, *details, *cancel_losers, *optional}
    if not named <= numbers.keys():
        raise ValueError(f"no such nodes: {sorted(named - numbers.keys())}")
    nodes = []
    for id in numbers:
        type = NodeType(types.get(id, "task"))
        nodes.append(
            Node(
                id,
                type,
                detail=details[id] if id in details else detail(id, type),
                join=join.get(id, 0),
                cancel_losers=id in cancel_losers,
                optional=id in optional,
            )
        )
    return Definition(name, tuple(nodes), tuple(edges), timeout_us=timeout_us, output=output)


def graph(
    text: str,
    *,
    types: Mapping[str, str] | None = None,
    join: Mapping[str, int] | None = None,
    details: Mapping[str, Detail] | None = None,
    cancel_losers: Collection[str] = (),
    optional: Collection[str] = (),
    name: str = "test",
    timeout_us: int | None = None,
    output: Expression | None = None,
) -> Graph:
    """Build a graph of the same text. Raises AssertionError with the problems when it is not legal."""
    return index_of(
        definition(
            text,
            types=types,
            join=join,
            details=details,
            cancel_losers=cancel_losers,
            optional=optional,
            name=name,
            timeout_us=timeout_us,
            output=output,
        )
    )


def index_of(definition: Definition) -> Graph:
    """Analyse and index a definition that must be legal."""
    analysis = analyse(definition)
    errors = [problem for problem in analysis.problems if not problem.warning]
    assert not errors, errors
    assert analysis.structure is not None
    return index(definition, analysis.structure)


def condition(text: str) -> Expression:
    """A bare CEL condition that reads nothing."""
    return Expression(ExpressionKind.CONDITION, text, "edges.when")


def value(text: str, where: str = "value") -> Expression:
    """A JSON value that reads nothing."""
    return Expression(ExpressionKind.VALUE, text, where)


def key(text: str, where: str = "key") -> Expression:
    """A key that reads nothing; `text` is JSON."""
    return Expression(ExpressionKind.KEY, text, where)


def detail(id: str, type: NodeType) -> Detail:
    """The plainest detail of a type: a task, workflow or event named like its node, a second, a list of one."""
    match type:
        case NodeType.TASK:
            return Work(id, value("{}", f"nodes.{id}.params"))
        case NodeType.HTTP:
            return Work(
                "http", value('{"method":"GET","url":"http://127.0.0.1:1/"}', f"nodes.{id}.request")
            )
        case NodeType.CODE:
            text = '{"code":"def main(params): return 1","language":"python","params":{}}'
            return Work("code", value(text, f"nodes.{id}.params"))
        case NodeType.WAIT:
            return Wait(for_us=SECOND_US)
        case NodeType.WAIT_FOR_EVENT:
            return WaitForEvent(id, key('"k"', f"nodes.{id}.key"))
        case NodeType.CALL:
            return Call(id, None, value("{}", f"nodes.{id}.input"))
        case NodeType.FOREACH:
            over = Expression(ExpressionKind.ITEMS, "[1]", f"nodes.{id}.over")
            return Foreach(Work(id, value("{}", f"nodes.{id}.params")), over)
        case NodeType.SET:
            return SetValue(value("1", f"nodes.{id}.value"))
        case NodeType.EMIT:
            return Emit(id, key('"k"', f"nodes.{id}.key"), value("null", f"nodes.{id}.payload"))
        case NodeType.FAIL:
            return Fail("failed_on_purpose")
        case NodeType.END:
            return End()
        case NodeType.SWITCH | NodeType.FORK | NodeType.JOIN:
            return None
        case _:
            assert_never(type)
