"""What a JSON Schema says of values, as far as it is sure."""

from __future__ import annotations

import pytest

from tenuto.model.shapes import ANY, DOUBLE, INT, STRING, Shape, ShapeKind, shape_of


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": ["string", "null"]},
        {"type": "number"},
        {"anyOf": []},
        {"$ref": "#"},
        None,
    ],
)
def test_a_schema_that_is_not_sure_of_a_type_tells_nothing(schema: object) -> None:
    assert shape_of(schema) == ANY


@pytest.mark.parametrize(
    ("schema", "fields", "closed", "more"),
    [
        ({"properties": {"a": {}}}, {"a"}, False, False),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a"}, True, False),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, {"a"}, False, True),
        ({"additionalProperties": False, "patternProperties": {"^x": {}}}, set(), False, True),
        ({"properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}]}, {"a"}, False, True),
        ({"required": ["a"]}, {"a"}, False, False),
    ],
)
def test_what_fields_an_object_has_and_whether_others_may_be_there(
    schema: dict[str, object], fields: set[str], closed: bool, more: bool
) -> None:
    shape = shape_of({"type": "object", **schema})

    assert (set(shape.fields), shape.closed, shape.more) == (fields, closed, more)


def test_references_inside_a_schema_are_followed() -> None:
    schema = {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {"left": {"$ref": "#/$defs/tree"}, "name": {"$ref": "#/$defs/name"}},
            },
            "name": {"enum": ["a", "b"]},
        },
    }

    assert shape_of(schema).fields == {"left": ANY, "name": Shape(ShapeKind.STRING)}


def test_what_is_in_a_list_or_an_object_may_be_unknown() -> None:
    assert shape_of({"type": "array"}).signature == "list<dyn>"
    assert shape_of({"type": "object"}).signature == "map<string, dyn>"


def test_shapes_differ_where_no_value_has_both() -> None:
    assert STRING.differs_from(INT)
    assert not INT.differs_from(DOUBLE)
    assert not STRING.differs_from(ANY)
    assert not STRING.differs_from(STRING)
