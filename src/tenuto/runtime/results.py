"""The one door of JSON values: Python value -> canonical text, text -> value, references -> secrets.

Canonical: keys sorted, no spaces, UTF-8, integers of 64 bits (-2^63 … 2^64-1), finite numbers, at most `NESTING_MAX`
levels. What JSON or the stores cannot hold is refused with its place and the cure, never altered in silence. Tuples
become lists, members of `StrEnum` and `IntEnum` their value; no other class passes. Not a schema check, and not the
place where secrets are redacted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NoReturn, cast

import orjson

from tenuto.model.definition import NESTING_MAX
from tenuto.model.errors import TenutoError
from tenuto.model.payload import PAYLOAD_MAX

INVALID_RESULT = "invalid_result"
INVALID_JSON = "invalid_json"
PAYLOAD_TOO_LARGE = "payload_too_large"
SECRET_MISSING = "secret_missing"

INT_MIN = -(2**63)
INT_MAX = 2**64 - 1

SECRETS_KEY = "$secrets"
"""Key of a value's own object that lists the paths of its references to secrets; no user data may have it there."""
SECRET_KEY = "$secret"
CONCAT_KEY = "$concat"

_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
# The shortest integer beyond 64 bits has 20 digits, or 19 after a minus. A hit may be a string or a fraction.
_MAYBE_BIG = re.compile(rb"\d{20}|-\d{19}")
_SHOWN_MAX = 60

CURES: Mapping[str, str] = {
    "NaN": "return None or a string",
    "an infinity": "return None or a string",
    "int": "return it as a string",
    "key": "use str(key)",
    "bytearray": "return base64.b64encode(value).decode()",
    "bytes": "return base64.b64encode(value).decode()",
    "coroutine": "await it",
    "date": "return value.isoformat()",
    "datetime": "return value.isoformat()",
    "Decimal": "return str(value) or float(value)",
    "frozenset": "return sorted(value)",
    "generator": "return list(value)",
    "set": "return sorted(value)",
    "time": "return value.isoformat()",
    "timedelta": "return value.total_seconds()",
    "UUID": "return str(value)",
}


class Refused(TenutoError):
    """A value may not pass; the fault is the user's.

    `code` is the failure's: `invalid_result`, `payload_too_large`, `invalid_json`, `secret_missing`.
    `message` is one sentence that names the place (`result.items[3].price`) and the cure.
    """

    exit_code = 2

    def __init__(self, code: str, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(message)


class SecretMissing(Refused):
    """The worker has no such secret; `name` is that of `secrets.NAME`."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            SECRET_MISSING,
            f"the secret `{name}` is not set: start the worker with TENUTO_SECRET_{name}",
        )


def canonical(
    value: object,
    *,
    limit: int = PAYLOAD_MAX,
    name: str = "result",
    cures: Mapping[str, str] = CURES,
) -> str:
    """Write a value as canonical JSON. Changes nothing in it.

    `limit` is in bytes; `name` is what messages call the value, `cures` what they advise by kind of trouble. Raises
    Refused: `payload_too_large`, or `invalid_result`.
    """
    return canonical_bytes(value, limit=limit, name=name, cures=cures).decode()


def canonical_bytes(
    value: object,
    *,
    limit: int = PAYLOAD_MAX,
    name: str = "result",
    cures: Mapping[str, str] = CURES,
) -> bytes:
    """As `canonical`, as UTF-8."""
    try:
        data = orjson.dumps(value, option=_OPTIONS)
    except (TypeError, ValueError) as error:
        _Inspection(cures).part(value, name)
        raise Refused(INVALID_RESULT, f"{name} is no JSON value: {error}") from error
    if len(data) > limit:
        raise Refused(
            PAYLOAD_TOO_LARGE,
            f"{name} has {len(data):,} bytes of JSON, more than the {limit:,} allowed:"
            " store the data elsewhere and return a reference to it",
        )
    # The writer turns NaN into null and UUIDs into strings: only what reads back equal is surely what was given.
    if b"\\u0000" in data or _is_deep(data, value) or orjson.loads(data) != value:
        _Inspection(cures).part(value, name)
    return data


def parse(text: str | bytes, *, name: str = "the text") -> object:
    """Read JSON strictly: no NaN, no integers beyond 64 bits, no more than `NESTING_MAX` levels.

    Of a key that stands twice the last counts. Raises Refused (`invalid_json`).
    """
    data = text if isinstance(text, bytes) else _utf8(text, name)
    try:
        value: object = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Refused(INVALID_JSON, f"{name} is no JSON: {error}") from error
    if _is_deep(data, value):
        raise Refused(INVALID_JSON, f"{name} is nested deeper than {NESTING_MAX} levels")
    if _MAYBE_BIG.search(data):
        json.loads(data, parse_int=_checked_int(name))
    return value


def secret(name: str) -> dict[str, object]:
    """Make the reference that stands for a secret until a worker resolves it (SEMANTICS X9)."""
    return {SECRET_KEY: name}


def resolve_secrets(value: object, lookup: Callable[[str], str | None]) -> object:
    """Put secrets in the place of their references; the value given stays as it is.

    References stand only at the paths that the evaluator listed under `$secrets`, so data that merely looks like one is
    left alone. `lookup` takes NAME of `secrets.NAME`. Raises SecretMissing. The result holds secrets: do not store it.
    """
    if type(value) is not dict or SECRETS_KEY not in value:
        return value
    held = {key: part for key, part in value.items() if key != SECRETS_KEY}
    fresh: dict[tuple[str | int, ...], object] = {}
    for path in cast("Sequence[Sequence[str | int]]", value[SECRETS_KEY]):
        holder: dict[str | int, object] = cast("dict[str | int, object]", held)
        for depth, step in enumerate(path[:-1], 1):
            prefix = tuple(path[:depth])
            if prefix not in fresh:
                inner = holder[step]
                fresh[prefix] = dict(inner) if isinstance(inner, dict) else list(inner)  # type: ignore[call-overload]
                holder[step] = fresh[prefix]
            holder = cast("dict[str | int, object]", fresh[prefix])
        holder[path[-1]] = _resolved(holder[path[-1]], lookup)
    return held


def _resolved(reference: object, lookup: Callable[[str], str | None]) -> str:
    """The text that a reference stands for."""
    if isinstance(reference, str):
        return reference
    assert isinstance(reference, dict)
    if CONCAT_KEY in reference:
        return "".join(_resolved(part, lookup) for part in reference[CONCAT_KEY])
    name = reference[SECRET_KEY]
    text = lookup(name)
    if text is None:
        raise SecretMissing(name)
    return text


def _utf8(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Refused(INVALID_JSON, f"{name} holds a lone surrogate (broken Unicode)") from error


def _checked_int(name: str) -> Callable[[str], int]:
    """A reader of integers that refuses those beyond 64 bits; converting 10,000 digits would be refused by Python."""

    def check(digits: str) -> int:
        if len(digits) > 20 or not INT_MIN <= int(digits) <= INT_MAX:
            raise Refused(
                INVALID_JSON,
                f"{name} has the integer {_shown(digits)}, beyond 64 bits: send it as a string",
            )
        return int(digits)

    return check


def _is_deep(data: bytes, value: object) -> bool:
    """Whether a value that was written or read as `data` has more than `NESTING_MAX` levels."""
    if data.count(b"[") + data.count(b"{") <= NESTING_MAX:
        return False
    level = [value]
    for _ in range(NESTING_MAX):
        level = [
            part
            for holder in level
            if type(holder) in {dict, list, tuple}
            for part in (holder.values() if type(holder) is dict else holder)  # type: ignore[attr-defined]
        ]
    return any(type(part) in {dict, list, tuple} for part in level)


class _Inspection:
    """Finds what is wrong in a value and refuses it; returns when nothing is."""

    def __init__(self, cures: Mapping[str, str]) -> None:
        self._cures = cures
        self._holders: list[object] = []

    def part(self, value: object, path: str) -> None:
        kind = type(value)
        if value is None or kind is bool:
            return
        if kind in {dict, list, tuple}:
            self._holder(value, path)
        elif kind is str:
            _inspect_text(cast("str", value), path)
        elif kind is int:
            if not INT_MIN <= cast("int", value) <= INT_MAX:
                self._refuse(path, "is an integer beyond 64 bits", "int")
        elif kind is float:
            if not math.isfinite(cast("float", value)):
                what = "NaN" if math.isnan(cast("float", value)) else "an infinity"
                self._refuse(path, f"is {what}, which JSON cannot hold", what)
        elif isinstance(value, Enum) and isinstance(value, str | int):
            self.part(value.value, path)
        else:
            what = f"is {_article(kind.__name__)}, which JSON cannot hold"
            raise Refused(INVALID_RESULT, f"{path} {what}: {self._cure(value)}")

    def _holder(self, value: object, path: str) -> None:
        if any(value is holder for holder in self._holders):
            raise Refused(INVALID_RESULT, f"{path} contains itself: only trees are JSON")
        if len(self._holders) >= NESTING_MAX:
            deep = f"{_shown(path)} is nested deeper than {NESTING_MAX} levels"
            raise Refused(INVALID_RESULT, f"{deep}: flatten it")
        self._holders.append(value)
        if isinstance(value, dict):
            for key, part in value.items():
                if type(key) is not str:
                    given = f"{_shown(repr(key))} ({type(key).__name__})"
                    self._refuse(path, f"has the key {given}, but keys of JSON are strings", "key")
                _inspect_text(key, path, " in a key")
                self.part(part, _member(path, key))
        else:
            for index, part in enumerate(cast("Sequence[object]", value)):
                self.part(part, f"{path}[{index}]")
        self._holders.pop()

    def _cure(self, value: object) -> str:
        kind = type(value)
        for base, cure in ((dict, "dict(value)"), (list, "list(value)"), (tuple, "tuple(value)")):
            if isinstance(value, base):
                return f"return {cure}"
        if isinstance(value, Enum):
            return "return value.value"
        if isinstance(value, str | int | float):
            return "return the plain value"
        if hasattr(kind, "__dataclass_fields__"):
            return "return dataclasses.asdict(value)"
        if hasattr(kind, "model_dump"):
            return "return value.model_dump(mode='json')"
        return self._cures.get(
            kind.__name__, "return dicts, lists, strings, numbers, booleans or None"
        )

    def _refuse(self, path: str, what: str, cure: str) -> NoReturn:
        raise Refused(INVALID_RESULT, f"{path} {what}: {self._cures[cure]}")


def _inspect_text(text: str, path: str, where: str = "") -> None:
    if "\0" in text:
        cure = "remove it, or use base64 for binary data"
        raise Refused(INVALID_RESULT, f"{path} holds a NUL character{where}: {cure}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Refused(
                INVALID_RESULT,
                f"{path} holds a lone surrogate{where} (broken Unicode):"
                " decode the bytes with errors='replace'",
            ) from error


def _member(path: str, key: str) -> str:
    if _IDENTIFIER.match(key):
        return f"{path}.{key}"
    return f"{path}[{_shown(json.dumps(key))}]"


def _article(word: str) -> str:
    return f"an {word}" if word[:1].lower() in {"a", "e", "i", "o"} else f"a {word}"


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
