"""Texts become expressions of the model, with every name that they read."""

from __future__ import annotations

import json

import pytest

from tenuto.adapters.cel import CelParser
from tenuto.dsl.expressions import Expressions, Owner, name_of
from tenuto.dsl.findings import Findings
from tenuto.dsl.yaml import Fields, Tree, read
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root


def reader(text: str) -> tuple[Expressions, Tree, Findings]:
    findings = Findings("a.yaml", text)
    tree = read(text, findings)
    assert isinstance(tree, Fields)
    value = tree.get("a")
    assert value is not None
    return Expressions(CelParser(), findings), value, findings


def test_a_value_is_the_json_as_written_with_its_reads_once_each() -> None:
    text = 'a: {z: "${nodes.b.output.x} ${input.y}", b: ["${input.z}", "$${no}", 1]}'
    expressions, tree, findings = reader(text)

    found = expressions.value(tree, "w", Owner(node=3))

    assert found == Expression(
        ExpressionKind.VALUE,
        '{"z":"${nodes.b.output.x} ${input.y}","b":["${input.z}","$${no}",1]}',
        "w",
        (Read(Root.NODES, "b", "output"), Read(Root.INPUT)),
    )
    assert [(use.read.root, use.at, use.owner) for use in expressions.uses] == [
        (Root.NODES, text.index("nodes"), Owner(node=3)),
        (Root.INPUT, text.index("input.y"), Owner(node=3)),
        (Root.INPUT, text.index("input.z"), Owner(node=3)),
    ]
    assert not findings.has_errors


def test_secrets_are_allowed_under_the_keys_that_are_named() -> None:
    expressions, tree, _ = reader('a: {url: "${secrets.A}", headers: {x: "${secrets.B}"}}')

    expressions.value(tree, "w", Owner(node=0), secrets_in=frozenset({"headers"}))

    assert [(name_of(use.read), use.secrets) for use in expressions.uses] == [
        ("secrets.A", False),
        ("secrets.B", True),
    ]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("{input.id}", "write `${input.id}`"),
        ("a$vars.x.y, b", "write `${vars.x.y}`"),
        ("${input.a}-{ nodes.b.output }", "write `${nodes.b.output}`"),
        ("{{ error.code }}", "write `${error.code}`"),
    ],
)
def test_what_lacks_a_sign_of_an_expression_is_warned_of(text: str, meant: str) -> None:
    expressions, tree, findings = reader(f"a: '{text}'")

    expressions.value(tree, "w", Owner(node=0))

    assert [(f.code, f.hint) for f in findings.in_order()] == [("jinja_braces", meant)]


@pytest.mark.parametrize(
    "text",
    [
        *("$${input.id}", "$$input.id", "{inputs.id}", "$inputs.id", "$input", "{input}", "{id}"),
        *('{"input.x": 1}', "${ {'a': input.x}.a } and ${input.y}", "{n} at $9.50"),
    ],
)
def test_braces_and_dollars_that_mean_themselves_are_left_alone(text: str) -> None:
    expressions, tree, findings = reader(f"a: {json.dumps(text)}")

    expressions.value(tree, "w", Owner(node=0))

    assert findings.in_order() == ()


@pytest.mark.rule("X7.1")
@pytest.mark.parametrize(("raw", "text"), [("input.x > 1", "input.x > 1"), ("true", "true")])
def test_a_condition_is_bare(raw: str, text: str) -> None:
    expressions, tree, findings = reader(f"a: {raw}")

    found = expressions.condition(tree, "w", Owner(edge=0))

    assert (found.kind, found.text) == (ExpressionKind.CONDITION, text)
    assert not findings.has_errors


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ('"${input.x}"', '"${input.x}"'),
        ("plain", '"plain"'),
        ("7", "7"),
        ('"${string(7)} ${input.x}"', '"${string(7)} ${input.x}"'),
        ('"${1 + 1}"', '"${1 + 1}"'),
    ],
)
def test_a_key_is_a_text_or_a_whole_number(raw: str, text: str) -> None:
    expressions, tree, findings = reader(f"a: {raw}")

    found = expressions.key(tree, "w", Owner(node=0), "key")

    assert (found.kind, found.text) == (ExpressionKind.KEY, text)
    assert not findings.has_errors


@pytest.mark.parametrize("raw", ["1.5", "true", "null", "[1]", '"${1.5}"', '"${true}"', '"${{}}"'])
def test_nothing_else_is_a_key(raw: str) -> None:
    expressions, tree, findings = reader(f"a: {raw}")

    expressions.key(tree, "w", Owner(node=0), "key")

    assert [f.code for f in findings.in_order()] in (["key_type"], ["wrong_type"])


def test_a_mistake_in_a_folded_text_is_told_at_its_start() -> None:
    expressions, tree, findings = reader("b: 1\na: |\n  x\n  ${nope}\n")

    expressions.value(tree, "w", Owner(node=0))

    (finding,) = findings.in_order()
    assert (finding.code, finding.line, finding.column) == ("expression", 2, 4)


def test_an_escape_before_a_mistake_does_not_move_its_place() -> None:
    text = 'a: "\\u00e4\\t${1 + nope}"'
    expressions, tree, findings = reader(text)

    expressions.value(tree, "w", Owner(node=0))

    assert findings.in_order()[0].column == text.index("nope") + 1


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (Read(Root.NODES, "a", "output"), "nodes.a.output"),
        (Read(Root.NODES, "a"), "nodes.a"),
        (Read(Root.ITERATION), "iteration"),
    ],
)
def test_a_read_is_named_as_it_is_written(read: Read, text: str) -> None:
    assert name_of(read) == text
