import itertools

from hypothesis import given
from hypothesis import strategies as st

from tenuto.adapters.postgres.partitions import DAY_US, HOUR_US, SPAN_US, planned, suffix_of
from tenuto.model.ids import first_run_id

MONDAY = 1_750_032_000_000_000  # 2025-06-16


def bounds(spans: list[tuple[int, int]]) -> list[tuple[str, str]]:
    return [(first_run_id(at), first_run_id(end)) for at, end in spans]


def test_weeks_begin_on_a_monday() -> None:
    found = planned(MONDAY + DAY_US, span_us=SPAN_US, ahead=2, have=[])
    assert [suffix_of(at, SPAN_US) for at, _ in found] == ["20250616", "20250623", "20250630"]
    assert found[0] == (MONDAY, MONDAY + SPAN_US)


def test_just_after_midnight_the_week_before_is_there_too() -> None:
    found = planned(MONDAY + HOUR_US // 2, span_us=SPAN_US, ahead=0, have=[])
    assert [suffix_of(at, SPAN_US) for at, _ in found] == ["20250609", "20250616"]


def test_shorter_spans_are_named_by_the_second() -> None:
    assert suffix_of(MONDAY + 3 * HOUR_US, HOUR_US) == "20250616_030000"


def test_what_exists_is_not_made_again() -> None:
    have = bounds(planned(MONDAY, span_us=SPAN_US, ahead=3, have=[]))
    assert planned(MONDAY, span_us=SPAN_US, ahead=3, have=have) == []


@given(
    now=st.integers(MONDAY, MONDAY + 400 * DAY_US),
    spans=st.lists(
        st.sampled_from([HOUR_US, DAY_US, SPAN_US, 4 * SPAN_US]), min_size=1, max_size=4
    ),
    step=st.integers(0, 40 * DAY_US),
)
def test_whatever_spans_were_chosen_nothing_overlaps_and_now_is_covered(
    now: int, spans: list[int], step: int
) -> None:
    have: list[tuple[str, str]] = []
    for span in spans:
        have += bounds(planned(now, span_us=span, ahead=3, have=have))
        have.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(have))
        assert any(first <= first_run_id(now) < end for first, end in have)
        assert any(first <= first_run_id(now + span) < end for first, end in have)
        now += step
