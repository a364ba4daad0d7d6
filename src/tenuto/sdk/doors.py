"""What the verbs of `Tenuto` need of its engine or server: versions by name, reading verbs, the outcome of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenuto.model.errors import InvalidInput
from tenuto.model.ids import RunId
from tenuto.model.states import FINAL_RUN_STATES, RunState
from tenuto.sdk import workflows
from tenuto.sdk.builder.workflow import Workflow
from tenuto.sdk.failures import RunFailed
from tenuto.sdk.run import Run
from tenuto.sdk.waiting import named

if TYPE_CHECKING:
    from tenuto.app.embedded import Engine
    from tenuto.ports.store import DefinitionRow
    from tenuto.sdk.far import Far
    from tenuto.views.answers import Answers

NAMESPACE = "default"
_UNKNOWN = "deploy it first, or give the path of its file"


async def version_row(engine: Engine, name: str, reference: str | None = None) -> DefinitionRow:
    """The row of a version. Raises NotFound, InvalidInput."""
    from tenuto.views.versions import find_version

    return await find_version(engine.reads, NAMESPACE, name, reference, unknown=_UNKNOWN)


def answers_of(engine: Engine) -> Answers:
    """The reading verbs over an engine."""
    from tenuto.views.answers import Answers

    return Answers(reads=engine.reads, now=engine.now)


def id_of(run: object) -> RunId:
    """Of a `Run`. Raises InvalidInput for anything else."""
    if not isinstance(run, Run):
        raise InvalidInput(f"{run!r:.60} is no Run; get it with get_run(id)", path="runs")
    return run.id


def far_of(url: str | Path | None) -> Far | None:
    """The client of a server, where `url` is the address of one."""
    if not isinstance(url, str) or not url.lower().startswith(("http:", "https:")):
        return None
    from tenuto.sdk.far import Far

    return Far(url)


async def far_outcome(
    far: Far,
    workflow: str | Path | Workflow,
    input: object,
    key: str | None,
    given: Mapping[str, object],
    priority: int,
    timeout: float | None,
) -> Any:
    """What a run over a server ends with, its output. Raises RunFailed, TimeoutError, and what a start does."""
    from tenuto.dsl.storable import check_priority

    check_priority(priority)
    source = workflows.find_source(workflow)
    report = await far.run(
        str(workflow) if source is None else source, input, key, given, priority, timeout
    )
    run_id, state = report["run_id"], report["state"]
    if state == RunState.SUCCESS:
        return report["output"]
    if state in FINAL_RUN_STATES:
        raise RunFailed(run_id, state, report["error"])
    told = named(report, among=[run_id])
    raise TimeoutError(
        f"run {run_id} has not ended within {timeout:g} s" + (f": {told}" if told else "")
    )
