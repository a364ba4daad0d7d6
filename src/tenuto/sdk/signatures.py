"""What the annotations of an app's tasks tell the compiler: shapes of params and of results. Calls no task.

An annotation of a result is a promise that nobody checks, so only what holds for every value of the type is told.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import sys
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from tenuto.model.shapes import (
    ANY,
    BOOL,
    INT,
    STRING,
    Given,
    ParamProblem,
    Shape,
    ShapeKind,
    TaskShapes,
    listed,
)
from tenuto.worker.registry import Misfit, Registry, Task, bare_function

_SCALARS: Mapping[object, Shape] = {
    bool: BOOL,
    int: INT,
    **dict.fromkeys((str, dt.datetime, dt.date, dt.time, uuid.UUID, decimal.Decimal), STRING),
}
"""A `float` may hold a whole number, so it is not told from an `int`."""
_DICTS = (dict, Mapping)
_LISTS = (list, tuple, set, frozenset, Sequence)
_WORDS = {
    ShapeKind.BOOL: "true or false",
    ShapeKind.INT: "a whole number",
    ShapeKind.DOUBLE: "a number",
    ShapeKind.STRING: "text",
    ShapeKind.LIST: "a list",
    ShapeKind.OBJECT: "an object",
}
_DEEP = 8
"""Levels of types that hold types."""


def shapes_of(registry: Registry) -> TaskShapes:
    """The tasks of an app as the compiler asks for them."""
    return _Tasks(registry)


class _Tasks:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._hints: dict[str, Mapping[str, Any]] = {}

    def result(self, task: str) -> Shape:
        found = self._registry.find(task)
        return ANY if found is None else _shape(self._annotations(found).get("return", Any))

    def problems(self, task: str, params: Mapping[str, Given]) -> Sequence[ParamProblem]:
        found = self._registry.find(task)
        if found is None:
            return ()
        misfit = found.misfit_of_names({name: given.value for name, given in params.items()})
        if misfit is not None:
            return [ParamProblem(_named(misfit, params), misfit)]
        return [*self._types(found, params)]

    def _types(self, task: Task, params: Mapping[str, Given]) -> list[ParamProblem]:
        flat = task.typing.flat
        if flat is not None and flat not in params:
            return _whole(task, params)
        hints, told = self._annotations(task), []
        for name, given in params.items():
            problem = None
            if given.is_fixed:
                problem = _unfit(task, name, given.value)
            elif (wanted := _wanted(hints.get(name, Any))).differs_from(given.shape):
                is_, must = _WORDS[given.shape.kind], _WORDS[wanted.kind]
                problem = f"{name} must be {must}, and the expression yields {is_}"
            if problem is not None:
                told.append(ParamProblem(name, f"task {task.name}{task.signature}: {problem}"))
        return told

    def _annotations(self, task: Task) -> Mapping[str, Any]:
        if task.name not in self._hints:
            self._hints[task.name] = _hints(task.function)
        return self._hints[task.name]


def _hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Annotations as types; those that name what is only there for type checkers are not known."""
    try:
        return typing.get_type_hints(bare_function(function))
    except Exception:  # noqa: BLE001  an annotation may be any code
        return {}


def _unfit(task: Task, name: str, value: object) -> str | None:
    """Why one fixed value cannot be the parameter's."""
    if task.typing.arguments is None:
        return None
    try:
        task.typing.arguments({name: value})
    except Misfit as misfit:
        return str(misfit)
    return None


def _whole(task: Task, params: Mapping[str, Given]) -> list[ParamProblem]:
    """Params that are the fields of the one parameter: they are judged together, if all are fixed."""
    if not all(given.is_fixed for given in params.values()):
        return []
    try:
        task.bind({name: given.value for name, given in params.items()})
    except Misfit as misfit:
        return [ParamProblem(None, str(misfit))]
    return []


def _named(misfit: str, params: Mapping[str, Given]) -> str | None:
    """The parameter that a misfit of names is about; None if it is one that lacks."""
    return next((name for name in params if f"has no parameter {name!r}" in misfit), None)


def _wanted(annotation: Any) -> Shape:
    """What a parameter takes for certain; what pydantic makes of other JSON is its own business."""
    if annotation is float:
        return Shape(ShapeKind.DOUBLE)
    is_plain = annotation in (bool, int, str) or typing.is_typeddict(annotation)
    if is_plain or (typing.get_origin(annotation) or annotation) in (*_LISTS, *_DICTS, Literal):
        return _shape(annotation)
    return ANY


def _shape(annotation: Any, level: int = 0) -> Shape:
    """What JSON every value of a type becomes (`typed.plain`)."""
    if level > _DEEP:
        return ANY
    if isinstance(annotation, type) and annotation in _SCALARS:
        return _SCALARS[annotation]
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if (origin or annotation) in _LISTS:
        alike = len(parts) == 1 or (len(parts) == 2 and parts[1] is Ellipsis)
        return listed(_shape(parts[0], level + 1) if alike else ANY)
    if (origin or annotation) in _DICTS:
        return Shape(ShapeKind.OBJECT, more=True)
    if origin is Literal:
        return STRING if all(type(part) is str for part in parts) else ANY
    if origin is typing.Annotated:
        return _shape(parts[0], level + 1)
    if typing.is_typeddict(annotation):
        return Shape(ShapeKind.OBJECT, _fields(annotation, level))
    if not isinstance(annotation, type) or isinstance(annotation, types.GenericAlias):
        return ANY
    if dataclasses.is_dataclass(annotation):
        known = _fields(annotation, level)
        named = {field.name: known.get(field.name, ANY) for field in dataclasses.fields(annotation)}
        return Shape(ShapeKind.OBJECT, named, closed=not annotation.__subclasses__())
    return _model(annotation)


def _fields(annotation: type, level: int) -> dict[str, Shape]:
    try:
        hints = typing.get_type_hints(annotation)
    except Exception:  # noqa: BLE001  an annotation may be any code
        return {}
    return {name: _shape(hint, level + 1) for name, hint in hints.items()}


def _model(annotation: type) -> Shape:
    """A pydantic model; how a field is written is the model's own business."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not issubclass(annotation, pydantic.BaseModel):
        return ANY
    model: Any = annotation
    own = model.__pydantic_decorators__
    if own.model_serializers or issubclass(annotation, pydantic.RootModel):
        return ANY
    names = [info.serialization_alias or name for name, info in model.model_fields.items()]
    more = bool(own.computed_fields or model.model_config.get("extra"))
    return Shape(ShapeKind.OBJECT, dict.fromkeys(names, ANY), more=more)
