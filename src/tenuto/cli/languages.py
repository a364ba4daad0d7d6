"""`tenuto language-server`: one language server alone, for engines and workers. Its rules are `languages`'s."""

from __future__ import annotations

import sys

from tenuto.cli.console import say
from tenuto.model.errors import InvalidInput
from tenuto.settings import load


def serve_languages(listen: str) -> int:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        InvalidInput: no address, or one that others can reach while there is no secret to tell them apart by.
        Conflict: the port is taken.
    """
    from tenuto.app.access import door_of, must_be_guarded
    from tenuto.app.languages import serve_alone
    from tenuto.ports.access import Scope, everybody

    host, port = _address(listen)
    settings = load()
    setting = settings.languages
    door = door_of(settings.auth, Scope.WORKER)
    must_be_guarded([("--listen", host)], guarded=door is not None)

    def ready(port: int) -> None:
        time, memory = setting.time_us / 1_000_000, setting.memory / 2**20
        say(f"language server on {host}:{port}; Ctrl-C ends it")
        say("python, javascript: separate interpreters, without access to this machine")
        say(f"cpython: {setting.cpython}")
        say(f"each execution: {time:g} s (or its node's timeout), {memory:g} MiB")
        if door is not None:
            say("asks for a token of scope worker or admin")
        sys.stdout.flush()

    serve_alone(host, port, setting, ready, door or everybody)


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not (colon and host) or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InvalidInput(f"{listen!r} is no address; write 127.0.0.1:50061", path="--listen")
    return host, int(port)
