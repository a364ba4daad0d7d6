"""A definition's tree as YAML for people: short values on one line, texts quoted where they must be.

The loader reads it back as the same tree (YAML 1.2, as `dsl.yaml` has it). It knows nodes and edges only as lines, and
each line as made somewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tenuto.sdk.builder.origins import Origin, origin_of
from tenuto.sdk.builder.references import Json

WIDTH = 100
_STEP = 2
_TAIL = frozenset({"output", "on_failure"})
"""What stands apart, below the edges."""

_Line = tuple[str, Origin | None]


@dataclass(frozen=True, slots=True)
class Text:
    """Lines, and where each of them was made."""

    lines: tuple[str, ...]
    origins: tuple[Origin | None, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


def write(tree: Mapping[str, Json]) -> Text:
    """Write a definition; its keys in their order."""
    lines: list[_Line] = []
    around = origin_of(tree, None)
    for key, value in tree.items():
        if key == "nodes" and isinstance(value, dict) and value:
            lines += [("", around), ("nodes:", around)]
            for id, node in value.items():
                lines += _entry(f"{_scalar(id, is_key=True)}:", _STEP, node, around)
        elif key == "edges" and isinstance(value, list) and value:
            lines += [("", around), ("edges:", around)]
            for edge in value:
                lines += _entry("-", _STEP, edge, around)
        else:
            if key in _TAIL:
                lines.append(("", around))
            lines += _entry(f"{_scalar(key, is_key=True)}:", 0, value, around)
    return Text(tuple(line for line, _ in lines), tuple(origin for _, origin in lines))


def _entry(prefix: str, indent: int, value: Json, around: Origin | None) -> list[_Line]:
    """The lines of a key or a dash and what belongs to it."""
    head, origin = " " * indent + prefix, origin_of(value, around)
    if isinstance(value, str) and _is_block(value):
        return [(line, origin) for line in _block(head, indent, value)]
    if not isinstance(value, dict | list):
        return [(f"{head} {_scalar(value, _PLAIN_ALONE)}", origin)]
    is_flow = not _has_block(value) and _is_of_one_place(value, origin)
    flow = _flow(value) if is_flow else ""
    if flow and (not value or len(head) + 1 + len(flow) <= WIDTH):
        return [(f"{head} {flow}", origin)]
    inner: list[_Line] = []
    if isinstance(value, dict):
        for key, part in value.items():
            inner += _entry(f"{_scalar(key, is_key=True)}:", indent + _STEP, part, origin)
    else:
        for part in value:
            inner += _entry("-", indent + _STEP, part, origin)
    if prefix == "-":
        [(first, whose), *rest] = inner
        return [(f"{head} {first.lstrip(' ')}", whose), *rest]
    return [(head, origin), *inner]


def _is_of_one_place(value: Json, origin: Origin | None) -> bool:
    """Whether all of it was made at one place, so that a finding about a part of it says enough by one line."""
    if origin_of(value, origin) != origin:
        return False
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(_is_of_one_place(part, origin) for part in parts)


def _flow(value: Json) -> str:
    if isinstance(value, dict):
        parts = (f"{_scalar(key, is_key=True)}: {_flow(part)}" for key, part in value.items())
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


# Nothing of these can be taken for another kind of value, by this YAML or an older one.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./>-]+)*|(?:[0-9]+(?:ms|s|m|h|d))+")
# A text that no bracket is around may hold these, too.
_PLAIN_ALONE = re.compile(rf"{_PLAIN.pattern}|[A-Za-z_][\w./(),'-]*(?: [\w./>(),'-]+)*", re.ASCII)
_WORDS = frozenset({"null", "true", "false"})
_OLD_WORDS = frozenset({"yes", "no", "on", "off", "y", "n"})
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _scalar(value: Json, plain: re.Pattern[str] = _PLAIN, *, is_key: bool = False) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    word = value.lower()
    if plain.fullmatch(value) and word not in _WORDS and (is_key or word not in _OLD_WORDS):
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def _is_block(text: str) -> bool:
    """Whether a text of several lines can stand as a block, every character as it is."""
    return (
        "\n" in text
        and not text[0].isspace()
        and not text.endswith("\n\n")
        and all(char == "\n" or char.isprintable() for char in text)
        and not _UNPRINTABLE.search(text)
    )


def _has_block(value: Json) -> bool:
    if isinstance(value, dict):
        return any(map(_has_block, value.values()))
    if isinstance(value, list):
        return any(map(_has_block, value))
    return isinstance(value, str) and _is_block(value)


def _block(head: str, indent: int, text: str) -> Iterator[str]:
    yield f"{head} {'|' if text.endswith(chr(10)) else '|-'}"
    for line in text.removesuffix("\n").split("\n"):
        yield " " * (indent + _STEP) + line if line else ""
