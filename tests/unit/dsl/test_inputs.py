"""A run's input and vars at the door."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.dsl.inputs import apply_vars, check_input, check_schema
from tenuto.dsl.yaml import Json
from tenuto.model.errors import InvalidInput

ORDER: dict[str, Json] = {
    "type": "object",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "minLength": 2},
        "amount": {"type": "number", "minimum": 0, "default": 1},
        "mode": {"enum": ["fast", "slow"], "default": "slow"},
        "address": {
            "type": "object",
            "default": {},
            "properties": {"country": {"default": "DE"}, "zip": {"type": "string"}},
        },
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
        "parcel": {"$ref": "#/$defs/parcel"},
    },
    "$defs": {
        "item": {"type": "object", "properties": {"count": {"type": "integer", "default": 1}}},
        "parcel": {"default": {"kind": "box"}},
    },
}
SCHEMA = json.dumps(ORDER)


def refused(value: object, schema: str | None = SCHEMA) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        check_input(schema, value)
    return caught.value


@pytest.mark.rule("X9.2")
def test_x9_defaults_are_filled_in_at_every_depth_before_the_check() -> None:
    value = {"id": "ab", "items": [{}, {"count": 3}]}

    assert json.loads(check_input(SCHEMA, value)) == {
        "id": "ab",
        "amount": 1,
        "mode": "slow",
        "address": {"country": "DE"},
        "items": [{"count": 1}, {"count": 3}],
        "parcel": {"kind": "box"},
    }
    assert value == {"id": "ab", "items": [{}, {"count": 3}]}


def test_a_default_never_replaces_what_is_there() -> None:
    value = {"id": "ab", "amount": 0, "mode": "fast", "address": {"country": None}, "parcel": {}}

    assert json.loads(check_input(SCHEMA, value)) == value


def test_defaults_are_found_behind_references_and_in_all_parts() -> None:
    schema = {
        "allOf": [{"properties": {"a": {"default": 1}}}, {"$ref": "#part"}],
        "$defs": {
            "b": {"$anchor": "part", "properties": {"b": {"$ref": "#/$defs/c"}}},
            "c": {"default": 2},
        },
    }

    assert check_input(json.dumps(schema), {}) == '{"a":1,"b":2}'


def test_the_result_is_canonical_json() -> None:
    assert check_input(None, {"b": [1, 2.5, None], "a": "é"}) == '{"a":"é","b":[1,2.5,null]}'


@pytest.mark.parametrize(
    ("value", "path", "says"),
    [
        ({}, "input", "'id' is a required property; add it"),
        ({"id": 7}, "input.id", "give text in quotes"),
        ({"id": "a"}, "input.id", "'a' is too short"),
        ({"id": "ab", "amount": "x"}, "input.amount", "give a number"),
        ({"id": "ab", "amount": -1}, "input.amount", "minimum"),
        ({"id": "ab", "mode": "quick"}, "input.mode", 'give "fast" or "slow"'),
        ({"id": "ab", "amuont": 1}, "input", "did you mean `amount`?"),
        ({"id": "ab", "items": [{"count": 1.5}]}, "input.items[0].count", "give a whole number"),
        ([], "input", "give an object"),
        (None, "input", "give an object"),
    ],
)
def test_a_message_names_the_path_and_the_cure(value: object, path: str, says: str) -> None:
    error = refused(value)

    assert error.path == path
    assert says in str(error)
    assert str(error).startswith(f"{path}: ")


def test_all_that_is_wrong_is_told_a_line_for_each_with_its_cure() -> None:
    items: list[object] = [{}] * 12
    items[2] = items[10] = {"count": "x"}
    error = refused({"amount": "x", "mode": 1, "items": items})

    assert str(error).splitlines() == [
        "input: 'id' is a required property; add it",
        "input.amount: 'x' is not of type 'number'; give a number",
        "input.items[2].count: 'x' is not of type 'integer'; give a whole number",
        "input.items[10].count: 'x' is not of type 'integer'; give a whole number",
        "input.mode: 1 is not one of ['fast', 'slow']; give \"fast\" or \"slow\"",
    ]
    assert error.path == "input"
    assert list(error.problems) == str(error).splitlines()


def test_of_very_many_problems_the_first_are_told() -> None:
    lines = refused({"id": "ab", "items": [1] * 100}).problems

    assert lines[19].startswith("input.items[19]: ")
    assert lines[20:] == ("and 80 more",)


def test_format_is_not_asserted() -> None:
    assert check_input('{"format": "date-time"}', "tomorrow") == '"tomorrow"'


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (float("nan"), "no such number"),
        (float("inf"), "no such number"),
        (2**63, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        ("\ud800", "lone surrogate"),
        ("a\0b", "a NUL character"),
        ({"a\0": 1}, "a NUL character"),
        ({1: 2}, "is not text"),
        ({"a": object()}, "no JSON value"),
        (b"x", "no JSON value"),
    ],
)
@pytest.mark.parametrize("schema", [None, "{}"])
def test_what_json_cannot_hold_is_refused(value: object, says: str, schema: str | None) -> None:
    assert says in str(refused([value], schema))


def test_a_value_that_is_too_deep_or_holds_itself_is_refused() -> None:
    deep: list[object] = []
    deep.append(deep)

    assert "200 levels" in str(refused(deep, None))
    assert "200 levels" in str(refused({"id": deep}))


def test_a_schema_that_never_ends_is_told() -> None:
    assert "without end" in str(refused({}, '{"allOf": [{"$ref": "#"}]}'))


@pytest.mark.parametrize(
    "schema",
    [
        ORDER,
        {},
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "http://a/b",
            "type": "object",
        },
        {
            "properties": {"$ref": {"type": "string"}, "default": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {}},
        },
        {"properties": {"child": {"$ref": "#"}}},
        {"$ref": "#here", "$defs": {"a": {"$anchor": "here"}}},
        {"const": {"$ref": "http://a"}},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": True}},
    ],
)
def test_these_are_schemas(schema: dict[str, Json]) -> None:
    assert check_schema(schema) == []


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "objekt"}, ("type",)),
        ({"properties": {"a": {"minimum": "x"}}}, ("properties", "a", "minimum")),
        ({"properties": {"a": {"$ref": "other.json"}}}, ("properties", "a", "$ref")),
        ({"properties": {"default": {"$ref": "#/no"}}}, ("properties", "default", "$ref")),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, ("$ref",)),
        ({"$ref": "#/$defs/a", "$defs": {"a": 7}}, ("$defs", "a")),
        (
            {
                "$ref": "#/$defs/a",
                "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
            },
            ("$ref",),
        ),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/no"}}},
            ("$defs", "b", "$ref"),
        ),
        ({"items": {"$id": "http://a"}}, ("items", "$id")),
        ({"pattern": "("}, ("pattern",)),
        ({"pattern": "a{99999999999999999999}"}, ()),
    ],
)
def test_these_are_not(schema: dict[str, Json], path: tuple[str, ...]) -> None:
    problems = check_schema(schema)

    assert problems[0].path == path, problems
    assert problems[0].message
    assert problems[0].cure


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text("ab", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "items", "a"]), inner)
    ),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_any_value_fits_or_is_refused_with_its_path(value: Json) -> None:
    try:
        text = check_input(SCHEMA, value)
    except InvalidInput as error:
        path = error.path
    else:
        path = "input"
        assert check_input(SCHEMA, json.loads(text)) == text
    assert path.startswith("input")


@pytest.mark.rule("X1.2")
def test_vars_come_from_the_definition_the_environment_and_the_command() -> None:
    declared = '{"a":1,"b":2,"c":3,"url":"http://a"}'
    env = {"TENUTO_VAR_b": "20", "TENUTO_VAR_C": "30", "TENUTO_VAR_other": "1", "PATH": "x"}

    found = apply_vars(declared, {"c": "300", "url": "http://b"}, env)

    assert found == '{"a":1,"b":20,"c":300,"url":"http://b"}'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("1.5", 1.5),
        ("true", True),
        ("null", None),
        ('{"x":[1]}', {"x": [1]}),
        ("a b", "a b"),
    ],
)
def test_an_override_is_json_if_it_parses(text: str, value: Json) -> None:
    assert json.loads(apply_vars('{"a":0}', {"a": text}, {})) == {"a": value}


@pytest.mark.parametrize(("text", "value"), [("7", "7"), ("true", "true"), ('"7"', "7"), ("", "")])
def test_over_a_declared_text_it_stays_text(text: str, value: str) -> None:
    assert json.loads(apply_vars('{"a":"x"}', {"a": text}, {})) == {"a": value}


def test_an_undeclared_var_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidInput, match="did you mean `payments`") as caught:
        apply_vars('{"payments":1}', {"paymetns": "2"}, {})

    assert caught.value.path == "vars.paymetns"


def test_an_override_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidInput, match="half a character"):
        apply_vars('{"a":"x"}', {"a": "\udcff"}, {})
