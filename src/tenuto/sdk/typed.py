"""What a task's annotations ask for: params (JSON) become arguments of those types, results become JSON again.

JSON's own types (`str`, `int`, `float`, `bool`, `None`, `list`, `dict`, `Literal`, `TypedDict` and what is made of
them) are checked here, without pydantic; any other type is pydantic's, in its strict mode for JSON. It calls no task
and registers none.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import inspect
import json
import sys
import types
import typing
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, Union, cast

from tenuto.model.errors import InvalidInput
from tenuto.worker.context import Context
from tenuto.worker.registry import (
    InvalidTask,
    Misfit,
    Task,
    Typing,
    bare_function,
    signature_of,
    type_text,
)

_SHOWN_MAX = 60
_PROBLEMS_MAX = 8
_LEVELS_MAX = 200
"""As deep as the door of results lets values be."""

Problems = list[str]
_Read = Callable[[Any, str, Problems], Any]
"""Turns a JSON value that stands at a path into one of a type; adds to the problems where it cannot."""


class _Unresolved(Exception):
    """An annotation names what is not there; the text is the name."""


def read_annotations(function: Callable[..., Any], name: str) -> Typing:
    """Read the annotations of the function of a task called `name`, once.

    Raises:
        InvalidTask: an annotation cannot be resolved, or JSON can never become what it says.
    """
    signature = signature_of(function, name)
    readers: dict[str, _Read] = {}
    contexts: set[str] = set()
    fillable: dict[str, object] = {}
    rest: _Read | None = None
    for parameter in signature.parameters.values():
        annotation = _resolved(function, parameter.annotation, parameter.name, name)
        if _is_context(annotation):
            contexts.add(parameter.name)
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        read = _reader(annotation, f"task {name!r}: parameter {parameter.name!r}")
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            rest = read
            fillable[""] = Any  # nothing is flat beside it
            continue
        fillable[parameter.name] = annotation
        if read is not None:
            readers[parameter.name] = read
    flat, fields = _flat(fillable)
    returns = signature.return_annotation is not inspect.Signature.empty
    return Typing(
        arguments=_arguments(readers, rest, tuple(fillable)) if readers or rest else None,
        result=plain if returns else None,
        contexts=frozenset(contexts),
        flat=flat,
        fields=fields,
    )


def checked_params(task: Task, params: Mapping[str, object]) -> dict[str, object]:
    """Params as JSON values that fit the task.

    Raises:
        InvalidInput: they do not fit, or JSON cannot hold them.
    """
    from tenuto.runtime.results import Refused, canonical, parse

    try:
        values = parse(canonical(plain(params), name="params"))
        task.bind(values)
    except Refused as error:  # written for who returns a value
        raise InvalidInput(str(error).replace("return ", "give ")) from None
    except Misfit as error:
        raise InvalidInput(str(error)) from None
    return cast("dict[str, object]", values)


def plain(value: object) -> object:
    """A value of Python as one that JSON can hold, as far as there is a usual form; all else stays as it is.

    Models and dataclasses become objects, sets become sorted lists, enum members their values,
    dates, times and UUIDs their usual texts, decimals texts that keep every digit.
    """
    return _plain(value, 0)


def _plain(value: object, level: int) -> object:
    if value is None or level > _LEVELS_MAX or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, dict):
        return {
            key.value if isinstance(key, enum.StrEnum) else key: _plain(part, level + 1)
            for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(part, level + 1) for part in value]
    if isinstance(value, set | frozenset):
        return _in_order([_plain(part, level + 1) for part in value])
    if isinstance(value, enum.Enum):
        return _plain(value.value, level + 1)
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID | decimal.Decimal):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {part.name: getattr(value, part.name) for part in dataclasses.fields(value)}
        return _plain(parts, level + 1)
    pydantic = sys.modules.get("pydantic")  # who has made a model has loaded it
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return cast("object", value.model_dump(mode="json", by_alias=True))
    return value


def _in_order(items: list[Any]) -> list[Any]:
    """What was a set, in an order that is the same in every process."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True, default=repr))


# -- annotations ----------------------------------------------------------------------------------


def _resolved(function: Callable[..., Any], annotation: object, parameter: str, name: str) -> Any:
    """An annotation without texts in it. Raises InvalidTask, which names what is missing."""
    if annotation is inspect.Parameter.empty:
        return Any
    code = inspect.unwrap(bare_function(function))
    scope = getattr(code, "__globals__", {})
    holder = types.SimpleNamespace(__annotations__={parameter: annotation})
    try:
        return typing.get_type_hints(holder, scope, {}, include_extras=True)[parameter]
    except (NameError, AttributeError) as error:
        missing = getattr(error, "name", None) or str(error)
        raise InvalidTask(
            f"task {name!r}: the annotation of {parameter!r}, {_type_name(annotation)}, names {missing!r},"
            " which is not there when the module runs; import or define it at the top level of the"
            " module, outside `if TYPE_CHECKING:`"
        ) from None
    except Exception as error:  # noqa: BLE001  an annotation may be any code
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidTask(
            f"task {name!r}: the annotation of {parameter!r}, {_type_name(annotation)}, is no type: {reason}"
        ) from None


def _is_context(annotation: object) -> bool:
    """Whether it is `Context` or `Context | None`."""
    parts = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    return Context in parts and all(part in (Context, types.NoneType) for part in parts)


def _is_union(annotation: object) -> bool:
    return typing.get_origin(annotation) in (Union, types.UnionType)


def _flat(fillable: Mapping[str, object]) -> tuple[str | None, frozenset[str] | None]:
    """The one parameter whose fields may be the params themselves, and their names.

    None where it has a field of its own name: then nobody could tell which of the two is meant.
    """
    if len(fillable) != 1:
        return None, None
    [(name, annotation)] = fillable.items()
    if not isinstance(annotation, type):
        return None, None
    if _is_model(annotation):
        names: set[str] = set()
        is_open = annotation.model_config.get("extra") is not None  # type: ignore[attr-defined]
        for field, info in annotation.model_fields.items():  # type: ignore[attr-defined]
            names.add(field)
            alias = info.validation_alias
            is_open = is_open or not isinstance(alias, str | None)
            names.add(alias if isinstance(alias, str) else field)
        return (None, None) if name in names else (name, None if is_open else frozenset(names))
    if dataclasses.is_dataclass(annotation):
        names = {field.name for field in dataclasses.fields(annotation) if field.init}
        return (None, None) if name in names else (name, frozenset(names))
    return None, None


def _is_model(annotation: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(annotation, pydantic.BaseModel)


# -- from JSON ------------------------------------------------------------------------------------


def _arguments(
    readers: Mapping[str, _Read], rest: _Read | None, names: Collection[str]
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What turns params whose names are right into arguments, all problems at once."""

    def convert(params: dict[str, Any]) -> dict[str, Any]:
        problems: Problems = []
        arguments = {}
        for name in (*(name for name in names if name in params), *sorted(params.keys() - names)):
            read, value = readers.get(name) if name in names else rest, params[name]
            arguments[name] = value if read is None else read(value, name, problems)
        if problems:
            more = len(problems) - _PROBLEMS_MAX
            said = problems[:_PROBLEMS_MAX] + ([f"and {more} more"] if more > 0 else [])
            raise Misfit("; ".join(said))
        return arguments

    return convert


def _reader(annotation: Any, what: str) -> _Read | None:
    """How JSON becomes a value of this type; None: any JSON will do."""
    if annotation is Any or annotation is object:
        return None
    scalar = _SCALARS.get(annotation) if isinstance(annotation, type) else None
    if scalar is not None:
        return scalar
    if annotation is None:
        return _read_none
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if (origin or annotation) in _LISTS:
        return _list_reader(_reader(parts[0], what) if parts else None)
    if (origin or annotation) in _DICTS and (not parts or parts[0] in (str, Any)):
        return _dict_reader(_reader(parts[1], what) if parts else None)
    if origin is Literal and all(type(part) in (str, int, bool, types.NoneType) for part in parts):
        return _literal_reader(parts)
    if _is_union(annotation):
        return _union_reader(annotation, parts, what)
    if typing.is_typeddict(annotation):
        return _typed_dict_reader(annotation, what)
    return _pydantic_reader(annotation, what)


_LISTS = (list, Sequence)
_DICTS = (dict, Mapping)


def _read_none(value: Any, path: str, problems: Problems) -> None:
    if value is not None:
        problems.append(_wrong(path, "null", value))


def _read_str(value: Any, path: str, problems: Problems) -> Any:
    if type(value) is not str:
        problems.append(_wrong(path, "text", value))
    return value


def _read_bool(value: Any, path: str, problems: Problems) -> Any:
    if type(value) is not bool:
        problems.append(_wrong(path, "true or false", value))
    return value


def _read_int(value: Any, path: str, problems: Problems) -> Any:
    if type(value) is not int:
        problems.append(_wrong(path, "a whole number", value))
    return value


def _read_float(value: Any, path: str, problems: Problems) -> Any:
    if type(value) is int:
        return float(value)
    if type(value) is not float:
        problems.append(_wrong(path, "a number", value))
    return value


_SCALARS: Mapping[type, _Read] = {
    str: _read_str,
    bool: _read_bool,
    int: _read_int,
    float: _read_float,
    types.NoneType: _read_none,
}


def _list_reader(item: _Read | None) -> _Read:
    def read(value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, list):
            problems.append(_wrong(path, "a list", value))
        elif item is not None:
            return [item(part, f"{path}[{n}]", problems) for n, part in enumerate(value)]
        return value

    return read


def _dict_reader(item: _Read | None) -> _Read:
    def read(value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, dict):
            problems.append(_wrong(path, "an object", value))
        elif item is not None:
            return {key: item(part, _member(path, key), problems) for key, part in value.items()}
        return value

    return read


def _literal_reader(options: Sequence[Any]) -> _Read:
    shown = " or ".join(_json(option) for option in options)

    def read(value: Any, path: str, problems: Problems) -> Any:
        if not any(type(value) is type(option) and value == option for option in options):
            problems.append(_wrong(path, shown, value))
        return value

    return read


def _union_reader(annotation: Any, parts: Sequence[Any], what: str) -> _Read | None:
    """The first of the types that fits; several that are pydantic's are left to it, which knows the best one."""
    choices = [part for part in parts if part is not types.NoneType]
    foreign = [part for part in choices if _is_foreign(part)]
    if foreign and len(choices) > 1:
        return _pydantic_reader(annotation, what)
    found = [_reader(part, what) for part in choices]
    readers = [read for read in found if read is not None]
    if len(readers) < len(found):
        return None  # one of them takes anything
    # A whole number is one, where both kinds of number may come.
    readers.sort(key=lambda read: read is _read_float)
    is_optional = len(choices) < len(parts)

    def read(value: Any, path: str, problems: Problems) -> Any:
        if value is None and is_optional:
            return None
        tried: list[Problems] = []
        for reader in readers:
            mine: Problems = []
            result = reader(value, path, mine)
            if not mine:
                return result
            tried.append(mine)
        inner = [mine for mine in tried if not any(said.startswith(f"{path} ") for said in mine)]
        if len(tried) == 1 or len(inner) == 1:  # of the right kind, but wrong inside
            problems.extend(inner[0] if len(inner) == 1 else tried[0])
        else:
            kinds = [
                mine[0].removeprefix(f"{path} must be ").rpartition(", not ")[0] for mine in tried
            ]
            problems.append(_wrong(path, " or ".join(dict.fromkeys(kinds)), value))
        return value

    return read


def _is_foreign(annotation: Any) -> bool:
    """Whether pydantic is needed for it, or for a part of it."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal or annotation in (Any, object, None) or annotation in _SCALARS:
        return False
    if (origin or annotation) in (*_LISTS, *_DICTS, Union, types.UnionType):
        return any(_is_foreign(part) for part in parts)
    return not typing.is_typeddict(annotation)


_being_read: dict[Any, _Read] = {}


def _typed_dict_reader(annotation: Any, what: str) -> _Read:
    if annotation in _being_read:
        return _being_read[annotation]
    try:
        hints = typing.get_type_hints(annotation)
    except NameError as error:
        raise InvalidTask(
            f"{what}: {_type_name(annotation)} names {error.name!r}, which is not there; define it"
            " at the top level of its module"
        ) from None
    # Where annotations are texts, the class itself does not know which keys are marked.
    marks = typing.get_type_hints(annotation, include_extras=True)
    required = {
        key
        for key, mark in marks.items()
        if typing.get_origin(mark) is typing.Required
        or (
            typing.get_origin(mark) is not typing.NotRequired
            and key in annotation.__required_keys__
        )
    }
    readers: dict[str, _Read | None] = {}

    def read(value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, dict):
            problems.append(_wrong(path, "an object", value))
            return value
        problems += [f"{path}.{key} is missing" for key in sorted(required - value.keys())]
        result = {}
        for key, part in value.items():
            reader = readers.get(key)
            if key not in hints:
                problems.append(f"{_member(path, key)} is no key of {_type_name(annotation)}")
            result[key] = part if reader is None else reader(part, _member(path, key), problems)
        return result

    _being_read[annotation] = read  # it may have itself for a part
    try:
        readers.update((key, _reader(hint, what)) for key, hint in hints.items())
    finally:
        del _being_read[annotation]
    return read


def _pydantic_reader(annotation: Any, what: str) -> _Read:
    from pydantic import (
        PydanticSchemaGenerationError,
        PydanticUndefinedAnnotation,
        PydanticUserError,
        TypeAdapter,
        ValidationError,
    )

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        if not adapter.pydantic_complete:
            adapter.rebuild(raise_errors=True)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        why = f": {_first_sentence(error)}"
        if isinstance(error, PydanticSchemaGenerationError):
            why = "; take a text or a number that names it, or a model of it"
        raise InvalidTask(
            f"{what} is annotated with {_type_name(annotation)}, which params (JSON) cannot become{why}"
        ) from None

    def read(value: Any, path: str, problems: Problems) -> Any:
        try:
            return adapter.validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            for found in error.errors(include_url=False, include_context=False):
                problems.append(_told(path, cast("_Error", found)))
            return value

    return read


class _Error(typing.TypedDict):
    """What is used of pydantic's own."""

    type: str
    loc: tuple[int | str, ...]
    msg: str
    input: Any


def _told(path: str, error: _Error) -> str:
    """One of pydantic's problems in our words."""
    for step in error["loc"]:
        path = f"{path}[{step}]" if isinstance(step, int) else _member(path, step)
    if error["type"] == "missing":
        return f"{path} is missing"
    given = _json(error["input"])
    if error["msg"].startswith("Input "):
        return f"{path} {error['msg'].removeprefix('Input ')}, not {given}"
    return f"{path}: {error['msg'].removeprefix('Value error, ')} (it is {given})"


def _wrong(path: str, expected: str, value: object) -> str:
    return f"{path} must be {expected}, not {_json(value)}"


def _json(value: object) -> str:
    """A value as JSON, short."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _member(path: str, key: str) -> str:
    return f"{path}.{key}" if key.isidentifier() else f"{path}[{_json(key)}]"


def _type_name(annotation: object) -> str:
    return f"`{type_text(annotation)!r}`"


def _first_sentence(error: Exception) -> str:
    first = str(error).strip().splitlines()[0]
    return first.partition(". ")[0].rstrip(".")
