"""What is proven of an expression by the types of what it reads."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tenuto.adapters.cel.checking import check, check_all
from tenuto.adapters.cel.engine import Compiled, compile_text, run
from tenuto.model.expressions import ParseError
from tenuto.model.shapes import ANY, Checked, Shape, ShapeKind, shape_of

INPUT = shape_of(
    {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "n": {"type": "integer"},
            "price": {"type": "number"},
            "name": {"type": "string"},
            "maybe": {"type": ["string", "null"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "rows": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            "open": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
            "map": {"type": "object", "properties": {"ok": {}}, "additionalProperties": {"type": "string"}},
            "bare": {"type": "object"},
        },
    }
)  # fmt: skip
HTTP = Shape(ShapeKind.OBJECT, {"status": Shape(ShapeKind.INT), "body": ANY}, closed=True)
KNOWN = {
    "input": INPUT,
    "nodes": Shape(
        ShapeKind.OBJECT, {"call": Shape(ShapeKind.OBJECT, {"output": HTTP})}, more=True
    ),
}


def checked(text: str) -> Checked:
    found = check(text, KNOWN)
    assert isinstance(found, Checked), found
    return found


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("input.n", "int"),
        ("input.n + 1", "int"),
        ("input.n + 0.5", "double"),
        ("input.price", "dyn"),
        ("input.tags", "list"),
        ("input.tags[0]", "string"),
        ("input.tags.map(t, size(t))", "list"),
        ("input.maybe", "dyn"),
        ("nodes.call.output.status >= 300", "bool"),
        ("nodes.call.output.body.x", "dyn"),
        ("nodes.other.output.x", "dyn"),
        ("input.?n", "dyn"),
        ("has(input.n) && input.n > 1", "bool"),
        ("vars.x", "dyn"),
        ("[1].map(input, input)", "list"),
        ("input.price > 2.5 && input.n > 2.5", "bool"),
    ],
)
def test_the_type_of_the_result_is_known_as_far_as_it_is_proven(text: str, result: str) -> None:
    found = checked(text)

    assert (found.result, found.flaws) == (result, ())


@pytest.mark.parametrize(
    ("text", "code", "offset", "message"),
    [
        ("input.nmae", "unknown_key", 0, "input has no key nmae"),
        ("1 + nodes.call.output.code", "unknown_key", 4, "nodes.call.output has no key code"),
        ("input.n + 'a'", "type_mismatch", 8, "`+` does not take int and string"),
        ("input.tags.exists(t, t > 1)", "type_mismatch", 23, "`>` does not take string and int"),
        ("input.name && true", "type_mismatch", 11, "`&&` needs true or false"),
        (
            "nodes.call.output.status == '200'",
            "never_equal",
            25,
            "a value of type int is never equal to one of type string",
        ),
    ],
)
def test_what_would_surely_fail_is_a_flaw(text: str, code: str, offset: int, message: str) -> None:
    (flaw,) = checked(text).flaws

    assert (flaw.code, flaw.offset) == (code, offset)
    assert message in flaw.message


@pytest.mark.parametrize(
    "text",
    [
        "has(input.nmae)",
        "input.?nmae.orValue(1)",
        "input.open.?other",
        "has(input.rows[0].y)",
        "input.map.other",
        "input.bare.other",
        "input.n == 2.0",
        "input.n < input.price",
        "input['n'] + 1",
        "input.open.ok ? 1 : 2",
    ],
)
def test_what_may_go_well_is_none(text: str) -> None:
    assert checked(text).flaws == ()


@pytest.mark.parametrize(
    ("text", "known"), [("input.open.other", ("ok",)), ("input.rows[0].y", ("x",))]
)
def test_a_key_that_is_not_declared_is_told_of_with_those_that_are(
    text: str, known: tuple[str, ...]
) -> None:
    (flaw,) = checked(text).flaws

    assert (flaw.code, flaw.known) == ("undeclared_key", known)


def test_many_are_checked_as_each_alone() -> None:
    texts = [
        "input.n + 1",
        "input.nmae",
        "has(input.n)",
        "has(input.n) && input.name + 1 == 2",
        "[{'n': 'x'}].map(input, input.n + 'y')",
        "1 +",
        "input.name + 1",
        "input.n + 1",
    ]

    assert check_all(texts, KNOWN) == tuple(check(text, KNOWN) for text in texts)


@pytest.mark.rule("X8.4")
def test_X8_two_proven_ints_divide_as_ints() -> None:
    assert checked("input.n / 2").divides_ints == (8,)
    assert checked("7 / 2").divides_ints == (2,)
    assert checked("input.n / 2.0 + input.price / 2").divides_ints == ()


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("true", True),
        ("1 > 2", False),
        ("input.n > 2", None),
        ("1 + 1", None),
        ("1 / 0 == 1", None),
    ],
)
def test_a_condition_that_is_a_constant_is_told(text: str, constant: bool | None) -> None:
    assert checked(text).constant is constant


def test_what_is_no_expression_is_told_as_ever() -> None:
    assert isinstance(check("1 +", KNOWN), ParseError)


def test_checking_leaves_what_runs_alone() -> None:
    for number in range(20):
        check(
            f"input.n{number} + 1",
            {"input": Shape(ShapeKind.OBJECT, {f"n{number}": Shape(ShapeKind.INT)})},
        )
    compiled = compile_text("string(node.entered_at)")
    assert isinstance(compiled, Compiled)

    found = run(compiled, {"node.entered_at": datetime(2026, 11, 30, tzinfo=UTC)})

    assert found == "2026-11-30T00:00:00Z"
