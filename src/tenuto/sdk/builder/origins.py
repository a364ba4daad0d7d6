"""Where in the user's program something was made, and findings that say so. Knows no nodes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from tenuto.dsl.findings import TEXT_MAX, Finding, Severity
from tenuto.model.errors import InvalidDefinition

_HERE = __name__.rpartition(".")[0] + "."


@dataclass(frozen=True, slots=True)
class Origin:
    """A place in a Python file; line and column count from 1."""

    file: str
    line: int
    column: int


def here() -> Origin:
    """The place outside of this package whose code is running."""
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_HERE):
        frame = frame.f_back
    if frame is None:
        return Origin("<python>", 1, 1)
    positions = islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    line, _, column, _ = next(positions, (None, None, None, None))
    return Origin(
        _shown(frame.f_code.co_filename),
        line or frame.f_lineno,
        1 if column is None else column + 1,
    )


def mistake(
    code: str, message: str, hint: str, *, text: str = "", at: Origin | None = None
) -> InvalidDefinition:
    """The error of one finding at a place, by default where the user's program is. `code` is one of the loader's."""
    at = at or here()
    finding = Finding(
        code=code,
        severity=Severity.ERROR,
        file=at.file,
        line=at.line,
        column=at.column,
        text=text[:TEXT_MAX],
        message=message,
        hint=hint,
    )
    return InvalidDefinition((finding,))


class MadeMap(dict[str, Any]):
    """A mapping of a definition's tree that knows where it was made; None: it was read from a text."""

    __slots__ = ("origin",)

    def __init__(self, tree: Mapping[str, Any], origin: Origin | None) -> None:
        super().__init__(tree)
        self.origin = origin


class MadeText(str):
    """A text of the tree that knows where it was made, such as an edge."""

    __slots__ = ("origin",)
    origin: Origin | None

    @classmethod
    def of(cls, text: str, origin: Origin | None) -> MadeText:
        """The same text, with its place."""
        made = cls(text)
        made.origin = origin
        return made


def origin_of(tree: object, around: Origin | None) -> Origin | None:
    """Where a part of a tree was made: where it says, else where what is around it was."""
    return tree.origin if isinstance(tree, MadeMap | MadeText) else around


@dataclass(frozen=True, slots=True)
class Places:
    """For each line of a definition's text the place that it comes from, None where nobody knows."""

    lines: tuple[Origin | None, ...]

    def moved(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """Findings at their places in Python; those of no known place stay in the text."""
        return tuple(map(self._moved, findings))

    def _moved(self, finding: Finding) -> Finding:
        at = self.lines[finding.line - 1] if finding.line <= len(self.lines) else None
        if at is None:
            return finding
        return replace(finding, file=at.file, line=at.line, column=at.column)


def _shown(file: str) -> str:
    """A path as its user would write it: from the working directory, if it lies below."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file
