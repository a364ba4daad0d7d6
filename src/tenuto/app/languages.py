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
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from tenuto.app.scratch import Scratch
from tenuto.model.errors import TenutoError, Unavailable
from tenuto.ports.access import Authorize
from tenuto.ports.languages import Fault, Outcome, Output, Program, Say, Trouble
from tenuto.runtime.backoff import Backoff
from tenuto.runtime.logging import get_logger
from tenuto.runtime.service import pause
from tenuto.settings.tree import Languages as Setting

if TYPE_CHECKING:
    from tenuto.languages.client import Client
    from tenuto.worker.launching import Piped

Spawn = Callable[[Sequence[str], Sequence[int], Collection[str]], "Awaitable[Process | Piped]"]
"""Starts a command with pipes to and from it; it keeps some descriptors open, and lacks some variables."""
START_S = 20.0
"""How long a server may take to listen; it takes some tenths of a second."""
_LEAVE_S = 2.0
WAIT_S = 30.0
"""How long an attempt waits for a server elsewhere that is away: long enough for its restart."""
_SHARE = 0.9
"""Of an attempt's own time: what is left is for saying what it has waited for."""
_LOSSES_MAX = 3
"""So often one attempt may lose its server: code that ends servers must not end them for ever."""
_SAY_S = 1.0
"""A server is away for so long before that is worth a line."""
_SECRET = "TENUTO_SECRET_"

_log = get_logger("languages")


@dataclass(slots=True)
class _Server:
    """A server of ours. `client` is None until it listens, which it must by `listens_until` of the loop's clock."""

    process: Process | Piped
    scratch: Scratch
    listens_until: float
    client: Client | None = None


class Watch:
    """Watches a language server elsewhere, as a service."""

    name = "languages"

    def __init__(self, languages: Languages) -> None:
        self._languages = languages

    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping` is set."""
        await self._languages.watch(stopping)


class Languages:
    """The `Interpreter` of an engine. Belongs to the engine's loop.

    Args:
        setting: `languages.*`; with `server` set, nothing is started here.
        draw: chance for the back-off, in [0, 1).
        held: descriptors that the server must keep open: the database's lock.
        token: what a server elsewhere is shown.
        spawn: how its process is started; None: as asyncio does it.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        draw: Callable[[], float],
        held: Sequence[int] = (),
        token: Callable[[], str | None] = lambda: None,
        spawn: Spawn | None = None,
    ) -> None:
        self._setting = setting
        self._token = token
        self._spawn = spawn or _spawn
        self._held = tuple(held)
        self._draw = draw
        self._backoff = Backoff(draw)
        self._starting = asyncio.Lock()
        self._server: _Server | None = None
        self._remote: Client | None = None
        self._is_away = False
        self._died = False

    async def run(self, program: Program, say: Say) -> Outcome:
        """Run one program on the server, which is started if none is there; one elsewhere is waited for."""
        if self._setting.server:
            return await self._run_elsewhere(program, say)
        from tenuto.languages.client import Unreachable

        try:
            client = await self._client()
            outcome = await client.run(program, say)
        except TenutoError as error:  # no server of ours
            return _unavailable(error)
        except Unreachable as error:
            await self._drop(client)
            return _unavailable(error)
        if isinstance(outcome, Output):
            self._backoff.reset()
        return outcome

    async def watch(self, stopping: asyncio.Event) -> None:
        """Say when a server elsewhere is away, at the start too, and when it is there again."""
        while await pause(stopping, int(_SAY_S * 1_000_000)):
            if self._elsewhere().is_there():
                self._tell(away=False)
            # Once more after a while: it may be connecting, or be restarted within a moment.
            elif await pause(stopping, int(_SAY_S * 1_000_000)):
                self._tell(away=not self._elsewhere().is_there())

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

    async def _run_elsewhere(self, program: Program, say: Say) -> Outcome:
        """Run one program on a server that is not ours. While it is away that is no failure of the program's."""
        own_s = WAIT_S if program.time_us is None else program.time_us / 1_000_000 * _SHARE
        wait_s = min(WAIT_S, own_s)
        # From here on: gRPC is loaded in the attempt's time, too.
        until = asyncio.get_running_loop().time() + wait_s
        from tenuto.languages.client import Unreachable

        client = self._elsewhere()
        for loss in range(1, _LOSSES_MAX + 1):
            if not await self._is_there(client, until):
                message = (
                    f"no language server answers at {self._setting.server}, for {wait_s:.3g} s now;"
                    " start one: tenuto language-server"
                )
                return _unavailable(Unavailable(message))
            try:
                return await client.run(program, say)
            except TenutoError as error:  # no token to show
                return _unavailable(error)
            except Unreachable as error:
                _log.debug("language_server_lost", task_id=program.id, reason=str(error))
                if loss == _LOSSES_MAX:
                    message = f"the language server at {self._setting.server} ended while the code ran, {loss} times"
                    return _unavailable(Unavailable(message))
        raise AssertionError("unreachable")

    async def _is_there(self, client: Client, until: float) -> bool:
        """Wait for a server elsewhere."""
        loop = asyncio.get_running_loop()
        backoff = Backoff(self._draw, initial_us=5_000, max_us=500_000)
        say_at = min(loop.time() + _SAY_S, until)
        while not client.is_there():
            now = loop.time()
            if now >= say_at:
                self._tell(away=True)
            if now >= until:
                return False
            await asyncio.sleep(min(until - now, backoff.next_us() / 1_000_000))
        self._tell(away=False)
        return True

    def _tell(self, *, away: bool) -> None:
        """Each change is worth one line."""
        if away is not self._is_away:
            self._is_away = away
            if away:
                _log.warning("language_server_away", server=self._setting.server)
            else:
                _log.info("language_server_back", server=self._setting.server)

    def _elsewhere(self) -> Client:
        if self._remote is None:
            from tenuto.languages.client import Client

            self._remote = Client(self._setting.server, self._token)
        return self._remote

    async def _client(self) -> Client:
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
            process = await self._spawn(
                [
                    *(sys.executable, "-P", "-m", "tenuto.languages.server", str(scratch.folder)),
                    *("--processes", str(setting.processes), "--memory", str(setting.memory)),
                    *("--time_us", str(setting.time_us), "--output", str(setting.output)),
                    *("--cpython", setting.cpython),
                ],
                (scratch.lock, *self._held),
                [name for name in os.environ if name.startswith(_SECRET)],
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


async def _spawn(argv: Sequence[str], kept: Sequence[int], unset: Collection[str]) -> Process:
    return await asyncio.create_subprocess_exec(
        *argv,
        stdin=PIPE,
        stdout=PIPE,
        env={name: text for name, text in os.environ.items() if name not in unset},
        pass_fds=kept,
        start_new_session=True,
    )


async def _kill(process: Process | Piped) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    await process.wait()


def serve_alone(
    host: str, port: int, setting: Setting, ready: Callable[[int], None], authorize: Authorize
) -> NoReturn:
    """Be a language server until SIGTERM or SIGINT, and leave the process. `ready` is told the port.

    Raises:
        Conflict: the port is taken; says by whom.
    """
    from tenuto.app.listening import bind
    from tenuto.languages import server
    from tenuto.languages.setting import Setting as Told

    bind(port, host=host, option="--listen").close()  # gRPC itself would say less
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
        address = f"{host}:{port}"
        await server.serve(address, told, ready=ready, stop=stop, authorize=authorize)

    try:
        asyncio.run(live())
    except BaseException:
        scratch.remove()
        raise
    server.end_at_once(scratch.folder)
