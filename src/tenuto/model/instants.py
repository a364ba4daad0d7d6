"""Time as data: instants and durations are integer microseconds. No clock here.

Durations are written `(<int>(ms|s|m|h|d))+`, instants as RFC 3339 with an offset (SEMANTICS D).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US
DURATION_MAX_US = 3_660 * DAY_US
"""Ten years: longer is a mistake, and sums stay far from 64 bits."""

_UNITS = {"ms": 1_000, "s": SECOND_US, "m": MINUTE_US, "h": HOUR_US, "d": DAY_US}
_DURATION = re.compile(r"(?:[0-9]{1,15}(?:ms|s|m|h|d))+")
_PART = re.compile(r"([0-9]+)(ms|s|m|h|d)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str) -> int:
    """Read `1h30m` as microseconds.

    Raises:
        ValueError: not of the form, or longer than ten years; the message says which.
    """
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration; write it like 500ms, 10s, 1h30m or 2d")
    total = sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if total > DURATION_MAX_US:
        raise ValueError(f"{text!r} is longer than the limit of 3660d")
    return total


def format_duration(us: int) -> str:
    """Write microseconds for people, at most two units: `850µs`, `12ms`, `1.5s`, `2m05s`, `3h07m`, `2d04h`."""
    if us < 1_000:
        return f"{us}µs"
    if us < SECOND_US:
        return f"{us / 1_000:.3g}ms" if us < 10_000 else f"{us // 1_000}ms"
    if us < MINUTE_US:
        return f"{us / SECOND_US:.3g}s"
    if us < HOUR_US:
        return f"{us // MINUTE_US}m{us % MINUTE_US // SECOND_US:02d}s"
    if us < DAY_US:
        return f"{us // HOUR_US}h{us % HOUR_US // MINUTE_US:02d}m"
    return f"{us // DAY_US}d{us % DAY_US // HOUR_US:02d}h"


def write_duration(us: int) -> str:
    """Write whole milliseconds as a definition does, so that `parse_duration` reads the same: `1h30m`, `0s`."""
    parts = []
    for unit, size in sorted(_UNITS.items(), key=lambda each: -each[1]):
        number, us = divmod(us, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def format_remaining(us: int) -> str:
    """As `format_duration`, rounded up to the last unit shown: what has just begun to run out is whole."""
    for size, unit in ((DAY_US, HOUR_US), (HOUR_US, MINUTE_US), (MINUTE_US, SECOND_US)):
        up = -(-us // unit) * unit
        if up >= size:
            return format_duration(up)
    return format_duration(us)


def parse_instant(text: str) -> int:
    """Read RFC 3339 with an offset as microseconds since 1970.

    Raises:
        ValueError: not of the form, or without an offset.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not an RFC 3339 time; write it like 2026-12-24T18:00:00+01:00"
        ) from None
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset; add Z or one like +01:00")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def format_instant(at: int) -> str:
    """Write an instant as RFC 3339 in UTC with milliseconds."""
    return (
        (_EPOCH + timedelta(microseconds=at))
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
