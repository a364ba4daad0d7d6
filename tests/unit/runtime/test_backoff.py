"""Delays that grow to a cap and never reach zero."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenuto.runtime.backoff import Backoff


def test_delays_double_up_to_the_cap() -> None:
    backoff = Backoff(lambda: 0.999_999, initial_us=100, max_us=450)

    assert [backoff.next_us() for _ in range(5)] == [99, 199, 399, 449, 449]


def test_a_success_begins_anew() -> None:
    backoff = Backoff(lambda: 0.0, initial_us=100, max_us=10_000)
    first = [backoff.next_us(), backoff.next_us()]
    backoff.reset()

    assert first == [50, 100]
    assert backoff.next_us() == 50


@given(
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 10**6),
    st.integers(0, 10**9),
    st.integers(1, 80),
)
def test_every_delay_lies_between_half_and_all_of_its_base(
    draw: float, initial: int, more: int, tries: int
) -> None:
    backoff = Backoff(lambda: draw, initial_us=initial, max_us=initial + more)
    base = initial
    for _ in range(tries):
        assert base // 2 <= backoff.next_us() <= base
        base = min(base * 2, initial + more)
