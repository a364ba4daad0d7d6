"""Task functions by name, their arguments, and what is said when something does not fit."""

from __future__ import annotations

import collections.abc
import decimal
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal, get_type_hints

import pytest

from tenuto.worker.registry import (
    InvalidTask,
    Misfit,
    Registry,
    TaskError,
    Typing,
    UnknownTask,
)


def ship(order: str, *, fast: bool = False) -> str:
    return f"{order} {fast}"


@pytest.mark.rule("D1.3")
def test_a_function_is_known_by_its_own_name_and_stays_itself() -> None:
    registry = Registry()

    assert registry.add(ship) is ship
    assert registry.names() == ("ship",)
    assert registry.get("ship").function is ship


@pytest.mark.rule("D1.3")
def test_it_may_be_given_another_name() -> None:
    registry = Registry()
    registry.add(ship, name="parcels.ship")

    assert registry.names() == ("parcels.ship",)
    assert registry.signature("parcels.ship") == "(order: str, *, fast: bool = False) -> str"


def test_names_are_sorted() -> None:
    registry = Registry()
    for name in ("c", "a", "b"):
        registry.add(ship, name=name)

    assert registry.names() == ("a", "b", "c")


def test_two_functions_of_one_name_are_refused_with_both_places() -> None:
    registry = Registry()
    registry.add(ship)

    def other() -> None: ...

    with pytest.raises(
        InvalidTask,
        match=r"two tasks are named 'ship': .*\.ship \(line \d+\) and .*other \(line \d+\)",
    ):
        registry.add(other, name="ship")


def test_the_same_function_may_be_registered_again() -> None:
    registry = Registry()
    registry.add(ship)
    registry.add(ship)

    assert registry.names() == ("ship",)


def test_an_unknown_name_says_what_was_probably_meant() -> None:
    registry = Registry()
    registry.add(ship, name="parcels.ship")

    with pytest.raises(UnknownTask, match=r"no task 'parcel.ship'; did you mean 'parcels.ship'\?"):
        registry.get("parcel.ship")
    assert registry.find("parcel.ship") is None


@pytest.mark.parametrize(
    "name", ["", "two words", "a/b", "x" * 201, "http", "a\n", "a\0", "\ud800", "é", ".a", 3]
)
def test_a_name_that_could_not_be_written_or_is_the_engines_is_refused(name: str) -> None:
    with pytest.raises(InvalidTask):
        Registry().add(ship, name=name)


def test_parameters_that_cannot_be_given_by_keyword_are_refused() -> None:
    def odd(order: str, /) -> None: ...

    with pytest.raises(InvalidTask, match="'order' by position only"):
        Registry().add(odd)


def test_generators_are_refused() -> None:
    def many() -> Iterator[int]:
        yield 1

    async def many_later() -> AsyncIterator[int]:
        yield 1

    for function in (many, many_later):
        with pytest.raises(InvalidTask, match="generator"):
            Registry().add(function)


def test_a_function_without_a_readable_signature_is_refused() -> None:
    with pytest.raises(InvalidTask, match="no signature"):
        Registry().add(type, name="x")


@pytest.mark.rule("D1.3")
@pytest.mark.parametrize(
    ("params", "misfit"),
    [
        ({"order": "A"}, None),
        ({"order": "A", "fast": True}, None),
        ({}, "task ship(order: str, *, fast: bool = False) -> str needs 'order'"),
        (
            {"order": "A", "fsat": True},
            (
                "task ship(order: str, *, fast: bool = False) -> str"
                " has no parameter 'fsat'; did you mean 'fast'?"
            ),
        ),
        ([1], "task 'ship' takes keyword arguments, so its params must be an object, not a list"),
        (None, "task 'ship' takes keyword arguments, so its params must be an object, not null"),
    ],
)
def test_params_are_keyword_arguments_and_a_misfit_names_the_argument(
    params: object, misfit: str | None
) -> None:
    registry = Registry()
    registry.add(ship)

    assert registry.get("ship").misfit(params) == misfit


def test_a_function_with_open_keywords_takes_any_but_needs_its_own() -> None:
    def open_ended(a: int, **rest: Any) -> None: ...

    registry = Registry()
    registry.add(open_ended)
    task = registry.get("open_ended")

    assert task.misfit({"a": 1, "b": 2}) is None
    assert "needs 'a'" in str(task.misfit({"b": 2}))


def test_async_is_seen_through_partials_and_callable_objects() -> None:
    async def later(a: int) -> None: ...

    class Callable:
        async def __call__(self, a: int) -> None: ...

    registry = Registry()
    registry.add(functools.partial(later, a=1), name="partial")
    registry.add(Callable(), name="object")
    registry.add(functools.partial(ship, "A"), name="sync")

    assert registry.get("partial").is_async
    assert registry.get("object").is_async
    assert not registry.get("sync").is_async


def with_typing(typing: Typing) -> Registry:
    def charge(order: object) -> None: ...

    registry = Registry()
    registry.add(charge, typing=typing)
    return registry


def test_an_untyped_functions_params_are_its_arguments() -> None:
    registry = Registry()
    registry.add(ship)

    assert registry.get("ship").bind({"order": "A"}) == {"order": "A"}
    with pytest.raises(Misfit, match="needs 'order'"):
        registry.get("ship").bind({})


def test_arguments_are_converted_once_their_names_are_right() -> None:
    def convert(params: dict[str, Any]) -> dict[str, Any]:
        if params["order"] == 0:
            raise Misfit("order must not be 0")
        return {"order": params["order"] + 1}

    task = with_typing(Typing(arguments=convert)).get("charge")

    assert task.bind({"order": 1}) == {"order": 2}
    with pytest.raises(
        Misfit, match=r"^task charge\(order: object\) -> None: order must not be 0$"
    ):
        task.bind({"order": 0})
    with pytest.raises(Misfit, match="has no parameter 'odrer'; did you mean 'order'"):
        task.bind({"odrer": 0})


def test_fields_of_the_flat_parameter_stand_for_it() -> None:
    task = with_typing(Typing(flat="order", fields=frozenset({"id", "amount"}))).get("charge")

    assert task.bind({"id": 1, "amount": 2}) == {"order": {"id": 1, "amount": 2}}
    assert task.bind({"order": 3}) == {"order": 3}
    assert task.bind({}) == {"order": {}}
    with pytest.raises(Misfit, match="no parameter 'amuont'; did you mean 'amount'"):
        task.bind({"amuont": 2})
    assert task.misfit_of_names({"id": "${input.id}"}) is None
    assert "no parameter 'amuont'" in str(task.misfit_of_names({"amuont": 1}))


def test_a_context_is_neither_asked_for_nor_shown() -> None:
    def charge(here: object, order: str = "") -> None: ...

    registry = Registry()
    registry.add(charge, typing=Typing(contexts=frozenset({"here"})))

    assert registry.get("charge").bind({}) == {}
    assert registry.signature("charge") == "(order: str = '') -> None"
    with pytest.raises(Misfit, match="no parameter 'here'"):
        registry.get("charge").bind({"here": 1})


def test_a_signature_names_types_without_their_modules_and_quotes() -> None:
    def charge(
        a: collections.abc.Sequence[int],
        b: Annotated[decimal.Decimal, "x.y"],
        c: Literal["a.b"] = "a.b",
    ) -> decimal.Decimal | None: ...

    evaluated = get_type_hints(charge, include_extras=True)
    texts = Registry()
    texts.add(charge)
    charge.__annotations__ = evaluated
    types = Registry()
    types.add(charge)

    assert texts.signature("charge") == types.signature("charge")
    assert "b: Annotated[Decimal, 'x.y']" in types.signature("charge")


def test_a_task_error_says_its_code_and_message() -> None:
    error = TaskError("out_of_stock", "none left", details={"left": 0}, retryable=False)

    assert str(error) == "out_of_stock: none left"
    assert str(TaskError("out_of_stock")) == "out_of_stock"
    assert (error.details, error.retryable) == ({"left": 0}, False)
