"""REST over an engine, embedded or of a cluster: the backend that `api` asks for, and the server on the engine's loop.

The server parses requests and streams answers on the engine's loop, next to the commands; what has to be worked out for
reading (a report of a large run, a picture) is done by `Desk`, on a thread with a loop of its own, so that no reader
holds up leases; a row or two are read right here. Compiling and checking inputs use the loop's pool.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.api.app import App, make_app
from tenuto.api.backend import About, Readiness
from tenuto.api.held import beside
from tenuto.api.limits import Limits
from tenuto.api.page import Page
from tenuto.api.problems import MEDIA_TYPE, Problem
from tenuto.app.definitions import load_definition
from tenuto.app.loops import loop_factory
from tenuto.coordinator.commands import Commands
from tenuto.dsl.compile import Loaded
from tenuto.model.version import VERSION
from tenuto.ports.access import Authorize
from tenuto.ports.reads import Reads
from tenuto.runtime.logging import get_logger
from tenuto.views.answers import Answers

GRACE_S = 2
KEEP_ALIVE_S = 30
BACKLOG = 2_048
HEAD_MAX = 65_536
"""Bytes of a request's address and headers."""

T = TypeVar("T")
_log = get_logger("rest")


class Desk:
    """A thread with a loop of its own, for reading verbs. Started and stopped once."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._loop = (loop_factory() or asyncio.new_event_loop)()
        self._thread = threading.Thread(target=self._main, name="tenuto-reading", daemon=True)

    def start(self) -> None:
        """Take requests."""
        self._thread.start()

    async def read(self, verb: Callable[[Answers], Awaitable[T]]) -> T:
        """Run a verb there. A caller that is cancelled takes its verb with it."""
        asked = asyncio.run_coroutine_threadsafe(_awaited(verb, self._answers), self._loop)
        return await asyncio.wrap_future(asked)

    async def stop(self) -> None:
        """End what is under way, and the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left))
        finally:
            self._loop.close()


async def _awaited(verb: Callable[[Answers], Awaitable[T]], answers: Answers) -> T:
    return await verb(answers)


class Served(Protocol):
    """What is served: an engine of either shape."""

    @property
    def commands(self) -> Commands: ...
    @property
    def reads(self) -> Reads: ...
    @property
    def place(self) -> str:
        """The database, as people may see it."""
        ...

    async def readiness(self) -> Readiness:
        """How it stands, beside what a read of the store shows."""
        ...


class EngineBackend:
    """The `Backend` of an engine. Used on the engine's loop.

    Args:
        served: the engine.
        database: as commands must name it; empty for the one that they use anyway.
        environment: where `TENUTO_VAR_<NAME>` is looked up.
        is_open: who reaches it may know the database's place.
    """

    def __init__(
        self,
        served: Served,
        *,
        database: str,
        environment: Mapping[str, str],
        is_open: bool = True,
    ) -> None:
        self._served = served
        self._ids = Uuid7Ids()
        self._clock = SystemClock()
        self.environment = environment
        place = served.place
        self.about = About(
            version=VERSION,
            database=place,
            kind=place if is_open else place.partition(":")[0],
            pid=os.getpid(),
            started_at=self._clock.now(),
        )
        self._answers = Answers(
            reads=served.reads,
            now=self._clock.now,
            database=database,
            engine=str(os.getpid()),
        )
        self.desk = Desk(self._answers)

    @property
    def commands(self) -> Commands:
        """The engine's."""
        return self._served.commands

    async def readiness(self) -> Readiness:
        """The engine's."""
        return await self._served.readiness()

    async def read(self, verb: Callable[[Answers], Awaitable[T]]) -> T:
        """See `Desk`."""
        return await self.desk.read(verb)

    async def glance(self, verb: Callable[[Answers], Awaitable[T]]) -> T:
        """On the engine's loop."""
        return await verb(self._answers)

    async def compile(self, text: str | bytes, file: str) -> Loaded:
        """In the loop's pool."""
        return await asyncio.to_thread(load_definition, text, file=file)

    def incident(self) -> str:
        """The random end of a UUIDv7."""
        return str(self._ids.message_id())[-12:]


class RestService:
    """A service of the engine: REST on a socket that listens already (`listening.bind`).

    Args:
        database: as commands must name it.
        environment: where `TENUTO_VAR_<NAME>` is looked up.
        listening: called on the engine's loop once requests are answered.
        after: no request is answered before this is set; callers wait. None: at once.
        authorize: what a token grants; None: nobody is asked for one.
        grace_s: how long requests under way may take once the server stops; streams and waits end at once.
    """

    name = "rest"

    def __init__(  # noqa: PLR0913 - each is a choice of the caller's, by keyword
        self,
        engine: Served,
        bound: socket.socket,
        *,
        database: str,
        limits: Limits | None = None,
        page: Page | None = None,
        environment: Mapping[str, str] | None = None,
        listening: Callable[[], None] = lambda: None,
        after: asyncio.Event | None = None,
        authorize: Authorize | None = None,
        grace_s: int = GRACE_S,
    ) -> None:
        self.app: App | None = None
        self._engine = engine
        self._socket = bound
        self._database = database
        self._limits = limits or Limits()
        self._page = page
        self._environment = os.environ if environment is None else environment
        self._listening = listening
        self._after = after
        self._authorize = authorize
        self._grace_s = grace_s

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until told to stop; requests under way have their grace then."""
        if self._after is not None and not await _first(self._after, stopping):
            self._socket.close()
            return
        guarded = self._authorize is not None
        backend = EngineBackend(
            self._engine,
            database=self._database,
            environment=self._environment,
            is_open=not guarded,
        )
        app = self.app = make_app(
            backend, limits=self._limits, page=self._page, authorize=self._authorize
        )
        server = _Server(app, stopping, self._listening, app.stop_held, self._grace_s)
        _adopt_logs()
        backend.desk.start()
        try:
            async with beside(app.tell_changes(), "rest-changes"):
                await server.serve(sockets=[self._socket])
        finally:
            self._socket.close()
            await backend.desk.stop()


async def _first(wanted: asyncio.Event, stopping: asyncio.Event) -> bool:
    """Wait for the wanted event. False: the other one came first."""
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(event.wait()) for event in (wanted, stopping)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
    return wanted.is_set()


class _Server(uvicorn.Server):
    """Uvicorn as a part of a process: no signals, no ticking clock, ended by an event."""

    def __init__(
        self,
        app: Any,
        stopping: asyncio.Event,
        listening: Callable[[], None],
        end_held: Callable[[], None],
        grace_s: int,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Protocol,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=grace_s,
            )
        )
        self._stopping = stopping
        self._listening = listening
        self._end_held = end_held

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's own business."""
        yield

    async def main_loop(self) -> None:
        """Sleep until it is time to stop."""
        await self.on_tick(0)
        self._listening()
        await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what would never end by itself, then the rest."""
        self._end_held()
        await super().shutdown(sockets)


class _Protocol(HttpToolsProtocol):
    """Bounds what comes before a body, and says in our words what is no HTTP."""

    _size = 0

    def on_message_begin(self) -> None:
        """A new request."""
        self._size = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def _unsupported_upgrade_warning(self) -> None:
        """A client may ask for a websocket; it is answered as if it had not."""

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > HEAD_MAX:
            raise ValueError("the head is too large")  # makes the parser give up

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read, and hang up."""
        if self._size > HEAD_MAX:
            msg = f"address and headers have more than {HEAD_MAX:,} bytes"
        problem = Problem("bad_request", msg.rstrip("."))
        body = bytes(problem.response().body)
        head = (
            f"HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


class _Forward(logging.Handler):
    """What uvicorn has to say goes where our lines go."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a line on."""
        _log.warning("http_server_said", text=record.getMessage())


def _adopt_logs() -> None:
    for name, level in (("uvicorn.error", logging.WARNING), ("uvicorn.access", logging.CRITICAL)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [_Forward()]
        logger.propagate = False
        logger.setLevel(level)
