"""Reads without a run. What they promise about runs is in tests/conformance/test_reads."""

from __future__ import annotations

import pytest
from tests.support.store import TurnedClock, new_run_id

from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sqlite.engine import open_engine
from tenuto.ports.reads import RunFilter


@pytest.mark.parametrize("limit", [0, 1, 50])
async def test_an_empty_store_has_empty_pages(limit: int) -> None:
    engine = open_engine(":memory:", TurnedClock())
    reads = SqlReads(engine)

    assert await reads.list_runs(RunFilter(limit=limit)) == ()
    assert await reads.history(new_run_id(), limit=limit) == ()
    assert await reads.all_payloads(new_run_id()) == ()
    assert await reads.count_runs("default") == {}
    await engine.close()
