"""REST over the embedded engine: the backend that `api` asks for, and the server on the engine's own loop.

The server parses requests and streams answers on the engine's loop, next to the commands; what has to be worked out for
reading (a report of a large run, a picture) is done by `Desk`, on a thread with a loop of its own, so that no reader
holds up leases. Compiling and checking inputs use the loop's pool.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.api.app import App, make_app
from tenuto.api.backend import About
from tenuto.api.held import beside
from tenuto.api.limits import Limits
from tenuto.api.page import Page
from tenuto.api.problems import MEDIA_TYPE, Problem
from tenuto.app.definitions import load_definition
from tenuto.coordinator.commands import Commands
from tenuto.dsl.compile import Loaded
from tenuto.model.version import VERSION
from tenuto.runtime.logging import get_logger
from tenuto.views.answers import Answers

if TYPE_CHECKING:
    from tenuto.app.embedded import Engine

GRACE_S = 2
"""How long requests under way may take once the server stops; streams and waits end at once."""
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
        self._loop = asyncio.new_event_loop()
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


class EngineBackend:
    """The `Backend` of an embedded engine. Used on the engine's loop."""

    def __init__(self, engine: Engine, *, database: str, environment: Mapping[str, str]) -> None:
        self._engine = engine
        self._ids = Uuid7Ids()
        self._clock = SystemClock()
        self.environment = environment
        self.about = About(
            version=VERSION,
            database=engine.place,
            pid=os.getpid(),
            started_at=self._clock.now(),
        )
        self.desk = Desk(
            Answers(
                reads=engine.reads,
                now=self._clock.now,
                database=database,
                engine=str(os.getpid()),
            )
        )

    @property
    def commands(self) -> Commands:
        """The engine's."""
        return self._engine.commands

    def trouble(self) -> str | None:
        """Whether its file is still there."""
        return self._engine.file_trouble()

    async def read(self, verb: Callable[[Answers], Awaitable[T]]) -> T:
        """See `Desk`."""
        return await self.desk.read(verb)

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
    """

    name = "rest"

    def __init__(
        self,
        engine: Engine,
        bound: socket.socket,
        *,
        database: str,
        limits: Limits | None = None,
        page: Page | None = None,
        environment: Mapping[str, str] | None = None,
        listening: Callable[[], None] = lambda: None,
        after: asyncio.Event | None = None,
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

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until told to stop; requests under way have `GRACE_S` then."""
        if self._after is not None and not await _first(self._after, stopping):
            self._socket.close()
            return
        backend = EngineBackend(
            self._engine, database=self._database, environment=self._environment
        )
        app = self.app = make_app(backend, limits=self._limits, page=self._page)
        server = _Server(app, stopping, self._listening, app.stop_held)
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
                timeout_graceful_shutdown=GRACE_S,
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
