"""A server that answers what a test says, byte by byte: for clients of servers that misbehave."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tenuto.model.version import VERSION

HEALTH = {"status": "ok", "version": VERSION, "database": "", "pid": 1, "url": ""}


@dataclass(frozen=True)
class Asked:
    """A request as it came. Header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = bytes | None
"""None: the connection is cut without one."""
Script = Callable[[Asked, int], Answer]
"""From a request, and how many came before it with its path, to its answer."""


@dataclass
class Scripted:
    """`asked` is what came, without the greetings of clients."""

    url: str
    asked: list[Asked] = field(default_factory=list)

    def paths(self) -> list[str]:
        return [each.path for each in self.asked]


def answer(status: int, document: object, **headers: str) -> bytes:
    """A JSON answer. `Retry_After` is the header Retry-After."""
    kind = "application/problem+json" if status >= 400 else "application/json"
    return raw(status, json.dumps(document).encode(), Content_Type=kind, **headers)


def raw(status: int, body: bytes = b"", **headers: str) -> bytes:
    """Any answer; the connection closes behind it."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def stream(events: Sequence[bytes]) -> bytes:
    """The begin of an event stream, cut behind the last."""
    return b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\n\r\n" + b"".join(events)


def event(name: str, document: object, id: int | None = None) -> bytes:
    """One event of a stream, its text as orjson writes it: unescaped."""
    head = b"" if id is None else b"id: %d\n" % id
    data = json.dumps(document, ensure_ascii=False).encode()
    return head + b"event: %s\ndata: %s\n\n" % (name.encode(), data)


def problem(status: int, code: str, detail: str, **more: object) -> bytes:
    return answer(status, {"title": "t", "status": status, "code": code, "detail": detail, **more})


@contextmanager
def scripted(script: Script, *, health: object = HEALTH) -> Iterator[Scripted]:
    """Serve by a script; greetings are answered with `health`, unless that is None."""
    made = Scripted("")

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            try:
                self._exchange()
            except OSError:
                return  # a client that has left

        def _exchange(self) -> None:
            line = self.rfile.readline().decode().split()
            if len(line) != 3:
                return
            headers: dict[str, str] = {}
            while text := self.rfile.readline().decode().strip():
                name, _, value = text.partition(":")
                headers[name.lower()] = value.strip()
            body = self.rfile.read(int(headers.get("content-length", "0")))
            asked = Asked(line[0], line[1], headers, body)
            if asked.path == "/v1/health" and health is not None:
                self.wfile.write(answer(200, health))
                return
            before = sum(each.path == asked.path for each in made.asked)
            made.asked.append(asked)
            found = script(asked, before)
            if found is not None:
                self.wfile.write(found)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Told by the test's own assertions."""

    with Server(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
