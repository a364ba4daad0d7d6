"""What the keys of each node type become. Those of work are in `test_work`, of bodies in `test_bodies`."""

from __future__ import annotations

import pytest

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load
from tenuto.model.definition import (
    Detail,
    End,
    Fail,
    Node,
    NodeType,
    SetValue,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.instants import DAY_US, SECOND_US

PARSER = CelParser()


def node_of(keys: str, top: str = "") -> Node:
    loaded = load(f"name: a\nnodes:\n  n: {{{keys}}}\n{top}", file="a.yaml", parser=PARSER)
    assert loaded.graph is not None, loaded.findings
    return loaded.graph.definition.nodes[0]


def value(text: str, where: str, *reads: Read) -> Expression:
    return Expression(ExpressionKind.VALUE, text, f"nodes.n.{where}", reads)


KEY = Expression(ExpressionKind.KEY, '"k"', "nodes.n.key")


@pytest.mark.parametrize(
    ("keys", "detail"),
    [
        ("type: fork", None),
        ("type: wait, for: 1m30s", Wait(for_us=90 * SECOND_US)),
        ("type: wait, for: 0s", Wait(for_us=0)),
        ("type: wait, until: 1970-01-02T01:00:00+01:00", Wait(until_at=DAY_US)),
        ("type: wait_for_event, event: a.b, key: k", WaitForEvent("a.b", KEY)),
        (
            "type: wait_for_event, event: e, key: 7, timeout: 1s",
            WaitForEvent("e", Expression(ExpressionKind.KEY, "7", "nodes.n.key"), SECOND_US),
        ),
        ("type: set, values: {a: 1}", SetValue(value('{"a":1}', "values"))),
        ("type: set, values: {}", SetValue(value("{}", "values"))),
        (
            "type: fail, code: c, message: 'm ${input.x}', details: [1]",
            Fail(
                "c",
                Expression(
                    ExpressionKind.KEY, '"m ${input.x}"', "nodes.n.message", (Read(Root.INPUT),)
                ),
                value("[1]", "details"),
            ),
        ),
        ("type: fail, code: c", Fail("c")),
        ("type: end", End()),
        ("type: end, as: success", End()),
        (
            "type: end, as: cancelled, output: null",
            End(cancelled=True, output=value("null", "output")),
        ),
    ],
)
def test_the_keys_of_a_type_become_its_detail(keys: str, detail: Detail) -> None:
    assert node_of(keys).detail == detail


@pytest.mark.parametrize("name", ["WAIT", "Wait", "wait"])
def test_a_type_is_known_in_any_letter_case(name: str) -> None:
    assert node_of(f"type: {name}, for: 1s").type is NodeType.WAIT


@pytest.mark.rule("J2.1")
@pytest.mark.parametrize(("word", "join"), [("all", 0), ("any", 1), ("1", 1), ("2", 2)])
def test_join_is_all_any_or_a_number(word: str, join: int) -> None:
    text = (
        "name: a\nnodes:\n  a: {type: task, task: t}\n  b: {type: task, task: t}\n"
        f"  j: {{type: join, needs: [a, b], join: {word}, cancel_losers: {str(join > 0).lower()}}}\n"
    )
    loaded = load(text, file="a.yaml", parser=PARSER)
    assert loaded.graph is not None, loaded.findings

    found = loaded.graph.definition.nodes[2]

    assert (found.join, found.cancel_losers) == (join, join > 0)


@pytest.mark.rule("F3.1")
@pytest.mark.parametrize(
    "keys",
    [
        'type: http, request: {url: "http://a"}, optional: true',
        "type: code, language: python, code: 'def main(p): pass', optional: true",
        "type: task, task: t, optional: true",
        "type: wait_for_event, event: e, key: k, optional: true",
    ],
)
def test_work_and_waits_for_events_may_be_optional(keys: str) -> None:
    assert node_of(keys).optional


def test_keys_that_begin_with_x_are_free_everywhere() -> None:
    text = (
        "x-a: {b: ['${not read']}\nname: a\nnodes:\n"
        "  n: {x-b: 1, type: http, retry: {x-c: 1}, request: {url: 'http://a', x-d: 1}}\n"
    )

    loaded = load(text, file="a.yaml", parser=PARSER)

    assert loaded.findings == ()
    assert loaded.graph is not None
    detail = loaded.graph.definition.nodes[0].detail
    assert isinstance(detail, Work)
    assert detail.input.text == '{"url":"http://a"}'
