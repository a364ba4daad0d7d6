"""The functions that a worker knows by name, and the error that they may raise. Calls nothing itself."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tenuto.model.errors import NotFound, TenutoError
from tenuto.worker.spawnable import NotImportable, Origin, origin_of, remember

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")
"""What every definition can name (`model.names.TASK_NAME`) and every store can hold."""
_Function = TypeVar("_Function", bound=Callable[..., Any])


class TaskError(Exception):
    """Raised by task code to fail its attempt with a code of its own choice.

    `code` is what `retry.rules` and failure edges match; `details` is any JSON value; `retryable` False: no attempt can
    help, whatever the node's retry says.
    """

    def __init__(
        self, code: str, message: str = "", *, details: object = None, retryable: bool = True
    ) -> None:
        self.code, self.message, self.details, self.retryable = code, message, details, retryable
        super().__init__(f"{code}: {message}" if message else code)


class UnknownTask(NotFound):
    """No function has this name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__("task", name, _meant(name, known).removeprefix("; "))


class InvalidTask(TenutoError):
    """A function cannot be a task, or its name is taken."""

    exit_code = 2


class Misfit(TenutoError):
    """Params that cannot be a function's arguments; the text names each of them, its trouble and the signature."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Typing:
    """What a function's annotations ask for; `sdk.typed` reads them.

    Attributes:
        arguments: turns params (JSON) that have the right names into arguments; its Misfit says what is wrong.
        result: turns a returned value into one that JSON can hold, as far as it knows how.
        contexts: parameters that are filled with the attempt's `Context`, and are no params.
        flat: the parameter whose fields may stand for it in params, if there is one.
        fields: the names that such params may have; None: any.
    """

    arguments: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    result: Callable[[object], object] | None = None
    contexts: frozenset[str] = frozenset()
    flat: str | None = None
    fields: frozenset[str] | None = None


UNTYPED = Typing()


@dataclass(frozen=True, slots=True)
class Task:
    """A registered function. `allowed` None: it takes any keyword (`**rest`).

    `process`: it runs in a process of its own, where `origin` says how to find it.
    """

    name: str
    function: Callable[..., Any]
    is_async: bool
    required: frozenset[str]
    allowed: frozenset[str] | None
    signature: str
    typing: Typing = UNTYPED
    process: bool = False
    origin: Origin | None = None

    @property
    def arguments(self) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
        """Turns params that have the right names into arguments; None: they are used as they are."""
        return self.typing.arguments

    def bind(self, params: object) -> dict[str, Any]:
        """The function's keyword arguments, its contexts aside (SEMANTICS D).

        Raises:
            Misfit: the params do not fit; the message is for people.
        """
        params = self._unflattened(params)
        misfit = self.misfit(params)
        if misfit is not None:
            raise Misfit(misfit)
        assert isinstance(params, dict)
        if self.typing.arguments is None:
            return params
        try:
            return self.typing.arguments(params)
        except Misfit as wrong:
            raise Misfit(f"task {self.name}{self.signature}: {wrong}") from None

    def misfit_of_names(self, params: Mapping[str, object]) -> str | None:
        """Why params of these names cannot be the function's, whatever their values; None when they can."""
        try:
            return self.misfit(self._unflattened(dict(params)))
        except Misfit as misfit:
            return str(misfit)

    def _unflattened(self, params: object) -> object:
        """Params that are the fields of the one parameter, put under its name."""
        flat = self.typing.flat
        if flat is None or not isinstance(params, dict) or flat in params:
            return params
        if not params and flat not in self.required:
            return params
        fields = self.typing.fields
        if fields is not None and not fields.issuperset(params):
            wrong = next(name for name in params if name not in fields)
            hint = _meant(wrong, {*fields, flat}) or f"; {flat!r} has {', '.join(sorted(fields))}"
            raise Misfit(f"task {self.name}{self.signature} has no parameter {wrong!r}{hint}")
        return {flat: params}

    def misfit(self, params: object) -> str | None:
        """Why `params` cannot be this function's keyword arguments (SEMANTICS D), or None when they can."""
        if not isinstance(params, dict):
            return (
                f"task {self.name!r} takes keyword arguments, so its params must be an object, not"
                f" {kind_of(params)}"
            )
        if self.allowed is not None and not self.allowed.issuperset(params):
            wrong = next(name for name in params if name not in self.allowed)
            return f"task {self.name}{self.signature} has no parameter {wrong!r}" + _meant(
                wrong, self.allowed
            )
        if not self.required <= params.keys():
            lacking = ", ".join(repr(name) for name in sorted(self.required - params.keys()))
            return f"task {self.name}{self.signature} needs {lacking}"
        return None


def kind_of(value: object) -> str:
    """What a JSON value is, for people."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "text" if isinstance(value, str) else "a number"


class Registry:
    """Task functions by name. Filled at import time; read by any thread."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def add(
        self,
        function: _Function,
        *,
        name: str | None = None,
        typing: Typing = UNTYPED,
        process: bool = False,
    ) -> _Function:
        """Register `function` and return it unchanged, so that `@registry.add` works. Its name is the default.

        Raises:
            InvalidTask: the name is taken by another function, or the function has parameters that cannot be given by
                keyword, or it is a generator; with `process`, no other process can find it.
        """
        task = _task_of(function, name, typing, process=process)
        taken = self._tasks.get(task.name)
        if taken is not None and taken.function is not function:
            raise InvalidTask(
                f"two tasks are named {task.name!r}: {_place_of(taken.function)} and"
                f" {_place_of(function)}; give one of them another name"
            )
        self._tasks[task.name] = task
        if task.origin is not None:
            remember(task.name, task.origin, task)
        return function

    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._tasks))

    def find(self, name: str) -> Task | None:
        """The task of that name, or None."""
        return self._tasks.get(name)

    def get(self, name: str) -> Task:
        """The task of that name. Raises UnknownTask, which says what was probably meant."""
        task = self._tasks.get(name)
        if task is None:
            raise UnknownTask(name, self.names())
        return task

    def signature(self, name: str) -> str:
        """How the function is declared, for people: `(order, *, amount=0)`. Raises UnknownTask."""
        return self.get(name).signature

    def missing(self, name: str) -> str:
        """What to tell somebody who asked for a name that is not here."""
        return str(UnknownTask(name, self.names()))


def _task_of(
    function: Callable[..., Any], name: str | None, typing: Typing, *, process: bool
) -> Task:
    """Look at a function once, so that a call needs no inspection."""
    called = name if name is not None else getattr(function, "__name__", "")
    if not isinstance(called, str) or not _NAME.fullmatch(called):
        raise InvalidTask(
            f"{called!r:.220} is no task name: 1 to 200 letters, digits and `_.:-`, the first none"
            " of the signs; give another with name="
        )
    if called in ("http", "code"):
        raise InvalidTask(f"a task cannot be named {called!r}: that is the engine's own")
    bare = bare_function(function)
    if inspect.isgeneratorfunction(bare) or inspect.isasyncgenfunction(bare):
        raise InvalidTask(f"task {called!r} is a generator; a task returns one value")
    signature = signature_of(function, called)
    required, allowed, open_ended = set[str](), set[str](), False
    for parameter in signature.parameters.values():
        if parameter.name in typing.contexts:
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            open_ended = True
        elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise InvalidTask(
                f"task {called!r} takes {parameter.name!r} by position only;"
                " params are keyword arguments"
            )
        elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            allowed.add(parameter.name)
            if parameter.default is inspect.Parameter.empty:
                required.add(parameter.name)
    return Task(
        name=called,
        function=function,
        is_async=inspect.iscoroutinefunction(bare),
        required=frozenset(required),
        allowed=None if open_ended else frozenset(allowed),
        signature=_shown(signature, typing.contexts),
        typing=typing,
        process=process,
        origin=_origin(called, bare) if process else None,
    )


def _origin(called: str, bare: Callable[..., Any]) -> Origin:
    try:
        return origin_of(bare)
    except NotImportable as reason:
        raise InvalidTask(f"task {called!r} has process=True, and {reason}") from None


def signature_of(function: Callable[..., Any], name: str) -> inspect.Signature:
    """How a function is declared. Raises InvalidTask where nobody can tell."""
    if not callable(function):
        raise InvalidTask(
            f"{function!r:.60} is no function; write @app.task above one, or @app.task(name=…)"
        )
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise InvalidTask(f"task {name!r} has no signature that can be read; wrap it") from None


@dataclass(frozen=True, slots=True)
class _Bare:
    """Shown in a signature as it is, without quotes."""

    text: str

    def __repr__(self) -> str:
        return self.text


_MODULE = re.compile(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")
_QUOTED = re.compile(r"""('[^']*'|"[^"]*")""")


def _shown(signature: inspect.Signature, contexts: Collection[str]) -> str:
    """A signature for people: types by their own names, and only what params can fill."""
    empty = inspect.Signature.empty
    parameters = [
        parameter
        if parameter.annotation is empty
        else parameter.replace(annotation=type_text(parameter.annotation))
        for parameter in signature.parameters.values()
        if parameter.name not in contexts
    ]
    returns = signature.return_annotation
    # Without the contexts a parameter with a default may come before one that has none: that is only shown.
    shown = inspect.Signature(
        parameters,
        return_annotation=empty if returns is empty else type_text(returns),
        __validate_parameters__=False,
    )
    return str(shown)


def type_text(annotation: object) -> _Bare:
    """An annotation for people: without the names of modules."""
    if not isinstance(annotation, str):
        annotation = inspect.formatannotation(annotation)
    parts = _QUOTED.split(annotation)  # texts of a Literal stay as they are
    parts[::2] = [_MODULE.sub("", part.replace("<locals>.", "")) for part in parts[::2]]
    return _Bare("".join(parts))


def bare_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind partials and callable objects."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        return type(function).__call__
    return function


def _place_of(function: Callable[..., Any]) -> str:
    """Where a function is from, for people."""
    bare = bare_function(function)
    line = getattr(getattr(bare, "__code__", None), "co_firstlineno", None)
    at = "" if line is None else f" (line {line})"
    return f"{getattr(bare, '__module__', '?')}.{getattr(bare, '__qualname__', bare)}{at}"


def _meant(wrong: str, known: Iterable[str]) -> str:
    """A hint, empty when nothing is near."""
    near = difflib.get_close_matches(wrong, sorted(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
