"""YAML text -> a tree that knows where every key and value stands. YAML 1.2 core schema; JSON is a part of it.

The C parser gives events; values are ours, so `on`, `yes` and `no` are text. Bounded in size, depth and aliases, and
without recursion: any bytes at all give a tree or findings. It knows nothing of workflows.
"""

from __future__ import annotations

import codecs
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import orjson
import yaml

from tenuto.dsl.findings import Findings
from tenuto.model.definition import DEFINITION_MAX, NESTING_MAX

ALIAS_GROWTH_MAX = DEFINITION_MAX
"""Characters that aliases may add to a file."""
INT_MIN, INT_MAX = -(2**63), 2**63 - 1

Json = bool | int | float | str | list["Json"] | dict[str, "Json"] | None


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value. `start`, `end`: offsets into the text, quotes included; `style`: one of `'"|>` or nothing."""

    value: bool | int | float | str | None
    start: int
    end: int
    style: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A sequence."""

    items: tuple[Tree, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping in document order: key -> where the key stands, and its value."""

    entries: Mapping[str, tuple[Scalar, Tree]]
    start: int
    end: int

    def get(self, key: str) -> Tree | None:
        """The value under a key, or None."""
        entry = self.entries.get(key)
        return entry[1] if entry else None


Tree = Scalar | Items | Fields


def decode(data: bytes, file: str) -> tuple[str, Findings]:
    """The text of a file's bytes without its byte order mark, and where its findings go."""
    findings = Findings(file, "")
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode(), findings
    except UnicodeDecodeError as error:
        good = findings.text = data[: error.start].decode()
        byte = f"byte 0x{data[error.start]:02x} at {error.start}"
        findings.add("encoding", len(good), byte, problem=f"{byte} begins no character")
        return "", findings


def read(text: str, findings: Findings) -> Tree | None:
    """Read one document. None: the findings say why there is no tree. Duplicate keys keep their first value."""
    if len(text) * 4 > DEFINITION_MAX:
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > DEFINITION_MAX:
            findings.add("too_large", 0, size=f"{size:,}", limit=f"{DEFINITION_MAX:,}")
            return None
    if bad := _FORBIDDEN.search(text):
        name = f"U+{ord(bad.group()):04X}"
        findings.add(
            "syntax",
            bad.start(),
            name,
            problem=f"the character {name} is not allowed",
            cure="take it out; in a double-quoted text it is written with an escape",
        )
        return None
    breaks = _stand_ins(text)
    plain, moved = text.translate({ord(old): new for new, old in breaks.items()}), list[int]()
    if _SURROGATE.search(text) and _is_json(text):
        plain, moved = _join_surrogates(plain)
    builder = _Builder(text, moved, str.maketrans(breaks), findings)
    try:
        for event in _events(plain):
            if not builder.take(event):
                return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = builder.offset(mark.index) if mark else 0
        problem = error.problem or error.context or "it cannot be read"
        found = text[at : at + 1]
        findings.add("syntax", at, found.strip(), problem=problem, cure=_cure(problem, found))
        return None
    except yaml.YAMLError as error:
        findings.add("syntax", 0, problem=str(error).splitlines()[0], cure=_cure("", ""))
        return None
    if builder.root is None:
        findings.add("syntax", 0, problem="it is empty", cure="start with `name:` and `nodes:`")
    return builder.root


def to_json(tree: Tree) -> Json:
    """The plain value of a tree."""
    if isinstance(tree, Scalar):
        return tree.value
    if isinstance(tree, Items):
        return [to_json(item) for item in tree.items]
    return {key: to_json(value) for key, (_, value) in tree.entries.items()}


def json_text(tree: Tree) -> str:
    """Compact JSON of a tree as it is written: key order kept."""
    return orjson.dumps(to_json(tree)).decode()


def kind_of(tree: Tree) -> str:
    """What a value is, in the words of a message."""
    if isinstance(tree, Items):
        return "a list"
    if isinstance(tree, Fields):
        return "a mapping"
    value = tree.value
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, float):
        return "a number with a fraction"
    return "text" if isinstance(value, str) else "a number"


# What YAML calls not printable, and lone surrogates; a byte order mark only counts inside a text.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_NUMBERLIKE = frozenset("+-.0123456789")

_SURROGATE = re.compile(r"\\ud[89ab]", re.IGNORECASE)
_PAIR = re.compile(
    r"\\(?:u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|.)", re.IGNORECASE | re.DOTALL
)


def _stand_ins(text: str) -> dict[str, str]:
    """Characters that the text does not use -> those that only YAML 1.1, and so the parser, takes for line ends."""
    found = [char for char in "\x85\u2028\u2029" if char in text]
    if not found:
        return {}
    used = set(text)
    private = (chr(code) for code in (*range(0xE000, 0xF900), *range(0xF0000, 0x10FFFE)))
    return dict(zip((char for char in private if char not in used), found, strict=False))


def _is_json(text: str) -> bool:
    """Whether it is JSON through and through, so that every backslash stands in a quoted text."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _join_surrogates(text: str) -> tuple[str, list[int]]:
    """Write JSON's surrogate pairs as one escape, which the parser knows. Also: where two characters went missing."""
    moved: list[int] = []

    def join(found: re.Match[str]) -> str:
        if not found[1]:
            return found[0]
        moved.append(found.end() - 2 * len(moved) - 2)
        code = 0x10000 + ((int(found[1], 16) - 0xD800) << 10) + int(found[2], 16) - 0xDC00
        return f"\\U{code:08x}"

    return _PAIR.sub(join, text), moved


def _events(text: str) -> Iterator[yaml.Event]:
    yield from yaml.parse(text, Loader=yaml.CSafeLoader)


class _Mark(Protocol):
    """What the two parsers' marks have in common."""

    index: int


@dataclass(slots=True)
class _Open:
    """A collection whose end has not been read."""

    start: int
    anchor: str | None
    is_map: bool
    items: list[Tree] = field(default_factory=list)
    entries: dict[str, tuple[Scalar, Tree]] = field(default_factory=dict)
    key: Scalar | None = None
    skip: bool = False
    """The value that comes has no usable key."""
    weight: int = 1
    height: int = 1


@dataclass(frozen=True, slots=True)
class _Anchor:
    tree: Tree
    weight: int
    height: int


class _Builder:
    """Turns events into a tree. `take` answers False when reading must stop."""

    def __init__(
        self, text: str, moved: list[int], breaks: dict[int, str], findings: Findings
    ) -> None:
        self.root: Tree | None = None
        self._text, self._moved, self._breaks, self._findings = text, moved, breaks, findings
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchor] = {}
        self._grown = 0
        self._documents = 0

    def offset(self, index: int) -> int:
        """The place in the file of a place in the parser's text."""
        if self._moved:
            index += 2 * bisect_right(self._moved, index)
        return min(index, len(self._text))

    def _place(self, mark: _Mark | None) -> int:
        assert mark is not None  # every event of a parser has its marks
        return self.offset(mark.index)

    def take(self, event: yaml.Event) -> bool:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.CollectionStartEvent):
            return self._begin(event)
        if isinstance(event, yaml.CollectionEndEvent):
            return self._end(event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                at = self._place(event.start_mark)
                self._findings.add(
                    "syntax",
                    at,
                    "---",
                    problem="a second document begins",
                    cure="keep one workflow in one file",
                )
                return False
        return True

    def _scalar(self, event: yaml.ScalarEvent) -> bool:
        start, end = self._place(event.start_mark), self._place(event.end_mark)
        self._check_tag(event.tag, start)
        style = event.style or ""
        text = event.value.translate(self._breaks) if self._breaks else event.value
        value = text if style else self._resolve(text, start)
        return self._put(Scalar(value, start, end, style), event.anchor, len(text) + 1, 0)

    def _resolve(self, text: str, start: int) -> bool | int | float | str | None:
        """The value of a plain scalar by the YAML 1.2 core schema."""
        if text in _BOOL:
            return _BOOL[text]
        if text[:1] not in _NUMBERLIKE:
            return None if _NULL.fullmatch(text) else text
        if _INT.fullmatch(text):
            base = {"0o": 8, "0x": 16}.get(text[:2], 10)
            # 25 digits are beyond 64 bits in any base; longer ones are not even converted.
            number = int(text[2:] if base != 10 else text, base) if len(text) <= 25 else INT_MAX + 1
            if INT_MIN <= number <= INT_MAX:
                return number
        elif _FLOAT.fullmatch(text):
            real = float(text)
            if math.isfinite(real):
                return real
        elif not _NO_NUMBER.fullmatch(text):
            return text
        self._findings.add("number_range", start, text)
        return 0

    def _begin(self, event: yaml.CollectionStartEvent) -> bool:
        start = self._place(event.start_mark)
        self._check_tag(event.tag, start)
        if len(self._open) >= NESTING_MAX:
            self._findings.add("too_deep", start, limit=NESTING_MAX)
            return False
        if event.anchor:
            self._anchors.pop(
                event.anchor, None
            )  # incomplete until its end: it may not name itself
        is_map = isinstance(event, yaml.MappingStartEvent)
        self._open.append(_Open(start, event.anchor, is_map))
        return True

    def _end(self, event: yaml.CollectionEndEvent) -> bool:
        done = self._open.pop()
        # A block collection's end mark is where the next token begins.
        end = self._place(event.end_mark)
        tree: Tree
        if done.is_map:
            tree = Fields(done.entries, done.start, end)
        else:
            tree = Items(tuple(done.items), done.start, end)
        return self._put(tree, done.anchor, done.weight, done.height)

    def _alias(self, event: yaml.AliasEvent) -> bool:
        at = self._place(event.start_mark)
        name = event.anchor or ""
        known = self._anchors.get(name)
        if known is None:
            self._findings.add("bad_alias", at, name)
            return self._put(Scalar(None, at, at + 1), None, 1, 0)
        self._grown += known.weight
        if self._grown > ALIAS_GROWTH_MAX:
            self._findings.add("alias_bomb", at, name, limit=f"{ALIAS_GROWTH_MAX:,}")
            return False
        if len(self._open) + known.height > NESTING_MAX:
            self._findings.add("too_deep", at, name, limit=NESTING_MAX)
            return False
        return self._put(known.tree, None, known.weight, known.height)

    def _put(self, tree: Tree, anchor: str | None, weight: int, height: int) -> bool:
        if anchor:
            self._anchors[anchor] = _Anchor(tree, weight, height)
        if not self._open:
            self.root = tree
            return True
        top = self._open[-1]
        top.weight += weight
        top.height = max(top.height, height + 1)
        if not top.is_map:
            top.items.append(tree)
        elif top.skip:
            top.skip = False
        elif top.key is not None:
            assert isinstance(top.key.value, str)
            top.entries[top.key.value] = (top.key, tree)
            top.key = None
        else:
            top.key = self._key(tree, top)
            top.skip = top.key is None
        return True

    def _key(self, tree: Tree, top: _Open) -> Scalar | None:
        """The key, or None with a finding when it cannot be one."""
        text = self._text[tree.start : tree.end]
        if not isinstance(tree, Scalar) or not isinstance(tree.value, str):
            cure = f'"{text}"' if isinstance(tree, Scalar) and text else "a word"
            self._findings.add("key_not_text", tree.start, text, actual=kind_of(tree), cure=cure)
            return None
        if tree.value == "<<" and not tree.style:
            self._findings.add("merge_key", tree.start, "<<")
            return None
        first = top.entries.get(tree.value)
        if first is not None:
            line, _ = self._findings.position(first[0].start)
            self._findings.add("duplicate_key", tree.start, tree.value, line=line)
            return None
        return tree

    def _check_tag(self, tag: str | None, start: int) -> None:
        if tag is not None:
            shown = tag.replace("tag:yaml.org,2002:", "!!")
            self._findings.add("tag", start, shown)


def _cure(problem: str, found: str) -> str:
    """The likeliest repair of broken YAML."""
    if found == "\t":
        return "a tab cannot indent; use spaces"
    if found and found in "@`%":
        return f"quote a text that begins with {found}"
    if "mapping values" in problem:
        return "quote a text that holds `: `, and check the indentation"
    if "expected ',' or" in problem:
        return "quote a text that holds `{`, `}`, `[`, `]` or `,` inside braces or brackets"
    return "check the indentation, and that every quote and bracket above is closed"
