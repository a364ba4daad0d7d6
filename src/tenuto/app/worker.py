"""The process `tenuto worker`: puts together launcher, task processes, the gateway to the servers and the supervisor.

The order of the start matters. The launcher comes first, then the task processes, which import the app; only when they
are ready is gRPC loaded, and from then on nothing here forks: what is to be started the launcher starts. Signals are
handled here, and the user's code is never imported here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tenuto.adapters.local.dice import SystemDice
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.app.access import token_of
from tenuto.app.languages import Languages, Watch
from tenuto.app.loops import run, settle
from tenuto.model.errors import Conflict, Denied, InvalidInput, TenutoError, Unavailable
from tenuto.model.version import VERSION
from tenuto.ports.access import MAKE_TOKEN, Scope
from tenuto.ports.executor import Executor
from tenuto.ports.gateway import Beat, TaskGateway, WorkerInfo
from tenuto.runtime.backoff import Backoff
from tenuto.runtime.service import Service, pause, serve, unless
from tenuto.settings.tree import Settings
from tenuto.worker.code import CodeExecutor
from tenuto.worker.handle import HIDDEN, Broken, Known, Plan, spread
from tenuto.worker.http import HttpExecutor
from tenuto.worker.launching import Launcher, Piped, python, spawn_piped
from tenuto.worker.notes import Notebook
from tenuto.worker.processes import Processes
from tenuto.worker.runner import LEASE_US
from tenuto.worker.supervisor import Supervisor

_SERVICE_US = 60_000_000
"""How long a service may take to stop, beside the grace of tasks."""
_SLOW_S = 10.0
"""Loading the app takes this long: worth a word."""
_LAUNCHER = "the process that starts task processes is gone, and they with it"

_NOTHING = (
    "the app {} has no tasks, and http and code nodes are off: there is nothing that this worker could do; register"
    " functions with @app.task"
)
_TOKEN = f"; make one with `{MAKE_TOKEN[Scope.WORKER]}` and set TENUTO_TOKEN"


class WorkerGateway(TaskGateway, Service, Protocol):
    """The way to the servers, and what keeps it open."""


Connect = Callable[[Callable[[], Sequence[Beat]]], WorkerGateway]
"""Makes the gateway, once gRPC may be loaded; it may ask at any time which leases are held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a worker is to be.

    Attributes:
        app: `module:name` or `path.py:name`, as `entry` finds it in each task process.
        entry: the code of a task process, a call that takes the launcher's process id: `a.b:main`.
        http, code: whether it runs nodes of these kinds.
    """

    app: str
    entry: str
    settings: Settings
    http: bool = True
    code: bool = True

    @property
    def queues(self) -> tuple[str, ...]:
        """What it works for."""
        names = (name.strip() for name in self.settings.worker.queues.split(","))
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def servers(self) -> tuple[str, ...]:
        """Addresses, in the order in which they are tried."""
        return tuple(each.strip() for each in self.settings.worker.server.split(","))

    @property
    def processes(self) -> int:
        """How many task processes."""
        return self.settings.worker.task_processes or os.cpu_count() or 1


class Told(Protocol):
    """Who is told how it goes, in words for people."""

    def loading(self, wanted: Wanted) -> None:
        """Loading the app takes long."""
        ...

    def started(self, wanted: Wanted, name: str, tasks: Sequence[Known]) -> None:
        """The app is loaded; the servers come next."""
        ...

    def connected(self, server: str) -> None:
        """A server has this worker now, for the first time."""
        ...

    def stopping(self, *, at_once: bool) -> None:
        """A signal came."""
        ...


class Worker:
    """One worker, from start to end. `run` is called once."""

    def __init__(self, wanted: Wanted, told: Told, *, connect: Connect | None = None) -> None:
        """Start the launcher, so before gRPC is loaded. `connect`: None: by gRPC to `wanted.servers`.

        Raises:
            InvalidInput: settings that cannot be.
            OSError: no process can be started.
        """
        assert "grpc" not in sys.modules, "nothing may fork once gRPC is loaded"
        if not wanted.queues:
            raise InvalidInput("a worker works for one queue at least", path="worker.queues")
        self._wanted = wanted
        self._told = told
        self._dice = SystemDice()
        self._token = token_of(wanted.settings.auth)
        self._connect = connect or self._remote
        self._launcher = Launcher()
        self._signals = 0
        self._supervisor: Supervisor | None = None

    def run(self) -> None:
        """Work until SIGTERM or SIGINT, and drain.

        Raises:
            InvalidInput: the app cannot be loaded.
            Unavailable: the launcher has died; or the servers will not have this worker.
        """
        run(self._live())

    async def _live(self) -> None:
        self._stop = asyncio.Event()
        self._lost = asyncio.Event()
        self._launcher.on_lost = self._lost.set
        worker = self._wanted.settings.worker
        notebook = Notebook()
        processes = Processes(
            self._launcher,
            self._plan(),
            notebook,
            count=self._wanted.processes,
            draw=self._dice.draw,
        )
        self._heed_signals(processes)
        try:
            if not await self._start(processes):
                return
            host = worker.name or os.uname().nodename
            info = WorkerInfo(
                id=Uuid7Ids().worker_id(host),
                queues=self._wanted.queues,
                names=(),
                capacity=worker.slots,
                version=VERSION,
            )
            if not processes.known and not (self._wanted.http or self._wanted.code):
                raise InvalidInput(_NOTHING.format(self._wanted.app))
            self._told.started(self._wanted, info.id, processes.known)
            http = HttpExecutor() if self._wanted.http else None
            languages = self._languages() if self._wanted.code else None
            own: dict[str, Executor] = {}
            if http is not None:
                own["http"] = http
            if languages is not None:
                own["code"] = CodeExecutor(languages, notebook)
            gateway = self._connect(self._beats)
            self._supervisor = supervisor = Supervisor(
                gateway,
                info,
                processes,
                own,
                notebook,
                dice=self._dice,
                lease_us=lambda: getattr(gateway, "lease_us", LEASE_US),
                grace_us=worker.grace_us,
            )
            first = _First(gateway, supervisor, self._told, self._dice.draw)
            services: list[Service] = [_Watch(self._lost), gateway, first]
            if languages is not None and self._wanted.settings.languages.server:
                services.append(Watch(languages))
            try:
                await serve(
                    services,
                    stop=self._stop,
                    grace_us=worker.grace_us + _SERVICE_US,
                )
            except BaseExceptionGroup as group:
                raise _first(group) from None
            finally:
                for each in (http, languages):
                    if each is not None:
                        await each.close()
        finally:
            await self._launcher.close()

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _plan(self) -> Plan:
        worker, count = self._wanted.settings.worker, self._wanted.processes
        module, _, function = self._wanted.entry.partition(":")
        return Plan(
            argv=python(f"from {module} import {function}; {function}({self._launcher.pid})"),
            order={
                "app": self._wanted.app,
                "path": [str(Path(entry).absolute()) for entry in sys.path],
                "argv": sys.argv,
                "level": _log_level(),
                "threads": spread(worker.threads, count),
                "children": spread(worker.processes, count),
            },
        )

    async def _start(self, processes: Processes) -> bool:
        """Have the app loaded. False: told to stop meanwhile. Raises InvalidInput: it cannot be loaded."""
        broken: list[Broken] = []

        async def start() -> None:
            try:
                await processes.start()
            except Broken as error:
                broken.append(error)

        if await self._unless_stopped(start()):
            if broken:
                raise InvalidInput(str(broken[0])) from None
            return True
        return False

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        async with asyncio.TaskGroup() as group:
            working = group.create_task(work)
            stopping = group.create_task(self._stop.wait())
            lost = group.create_task(self._lost.wait())
            waited = [working, stopping, lost]
            ready, _ = await asyncio.wait(
                waited, timeout=_SLOW_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not ready:
                self._told.loading(self._wanted)
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            done = working.done()
            for task in (working, stopping, lost):
                task.cancel()
        if self._lost.is_set():
            raise Unavailable(_LAUNCHER)
        return done

    def _languages(self) -> Languages:
        async def spawn(argv: Sequence[str], kept: Sequence[int], unset: Collection[str]) -> Piped:
            return await spawn_piped(self._launcher, argv, kept, (*unset, *HIDDEN))

        return Languages(
            self._wanted.settings.languages,
            draw=self._dice.draw,
            token=self._token,
            spawn=spawn,
        )

    def _remote(self, held: Callable[[], Sequence[Beat]]) -> WorkerGateway:
        from tenuto.rpc.client import RemoteGateway

        return RemoteGateway(self._wanted.servers, token=self._token, held=held, dice=self._dice)

    def _beats(self) -> Sequence[Beat]:
        return () if self._supervisor is None else self._supervisor.runner.beats()

    # -- signals -------------------------------------------------------------------------------------------------------

    def _heed_signals(self, processes: Processes) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        loop.add_signal_handler(signal.SIGHUP, partial(self._hang_up, processes))
        self._has_terminal = _has_terminal()

    def _end(self) -> None:
        """First: drain. Then: release at once. Then: no more waiting."""
        self._signals += 1
        if self._signals > 2:
            os._exit(128 + signal.SIGTERM)
        if self._signals == 1:
            self._stop.set()
        elif self._supervisor is not None:
            self._supervisor.hurry()
        with suppress(OSError):
            self._told.stopping(at_once=self._signals > 1)

    def _hang_up(self, processes: Processes) -> None:
        """SIGHUP: load the app anew; but who had a terminal and has lost it, ends."""
        if self._has_terminal and not _has_terminal():
            self._end()
        else:
            processes.reload()


class _Watch:
    """Ends everything when the launcher has died. The first service, so that it is the last to stop."""

    name = "launcher"

    def __init__(self, lost: asyncio.Event) -> None:
        self._lost = lost

    async def run(self, stopping: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._watch())
            await stopping.wait()
            watch.cancel()

    async def _watch(self) -> None:
        await self._lost.wait()
        raise Unavailable(_LAUNCHER)


class _First:
    """The supervisor, once the servers have heard of it. What they refuse for good ends the command, at the start only:
    later the same may be a passing mistake, and there is work to lose.
    """

    name = "worker"

    def __init__(
        self, gateway: TaskGateway, supervisor: Supervisor, told: Told, draw: Callable[[], float]
    ) -> None:
        self._gateway = gateway
        self._told = told
        self._supervisor = supervisor
        self._backoff = Backoff(draw)

    async def run(self, stopping: asyncio.Event) -> None:
        from tenuto.rpc.client import Refused  # the processes that must come first are there

        while not stopping.is_set():
            try:
                # Which waits long for a server.
                if not await unless(
                    stopping, self._gateway.register(self._supervisor.runner.info, ())
                ):
                    break
            except Refused as error:
                kind: type[TenutoError] = Denied if error.denied else Conflict
                cure = _TOKEN if error.denied and MAKE_TOKEN[Scope.WORKER] not in str(error) else ""
                raise kind(f"{error}{cure}") from None
            except Unavailable:
                await pause(stopping, self._backoff.next_us())  # the gateway says why
            else:
                self._told.connected(str(getattr(self._gateway, "server", None) or ""))
                settle()
                break
        await self._supervisor.run(stopping)


def _has_terminal() -> bool:
    try:
        os.tcgetpgrp(0)
    except OSError:
        return False
    return True


def _log_level() -> int:
    import logging

    from tenuto.runtime.logging import ROOT

    return logging.getLogger(ROOT).getEffectiveLevel()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first single exception in a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
