"""The checked tree of an expression, decoded from the engine's serialised form. Reading only, no meaning.

The form is the public `cel.expr.CheckedExpr` message inside `google.protobuf.Any`; field numbers are those of that
message. A reader of the wire format is all it takes, so no protobuf package is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_INT64_TYPE = 2
"""`Type.PrimitiveType.INT64`."""
_PRIMITIVE, _ABSTRACT = 3, 14
"""Fields of `Type`: a primitive type, an abstract one; an optional is one by name."""
_OPTIONAL = b"optional_type"


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal: text or integer; None for every other kind."""

    id: int
    value: str | int | None


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`, or `has(operand.field)` where `tests` is set."""

    id: int
    operand: Node
    field: str
    tests: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator (`_+_`, `_[_]`, `_?._`, …), with the target of a member call."""

    id: int
    function: str
    target: Node | None
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Many:
    """A list or map literal: its parts, keys included.

    `keyed`: a map. `optional`: positions in `parts` of values that are left out where they are none (`[?a]`).
    """

    id: int
    parts: tuple[Node, ...]
    keyed: bool = False
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Comprehension:
    """A macro such as `map` or `exists`, spelled out. `bound` are its variables, unknown outside `inner`."""

    id: int
    bound: frozenset[str]
    outer: tuple[Node, ...]
    inner: tuple[Node, ...]


Node = Name | Constant | Select | Call | Many | Comprehension


@dataclass(frozen=True, slots=True)
class Tree:
    """An expression with the place of each part in the text, in code points, and what was proven of its type.

    `ints` are integers. `optionals`: parts whose type is an optional, or holds one; true of those that are just that,
    an optional of something else.
    """

    root: Node
    positions: Mapping[int, int]
    ints: frozenset[int] = field(default_factory=frozenset)
    optionals: Mapping[int, bool] = field(default_factory=dict)


def decode(serialized: bytes) -> Tree:
    """Decode what the engine's `serialize()` gave."""
    checked = next(part for number, part in _fields(serialized) if number == 2)
    root: Node | None = None
    positions: dict[int, int] = {}
    ints = set()
    optionals: dict[int, bool] = {}
    for number, part in _fields(checked):
        if number == 3:
            entry = dict(_fields(part))
            kind = entry.get(2, b"")
            if dict(_fields(kind)).get(_PRIMITIVE) == _INT64_TYPE:
                ints.add(entry.get(1, 0))
            elif held := kind.count(_OPTIONAL):
                optionals[entry.get(1, 0)] = held == 1 and _ABSTRACT in dict(_fields(kind))
        elif number == 4:
            root = _node(part)
        elif number == 5:
            for inner, place in _fields(part):
                if inner == 4:
                    entry = dict(_fields(place))
                    positions[entry.get(1, 0)] = entry.get(2, 0)
    assert root is not None
    return Tree(root, positions, frozenset(ints), optionals)


def parts_of(node: Node) -> tuple[Node, ...]:
    """What stands inside a part, in order; the target of a member call first."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.arguments if node.target is None else (node.target, *node.arguments)
        case Many():
            return node.parts
        case Comprehension():
            return (*node.outer, *node.inner)
        case Name() | Constant():
            return ()


def _node(data: bytes) -> Node:
    id = 0
    made: Node | None = None
    for number, part in _fields(data):
        match number:
            case 2:
                id = part
            case 3:
                made = Constant(id, _constant(part))
            case 4:
                made = Name(id, dict(_fields(part))[1].decode())
            case 5:
                made = _select(id, part)
            case 6:
                made = _call(id, part)
            case 7:
                made = _list(id, part)
            case 8:
                made = _map(id, part)
            case 9:
                made = _comprehension(id, part)
            case _:
                pass
    return made if made is not None else Constant(id, None)


def _constant(data: bytes) -> str | int | None:
    for number, part in _fields(data):
        if number == 3:
            return part - (1 << 64) if part >= 1 << 63 else int(part)
        if number == 6:
            return str(part.decode())
    return None


def _select(id: int, data: bytes) -> Select:
    parts = dict(_fields(data))
    return Select(id, _node(parts[1]), parts.get(2, b"").decode(), bool(parts.get(3, 0)))


def _call(id: int, data: bytes) -> Call:
    target: Node | None = None
    function = ""
    arguments: list[Node] = []
    for number, part in _fields(data):
        if number == 1:
            target = _node(part)
        elif number == 2:
            function = part.decode()
        elif number == 3:
            arguments.append(_node(part))
    return Call(id, function, target, tuple(arguments))


def _list(id: int, data: bytes) -> Many:
    parts: list[Node] = []
    optional: set[int] = set()
    for number, part in _fields(data):
        if number == 1:
            parts.append(_node(part))
        elif number == 2:  # packed, or one by one
            optional.update(_varints(part) if isinstance(part, bytes) else (part,))
    return Many(id, tuple(parts), optional=frozenset(optional))


def _map(id: int, data: bytes) -> Many:
    parts: list[Node] = []
    optional: set[int] = set()
    for number, part in _fields(data):
        if number == 2:
            entry = dict(_fields(part))
            parts.extend(_node(entry[inner]) for inner in (3, 4) if inner in entry)
            if entry.get(5):
                optional.add(len(parts) - 1)
    return Many(id, tuple(parts), keyed=True, optional=frozenset(optional))


def _comprehension(id: int, data: bytes) -> Comprehension:
    parts = dict(_fields(data))
    return Comprehension(
        id,
        frozenset(parts[number].decode() for number in (1, 3, 8) if number in parts),
        tuple(_node(parts[number]) for number in (2, 4) if number in parts),
        tuple(_node(parts[number]) for number in (5, 6, 7) if number in parts),
    )


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message in order: varints as integers, messages and texts as bytes."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
        elif kind == _BYTES:
            size, at = _varint(data, at)
            yield key >> 3, data[at : at + size]
            at += size
        else:
            assert kind in {_FIXED64, _FIXED32}
            size = 8 if kind == _FIXED64 else 4
            yield key >> 3, data[at : at + size]
            at += size


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
