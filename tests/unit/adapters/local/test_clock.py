"""The machine's clock."""

from __future__ import annotations

import time

import pytest

from tenuto.adapters.local.clock import SystemClock


def test_it_tells_microseconds_since_1970() -> None:
    before = time.time_ns() // 1_000

    assert before <= SystemClock().now() <= time.time_ns() // 1_000


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What the system's two clocks say, in microseconds."""
    said = {"wall": 0, "monotonic": 0}
    monkeypatch.setattr(time, "time_ns", lambda: said["wall"] * 1_000)
    monkeypatch.setattr(time, "monotonic_ns", lambda: said["monotonic"] * 1_000)
    return said


def test_it_follows_the_system_clock_forwards(readings: dict[str, int]) -> None:
    clock = SystemClock()
    told = []
    for wall, monotonic in [(5_000, 10), (5_001, 11), (9_000_000, 12), (9_000_002, 14)]:
        readings |= {"wall": wall, "monotonic": monotonic}
        told.append(clock.now())

    assert told == [5_000, 5_001, 9_000_000, 9_000_002]


def test_it_runs_at_half_speed_while_the_system_clock_lies_behind(
    readings: dict[str, int],
) -> None:
    clock = SystemClock()
    told = []
    for wall, monotonic in [
        (5_000, 10),  # set back by 2,000 after this
        (3_001, 11),
        (3_002, 12),
        (3_003, 13),
        (4_002, 1_012),
        (8_000, 5_010),
        (8_001, 5_011),
    ]:
        readings |= {"wall": wall, "monotonic": monotonic}
        told.append(clock.now())

    assert told == [5_000, 5_000, 5_001, 5_001, 5_501, 8_000, 8_001]
