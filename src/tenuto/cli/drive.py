"""`tenuto run FILE`: stores the definition, starts one run, and drives this run and no other to
its end.

The engine has threads of its own; this thread waits for news of the run, shows them, and handles
Ctrl-C.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from tenuto.app.definitions import load_definition
from tenuto.app.embedded import Engine
from tenuto.app.files import driver_of
from tenuto.cli.apps import app_name, load_app, misfits, missing_tasks, task_findings
from tenuto.cli.arguments import naming_options, read_input, read_vars
from tenuto.cli.console import Trouble, kept_streams, notes, reserve_stdout
from tenuto.cli.definitions import read_definition, show_findings
from tenuto.cli.interrupts import Interrupts
from tenuto.cli.look import look_and_count, now_us, open_runs, read, unfinished_line
from tenuto.cli.screen import REDRAW_S, TICK_S, Screen
from tenuto.coordinator.commands import StartRequest
from tenuto.dsl.given import default_input
from tenuto.dsl.inputs import apply_vars, check_input
from tenuto.dsl.storable import check_word
from tenuto.model.definition import Definition
from tenuto.model.errors import (
    Conflict,
    InvalidDefinition,
    InvalidInput,
    InvariantViolated,
    NotFound,
    Unavailable,
)
from tenuto.model.ids import RunId
from tenuto.model.states import FINAL_NODE_LETTERS, FINAL_RUN_STATES, NodeLetter, RunState
from tenuto.model.stored import content_hash
from tenuto.sdk.tenuto import NAMESPACE
from tenuto.sdk.workflows import workflow_of
from tenuto.settings import Database, Settings, load, parse_database
from tenuto.views.cures import go_on_command, quoted, resume_command
from tenuto.views.look import History, find_run, look, read_graph
from tenuto.views.report import Report
from tenuto.worker.registry import Registry

if TYPE_CHECKING:
    from rich.live import Live

    from tenuto.model.graph import Graph
    from tenuto.ports.reads import Reads
    from tenuto.ports.store import RunRow

EVENT = "event"
END = "end"
INTERRUPT = "interrupt"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The command line of `run FILE`, as given. `output`: table, json or jsonl. `file` is None only
    with `carry_on`.
    """

    file: str | None
    app: str | None = None
    input: str | None = None
    sets: tuple[str, ...] = ()
    vars: tuple[str, ...] = ()
    key: str | None = None
    priority: int | None = None
    database: str | None = None
    carry_on: str | None = None
    output: str = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A checked request to start a run: everything that can be wrong with the user's words was
    found before.
    """

    graph: Graph
    input: str
    vars: str
    key: str | None
    priority: int


@dataclass(frozen=True, slots=True)
class Tasks:
    """The functions that this process has, and where they are from: the app's name, if there is an
    app, and FILE, beside which it was looked for.
    """

    registry: Registry
    app: str | None
    file: Path | None


@dataclass(slots=True)
class _Seen:
    """What need not be read again."""

    history: History = field(default_factory=History)
    graph: Graph | None = None


def drive(wanted: Wanted) -> int:
    """Do all of `run FILE`; the exit code."""
    if wanted.output != "table":
        reserve_stdout()
    if wanted.carry_on is not None:
        _check_carry_on(wanted)
    start = None if wanted.carry_on is not None else _check(wanted)
    file = None if wanted.file in (None, "-") else Path(wanted.file)
    settings = load()
    name = app_name(wanted.app, file)
    with kept_streams():
        app = None if name is None else load_app(name)
    database = (
        app.database
        if app is not None and wanted.database is None and not app.has_default_database
        else parse_database(wanted.database)
    )
    _refuse_served(database, wanted)
    tasks = Tasks(app.registry if app is not None else Registry(), name, file)
    news: SimpleQueue[str] = SimpleQueue()
    with Interrupts(lambda: news.put(INTERRUPT)) as interrupts:
        return _Session(wanted, settings, database, tasks, news, interrupts).run(start)


def _refuse_served(database: Database, wanted: Wanted) -> None:
    """A server that has the file open can do this. Raises Conflict, with the command for it."""
    driver = None
    if database.path is not None:
        with suppress(Unavailable):  # opening it will say what is wrong with it
            driver = driver_of(database.path)
    if driver is None or not driver.url:
        return
    who = f"{database} is in use by the server at {driver.url} (pid {driver.pid})"
    if wanted.carry_on is not None:
        there = f"it drives the run: `tenuto run watch {quoted(wanted.carry_on)}`"
    else:
        file = "FILE" if wanted.file in (None, "-") else quoted(str(wanted.file))
        there = f"start it there: `tenuto run start {file}`"
    raise Conflict(f"{who}; {there}; or name another file with --database")


def _check_carry_on(wanted: Wanted) -> None:
    """A run that began already takes nothing of what starts one."""
    for given, option in (
        (wanted.input is not None, "--input"),
        (wanted.sets, "--set"),
        (wanted.vars, "--var"),
        (wanted.key is not None, "--key"),
        (wanted.priority is not None, "--priority"),
    ):
        if given:
            raise InvalidInput("a run that is carried on has its own already", path=option)


def _check(wanted: Wanted) -> Start:
    """Compile FILE and check input and vars against it; nothing is opened yet."""
    if wanted.file is None:
        raise InvalidInput(
            "`tenuto run` needs a FILE to start, or an unfinished run: --carry-on ID"
        )
    source = read_definition(wanted.file)
    loaded = load_definition(source.text, file=source.file)
    if loaded.graph is None:
        raise InvalidDefinition(loaded.findings)
    show_findings(loaded.findings)
    workflow = workflow_of(loaded.graph, version=0, content_hash="")
    given = read_input(wanted.input, wanted.sets, workflow.input_schema)
    if wanted.input is None:
        given = default_input(workflow.input_schema, given)
    with naming_options(wanted.input, wanted.sets):
        checked = check_input(workflow.input_schema, given)
    return Start(
        graph=loaded.graph,
        input=checked,
        vars=apply_vars(workflow.vars, read_vars(wanted.vars), os.environ),
        key=None if wanted.key is None else check_word(wanted.key, "--key"),
        priority=wanted.priority or 0,
    )


class _Session:
    """One engine, one run."""

    def __init__(
        self,
        wanted: Wanted,
        settings: Settings,
        database: Database,
        tasks: Tasks,
        news: SimpleQueue[str],
        interrupts: Interrupts,
    ) -> None:
        self._wanted, self._database, self._tasks = wanted, database, tasks
        self._worker, self._languages = settings.worker, settings.languages
        self._grace_s = settings.worker.drain_us / 1_000_000
        self._news, self._interrupts = news, interrupts
        self._named = "" if database == parse_database(None) else str(database)
        self._note = notes()
        Trouble(self._note, as_json=settings.log.format == "json").install(settings.log.level)
        self._seen, self._screen = _Seen(), Screen(self._note, wanted.output)
        self._engine: Engine

    def run(self, start: Start | None) -> int:
        """Open, start or find the run, follow it, close, tell."""
        carried = self._find_carried(start)
        if self._interrupts.code is None:
            report = self._open_and_follow(start, carried)
        else:
            report = None
        if report is None:
            self._note.print("interrupted; nothing was started")
            assert self._interrupts.code is not None
            return self._interrupts.code
        if self._interrupts.code is not None and self._is_kept:
            run_id = report.run_id
            report = read(self._database, lambda reads: self._last_look(reads, run_id))
        self._screen.tell(report)
        if self._interrupts.code is not None and not report.is_final:
            self._note.print(self._go_on_line(report.run_id), markup=False)
            return self._interrupts.code
        if report.quarantine is not None:
            raise InvariantViolated(f"run {report.run_id} is quarantined: {report.quarantine}")
        return 0 if report.state == RunState.SUCCESS else 1

    @property
    def _is_kept(self) -> bool:
        """Whether what was written can be read again."""
        return self._database.path is not None or self._database.is_postgres

    def _find_carried(self, start: Start | None) -> RunId | None:
        """The run that exists already: named by --carry-on, or holding the --key."""
        carried = None
        path = self._database.path
        if self._database.is_postgres or (path is not None and path.exists()):
            if start is None or start.key is not None:
                carried = read(self._database, lambda reads: self._carried(reads, start))
        elif start is None:
            raise NotFound("run", self._wanted.carry_on or "", f"there is no file {self._database}")
        if carried is None and start is not None:
            self._check_tasks(start.graph)
        return carried

    async def _carried(self, reads: Reads, start: Start | None) -> RunId | None:
        if start is None:
            found = await find_run(reads, self._wanted.carry_on or "")
        else:
            assert start.key is not None
            name = start.graph.definition.name
            known = await reads.find_run_by_key(NAMESPACE, name, start.key)
            if known is None:
                return None
            self._note.print(f"the key {start.key!r} has its run already: {known}", markup=False)
            found = known
        await self._check_carried(reads, found, start)
        return found

    async def _check_carried(self, reads: Reads, run_id: RunId, start: Start | None) -> None:
        """Whether the run can go on here. Raises Conflict, InvalidInput."""
        detail = await reads.get_run(run_id)
        if start is None and self._wanted.file is not None:
            self._compare(self._wanted.file, detail.run)
        if detail.run.state in FINAL_RUN_STATES:
            return
        if detail.run.paused:
            raise Conflict(
                f"run {run_id} is paused; let it go on with\n"
                f"  {resume_command(run_id, self._named)}"
            )
        graph = await read_graph(reads, detail)
        letters = detail.snapshot.nodes
        open_nodes = [
            number
            for number in range(len(graph.definition.nodes))
            if graph.loops_of[number] or NodeLetter(chr(letters[number])) not in FINAL_NODE_LETTERS
        ]
        self._warn_of_missing(graph.definition, open_nodes)

    def _check_tasks(self, graph: Graph) -> None:
        """Say what does not fit the functions of this process. Raises InvalidDefinition if it cannot go well."""
        self._tell_missing(graph.definition)
        file = str(self._tasks.file or "<stdin>")
        found = task_findings(graph, self._tasks.registry, file)
        if any(finding.severity == "error" for finding in found):
            raise InvalidDefinition(found)
        show_findings(found)

    def _tell_missing(self, definition: Definition, nodes: Sequence[int] | None = None) -> None:
        """A task that nobody has is waited for (DESIGN section 5); only this process could bring it, so say so.

        `nodes`: those that are still to do; None: all.
        """
        tasks = self._tasks
        told = missing_tasks(definition, tasks.registry, tasks.app, tasks.file, nodes=nodes)
        if told is not None:
            self._note.print(f"warning: {told}; the run waits there", markup=False)

    def _warn_of_missing(self, definition: Definition, nodes: Sequence[int]) -> None:
        """The same of a run that began with a version whose text is not at hand."""
        self._tell_missing(definition, nodes)
        for misfit in misfits(definition, self._tasks.registry, nodes=nodes):
            self._note.print(f"warning: {misfit}", markup=False)

    def _compare(self, file: str, run: RunRow) -> None:
        """A run keeps the version that it began with: say so where FILE is another one by now."""
        source = read_definition(file)
        graph = load_definition(source.text, file=source.file).graph
        if graph is not None and graph.definition.name != run.workflow:
            raise InvalidInput(
                f"run {run.run_id} is one of {run.workflow!r}, but {source.file} is "
                f"{graph.definition.name!r}; name its own file, or none"
            )
        if graph is None or content_hash(graph.definition) != run.definition:
            self._note.print(
                f"{source.file} has changed since; the run keeps version {run.version}, with which "
                "it began.\nTo use the file as it is now, cancel this run and start another.",
                markup=False,
            )

    def _open_and_follow(self, start: Start | None, carried: RunId | None) -> Report | None:
        """Drive the run until it is final, cannot go on, or somebody interrupts; None if it never
        began.
        """
        self._engine = Engine(
            self._database,
            registry=self._tasks.registry,
            focus=True,
            carry_on=() if carried is None else (carried,),
            slots=self._worker.slots,
            threads=self._worker.threads,
            processes=self._worker.processes,
            languages=self._languages,
        )
        try:
            self._engine.start()
            # What is loaded by now stays: not looking at it again saves a fifth of the engine's time.
            gc.freeze()
            if self._interrupts.code is not None:
                return None
            run_id = carried
            if run_id is None:
                assert start is not None
                run_id = self._ask(self._begin(start))
            self._interrupts.say_at_end(self._go_on_line(run_id))
            return self._follow(run_id)
        finally:
            stopped_early = self._interrupts.code is not None
            self._engine.stop(grace_s=self._grace_s if stopped_early else 1.0)

    async def _last_look(self, reads: Reads, run_id: str) -> Report:
        """How the run stands after the drain."""
        report, _, _ = await look(reads, RunId(run_id), now=now_us(), database=self._named)
        return report

    async def _begin(self, start: Start) -> RunId:
        row = await self._engine.commands.deploy(start.graph)
        request = StartRequest(
            graph_hash=row.hash,
            workflow=row.name,
            version=row.version,
            input=start.input,
            vars=start.vars,
            key=start.key,
            priority=start.priority,
        )
        [started] = await self._engine.commands.start([request])
        return started.run_id

    def _ask(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        future: Future[_T] = self._engine.call(coroutine)
        return future.result()

    # -- following -------------------------------------------------------------------------------------------------

    def _follow(self, run_id: RunId) -> Report:
        pump = self._engine.call(self._pump(run_id))
        try:
            report, others = self._first_look(run_id)
            for line in unfinished_line(others, self._named):
                self._note.print(line, style="dim", markup=False)
            with self._screen.live() as live:
                report = self._watch(run_id, report, live)
        finally:
            pump.cancel()
        if self._interrupts.code is not None and not report.is_final:
            self._note.print(
                f"stopping: tasks under way have {self._grace_s:g} s to finish; "
                "Ctrl-C again stops at once"
            )
        return report

    def _watch(self, run_id: RunId, report: Report, live: Live | None) -> Report:
        """Show the run until it is final, quarantined or interrupted."""
        while True:
            self._screen.show(report, live)
            if report.is_final or report.quarantine is not None:
                return report
            if self._interrupts.code is not None:
                return report
            self._pause()
            report = self._read(run_id)

    def _pause(self) -> None:
        """Wait for news, then a moment for what comes with it."""
        with suppress(Empty):
            word = self._news.get(timeout=TICK_S)
            until = monotonic() + REDRAW_S
            while word == EVENT:
                word = self._news.get(timeout=max(0.0, until - monotonic()))

    async def _pump(self, run_id: RunId) -> None:
        """Turn the run's events into words for the waiting thread."""
        try:
            async for _ in self._engine.commands.follow(run_id):
                self._news.put(EVENT)
        finally:
            self._news.put(END)

    def _read(self, run_id: RunId) -> Report:
        seen = self._seen
        report, seen.history, seen.graph = self._ask(
            look(
                self._engine.reads,
                run_id,
                now=now_us(),
                database=self._named,
                history=seen.history,
                graph=seen.graph,
            )
        )
        return report

    def _first_look(self, run_id: RunId) -> tuple[Report, int]:
        """The run, and how many others are unfinished."""
        return look_and_count(
            lambda: self._read(run_id),
            lambda: open_runs(self._ask(self._engine.reads.count_runs(NAMESPACE, top=True))),
        )

    def _go_on_line(self, run_id: RunId | str) -> str:
        command = go_on_command(
            str(run_id), self._named, file=self._wanted.file or "", app=self._wanted.app or ""
        )
        return f"the run is unfinished; carry it on with:\n  {command}"
