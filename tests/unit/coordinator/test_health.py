"""A loop is well while it succeeds as often as it should, or waits for work; else there is a reason."""

from __future__ import annotations

from tenuto.coordinator.health import FAILED_US, SECOND_US, STUCK_US, Health


class Time:
    def __init__(self) -> None:
        self.at = 0

    def __call__(self) -> int:
        return self.at


def test_a_loop_that_waits_for_work_is_well_however_long() -> None:
    time = Time()
    health = Health(time)
    health.loop("lane-0")
    time.at = 1_000 * SECOND_US

    assert health.troubles() == {}
    [loop] = health.loops()
    assert (loop.name, loop.age_us, loop.reason) == ("lane-0", 1_000 * SECOND_US, None)


def test_a_loop_that_should_succeed_every_second_is_not() -> None:
    time = Time()
    health = Health(time)
    timers = health.loop("timers", every_us=SECOND_US)
    time.at = STUCK_US
    assert health.troubles() == {}
    time.at += 2 * SECOND_US
    assert health.troubles() == {"timers": "no success for 32 s"}
    timers.begin()
    timers.end()
    assert health.troubles() == {}


def test_work_that_does_not_end_is_told() -> None:
    """Catalogue J15."""
    time = Time()
    health = Health(time)
    health.loop("lane-0").begin()
    time.at = STUCK_US + 5 * SECOND_US

    assert health.troubles() == {"lane-0": "no end of what it began 35 s ago"}


def test_a_failure_stands_until_the_next_success_of_a_loop_that_tries_again() -> None:
    time = Time()
    health = Health(time)
    timers = health.loop("timers", every_us=SECOND_US)
    timers.begin()
    timers.fail(OSError("the database\n is away"))
    timers.end()
    time.at = FAILED_US + SECOND_US
    assert health.troubles() == {"timers": "the database is away"}
    timers.begin()
    timers.end()
    assert health.troubles() == {}


def test_a_failure_of_a_loop_that_is_asked_no_more_is_over_after_a_while() -> None:
    """Else a process that is not ready gets no work, and without work it never is."""
    time = Time()
    health = Health(time)
    lane = health.loop("lane-0")
    lane.begin()
    lane.fail(OSError())
    assert health.troubles() == {"lane-0": "OSError"}
    time.at = FAILED_US + 1
    assert health.troubles() == {}
