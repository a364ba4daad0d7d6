"""Values that may be computed: fixed ones as `section` reads them, or an expression of the kind that yields them (X1).

Also what always is an expression or may hold some: conditions, keys, JSON values.
"""

from __future__ import annotations

import re

from tenuto.dsl.expressions import Expressions, Owner
from tenuto.dsl.section import Section
from tenuto.dsl.templates import has_template
from tenuto.dsl.yaml import Scalar, Tree
from tenuto.model.definition import ITEMS_MAX, Amount, Name, Tolerance
from tenuto.model.expressions import Expression, ExpressionKind

_PERCENT = re.compile(r"([0-9]{1,3})\s*%")


class Values:
    """The values of one mapping, and whose they are. `where` names it in errors: `nodes.charge`."""

    def __init__(
        self, section: Section, expressions: Expressions, where: str, owner: Owner
    ) -> None:
        self.section = section
        self.expressions = expressions
        self.where = where
        self.owner = owner
        self.findings = section.findings

    def of(self, section: Section, where: str | None = None, owner: Owner | None = None) -> Values:
        """The values of another mapping, or of this one by another reader."""
        return Values(section, self.expressions, where or self.where, owner or self.owner)

    def text(self, key: str) -> Tree | None:
        """Whatever stands under the key."""
        return self.section.tree.get(key)

    def value(self, key: str) -> Expression | None:
        """Any JSON value whose texts may hold `${…}`."""
        tree = self.text(key)
        if tree is None:
            return None
        return self.expressions.value(tree, self._where(key), self.owner)

    def mapping(self, key: str) -> Expression | None:
        """As `value`, of a mapping, or an expression that yields a whole one; an absent one is empty."""
        where = self._where(key)
        if not self.section.has(key):
            return Expression(ExpressionKind.VALUE, "{}", where)
        if (computed := self._computed(key, ExpressionKind.VALUE)) is not None:
            return computed
        section = self.section.section(key, f"`{key}`", f"write `{key}: {{name: value}}`")
        return self.expressions.value(section.tree, where, self.owner) if section else None

    def key(self, key: str) -> Expression | None:
        """A text or a whole number."""
        tree = self.text(key)
        if tree is None:
            return None
        return self.expressions.key(tree, self._where(key), self.owner, key)

    def condition(self, key: str) -> Expression | None:
        """A bare expression that yields true or false."""
        tree = self.text(key)
        if tree is None:
            return None
        return self.expressions.condition(tree, self._where(key), self.owner, key)

    def items(self, key: str) -> Expression | None:
        """A bare expression that yields a list."""
        tree = self.text(key)
        if tree is None:
            return None
        return self.expressions.items(tree, self._where(key), self.owner, key)

    def name(self, key: str, expected: str, *, pattern: re.Pattern[str], cure: str) -> Name | None:
        """A name of the form, or an expression that yields one."""
        computed = self._computed(key, ExpressionKind.NAME)
        return computed or self.section.text(key, expected, pattern=pattern, cure=cure)

    def duration(self, key: str, *, zero: bool = False) -> Amount | None:
        """A duration in microseconds; above nothing, unless `zero`."""
        return self._computed(key, ExpressionKind.DURATION) or self.section.duration(key, zero=zero)

    def instant(self, key: str) -> Amount | None:
        """A moment in microseconds since 1970."""
        return self._computed(key, ExpressionKind.INSTANT) or self.section.instant(key)

    def count(self, key: str, low: int, high: int) -> Amount | None:
        """A whole number from `low` to `high`."""
        return self._computed(key, ExpressionKind.COUNT) or self.section.integer(key, low, high)

    def tolerance(self, key: str) -> Tolerance | Expression | None:
        """How much may fail: a number of things, or `5%` of them."""
        computed = self._computed(key, ExpressionKind.TOLERANCE)
        tree = self.text(key)
        if computed is not None or tree is None:
            return computed
        if isinstance(tree, Scalar) and type(tree.value) is int:
            count = self.section.integer(key, 0, ITEMS_MAX)
            return None if count is None else Tolerance(count)
        expected = "a whole number, or a share like `5%`"
        cure = "write `0` for none, a number, or a share in whole percent like `5%`"
        if not isinstance(tree, Scalar) or not isinstance(tree.value, str):
            self.section.wrong_type(key, tree, expected, cure)
            return None
        share = _PERCENT.fullmatch(tree.value)
        if share is None or int(share[1]) > 100:
            self.section.bad_value(key, tree, expected, cure)
            return None
        return Tolerance(int(share[1]), percent=True)

    def _computed(self, key: str, kind: ExpressionKind) -> Expression | None:
        tree = self.text(key)
        if not isinstance(tree, Scalar) or not isinstance(tree.value, str):
            return None
        if not has_template(tree.value):
            return None
        return self.expressions.computed(tree, kind, self._where(key), self.owner, key)

    def _where(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key
