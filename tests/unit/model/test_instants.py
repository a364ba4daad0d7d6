from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.model.instants import (
    DAY_US,
    DURATION_MAX_US,
    HOUR_US,
    MINUTE_US,
    SECOND_US,
    format_duration,
    format_instant,
    format_remaining,
    parse_duration,
    parse_instant,
    write_duration,
)

UNITS = {"ms": 1_000, "s": SECOND_US, "m": MINUTE_US, "h": HOUR_US, "d": DAY_US}


@pytest.mark.rule("D1.4")
@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("0s", 0),
        ("500ms", 500_000),
        ("10s", 10 * SECOND_US),
        ("1h30m", 90 * MINUTE_US),
        ("2d", 2 * DAY_US),
        ("1m1m", 2 * MINUTE_US),
        ("3660d", DURATION_MAX_US),
    ],
)
def test_a_duration_is_a_sum_of_numbers_with_units(text: str, us: int) -> None:
    assert us == parse_duration(text)


@given(
    st.lists(st.tuples(st.integers(0, 500), st.sampled_from(sorted(UNITS))), min_size=1, max_size=4)
)
def test_parts_of_a_duration_add_up_in_any_order(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)

    assert sum(number * UNITS[unit] for number, unit in parts) == parse_duration(text)


@pytest.mark.rule("D1.4")
@pytest.mark.parametrize(
    "text", ["", "10", "s", "10 s", "-1s", "1.5s", "10S", "1w", "10s ", "1h30", "10s\n"]
)
def test_what_is_no_duration_is_refused_with_a_way_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write it like"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["3660d1ms", "99999d", "999999999999999d"])
def test_a_duration_beyond_ten_years_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="longer than the limit of 3660d"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0µs"),
        (850, "850µs"),
        (1_500, "1.5ms"),
        (12_000, "12ms"),
        (999_999, "999ms"),
        (1_500_000, "1.5s"),
        (125 * SECOND_US, "2m05s"),
        (3 * HOUR_US + 7 * MINUTE_US, "3h07m"),
        (2 * DAY_US + 4 * HOUR_US, "2d04h"),
    ],
)
def test_a_duration_is_shown_in_at_most_two_units(us: int, text: str) -> None:
    assert text == format_duration(us)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (2 * DAY_US - 1_000, "2d00h"),
        (DAY_US - 1, "1d00h"),
        (HOUR_US - 1, "1h00m"),
        (3 * HOUR_US + MINUTE_US + 1, "3h02m"),
        (2 * MINUTE_US, "2m00s"),
        (MINUTE_US + 1, "1m01s"),
        (59_400_000, "1m00s"),
        (10 * SECOND_US - 1_000, "10s"),
        (1_500_000, "1.5s"),
        (0, "0µs"),
    ],
)
def test_what_is_left_is_rounded_up(us: int, text: str) -> None:
    assert format_remaining(us) == text


@pytest.mark.rule("D1.4")
def test_an_instant_is_read_in_its_own_offset() -> None:
    assert parse_instant("1970-01-01T00:00:01Z") == SECOND_US
    assert parse_instant("1970-01-01T01:00:00+01:00") == 0
    assert parse_instant("1969-12-31T23:59:59.999999Z") == -1


@given(st.integers(0, 4_000_000_000_000))
def test_an_instant_of_whole_milliseconds_is_read_as_it_was_written(ms: int) -> None:
    assert ms * 1_000 == parse_instant(format_instant(ms * 1_000))


def test_an_instant_is_written_in_utc_with_milliseconds() -> None:
    assert format_instant(1_500_000) == "1970-01-01T00:00:01.500Z"


@pytest.mark.rule("D1.4")
def test_an_instant_without_an_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="has no offset; add Z"):
        parse_instant("2026-12-24T18:00:00")


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-13-01T00:00:00Z", "24.12.2026"])
def test_what_is_no_instant_is_refused_with_a_way_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match="is not an RFC 3339 time; write it like"):
        parse_instant(text)


@given(st.integers(0, DURATION_MAX_US // 1_000))
def test_what_is_written_is_read_as_the_same(ms: int) -> None:
    assert parse_duration(write_duration(ms * 1_000)) == ms * 1_000


def test_a_duration_is_written_in_as_few_units_as_it_has() -> None:
    written = [write_duration(us) for us in (0, 90 * MINUTE_US, DAY_US, 1_500_000)]

    assert written == ["0s", "1h30m", "1d", "1s500ms"]
