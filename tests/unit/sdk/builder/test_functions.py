"""Functions that nodes name, and functions whose source nodes carry."""

from __future__ import annotations

import asyncio
import functools
import math
from typing import Any

import pytest

from tenuto import InvalidDefinition, Tenuto
from tenuto.sdk.builder.functions import registered, source_of

LIMIT = 3


def reserve(order: str) -> str:
    return order


def risk(params: dict[str, Any]) -> dict[str, float]:
    """Who risks what."""
    import math as maths

    def inner(x: float) -> float:
        return maths.sqrt(x)

    return {"risk": inner(params["amount"])}


async def main(params: dict[str, Any]) -> int:
    return len(params)


def limited(params: dict[str, Any]) -> float:
    return math.sqrt(params["a"]) * LIMIT


def recursive(params: dict[str, Any]) -> Any:
    return recursive(params)


@functools.cache
def cached(params: Any) -> Any:
    return params


def as_it_is(function: Any) -> Any:
    return function


@as_it_is
def decorated(params: Any) -> Any:
    return params


async def spread(
    params: dict[str, Any],  # what it gets
    *,
    more: int = (3),
) -> (
    dict[str, Any]
):  # fmt: skip
    return {**params, "é": more}


def short(params: Any, **rest: int) -> str: return 'é'  # fmt: skip


def test_a_registered_function_is_known_by_its_name_in_whatever_app() -> None:
    one, two = Tenuto(":memory:"), Tenuto(":memory:")

    def mine(order: str) -> str:
        return order

    one.task(name="stock.reserve")(mine)
    two.task(name="stock.reserve")(mine)

    assert registered(mine).name == "stock.reserve"


def test_a_function_of_two_names_must_be_named() -> None:
    app = Tenuto(":memory:")

    def mine(order: str) -> str:
        return order

    app.task(name="a")(mine)
    app.task(name="b")(mine)

    with pytest.raises(InvalidDefinition, match=r"registered as 'a', 'b'") as caught:
        registered(mine)
    assert "name one of them, as text" in str(caught.value)


def test_methods_are_found_as_what_they_are() -> None:
    class Stock:
        def reserve(self, order: str) -> str:
            return order

    stock, app = Stock(), Tenuto(":memory:")
    app.task(stock.reserve)

    assert registered(stock.reserve).name == "reserve"


def test_a_function_that_nobody_registered_says_how_to() -> None:
    with pytest.raises(
        InvalidDefinition, match="the function reserve: it is not registered"
    ) as caught:
        registered(reserve)
    assert "put `@app.task` above it" in str(caught.value)


def test_an_app_that_is_gone_has_registered_nothing() -> None:
    def mine(order: str) -> str:
        return order

    Tenuto(":memory:").task(mine)

    import gc

    gc.collect()
    with pytest.raises(InvalidDefinition, match="not registered"):
        registered(mine)


def test_the_source_of_a_function_is_its_text_under_the_name_main() -> None:
    text = source_of(risk)

    assert text.startswith("def main(params):\n")
    assert text.endswith('    return {"risk": inner(params["amount"])}\n')
    assert source_of(main) == "async def main(params):\n    return len(params)\n"


def test_a_function_inside_another_is_taken_out_of_its_indentation() -> None:
    def inside(params: dict[str, Any]) -> int:
        return 1

    assert source_of(inside) == "def main(params):\n    return 1\n"


def test_a_head_of_many_lines_is_cut_where_its_annotations_stand() -> None:
    scope: dict[str, Any] = {}
    exec(compile(source_of(spread), "code", "exec"), scope)

    assert asyncio.run(scope["main"]({"a": 1})) == {"a": 1, "é": 3}
    assert source_of(short).startswith("def main(params, **rest):\n    return 'é'")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (limited, "it uses `LIMIT`, `math` of the outside"),
        (recursive, "it uses `recursive` of the outside"),
        (lambda params: params, "it is no function made by `def`"),
        (cached, "it is no function made by `def`"),
        (decorated, "it has a decorator"),
        (len, "it is no function made by `def`"),
    ],
)
def test_a_function_that_does_not_stand_alone_is_refused(function: Any, said: str) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        source_of(function)

    assert said in str(caught.value)


def test_a_function_that_uses_its_surroundings_is_refused() -> None:
    seen: list[int] = []

    def inside(params: dict[str, Any]) -> None:
        seen.append(1)

    with pytest.raises(InvalidDefinition, match="it uses `seen`"):
        source_of(inside)
