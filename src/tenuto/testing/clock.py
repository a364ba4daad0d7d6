"""A clock that stands still until somebody turns it, and alarms on it. Never looks at the machine's own clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tenuto.model.errors import InvalidInput
from tenuto.model.instants import (
    DURATION_MAX_US,
    SECOND_US,
    parse_duration,
    parse_instant,
)

WITHIN = "30d"
"""How far the clock is turned at most where a test names no bound."""
_NEVER_S = 100 * DURATION_MAX_US / SECOND_US
"""What lies farther ahead is not waited for."""


class HandClock:
    """The store's time, microseconds since 1970. Read in any thread, turned on the engine's loop."""

    def __init__(self, at: int) -> None:
        self._now = at

    def now(self) -> int:
        return self._now

    def turn(self, to: int) -> None:
        """Go forward to this moment; never back."""
        self._now = max(self._now, to)


class HandAlarm:
    """A call to come."""

    __slots__ = ("_call", "_when", "cancelled")

    def __init__(self, when: float, call: Callable[[], object]) -> None:
        self._when, self._call, self.cancelled = when, call, False

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        self.cancelled = True

    def ring(self) -> None:
        """Make the call."""
        self._call()


class HandAlarms:
    """Seconds of a `HandClock`, counted from its start so that no microsecond is rounded away."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self._start = clock.now()
        self._alarms: list[HandAlarm] = []

    def time(self) -> float:
        return (self._clock.now() - self._start) / SECOND_US

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> HandAlarm:
        alarm = HandAlarm(when, lambda: callback(*args))
        self._alarms.append(alarm)
        return alarm

    def next(self) -> int | None:
        """The moment of the earliest one, microseconds since 1970."""
        self._alarms = [alarm for alarm in self._alarms if not alarm.cancelled]
        whens = [alarm.when() for alarm in self._alarms if alarm.when() < _NEVER_S]
        return self._start + round(min(whens) * SECOND_US) if whens else None

    def ring(self) -> None:
        """Make the calls whose moment has come, the earliest first."""
        now = self._clock.now()
        while (at := self.next()) is not None and at <= now:
            alarm = min(self._alarms, key=HandAlarm.when)
            self._alarms.remove(alarm)
            alarm.ring()


def datetime_of(at: int) -> datetime:
    """An instant in microseconds as Python has it, in UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)


def duration_of(text: object) -> int:
    """Microseconds of `2d`, `1h30m` or a timedelta. Raises InvalidInput."""
    if isinstance(text, timedelta):
        length = text // timedelta(microseconds=1)
        if length < 0:
            raise InvalidInput(f"the clock only goes forward; {text!r} would turn it back")
        return length
    if not isinstance(text, str):
        raise InvalidInput(f"{text!r} is no duration; write it like '500ms', '10s', '1h30m', '2d'")
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidInput(str(error)) from None


def instant_of(text: object) -> int:
    """Microseconds since 1970 of an RFC 3339 text or an aware datetime. Raises InvalidInput."""
    if isinstance(text, datetime):
        text = text.isoformat()
    if not isinstance(text, str):
        raise InvalidInput(f"{text!r} is no time; write it like '2026-01-01T00:00:00Z'")
    try:
        return parse_instant(text)
    except ValueError as error:
        raise InvalidInput(str(error)) from None
