"""Why a run does not end: what who waits in vain is told, and the warning at the start of one that nobody can execute.

Answers with nothing where nothing can be learnt: the caller has an error of its own to raise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tenuto.model.errors import TenutoError
from tenuto.model.ids import RunId
from tenuto.model.states import FINAL_RUN_STATES
from tenuto.runtime.logging import get_logger

if TYPE_CHECKING:
    from tenuto.app.embedded import Engine
    from tenuto.sdk.link import Link
    from tenuto.worker.registry import Registry

LOOK_S = 2.0
"""Longest look at a run whose time is up."""
_log = get_logger("app")


class Looks(Protocol):
    """A server that is asked in place of the engine."""

    async def waits_of(self, run_ids: Sequence[str]) -> str: ...


async def waits_of(near: Link, far: Looks | None, run_ids: Sequence[str]) -> str:
    """What the first of these runs that has not ended waits for, as `: …` behind an error; empty if none is known."""
    told = ""
    try:
        async with asyncio.timeout(LOOK_S):
            if far is not None:
                told = await far.waits_of(run_ids)
            else:
                told = await near.ask(lambda engine: _waits_of(engine, run_ids))
    except (TenutoError, TimeoutError):
        return ""
    if not told:
        return ""
    return f": {told}"


async def _waits_of(engine: Engine, run_ids: Sequence[str]) -> str:
    from tenuto.views.look import look
    from tenuto.views.report import report_json

    wanted = [RunId(run_id) for run_id in run_ids]
    rows = {row.run_id: row for row in await engine.reads.get_runs(wanted)}
    for run_id in wanted:
        if run_id in rows and rows[run_id].state not in FINAL_RUN_STATES:
            report, _, _ = await look(engine.reads, run_id, now=engine.now())
            return named(report_json(report), among=run_ids)
    return ""


def named(report: Mapping[str, object], *, among: Sequence[str]) -> str:
    """What a run waits for, and which run where there are several."""
    from tenuto.views.report import waits_told

    told = waits_told(report)
    return f"run {report['run_id']}: {told}" if told and len(among) > 1 else told


def warn_of_missing(
    workflow: str, tasks: Mapping[str, str], registry: Registry, told: set[tuple[str, str]]
) -> None:
    """Warn of tasks that nobody here can execute, each once. `told`: those that were warned of."""
    for task, node in tasks.items():
        if registry.find(task) is None and (workflow, task) not in told:
            told.add((workflow, task))
            _log.warning(
                "task_missing",
                workflow=workflow,
                node=node,
                reason=f"{registry.missing(task)}; the run waits until @app.task registers it",
            )
