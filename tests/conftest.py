"""What holds for every test: the Hypothesis profiles, and an environment without surprises.

Fixtures and builders live in tests/support; this file only registers.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Every profile prints how to repeat a failure. No deadlines and no "too slow": a shared machine
# may stall for any length, and that says nothing about the code.
_SHARED = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("house", parent=_SHARED, max_examples=300)
settings.register_profile("quick", parent=_SHARED, max_examples=20)
settings.register_profile("deep", parent=_SHARED, max_examples=5_000)
settings.load_profile("house")


def pytest_configure() -> None:
    """Forget the developer's own Tenuto settings; TENUTO_TEST_… (seeds) are for the tests. Let Ctrl-C mean Ctrl-C: who
    was started in the background of a script ignores it, and so would all that is started here.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in list(os.environ):
        if name.startswith("TENUTO_") and not name.startswith("TENUTO_TEST_"):
            del os.environ[name]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that needs the machine for itself says why (each makes the build longer), and has it."""
    for mark in item.iter_markers("alone"):
        assert mark.args, "`alone` without its reason"
        assert "PYTEST_XDIST_WORKER" not in os.environ, (
            "`alone`: leave it out of `-n` (-m 'not alone')"
        )
