"""Bodies of requests: bytes -> JSON value -> model, or the problem with its place and its cure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import orjson
from fastapi import Request
from pydantic import BaseModel, ValidationError

from tenuto.api.problems import SHOWN_MAX, Problem, meant
from tenuto.runtime.results import Refused, parse

JSON = "application/json"
YAML = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")

M = TypeVar("M", bound=BaseModel)

_WANTED = {
    "string": "must be text",
    "int": "must be a whole number",
    "float": "must be a number",
    "bool": "must be true or false",
    "dict": "must be an object",
    "list": "must be a list",
}
"""By the beginning of the kinds of pydantic's errors about a type."""


def media_type(request: Request) -> str:
    """Without its parameters, in lower case; empty if the request names none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request, model: type[M], *, may_be_empty: bool = False) -> M:
    """The body as `model`.

    Raises:
        Problem: unsupported_media_type, bad_request (no JSON), invalid_input (not of the shape).
    """
    data = await request.body()
    kind = media_type(request)
    if may_be_empty and not data and kind in ("", JSON):
        return check(model, {})
    if kind != JSON:
        raise unsupported(kind, JSON)
    if not data:
        raise Problem("bad_request", "the body is empty; send a JSON object")
    return check(model, read_json(data))


def unsupported(kind: str, *known: str) -> Problem:
    """The body is of a type that this route does not take."""
    said = f"the body is {kind!r}" if kind else "the request has no Content-Type"
    return Problem("unsupported_media_type", f"{said}; send {' or '.join(known)}")


def read_json(data: bytes) -> object:
    """Read JSON strictly. Raises Problem: bad_request, with line and column."""
    try:
        return parse(data, name="the body")
    except Refused as error:
        cause = error.__cause__
        if isinstance(cause, orjson.JSONDecodeError):
            reason = cause.msg.partition(":")[0]
            raise Problem(
                "bad_request",
                f"the body is no JSON: line {cause.lineno} column {cause.colno}: {reason}",
            ) from None
        raise Problem("bad_request", error.message) from None


def check(model: type[M], value: object) -> M:
    """The value as `model`. Raises Problem: invalid_input."""
    if not isinstance(value, dict):
        raise Problem("invalid_input", "the body must be a JSON object", path="body")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise first_problem(error.errors(include_url=False), _names(model)) from None


def _names(model: type[BaseModel]) -> list[str]:
    """Of its fields, as they stand in a body."""
    return [field.alias or name for name, field in model.model_fields.items()]


def first_problem(errors: Sequence[Mapping[str, Any]], known: Sequence[str]) -> Problem:
    """The first of pydantic's errors in our words; unknown names before the names that are then missing."""
    error = min(errors, key=lambda each: each["type"] != "extra_forbidden")
    place = list(error["loc"])
    if place and place[0] in ("query", "path", "header"):
        place = place[1:2]
    path = ".".join(str(part)[:SHOWN_MAX] for part in place) or "body"
    match error["type"]:
        case "extra_forbidden":
            hint = meant(str(place[-1]), known)
            message = f"{path}: there is no such field; {hint}"
            return Problem("invalid_input", message, path=path, hint=hint)
        case "missing":
            return Problem("invalid_input", f"{path}: is missing; add it", path=path)
        case "literal_error" | "enum":
            message = f"there is no {error['input']!r:.80}; there are {error['ctx']['expected']}"
        case "string_too_short":
            message = "is empty"
        case "string_too_long":
            message = f"is too long; the limit is {error['ctx']['max_length']:,} characters"
        case kind if kind.endswith(("_type", "_parsing", "_from_float")):
            message = _WANTED.get(kind.partition("_")[0], str(error["msg"]))
        case _:
            message = str(error["msg"])
            message = message[:1].lower() + message[1:]
            message = message.replace("input should be", "must be")
    return Problem("invalid_input", f"{path}: {message}", path=path)
