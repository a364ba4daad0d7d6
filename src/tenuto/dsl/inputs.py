"""A request's data at the door: a run's input against its schema, and the overrides of `vars`. Also: is the schema one?

`format` is not asserted. No schema is ever fetched: `check_schema` refuses every reference that leaves the document,
and every nested `$id`, so that all references are pointers from its root.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError

from tenuto.dsl.limits import SCHEMA_MAX
from tenuto.dsl.yaml import INT_MAX, INT_MIN, Json
from tenuto.model.definition import NESTING_MAX
from tenuto.model.errors import InvalidInput

ENV_PREFIX = "TENUTO_VAR_"
INPUT_NESTING_MAX = 200
"""Levels of an input: far beyond any use, and within what every JSON library walks."""
PROBLEMS_MAX = 20
"""Lines about one input; a list of many wrong items is one mistake."""
_PYTHON_WORDS = {"None": "null", "True": "true", "False": "false"}

# Keywords whose values are data, not schemas.
_DATA = frozenset({"const", "enum", "default", "examples"})
# Keywords whose values are schemas under names of the user's.
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """`path` leads to the keyword that is wrong."""

    path: tuple[str | int, ...]
    message: str
    cure: str


def check_schema(schema: dict[str, Json]) -> list[SchemaProblem]:
    """What keeps a mapping from being a JSON Schema (2020-12) that stands on its own."""
    if _size(schema) > SCHEMA_MAX:
        message = f"it has more than {SCHEMA_MAX:,} values"
        return [SchemaProblem((), message, "describe less of the input")]
    problems: list[SchemaProblem] = []
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        path = tuple(error.absolute_path)
        at = f"`{path[-1]}`: " if path else ""
        cure = f"see `{path[-1]}` in JSON Schema 2020-12" if path else "see JSON Schema 2020-12"
        return [SchemaProblem(path, at + _first_line(error.message), cure)]
    except (OverflowError, RecursionError) as error:
        return [SchemaProblem((), f"a pattern cannot be used: {error}", "write a simpler one")]
    references = _References(schema)
    for path, part in _schemas(schema, ()):
        for keyword in ("$id", "$schema") if path else ():
            if isinstance(part.get(keyword), str):
                message = f"`{keyword}` inside a schema would change what its references mean"
                problems.append(SchemaProblem((*path, keyword), message, "take it out"))
        for keyword in ("$ref", "$dynamicRef"):
            target = part.get(keyword)
            if isinstance(target, str) and (problem := references.check(target)):
                problems.append(SchemaProblem((*path, keyword), *problem))
    return problems


def check_input(schema: str | None, value: object) -> str:
    """Fill the defaults of a schema (JSON text) into a value, check it, and give its canonical JSON.

    Raises:
        InvalidInput: the value does not fit; a line for each place, with what is wrong and the cure.
    """
    _refuse_unstorable(value, "input", 0)
    if schema is None:
        return _canonical(value)
    parsed = orjson.loads(schema)
    copy: Json = orjson.loads(orjson.dumps(value))  # the caller's own value is not changed
    try:
        value = _fill(_References(parsed), parsed, copy, 0)
        validator = Draft202012Validator(parsed)
        errors = sorted(validator.iter_errors(value), key=_order)
    except RecursionError:
        raise InvalidInput("the schema of `input` refers to itself without end") from None
    if errors:
        first, *others = errors
        more = [f"{_path(error)}: {_cure(error)}" for error in others[: PROBLEMS_MAX - 1]]
        if len(errors) > PROBLEMS_MAX:
            more.append(f"and {len(errors) - PROBLEMS_MAX} more")
        raise InvalidInput(_cure(first), path=_path(first), more=more)
    return _canonical(value)


def apply_vars(declared: str, overrides: Mapping[str, str], env: Mapping[str, str]) -> str:
    """The `vars` of a definition (JSON text) with `overrides` (`--var`) over `TENUTO_VAR_<NAME>` of `env`.

    A value is JSON if it parses as JSON, else text; over a declared text it stays text. A variable of the environment
    that the definition does not declare is another definition's.

    Raises:
        InvalidInput: an override that the definition does not declare, or a value that JSON cannot hold.
    """
    declared_values: dict[str, Json] = orjson.loads(declared)
    values = dict(declared_values)
    for name, value in declared_values.items():
        for key in (f"{ENV_PREFIX}{name}", f"{ENV_PREFIX}{name.upper()}"):
            if key in env:
                values[name] = _override(name, env[key], value)
                break
    for name, text in overrides.items():
        if name not in declared_values:
            close = difflib.get_close_matches(name, declared_values, n=1)
            known = ", ".join(f"`{known}`" for known in declared_values) or "none"
            hint = f"did you mean `{close[0]}`?" if close else f"it declares {known}"
            raise InvalidInput(f"the definition declares no such var; {hint}", path=f"vars.{name}")
        values[name] = _override(name, text, declared_values[name])
    return _canonical(values)


def _override(name: str, text: str, declared: Json) -> Json:
    try:
        value: Json = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = text
    if isinstance(declared, str) and not isinstance(value, str):
        value = text
    _refuse_unstorable(value, f"vars.{name}", 0)
    return value


def _fill(references: _References, schema: Json, value: Json, depth: int) -> Json:
    """Put the defaults of a schema where a value lacks them, outer ones first. `value` is changed in place."""
    if not isinstance(schema, dict) or depth > INPUT_NESTING_MAX:
        return value
    target = schema.get("$ref")
    if isinstance(target, str):
        value = _fill(references, references.find(target), value, depth + 1)
    parts = schema.get("allOf")
    for part in parts if isinstance(parts, list) else ():
        value = _fill(references, part, value, depth + 1)
    if isinstance(value, dict):
        properties = schema.get("properties")
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            default = _default(references, inner)
            if name not in value and default is not None:
                value[name] = orjson.loads(default)
            if name in value:
                value[name] = _fill(references, inner, value[name], depth + 1)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, item in enumerate(value):
            value[number] = _fill(references, schema["items"], item, depth + 1)
    return value


def _default(references: _References, schema: Json) -> bytes | None:
    """The default of a schema as JSON, its own or that of what it refers to."""
    for _ in range(NESTING_MAX):
        if not isinstance(schema, dict):
            return None
        if "default" in schema:
            return orjson.dumps(schema["default"])
        target = schema.get("$ref")
        if not isinstance(target, str):
            return None
        schema = references.find(target)
    return None


def _schemas(
    part: Json, path: tuple[str | int, ...], *, named: bool = False
) -> Iterator[tuple[tuple[str | int, ...], dict[str, Json]]]:
    """All mappings of a document that may be schemas, with their paths. `named`: the part holds schemas by name."""
    if isinstance(part, list):
        for number, item in enumerate(part):
            yield from _schemas(item, (*path, number))
    elif isinstance(part, dict):
        if not named:
            yield path, part
        for name, value in part.items():
            if named or name not in _DATA:
                yield from _schemas(value, (*path, name), named=not named and name in _NAMED)


def _size(part: Json) -> int:
    """Values in a document, itself included."""
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return 1 + sum(_size(value) for value in inner)


class _References:
    """What `#`, `#/a/pointer` and `#anchor` name in one document."""

    def __init__(self, root: Json) -> None:
        self._root = root
        self._anchors: dict[str, Json] | None = None
        self._known: dict[str, bool] = {}

    def find(self, target: str) -> Json:
        """The value that a reference names; None when nothing."""
        if not target.startswith("#"):
            return None
        pointer = target[1:]
        if pointer and not pointer.startswith("/"):
            return self._named().get(pointer)
        here = self._root
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(here, dict) and name in here:
                here = here[name]
            elif isinstance(here, list) and name.isdecimal() and int(name) < len(here):
                here = here[int(name)]
            else:
                return None
        return here

    def check(self, target: str) -> tuple[str, str] | None:
        """What is wrong with a reference, and the cure."""
        if not target.startswith("#"):
            message = f"it refers to `{target}`, which is outside this file"
            return message, "copy that schema under `$defs` here"
        if not isinstance(self.find(target), dict | bool):
            return f"`{target}` names no schema", "define it under `$defs`"
        if self._ends(target):
            return None
        return f"`{target}` leads back to itself and to nothing else", "give one of them a type"

    def _ends(self, target: str) -> bool:
        """Whether a chain of references, one leading to the next, comes to an end."""
        seen: set[str] = set()
        here: Json = target
        while isinstance(here, str) and here not in seen and here not in self._known:
            seen.add(here)
            found = self.find(here)
            here = found.get("$ref") if isinstance(found, dict) else None
        ends = self._known.get(here, False) if isinstance(here, str) else True
        self._known.update(dict.fromkeys(seen, ends))
        return ends

    def _named(self) -> dict[str, Json]:
        if self._anchors is None:
            self._anchors = {
                name: part
                for _, part in _schemas(self._root, ())
                for keyword in ("$anchor", "$dynamicAnchor")
                if isinstance(name := part.get(keyword), str)
            }
        return self._anchors


def _order(error: ValidationError) -> list[tuple[bool, int, str]]:
    """Outer places first, items of a list by their numbers."""
    return [
        (True, step, "") if isinstance(step, int) else (False, 0, step)
        for step in error.absolute_path
    ]


def _path(error: ValidationError) -> str:
    path = "input"
    for step in error.absolute_path:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path


def _cure(error: ValidationError) -> str:
    """What is wrong, and what to do."""
    message, wanted = _first_line(error.message), error.validator_value
    first, space, rest = message.partition(" ")
    message = _PYTHON_WORDS.get(first, first) + space + rest
    match error.validator:
        case "type":
            types = wanted if isinstance(wanted, list) else [wanted]
            return f"{message}; give {_or([_TYPES.get(str(t), str(t)) for t in types])}"
        case "required":
            return f"{message}; {_misspelt(error) or 'add it'}"
        case "additionalProperties" | "unevaluatedProperties":
            schema = error.schema if isinstance(error.schema, dict) else {}
            known = list(schema.get("properties", {}))
            extra = [name for name in _names(error.instance) if name not in known]
            close = difflib.get_close_matches(str(extra[0]), known, n=1) if extra else []
            return f"{message}; " + (f"did you mean `{close[0]}`?" if close else "take it out")
        case "enum" if isinstance(wanted, Sequence):
            return f"{message}; give {_or([_short(value) for value in wanted])}"
        case "const":
            return f"{message}; give {_short(wanted)}"
        case _:
            return message


def _misspelt(error: ValidationError) -> str:
    """The undeclared key that was probably meant to be the one that is missing; empty for none."""
    schema = error.schema if isinstance(error.schema, dict) else {}
    extra = [name for name in _names(error.instance) if name not in schema.get("properties", {})]
    wanted = error.validator_value if isinstance(error.validator_value, list) else []
    missing = next((str(name) for name in wanted if error.message.startswith(repr(name))), "")
    close = difflib.get_close_matches(missing, extra[:_NAMES_COMPARED], n=1)
    return f"is `{close[0]}` meant to be it?" if close else ""


_NAMES_COMPARED = 100
_TYPES = {
    "object": "an object",
    "array": "a list",
    "string": "text in quotes",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
}


def _names(value: object) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def _or(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _short(value: object) -> str:
    return orjson.dumps(value).decode()[:60]


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else "it does not fit"
    return line if len(line) <= 200 else line[:199] + "…"


def _refuse_unstorable(value: object, path: str, depth: int) -> None:
    """Raise InvalidInput for what JSON, or 64 bits, cannot hold."""
    if depth > INPUT_NESTING_MAX:
        raise InvalidInput(f"it is nested more than {INPUT_NESTING_MAX} levels deep", path=path)
    if isinstance(value, dict):
        for name, part in value.items():
            if not isinstance(name, str):
                raise InvalidInput(f"the key {name!r} is not text; quote it", path=path)
            _refuse_unstorable(name, path, depth)
            _refuse_unstorable(part, f"{path}.{name}", depth + 1)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            _refuse_unstorable(part, f"{path}[{number}]", depth + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput("JSON has no such number; leave it out or use text", path=path)
    elif isinstance(value, str):
        if "\0" in value:
            raise InvalidInput("it holds a NUL character; remove it, or use base64", path=path)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidInput("it holds half a character (a lone surrogate)", path=path) from None
    elif isinstance(value, int):
        if not INT_MIN <= value <= INT_MAX:
            raise InvalidInput("it does not fit into 64 bits; send it as text", path=path)
    elif value is not None:
        raise InvalidInput(f"{type(value).__name__} is no JSON value", path=path)


def _canonical(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
