"""VALUE and KEY texts: a JSON tree whose strings hold `${…}`, made ready to be filled (SEMANTICS X7, X9).

Filling takes the values of the holes in order; evaluating them is the evaluator's. Secrets stay references.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import orjson

from tenuto.adapters.cel.context import kind_of
from tenuto.adapters.cel.lexer import Hole, Unclosed, split
from tenuto.adapters.cel.program import Program, program_of
from tenuto.model.expressions import ParseError
from tenuto.model.payload import Text
from tenuto.runtime import results

TEMPLATES_MAX = 1024


@dataclass(frozen=True, slots=True)
class Constant:
    """A part without holes."""

    value: object


@dataclass(frozen=True, slots=True)
class Filled:
    """A string that is one expression: takes its value, type and all."""

    hole: int


@dataclass(frozen=True, slots=True)
class Secret:
    """A string that is one `secrets.NAME`."""

    name: str


@dataclass(frozen=True, slots=True)
class Joined:
    """A string of literal texts, holes and secrets."""

    parts: tuple[str | Filled | Secret, ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Fields:
    """An object."""

    parts: tuple[tuple[str, Part], ...]


Part = Constant | Filled | Secret | Joined | Items | Fields


@dataclass(frozen=True, slots=True)
class Template:
    """A tree to fill. `holes` are the programs in document order; `secrets` the paths of references in the result."""

    root: Part
    holes: tuple[Program, ...]
    secrets: tuple[tuple[str | int, ...], ...]

    def fill(self, values: Sequence[object]) -> object:
        """Build the value. Raises Unfit where a value cannot stand inside a text."""
        value = _built(self.root, self, values)
        if isinstance(value, dict):
            if self.secrets:
                value[results.SECRETS_KEY] = [list(path) for path in self.secrets]
            elif results.SECRETS_KEY in value:
                raise Unfit(f"the key `{results.SECRETS_KEY}` is reserved at the top of a value")
        return value


class Unfit(Exception):
    """A template that cannot be read or filled, or a value that will not do; the message is for the user."""


@lru_cache(maxsize=TEMPLATES_MAX)
def constant_of(text: str) -> Text | None:
    """The value of a template without expressions, which is the same for ever; None where it has some, or is none."""
    template = template_of(text)
    if isinstance(template, str) or template.holes or template.secrets:
        return None
    try:
        data = results.canonical_bytes(template.fill(()))
    except (Unfit, results.Refused):
        return None
    return Text(len(data), data.decode())


@lru_cache(maxsize=TEMPLATES_MAX)
def template_of(text: str) -> Template | str:
    """Make a template of a JSON text, or say what is wrong with it."""
    try:
        return _Reader().read(text)
    except (Unfit, Unclosed, results.Refused) as error:
        return str(error)


class _Reader:
    def __init__(self) -> None:
        self._holes: list[Program] = []
        self._secrets: list[tuple[str | int, ...]] = []

    def read(self, text: str) -> Template:
        value = results.parse(text, name="the template")
        root = self._part(value, ())
        if self._secrets and not isinstance(root, Fields):
            raise Unfit("a secret stands inside an object: its place must have a key")
        if isinstance(root, Fields) and any(key == results.SECRETS_KEY for key, _ in root.parts):
            raise Unfit(f"the key `{results.SECRETS_KEY}` is reserved at the top of a value")
        return Template(root, tuple(self._holes), tuple(self._secrets))

    def _part(self, value: object, path: tuple[str | int, ...]) -> Part:
        if isinstance(value, str):
            return self._text(value, path) if "${" in value else Constant(value)
        if isinstance(value, list):
            parts = tuple(self._part(item, (*path, index)) for index, item in enumerate(value))
            if _varies(parts):
                return Items(parts)
            return Constant([part.value for part in parts if isinstance(part, Constant)])
        if isinstance(value, dict):
            fields = tuple((key, self._part(item, (*path, key))) for key, item in value.items())
            # The root is built anew each time: the list of its secrets is added to it.
            varies = _varies(tuple(part for _, part in fields))
            if varies or not path:
                return Fields(fields)
            return Constant({k: part.value for k, part in fields if isinstance(part, Constant)})
        return Constant(value)

    def _text(self, text: str, path: tuple[str | int, ...]) -> Part:
        parts = tuple(self._piece(part) for part in split(text))
        if any(isinstance(part, Secret) for part in parts):
            self._secrets.append(path)
        if len(parts) == 1:
            return Constant(parts[0]) if isinstance(parts[0], str) else parts[0]
        return Joined(parts)

    def _piece(self, part: str | Hole) -> str | Filled | Secret:
        if isinstance(part, str):
            return part
        program = program_of(part.text)
        if isinstance(program, ParseError):
            raise Unfit(f"{program.message}, in `{part.text}`")
        if program.secret is not None:
            return Secret(program.secret)
        self._holes.append(program)
        return Filled(len(self._holes) - 1)


def _varies(parts: tuple[Part, ...]) -> bool:
    return not all(isinstance(part, Constant) for part in parts)


def _built(part: Part, template: Template, values: Sequence[object]) -> object:
    match part:
        case Constant():
            return part.value
        case Filled():
            return values[part.hole]
        case Fields():
            return {key: _built(inner, template, values) for key, inner in part.parts}
        case Joined():
            return _joined(part, template, values)
        case Items():
            return [_built(inner, template, values) for inner in part.parts]
        case Secret():
            return results.secret(part.name)


def _joined(part: Joined, template: Template, values: Sequence[object]) -> object:
    pieces: list[object] = []
    for piece in part.parts:
        if isinstance(piece, Secret):
            pieces.append(results.secret(piece.name))
            continue
        text = (
            piece
            if isinstance(piece, str)
            else _text_of(values[piece.hole], template.holes[piece.hole])
        )
        if pieces and isinstance(pieces[-1], str):
            pieces[-1] += text
        else:
            pieces.append(text)
    return pieces[0] if len(pieces) == 1 else {results.CONCAT_KEY: pieces}


def _text_of(value: object, program: Program) -> str:
    """A value inside a text, spelled as in JSON."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float() if math.isfinite(value):
            return orjson.dumps(value).decode()
    raise Unfit(
        f"`{program.text.strip()}` is {kind_of(value)}, which cannot stand inside a text:"
        " only strings, numbers and booleans can"
    )
