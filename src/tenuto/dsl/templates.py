"""Texts with `${…}` in them: where the expressions stand, in the value and in the file. Nothing is parsed here.

`$${` is a literal `${`. Where an expression ends is CEL's own business, asked of the `Parser` (SEMANTICS X7).
"""

from __future__ import annotations

from dataclasses import dataclass

from tenuto.dsl.yaml import Scalar
from tenuto.model.expressions import Parser


@dataclass(frozen=True, slots=True)
class Part:
    """One expression. `start`: index in the value of what follows `${`; `whole`: nothing else stands there."""

    text: str
    start: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Unclosed:
    """`start` is the index in the value of a `${` that nothing ends."""

    start: int


def has_template(value: str) -> bool:
    """Whether the value holds an expression, closed or not."""
    return _next(value, 0) is not None


def split(value: str, parser: Parser) -> list[Part] | Unclosed:
    """All expressions of a value, in order."""
    parts: list[Part] = []
    at = 0
    while (start := _next(value, at)) is not None:
        end = parser.end_of(value, start + 2)
        if end is None:
            return Unclosed(start)
        whole = start == 0 and end == len(value) - 1
        parts.append(Part(value[start + 2 : end], start + 2, whole))
        at = end + 1
    return parts


def _next(value: str, at: int) -> int | None:
    """Index of the next `${` that is not written `$${`."""
    while (found := value.find("${", at)) >= 0:
        if found > at and value[found - 1] == "$":
            at = found + 2
            continue
        return found
    return None


class Places:
    """Maps an index in a scalar's value to its offset in the file.

    Exact for plain and quoted scalars of one line, escapes included; any other is known by its start alone.
    """

    def __init__(self, scalar: Scalar, source: str) -> None:
        raw = source[scalar.start : scalar.end]
        self._start = scalar.start
        self._offsets: list[int] | None = None
        self._shift: int | None = None
        if scalar.style in ("|", ">") or "\n" in raw or "\r" in raw:
            return
        if not scalar.style:
            self._shift = 0
        elif "\\" not in raw and "''" not in raw[1:-1]:
            self._shift = 1
        else:
            self._offsets = _walk(raw, scalar.style)

    def offset(self, index: int) -> int:
        """Offset in the file of the character at `index` of the value."""
        if self._shift is not None:
            return self._start + self._shift + index
        if self._offsets is None or not self._offsets:
            return self._start
        return self._start + self._offsets[min(index, len(self._offsets) - 1)]


_ESCAPE_LENGTH = {"x": 4, "u": 6, "U": 10}


def _walk(raw: str, style: str) -> list[int]:
    """Offset in a quoted one-line scalar of each character of its value, and of its closing quote."""
    offsets: list[int] = []
    at, last = 1, len(raw) - 1
    while at < last:
        offsets.append(at)
        if style == "'":
            at += 2 if raw.startswith("''", at) else 1
        elif raw[at] != "\\":
            at += 1
        else:
            length = _ESCAPE_LENGTH.get(raw[at + 1], 2)
            high = raw[at + 1] == "u" and raw[at + 2 : at + 4].lower() in _HIGH
            at += 12 if high else length
    offsets.append(last)
    return offsets


_HIGH = frozenset({"d8", "d9", "da", "db"})
"""First digits of the first half of a surrogate pair, as JSON writes characters beyond U+FFFF."""
