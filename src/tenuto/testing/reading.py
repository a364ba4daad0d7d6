"""What a test reads of runs. Runs on the engine's loop; lets nothing happen before it reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from tenuto.machine.codec import decode_event
from tenuto.model.errors import InvariantViolated
from tenuto.model.ids import RunId
from tenuto.model.instants import format_instant
from tenuto.ports.reads import Reads, RunFilter
from tenuto.testing.paths import path_of
from tenuto.testing.runs import Node, describe, waits_of
from tenuto.views.answers import Answers
from tenuto.views.look import read_graph
from tenuto.views.report import Report
from tenuto.views.verify import check_run

RUNS_MAX = 5
"""Of so many, the newest, a message tells."""
_PAGE = 500
_HISTORY_PAGE = 10_000


class Reading:
    """The readings over one database. `now`: what the clock shows, microseconds."""

    def __init__(self, reads: Reads, now: Callable[[], int]) -> None:
        self.reads = reads
        self._now = now
        self._answers = Answers(reads=reads, now=now)

    async def run_ids(self, *, top: bool = False) -> AsyncIterator[RunId]:
        """All runs, newest first; `top`: without those that a run has called."""
        before: RunId | None = None
        while True:
            rows = await self.reads.list_runs(RunFilter(before=before, limit=_PAGE, top=top))
            for row in rows:
                yield row.run_id
            if len(rows) < _PAGE:
                return
            before = rows[-1].run_id

    async def report(self, run_id: RunId) -> Report:
        """Everything about a run."""
        return await self._answers.report(run_id)

    async def node(self, run_id: RunId, id: str) -> Node:
        """One node of a run; the run has it."""
        report = await self.report(run_id)
        line = next(line for line in report.nodes if line.id == id)
        found = await self._answers.run_node(run_id, id)
        return Node(
            id=id,
            type=str(line.type),
            state=line.state,
            attempts=line.attempts,
            iteration=line.iteration,
            waits_for=line.waits_for,
            items=line.items,
            undo=line.undo,
            input=found["input"],
            output=found["output"],
            error=found["error"],
        )

    async def path(self, run_id: RunId) -> list[str]:
        """Nodes of a run in the order of their ends."""
        graph = await read_graph(self.reads, await self.reads.get_run(run_id))
        history = []
        last = 0
        while rows := await self.reads.history(run_id, after=last, limit=_HISTORY_PAGE):
            history += [decode_event(row.kind, row.at, row.place, row.data) for row in rows]
            last = rows[-1].seq
        return path_of(run_id, graph, history)

    async def describe(self) -> str:
        """The newest runs as lines for people."""
        texts = [f"the clock shows {format_instant(self._now())}"]
        async for run_id in self.run_ids():
            if len(texts) > RUNS_MAX:
                texts.append("… and more runs")
                break
            texts.append(describe(await self.report(run_id)))
        return "\n".join(texts)

    async def waiting(self) -> list[str]:
        """A line for each of the newest unfinished runs: what it waits for."""
        lines: list[str] = []
        async for run_id in self.run_ids():
            report = await self.report(run_id)
            if not report.is_final:
                lines.append(f"run {run_id} of {report.workflow}: {waits_of(report)}")
            if len(lines) == RUNS_MAX:
                break
        return lines

    async def verify(self) -> None:
        """Fold every run's history and compare it with what is stored. Raises InvariantViolated."""
        async for run_id in self.run_ids():
            checked = await check_run(self.reads, run_id)
            if checked.differences:
                raise InvariantViolated(f"run {run_id} does not fold to what is stored:\n{checked}")
