"""Moments in queries."""

from __future__ import annotations

import pytest

from tenuto.api.parameters import instant
from tenuto.api.problems import Problem


def test_a_moment_is_microseconds_and_none_stays_none() -> None:
    assert instant("1970-01-01T00:00:01Z", "since") == 1_000_000
    assert instant(None, "since") is None


def test_a_plus_that_arrived_as_a_space_is_one() -> None:
    assert instant("1970-01-01T01:00:00 01:00", "since") == 0


@pytest.mark.parametrize("text", ["", "today", "1970-01-01", "1970-01-01T00:00:00", "٢"])
def test_what_is_no_moment_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(Problem, match=r"^until: ") as caught:
        instant(text, "until")

    assert caught.value.more["path"] == "until"
