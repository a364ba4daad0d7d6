"""The language server of an engine: started at the first `code` node, restarted when it dies, ended with the engine.

gRPC is loaded only then. The server is a session of its own, so that Ctrl-C reaches the engine alone; its input is a
pipe from here, whose end tells it that the engine is gone, whatever killed it. Not a client's protocol: that is
`languages.client`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from tenuto.app.scratch import Scratch
from tenuto.model.errors import Unavailable
from tenuto.ports.languages import Fault, Outcome, Output, Program, Say, Trouble
from tenuto.runtime.backoff import Backoff
from tenuto.runtime.logging import get_logger
from tenuto.settings.tree import Languages as Setting

if TYPE_CHECKING:
    from tenuto.languages.client import Client

START_S = 20.0
"""How long a server may take to listen; it takes some tenths of a second."""
_LEAVE_S = 2.0
_SECRET = "TENUTO_SECRET_"

_log = get_logger("languages")


@dataclass(slots=True)
class _Server:
    """A server of ours. `client` is None until it listens, which it must by `listens_until` of the loop's clock."""

    process: Process
    scratch: Scratch
    listens_until: float
    client: Client | None = None


class Languages:
    """The `Interpreter` of an engine. Belongs to the engine's loop.

    Args:
        setting: `languages.*`; with `server` set, nothing is started here.
        draw: chance for the back-off, in [0, 1).
        held: descriptors that the server must keep open: the database's lock.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        draw: Callable[[], float],
        held: Sequence[int] = (),
    ) -> None:
        self._setting = setting
        self._held = tuple(held)
        self._backoff = Backoff(draw)
        self._starting = asyncio.Lock()
        self._server: _Server | None = None
        self._remote: Client | None = None
        self._died = False

    async def run(self, program: Program, say: Say) -> Outcome:
        """Run one program on the server, which is started if none is there."""
        from tenuto.languages.client import Unreachable

        try:
            client = await self._client()
            outcome = await client.run(program, say)
        except Unavailable as error:
            return _unavailable(error)
        except Unreachable as error:
            await self._drop(client)
            return _unavailable(error)
        if isinstance(outcome, Output):
            self._backoff.reset()
        return outcome

    async def close(self) -> None:
        """End the server and all that it runs."""
        if self._remote is not None:
            await self._remote.close()
        async with self._starting:
            if self._server is not None:
                await self._end(self._server)
                self._server = None

    @property
    def pid(self) -> int | None:
        """The server's process id, while there is one of ours."""
        return None if self._server is None else self._server.process.pid

    async def _client(self) -> Client:
        if self._setting.server:
            if self._remote is None:
                from tenuto.languages.client import Client

                self._remote = Client(self._setting.server)
            return self._remote
        async with self._starting:
            if self._server is not None and self._server.process.returncode is not None:
                await self._bury(self._server)
            if self._server is None:
                if self._died:
                    self._died = False
                    await asyncio.sleep(self._backoff.next_us() / 1_000_000)
                self._server = await self._start()
            # Who waited before may have been cancelled: a start is not one attempt's, and outlasts it.
            return self._server.client or await self._listening(self._server)

    async def _drop(self, client: Client) -> None:
        """See a server of ours gone that does not answer, so that the next attempt gets another."""
        async with self._starting:
            if self._server is not None and self._server.client is client:
                await self._bury(self._server)

    async def _bury(self, server: _Server) -> None:
        self._server, self._died = None, True
        try:
            await _kill(server.process)
            _log.warning("language_server_died", code=server.process.returncode)
        finally:
            await self._end(server)

    async def _start(self) -> _Server:
        scratch = Scratch()
        setting = self._setting
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "tenuto.languages.server", str(scratch.folder)),
                *("--processes", str(setting.processes), "--memory", str(setting.memory)),
                *("--time_us", str(setting.time_us), "--output", str(setting.output)),
                *("--cpython", setting.cpython),
                stdin=PIPE,
                stdout=PIPE,
                env={k: v for k, v in os.environ.items() if not k.startswith(_SECRET)},
                pass_fds=(scratch.lock, *self._held),
                start_new_session=True,
            )
        except BaseException as error:
            scratch.remove()
            if isinstance(error, OSError):
                message = f"the language server cannot be started: {error.strerror}"
                raise Unavailable(message) from error
            raise
        return _Server(process, scratch, asyncio.get_running_loop().time() + START_S)

    async def _listening(self, server: _Server) -> Client:
        assert server.process.stdout is not None
        said = b""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(server.listens_until):
                said = await server.process.stdout.readline()
        if said != b"ready\n":
            await self._bury(server)
            raise Unavailable("the language server did not start; its last words are above")
        from tenuto.languages.client import Client

        server.client = Client(f"unix:{server.scratch.folder / 'socket'}")
        return server.client

    async def _end(self, server: _Server) -> None:
        try:
            if server.client is not None:
                await server.client.close()
            if server.process.stdin is not None:
                server.process.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await server.process.wait()
            await _kill(server.process)
        finally:
            server.scratch.remove()


def _unavailable(error: Exception) -> Fault:
    return Fault(trouble=Trouble.LANGUAGE_UNAVAILABLE, message=str(error), retryable=True)


async def _kill(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    await process.wait()


def serve_alone(port: int, setting: Setting, ready: Callable[[int], None]) -> NoReturn:
    """Be a language server on a loopback port until SIGTERM or SIGINT, and leave the process. `ready` is told the port.

    Raises:
        Conflict: the port is taken; says by whom.
    """
    from tenuto.app.listening import HOST, bind
    from tenuto.languages import server
    from tenuto.languages.setting import Setting as Told

    bind(port, option="--listen").close()  # gRPC itself would say less
    scratch = Scratch()
    told = Told(
        folder=scratch.folder,
        processes=setting.processes,
        memory=setting.memory,
        time_us=setting.time_us,
        output=setting.output,
        cpython=setting.cpython,
    )

    async def live() -> None:
        stop = asyncio.Event()
        server.stop_on_signals(stop)
        await server.serve(f"{HOST}:{port}", told, ready=ready, stop=stop)

    try:
        asyncio.run(live())
    except BaseException:
        scratch.remove()
        raise
    server.end_at_once(scratch.folder)
