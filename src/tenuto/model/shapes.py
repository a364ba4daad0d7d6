"""What is known of values before anything runs: the shapes that a schema, an output or a function's annotations give.

Plain data and the JSON Schema reader; what follows from shapes for an expression is proven by the `Parser`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class ShapeKind(StrEnum):
    """Types as CEL's checker names them. `ANY`: nothing is known."""

    ANY = "dyn"
    BOOL = "bool"
    INT = "int"
    DOUBLE = "double"
    STRING = "string"
    LIST = "list"
    OBJECT = "map"


NUMBERS = frozenset({ShapeKind.INT, ShapeKind.DOUBLE})


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a value.

    Attributes:
        fields: of an object, by key.
        closed: it has no other fields.
        more: somebody said that it may have others, so an unknown one is no slip of the pen.
        element: of a list.
    """

    kind: ShapeKind = ShapeKind.ANY
    fields: Mapping[str, Shape] = field(default_factory=dict)
    closed: bool = False
    more: bool = False
    element: Shape | None = None

    @property
    def signature(self) -> str:
        """As the checker reads it."""
        match self.kind:
            case ShapeKind.LIST:
                return f"list<{'dyn' if self.element is None else self.element.signature}>"
            case ShapeKind.OBJECT:
                return "map<string, dyn>"
            case _:
                return self.kind.value

    def differs_from(self, other: Shape) -> bool:
        """Whether no value has both shapes; numbers of two kinds are not told apart."""
        kinds = {self.kind, other.kind}
        return ShapeKind.ANY not in kinds and len(kinds) == 2 and not kinds <= NUMBERS


ANY = Shape()
BOOL, INT, DOUBLE, STRING = (
    Shape(kind) for kind in (ShapeKind.BOOL, ShapeKind.INT, ShapeKind.DOUBLE, ShapeKind.STRING)
)
OBJECT = Shape(ShapeKind.OBJECT)


def record(**fields: Shape) -> Shape:
    """An object of just these fields."""
    return Shape(ShapeKind.OBJECT, fields, closed=True)


def listed(element: Shape = ANY) -> Shape:
    """A list of such elements."""
    return Shape(ShapeKind.LIST, element=element)


# -- flaws -----------------------------------------------------------------------------------------


class FlawKind(StrEnum):
    """What can be wrong for certain, and the last two: what is hardly meant."""

    UNKNOWN_KEY = "unknown_key"
    TYPE_MISMATCH = "type_mismatch"
    NEVER_EQUAL = "never_equal"
    UNDECLARED_KEY = "undeclared_key"
    """Not among those that are declared, though it may be there."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something wrong; `offset` in code points. `key` is not among `known`, where it is about a key."""

    code: FlawKind
    offset: int
    message: str
    key: str = ""
    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """What was proven of an expression.

    Attributes:
        result: CEL's type name, `dyn` where it is not known.
        divides_ints: offsets of divisions of two integers (X8).
        constant: what the expression always yields, where that is true or false; else None.
    """

    result: str
    flaws: tuple[Flaw, ...] = ()
    divides_ints: tuple[int, ...] = ()
    constant: bool | None = None


# -- tasks -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Given:
    """A parameter as a definition gives it: a `value` that is fixed, or what is known of a computed one."""

    shape: Shape
    is_fixed: bool = False
    value: object = None


@dataclass(frozen=True, slots=True)
class ParamProblem:
    """Why params do not fit a function; `name` of the one to mend, None for one that is not there."""

    name: str | None
    message: str


class TaskShapes(Protocol):
    """What an app knows of its tasks."""

    def problems(self, task: str, params: Mapping[str, Given]) -> Sequence[ParamProblem]:
        """What is wrong with params for certain; nothing for a task that the app does not have."""
        ...

    def result(self, task: str) -> Shape:
        """What the task returns."""
        ...


# -- JSON Schema -----------------------------------------------------------------------------------

_KINDS = {
    "boolean": ShapeKind.BOOL,
    "integer": ShapeKind.INT,
    "string": ShapeKind.STRING,
    "array": ShapeKind.LIST,
    "object": ShapeKind.OBJECT,
}
_DECLARES_MORE = frozenset(
    {
        *("allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "not", "$ref"),
        *("patternProperties", "propertyNames", "unevaluatedProperties", "$dynamicRef"),
    }
)
"""Keywords beside `properties` under which other fields may be told of."""


def shape_of(schema: object) -> Shape:
    """What a JSON Schema says of a value, as far as one type is sure: a `number` may be an integer or not.

    References are followed inside the schema; what contains itself is known one level deep.
    """
    return _SchemaReader(schema).read(schema)


class _SchemaReader:
    def __init__(self, root: object) -> None:
        self._root = root
        self._known: dict[str, Shape] = {}

    def read(self, schema: object) -> Shape:
        if not isinstance(schema, Mapping):
            return ANY
        target = schema.get("$ref")
        if isinstance(target, str) and "type" not in schema:
            return self._referred(target)
        match _kind(schema):
            case ShapeKind.OBJECT:
                return self._object(schema)
            case ShapeKind.LIST:
                return listed(ANY if "prefixItems" in schema else self.read(schema.get("items")))
            case kind:
                return ANY if kind is None else Shape(kind)

    def _object(self, schema: Mapping[str, object]) -> Shape:
        declared = schema.get("properties")
        fields = (
            {str(key): self.read(part) for key, part in declared.items()}
            if isinstance(declared, Mapping)
            else {}
        )
        others = schema.get("additionalProperties")
        closed = others is False and "patternProperties" not in schema
        if not closed:
            required = schema.get("required")
            for key in required if isinstance(required, list) else ():
                fields.setdefault(str(key), ANY)
        more = not closed and (others is not None or not _DECLARES_MORE.isdisjoint(schema))
        return Shape(ShapeKind.OBJECT, fields, closed=closed, more=more)

    def _referred(self, target: str) -> Shape:
        """The shape of what a pointer names; one that is being read, and so holds itself, is not known."""
        if target not in self._known:
            self._known[target] = ANY
            self._known[target] = self.read(self._find(target))
        return self._known[target]

    def _find(self, target: str) -> object:
        here = self._root
        if not target.startswith("#/"):
            return here if target == "#" else None
        for step in target[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            here = here.get(name) if isinstance(here, Mapping) else None
        return here


def _kind(schema: Mapping[str, object]) -> ShapeKind | None:
    """The one type that all values have."""
    told = schema.get("type")
    if isinstance(told, list) and len(told) == 1:
        [told] = told
    if isinstance(told, str):
        return _KINDS.get(told)
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else []
    if told is None and isinstance(values, list) and values:
        if all(isinstance(value, str) for value in values):
            return ShapeKind.STRING
        if all(isinstance(value, bool) for value in values):
            return ShapeKind.BOOL
    return None
