"""Typed reading of one mapping of a definition: every wrong key and value becomes a finding, never an exception.

All values here are fixed ones; where an expression may stand instead, `values` reads.

A reader that cannot give the value answers None, as if the key were absent; the finding says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tenuto.dsl.findings import Findings, did_you_mean
from tenuto.dsl.synonyms import duration_hint, spell_seconds, word_for
from tenuto.dsl.templates import has_template
from tenuto.dsl.yaml import Fields, Items, Scalar, Tree, kind_of
from tenuto.model.instants import parse_duration, parse_instant


class Section:
    """One mapping. `what` names it in messages: `a switch`, `the workflow`."""

    def __init__(self, tree: Fields, findings: Findings, what: str, *, at: int, name: str) -> None:
        self.tree = tree
        self.what = what
        self.findings = findings
        self._at, self._name = at, name

    def with_tree(self, tree: Fields) -> Section:
        """The same place with other entries."""
        return Section(tree, self.findings, self.what, at=self._at, name=self._name)

    def has(self, key: str) -> bool:
        """Whether the key stands there."""
        return key in self.tree.entries

    def check_keys(
        self,
        allowed: Iterable[str],
        *,
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        """Refuse keys that are not allowed here; `x-…` is free. `elsewhere`: keys of other places -> the hint."""
        known = tuple(allowed)
        for name, (key, _) in self.tree.entries.items():
            if name in known or name.startswith("x-"):
                continue
            if elsewhere and name in elsewhere:
                self.refuse(name, elsewhere[name])
            else:
                cure = did_you_mean(
                    word_for(name, known) or self.findings.suggest(name, known),
                    f"take it out, or call it `x-{name}`",
                )
                self.findings.add("unknown_key", key.start, name, what=self.what, cure=cure)

    def refuse(self, key: str, cure: str, what: str | None = None) -> None:
        """Record a key that has no meaning here, if it stands here. `what`: the mapping, said more closely."""
        if key in self.tree.entries:
            at, what = self.start_of(key), what or self.what
            self.findings.add("key_not_allowed", at, key, what=what, cure=cure)

    def require(self, key: str, cure: str) -> Tree | None:
        """The value under a key that must be there."""
        tree = self.tree.get(key)
        if tree is None:
            self.findings.add(
                "missing_key", self._at, self._name, what=self.what, key=key, cure=cure
            )
        return tree

    def text(
        self, key: str, expected: str = "text", *, pattern: re.Pattern[str] | None = None, cure: str
    ) -> str | None:
        """A text; where `pattern` is given it must match whole."""
        tree = self._scalar(key, expected, cure)
        if tree is None:
            return None
        if not isinstance(tree.value, str):
            self.wrong_type(key, tree, expected, cure)
            return None
        if pattern is not None and not pattern.fullmatch(tree.value):
            self.bad_value(key, tree, expected, cure)
            return None
        return tree.value

    def choice(self, key: str, options: Sequence[str]) -> str | None:
        """One of a few words."""
        *others, last = (f"`{option}`" for option in options)
        expected = f"{', '.join(others)} or {last}" if others else last
        tree = self._scalar(key, expected, f"write {expected}")
        if tree is None:
            return None
        if tree.value not in options:
            meant = self.findings.suggest(str(tree.value), options)
            self.bad_value(key, tree, expected, did_you_mean(meant, f"write {expected}"))
            return None
        return str(tree.value)

    def flag(self, key: str) -> bool | None:
        """True or false."""
        tree = self._scalar(key, "true or false", "write true or false")
        if tree is None:
            return None
        if not isinstance(tree.value, bool):
            self.wrong_type(key, tree, "true or false", "write true or false")
            return None
        return tree.value

    def integer(self, key: str, low: int, high: int) -> int | None:
        """A whole number from `low` to `high`."""
        expected = f"a whole number from {low:,} to {high:,}"
        tree = self.tree.get(key)
        if isinstance(tree, Scalar) and isinstance(tree.value, float):
            self.wrong_type(key, tree, expected, f"write {expected}")
            return None
        value = self.number(key, low, high, expected)
        assert not isinstance(value, float)
        return value

    def number(
        self, key: str, low: float, high: float, expected: str | None = None
    ) -> int | float | None:
        """A number from `low` to `high`."""
        expected = expected or f"a number from {low:g} to {high:g}"
        cure = f"write {expected}"
        tree = self._scalar(key, expected, cure)
        if tree is None:
            return None
        if isinstance(tree.value, bool) or not isinstance(tree.value, int | float):
            self.wrong_type(key, tree, expected, cure)
            return None
        if not low <= tree.value <= high:
            self.bad_value(key, tree, expected, cure)
            return None
        return tree.value

    def duration(self, key: str, *, zero: bool = False) -> int | None:
        """A duration in microseconds; above nothing, unless `zero`."""
        tree = self._scalar(key, "a duration", "write it like `10s`")
        if tree is None:
            return None
        if not isinstance(tree.value, str):
            number = tree.value
            cure = "`10s`"
            if type(number) in (int, float) and (said := spell_seconds(str(number))):
                cure = f"`{said}`"
            self.findings.add(
                "duration_type",
                tree.start,
                self.raw(tree),
                key=key,
                actual=kind_of(tree),
                cure=cure,
            )
            return None
        try:
            value = parse_duration(tree.value)
        except ValueError as error:
            problem, _, _ = str(error).partition(";")
            cure = duration_hint(tree.value)
            self.findings.add("bad_duration", tree.start, tree.value, problem=problem, cure=cure)
            return None
        if value == 0 and not zero:
            self.bad_value(key, tree, "longer than nothing", "leave it out for no limit")
            return None
        return value

    def instant(self, key: str) -> int | None:
        """A moment in microseconds since the epoch."""
        tree = self._scalar(key, "a moment", "write it like `2026-12-24T18:00:00+01:00`")
        if tree is None:
            return None
        try:
            return parse_instant(str(tree.value) if isinstance(tree.value, str) else self.raw(tree))
        except (ValueError, OverflowError) as error:
            problem, _, _ = str(error).partition(";")
            self.findings.add("bad_instant", tree.start, self.raw(tree), problem=problem)
            return None

    def section(self, key: str, what: str, cure: str) -> Section | None:
        """The mapping under a key."""
        entry = self.tree.entries.get(key)
        if entry is None:
            return None
        if not isinstance(entry[1], Fields):
            self.wrong_type(key, entry[1], "a mapping", cure)
            return None
        return Section(entry[1], self.findings, what, at=entry[0].start, name=key)

    def items(self, key: str, cure: str) -> Items | None:
        """The list under a key."""
        tree = self.tree.get(key)
        if tree is not None and not isinstance(tree, Items):
            self.wrong_type(key, tree, "a list", cure)
            return None
        return tree

    def start_of(self, key: str) -> int:
        """Where a key stands."""
        return self.tree.entries[key][0].start

    def raw(self, tree: Tree) -> str:
        """What stands in the file."""
        return self.findings.text[tree.start : tree.end]

    def wrong_type(self, key: str, tree: Tree, expected: str, cure: str) -> None:
        """Record a value of the wrong kind."""
        self.findings.add(
            "wrong_type",
            self._place(key, tree),
            self.raw(tree) or key,
            key=key,
            actual=kind_of(tree),
            expected=expected,
            cure=cure,
        )

    def bad_value(self, key: str, tree: Tree, expected: str, cure: str) -> None:
        """Record a value of the right kind that is not one of those that may stand here."""
        raw = self.raw(tree)
        self.findings.add("bad_value", tree.start, raw, key=key, expected=expected, cure=cure)

    def _scalar(self, key: str, expected: str, cure: str) -> Scalar | None:
        """The single value under a key, without `${…}`: where that may stand, `values` has looked before (X1)."""
        tree = self.tree.get(key)
        if tree is None:
            return None
        if not isinstance(tree, Scalar) or tree.value is None:
            self.wrong_type(key, tree, expected, cure)
            return None
        if isinstance(tree.value, str) and has_template(tree.value):
            cure = f"write {expected}"
            self.findings.add("template_not_allowed", tree.start, tree.value, key=key, cure=cure)
            return None
        return tree

    def _place(self, key: str, tree: Tree) -> int:
        """An empty value stands nowhere: its key is shown instead."""
        empty = tree.start == tree.end and key in self.tree.entries
        return self.start_of(key) if empty else tree.start
