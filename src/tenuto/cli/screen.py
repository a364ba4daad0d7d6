"""A run as it goes on, shown to who watches: a live view on a terminal, else lines as things end; then the outcome.

Where the reports come from is the caller's: an engine of this process (`drive`), a server or a file (`watch`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tenuto.cli.console import answers, say
from tenuto.cli.plain import child_line, step_line, wait_line
from tenuto.cli.render import live_view, outcome_view
from tenuto.views.report import Report, report_json
from tenuto.views.timeline import Step, step_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

REDRAW_S = 0.1
"""The live view is read and drawn at most so often: 10 a second look smooth and cost next to
nothing."""
TICK_S = 0.5
"""And at least so often, since times go on."""
_UNDER_WAY = ("running", "interrupted")


class Screen:
    """What was shown already is remembered, so that the plain log says each thing once.

    Args:
        console: for progress, on stderr.
        output: table, json or jsonl, which prints each step as it ends.
    """

    def __init__(self, console: Console, output: str) -> None:
        self._console, self._output = console, output
        self._steps: set[tuple[object, ...]] = set()
        self._commands: set[str] = set()
        self._waits: dict[str, tuple[str, int, int | None]] = {}

    @contextmanager
    def live(self) -> Iterator[Live | None]:
        """A live view where there is a terminal; otherwise lines are printed as they come."""
        if self._output == "jsonl" or not self._console.is_terminal:
            yield None
            return
        from rich.live import Live

        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            yield live

    def show(self, report: Report, live: Live | None) -> None:
        """Show how the run stands."""
        if live is not None:
            for line in report.waits:
                if line.command and line.command not in self._commands:
                    self._print(wait_line(line, report.now, report.created_at))
            self._commands = {line.command for line in report.waits}
            live.update(live_view(report, self._console.height), refresh=True)
            return
        ended = [step for step in report.timeline if _has_ended(step)]
        ended.sort(key=lambda step: step.ended_at or 0)
        for step in ended:
            if (told := _identity(step)) in self._steps:
                continue
            self._steps.add(told)
            if self._output == "jsonl":
                say(json.dumps(step_json(step, report.created_at)))
            else:
                self._print(step_line(step, report.created_at))
        waits = {line.id: (line.state, line.attempts, line.iteration) for line in report.waits}
        if self._output != "jsonl":
            for line in report.waits:
                if self._waits.get(line.id) != waits[line.id]:
                    self._print(wait_line(line, report.now, report.created_at))
        self._waits = waits
        if self._output != "jsonl":
            self._tell_children(report)

    def _tell_children(self, report: Report) -> None:
        """Say once what a child waits for, with the command that ends it."""
        for child in report.children.newest:
            told = f"{child.run_id} {child.waits_for}" if child.command else ""
            if told and told not in self._commands:
                self._commands.add(told)
                self._print(child_line(child, report.now, report.created_at))

    def tell(self, report: Report, document: Mapping[str, object] | None = None) -> None:
        """The answer, on stdout. `document`: the report as it came, where it came as one."""
        if self._output != "table":
            say(json.dumps(document or report_json(report), ensure_ascii=False))
            return
        answers().print(outcome_view(report))

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False)


def _has_ended(step: Step) -> bool:
    """A step that never began has ended too, though nobody knows when (a task that never got a worker)."""
    return step.ended_at is not None or (step.started_at is None and step.result not in _UNDER_WAY)


def _identity(step: Step) -> tuple[object, ...]:
    """What makes a step another one."""
    return step.place, step.what, step.result, step.attempt, step.ended_at
