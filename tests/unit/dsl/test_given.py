"""A start without an input."""

from __future__ import annotations

import pytest

from tenuto.dsl.given import default_input


@pytest.mark.parametrize(
    ("schema", "value", "made"),
    [
        (None, None, {}),
        ('{"type": "object"}', None, {}),
        ('{"type": ["object", "null"]}', None, {}),
        ('{"type": "null"}', None, None),
        ('{"type": "array"}', None, None),
        ("true", None, {}),
        (None, 0, 0),
        (None, [], []),
    ],
)
def test_no_input_is_an_empty_object_unless_the_schema_wants_something_else(
    schema: str | None, value: object, made: object
) -> None:
    assert default_input(schema, value) == made
