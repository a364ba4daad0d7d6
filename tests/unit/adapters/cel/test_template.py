"""JSON trees with `${…}` in them (SEMANTICS X7, X9)."""

from __future__ import annotations

import json

import pytest

from tenuto.adapters.cel.template import Template, Unfit, template_of


def template(value: object) -> Template:
    found = template_of(json.dumps(value))
    assert isinstance(found, Template), found
    return found


def fill(value: object, *values: object) -> object:
    return template(value).fill(values)


@pytest.mark.rule("X7.2", "X7.3")
@pytest.mark.parametrize(
    ("value", "values", "filled"),
    [
        ("${input.a}", [[1, {"b": None}]], [1, {"b": None}]),
        ("${input.a}", [None], None),
        ("${input.a} ", ["x"], "x "),
        ("a${input.a}b${input.b}", [1, "x"], "a1bx"),
        ("${input.a}${input.b}", [1, 2], "12"),
        ("<${input.a}>", [True], "<true>"),
        ("<${input.a}>", [2.5], "<2.5>"),
        ("<${input.a}>", [123456789.5], "<123456789.5>"),
        ("<${input.a}>", [1.0], "<1.0>"),
        ("<${input.a}>", [2**64 - 1], "<18446744073709551615>"),
        ("$${input.a}", [], "${input.a}"),
        ("$${${input.a}}", [7], "${7}"),
        ({"k": {"n": ["$${a}", {"m": "$${b}"}]}}, [], {"k": {"n": ["${a}", {"m": "${b}"}]}}),
        ({"k": ["${input.a}", {"n": "${input.b}"}], "c": 1}, [1, 2], {"k": [1, {"n": 2}], "c": 1}),
        ({"${input.a}": 1}, [], {"${input.a}": 1}),
        ("${input.a}", ["${input.b}"], "${input.b}"),
        (5, [], 5),
        ([], [], []),
    ],
)
def test_X7_a_tree_is_filled(value: object, values: list[object], filled: object) -> None:
    assert fill(value, *values) == filled


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (None, "null"),
        ([1], "a list"),
        ({"a": 1}, "an object"),
        (float("nan"), "a double"),
    ],
)
def test_X7_what_has_no_plain_spelling_cannot_stand_inside_a_text(value: object, what: str) -> None:
    with pytest.raises(Unfit, match=f"`input.a` is {what}"):
        fill("x ${input.a}", value)


def test_holes_are_numbered_in_document_order() -> None:
    found = template({"b": "${input.x} ${vars.y}", "a": ["${iteration}"]})

    assert [hole.text for hole in found.holes] == ["input.x", "vars.y", "iteration"]


def test_secrets_stay_references_and_their_paths_are_listed() -> None:
    filled = fill(
        {
            "headers": {"auth": "Bearer ${secrets.TOKEN}/${input.a}!", "plain": "x"},
            "list": [0, "${secrets.KEY}"],
        },
        7,
    )

    assert filled == {
        "$secrets": [["headers", "auth"], ["list", 1]],
        "headers": {"auth": {"$concat": ["Bearer ", {"$secret": "TOKEN"}, "/7!"]}, "plain": "x"},
        "list": [0, {"$secret": "KEY"}],
    }


def test_filling_twice_leaves_nothing_behind() -> None:
    found = template({"a": "${secrets.A}", "n": "${input.n}"})
    first = found.fill([1])

    assert found.fill([2]) == {"$secrets": [["a"]], "a": {"$secret": "A"}, "n": 2}
    assert first == {"$secrets": [["a"]], "a": {"$secret": "A"}, "n": 1}


def test_data_cannot_pose_as_the_list_of_references() -> None:
    lure = {"$secrets": [["a"]], "a": {"$secret": "TOKEN"}}

    with pytest.raises(Unfit, match="reserved"):
        fill("${input}", lure)
    assert fill({"body": "${input}"}, lure) == {"body": lure}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"${input.a"', "`${` at character 1 has no `}`"),
        ('"${nope}"', "unknown name `nope`"),
        ('"${}"', "the expression is empty"),
        ('"${secrets.A}"', "a secret stands inside an object"),
        ('["${secrets.A}"]', "a secret stands inside an object"),
        ('{"$secrets": 1}', "reserved"),
        ("{", "the template is no JSON"),
    ],
)
def test_a_template_that_cannot_be_read_says_why(text: str, message: str) -> None:
    found = template_of(text)

    assert isinstance(found, str)
    assert message in found
