"""Errors as answers: RFC 9457 problems with stable codes. One table of codes; no route is known here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import orjson
from starlette.responses import Response

from tenuto.dsl.findings import Finding
from tenuto.model.errors import (
    Conflict,
    Denied,
    InvalidDefinition,
    InvalidInput,
    NotFound,
    TenutoError,
    Unavailable,
)
from tenuto.runtime.results import Refused

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
SHOWN_MAX = 80
"""Characters that an answer repeats of a name that is wrong."""

Document = dict[str, object]


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the table: a stable code, its status, and what it says in general."""

    code: str
    status: int
    title: str


KINDS: Mapping[str, Kind] = {
    kind.code: kind
    for kind in (
        Kind("bad_request", 400, "The request cannot be read"),
        Kind("unauthenticated", 401, "It is not known who asks"),
        Kind("forbidden", 403, "Who asks may not do this"),
        Kind("forbidden_host", 403, "This name is none of the server's"),
        Kind("forbidden_origin", 403, "Another site may not ask for this"),
        Kind("not_found", 404, "There is no such thing"),
        Kind("method_not_allowed", 405, "The address does not take this method"),
        Kind("conflict", 409, "The request contradicts what is stored"),
        Kind("payload_too_large", 413, "The body is too large"),
        Kind("unsupported_media_type", 415, "The body is of a kind that is not read here"),
        Kind("invalid_input", 422, "The request's data is wrong"),
        Kind("invalid_definition", 422, "The definition has errors"),
        Kind("rate_limited", 429, "Too many requests"),
        Kind("internal", 500, "A bug in tenuto"),
        Kind("unavailable", 503, "It cannot be done just now, and nothing was written"),
    )
}


class Problem(TenutoError):
    """A request that is answered by a problem. `more` are members beyond those that every problem has."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: object,
    ) -> None:
        self.kind = KINDS[code]
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = {name: value for name, value in more.items() if value not in (None, "", [])}
        super().__init__(detail)

    def document(self) -> Document:
        """As RFC 9457 has it, and `code`."""
        return {
            "type": f"/docs#{self.kind.code}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "code": self.kind.code,
            **self.more,
        }

    def response(self) -> Response:
        """The answer."""
        return Response(
            orjson.dumps(self.document()),
            status_code=self.kind.status,
            media_type=MEDIA_TYPE,
            headers=self.headers,
        )


def problem_of(error: TenutoError) -> Problem | None:
    """The problem that an error of the engine's is; None for one that is a bug of ours."""
    match error:
        case Problem():
            return error
        case InvalidDefinition():
            return invalid_definition(error.findings)
        case InvalidInput():
            lines = list(error.problems) if len(error.problems) > 1 else []
            return Problem("invalid_input", str(error), path=error.path, problems=lines)
        case Refused():
            return Problem("invalid_input", error.message)
        case NotFound():
            return Problem("not_found", str(error))
        case Conflict():
            return Problem("conflict", str(error))
        case Denied(known=True):
            return Problem("forbidden", str(error))
        case Denied():
            return Problem("unauthenticated", str(error), headers={"WWW-Authenticate": "Bearer"})
        case Unavailable():
            return Problem("unavailable", str(error), headers={"Retry-After": str(RETRY_AFTER_S)})
        case _:
            return None


def invalid_definition(findings: Sequence[object]) -> Problem:
    """All that is wrong with a definition."""
    shown = [each.as_dict() for each in findings if isinstance(each, Finding)]
    errors = [each for each in shown if each["severity"] == "error"]
    first = errors[0] if errors else {"line": 0, "column": 0, "message": "it has errors"}
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    detail = f"{first['line']}:{first['column']}: {first['message']}{more}"
    return Problem("invalid_definition", detail, findings=shown)


def meant(wrong: str, known: Sequence[str]) -> str:
    """A hint that names what was probably meant, or what there is. Of a very long word only the beginning counts."""
    close = get_close_matches(wrong[:SHOWN_MAX], known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(known)}" if known else "there are none"
