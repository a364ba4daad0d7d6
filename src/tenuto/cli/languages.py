"""`tenuto language-server`: one language server alone, for engines of this machine. Its rules are `languages`'s."""

from __future__ import annotations

import sys

from tenuto.cli.console import say
from tenuto.model.errors import InvalidInput
from tenuto.settings import load

LOOPBACK = ("127.0.0.1", "localhost")


def serve_languages(listen: str) -> int:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        InvalidInput: no address, or one that others can reach.
        Conflict: the port is taken.
    """
    from tenuto.app.languages import serve_alone

    port = _port(listen)
    setting = load().languages

    def ready(port: int) -> None:
        time, memory = setting.time_us / 1_000_000, setting.memory / 2**20
        say(f"language server on 127.0.0.1:{port}; Ctrl-C ends it")
        say("python, javascript: separate interpreters, without access to this machine")
        say(f"cpython: {setting.cpython}")
        say(f"each execution: {time:g} s (or its node's timeout), {memory:g} MiB")
        sys.stdout.flush()

    serve_alone(port, setting, ready)


def _port(listen: str) -> int:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InvalidInput(f"{listen!r} is no address; write 127.0.0.1:50061", path="--listen")
    if host not in LOOPBACK:
        raise InvalidInput(
            f"{host or 'every address'} can be reached by others, and whoever reaches a language"
            f" server runs code on it; it has no authentication yet: use 127.0.0.1:{port}",
            path="--listen",
        )
    return int(port)
