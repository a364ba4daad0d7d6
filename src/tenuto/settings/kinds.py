"""Kinds of settings: how a value is read from a file and from text, and how it is shown.

Each reading gives the value or raises `Wrong`. Which settings there are stands in `tree`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from tenuto.model.errors import TenutoError
from tenuto.model.instants import parse_duration
from tenuto.model.names import NAME
from tenuto.settings.database import mask, read_database

SHOWN_MAX = 60
"""Characters of a wrong value that a message repeats."""

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_HOST = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,252}|[0-9A-Fa-f:.%]*:[0-9A-Za-z:.%]*")
_NODE = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z][0-9A-Za-z._-]*)(?::[1-9][0-9]{0,4})?")
_SIZE = re.compile(r"([0-9]{1,15}) ?([A-Za-z]*)")
_BYTES = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")

T = TypeVar("T")


class Wrong(ValueError):
    """A value that cannot be: what it is and what is expected, in words that follow the setting's name."""


class Kind(Protocol[T]):
    """One kind of value. Both readings raise `Wrong`."""

    @property
    def told(self) -> str:
        """What is allowed, for the reference."""

    def of_file(self, value: object) -> T:
        """Read a value of TOML."""

    def of_text(self, text: str) -> T:
        """Read a word of the environment or the command line."""

    def show(self, value: T) -> str:
        """Write it as text that `of_text` reads."""


def shown(value: object) -> str:
    """A wrong value as messages repeat it."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | str):
        text = repr(value)
        return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"
    return str(value)


class Text:
    """Any text."""

    told = "text"

    def __init__(self, check: Callable[[str], None] | None = None, told: str = "text") -> None:
        self._check, self.told = check, told

    def of_file(self, value: object) -> str:
        """TOML's text."""
        if not isinstance(value, str):
            raise Wrong(f"{shown(value)} is no text; give {self.told} in quotes")
        return self.of_text(value)

    def of_text(self, text: str) -> str:
        """As it is."""
        if "\0" in text:
            raise Wrong("it holds a NUL character")
        if self._check is not None and text:
            self._check(text)
        return text

    def show(self, value: str) -> str:
        """As it is."""
        return value


def check_url(text: str) -> None:
    """Whether it is the address of a server."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, brackets without their other half
        good = False
    if not good:
        raise Wrong(
            f"{shown(mask(text))} is no address of a server; write it like http://127.0.0.1:8080"
        )


def check_host(text: str) -> None:
    """Whether it can be the name or the address of a machine, or of one of its networks."""
    if not _HOST.fullmatch(text):
        raise Wrong(
            f"{shown(text)} is no host; write it like 127.0.0.1, 0.0.0.0, :: or server.internal"
        )


def check_address(text: str, such: str = "127.0.0.1:50061") -> None:
    """Whether it is `host:port`. `such`: one that is, for who has to write it anew."""
    host, _, port = text.rpartition(":")
    if not host or "/" in host or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
        raise Wrong(f"{shown(text)} is no host:port; write it like {such}")


def check_addresses(text: str) -> None:
    """Whether it is `host:port`, or several with commas between."""
    for address in text.split(","):
        check_address(address.strip(), "127.0.0.1:50051")


def check_place(text: str) -> None:
    """Whether it is `host:port`, or a socket of this machine's."""
    if not re.fullmatch(r"unix:/[^\x00-\x1f]+", text):
        check_address(text)


def check_queues(text: str) -> None:
    """Whether it is a queue's name, or several with commas between; `*` is every queue."""
    for name in text.split(","):
        if name.strip() != "*" and not NAME.fullmatch(name.strip()):
            raise Wrong(f"{shown(text)} names no queue; write it like default,mail")


def check_worker(text: str) -> None:
    """Whether a worker may be called so."""
    if not NAME.fullmatch(text):
        raise Wrong(f"{shown(text)} is no name: up to 100 letters, digits and _.-")


def check_prefix(text: str) -> None:
    """Whether keys of Redis may begin with it: no braces, which choose a cluster's node."""
    if not re.fullmatch(r"[A-Za-z0-9._:-]{0,100}", text):
        raise Wrong(f"{shown(text)} is no prefix: up to 100 letters, digits and ._:-")


def check_redis(text: str) -> None:
    """Whether it is the address of a Redis, of several nodes for a cluster. The adapter reads it closer."""
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    nodes = parts.netloc.rpartition("@")[2].split(",")
    match parts.scheme:
        case "unix":
            good = len(parts.path) > 1
        case "redis" | "rediss" | "redis+cluster" | "rediss+cluster":
            good = all(_NODE.fullmatch(node) for node in nodes)
        case _:
            good = False
    if not good:
        raise Wrong(
            f"{shown(mask(text))} is no address of a Redis; write it like redis://127.0.0.1:6379/0, "
            "or redis+cluster://a:6379,b:6379"
        )


def check_postgres(text: str) -> None:
    """Whether it is the URL of a PostgreSQL database."""
    try:
        good = read_database(text).is_postgres
    except TenutoError as error:
        raise Wrong(str(error).removeprefix("database: ")) from None
    if not good:
        raise Wrong(
            f"{shown(mask(text))} is no PostgreSQL; write it like postgresql://user@host:5432/name"
        )


class Url(Text):
    """The address of a server, shown without the password in it."""

    def __init__(
        self,
        check: Callable[[str], None] | None = check_url,
        told: str = "an address such as `http://127.0.0.1:8080`",
    ) -> None:
        super().__init__(check, told)

    def show(self, value: str) -> str:
        """Without the password."""
        return mask(value)


class Secret:
    """Text that is never shown."""

    def __init__(self, least: int = 1) -> None:
        self._least = least
        self.told = "text that is never shown" + (f", {least} bytes or more" if least > 1 else "")

    def of_file(self, value: object) -> str:
        """TOML's text."""
        if not isinstance(value, str):
            raise Wrong("it is no text; give it in quotes")
        return self.of_text(value)

    def of_text(self, text: str) -> str:
        """As it is; of several with commas between, each is long enough."""
        if "\0" in text:
            raise Wrong("it holds a NUL character")
        if text and any(len(each.strip().encode()) < self._least for each in text.split(",")):
            raise Wrong(
                f"it is too short; give {self._least} bytes or more, such as `openssl rand -hex 32` prints"
            )
        return text

    def show(self, value: str) -> str:
        """Whether there is one."""
        return "***" if value else ""


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds."""

    low: int
    high: int

    @property
    def told(self) -> str:
        """The bounds."""
        return f"whole number, {self.low} to {self.high}"

    def of_file(self, value: object) -> int:
        """TOML's integer."""
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            raise Wrong(f"{shown(value)} is text; write {value} without quotes")
        if not isinstance(value, int) or isinstance(value, bool):
            raise Wrong(f"{shown(value)} is no whole number; give {self._range()}")
        return self._bounded(value)

    def of_text(self, text: str) -> int:
        """Decimal digits."""
        if not _WHOLE.fullmatch(text):
            raise Wrong(f"{shown(text)} is no whole number; give {self._range()}")
        return self._bounded(int(text))

    def show(self, value: int) -> str:
        """Decimal digits."""
        return str(value)

    def _range(self) -> str:
        return f"one from {self.low} to {self.high}"

    def _bounded(self, value: int) -> int:
        if not self.low <= value <= self.high:
            raise Wrong(f"{shown(value)} is out of bounds; give {self._range()}")
        return value


class Switch:
    """True or false."""

    told = "`true` or `false`"

    def of_file(self, value: object) -> bool:
        """TOML's boolean."""
        if not isinstance(value, bool):
            quotes = " without quotes" if value in ("true", "false") else ""
            raise Wrong(f"{shown(value)} is neither true nor false; give one of these{quotes}")
        return value

    def of_text(self, text: str) -> bool:
        """A word for it; case does not matter."""
        word = text.lower()
        if word not in (*_TRUE, *_FALSE):
            raise Wrong(
                f"{shown(text)} is neither true nor false; give true, 1, yes, false, 0 or no"
            )
        return word in _TRUE

    def show(self, value: bool) -> str:  # noqa: FBT001 - the value itself
        """TOML's word."""
        return str(value).lower()


@dataclass(frozen=True, slots=True)
class Size:
    """A number of bytes within bounds."""

    low: int
    high: int

    @property
    def told(self) -> str:
        """The bounds."""
        return f"size, `{self.show(self.low)}` to `{self.show(self.high)}`"

    def of_file(self, value: object) -> int:
        """A number of bytes, or text with a unit."""
        if isinstance(value, int) and not isinstance(value, bool):
            return self._bounded(value, value)
        if not isinstance(value, str):
            raise Wrong(f"{shown(value)} is no size; write it like 64KB, 128MiB or 1048576")
        return self.of_text(value)

    def of_text(self, text: str) -> int:
        """Digits and a unit: B, KB, MB, GB (thousands), KiB, MiB, GiB (1024)."""
        found = _SIZE.fullmatch(text)
        factor = _BYTES.get(found[2].lower()) if found else None
        if found is None or factor is None:
            raise Wrong(f"{shown(text)} is no size; write it like 64KB, 128MiB or 1048576")
        return self._bounded(int(found[1]) * factor, text)

    def show(self, value: int) -> str:
        """In the largest unit that divides it."""
        for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
            if value and value % factor == 0:
                return f"{value // factor}{unit}"
        return str(value)

    def _bounded(self, value: int, given: object) -> int:
        if not self.low <= value <= self.high:
            raise Wrong(
                f"{shown(given)} is out of bounds; give one from {self.show(self.low)} to "
                f"{self.show(self.high)}"
            )
        return value


@dataclass(frozen=True, slots=True)
class Span:
    """A duration within bounds, in microseconds. Source: SEMANTICS D."""

    low: str
    high: str

    @property
    def told(self) -> str:
        """The bounds."""
        return f"duration, `{self.low}` to `{self.high}`"

    def of_file(self, value: object) -> int:
        """Text with units."""
        if isinstance(value, int) and not isinstance(value, bool):
            raise Wrong(f'{shown(value)} has no unit; write it like "{shown(value)}s"')
        if not isinstance(value, str):
            raise Wrong(f"{shown(value)} is not a duration; write it like 500ms, 10s, 1h30m or 2d")
        return self.of_text(value)

    def of_text(self, text: str) -> int:
        """`500ms`, `1h30m`."""
        if text.isdecimal():
            raise Wrong(f"{shown(text)} has no unit; write it like {text[:9]}s")
        try:
            us = parse_duration(text)
        except ValueError as error:
            raise Wrong(str(error)) from None
        if not parse_duration(self.low) <= us <= parse_duration(self.high):
            raise Wrong(f"{shown(text)} is out of bounds; give one from {self.low} to {self.high}")
        return us

    def show(self, value: int) -> str:
        """In whole units, largest first."""
        parts, rest = [], value // 1_000
        for unit, factor in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
            count, rest = divmod(rest, factor)
            parts += [f"{count}{unit}"] if count else []
        parts += [f"{rest}ms"] if rest else []
        return "".join(parts) or "0s"


class Choice:
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self.words: Sequence[str] = words
        self.told = " or ".join(f"`{word}`" for word in words)

    def of_file(self, value: object) -> str:
        """TOML's text."""
        if not isinstance(value, str):
            raise Wrong(f'{shown(value)} is no text; give "{self._listed()}"')
        return self.of_text(value)

    def of_text(self, text: str) -> str:
        """The word itself."""
        if text not in self.words:
            close = get_close_matches(text.lower(), self.words, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            raise Wrong(
                f"{shown(text)} is no choice; {meant}{'It is one of' if close else 'give one of'} "
                f"{', '.join(self.words)}"
            )
        return text

    def show(self, value: str) -> str:
        """The word itself."""
        return value

    def _listed(self) -> str:
        return '" or "'.join(self.words)
