"""Functions that the engine cannot be taught as they are written, spelled as what it knows. Texts only.

| written | run |
|---|---|
| `first(a, b)` | `a` as an optional `.or(b …)`, null if none has a value: no function of ours may see an optional |
| `json_encode(x)` | of `[x]`: null alone fits no declared type |
| `x.distinct()` | ours: the library's compares each with each |
| `lists.range(n)` | ours: the library's has no bound |

What is written is what is checked, and what findings point into; the text made here is only run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenuto.adapters.cel.lexer import Token, tokens

RESPELLED = frozenset({"first", "json_encode", ".distinct", "lists.range"})
"""As `Names.functions` has them."""
FIRST_MAX = 8
"""Arguments of `first`."""

_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")


def respell(text: str, firsts: Mapping[int, Sequence[bool]]) -> str:
    """The text to run. `firsts`: by the place of its `(`, which arguments of a `first` are optionals."""
    return _Speller(text, firsts).between(0, None)


class _Speller:
    def __init__(self, text: str, firsts: Mapping[int, Sequence[bool]]) -> None:
        self._text, self._firsts = text, firsts
        self._tokens = tokens(text)

    def between(self, at: int, end: int | None) -> str:
        """What the tokens from `at` up to `end` are spelled as, with the text between them."""
        made: list[str] = []
        last = len(self._tokens) if end is None else end
        # Comments and spaces go along with the token after them.
        copied = self._tokens[at - 1].end if at else 0
        while at < last:
            found = self._at(at)
            if found is not None:
                spelled, after = found
                made.extend((self._text[copied : self._tokens[at].start], spelled))
                at, copied = after, self._tokens[after - 1].end
            else:
                made.append(self._text[copied : self._tokens[at].end])
                copied = self._tokens[at].end
                at += 1
        stop = len(self._text) if end is None else self._tokens[last].start
        made.append(self._text[copied:stop])
        return "".join(made)

    def _at(self, at: int) -> tuple[str, int] | None:
        """How the call that begins at a token is spelled, and the token after it; None for anything else."""
        word = self._tokens[at].text
        member = at > 0 and self._tokens[at - 1].text == "."
        if member:
            return ("unique", at + 1) if word == "distinct" and self._is("(", at + 1) else None
        if word == "lists" and self._is(".", at + 1) and self._is("range", at + 2):
            return "range", at + 3
        if word in {"first", "json_encode"} and self._is("(", at + 1):
            arguments, after = self._arguments(at + 1)
            if word == "json_encode":
                return f"json_text([{', '.join(arguments)}])", after
            return _first(arguments, self._firsts.get(self._tokens[at + 1].start, ())), after
        return None

    def _is(self, text: str, at: int) -> bool:
        return at < len(self._tokens) and self._tokens[at].text == text

    def _arguments(self, at: int) -> tuple[list[str], int]:
        """The arguments of a call whose `(` is the token `at`, spelled, and the token after its `)`."""
        depth, start, found = 0, at + 1, list[str]()
        for here in range(at, len(self._tokens)):
            sign: Token = self._tokens[here]
            if sign.text in _OPEN:
                depth += 1
            elif sign.text in _CLOSE:
                depth -= 1
            if (sign.text == "," and depth == 1) or not depth:
                if here > start:
                    # The line break ends a comment that the argument may end with.
                    found.append(self.between(start, here) + "\n")
                start = here + 1
                if not depth:
                    return found, here + 1
        raise AssertionError("the text was parsed: its parentheses match")


def _first(arguments: Sequence[str], optional: Sequence[bool]) -> str:
    parts = [
        f"({argument}).optMap(_v, dyn(_v))" if is_optional else f"optional.of(dyn({argument}))"
        for argument, is_optional in zip(arguments, optional, strict=True)
    ]
    chained = "".join(f".or({part})" for part in parts[1:])
    return f"({parts[0]}{chained}.orValue(dyn(null)))"
