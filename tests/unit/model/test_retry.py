from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from tenuto.model.instants import DURATION_MAX_US
from tenuto.model.retry import Jitter, RetryPolicy, delay_us

policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 100),
    initial_us=st.integers(0, DURATION_MAX_US),
    factor=st.floats(1, 1e6),
    max_us=st.integers(0, DURATION_MAX_US),
    jitter=st.sampled_from(Jitter),
)
attempts = st.integers(1, 10**9)
draws = st.floats(0, 1, exclude_max=True)


def plain(policy: RetryPolicy, attempt: int) -> int:
    return delay_us(dataclasses.replace(policy, jitter=Jitter.NONE), attempt, 0.0)


@given(policies, attempts, draws)
def test_no_delay_is_negative_or_above_the_cap(
    policy: RetryPolicy, attempt: int, draw: float
) -> None:
    assert 0 <= delay_us(policy, attempt, draw) <= policy.max_us


@given(policies, attempts, draws)
def test_jitter_shortens_to_zero_or_to_half_and_never_lengthens(
    policy: RetryPolicy, attempt: int, draw: float
) -> None:
    base = plain(policy, attempt)
    full = delay_us(dataclasses.replace(policy, jitter=Jitter.FULL), attempt, draw)
    equal = delay_us(dataclasses.replace(policy, jitter=Jitter.EQUAL), attempt, draw)

    assert 0 <= full <= base
    assert base // 2 <= equal <= base


@given(policies, attempts)
def test_without_jitter_chance_has_no_say_and_delays_only_grow(
    policy: RetryPolicy, attempt: int
) -> None:
    still = dataclasses.replace(policy, jitter=Jitter.NONE)

    assert delay_us(still, attempt, 0.0) == delay_us(still, attempt, 0.999)
    assert plain(policy, attempt) <= plain(policy, attempt + 1)


def test_delays_grow_by_the_factor_up_to_the_cap() -> None:
    policy = RetryPolicy(initial_us=100, factor=2.0, max_us=350, jitter=Jitter.NONE)

    assert [delay_us(policy, n, 0.5) for n in (1, 2, 3, 4)] == [100, 200, 350, 350]


def test_a_delay_beyond_all_numbers_is_the_cap() -> None:
    policy = RetryPolicy(factor=1e6, jitter=Jitter.NONE)

    assert delay_us(policy, 10**9, 0.0) == policy.max_us


def test_jitter_reaches_both_of_its_ends() -> None:
    full = RetryPolicy(initial_us=1_000)
    equal = dataclasses.replace(full, jitter=Jitter.EQUAL)

    assert [delay_us(full, 1, draw) for draw in (0.0, 0.5, 0.9999)] == [0, 500, 999]
    assert [delay_us(equal, 1, draw) for draw in (0.0, 0.5, 0.9999)] == [500, 750, 999]
