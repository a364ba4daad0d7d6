"""References such as `charge.output.id`, and values that hold them, as JSON with `${…}`. Checks no expression."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from enum import Enum
from typing import NoReturn

from tenuto.dsl.limits import RESERVED
from tenuto.model.definition import NESTING_MAX
from tenuto.sdk.builder.origins import mistake
from tenuto.sdk.typed import plain

Json = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HALF = re.compile("[\ud800-\udfff]")


class Ref:
    """A value of the run, named before it is there. As text it is `${nodes.charge.output.id}`.

    Any attribute is a field of the value: `charge.output.id`; other keys and numbers stand in brackets.
    """

    __slots__ = ("_text",)
    __iter__ = None
    __contains__ = None

    def __init__(self, text: str) -> None:
        self._text = text

    def __getattr__(self, name: str) -> Ref:
        if name.startswith("_"):
            raise AttributeError(name)  # Python asks for many such names; a field is `ref["_name"]`
        return self[name]

    def __getitem__(self, key: str | int) -> Ref:
        if type(key) is int:
            return Ref(f"{self._text}[{key}]")
        if not isinstance(key, str):
            raise mistake("expression", f"{key!r:.60} is no field", "name it by a text or a number")
        if _FIELD.fullmatch(key) and key not in RESERVED:
            return Ref(f"{self._text}.{key}")
        return Ref(f"{self._text}[{json.dumps(key)}]")

    def __str__(self) -> str:
        return f"${{{self._text}}}"

    def __repr__(self) -> str:
        return f"<{self._text}>"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __bool__(self) -> bool:  # noqa: PLE0304 - it has no truth yet
        self._compared()

    def __lt__(self, other: object) -> bool:
        self._compared()

    __le__ = __gt__ = __ge__ = __lt__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ref):
            self._compared()
        return self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __add__(self, other: object) -> NoReturn:
        self._computed(f"{self._text} + {_operand(other)}")

    def __radd__(self, other: object) -> NoReturn:
        self._computed(f"{_operand(other)} + {self._text}")

    def __sub__(self, other: object) -> NoReturn:
        self._computed(f"{self._text} - {_operand(other)}")

    def __rsub__(self, other: object) -> NoReturn:
        self._computed(f"{_operand(other)} - {self._text}")

    def __mul__(self, other: object) -> NoReturn:
        self._computed(f"{self._text} * {_operand(other)}")

    def __rmul__(self, other: object) -> NoReturn:
        self._computed(f"{_operand(other)} * {self._text}")

    def __truediv__(self, other: object) -> NoReturn:
        self._computed(f"{self._text} / {_operand(other)}")

    def __rtruediv__(self, other: object) -> NoReturn:
        self._computed(f"{_operand(other)} / {self._text}")

    __floordiv__, __rfloordiv__ = __truediv__, __rtruediv__  # of whole numbers `/` is that

    def __mod__(self, other: object) -> NoReturn:
        self._computed(f"{self._text} % {_operand(other)}")

    def __rmod__(self, other: object) -> NoReturn:
        self._computed(f"{_operand(other)} % {self._text}")

    def __neg__(self) -> NoReturn:
        self._computed(f"-{self._text}")

    def __call__(self, *arguments: object) -> NoReturn:
        self._computed(f"{self._text}({', '.join(map(_operand, arguments))})")

    def _computed(self, expression: str) -> NoReturn:
        raise mistake(
            "expression",
            f"`{self._text}` has no value before the run",
            f'write the whole expression as text: "${{{expression}}}"',
            text=self._text,
        )

    def _compared(self) -> NoReturn:
        raise mistake(
            "expression",
            f"`{self._text}` has no value before the run",
            f"write the whole expression as text, for example `.when(\"{self._text} == 'x'\")`",
            text=self._text,
        )


def _operand(value: object) -> str:
    """A value as an expression has it, to be shown; what it has no form for is left open."""
    if isinstance(value, Ref):
        return cel(value)
    if isinstance(value, str):
        quoted = json.dumps(value, ensure_ascii=False)
        return quoted if "'" in value or "\\" in quoted else f"'{value}'"
    return json.dumps(value) if isinstance(value, bool | int | float) or value is None else "…"


def cel(ref: Ref) -> str:
    """The expression that a reference is, without `${…}`."""
    return str(ref)[2:-1]


def render(value: object, what: str) -> Json:
    """A value as the definition's JSON: references become `${…}`, models and dates their usual JSON.

    `what` names it in the mistake that is raised where JSON has no such value.
    """
    return _render(value, what, 0)


def _render(value: object, what: str, level: int) -> Json:
    if isinstance(value, Ref):
        return str(value)
    if level > NESTING_MAX:
        raise mistake("too_deep", f"`{what}` is nested too deep", "make the value flatter")
    if isinstance(value, Enum):
        return _render(value.value, what, level)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, str):
        if _HALF.search(value):
            raise mistake(
                "bad_value",
                f"`{what}` holds half a character (a lone surrogate)",
                "decode the bytes with errors='replace'",
            )
        return str(value)
    if isinstance(value, Mapping):
        result: dict[str, Json] = {}
        for key, part in value.items():
            if not isinstance(key, str):
                raise mistake(
                    "key_not_text", f"`{what}` has the key {key!r:.60}, not text", "use str(key)"
                )
            result[str(key)] = _render(part, f"{what}.{key}", level + 1)
        return result
    if isinstance(value, list | tuple):
        return [_render(part, f"{what}[{n}]", level + 1) for n, part in enumerate(value)]
    usual = plain(value)
    if type(usual) is not type(value):
        return _render(usual, what, level + 1)
    raise _no_json(value, what)


def _no_json(value: object, what: str) -> Exception:
    kind = type(value).__name__
    if isinstance(value, float):
        return mistake("number_range", f"`{what}` is {value}, which JSON cannot hold", "use None")
    if hasattr(value, "output") and hasattr(value, "id"):
        cure = f"name what you want of it: `{value.id}.output`"
        return mistake("wrong_type", f"`{what}` is the node `{value.id}` itself", cure)
    cure = "use dicts, lists, texts, numbers, booleans, None or references"
    return mistake("wrong_type", f"`{what}` is of type {kind}, which JSON cannot hold", cure)
