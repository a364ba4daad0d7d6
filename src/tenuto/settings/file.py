"""The settings file: `tenuto.toml`, or `[tool.tenuto]` of pyproject.toml, nearest at or above a folder.

Finds it, reads it, and finds the line of a key again, which TOML's parser does not keep. What its values mean is not
known here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tenuto.model.errors import InvalidInput

OWN = "tenuto.toml"
SHARED = "pyproject.toml"
FILE_MAX = 1_048_576
"""Bytes: a settings file of a person is a thousandth of it."""

_HEADER = re.compile(r"\s*\[{1,2}\s*([^\[\]]+?)\s*\]{1,2}\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file that holds settings. `prefix` is the table of it that they stand in; `shown` is its short name."""

    path: Path
    shown: str
    prefix: tuple[str, ...]
    text: str
    table: Mapping[str, object]

    def line(self, names: Sequence[str]) -> int | None:
        """The line, from 1, where a key or table is written; None if it cannot be found."""
        wanted = (*self.prefix, *names)
        best: tuple[int, int] | None = None
        for number, path in _written(self.text):
            if path[: len(wanted)] == wanted:  # the key itself, a table, or what is in the table
                return number
            if path == wanted[: len(path)] and (best is None or len(path) > best[0]):
                best = (len(path), number)  # `dev = {port = 1}`: the line of `dev`
        return None if best is None or best[0] <= len(self.prefix) else best[1]

    def place(self, names: Sequence[str]) -> str:
        """Where a key or table is, as errors say it: `tenuto.toml:7: [dev] port`."""
        line = self.line(names)
        at = self.shown if line is None else f"{self.shown}:{line}"
        *tables, key = (*self.prefix, *names)
        return f"{at}: [{'.'.join(tables)}] {key}" if tables else f"{at}: {key}"

    def origin(self, names: Sequence[str]) -> str:
        """Where a value is from, as `config show --sources` says it."""
        line = self.line(names)
        return str(self.path) if line is None else f"{self.path}:{line}"


def find_file(folder: Path) -> SettingsFile | None:
    """The nearest file with settings, at or above `folder`; None if there is none.

    Raises:
        InvalidInput: it cannot be read, is no TOML, or two stand side by side.
    """
    for each in (folder, *folder.parents):
        found = [
            file
            for file in (_read(each / OWN, folder, ()), _read(each / SHARED, folder, SHARED_PREFIX))
            if file is not None
        ]
        if len(found) > 1:
            raise InvalidInput(
                f"settings stand in two files, {found[0].shown} and [tool.tenuto] of "
                f"{found[1].shown}; keep one of them"
            )
        if found:
            return found[0]
    return None


SHARED_PREFIX = ("tool", "tenuto")


def _read(path: Path, folder: Path, prefix: tuple[str, ...]) -> SettingsFile | None:
    """One file; None if there is none, or if nothing in it is ours."""
    shown = path.name if path.parent == folder else str(path)
    try:
        if not path.is_file():
            return None
    except OSError:  # the folder may not be looked into
        return None
    try:
        with path.open("rb") as file:
            data = file.read(FILE_MAX + 1)
    except OSError as error:
        raise InvalidInput(f"{shown} cannot be read: {error.strerror}") from None
    if prefix and prefix[-1].encode() not in data:
        return None  # somebody else's file, which need not even be good
    if len(data) > FILE_MAX:
        raise InvalidInput(f"{shown} is larger than {FILE_MAX // 1_048_576} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{shown} is not text: byte {error.start} is no UTF-8") from None
    table: object = _parse(text, shown)
    for name in prefix:
        if not isinstance(table, dict) or name not in table:
            return None
        table = table[name]
    if not isinstance(table, dict):
        raise InvalidInput(f"{shown}: [{'.'.join(prefix)}] is no table")
    return SettingsFile(path, shown, prefix, text, table)


def _parse(text: str, shown: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InvalidInput(f"{shown} is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits is one, too
        said = str(error)
        found = _AT.search(said)
        if found is None:
            raise InvalidInput(f"{shown} is not TOML: {said}") from None
        lines = text.split("\n")
        line, column = found[1] or len(lines), found[2] or len(lines[-1]) + 1
        what = said[: found.start()]
        raise InvalidInput(f"{shown}:{line}:{column}: this is not TOML: {what}") from None


def _written(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each header and key of a TOML text with its line, from 1, and its whole path."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            table = _parts(header[1])
            yield number, table
        elif key := _KEY.match(line):
            yield number, table + _parts(key[1])


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(text))
