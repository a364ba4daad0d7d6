"""Compares what a coordinator remembers of leases with what is stored, whenever it would use it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenuto.coordinator.batch import Batch
from tenuto.coordinator.reports import ReportWaiting
from tenuto.coordinator.waiting import AboutTask, Wanted
from tenuto.ports.store import Loaded


def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Load what is remembered, too: whether each was the same. For a coordinator that is alone."""
    found: list[bool] = []
    wanted_here: dict[int, ReportWaiting] = {}
    """Those that were loaded: a report of an engine that outlives a test may be under way when this begins."""
    fill = ReportWaiting.fill

    def want(self: ReportWaiting, wanted: Wanted) -> None:
        wanted_here[id(self)] = self
        AboutTask.want(self, wanted)

    def filled(self: ReportWaiting, batch: Batch, loaded: Loaded) -> None:
        if self.known is not None and id(self) in wanted_here:
            task, lease = self.known
            stored, standing = loaded.tasks[self.run_id, self.place]
            # A lease that was given back is the guard's to find.
            if standing is not None and standing.lease_id == lease.lease_id:
                found.append(
                    (stored, standing.worker, standing.leased_at)
                    == (task, lease.worker, lease.leased_at)
                    and standing.lease_until >= lease.lease_until
                )
        fill(self, batch, loaded)

    monkeypatch.setattr(ReportWaiting, "want", want)
    monkeypatch.setattr(ReportWaiting, "fill", filled)
    yield found
    assert all(found)
