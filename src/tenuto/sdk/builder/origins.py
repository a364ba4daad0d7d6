"""Where in the user's program something was made, and findings that say so. Knows no nodes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

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
