"""Keys of a definition as Python writes them: their types, and how their values become the definition's JSON."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, TypeAlias, TypedDict

from tenuto.sdk.builder.origins import mistake
from tenuto.sdk.builder.references import Json, Ref, cel, render

Duration: TypeAlias = str | dt.timedelta | Ref
"""`"1h30m"`, a timedelta of whole milliseconds, or what is computed."""
Name: TypeAlias = str | Ref
"""A name, or what computes it."""
Number: TypeAlias = int | str | Ref
"""A number, or what computes it: a reference, or text with `${…}`."""
Condition: TypeAlias = str | Ref
"""A bare expression in CEL, or a reference."""
Params: TypeAlias = Mapping[str, object] | str | Ref
"""Names and values, or what computes them all at once."""
Failures: TypeAlias = str | type[BaseException] | Sequence[str | type[BaseException]]
"""Codes such as `http.5xx`, exception classes or their names, or `*`."""
Language: TypeAlias = Literal["python", "javascript", "cpython"]

_CLOCKS = frozenset(
    {
        *("timeout", "total_timeout", "queue_timeout", "heartbeat_timeout", "closing_timeout"),
        *("initial", "max", "for", "keep"),
    }
)
_BARE = frozenset({"when", "match", "fail_when", "over"})
"""What stands under them is an expression, not a template."""
_HOLDERS = frozenset({"defaults", "retry"})
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
"""In milliseconds, the largest first."""


class Backoff(TypedDict, total=False):
    """How long to wait before the next try."""

    initial: Duration
    factor: float
    max: Duration
    jitter: Literal["none", "full", "equal"]


class RetryRule(Backoff, total=False):
    """One of `rules` of a `retry`: what to do about some failures."""

    on: Failures
    when: Condition
    max_attempts: Required[int]


class Retry(Backoff, total=False):
    """Keys of `retry`."""

    max_attempts: int
    rules: Sequence[RetryRule]
    give_up_on: Failures


class Defaults(TypedDict, total=False):
    """Keys of `defaults`, and of all that a worker does."""

    queue: Name
    priority: Number
    retry: Retry
    timeout: Duration
    total_timeout: Duration
    queue_timeout: Duration
    heartbeat_timeout: Duration


class ChildKeys(TypedDict, total=False):
    """Keys of what is done by a run of its own."""

    retry: Retry
    timeout: Duration
    total_timeout: Duration


class Request(TypedDict, total=False):
    """An http request; any value may hold references."""

    method: str
    url: Required[object]
    headers: Mapping[str, object]
    query: Mapping[str, object]
    json: object
    body: object
    form: Mapping[str, object]
    auth: Mapping[str, object]


def rendered(key: str, value: object, what: str) -> Json:
    """A key's value as JSON: durations, moments and conditions in the words of the definition. `what` names it."""
    if key in _BARE:
        return condition(value, key, what)
    if isinstance(value, dt.timedelta) and key in _CLOCKS:
        return _duration(value, what)
    if isinstance(value, dt.datetime) and key == "until":
        if value.tzinfo is None:
            cure = "give it a time zone: `datetime(…, tzinfo=UTC)`"
            raise mistake("bad_instant", f"`{what}` has no offset", cure, text=str(value))
        return value.isoformat()
    if key in _HOLDERS and isinstance(value, Mapping):
        return _parts(value, what)
    if key == "rules" and isinstance(value, list | tuple):
        places = [(f"{what}[{n}]", part) for n, part in enumerate(value)]
        return [
            _parts(part, place) if isinstance(part, Mapping) else render(part, place)
            for place, part in places
        ]
    if key in ("on", "give_up_on"):
        return _failures(value, what)
    return render(value, what)


def _parts(value: Mapping[Any, object], what: str) -> Json:
    return {
        str(name): rendered(str(name), part, f"{what}.{name}")
        for name, part in value.items()
        if part is not None
    }


def condition(given: object, key: str, what: str = "") -> str:
    """An expression that stands bare: text in CEL, or a reference. Raises InvalidDefinition."""
    if isinstance(given, Ref):
        return cel(given)
    if isinstance(given, str) and given.strip():
        return str(given)
    said = f"`{what}`" if what else f"{key}({given!r:.60})"
    if key == "over":
        cure = 'name the list: `over=wf.input.files`, or as text in CEL, like "[1, 2, 3]"'
        raise mistake("condition_type", f"{said} is no expression", cure)
    example = "event.ok" if key in ("match", "fail_when") else "nodes.score.output.risk > 50"
    raise mistake(
        "condition_type",
        f"{said} is no condition",
        f'write it as text in CEL, for example `.when("{example}")`'
        if key == "when"
        else f'write it as text in CEL, for example `{key}="{example}"`',
        text=f"{given!r:.60}",
    )


def _failures(value: object, what: str) -> Json:
    """Names of failures; classes by their names, as workers tell them."""
    if isinstance(value, list | tuple):
        return [_failures(part, f"{what}[{n}]") for n, part in enumerate(value)]
    if isinstance(value, type) and issubclass(value, BaseException):
        return value.__name__
    return render(value, what)


def _duration(value: dt.timedelta, what: str) -> str:
    left, rest = divmod(value, dt.timedelta(milliseconds=1))
    if left < 0 or rest:
        cure = "give whole milliseconds, not below 0"
        raise mistake("bad_duration", f"`{what}` cannot be {value}", cure, text=str(value))
    parts = []
    for unit, size in _UNITS.items():
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"
