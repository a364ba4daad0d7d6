"""What the runner keeps of a lease, as the gateway is told of it."""

from __future__ import annotations

from tests.support.gateway import MemoryGateway

from tenuto.ports.gateway import Success
from tenuto.worker.attempts import Attempt


def test_a_beat_and_a_report_name_the_lease() -> None:
    lease = MemoryGateway().offer("work", attempt=2)
    attempt = Attempt(lease, fence_at=1.0, over_at=None)
    attempt.result = Success(output="1")

    beat, report = attempt.beat(alive=True), attempt.report()
    assert (beat.run_id, beat.place, beat.lease_id, beat.alive) == (
        lease.run_id,
        lease.place,
        lease.lease_id,
        True,
    )
    assert (report.lease_id, report.attempt, report.result) == (lease.lease_id, 2, attempt.result)
