"""`tenuto server`: the process around `app.server`: its log lines, its signals, its end. Decides nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping

from tenuto import web
from tenuto.api.page import Page
from tenuto.app.loops import run
from tenuto.app.server import Listening, Server
from tenuto.cli.console import Lines, notes
from tenuto.model.version import VERSION
from tenuto.runtime.logging import get_logger
from tenuto.settings import load

_log = get_logger("server")


def serve(flags: Mapping[str, object], *, upgrade: bool) -> int:
    """Serve until SIGTERM or Ctrl-C, then drain; the exit code. A second signal ends it at once: nothing is lost."""
    settings = load(flags)
    Lines(notes()).install(settings.log.level, as_json=settings.log.format == "json")
    page = Page(files=web.files(), routes=web.ROUTES, headers=web.HEADERS)
    server = Server(settings, page=page, upgrade=upgrade)
    run(_live(server))
    _log.info("stopped")
    return 0


async def _live(server: Server) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def heed(number: int) -> None:
        if stop.is_set():
            os.write(2, b"\nstopped at once; other servers, or the next one, go on\n")
            os._exit(128 + number)
        _log.info("stopping", reason=signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, heed, number)
    await server.run(stop, _say)


def _say(listening: Listening) -> None:
    _log.info(
        "serving",
        url=listening.url,
        workers=listening.workers,
        database=listening.database,
        dispatch=listening.dispatch,
        tokens="wanted" if listening.guarded else "none: only this machine reaches it",
        pid=os.getpid(),
        version=VERSION,
    )
