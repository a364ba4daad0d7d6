"""Time, names and chance, handed in. Nothing else in the engine asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tenuto.model.ids import LeaseId, MessageId, RunId, WorkerId


class Clock(Protocol):
    """The store's time."""

    def now(self) -> int:
        """Microseconds since 1970, never running backwards within a process."""
        ...


class Alarm(Protocol):
    """A call to come."""

    def when(self) -> float: ...
    def cancel(self) -> None: ...


class Alarms(Protocol):
    """Seconds that only go forward, and calls at a moment of them. An asyncio loop is one, on the monotonic clock."""

    def time(self) -> float: ...
    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Alarm: ...


class Ids(Protocol):
    """Fresh names. Run ids are UUIDv7 that take their time from `at`, monotonic within the process."""

    def run_id(self, at: int) -> RunId: ...
    def lease_id(self) -> LeaseId: ...
    def message_id(self) -> MessageId: ...
    def worker_id(self, name: str) -> WorkerId: ...


class Dice(Protocol):
    """Chance as a number."""

    def draw(self) -> float:
        """Uniform in [0, 1)."""
        ...
