"""The machine's clock."""

from __future__ import annotations

import time

import pytest

from tenuto.adapters.local.clock import SystemClock


def test_it_tells_microseconds_since_1970() -> None:
    before = time.time_ns() // 1_000

    assert before <= SystemClock().now() <= time.time_ns() // 1_000


def test_it_never_runs_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([5_000_000, 3_000_000, 6_000_000])
    monkeypatch.setattr(time, "time_ns", lambda: next(readings))
    clock = SystemClock()

    assert [clock.now() for _ in range(3)] == [5_000, 5_000, 6_000]
