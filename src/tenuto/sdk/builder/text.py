"""A definition's tree as YAML for people: short values on one line, texts quoted where they must be.

The loader reads it back as the same tree (YAML 1.2, as `dsl.yaml` has it). It knows nodes and edges only as lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tenuto.sdk.builder.references import Json

WIDTH = 100
_STEP = 2

Owner = tuple[str, str | int]
"""Whose line it is: ("nodes", id), ("edges", number) or (key, "")."""


@dataclass(frozen=True, slots=True)
class Text:
    """Lines, and for each of them whose it is."""

    lines: tuple[str, ...]
    owners: tuple[Owner, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


def write(tree: Mapping[str, Json]) -> Text:
    """Write a definition; its keys in their order."""
    lines: list[str] = []
    owners: list[Owner] = []

    def put(owner: Owner, more: list[str]) -> None:
        lines.extend(more)
        owners.extend([owner] * len(more))

    for key, value in tree.items():
        if key == "nodes" and isinstance(value, dict) and value:
            put((key, ""), ["", "nodes:"])
            for id, node in value.items():
                put((key, id), _entry(f"{_scalar(id, is_key=True)}:", _STEP, node))
        elif key == "edges" and isinstance(value, list) and value:
            put((key, ""), ["", "edges:"])
            for number, edge in enumerate(value):
                put((key, number), _entry("-", _STEP, edge))
        else:
            blank = [""] if key == "output" else []
            put((key, ""), [*blank, *_entry(f"{_scalar(key, is_key=True)}:", 0, value)])
    return Text(tuple(lines), tuple(owners))


def _entry(prefix: str, indent: int, value: Json) -> list[str]:
    """The lines of a key or a dash and what belongs to it."""
    head = " " * indent + prefix
    if isinstance(value, str) and _is_block(value):
        return list(_block(head, indent, value))
    if not isinstance(value, dict | list):
        return [f"{head} {_scalar(value, _PLAIN_ALONE)}"]
    flow = "" if _has_block(value) else _flow(value)
    if flow and (not value or len(head) + 1 + len(flow) <= WIDTH):
        return [f"{head} {flow}"]
    inner: list[str] = []
    if isinstance(value, dict):
        for key, part in value.items():
            inner += _entry(f"{_scalar(key, is_key=True)}:", indent + _STEP, part)
    else:
        for part in value:
            inner += _entry("-", indent + _STEP, part)
    if prefix == "-":
        return [f"{head} {inner[0].lstrip(' ')}", *inner[1:]]
    return [head, *inner]


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
