"""Where expressions stand inside template texts, by CEL's own lexical rules (SEMANTICS X7). No parsing."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<raw>    [bB]?[rR](?:\"{3}[\s\S]*?\"{3} | '{3}[\s\S]*?'{3} | \"[^\"\r\n]*\" | '[^'\r\n]*') )
  | (?P<text>   [bB]?(?: \"{3}(?:\\[\s\S]|[^\\])*?\"{3} | '{3}(?:\\[\s\S]|[^\\])*?'{3}
                       | \"(?:\\.|[^\\\"\r\n])*\" | '(?:\\.|[^\\'\r\n])*') )
  | (?P<open>   ["'] | [bB]?[rR]?["'] )
  | (?P<name>   [_a-zA-Z][_a-zA-Z0-9]* )
  | (?P<quoted> `[^`\r\n]*` )
  | (?P<note>   //[^\n]* )
  | (?P<left>   \{ )
  | (?P<right>  \} )
  | (?P<other>  [\s\S] )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Hole:
    """An expression in a template; `text` is what stands between `${` and `}`."""

    text: str


class Unclosed(ValueError):
    """A `${` without its `}`; `offset` is where its `$` stands."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        super().__init__(f"`${{` at character {offset + 1} has no `}}`")


def end_of(text: str, start: int) -> int | None:
    """Index of the `}` that ends the expression beginning at `start`; None when there is none."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        kind = token.lastgroup
        if kind == "left":
            depth += 1
        elif kind == "right":
            if not depth:
                return token.start()
            depth -= 1
        elif kind == "open":
            return None
    return None


@dataclass(frozen=True, slots=True)
class Token:
    """A word or sign of an expression that means something, with where it starts and ends."""

    text: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """The tokens of an expression, without spaces and comments."""
    return [
        Token(found[0], found.start(), found.end())
        for found in _TOKEN.finditer(text)
        if found.lastgroup != "note" and not found[0].isspace()
    ]


def split(text: str) -> list[str | Hole]:
    """Take a template apart: literal texts (`$${` read as `${`) and holes, in order, no empty text.

    Raises Unclosed.
    """
    parts: list[str | Hole] = []
    literal: list[str] = []
    at = 0
    while (found := text.find("${", at)) >= 0:
        if found > at and text[found - 1] == "$":
            literal.append(text[at : found - 1] + "${")
            at = found + 2
            continue
        end = end_of(text, found + 2)
        if end is None:
            raise Unclosed(found)
        literal.append(text[at:found])
        if before := "".join(literal):
            parts.append(before)
        literal = []
        parts.append(Hole(text[found + 2 : end]))
        at = end + 1
    literal.append(text[at:])
    if rest := "".join(literal):
        parts.append(rest)
    return parts
