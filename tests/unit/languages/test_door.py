"""The door of Python's results, as CPython runs it; tests/integration/test_code.py has it in Monty too."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.languages.door import SOURCE

SPACE: dict[str, Any] = {}
exec(SOURCE, SPACE)
door: Callable[[object, int], tuple[str, str]] = SPACE["_tenuto_door"]
MANY = 10_000

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abü"), inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_json_can_hold_passes_unchanged(value: object) -> None:
    trouble, text = door(value, MANY)

    assert trouble == ""
    assert json.loads(text) == value


class Colour(IntEnum):
    RED = 1


def test_tuples_are_lists_and_members_of_enums_their_value() -> None:
    assert door((1, (2, Colour.RED)), MANY) == ("", "[1,[2,1]]")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": [0, float("nan")]}, "result.a[1] is NaN, which JSON cannot hold"),
        ([float("inf")], "result[0] is an infinity"),
        ({"a": {"b c": {1}}}, 'result.a["b c"] is a set, which JSON cannot hold: return sorted'),
        (b"", "result is a bytes"),
        ({"a": {1: 2}}, "result.a has the key 1 (int)"),
        ({None: 2}, "result has the key None (NoneType)"),
        ([2**64], "result[0] is an integer beyond 64 bits"),
        (["\0"], "result[0] holds a NUL character"),
        (["\ud800"], "result[0] holds a lone surrogate"),
        ({"\ud800": 1}, "holds a lone surrogate"),
        (print, "result is a builtin_function_or_method"),
        (1j, "result is a complex"),
        (iter(()), "result is a tuple_iterator"),
    ],
)
def test_what_json_cannot_hold_is_named_with_its_place(value: object, says: str) -> None:
    trouble, message = door(value, MANY)

    assert trouble == "invalid_result"
    assert says in message


def test_what_holds_itself_or_is_too_deep_is_refused() -> None:
    ring: list[object] = []
    ring.append({"x": ring})
    deep: object = 0
    for _ in range(3_000):
        deep = [deep]

    assert door(ring, MANY) == (
        "invalid_result",
        "result[0].x contains itself: only trees are JSON",
    )
    assert "deeper than 64 levels" in door(deep, MANY)[1]


def test_the_limit_counts_bytes() -> None:
    assert door("é" * 4, 10) == ("", '"éééé"')
    assert door("é" * 4, 9)[0] == "output_too_large"
