"""The CEL engine as this project uses it: declared names, functions, overloads; compile and run one text.

The only module that touches `cel_expr_python`. It gives plain Python data and typed outcomes; it knows nothing of
definitions, scopes or reads. Inputs must be trees that came from JSON of bounded depth: the engine walks them in C++
without a guard.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

_ERROR = cel.Type.ERROR


@dataclass(frozen=True, slots=True)
class Compiled:
    """A checked expression. `result` is CEL's type name in lower case; `tree` is the serialised checked tree."""

    expression: Any
    result: str
    tree: bytes


@dataclass(frozen=True, slots=True)
class Uncompiled:
    """The engine's own complaint, one line per fault as `ERROR: <input>:line:column: text`."""

    complaint: str


@dataclass(frozen=True, slots=True)
class Raised:
    """Evaluation ended in an error; `complaint` is the engine's own text."""

    complaint: str


def compile_text(text: str) -> Compiled | Uncompiled:
    """Parse and check one expression. An optional result is unwrapped: none is null."""
    compiled = _compile(text)
    if isinstance(compiled, Compiled) and compiled.result == "optional":
        # The line break ends a comment that the text may end with.
        unwrapped = _compile(f"({text}\n).orValue(dyn(null))")
        if isinstance(unwrapped, Compiled):
            return Compiled(unwrapped.expression, "dyn", compiled.tree)
        return unwrapped
    return compiled


def run(compiled: Compiled, names: Mapping[str, object]) -> object | Raised:
    """Evaluate over these root names. Yields JSON-like data, or what the caller's door must refuse (times, bytes)."""
    try:
        result = compiled.expression.eval(_environment().Activation(names))
        value: object = result.plain_value()
        # An error is a value whose plain form is its text, so only texts need the question.
        if type(value) is str and result.type() == _ERROR:
            return Raised(value)
    except RuntimeError as error:
        return Raised(str(error))
    except (TypeError, SystemError):
        return Raised("the result is or holds an optional")
    return value


def _compile(text: str) -> Compiled | Uncompiled:
    try:
        expression = _environment().compile(text)
        name = expression.return_type().name()  # raises for a map with keys that no map can have
    except RuntimeError as error:
        return Uncompiled(str(error))
    except TypeError:
        return Uncompiled("the expression holds a lone surrogate (broken Unicode)")
    result = name.partition("<")[0].lower().removesuffix("_type")
    return Compiled(expression, result, expression.serialize())


@cache
def _environment() -> Any:
    kinds = cel.Type
    return cel.NewEnv(
        variables={
            "input": kinds.DYN,
            "vars": kinds.DYN,
            "nodes": kinds.DYN,
            "iteration": kinds.INT,
            "error": kinds.DYN,
            "secrets": kinds.DYN,
        },
        extensions=[
            ext_strings.ExtStrings(),
            ext_optional.ExtOptional(),
            cel.CelExtension("tenuto", [_mixed(*row) for row in _MIXED]),
        ],
    )


def _divide(left: float, right: float) -> float:
    """Divide as IEEE 754 does; Python raises where that has an infinity or NaN."""
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


_MIXED: tuple[tuple[str, str, Callable[[float, float], float]], ...] = (
    ("_+_", "add", lambda left, right: float(left + right)),
    ("_-_", "subtract", lambda left, right: float(left - right)),
    ("_*_", "multiply", lambda left, right: float(left * right)),
    ("_/_", "divide", _divide),
)


def _mixed(operator: str, name: str, compute: Callable[[float, float], float]) -> Any:
    """The overloads of an operator for an integer with a double, either way round (SEMANTICS X8)."""
    double = cel.Type.DOUBLE
    return cel.FunctionDecl(
        operator,
        [
            cel.Overload(
                f"{name}_{kind}_{other}",
                return_type=double,
                parameters=[left, right],
                is_member=False,
                impl=compute,
            )
            for whole, label in ((cel.Type.INT, "int64"), (cel.Type.UINT, "uint64"))
            for left, right, kind, other in (
                (whole, double, label, "double"),
                (double, whole, "double", label),
            )
        ],
    )
