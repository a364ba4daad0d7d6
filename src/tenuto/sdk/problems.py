"""From a server's answer that is no success to the error of `model.errors` that the engine itself would have raised.

Reads RFC 9457 problems (`code` decides) and what stands between client and server. Asks nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from tenuto.dsl.findings import Finding, Severity
from tenuto.model.errors import (
    Conflict,
    Denied,
    InvalidDefinition,
    InvalidInput,
    NotFound,
    TenutoError,
    Unavailable,
)
from tenuto.ports.database import AWAY

_E = TypeVar("_E", bound=TenutoError)
_MISSING = re.compile(r"no (?P<kind>[a-z ]+) '(?P<name>.*?)'(?:; (?P<hint>.*))?", re.DOTALL)
_INPUT = frozenset(
    {"invalid_input", "bad_request", "payload_too_large", "unsupported_media_type"},
)
_REFUSED = frozenset({"forbidden_host", "forbidden_origin"})
_SHOWN_MAX = 200
START = "start a server with `tenuto dev` (`tenuto server` for a cluster), or name another"


def problem_of(status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any] | None:
    """The problem document of an answer, None where it is none of a Tenuto server's."""
    if status < 400 or "json" not in headers.get("content-type", ""):
        return None
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) and "code" in document else None


def error_of(problem: Mapping[str, Any], url: str) -> TenutoError:
    """The error that a problem stands for, with the server's own words."""
    code, detail = str(problem["code"]), _detail(problem)
    if code == "invalid_definition":
        return InvalidDefinition(list(read_findings(problem.get("findings"))) or [detail])
    if code in _INPUT:
        path, lines = str(problem.get("path") or ""), problem.get("problems")
        first, *more = lines if isinstance(lines, list) and lines else [detail]
        first = str(first).removeprefix(f"{path}: ") if path else str(first)
        return InvalidInput(first, path=path, more=[str(each) for each in more])
    if code == "not_found":
        return _missing(detail)
    if code in ("unauthenticated", "forbidden"):
        return Denied(f"{url}: {detail}", known=code == "forbidden")
    if code == "conflict":
        return Conflict(detail)
    if code == "unavailable":
        if detail.startswith(AWAY):
            why, after = detail.removeprefix(AWAY).partition("\n")[0], "it goes on by itself"
            return Unavailable(f"{url} has lost its database: {why}; {after} when that is back")
        return Unavailable(detail)
    if code == "rate_limited":
        return Unavailable(f"{url} is asked too much: {detail}")
    if code in _REFUSED:
        return Unavailable(f"{url} refuses this client: {detail}")
    if code == "internal":
        return Unavailable(f"{url} failed inside, its log says why: {detail}")
    return Unavailable(f"{url} answered {problem.get('status', '')} {code}: {detail}")


def read_findings(documents: object) -> Iterator[Finding]:
    """Findings as the engine has them."""
    for each in documents if isinstance(documents, list) else ():
        if isinstance(each, dict):
            yield Finding(
                code=str(each.get("code", "")),
                severity=Severity.WARNING if each.get("severity") == "warning" else Severity.ERROR,
                file=str(each.get("file", "")),
                line=_number(each.get("line")),
                column=_number(each.get("column")),
                text=str(each.get("text", "")),
                message=str(each.get("message", "")),
                hint=str(each.get("hint") or ""),
            )


def strange(status: int, headers: Mapping[str, str], url: str) -> Unavailable:
    """For an answer that no Tenuto server gives: something else listens there, or stands between."""
    if 300 <= status < 400 and "location" in headers:
        to = headers["location"][:_SHOWN_MAX]
        return Unavailable(f"{url} answers with a redirect to {to}; give that server's own address")
    return Unavailable(
        f"what answers at {url} is no Tenuto server (status {status}); check the address, or {START}"
    )


def _detail(problem: Mapping[str, Any]) -> str:
    detail = str(problem.get("detail") or problem.get("title") or problem["code"])
    hint = str(problem.get("hint") or "")
    return detail if not hint or hint in detail else f"{detail}; {hint}"


def _missing(detail: str) -> NotFound:
    found = _MISSING.fullmatch(detail)
    if found is None:
        return _worded(NotFound("", ""), detail)
    error = NotFound(found["kind"], found["name"], found["hint"] or "")
    return _worded(error, detail)


def _worded(error: _E, words: str) -> _E:
    """The same error in the server's words: its constructor would add its own."""
    error.args = (words,)
    return error


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
