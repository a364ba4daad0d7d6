"""Chance."""

from __future__ import annotations

from tenuto.adapters.local.dice import SystemDice


def test_draws_lie_between_zero_and_one_and_differ() -> None:
    drawn = {SystemDice().draw() for _ in range(1_000)}

    assert len(drawn) == 1_000
    assert min(drawn) >= 0.0
    assert max(drawn) < 1.0


def test_a_seed_repeats_its_draws() -> None:
    first, second = SystemDice(7), SystemDice(7)

    assert [first.draw() for _ in range(5)] == [second.draw() for _ in range(5)]
