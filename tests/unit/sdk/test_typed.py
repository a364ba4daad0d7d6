"""Params become arguments of the types that a function asks for, or one text that says why not."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field

from tenuto import Context
from tenuto.model.errors import InvalidInput
from tenuto.runtime.results import Refused, canonical
from tenuto.sdk.typed import checked_params, plain, read_annotations
from tenuto.worker.registry import InvalidTask, Misfit, Registry, Task


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    sku: str
    count: int = Field(gt=0)


class Order(BaseModel):
    id: str
    amount: Decimal
    at: dt.datetime
    lines: list[Line] = []


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: str


class Aliased(BaseModel):
    order_id: str = Field(alias="orderId")


class OwnName(BaseModel):
    own: str


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


class Branch(TypedDict):
    name: str
    kids: NotRequired[list[Branch]]


class Connection:
    pass


class Later(BaseModel):
    next: Nowhere  # type: ignore[name-defined]  # noqa: F821


def task(function: Callable[..., Any], name: str = "t") -> Task:
    registry = Registry()
    registry.add(function, name=name, typing=read_annotations(function, name))
    return registry.get(name)


def taking(annotation: Any) -> Task:
    """A task `t` of one parameter `v`."""

    def t(v: Any) -> None: ...

    t.__annotations__["v"] = annotation
    return task(t)


def trouble(of: Task, params: object) -> str:
    with pytest.raises(Misfit) as caught:
        of.bind(params)
    return str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "given", "value"),
    [
        (int, 3, 3),
        (float, 3, 3.0),
        (float, 2.5, 2.5),
        (str, "a", "a"),
        (bool, True, True),
        (None, None, None),
        (Any, {"a": [1]}, {"a": [1]}),
        (object, 1, 1),
        (list, [1, "a"], [1, "a"]),
        (dict, {"a": 1}, {"a": 1}),
        (list[float], [1, 2.5], [1.0, 2.5]),
        (Sequence[int], [1], [1]),
        (Mapping[str, int], {"a": 1}, {"a": 1}),
        (dict[str, list[int]], {"a": [1]}, {"a": [1]}),
        (int | None, None, None),
        (int | str, "a", "a"),
        (float | int, 3, 3),
        (Literal["x", 1], 1, 1),
        (Branch, {"name": "a", "kids": [{"name": "b"}]}, {"name": "a", "kids": [{"name": "b"}]}),
        (Color, "red", Color.RED),
        (dt.datetime, "2026-01-02T03:04:05Z", dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
        (dt.date, "2026-01-02", dt.date(2026, 1, 2)),
        (dt.timedelta, "PT90S", dt.timedelta(seconds=90)),
        (uuid.UUID, str(uuid.UUID(int=7)), uuid.UUID(int=7)),
        (Decimal, "1.50", Decimal("1.50")),
        (set[int], [1, 2], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (Point, {"x": 1, "y": 2}, Point(1, 2.0)),
        (list[Point], [{"x": 1}], [Point(1)]),
        (dict[str, Color], {"a": "blue"}, {"a": Color.BLUE}),
        (Order | None, None, None),
        (Annotated[int, Field(gt=2)], 3, 3),
        (dict[int, str], {"1": "a"}, {1: "a"}),
    ],
    ids=str,
)
def test_a_value_of_json_becomes_one_of_the_type(annotation: Any, given: Any, value: Any) -> None:
    found = taking(annotation).bind({"v": given})["v"]

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("annotation", "given", "said"),
    [
        (int, "1", 'v must be a whole number, not "1"'),
        (int, 1.0, "v must be a whole number, not 1.0"),
        (int, True, "v must be a whole number, not true"),
        (float, "1", 'v must be a number, not "1"'),
        (str, 1, "v must be text, not 1"),
        (bool, 0, "v must be true or false, not 0"),
        (None, 0, "v must be null, not 0"),
        (list[int], {"a": 1}, 'v must be a list, not {"a": 1}'),
        (
            list[int],
            [1, "a", None],
            'v[1] must be a whole number, not "a"; v[2] must be a whole number, not null',
        ),
        (dict[str, int], {"a b": "c"}, 'v["a b"] must be a whole number, not "c"'),
        (int | None, "a", 'v must be a whole number, not "a"'),
        (int | str | None, [], "v must be a whole number or text, not []"),
        (list[int] | str, ["a"], 'v[0] must be a whole number, not "a"'),
        (Literal["x", "y"], "z", 'v must be "x" or "y", not "z"'),
        (Literal[1], True, "v must be 1, not true"),
        (Branch, {"kids": [{"name": 1}]}, "v.name is missing; v.kids[0].name must be text, not 1"),
        (Branch, {"name": "a", "z": 1}, "v.z is no key of `Branch`"),
        (Color, "green", "v should be 'red' or 'blue', not \"green\""),
        (Point, {"x": "1"}, 'v.x should be a valid integer, not "1"'),
        (Annotated[int, Field(gt=2)], 1, "v should be greater than 2, not 1"),
        (str, "x" * 100, None),
        (int, "x" * 100, f'v must be a whole number, not "{"x" * 59}…'),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_named_with_its_trouble(
    annotation: Any, given: Any, said: str | None
) -> None:
    found = taking(annotation)

    if said is None:
        assert found.bind({"v": given}) == {"v": given}
    else:
        assert trouble(found, {"v": given}) == f"task t{found.signature}: {said}"


def test_all_problems_are_told_at_once_with_the_signature() -> None:
    def charge(order: Order, note: str = "", *, times: int = 1) -> None: ...

    said = trouble(
        task(charge, "pay.charge"),
        {"order": {"id": 1, "amount": "x", "lines": [{"count": 0}]}, "times": "2"},
    )

    assert said == (
        "task pay.charge(order: Order, note: str = '', *, times: int = 1) -> None: "
        'order.id should be a valid string, not 1; order.amount should be a valid decimal, not "x"; '
        "order.at is missing; order.lines[0].sku is missing; "
        "order.lines[0].count should be greater than 0, not 0; "
        'times must be a whole number, not "2"'
    )


def test_of_very_many_problems_the_first_are_told() -> None:
    assert trouble(taking(list[int]), {"v": ["a"] * 100}).endswith('not "a"; and 92 more')


def test_keywords_of_an_open_function_are_checked_too() -> None:
    def add(**numbers: int) -> None: ...

    assert task(add).bind({"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert "b must be a whole number" in trouble(task(add), {"a": 1, "b": "2"})


# -- one model as the params ----------------------------------------------------------------------


@pytest.mark.parametrize("annotation", [Line, Point])
def test_the_fields_of_the_one_model_may_be_the_params(annotation: Any) -> None:
    fields = {"sku": "a", "count": 1} if annotation is Line else {"x": 1}
    of = taking(annotation)

    assert of.bind(fields) == of.bind({"v": fields}) == {"v": annotation(**fields)}


def test_params_that_name_the_parameter_are_never_taken_for_fields() -> None:
    assert "has no parameter 'sku'" in trouble(taking(Line), {"v": {}, "sku": "a"})


def test_an_unknown_field_is_an_unknown_parameter() -> None:
    said = trouble(taking(Line), {"sku": "a", "cuont": 1})

    assert said == "task t(v: Line) -> None has no parameter 'cuont'; did you mean 'count'?"
    assert trouble(taking(Line), {"zzz": 1}).endswith("; 'v' has count, sku")


def test_a_model_that_says_how_it_takes_unknown_fields_is_asked() -> None:
    assert taking(Open).bind({"id": "a", "more": 1})["v"].more == 1


def test_fields_may_have_the_names_that_json_has_for_them() -> None:
    assert taking(Aliased).bind({"orderId": "a"}) == {"v": Aliased(orderId="a")}


def test_without_params_a_parameter_keeps_its_default() -> None:
    def plot(at: Point = Point(5)) -> None: ...  # noqa: B008

    assert task(plot).bind({}) == {}
    assert task(plot).bind({"x": 1}) == {"at": Point(1)}


def test_a_model_with_a_field_of_the_parameters_name_is_given_by_name_only() -> None:
    def save(own: OwnName) -> None: ...

    assert task(save).bind({"own": {"own": "a"}}) == {"own": OwnName(own="a")}
    assert "own should be" in trouble(task(save), {"own": "a"})


def test_beside_other_parameters_a_model_is_given_by_name() -> None:
    def save(line: Line, fast: bool = False) -> None: ...

    assert "has no parameter 'sku'" in trouble(task(save), {"sku": "a", "count": 1})


# -- the context ----------------------------------------------------------------------------------


def test_a_context_is_no_param_and_not_shown() -> None:
    def save(here: Context, line: Line, other: Context | None = None) -> None: ...

    found = task(save)

    assert found.typing.contexts == {"here", "other"}
    assert found.signature == "(line: Line) -> None"
    assert found.bind({"sku": "a", "count": 1}) == {"line": Line(sku="a", count=1)}
    assert "has no parameter 'here'" in trouble(found, {"line": {}, "here": 1})


# -- what cannot be read --------------------------------------------------------------------------


def test_a_type_that_json_never_becomes_is_refused_when_it_is_registered() -> None:
    with pytest.raises(InvalidTask, match=r"'t': parameter 'v' is annotated with `Connection`"):
        taking(Connection)
    with pytest.raises(InvalidTask, match=r"`list\[Connection\]`|`Connection`"):
        taking(list[Connection])


def test_a_forward_reference_to_nowhere_names_the_parameter_and_the_name() -> None:
    def save(order: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidTask, match="annotation of 'order', `Nowhere`, names 'Nowhere'"):
        task(save)


def test_a_class_made_inside_a_function_cannot_be_found_by_its_name() -> None:
    class Local(BaseModel):
        id: str

    def save(order: Local) -> None: ...

    with pytest.raises(InvalidTask, match=r"names 'Local'.*top level of the module"):
        task(save)


def test_a_model_that_is_not_complete_is_refused() -> None:
    with pytest.raises(InvalidTask, match="Later"):
        taking(Later)


def test_an_annotation_that_is_no_type_is_refused() -> None:
    def save(order: 1 + 1) -> None: ...  # type: ignore[valid-type]

    with pytest.raises(InvalidTask, match="parameter 'order' is annotated with `2`"):
        task(save)


def test_what_a_function_returns_need_not_be_known() -> None:
    def save() -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821

    assert task(save).bind({}) == {}


def test_partials_and_objects_are_read_as_what_they_call() -> None:
    class Adder:
        def __call__(self, a: int, b: int = 0) -> int:
            return a + b

    def add(a: int, b: int) -> int:
        return a + b

    assert "b must be a whole number" in trouble(task(functools.partial(add, 1)), {"b": "2"})
    assert "a must be a whole number" in trouble(task(Adder()), {"a": "2"})


def test_functions_of_jsons_own_types_load_no_pydantic() -> None:
    program = (
        "import sys\nfrom tenuto import Tenuto\nfrom typing import TypedDict\napp = Tenuto(':memory:')\n"
        "class T(TypedDict):\n a: int\n"
        "@app.task\ndef f(a: int, b: list[dict[str, float | None]], c: T) -> set[int]: return {a}\n"
        "assert app.registry.get('f').bind({'a': 1, 'b': [], 'c': {'a': 1}})\n"
        "print('pydantic' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "False\n"


# -- back to JSON ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Line(sku="a", count=1), '{"count":1,"sku":"a"}'),
        (Aliased(orderId="a"), '{"orderId":"a"}'),
        (Point(1, 2), '{"x":1,"y":2}'),
        ([Point(1), Color.RED], '[{"x":1,"y":0.0},"red"]'),
        ({"b", "a", "c", "d", "e"}, '["a","b","c","d","e"]'),
        (frozenset({2, 10}), "[2,10]"),
        ((1, {2}), "[1,[2]]"),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Decimal("1.50"), '"1.50"'),
        (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), '"2026-01-02T00:00:00+00:00"'),
        (dt.date(2026, 1, 2), '"2026-01-02"'),
        ({"a": {"b": Order(id="1", amount=Decimal(1), at=dt.datetime(2026, 1, 2, tzinfo=dt.UTC))}},
         '{"a":{"b":{"amount":"1","at":"2026-01-02T00:00:00Z","id":"1","lines":[]}}}'),
    ],
)  # fmt: skip
def test_values_of_python_have_a_usual_form_in_json(value: object, text: str) -> None:
    assert canonical(plain(value)) == text


@pytest.mark.parametrize("value", [object(), b"a", {1: 2}, float("nan"), {object()}, Connection()])
def test_what_json_cannot_hold_is_still_refused_by_the_door(value: object) -> None:
    with pytest.raises(Refused):
        canonical(plain(value))


def test_a_value_that_holds_itself_is_left_to_the_door() -> None:
    value: list[Any] = []
    value.append(value)

    with pytest.raises(Refused):
        canonical(plain(value))


def test_a_function_that_does_not_say_what_it_returns_is_not_helped() -> None:
    def untyped(a):  # type: ignore[no-untyped-def]
        return a

    assert task(untyped).typing.result is None
    assert taking(int).typing.result is plain


# -- enqueue's door -------------------------------------------------------------------------------


def test_params_may_be_models_and_become_json() -> None:
    assert checked_params(taking(Line), {"v": Line(sku="a", count=1)}) == {
        "v": {"sku": "a", "count": 1}
    }
    assert checked_params(taking(set[int]), {"v": {2, 1}}) == {"v": [1, 2]}
    assert checked_params(taking(Point), {"x": 1}) == {"x": 1}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("1", 'v must be a whole number, not "1"'),
        (object(), "params.v is an object, which JSON cannot hold"),
        (float("nan"), "params.v is NaN, which JSON cannot hold: give None or a string"),
    ],
)
def test_params_that_do_not_fit_are_an_invalid_input(value: object, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked_params(taking(int), {"v": value})

    assert said in str(caught.value)
