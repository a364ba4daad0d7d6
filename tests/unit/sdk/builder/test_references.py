"""References, and values with references in them."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import enum
from decimal import Decimal
from typing import Any

import pytest

from tenuto import InvalidDefinition, Workflow
from tenuto.sdk.builder.references import Ref, cel, render


class Color(enum.StrEnum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: object


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        (Ref("input").order_id, "${input.order_id}"),
        (Ref("nodes.a.output").body.items[0]["a b"], '${nodes.a.output.body.items[0]["a b"]}'),
        (Ref("input")["for"]["_x"], '${input["for"]._x}'),
        (Ref("input")['a"b'], '${input["a\\"b"]}'),
        (Ref("input")["é"], '${input["\\u00e9"]}'),
    ],
    ids=str,
)
def test_fields_numbers_and_odd_keys_are_written_as_cel_has_them(ref: Ref, text: str) -> None:
    assert str(ref) == f"{ref}" == text
    assert cel(ref) == text[2:-1]
    assert repr(ref) == f"<{text[2:-1]}>"


def test_a_reference_can_be_put_into_a_text() -> None:
    assert f"{Ref('vars').url}/orders/{Ref('input').id}" == "${vars.url}/orders/${input.id}"


@pytest.mark.parametrize(
    "use",
    [
        lambda ref: ref > 50,
        lambda ref: ref == "ready",
        lambda ref: ref <= 1.5,
        lambda ref: not ref,
        lambda ref: ref and True,
    ],
)
def test_a_reference_is_not_compared_before_the_run(use: Any) -> None:
    with pytest.raises(
        InvalidDefinition, match=r"`input\.n` has no value before the run"
    ) as caught:
        use(Ref("input").n)
    assert "write the whole expression as text" in str(caught.value)


@pytest.mark.parametrize(
    ("use", "written"),
    [
        (lambda ref: ref + 1, "input.n + 1"),
        (lambda ref: 1.5 - ref, "1.5 - input.n"),
        (lambda ref: "Dear " + ref, "'Dear ' + input.n"),
        (lambda ref: "it's " + ref, '"it\'s " + input.n'),
        (lambda ref: ref * ref.m, "input.n * input.n.m"),
        (lambda ref: 2 * ref, "2 * input.n"),
        (lambda ref: ref - None, "input.n - null"),
        (lambda ref: ref + object(), "input.n + …"),
        (lambda ref: ref / 2, "input.n / 2"),
        (lambda ref: ref // 2, "input.n / 2"),
        (lambda ref: 10 / ref, "10 / input.n"),
        (lambda ref: ref % 2, "input.n % 2"),
        (lambda ref: 7 % ref, "7 % input.n"),
        (lambda ref: -ref, "-input.n"),
        (lambda ref: ref.startswith("a", True), "input.n.startswith('a', true)"),
        (lambda ref: sum([ref]), "0 + input.n"),
    ],
)
def test_nothing_is_computed_before_the_run(use: Any, written: str) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        use(Ref("input").n)
    assert f'write the whole expression as text: "${{{written}}}"' in str(caught.value)


def test_a_reference_is_neither_walked_nor_searched_nor_asked_for_private_names() -> None:
    with pytest.raises(TypeError):
        list(Ref("input"))  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        "a" in Ref("input")  # type: ignore[misc]  # noqa: B015
    with pytest.raises(InvalidDefinition, match=r"1\.5 is no field"):
        Ref("input")[1.5]  # type: ignore[index]
    assert not hasattr(Ref("input"), "__len__")
    assert copy.copy(Ref("input")) == Ref("input")
    assert {Ref("a"): 1}[Ref("a")] == 1


def test_values_become_json_with_references_in_them() -> None:
    value = {
        "ref": Ref("input").a,
        "list": (1, Ref("input").b),
        "point": Point(Ref("input").c),
        "color": Color.RED,
        "at": dt.date(2026, 1, 2),
        "price": Decimal("1.50"),
        "half": 0.5,
        "none": None,
    }

    assert render(value, "params") == {
        "ref": "${input.a}",
        "list": [1, "${input.b}"],
        "point": {"x": "${input.c}"},
        "color": "red",
        "at": "2026-01-02",
        "price": "1.50",
        "half": 0.5,
        "none": None,
    }


def test_what_json_cannot_hold_is_named_by_its_path() -> None:
    deep: list[Any] = []
    for _ in range(70):
        deep = [deep]
    node = Workflow("w").fork("charge")
    for value, said in [
        ({"a": [object()]}, "`p.a[0]` is of type object, which JSON cannot hold"),
        ({"a": float("nan")}, "`p.a` is nan, which JSON cannot hold"),
        ({1: 2}, "`p` has the key 1, not text"),
        ({"a": node}, "`p.a` is the node `charge` itself"),
        ({"a": "\ud800"}, "`p.a` holds half a character"),
        (deep, "is nested too deep"),
    ]:
        with pytest.raises(InvalidDefinition) as caught:
            render(value, "p")
        assert said in str(caught.value)
    with pytest.raises(InvalidDefinition, match=r"name what you want of it: `charge\.output`"):
        render(node, "p")
