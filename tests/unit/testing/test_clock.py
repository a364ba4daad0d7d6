"""The hand-turned clock and its alarms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenuto import InvalidInput
from tenuto.testing.clock import HandAlarms, HandClock, datetime_of, duration_of, instant_of

START = 1_767_225_600_000_000


def test_the_clock_stands_still_and_never_goes_back() -> None:
    clock = HandClock(START)
    assert clock.now() == START
    clock.turn(START + 5)
    clock.turn(START + 3)

    assert clock.now() == START + 5


def test_alarms_ring_in_the_order_of_their_moments_and_only_once() -> None:
    clock = HandClock(START)
    alarms = HandAlarms(clock)
    rung: list[str] = []
    alarms.call_at(2.0, rung.append, "second")
    alarms.call_at(1.0, rung.append, "first")
    alarms.call_at(9.0, rung.append, "later")
    clock.turn(START + 2_000_000)
    alarms.ring()
    alarms.ring()

    assert rung == ["first", "second"]
    assert alarms.next() == START + 9_000_000


def test_an_alarm_may_set_another_that_is_due_already() -> None:
    clock = HandClock(START)
    alarms = HandAlarms(clock)
    rung: list[float] = []
    alarms.call_at(1.0, lambda: alarms.call_at(1.5, lambda: rung.append(alarms.time())))
    clock.turn(START + 2_000_000)
    alarms.ring()

    assert rung == [2.0]


def test_a_cancelled_alarm_and_one_at_the_end_of_time_are_waited_for_by_nobody() -> None:
    alarms = HandAlarms(HandClock(START))
    alarms.call_at(1.0, list).cancel()
    alarms.call_at(1e13, list)

    assert alarms.next() is None


def test_no_microsecond_is_rounded_away() -> None:
    clock = HandClock(START)
    alarms = HandAlarms(clock)
    for us in (1, 333_333, 123_456_789_012_345):
        clock.turn(START + us)
        alarms.call_at(alarms.time() + 0.000_001, list)
        assert alarms.next() == START + us + 1
        clock.turn(START + us + 1)
        alarms.ring()


@pytest.mark.parametrize(
    ("given", "us"),
    [("2d", 172_800_000_000), ("0s", 0), (timedelta(microseconds=7), 7), ("1h30m", 5_400_000_000)],
)
def test_durations_are_texts_or_timedeltas(given: object, us: int) -> None:
    assert duration_of(given) == us


@pytest.mark.parametrize("given", [None, 5, 2.5, "", "2", "-1s", timedelta(seconds=-1)])
def test_anything_else_is_no_duration(given: object) -> None:
    with pytest.raises(InvalidInput):
        duration_of(given)


def test_instants_are_texts_or_datetimes_with_an_offset() -> None:
    assert instant_of("2026-01-01T01:00:00+01:00") == START
    assert instant_of(datetime(2026, 1, 1, tzinfo=UTC)) == START
    assert datetime_of(START + 1) == datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    for wrong in ("soon", 3, datetime(2026, 1, 1)):  # noqa: DTZ001 - that is the mistake
        with pytest.raises(InvalidInput):
            instant_of(wrong)
