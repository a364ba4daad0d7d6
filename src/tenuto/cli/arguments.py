"""What stands on the command line, as values: `--input`, `--set`, `--var`, payloads. No engine
here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from tenuto.model.errors import InvalidInput, NotFound
from tenuto.model.instants import SECOND_US, parse_duration, parse_instant
from tenuto.sdk.workflows import near_files

FILE_MAX = 8 * 1_048_576
"""Bytes of a JSON file: far above what a payload may hold, far below what hurts."""


def read_text(name: str, *, what: str) -> str:
    """Read a file of a user's as UTF-8; `-` is standard input. `what` names it in errors.

    Raises:
        NotFound: there is no such file.
        InvalidInput: a directory, no text, too large, or not allowed.
    """
    if name == "-":
        data = sys.stdin.buffer.read(FILE_MAX + 1)
        name = "standard input"
    else:
        try:
            with Path(name).open("rb") as file:
                data = file.read(FILE_MAX + 1)
        except FileNotFoundError:
            raise NotFound("file", name, near_files(Path(name))) from None
        except IsADirectoryError:
            raise InvalidInput(f"{name} is a directory; name a file in it", path=what) from None
        except PermissionError:
            raise InvalidInput(f"{name} cannot be read: permission denied", path=what) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidInput(f"{name} cannot be read: {reason}", path=what) from None
    if len(data) > FILE_MAX:
        raise InvalidInput(f"{name} is larger than {FILE_MAX // 1_048_576} MiB", path=what)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{name} is not text: byte {error.start} is no UTF-8", path=what
        ) from None


def parse_json(text: str, *, what: str, file: str = "") -> object:
    """Read JSON strictly: no NaN, no duplicate keys. `what` names it in errors, `file` where it stands."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        made = dict(pairs)
        if len(made) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInput(f"the key {twice!r} stands twice", path=what)
        return made

    def refuse(word: str) -> object:
        raise InvalidInput(f"{word} is no JSON", path=what)

    try:
        return cast("object", json.loads(text, object_pairs_hook=unique, parse_constant=refuse))
    except json.JSONDecodeError as error:
        shown = file or repr(text if len(text) <= 60 else text[:57] + "…")
        hint = "; quote it for the shell: '{\"key\": 1}'" if _lost_quotes(text) else ""
        where = f"line {error.lineno}, column {error.colno}"
        told = f"{error.msg} at {where}{hint}"
        if _is_trailing_comma(text, error.pos):
            told = f"a comma before the closing bracket at {where}; take it out"
        if not file and len(text) <= _FILE_NAME_MAX and _is_file(text):
            told = f"did you mean `@{text}`, the file?"
        raise InvalidInput(f"{shown} is no JSON: {told}", path=what) from None
    except RecursionError:
        raise InvalidInput("is nested too deeply", path=what) from None
    except ValueError as error:  # an integer of more digits than Python reads
        raise InvalidInput(str(error).partition(";")[0], path=what) from None


def read_json(argument: str, *, what: str) -> object:
    """Read `JSON`, `@file` or `-` (standard input)."""
    if argument == "-" or argument.startswith("@"):
        name = argument.removeprefix("@")
        text = read_text(name, what=what)
        return parse_json(text, what=what, file="standard input" if name == "-" else name)
    return parse_json(argument, what=what)


def read_input(argument: str | None, sets: Sequence[str], schema: str | None) -> object:
    """The input of a run: `--input`, then each `--set path=value` laid over it.

    None when neither is given (the schema's defaults decide). A value is read as JSON where it is
    some, else as text; where the schema asks for a string at that path it is always text.
    """
    if argument is None and not sets:
        return None
    value = {} if argument is None else read_json(argument, what="--input")
    if not sets:
        return value
    if not isinstance(value, dict):
        raise InvalidInput("needs an input that is an object", path="--set")
    wanted: object = json.loads(schema) if schema else None
    for text in sets:
        path, given = _split(text, option="--set")
        _lay(cast("dict[str, object]", value), path.split("."), given, wanted, text)
    return value


@contextmanager
def naming_options(given: str | None, sets: Sequence[str]) -> Iterator[None]:
    """Where nobody gave an input and it lacks something, the error says by which options to give it."""
    try:
        yield
    except InvalidInput as error:
        missing = _MISSING.search(str(error))
        if given is not None or sets or missing is None:
            raise
        first, *more = error.problems
        cure = f"{first}: --set {missing[1]}=… or --input @FILE"
        raise InvalidInput(
            cure.removeprefix(f"{error.path}: "), path=error.path, more=more
        ) from None


_MISSING = re.compile(r"'([A-Za-z_]\w*)' is a required property")


def read_vars(texts: Sequence[str]) -> dict[str, str]:
    """`--var name=value` by name; what the values mean is the definition's."""
    return dict(_split(text, option="--var") for text in texts)


def read_timeout(text: str | None) -> float | None:
    """`--timeout 30s` in seconds."""
    if text is None:
        return None
    try:
        return parse_duration(text) / SECOND_US
    except ValueError as error:
        raise InvalidInput(str(error), path="--timeout") from None


def read_moment(text: str | None, option: str, now: int) -> int | None:
    """An instant, or how long ago it was (`2h`), in microseconds."""
    if text is None:
        return None
    try:
        return max(0, now - parse_duration(text))
    except ValueError:
        pass
    try:
        return parse_instant(text)
    except ValueError:
        raise InvalidInput(
            f"{text!r} is no moment; write 2h for two hours ago, or 2026-12-24T18:00:00+01:00",
            path=option,
        ) from None


def _split(text: str, *, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not all(name.split(".")):
        raise InvalidInput(f"{text!r} is not of the form name=value", path=option)
    return name, value


def _lay(target: dict[str, object], path: list[str], given: str, schema: object, text: str) -> None:
    for number, name in enumerate(path):
        schema = _property(schema, name)
        if number == len(path) - 1:
            wants_text = isinstance(schema, dict) and schema.get("type") == "string"
            target[name] = given if wants_text else _value(given)
            return
        inner = target.setdefault(name, {})
        if not isinstance(inner, dict):
            raise InvalidInput(
                f"{text!r} goes into {'.'.join(path[: number + 1])}, which is no object",
                path="--set",
            )
        target = inner


def _property(schema: object, name: str) -> object:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties.get(name) if isinstance(properties, dict) else None


def _value(text: str) -> object:
    try:
        return parse_json(text, what="value")
    except InvalidInput:
        return text


_FILE_NAME_MAX = 400


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def _is_trailing_comma(text: str, at: int) -> bool:
    """Pythons differ in whether they point at the comma or at the bracket."""
    rest = text[at:].lstrip()
    if rest.startswith(","):
        return rest[1:].lstrip()[:1] in ("}", "]")
    return rest[:1] in ("}", "]") and text[:at].rstrip().endswith(",")


def _lost_quotes(text: str) -> bool:
    """`{a: 1}` is what a shell leaves of unquoted JSON."""
    return text.startswith("{") and '"' not in text and len(text) > 2
