"""How runs ended, as Python values or `RunFailed`. Runs on the engine's loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tenuto.model.ids import RunId
from tenuto.model.states import RunState
from tenuto.sdk.failures import RunFailed
from tenuto.views.values import read_value, read_values

if TYPE_CHECKING:
    from tenuto.app.embedded import Engine

TOGETHER = 500
"""Runs whose ends and results are read together."""


async def outcome(engine: Engine, run_id: RunId) -> Any:
    """Wait for one run. Raises RunFailed unless it ends as `success`."""
    [value] = await outcomes(engine, (run_id,))
    return value


async def outcomes(engine: Engine, run_ids: Sequence[RunId]) -> list[Any]:
    """Wait for many runs; their outputs in order. Raises RunFailed of the first that does not end as `success`."""
    found: list[Any] = []
    for first in range(0, len(run_ids), TOGETHER):
        rows = await engine.commands.wait_all(run_ids[first : first + TOGETHER])
        failed = next((row for row in rows if row.state != RunState.SUCCESS), None)
        if failed is not None:
            error = await read_value(engine.reads, failed.run_id, failed.error)
            raise RunFailed(failed.run_id, failed.state, error)
        found += await read_values(engine.reads, [(row.run_id, row.output) for row in rows])
    return found
