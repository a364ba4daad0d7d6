"""`tenuto dev`: engine, worker, REST and page in one process, on loopback; definitions follow their files.

The engine has a thread of its own, and REST runs on its loop; this thread watches the files, says what happens, and
handles Ctrl-C. Changed definitions become new versions; changed code of the app starts the process anew, if it loads.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import sys
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from time import localtime, sleep, strftime
from typing import Any, NoReturn, TypeVar

from tenuto import web
from tenuto.api.limits import Limits
from tenuto.api.page import Page
from tenuto.app.embedded import Engine
from tenuto.app.files import announce
from tenuto.app.listening import HOST, bind, holder_of, next_free
from tenuto.app.rest import RestService
from tenuto.cli.apps import BrokenApp, app_name, load_app, missing_tasks, task_findings
from tenuto.cli.console import Trouble, kept_streams, notes
from tenuto.cli.interrupts import Interrupts
from tenuto.cli.look import open_runs
from tenuto.cli.render import clean, end_text, short_id
from tenuto.cli.sources import Sources, folder_of, trouble_loading
from tenuto.cli.workspace import Stamp, Workspace, both_say, read_workflow, stamp_of
from tenuto.dsl.findings import Finding
from tenuto.model.errors import Conflict, InvalidInput, NotFound, TenutoError, Unavailable
from tenuto.model.graph import Graph
from tenuto.model.ids import RunId
from tenuto.model.instants import format_duration
from tenuto.model.states import FINAL_RUN_STATES, RunState
from tenuto.model.version import VERSION
from tenuto.ports.reads import TaskFilter
from tenuto.ports.store import RunRow
from tenuto.runtime.service import Service
from tenuto.sdk.tenuto import NAMESPACE, Tenuto
from tenuto.sdk.workflows import SUFFIXES
from tenuto.settings import DEFAULT_DATABASE, Database, Settings, load, read_database
from tenuto.views.timeline import label_of
from tenuto.views.values import read_value
from tenuto.worker.registry import Registry

TICK_S = 0.4
"""How often files are looked at."""
TOLD_MAX = 20
"""Ends of runs told one by one in a tick; of more, their number."""
TASKS_SHOWN = 6
ANEW_S = 1.0
"""How long tasks under way may take to end before a start anew; what has not ended is handed out again."""
_LISTED = 100
_INHERITED = "_TENUTO_DEV_SOCKET"
"""Of the environment: the descriptor that a process leaves to itself when it starts anew, so that nobody is refused."""
_INTERRUPT = "interrupt"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The command line of `dev`, as given."""

    files: tuple[str, ...] = ()
    app: str | None = None
    database: str | None = None
    port: int | None = None
    watch: bool | None = None


def serve(wanted: Wanted) -> int:
    """Serve until told to stop; the exit code."""
    settings = load(
        {"database": wanted.database, "dev.port": wanted.port, "dev.watch": wanted.watch}
    )
    settings_file = settings.file or Path("tenuto.toml")
    stamped = settings_file, stamp_of(settings_file)
    places = [_place(file) for file in wanted.files] or [Path()]
    workspace = Workspace(places)
    first = workspace.scan()
    beside = places[0] / "app.py" if places[0].is_dir() else places[0]
    name = app_name(wanted.app, beside)
    # Compiled code is told from newer source by whole seconds and size: too coarse for who saves and looks at once.
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sources = None if name is None else _sources_of(name, beside.parent)
    with kept_streams():
        app = None if name is None or sources is None else _load(name, sources, settings)
    news: SimpleQueue[str] = SimpleQueue()
    with Interrupts(lambda: news.put(_INTERRUPT)) as interrupts:
        dev = _Dev(settings, stamped, _database_of(wanted, settings, app), workspace, news)
        dev.app_name, dev.beside = name, beside
        if app is not None:
            dev.registry = app.registry
            dev.sources = sources
        return dev.run(first, interrupts)


def _place(file: str) -> Path:
    """A folder or a definition. Raises InvalidInput for what can be neither."""
    path = Path(file)
    if path.is_file() and not file.endswith(SUFFIXES):
        hint = f"; name an app with --app {file}" if file.endswith(".py") else ""
        raise InvalidInput(f"{file!r} is no .yaml, .yml or .json file, and no folder{hint}")
    return path


def _sources_of(app: str, folder: Path) -> Sources:
    found = folder_of(app)
    return Sources([folder] if found is None else [folder, found])


def _load(name: str, sources: Sources, settings: Settings) -> Tenuto:
    """Load the app; one that broke since this server saw it load is waited for: the server stays."""
    try:
        return load_app(name)
    except BrokenApp as error:
        if not settings.dev.watch or _INHERITED not in os.environ:
            raise
        log = _Log(as_json=settings.log.format == "json")
        log.say("app_broken", f"waiting for it to be mended: {error}", level="error")
        while not sources.any_changed() or trouble_loading(name) is not None:
            sleep(TICK_S)
        log.say("restarting", f"the app {name} loads again: starting anew")
        _become_fresh()


def _database_of(wanted: Wanted, settings: Settings, app: Tenuto | None) -> Database:
    """What the command line says, else the app, else the settings."""
    if wanted.database is None and app is not None and not app.has_default_database:
        return app.database
    return read_database(settings.database)


@dataclass(slots=True)
class _Dev:
    """One engine and its front."""

    settings: Settings
    settings_file: tuple[Path, Stamp | None]
    """Where settings are read, and as it was then: what is written while the app loads is told."""
    database: Database
    workspace: Workspace
    news: SimpleQueue[str]
    app_name: str | None = None
    beside: Path | None = None
    registry: Registry = field(default_factory=Registry)
    sources: Sources | None = None
    _engine: Engine = field(init=False)
    _socket: socket.socket = field(init=False)
    _url: str = ""
    _anew: bool = False
    """It is not the first process of this server."""
    _open: asyncio.Event = field(init=False)
    """REST answers from here on: whoever calls finds what was deployed."""
    _log: _Log = field(init=False)
    _changed: SimpleQueue[RunId] = field(default_factory=SimpleQueue)

    def run(self, first: list[Path], interrupts: Interrupts) -> int:
        """Open, serve, watch, close."""
        self._log = _Log(as_json=self.settings.log.format == "json")
        self._log.install(self.settings.log.level)
        self._socket = self._bind()
        kept = self._socket.dup()  # the server closes its own when it stops
        self._url = f"http://{HOST}:{kept.getsockname()[1]}"
        again = False
        if not self._start_engine(interrupts):
            return 0
        self._engine.call(self._pump())
        try:
            if self.database.path is not None:
                announce(self.database.path, self._url)
            interrupts.say_at_end("stopped at once; `tenuto dev` goes on with what is unfinished")
            self._tell_start(first)
            gc.freeze()  # what is loaded by now stays: not looking at it again saves time
            again = self._watch(interrupts)
        finally:
            if interrupts.code is not None:
                self._log.say(
                    "stopping", f"stopping: {self._under_way()}; Ctrl-C again stops at once"
                )
            if (
                self.database.path is not None
                and self._engine.ended is None
                and self._engine.file_trouble() is None  # else the lock file is another's
            ):
                # Who looks for a server that starts anew waits for it: it has the same address.
                announce(self.database.path, self._url if again else "")
            drain_s = self.settings.worker.drain_us / 1_000_000
            grace_s = drain_s if interrupts.code is not None else min(drain_s, ANEW_S)
            self._engine.stop(grace_s=grace_s)
        if again and interrupts.code is None:
            _start_anew(kept)
        self._log.say("stopped")
        return 0

    def _under_way(self) -> str:
        grace = format_duration(self.settings.worker.drain_us)
        return f"tasks under way have {grace}"

    # -- the start -----------------------------------------------------------------------------------------------------

    def _start_engine(self, interrupts: Interrupts) -> bool:
        """Open the database. After a new start, wait for what tasks of the old one have left running: its lock is
        theirs, too. False: told to stop meanwhile.
        """
        worker = self.settings.worker
        told = False
        while interrupts.code is None:
            self._engine = Engine(
                self.database,
                registry=self.registry,
                slots=worker.slots,
                threads=worker.threads,
                processes=worker.processes,
                languages=self.settings.languages,
                services=self._front,
            )
            try:
                self._engine.start()
            except Conflict as error:
                if not self._anew:
                    raise
                if not told:
                    self._log.say("waiting", f"waiting: {error}", level="warning")
                told = True
                with suppress(Empty):
                    self.news.get(timeout=TICK_S)
            else:
                return True
        return False

    def _bind(self) -> socket.socket:
        """Listen on the port that is asked for, or near the default one if that is taken."""
        left = os.environ.pop(_INHERITED, "")
        if left:
            self._anew = True
            return socket.socket(fileno=int(left))
        port = self.settings.dev.port
        try:
            return bind(port)
        except Conflict:
            free = next_free(port + 1)
            if free is None or "dev.port" in self.settings.origins:
                raise
        by = f" by {clean(holder)}" if (holder := holder_of(port)) else ""
        self._log.say("port_taken", f"port {port} is in use{by}; taking {free}", port=free)
        return bind(free)

    def _front(self, engine: Engine) -> Sequence[Service]:
        """REST and the page, on the engine's loop."""
        api = self.settings.api
        limits = Limits(body=api.body, requests_per_second=api.requests_per_second, burst=api.burst)
        page = Page(files=web.files(), routes=web.ROUTES, headers=web.HEADERS)
        self._open = asyncio.Event()
        default = str(self.database) == str(read_database(str(DEFAULT_DATABASE)))
        return [
            RestService(
                engine,
                self._socket,
                database="" if default else str(self.database),
                limits=limits,
                page=page,
                after=self._open,
            )
        ]

    async def _answer(self) -> None:
        self._open.set()

    def _tell_start(self, first: list[Path]) -> None:
        """At most eight lines, whatever there is."""
        counts = self._ask(self._engine.reads.count_runs(NAMESPACE))
        total, unfinished = sum(counts.values()), open_runs(counts)
        noun = "run goes" if unfinished == 1 else "runs go"
        going = f"; {unfinished} unfinished {noun} on" if unfinished else ""
        self._log.say(
            "database",
            f"database {self.database}: {total} {'run' if total == 1 else 'runs'}{going}",
            database=str(self.database),
        )
        names = self.registry.names()
        if self.app_name is None:
            self._log.say("app", "no app: tasks need one (an app.py beside the files, or --app)")
        else:
            more = ", …" if len(names) > TASKS_SHOWN else ""
            listed = ", ".join(names[:TASKS_SHOWN])
            what = f"tasks {listed}{more}" if names else "no tasks yet: register with @app.task"
            self._log.say("app", f"app {self.app_name}: {what}", app=self.app_name)
        told = self._deploy_all(first, starting=True)
        if not told:
            self._log.say("deployed", "no definitions here; name files or folders, or deploy some")
        elif self.settings.dev.watch and all(place.is_file() for place in self.workspace.places):
            only = ", ".join(map(str, self.workspace.places[:TASKS_SHOWN]))
            more = ", …" if len(self.workspace.places) > TASKS_SHOWN else ""
            self._log.say("watching", f"watches {only}{more} only; further files are not seen")
        self._ask(self._answer())
        self._log.say(
            "serving",
            f"tenuto {VERSION} on {self._url} (REST: {self._url}/docs; Ctrl-C stops)",
            url=self._url,
            version=VERSION,
        )

    def _deploy_all(self, paths: list[Path], *, starting: bool = False) -> int:
        """Store what was written. At the start, one line for all that is well."""
        well: list[str] = []
        count = 0
        for path in paths:
            try:
                loaded = read_workflow(path, named=self.workspace.is_named(path))
            except (NotFound, InvalidInput) as error:
                self._log.say("unreadable", str(error), level="error", file=str(path))
                continue
            if loaded is None:
                continue
            count += 1
            if loaded.graph is None:
                self._tell_findings(path, loaded.findings)
                continue
            name = loaded.graph.definition.name
            owner = self.workspace.claim(path, name)
            if owner is not None:
                twins = f"{both_say(str(owner), str(path), clean(name))}; {owner} stays in use"
                self._log.say("name_taken", twins, level="error", file=str(path))
                continue
            told = self._deploy(path, loaded.graph)
            if not starting:
                if told is not None:
                    how = "is new" if told.endswith(" v1") else "changed"
                    self._log.say("deployed", f"{told} deployed: {path} {how}", file=str(path))
                self._tell_missing(path, loaded.graph)
                continue
            well.append(told or f"{name} (unchanged)")
            self._tell_missing(path, loaded.graph)
        if well:
            shown = ", ".join(well[:TASKS_SHOWN])
            more = f" and {len(well) - TASKS_SHOWN} more" if len(well) > TASKS_SHOWN else ""
            self._log.say("deployed", f"workflows {shown}{more}")
        return count

    def _deploy(self, path: Path, graph: Graph) -> str | None:
        """Store a version. Returns `order v2`, or None where the newest is the same."""
        name = graph.definition.name
        before = self._ask(self._engine.reads.find_definition(NAMESPACE, name))
        row = self._ask(self._engine.commands.deploy(graph))
        if before is not None and before.version == row.version:
            return None
        return f"{clean(name)} v{row.version}"

    def _tell_missing(self, path: Path, graph: Graph) -> None:
        told = missing_tasks(graph.definition, self.registry, self.app_name, path)
        if told is not None:
            self._log.say("task_missing", f"{path}: {told}", level="warning", file=str(path))
        for finding in task_findings(graph, self.registry, str(path)):
            self._log.say("task_misfit", str(finding), level="warning", file=str(path))

    def _tell_findings(self, path: Path, findings: tuple[Finding, ...]) -> None:
        """The file is not usable: say why, all of it; the version before stays in use."""
        for finding in findings:
            self._log.say(
                "finding", str(finding), level="error", finding=finding.as_dict(), file=str(path)
            )

    # -- serving -------------------------------------------------------------------------------------------------------

    def _watch(self, interrupts: Interrupts) -> bool:
        """Until told to stop (False), or the app's code has changed and loads (True)."""
        while interrupts.code is None:
            with suppress(Empty):
                self.news.get(timeout=TICK_S)
            if self._engine.ended is not None:
                raise Unavailable(f"the engine has ended: {self._engine.ended}")
            if (why := self._engine.file_trouble()) is not None:
                raise Unavailable(why)
            self._tell_ends()
            if self.settings.dev.watch:
                self._tell_settings()
                self._deploy_all(self.workspace.scan())
                if self._app_changed():
                    return True
        return False

    def _tell_settings(self) -> None:
        """Settings hold from a start on; a start anew reads them."""
        path, before = self.settings_file
        if (now := stamp_of(path)) != before:
            self.settings_file = path, now
            told = f"{path.name} changed: start again to use it"
            self._log.say("settings_changed", told, level="warning", file=str(path))

    def _app_changed(self) -> bool:
        changed = self.sources.changed() if self.sources is not None else []
        if not changed or self.app_name is None:
            return False
        shown = ", ".join(path.name for path in changed)
        trouble = trouble_loading(self.app_name)
        if trouble is not None:
            told = f"{shown} changed, but does not load; the code before goes on:\n{trouble}"
            self._log.say("app_broken", told, level="error")
            return False
        self._log.say("restarting", f"{shown} changed: starting anew{self._waited_for()}")
        return True

    def _waited_for(self) -> str:
        """What a start anew waits for, as the end of a sentence; empty for nothing."""
        wanted = TaskFilter(namespace=NAMESPACE, states=("running",), limit=_LISTED)
        rows = self._ask(self._engine.reads.list_tasks(wanted))
        if not rows:
            return ""
        names = list(dict.fromkeys(clean(label_of(row.task.place)) for row in rows))
        listed = ", ".join(names[:TASKS_SHOWN]) + (", …" if len(names) > TASKS_SHOWN else "")
        count = f"{len(rows)}{'' if len(rows) < _LISTED else ' or more'}"
        noun = "task" if len(rows) == 1 else "tasks"
        within = min(self.settings.worker.drain_us, int(ANEW_S * 1_000_000))
        return (
            f"; waits for {count} {noun} under way ({listed}), {format_duration(within)} at most,"
            " then hands out again what has not ended"
        )

    async def _pump(self) -> None:
        async for run_ids in self._engine.commands.changes():
            for run_id in run_ids:
                self._changed.put(run_id)

    def _tell_ends(self) -> None:
        """One line for each run that ended or cannot go on."""
        found: dict[RunId, None] = {}
        while not self._changed.empty():
            found[self._changed.get()] = None
        if len(found) > TOLD_MAX:
            self._log.say("runs_changed", f"{len(found):,} runs moved on")
            return
        for row in self._ask(self._engine.reads.get_runs(list(found))) if found else ():
            line = self._ask(self._end_line(row))
            if line is not None:
                self._log.say("run", line, run_id=row.run_id)

    async def _end_line(self, row: RunRow) -> str | None:
        told = f"{clean(row.workflow)} {short_id(row.run_id)}"
        if row.quarantine is not None:
            return f"{told} is quarantined: {clean(row.quarantine)}"
        if row.state not in FINAL_RUN_STATES:
            return None
        took = format_duration(max(0, (row.ended_at or 0) - row.created_at))
        if row.state == RunState.SUCCESS:
            return f"{told} {row.state} after {took}"
        error = await read_value(self._engine.reads, row.run_id, row.error)
        why = end_text(row.state, error).removeprefix(row.state)
        return f"{told} {row.state} after {took}{why}"

    def _ask(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return self._engine.call(coroutine).result()


class _Log:
    """What `dev` says, on stderr: a line for people, or a JSON object."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._console = notes()

    def install(self, level: str) -> None:
        """Show what engine and tasks log, too."""
        Trouble(self._console, as_json=self._as_json).install(level)

    def say(self, event: str, text: str = "", *, level: str = "info", **more: object) -> None:
        """Say one thing."""
        shown = text or event
        if self._as_json:
            at = strftime("%Y-%m-%dT%H:%M:%S%z", localtime())
            line: Mapping[str, object] = {
                "timestamp": at,
                "level": level,
                "event": event,
                "message": shown,
                **more,
            }
            self._console.print(json.dumps(line, ensure_ascii=False), markup=False)
            return
        style = {"error": "red", "warning": "yellow"}.get(level, "")
        at = strftime("%H:%M:%S", localtime())
        self._console.print(f"{at} {shown}", markup=False, style=style)


def _start_anew(listening: socket.socket) -> NoReturn:
    """Become a fresh process with the same command line, on the same socket: who calls meanwhile waits."""
    listening.set_inheritable(True)
    os.environ[_INHERITED] = str(listening.fileno())
    _become_fresh()


def _become_fresh() -> NoReturn:
    with suppress(OSError):
        sys.stderr.flush()
    try:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - our own command line
    except OSError as error:
        raise TenutoError(f"cannot start anew: {error.strerror}; start it again by hand") from None
