"""The CEL engine as this project uses it: declared names and extensions; compile and run one text.

Only this module and `functions` touch `cel_expr_python`. It gives plain Python data and typed outcomes; it knows
nothing of definitions, scopes or reads. Inputs must be trees that came from JSON of bounded depth: the engine walks
them in C++ without a guard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

from tenuto.adapters.cel import functions

_ERROR = cel.Type.ERROR
_CONFIG = """\
name: tenuto
extensions:
  - name: lists
"""
"""What the engine brings along and has no module for."""


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


Declared = tuple[tuple[str, str], ...]
"""Names with dots, `input.amount`, each with its type as the engine writes it: `int`, `list<string>`."""


def compile_text(text: str, declared: Declared = ()) -> Compiled | Uncompiled:
    """Parse and check one expression. An optional result is unwrapped: none is null.

    `declared` are paths of data whose types are known; what was checked with any is not to be run.
    """
    compiled = _compile(text, declared)
    if isinstance(compiled, Compiled) and compiled.result == "optional":
        # The line break ends a comment that the text may end with.
        unwrapped = _compile(f"({text}\n).orValue(dyn(null))", declared)
        if isinstance(unwrapped, Compiled):
            return Compiled(unwrapped.expression, "dyn", compiled.tree)
        return unwrapped
    return compiled


def run(
    compiled: Compiled,
    names: Mapping[str, object],
    seed: str = "",
    longest: int = functions.RANGE_MAX,
) -> object | Raised:
    """Evaluate over these root names. Yields JSON-like data, or what the caller's door must refuse (times, bytes).

    `seed` is what `uuid` makes its ids of, `longest` the bound of a `range`.
    """
    functions.SEED.set(seed)
    functions.LONGEST.set(longest)
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


def _compile(text: str, declared: Declared) -> Compiled | Uncompiled:
    try:
        environment = _typed_environment(declared) if declared else _environment()
        expression = environment.compile(text)
        name = expression.return_type().name()  # raises for a map with keys that no map can have
    except RuntimeError as error:
        return Uncompiled(str(error))
    except TypeError:
        return Uncompiled("the expression holds a lone surrogate (broken Unicode)")
    result = name.partition("<")[0].lower().removesuffix("_type")
    return Compiled(expression, result, expression.serialize())


@cache
def _environment() -> Any:
    """That of all programs: an activation fits only the environment that compiled."""
    return _typed_environment(())


@lru_cache(maxsize=8)
def _typed_environment(declared: Declared) -> Any:
    kinds = cel.Type
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_CONFIG),
        variables={
            "input": kinds.DYN,
            "vars": kinds.DYN,
            "nodes": kinds.DYN,
            "iteration": kinds.INT,
            "error": kinds.DYN,
            "secrets": kinds.DYN,
            "params": kinds.DYN,
            "item": kinds.DYN,
            "index": kinds.INT,
            "event": kinds.DYN,
            "output": kinds.DYN,
            "cursor": kinds.DYN,
            # Whole names, each with its type: a time cannot be handed over inside an object.
            "node.entered_at": kinds.TIMESTAMP,
            "node.callback_key": kinds.STRING,
            **{name: kinds(signature) for name, signature in declared},
        },
        extensions=[
            ext_strings.ExtStrings(),
            ext_optional.ExtOptional(),
            ext_math.ExtMath(),
            ext_encoders.ExtEncoders(),
            ext_bindings.ExtBindings(),
            functions.extension(),
        ],
    )
