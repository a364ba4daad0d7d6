"""The errors of the engine, as one tree. A failing task is not one of them: it is a `Failure`, data in an event.

TenutoError
├── InvalidDefinition   findings, all at once
├── InvalidInput        one request's data
├── NotFound
├── Denied              nobody that may do this: no token, a wrong one, one for something else
├── Conflict            duplicate key with other content, wrong version, a database in use
├── Unavailable         database or peer not reachable, disk full, read-only: nothing was written
└── InvariantViolated   a bug of ours, never a user's fault
"""

from __future__ import annotations

from collections.abc import Sequence


class TenutoError(Exception):
    """Root of the tree. `exit_code` is the CLI's (DESIGN section 7)."""

    exit_code = 1


class InvalidDefinition(TenutoError):
    """A definition has errors. `findings` are `dsl.findings.Finding`s, in document order."""

    exit_code = 2

    def __init__(self, findings: Sequence[object]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))


class InvalidInput(TenutoError):
    """One request's data is wrong. `path` names the place in it, e.g. `input.amount`.

    `problems`: a line for each thing that is wrong, with its place; `path` is that of the first.
    """

    exit_code = 2

    def __init__(self, message: str, *, path: str = "", more: Sequence[str] = ()) -> None:
        self.path = path
        self.problems = (f"{path}: {message}" if path else message, *more)
        super().__init__("\n".join(self.problems))


_NAME_MAX = 300
_NAME_SHOWN = 100


class NotFound(TenutoError):
    """No such thing. `kind` is the word for it, `name` what was asked for; an endless one is not repeated."""

    exit_code = 3

    def __init__(self, kind: str, name: str, hint: str = "") -> None:
        self.kind, self.name = kind, name
        shown = name if len(name) <= _NAME_MAX else f"{name[:_NAME_SHOWN]}…"
        super().__init__(f"no {kind} {shown!r}" + (f"; {hint}" if hint else ""))


class Denied(TenutoError):
    """Who asks may not. `known`: it is known who asks (403), else not even that (401)."""

    exit_code = 5

    def __init__(self, message: str, *, known: bool = False) -> None:
        self.known = known
        super().__init__(message)


class Conflict(TenutoError):
    """The request contradicts what is stored or what another process holds."""

    exit_code = 4


class Unavailable(TenutoError):
    """The store cannot be used just now; nothing was written. Safe to try again once the cause is gone."""

    exit_code = 6


class InvariantViolated(TenutoError):
    """The engine contradicts itself: a bug of ours. Nothing was written."""

    exit_code = 70
