"""The short form of chaos: `make chaos` is the long one. Real servers, workers and services, under accidents."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.chaos.campaign import Campaign, conduct
from tests.support.chaos.cluster import Mode
from tests.support.chaos.recovery import measure, table

RUNS = 80
SECONDS = 25


@pytest.mark.timeout(240)
@pytest.mark.parametrize("mode", ["database", "redis"])
def test_nothing_is_lost_doubled_or_stuck(mode: Mode, seed: int, tmp_path: Path) -> None:
    """Catalogue A4, A9, B9."""
    outcome = conduct(Campaign(mode=mode, seed=seed, runs=RUNS, seconds=SECONDS), tmp_path, print)

    print(outcome)
    assert not outcome.problems


@pytest.mark.timeout(240)
@pytest.mark.parametrize("mode", ["database", "redis"])
def test_recovery_keeps_its_limits(mode: Mode, tmp_path: Path) -> None:
    """Catalogue D1, E2."""
    figures = measure(mode, tmp_path, queued=1_000, idle_s=5)

    print(table(figures))
    assert [figure.name for figure in figures if not figure.is_within] == []
