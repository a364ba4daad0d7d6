"""How runs ended, as Python values or `RunFailed`. Runs on the engine's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tenuto.model.ids import RunId
from tenuto.model.states import RunState
from tenuto.sdk.failures import RunFailed
from tenuto.sdk.values import read_value

if TYPE_CHECKING:
    from tenuto.app.embedded import Engine

TOGETHER = 100
"""Runs whose results are read side by side: enough for the store to read them together."""


async def outcome(engine: Engine, run_id: RunId) -> Any:
    """Wait for one run. Raises RunFailed unless it ends as `success`."""
    row = await engine.commands.wait(run_id)
    if row.state == RunState.SUCCESS:
        return await read_value(engine.reads, run_id, row.output)
    raise RunFailed(run_id, row.state, await read_value(engine.reads, run_id, row.error))


async def outcomes(engine: Engine, run_ids: Sequence[RunId]) -> list[Any]:
    """Wait for many runs, in order. Raises RunFailed of the first that does not end as `success`."""
    found: list[Any] = []
    for first in range(0, len(run_ids), TOGETHER):
        part = run_ids[first : first + TOGETHER]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_settled(engine, run_id)) for run_id in part]
        for task in tasks:
            result = task.result()
            if isinstance(result, RunFailed):
                raise result
            found.append(result)
    return found


async def _settled(engine: Engine, run_id: RunId) -> Any:
    try:
        return await outcome(engine, run_id)
    except RunFailed as failed:
        return failed
