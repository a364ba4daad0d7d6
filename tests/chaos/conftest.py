"""Seeds of this run: TENUTO_TEST_SEED repeats one; printed with a failure."""

from __future__ import annotations

import os
import secrets

import pytest


@pytest.fixture
def seed() -> int:
    """Deals the accidents."""
    given = os.environ.get("TENUTO_TEST_SEED")
    drawn = int(given) if given else secrets.randbelow(100_000)
    print(f"TENUTO_TEST_SEED={drawn}")
    return drawn
