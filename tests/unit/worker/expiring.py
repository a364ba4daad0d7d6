"""The end of an attempt's time, brought about by a test once the attempt is where the test wants it.

A short time of its own would do on a quick machine; on a slow one it is over before the function has begun.
"""

from __future__ import annotations

from tests.support.worker import Crew

from tenuto.ports.gateway import Lease

LONG_US = 600_000_000
"""A time that does not end by itself."""


def run_out(crew: Crew, lease: Lease) -> None:
    """The attempt's time is over now."""
    attempt = crew.runner._held[lease.lease_id]
    attempt.over_at = crew.runner._alarms.time()
    crew.runner._expire(attempt)
