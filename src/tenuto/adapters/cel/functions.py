"""The functions that this project adds to CEL, and how they are declared (SEMANTICS X6, X8).

Pure but for `uuid` and `range`, which read the seed and the bound of the evaluation under way. A ValueError is the
evaluation's error, its text the user's message. No argument may be declared `dyn`: an optional that came there would
end the process.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from cel_expr_python import cel

from tenuto.adapters.cel.respelling import FIRST_MAX
from tenuto.runtime import results

RANGE_MAX = 200_000
"""Numbers of one `range`: more do not fit into a result."""
MERGE_MAX = 8

SEED: ContextVar[str] = ContextVar("seed")
"""What `uuid` makes its ids of, beside the name: run, node and iteration (X6)."""

LONGEST: ContextVar[int] = ContextVar("longest", default=RANGE_MAX)
"""How many numbers a `range` may have."""

CURES: Mapping[str, str] = {
    "NaN": "test the operands first",
    "an infinity": "test the divisor first",
    "int": "use a double, or a string",
    "key": "write string(…) around the key",
    "bytearray": "write string(…) around it",
    "datetime": "write string(…) around it",
    "timedelta": "write string(…) around it",
}
"""What an expression does about what JSON cannot hold."""

_NAMESPACE = uuid.UUID("7f0d3f6e-54c4-5e0e-9a43-7f4e3c1b2a60")
"""Of ids made by `uuid`; it never changes, as they would."""


def extension() -> Any:
    """The extension to hand to the engine."""
    return cel.CelExtension("tenuto", [*_MIXED, *_texts(), *_lists()])


def seeded(seed: str, name: str) -> str:
    """A UUIDv5 of the seed and the name."""
    return str(uuid.uuid5(_NAMESPACE, f"{seed}\0{name}"))


def _uuid(name: str) -> str:
    seed = SEED.get("")
    if not seed:
        raise ValueError("`uuid` has no value here: it is made of the node that reads it")
    return seeded(seed, name)


def _json_encode(held: list[object]) -> str:
    """Canonical JSON of the one value in the list."""
    try:
        return results.canonical(held[0], name="the value", cures=CURES)
    except results.Refused as refused:
        raise ValueError(f"`json_encode`: {refused.message}") from refused
    except KeyError as unknown:
        raise ValueError(
            f"`json_encode`: the value holds {unknown}, which JSON cannot"
        ) from unknown


def _json_decode(text: str) -> object:
    try:
        return results.parse(text)
    except results.Refused as refused:
        raise ValueError(f"`json_decode`: {refused.message}") from refused


def _base64(data: str | bytes | bytearray) -> str:
    return base64.b64encode(_bytes(data)).decode()


def _base64_decode(text: str) -> str:
    try:
        padded = text + "=" * (-len(text) % 4)
        return base64.b64decode(padded, validate=True).decode()
    except binascii.Error as error:
        raise ValueError("`base64_decode`: the text is no base64") from error
    except UnicodeDecodeError as error:
        cure = "use `base64.decode` for bytes"
        raise ValueError(f"`base64_decode`: what was encoded is no text: {cure}") from error


def _sha256(data: str | bytes | bytearray) -> str:
    return hashlib.sha256(_bytes(data)).hexdigest()


def _bytes(data: str | bytes | bytearray) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)


def _merge(*maps: dict[object, object]) -> dict[object, object]:
    merged: dict[object, object] = {}
    for one in maps:
        merged |= one
    return merged


def _range(*bounds: int) -> list[int]:
    try:
        found = range(*bounds)
    except ValueError:
        raise ValueError("`range`: a step of 0 leads nowhere") from None
    longest = LONGEST.get()
    if len(found) > longest:
        raise ValueError(
            f"`range` gives {len(found):,} numbers: at most {longest:,} are allowed here"
        )
    return list(found)


def _distinct(values: list[object]) -> list[object]:
    """Each value once, the first of its equals, in order."""
    kept: dict[object, object] = {}
    for value in values:
        kept.setdefault(_identity(value), value)
    return list(kept.values())


def _identity(value: object) -> object:
    """What equals that of another value where CEL says `==`: numbers by worth, `true` is not 1."""
    match value:
        case bool():
            return (bool, value)
        case list():
            return (list, tuple(map(_identity, value)))
        case dict():
            return (dict, frozenset((_identity(k), _identity(part)) for k, part in value.items()))
        case bytearray():
            return bytes(value)
        case _:
            return value


def _divide(left: float, right: float) -> float:
    """Divide as IEEE 754 does; Python raises where that has an infinity or NaN."""
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _function(
    name: str,
    result: Any,
    parameters: Iterable[Sequence[Any]],
    compute: Callable[..., object] | None,
    *,
    member: bool = False,
) -> Any:
    """A function with one overload for each list of parameters."""
    return cel.FunctionDecl(
        name,
        [
            cel.Overload(
                f"tenuto_{name}_{number}",
                return_type=result,
                parameters=list(kinds),
                is_member=member,
                impl=compute,
            )
            for number, kinds in enumerate(parameters)
        ],
    )


def _texts() -> list[Any]:
    kind = cel.Type
    either = [[kind.STRING], [kind.BYTES]]
    anything = kind.List(kind.DYN)
    return [
        _function("json_encode", kind.STRING, [[kind.DYN]], None),
        _function("json_text", kind.STRING, [[anything]], _json_encode),
        _function("json_decode", kind.DYN, [[kind.STRING]], _json_decode),
        _function("base64", kind.STRING, either, _base64),
        _function("base64_decode", kind.STRING, [[kind.STRING]], _base64_decode),
        _function("sha256", kind.STRING, either, _sha256),
        _function("uuid", kind.STRING, [[kind.STRING]], _uuid),
    ]


def _lists() -> list[Any]:
    kind = cel.Type
    table = kind.Map(kind.STRING, kind.DYN)
    whole = kind.INT
    firsts = [[kind.DYN] * count for count in range(1, FIRST_MAX + 1)]
    merges = [[table] * count for count in range(2, MERGE_MAX + 1)]
    anything = kind.List(kind.DYN)
    return [
        _function("first", kind.DYN, firsts, None),
        _function("merge", table, merges, _merge),
        _function("range", kind.List(whole), [[whole], [whole] * 2, [whole] * 3], _range),
        _function("unique", anything, [[anything]], _distinct, member=True),
    ]


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


_MIXED = (
    _mixed("_+_", "add", lambda left, right: float(left + right)),
    _mixed("_-_", "subtract", lambda left, right: float(left - right)),
    _mixed("_*_", "multiply", lambda left, right: float(left * right)),
    _mixed("_/_", "divide", _divide),
)
