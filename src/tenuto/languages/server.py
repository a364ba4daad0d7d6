"""The language server: `Execute` over gRPC, on a socket of its own engine's or on a loopback port.

As an engine's child it ends with it: when its input ends it kills every interpreter, and only then itself, so that the
lock of the database, which it inherits, is free only when nothing of a dead engine's runs any more. Alone it may ask
for a token; who may come in is the caller's to say. Not a place for rules: those are `service`'s.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import grpc
import grpc.aio

from tenuto.languages.service import CONFINEMENT, Languages
from tenuto.languages.setting import OFF, RESTRICTED, Setting
from tenuto.model.errors import Denied
from tenuto.ports.access import Authorize, everybody
from tenuto.ports.languages import Outcome, Output, Program
from tenuto.proto.language.v1 import language_pb2 as pb
from tenuto.proto.language.v1 import language_pb2_grpc as rpc

MESSAGE_MAX = 256 * 2**20
OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_MAX),
    ("grpc.max_send_message_length", MESSAGE_MAX),
    ("grpc.so_reuseport", 0),
)
_LINES_MAX = 500
"""In one message."""


class Servicer(rpc.LanguageServicer):
    """Executes programs that come over the wire."""

    def __init__(self, languages: Languages, authorize: Authorize = everybody) -> None:
        self._languages = languages
        self._authorize = authorize

    async def Execute(  # noqa: N802 - the service's word
        self,
        request: pb.ExecuteRequest,
        context: grpc.aio.ServicerContext[pb.ExecuteRequest, pb.ExecuteReply],
    ) -> None:
        """One program. A cancelled call is a cancelled task: the interpreter is killed."""
        try:
            self._authorize(_shown(context))
        except Denied as error:
            denied = (
                grpc.StatusCode.PERMISSION_DENIED
                if error.known
                else grpc.StatusCode.UNAUTHENTICATED
            )
            await context.abort(denied, str(error))
        printed: list[pb.Line] = []
        news = asyncio.Event()
        outcomes: list[Outcome] = []

        def say(stderr: bool, line: str) -> None:  # noqa: FBT001 - the port's shape
            stream = pb.STREAM_STDERR if stderr else pb.STREAM_STDOUT
            printed.append(pb.Line(stream=stream, text=_clean(line)))
            news.set()

        async def work() -> None:
            outcomes.append(await self._languages.run(_program(request), say))
            news.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(work())
            while printed or not outcomes:
                if not printed:
                    await news.wait()
                news.clear()
                lines = printed[:_LINES_MAX]
                del printed[:_LINES_MAX]
                if lines:
                    await context.write(pb.ExecuteReply(lines=pb.Lines(lines=lines)))
        result = _result(outcomes[0], CONFINEMENT.get(request.language, ""))
        await context.write(pb.ExecuteReply(result=result))


def _shown(context: grpc.aio.ServicerContext[pb.ExecuteRequest, pb.ExecuteReply]) -> str | None:
    """The token that comes with a call."""
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and isinstance(value, str):
            return value.removeprefix("Bearer ")
    return None


def _program(request: pb.ExecuteRequest) -> Program:
    limits = request.limits
    return Program(
        id=request.id,
        language=request.language,
        code=request.code,
        params=request.params,
        time_us=max(limits.time_ms, 0) * 1_000 or None,
        memory=max(limits.memory_bytes, 0) or None,
        output=max(limits.output_bytes, 0) or None,
    )


def _result(outcome: Outcome, confinement: str) -> pb.Result:
    result = pb.Result(confinement=confinement, lines_dropped=outcome.dropped)
    if isinstance(outcome, Output):
        result.output = outcome.text
    else:
        result.failure.code = outcome.trouble
        result.failure.message = _clean(outcome.message)
        result.failure.details = outcome.details
        result.failure.retryable = outcome.retryable
    return result


def _clean(text: str) -> str:
    """Text that protobuf can hold."""
    return text.encode("utf-8", "replace").decode()


async def serve(
    address: str,
    setting: Setting,
    *,
    ready: Callable[[int], None],
    stop: asyncio.Event,
    authorize: Authorize = everybody,
) -> None:
    """Serve until `stop` is set. `address`: `unix:PATH` or `HOST:PORT`. `ready` is told the port.

    Raises:
        OSError: nothing can listen there.
    """
    languages = Languages(setting)
    server = grpc.aio.server(options=OPTIONS)
    rpc.add_LanguageServicer_to_server(Servicer(languages, authorize), server)  # type: ignore[no-untyped-call]
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise OSError(f"{address} cannot be listened on") from error
    await server.start()
    try:
        ready(port)
        await stop.wait()
    finally:
        await server.stop(0)
        await languages.close()


def stop_on_signals(stop: asyncio.Event) -> None:
    """SIGTERM and SIGINT end the server in order."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


def _end_with_input(folder: Path) -> None:
    """Wait for the end of the input: the engine is gone. A thread, so that nothing else can delay it."""
    while os.read(0, 4096):
        pass
    end_at_once(folder)


def end_at_once(folder: Path) -> NoReturn:
    """Kill every child, and leave nothing."""
    for pid in children():
        try:
            os.kill(pid, signal.SIGKILL)
            if os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
        except OSError:
            continue
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _keep_to_ourselves() -> None:
    """What was inherited, the locks among it, goes to no interpreter: not every starter of processes closes it."""
    for handle in Path("/dev/fd").iterdir():
        with suppress(OSError):  # the one of this listing is closed by now
            if int(handle.name) > 2:
                os.set_inheritable(int(handle.name), False)


def children() -> list[int]:
    """Process ids of this process's children."""
    found: list[int] = []
    for thread in Path("/proc/self/task").glob("*/children"):
        try:
            found += map(int, thread.read_text().split())
        except OSError:
            continue
    return found


def main(words: list[str] | None = None) -> None:
    """The command line of an engine's child. Says `ready` on its output once it listens."""
    parser = argparse.ArgumentParser(prog="python -m tenuto.languages.server")
    parser.add_argument("folder", type=Path, help="private directory; the socket is made in it")
    for name in ("processes", "memory", "time_us", "output"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--cpython", choices=(RESTRICTED, OFF), default=RESTRICTED)
    setting = Setting(**vars(parser.parse_args(words)))
    _keep_to_ourselves()
    threading.Thread(target=_end_with_input, args=(setting.folder,), daemon=True).start()
    tempfile.tempdir = str(setting.folder)
    try:
        asyncio.run(_main(setting))
    finally:
        end_at_once(setting.folder)


async def _main(setting: Setting) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)

    def ready(_port: int) -> None:
        sys.stdout.write("ready\n")
        sys.stdout.flush()

    await serve(f"unix:{setting.folder / 'socket'}", setting, ready=ready, stop=stop)


if __name__ == "__main__":
    main()
