"""What annotations of tasks tell the compiler: problems of params that are certain, and shapes of results."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from typing import Any, Literal, TypedDict

import pydantic
import pytest

from tenuto.model.shapes import (
    ANY,
    BOOL,
    INT,
    STRING,
    Given,
    Shape,
    ShapeKind,
    TaskShapes,
    listed,
)
from tenuto.sdk.signatures import shapes_of
from tenuto.sdk.typed import read_annotations
from tenuto.worker.context import Context
from tenuto.worker.registry import Registry


class Row(TypedDict):
    name: str


@dataclasses.dataclass
class Receipt:
    number: int
    tags: list[str]


@dataclasses.dataclass
class Base:
    a: int


@dataclasses.dataclass
class Below(Base):
    b: int


class Order(pydantic.BaseModel):
    id: str
    amount: int = pydantic.Field(default=1, serialization_alias="sum")


class Loose(pydantic.BaseModel, extra="allow"):
    id: str


def app_of(*functions: Callable[..., Any]) -> TaskShapes:
    registry = Registry()
    for function in functions:
        registry.add(function, typing=read_annotations(function, function.__name__))
    return shapes_of(registry)


def charge(
    ctx: Context, order: str, *, amount: int = 0, rate: float = 1.0, how: Literal["a", "b"] = "a"
) -> Receipt:
    raise NotImplementedError


def free(**anything: Any) -> None:
    raise NotImplementedError


def take(order: Order) -> Order:
    raise NotImplementedError


APP = app_of(charge, free, take)


def fixed(value: object) -> Given:
    return Given(ANY, is_fixed=True, value=value)


@pytest.mark.parametrize(
    ("params", "name", "told"),
    [
        ({"order": fixed("x"), "ammount": fixed(1)}, "ammount", "did you mean 'amount'?"),
        ({"amount": fixed(1)}, None, "needs 'order'"),
        ({"order": fixed(1)}, "order", "order must be text, not 1"),
        ({"order": fixed("x"), "how": fixed("c")}, "how", 'how must be "a" or "b", not "c"'),
        (
            {"order": Given(INT)},
            "order",
            "order must be text, and the expression yields a whole number",
        ),
        ({"order": Given(STRING), "rate": Given(STRING)}, "rate", "rate must be a number"),
    ],
)
def test_params_that_do_not_fit_are_told(
    params: dict[str, Given], name: str | None, told: str
) -> None:
    [problem] = APP.problems("charge", params)

    assert problem.name == name
    assert told in problem.message
    assert "charge(order: str" in problem.message


@pytest.mark.parametrize(
    ("task", "params"),
    [
        ("charge", {"order": fixed("x")}),
        ("charge", {"order": Given(ANY), "amount": Given(ANY)}),
        (
            "charge",
            {"order": Given(STRING), "rate": Given(INT), "amount": Given(Shape(ShapeKind.DOUBLE))},
        ),
        ("free", {"whatever": fixed(1)}),
        ("nobody", {"whatever": fixed(1)}),
        ("take", {"id": fixed("x")}),
        ("take", {"order": Given(ANY)}),
        ("take", {"id": Given(INT), "amount": fixed(1)}),
    ],
)
def test_params_that_may_fit_are_left_alone(task: str, params: dict[str, Given]) -> None:
    assert list(APP.problems(task, params)) == []


def test_fields_of_the_one_parameter_are_judged_together() -> None:
    [problem] = APP.problems("take", {"id": fixed(1)})

    assert "id" in problem.message


@pytest.mark.parametrize(
    ("returns", "shape"),
    [
        (str, STRING),
        (bool, BOOL),
        (int, INT),
        (float, ANY),
        (dt.date, STRING),
        (list[int], listed(INT)),
        (tuple[str, ...], listed(STRING)),
        (tuple[str, int], listed()),
        (list, listed()),
        (dict[str, int], Shape(ShapeKind.OBJECT, more=True)),
        (Literal["a", "b"], STRING),
        (int | None, ANY),
        (None, ANY),
        (Any, ANY),
        (Row, Shape(ShapeKind.OBJECT, {"name": STRING})),
        (Receipt, Shape(ShapeKind.OBJECT, {"number": INT, "tags": listed(STRING)}, closed=True)),
        (Base, Shape(ShapeKind.OBJECT, {"a": INT})),  # what comes may be a Below
        (Order, Shape(ShapeKind.OBJECT, {"id": ANY, "sum": ANY})),
        (Loose, Shape(ShapeKind.OBJECT, {"id": ANY}, more=True)),
        (pydantic.RootModel[int], ANY),
    ],
)
def test_the_shape_of_a_result(returns: Any, shape: Shape) -> None:
    def task() -> Any: ...

    task.__annotations__["return"] = returns

    assert app_of(task).result("task") == shape


def test_what_is_not_known_may_return_anything() -> None:
    def task() -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821

    registry = Registry()
    registry.add(task)

    assert shapes_of(registry).result("task") == ANY
    assert shapes_of(registry).result("nobody") == ANY
