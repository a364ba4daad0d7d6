"""The embedded engine: store, coordinator and worker in one process, on a thread and an event loop of their own.

The composition root of the embedded shape: the only place that knows which adapters stand behind the ports. Threads:
the engine's loop (`tenuto-engine`), SQLite's writer and reader, the user's loop, the pool for `def` functions. User
code never runs on the engine's loop.

Not a server: nobody is listened to but this process; other processes may read the file and put messages into its
mailbox (`files`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tenuto.adapters.local.dice import SystemDice
from tenuto.api.backend import Readiness
from tenuto.app.core import LEASE_US, Core, assemble
from tenuto.app.database import Opened, open_database
from tenuto.app.files import Kept
from tenuto.app.languages import Languages
from tenuto.app.readiness import readiness_of
from tenuto.app.stage import Parts, Stage
from tenuto.coordinator.commands import Commands
from tenuto.coordinator.coordinator import Coordinator
from tenuto.coordinator.gateway import Gateway
from tenuto.coordinator.setting import Focus, Setting
from tenuto.model.errors import TenutoError, Unavailable
from tenuto.model.ids import RunId
from tenuto.model.version import VERSION
from tenuto.ports.executor import Executor
from tenuto.ports.gateway import ALL_QUEUES, TaskGateway, WorkerInfo
from tenuto.ports.reads import Reads
from tenuto.runtime.logging import get_logger
from tenuto.runtime.service import Service, serve
from tenuto.settings import MEMORY, Database
from tenuto.settings import tree as settings
from tenuto.worker.code import CodeExecutor
from tenuto.worker.http import HttpExecutor
from tenuto.worker.notes import Notebook
from tenuto.worker.registry import Registry
from tenuto.worker.runner import Runner
from tenuto.worker.spawnable import refuse_while_importing
from tenuto.worker.user import UserExecutor

if TYPE_CHECKING:
    from tenuto.adapters.sqlite.engine import SqliteEngine

SLOTS = 50
THREADS = 16
PROCESSES = 2
_SERVICE_US = 60_000_000
"""Longest stop of one service; each bounds itself well below."""

_T = TypeVar("_T")
_log = get_logger("engine")


class Engine:
    """One engine on one database. Thread-safe; started and stopped once.

    Args:
        place: the database; as text a file, or ":memory:".
        registry: functions of the user's; None: no worker, nothing is executed.
        user_loop: where `async def` functions run; None: a thread with a loop of their own.
        focus: drive only runs that this engine starts, and those of `carry_on`.
        slots, threads, processes: attempts at a time, threads for `def` functions, processes for `process=True`.
        languages: how `code` nodes run.
        lease_us: how long a lease lasts without a heartbeat.
        services: made on the engine's loop; what more runs there, started last and stopped first (REST).
        before_commit: called in the writer's thread between the last statement and each COMMIT (fault injection).
        stage: what a test puts around it.
    """

    commands: Commands
    reads: Reads
    core: Core
    now: Callable[[], int]

    def __init__(  # noqa: PLR0913 - each is a choice of the caller's, by keyword
        self,
        place: Database | Path | str,
        *,
        registry: Registry | None = None,
        user_loop: asyncio.AbstractEventLoop | None = None,
        focus: bool = False,
        carry_on: Sequence[RunId] = (),
        slots: int = SLOTS,
        threads: int = THREADS,
        processes: int = PROCESSES,
        languages: settings.Languages | None = None,
        lease_us: int = LEASE_US,
        services: Callable[[Engine], Sequence[Service]] | None = None,
        before_commit: Callable[[], None] | None = None,
        stage: Stage | None = None,
    ) -> None:
        self._stage = stage
        self._database = place if isinstance(place, Database) else _database(place)
        self._registry = registry
        self._user_loop = user_loop
        self._focus = Focus(frozenset(carry_on) if focus else None)
        self._slots = slots
        self._threads = threads
        self._processes = processes
        self._languages = languages or settings.Languages()
        self._lease_us = lease_us
        self._before_commit = before_commit
        self._services = services
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event
        self._calls: set[asyncio.Task[Any]] = set()
        self._asked: dict[Future[Any], tuple[Coroutine[Any, Any, Any], ...]] = {}
        self._over = False
        self._ended: str | None = "it was not started"
        self._grace_us = 0
        self._told = False
        self._worker: _Worker | None = None
        self._kept: Kept | None = None
        self._opened: Opened

    # -- from any thread ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the file, bring it up to date, end what a dead process left, and work.

        Raises:
            Conflict: another engine has the file (says its pid), or it is of a newer version or another program.
            Unavailable: the file cannot be read or written.
        """
        assert self._thread is None, "an engine is started once"
        refuse_while_importing()
        begun: Future[None] = Future()
        self._thread = thread = threading.Thread(
            target=self._main, args=(begun,), name="tenuto-engine", daemon=True
        )
        try:
            thread.start()
            begun.result()
        except BaseException:
            # A Ctrl-C may come before we wait, and also before the thread has begun.
            self._told = True
            if thread.is_alive():
                self.stop(grace_s=0)
            raise

    @property
    def ended(self) -> str | None:
        """Why it does not run (any more); None while it does."""
        return self._ended

    def stop(self, *, grace_s: float = 10.0) -> None:
        """Drain: attempts under way may end within `grace_s`, the others are released. A second time does nothing."""
        thread = self._thread
        if thread is None or threading.current_thread() is thread:
            return
        self._grace_us = int(grace_s * 1_000_000)
        self._told = True
        if self._loop is not None:
            _tell(self._loop, self._begin_stop)
        thread.join()

    @property
    def place(self) -> str:
        """The database: an absolute path, ":memory:", or a URL without its password."""
        path = self._database.path
        return str(self._database) if path is None else str(path.absolute())

    def file_trouble(self) -> str | None:
        """Why nothing more is kept (its file is gone or another), in words; None: it is kept."""
        return None if self._kept is None else self._kept.trouble()

    async def readiness(self) -> Readiness:
        """How it stands, beside what a read of the store shows."""
        why, found = self.file_trouble(), await readiness_of(self.core, self._opened)
        return found if why is None else replace(found, troubles=(why, *found.troubles))

    def call(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run a coroutine on the engine's loop. Fails with Unavailable when the engine ends before it does."""
        loop, ended = self._loop, self._ended
        if loop is None or ended is not None:
            coroutine.close()
            raise Unavailable(f"the engine does not run: {ended}")
        if self._worker is not None:
            self._worker.learn(loop)
        guarded = self._guarded(coroutine)
        try:
            asked = asyncio.run_coroutine_threadsafe(guarded, loop)
        except RuntimeError:
            guarded.close()
            coroutine.close()
            raise Unavailable(f"the engine does not run: {self._ended}") from None
        self._asked[asked] = (guarded, coroutine)
        asked.add_done_callback(self._asked.pop)
        if self._over:
            self._fail_asked()
        return asked

    def _fail_asked(self) -> None:
        """The loop is closed: what was handed to it as it ended, it has dropped."""
        for asked, dropped in list(self._asked.items()):
            with suppress(InvalidStateError):  # the other thread was here first
                asked.set_exception(Unavailable(f"the engine has ended: {self._ended}"))
            for coroutine in dropped:
                coroutine.close()

    # -- on the engine's thread -----------------------------------------------------------------------------------

    def _main(self, begun: Future[None]) -> None:
        try:
            asyncio.run(self._live(begun))
        except BaseException as error:  # noqa: BLE001 - a thread's end: whoever started it learns why
            if not begun.done():
                begun.set_exception(error)
            self._ended = self._ended or _named(error)
        finally:
            self._over = True
            self._fail_asked()

    async def _live(self, begun: Future[None]) -> None:
        stage = self._stage
        opened = await open_database(
            self._database,
            clock=None if stage is None else stage.clock,
            before_commit=self._before_commit,
            name="tenuto engine",
        )
        self._opened = opened
        self.now = opened.clock.now
        path = self._database.path
        self._kept = None if path is None else Kept(path)
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._told:
            self._begin_stop()  # by somebody who found no loop to tell
        try:
            core = assemble(
                opened,
                lease_us=self._lease_us,
                focus=self._focus,
                dice=SystemDice(None if stage is None else stage.seed),
            )
            self.reads, self.commands, self.core = core.reads, core.commands, core
            begin = _Begin(self._begin(core, begun, opened.held))
            if stage is not None and self._worker is not None:
                stage.enter(
                    Parts(
                        database=cast("SqliteEngine", opened.engine),
                        store=core.store,
                        timers=core.timers,
                        runner=self._worker.runner,
                        learn=partial(self._worker.learn, self._loop),
                    )
                )
            more = self._services(self) if self._services is not None else ()
            await self._serve(core.coordinator, [*core.services, begin, *more])
        finally:
            await opened.engine.close()

    def _begin(
        self, core: Core, begun: Future[None], held: Sequence[int]
    ) -> Callable[[asyncio.Event], Coroutine[Any, Any, None]]:
        """The last service: recovers, says that the engine is up, and works."""
        setting = core.setting
        if self._registry is not None:
            info = WorkerInfo(
                id=setting.ids.worker_id("embedded"),
                queues=(ALL_QUEUES,),
                names=_names(self._registry, self._stage),
                capacity=self._slots,
                version=VERSION,
            )
            notebook = Notebook()
            user = UserExecutor(
                self._registry,
                loop=self._user_loop,
                threads=self._threads,
                processes=self._processes,
                held=held,
                notebook=notebook,
            )
            languages = Languages(self._languages, draw=setting.dice.draw, held=held)
            self._worker = _Worker(
                self._registry, user, languages, notebook, core.gateway, setting, info, self._stage
            )
            core.recovery.holds = self._worker.runner.holds

        async def run(stopping: asyncio.Event) -> None:
            await core.begin()
            self._ended = None
            begun.set_result(None)
            if self._worker is not None:
                await self._worker.run(stopping)

        return run

    async def _serve(self, coordinator: Coordinator, services: Sequence[Service]) -> None:
        """Run until stopped or until a service crashes; then nobody waits in vain."""
        try:
            await serve(services, stop=self._stop, grace_us=_SERVICE_US)
            self._ended = self._ended or "it was stopped"
        except BaseExceptionGroup as group:
            error = _first(group)
            self._ended = _named(error)
            if not isinstance(error, TenutoError):
                _log.exception("engine_crashed", exc_info=error)
            raise error from None
        finally:
            coordinator.watchers.fail(Unavailable(f"the engine has ended: {self._ended}"))
            for call in list(self._calls):
                call.cancel()
            if self._calls:
                await asyncio.wait(self._calls)

    async def _guarded(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """A call from outside: its end is never an unexplained cancellation."""
        task = asyncio.current_task()
        assert task is not None
        if self._ended is not None:
            coroutine.close()
            raise Unavailable(f"the engine does not run: {self._ended}")
        self._calls.add(task)
        try:
            return await coroutine
        except asyncio.CancelledError:
            if self._ended is None:
                raise
            raise Unavailable(f"the engine has ended: {self._ended}") from None
        finally:
            self._calls.discard(task)

    def _begin_stop(self) -> None:
        if self._worker is not None:
            self._worker.drain(self._grace_us)
        self._stop.set()


class _Begin:
    """A service of one function."""

    name = "worker"

    def __init__(self, run: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
        self._run = run

    async def run(self, stopping: asyncio.Event) -> None:
        await self._run(stopping)


class _Worker:
    """The engine's own worker: all queues, the registry's functions, `http` and `code`."""

    def __init__(
        self,
        registry: Registry,
        user: UserExecutor,
        languages: Languages,
        notebook: Notebook,
        gateway: Gateway,
        setting: Setting,
        info: WorkerInfo,
        stage: Stage | None,
    ) -> None:
        self._registry = registry
        self._stage = stage
        self._gateway: TaskGateway = gateway if stage is None else stage.gateway(gateway)
        self._known = len(info.names)
        self._news = asyncio.Event()
        self._http = HttpExecutor()
        self._user = user
        self._languages = languages
        code = CodeExecutor(languages, notebook)
        executors: dict[str, Executor] = {"http": self._http, "code": code, "": user}
        self.runner = Runner(
            self._gateway,
            info,
            executors if stage is None else stage.executors(executors),
            dice=setting.dice,
            lease_us=setting.lease_us,
            notebook=notebook,
            alarms=None if stage is None else stage.alarms,
        )

    async def run(self, stopping: asyncio.Event) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                renewal = group.create_task(self._announce_news(), name="worker-names")
                await self.runner.run(stopping)
                renewal.cancel()
        finally:
            await self._user.close()
            await self._http.close()
            await self._languages.close()

    def drain(self, within_us: int) -> None:
        """How long attempts may take to end once it is told to stop."""
        self.runner.drain_us = within_us

    def learn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Functions may be registered while the engine runs; called from any thread before each request."""
        count = len(_names(self._registry, self._stage))
        if count != self._known:
            self._known = count
            _tell(loop, self._news.set)

    async def _announce_news(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            # The runner's first, or it would announce the old names once more after a doubt.
            self.runner.info = replace(self.runner.info, names=_names(self._registry, self._stage))
            try:
                await self._gateway.register(self.runner.info)
            except Unavailable as error:
                _log.warning("worker_not_registered", reason=str(error))
                await asyncio.sleep(0.2)
                self._news.set()


# -- parts ------------------------------------------------------------------------------------------------------------


def _names(registry: Registry, stage: Stage | None) -> tuple[str, ...]:
    names = (*registry.names(), "http", "code")
    return names if stage is None else tuple(dict.fromkeys((*names, *stage.names())))


def _database(place: Path | str) -> Database:
    return Database() if place == MEMORY else Database(Path(place))


def _tell(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(what)
    except RuntimeError:
        return  # closed already


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first single exception in a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
