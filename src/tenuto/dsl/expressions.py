"""Values with expressions -> `Expression`s of the model, and a note of every name that they read.

Only what stands inside an expression is checked here (it parses, it yields the right kind); whether a name may be read
from where it is read is `reads`' question, once the graph is known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tenuto.dsl.findings import Findings, did_you_mean
from tenuto.dsl.templates import Places, Unclosed, has_template, split
from tenuto.dsl.yaml import Fields, Items, Scalar, Tree, json_text, kind_of
from tenuto.model.expressions import (
    Expression,
    ExpressionKind,
    Parsed,
    ParseError,
    Parser,
    Read,
)

# What CEL's type names are called in a message; `dyn` and what is not here may be anything.
_NEVER_BOOL = {
    "int": "a number",
    "uint": "a number",
    "double": "a number",
    "string": "text",
    "bytes": "bytes",
    "list": "a list",
    "map": "a mapping",
    "null_type": "nothing",
}
_NEVER_KEY = {
    "bool": "true or false",
    "double": "a number with a fraction",
    "bytes": "bytes",
    "list": "a list",
    "map": "a mapping",
    "null_type": "nothing",
}
_CHOICES = ("?", "&&", "||")
_ROOTS = "(?:input|vars|nodes|error|item|secrets)"
_PLAIN = re.compile(
    r"\{\{([^{}]+)\}\}"
    rf"|(?<!\$)\{{\s*({_ROOTS}[.\[][^{{}}]*?)\s*\}}"
    rf"|(?<!\$)\$({_ROOTS}(?:\.[A-Za-z_]\w*)+)"
)
"""What looks like an expression and is none: `{{ … }}`, and `{input.x}` and `$input.x`."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose expression it is: a node's or an edge's number, or neither: the run's output."""

    node: int | None = None
    edge: int | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """One name read at one place. `at` is an offset into the file."""

    read: Read
    owner: Owner
    at: int
    guarded: bool
    secrets: bool
    """Whether `secrets` may stand here (X9)."""
    conditional: bool = False
    """Whether the expression chooses (`? :`, `&&`, `||`): the read may be guarded by what it does not name."""


class Expressions:
    """Makes the expressions of one file. `uses` grows in document order of the calls."""

    def __init__(self, parser: Parser, findings: Findings) -> None:
        self.uses: list[Use] = []
        self._parser = parser
        self._findings = findings
        self._parsed: dict[str, Parsed | ParseError] = {}

    def condition(self, tree: Tree, where: str, owner: Owner, key: str = "when") -> Expression:
        """A bare CEL expression that yields true or false (X7)."""
        text = ""
        if not isinstance(tree, Scalar) or not isinstance(tree.value, str | bool):
            self._findings.add(
                "wrong_type",
                tree.start,
                self._raw(tree),
                key=key,
                actual=kind_of(tree),
                expected="an expression",
                cure='write it as text, like `"nodes.score.output > 50"`',
            )
        elif isinstance(tree.value, bool):
            text = "true" if tree.value else "false"
        elif tree.value.lstrip().startswith("${"):
            self._findings.add("template_in_condition", tree.start, self._raw(tree), key=key)
        else:
            text = tree.value
            parsed, reads = self._expression(text, 0, Places(tree, self._findings.text), owner)
            actual = _NEVER_BOOL.get(parsed.result) if parsed else None
            if actual:
                self._findings.add("condition_type", tree.start, text, key=key, actual=actual)
            return Expression(ExpressionKind.CONDITION, text, where, reads)
        return Expression(ExpressionKind.CONDITION, text, where)

    def value(
        self, tree: Tree, where: str, owner: Owner, *, secrets_in: frozenset[str] = frozenset()
    ) -> Expression:
        """A JSON tree whose strings may hold `${…}`. `secrets_in`: top-level keys under which secrets may stand."""
        reads: dict[Read, None] = {}
        if isinstance(tree, Fields):
            for key, (_, part) in tree.entries.items():
                self._strings(part, owner, reads, secrets=key in secrets_in)
        else:
            self._strings(tree, owner, reads, secrets=False)
        return Expression(ExpressionKind.VALUE, json_text(tree), where, tuple(reads))

    def key(self, tree: Tree, where: str, owner: Owner, key: str) -> Expression:
        """A text or whole number, or an expression that yields one."""
        if isinstance(tree, Scalar) and isinstance(tree.value, str):
            parts = split(tree.value, self._parser)
            reads: dict[Read, None] = {}
            self._strings(tree, owner, reads, secrets=False)
            if not isinstance(parts, Unclosed) and len(parts) == 1 and parts[0].whole:
                parsed = self._parsed.get(parts[0].text)
                actual = _NEVER_KEY.get(parsed.result) if isinstance(parsed, Parsed) else None
                if actual:
                    self._findings.add("key_type", tree.start, tree.value, key=key, actual=actual)
            return Expression(ExpressionKind.KEY, json_text(tree), where, tuple(reads))
        is_int = isinstance(tree, Scalar) and type(tree.value) is int
        if not is_int:
            self._findings.add(
                "wrong_type",
                tree.start,
                self._raw(tree),
                key=key,
                actual=kind_of(tree),
                expected="a text or a whole number",
                cure='write a text, like `"${input.order_id}"`',
            )
        return Expression(ExpressionKind.KEY, json_text(tree) if is_int else '""', where)

    def _strings(self, tree: Tree, owner: Owner, reads: dict[Read, None], *, secrets: bool) -> None:
        """Parse the expressions in all strings of a tree (bounded in depth by the reader)."""
        if isinstance(tree, Items):
            for item in tree.items:
                self._strings(item, owner, reads, secrets=secrets)
        elif isinstance(tree, Fields):
            for _, part in tree.entries.values():
                self._strings(part, owner, reads, secrets=secrets)
        elif isinstance(tree.value, str) and has_template(tree.value):
            places = Places(tree, self._findings.text)
            parts = split(tree.value, self._parser)
            if isinstance(parts, Unclosed):
                at = places.offset(parts.start)
                self._findings.add("template_unclosed", at, tree.value[parts.start :])
                return
            between, at = [], 0
            for piece in parts:
                _, found = self._expression(piece.text, piece.start, places, owner, secrets=secrets)
                reads.update(dict.fromkeys(found))
                between += [tree.value[at : piece.start], " " * len(piece.text)]
                at = piece.start + len(piece.text)
            self._plain("".join([*between, tree.value[at:]]), places)
        elif isinstance(tree.value, str):
            self._plain(tree.value, Places(tree, self._findings.text))

    def _plain(self, text: str, places: Places) -> None:
        """Warn of what stands in the text as if it were an expression."""
        if "{" not in text and "$" not in text:
            return
        found = _PLAIN.search(text)
        if found is not None:
            meant = next(filter(None, found.groups())).strip()
            self._findings.add("jinja_braces", places.offset(found.start()), found[0], cure=meant)

    def _expression(
        self, text: str, start: int, places: Places, owner: Owner, *, secrets: bool = False
    ) -> tuple[Parsed | None, tuple[Read, ...]]:
        """Parse one expression that begins at `start` of its scalar's value; note what it reads."""
        parsed = self._parsed.get(text)
        if parsed is None and self._findings.is_full:
            return None, ()
        if parsed is None:
            parsed = self._parsed[text] = self._parser.parse(text)
        if isinstance(parsed, ParseError):
            at = places.offset(start + parsed.offset)
            if parsed.later is not None:
                self._findings.add("not_yet", at, parsed.later, what=f"`{parsed.later}`")
            else:
                self._findings.add(
                    "expression",
                    at,
                    text,
                    problem=parsed.message,
                    cure=did_you_mean(parsed.suggestion, "mend the expression here"),
                )
            return None, ()
        for offset in parsed.divides_ints:
            self._findings.add("int_division", places.offset(start + offset), text)
        for found in parsed.reads:
            at = places.offset(start + found.offset)
            chooses = any(sign in text for sign in _CHOICES)
            self.uses.append(Use(found.read, owner, at, found.guarded, secrets, chooses))
        return parsed, tuple(dict.fromkeys(found.read for found in parsed.reads))

    def _raw(self, tree: Tree) -> str:
        return self._findings.text[tree.start : tree.end]


def name_of(read: Read) -> str:
    """A read as it is written: `nodes.charge.output`, `iteration`, `secrets.TOKEN`."""
    return ".".join(part for part in (read.root, read.node, read.field) if part)
