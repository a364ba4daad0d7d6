"""Leases whose attempts say something."""

from __future__ import annotations

from tests.support.gateway import RUN

from tenuto.model.ids import LeaseId, Place
from tenuto.ports.gateway import Lease


def a_lease(number: int = 1) -> Lease:
    return Lease(
        run_id=RUN,
        place=Place("ship"),
        lease_id=LeaseId(f"l{number}"),
        name="ship",
        queue="default",
        attempt=number,
        input="{}",
        lease_us=1,
        attempt_us=None,
        heartbeat_us=None,
    )
