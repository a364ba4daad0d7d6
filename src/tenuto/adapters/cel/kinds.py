"""What a value must be where a name, a time, a number or a list is needed (SEMANTICS X1), and what it yields then.

Values come from templates that were filled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from tenuto.adapters.cel.context import kind_of
from tenuto.adapters.cel.template import Unfit
from tenuto.model.definition import ITEMS_MAX, PRIORITY_MAX
from tenuto.model.expressions import ExpressionKind, Named, Number, Page
from tenuto.model.instants import DURATION_MAX_US, format_duration, parse_duration, parse_instant
from tenuto.model.names import ADDRESS_MAX, EVENT_NAME, NAME, TASK_NAME

NAME_MAX = 300
"""Characters of a computed name."""
NAME_SHOWN = 40
"""Characters of a bad one that its error shows."""
EVENT_FAILED = "event_failed"
"""Code of a failed wait whose event names none."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_PERCENT = re.compile(r"([0-9]{1,3})%")
_NO_NAME = re.compile(r"[\x00-\x1f\x7f]")
_NAMES: Final = {
    "queue": (NAME, "of a queue: 1 to 100 letters, digits and _.-"),
    "task": (TASK_NAME, "of a task: 1 to 200 letters, digits and _.:/-, not http or code"),
    "event": (EVENT_NAME, "of an event: 1 to 200 characters, none of control"),
}
"""What may be computed under a key of a node: no worker and no message has any other name."""


def number_of(kind: ExpressionKind, value: object, key: str = "") -> Number:
    """The number that a DURATION, INSTANT, COUNT or TOLERANCE stands for under a key of a node. Raises Unfit."""
    match kind:
        case ExpressionKind.DURATION:
            return Number(_duration(value))
        case ExpressionKind.INSTANT:
            return Number(_instant(value))
        case ExpressionKind.COUNT:
            count = _count(value)
            if key == "priority" and count > PRIORITY_MAX:
                raise Unfit(f"the priority is {count}: 0 to {PRIORITY_MAX} are needed")
            return Number(count)
        case _:
            return _tolerance(value)


def name_of(value: object, key: str = "") -> Named:
    """The name that a NAME stands for under a key of a node. Raises Unfit."""
    if not isinstance(value, str):
        raise Unfit(f"the name is {kind_of(value)}: a string is needed")
    if not value or len(value) > NAME_MAX or _NO_NAME.search(value):
        shown = value if len(value) <= NAME_SHOWN else f"{value[:NAME_SHOWN]}…"
        raise Unfit(f"{shown!r} is no name: 1 to {NAME_MAX} characters are, none of control")
    pattern, allowed = _NAMES.get(key, (None, ""))
    if pattern is not None and not pattern.fullmatch(value):
        shown = value if len(value) <= NAME_SHOWN else f"{value[:NAME_SHOWN]}…"
        raise Unfit(f"{shown!r} is no name {allowed}")
    return Named(value)


def key_of(value: object) -> str:
    """The plain text of a KEY. Raises Unfit."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, int) and not isinstance(value, bool):
        text = str(value)
    else:
        raise Unfit(f"the key is {kind_of(value)}: a string or an integer is needed")
    if "\0" in text:
        raise Unfit("the key holds a NUL character")
    if len(text) > ADDRESS_MAX:
        raise Unfit(f"the key has {len(text):,} characters; the limit is {ADDRESS_MAX}")
    return text


def list_of(value: object) -> list[object]:
    """The list of an ITEMS. Raises Unfit."""
    if not isinstance(value, list):
        raise Unfit(f"the expression gave {kind_of(value)}, not a list")
    if len(value) > ITEMS_MAX:
        raise Unfit(f"the list has {len(value):,} items: at most {ITEMS_MAX:,} are allowed")
    return value


def page_of(value: object) -> Page:
    """What a page of a list says. Raises Unfit."""
    if not isinstance(value, dict) or not isinstance(value.get("items"), list):
        what = "has no list `items`" if isinstance(value, dict) else f"is {kind_of(value)}"
        raise Unfit(f'the page {what}: return {{"items": […], "next": a cursor or null}}')
    return Page(len(value["items"]), value.get("next") is not None)


def event_error(event: object, node: str) -> dict[str, object]:
    """The error value that `event.error` stands for, where `fail_when` held."""
    told = event.get("error") if isinstance(event, dict) else None
    code, message, details = EVENT_FAILED, "", event if told is None else told
    if isinstance(told, str):
        message, details = told, None
    elif isinstance(told, dict):
        code = told["code"] if isinstance(told.get("code"), str) and told["code"] else code
        message = told["message"] if isinstance(told.get("message"), str) else message
    return {"code": code, "message": message, "kind": "task", "details": details, "node": node}


def _parsed(parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise Unfit(str(error)) from error


def _duration(value: object) -> int:
    if isinstance(value, timedelta):
        us = value // _MICROSECOND
        if us > DURATION_MAX_US:
            raise Unfit("the duration is longer than the limit of 3660d")
    elif isinstance(value, str):
        us = _parsed(parse_duration, value)
    else:
        raise Unfit(f"the duration is {kind_of(value)}: write a text like 1h30m, or duration(…)")
    if us <= 0:
        raise Unfit(f"the duration must be longer than 0ms, and is {_shown_duration(us)}")
    return us


def _shown_duration(us: int) -> str:
    return "0ms" if us == 0 else f"-{format_duration(-us)}"


def _instant(value: object) -> int:
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // _MICROSECOND
    if isinstance(value, str):
        return _parsed(parse_instant, value)
    raise Unfit(
        f"the time is {kind_of(value)}: write one like 2026-12-24T18:00:00+01:00, or timestamp(…)"
    )


def _count(value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unfit(f"the number is {kind_of(value)}: a whole number is needed")
    if value < 0:
        raise Unfit(f"the number is {value}, below 0")
    return value


def _tolerance(value: object) -> Number:
    if not isinstance(value, str):
        return Number(_count(value))
    found = _PERCENT.fullmatch(value)
    if found is None or int(found[1]) > 100:
        raise Unfit(f"{value!r} is no tolerance: write a whole number, or a text like 5%")
    return Number(int(found[1]), percent=True)
