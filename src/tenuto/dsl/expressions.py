"""Values with expressions -> `Expression`s of the model, and a note of every name that they read.

Only what stands inside an expression is checked here (it parses, it yields the right kind); whether a name may be read
from where it is read is `reads`' question, once the graph is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

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
    Root,
)

# What CEL's type names are called in a message; `dyn` and what is not here may be anything.
_NAMED = {
    "bool": "true or false",
    "int": "a number",
    "uint": "a number",
    "double": "a number with a fraction",
    "string": "text",
    "bytes": "bytes",
    "list": "a list",
    "map": "a mapping",
    "null": "nothing",
    "timestamp": "a moment",
    "duration": "a length of time",
}


@dataclass(frozen=True, slots=True)
class _Yields:
    """What an expression of a kind may yield, and the finding for anything else."""

    types: frozenset[str]
    code: str
    expected: str = ""
    cure: str = ""


_YIELDS: Mapping[ExpressionKind, _Yields] = {
    ExpressionKind.CONDITION: _Yields(frozenset({"bool"}), "condition_type"),
    ExpressionKind.KEY: _Yields(frozenset({"string", "int", "uint"}), "key_type"),
    ExpressionKind.DURATION: _Yields(
        frozenset({"string", "duration"}), "duration_type", cure='`"${string(…)}s"`'
    ),
    ExpressionKind.VALUE: _Yields(  # where it stands for a whole mapping: `params: "${item.params}"`
        frozenset({"map"}),
        "computed_type",
        "a mapping",
        "name the mapping in it, or write the keys out",
    ),
    ExpressionKind.NAME: _Yields(
        frozenset({"string"}), "computed_type", "text", "name one field of it that is text"
    ),
    ExpressionKind.INSTANT: _Yields(
        frozenset({"string", "timestamp"}),
        "computed_type",
        "a moment",
        "let it yield text like `2026-12-24T18:00:00+01:00`, or `timestamp(…)`",
    ),
    ExpressionKind.COUNT: _Yields(
        frozenset({"int", "uint"}),
        "computed_type",
        "a whole number",
        "write one expression alone, and `int(…)` around it",
    ),
    ExpressionKind.TOLERANCE: _Yields(
        frozenset({"int", "uint", "string"}),
        "computed_type",
        "a whole number or text like `5%`",
        "write `int(…)` around it",
    ),
    ExpressionKind.ITEMS: _Yields(
        frozenset({"list"}),
        "computed_type",
        "a list",
        "name the list in it, or make one of a mapping with `….map(key, …)`",
    ),
}
_CHOICES = ("?", "&&", "||")
_ROOTS = "(?:input|vars|nodes|error|item|params|event|secrets)"
_PLAIN = re.compile(
    r"\{\{([^{}]+)\}\}"
    rf"|(?<!\$)\{{\s*({_ROOTS}[.\[][^{{}}]*?)\s*\}}"
    rf"|(?<!\$)\$({_ROOTS}(?:\.[A-Za-z_]\w*)+)"
)
"""What looks like an expression and is none: `{{ … }}`, and `{input.x}` and `$input.x`."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose expression it is, which says what it may read.

    Attributes:
        node, edge: its number. Neither: `output` of the graph, or `on_failure`.
        handler: of `compensate` or `on_failure`, which read every node (X4).
        sees: names that have a value here, beside those that have one in all of the graph.
        alone: what it is in words, where it reads nothing of the graph: `a retry rule`, `defaults`.
    """

    node: int | None = None
    edge: int | None = None
    handler: bool = False
    sees: frozenset[Root] = frozenset()
    alone: str = ""


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


@dataclass(frozen=True, slots=True)
class Site:
    """One expression at one place; it begins at `start` of its scalar's value."""

    text: str
    owner: Owner
    places: Places
    start: int


@dataclass(frozen=True, slots=True)
class Asked:
    """An expression that is a whole value, and what it must yield."""

    text: str
    owner: Owner
    kind: ExpressionKind
    tree: Scalar
    key: str


class Expressions:
    """Makes the expressions of one graph. `uses`, `sites` and `asked` grow in document order of the calls."""

    def __init__(self, parser: Parser, findings: Findings) -> None:
        self.uses: list[Use] = []
        self.sites: list[Site] = []
        self.asked: list[Asked] = []
        self._parser = parser
        self._findings = findings
        self._parsed: dict[str, Parsed | ParseError] = {}

    def of_inline(self) -> Expressions:
        """For a graph inside this one: what was parsed is shared, what is used is not."""
        inner = Expressions(self._parser, self._findings)
        inner._parsed = self._parsed
        return inner

    def condition(self, tree: Tree, where: str, owner: Owner, key: str = "when") -> Expression:
        """A bare CEL expression that yields true or false (X7)."""
        if isinstance(tree, Scalar) and isinstance(tree.value, bool):
            text = "true" if tree.value else "false"
            return Expression(ExpressionKind.CONDITION, text, where)
        example = "nodes.score.output > 50"
        return self._bare(tree, ExpressionKind.CONDITION, where, owner, key, example)

    def items(self, tree: Tree, where: str, owner: Owner, key: str) -> Expression:
        """A bare CEL expression that yields a list."""
        return self._bare(tree, ExpressionKind.ITEMS, where, owner, key, "input.files")

    def _bare(
        self, tree: Tree, kind: ExpressionKind, where: str, owner: Owner, key: str, example: str
    ) -> Expression:
        if not isinstance(tree, Scalar) or not isinstance(tree.value, str):
            self._findings.add(
                "wrong_type",
                tree.start,
                self._raw(tree),
                key=key,
                actual=kind_of(tree),
                expected="an expression",
                cure=f'write it as text, like `"{example}"`',
            )
        elif tree.value.lstrip().startswith("${"):
            self._findings.add("template_in_condition", tree.start, self._raw(tree), key=key)
        else:
            places = Places(tree, self._findings.text)
            parsed, reads = self._expression(tree.value, 0, places, owner)
            if parsed:
                asked = Asked(tree.value, owner, kind, tree, key)
                self.asked.append(asked)
                check_result(self._findings, asked, parsed.result)
            return Expression(kind, tree.value, where, reads)
        return Expression(kind, "", where)

    def computed(
        self, tree: Scalar, kind: ExpressionKind, where: str, owner: Owner, key: str
    ) -> Expression:
        """A text with `${…}` in it that yields what a fixed value of its kind would say (X1)."""
        assert isinstance(tree.value, str)
        reads: dict[Read, None] = {}
        self._strings(tree, owner, reads, secrets=False)
        parts = split(tree.value, self._parser)
        if not isinstance(parts, Unclosed):
            result, asked = "string", Asked("", owner, kind, tree, key)
            if len(parts) == 1 and parts[0].whole:
                parsed = self._parsed.get(parts[0].text)
                result = parsed.result if isinstance(parsed, Parsed) else "dyn"
                asked = replace(asked, text=parts[0].text)
                self.asked.append(asked)
            check_result(self._findings, asked, result)
        return Expression(kind, json_text(tree), where, tuple(reads))

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
            return self.computed(tree, ExpressionKind.KEY, where, owner, key)
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
            cure = did_you_mean(parsed.suggestion, "mend the expression here")
            self._findings.add("expression", at, text, problem=parsed.message, cure=cure)
            return None, ()
        self.sites.append(Site(text, owner, places, start))
        for offset in parsed.divides_ints:
            self._findings.add("int_division", places.offset(start + offset), text)
        for found in parsed.reads:
            at = places.offset(start + found.offset)
            chooses = any(sign in text for sign in _CHOICES)
            self.uses.append(Use(found.read, owner, at, found.guarded, secrets, chooses))
        return parsed, tuple(dict.fromkeys(found.read for found in parsed.reads))

    def _raw(self, tree: Tree) -> str:
        return self._findings.text[tree.start : tree.end]


def check_result(findings: Findings, asked: Asked, result: str) -> None:
    """Refuse what can be seen to yield something else than its kind asks for. `result`: CEL's type name."""
    wanted = _YIELDS[asked.kind]
    actual = _NAMED.get(result)
    if actual is not None and result not in wanted.types:
        findings.add(
            wanted.code,
            asked.tree.start,
            str(asked.tree.value),
            key=asked.key,
            actual=actual,
            expected=wanted.expected,
            cure=wanted.cure,
        )


def name_of(read: Read) -> str:
    """A read as it is written: `nodes.charge.output`, `iteration`, `secrets.TOKEN`."""
    return ".".join(part for part in (read.root, read.node, read.field) if part)
