import pytest

from tenuto.adapters.postgres.clock import BACK_US, FRESH_US, DbClock


class Turned:
    """A monotonic clock."""

    def __init__(self) -> None:
        self.at = 1_000

    def __call__(self) -> int:
        return self.at


def test_the_time_goes_on_from_the_last_answer() -> None:
    monotonic = Turned()
    clock = DbClock(monotonic_us=monotonic)
    clock.heard(5_000_000)
    assert clock.now() == 5_000_000
    monotonic.at += 70
    assert clock.now() == 5_000_070
    assert clock.age_us == 70


def test_D11_it_never_runs_backwards() -> None:
    monotonic = Turned()
    clock = DbClock(monotonic_us=monotonic)
    clock.heard(5_000_000)
    assert clock.now() == 5_000_000
    clock.heard(3_000_000)  # the database's clock was set back, or this answer came late
    monotonic.at += 10
    assert clock.now() == 5_000_000
    clock.heard(9_000_000)
    assert clock.now() == 9_000_000


def test_D11_that_the_databases_clock_was_set_back_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Catalogue L10."""
    clock = DbClock(monotonic_us=Turned())
    clock.heard(5 * BACK_US)
    clock.heard(4 * BACK_US)  # an answer that others overtook
    assert caplog.records == []
    for _ in range(3):
        clock.heard(3 * BACK_US)
    assert len(caplog.records) == 1


def test_an_old_answer_is_asked_for_anew_and_not_all_the_time() -> None:
    monotonic, asked = Turned(), []
    clock = DbClock(lambda: asked.append(monotonic.at), monotonic_us=monotonic)
    clock.heard(5_000_000)
    monotonic.at += FRESH_US
    clock.now()
    assert asked == []
    monotonic.at += 1
    assert clock.now() == 5_000_000 + FRESH_US + 1
    clock.now()
    assert len(asked) == 1
    monotonic.at += 1_000_001
    clock.now()
    assert len(asked) == 2
    clock.heard(20_000_000)
    clock.now()
    assert len(asked) == 2
