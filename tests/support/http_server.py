"""A real HTTP server in a thread for tests of the client side. Paths choose what it does."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast


@dataclass(frozen=True)
class Seen:
    """A request as it came. Header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """The server's address and what it has seen."""

    url: str
    seen: list[Seen] = field(default_factory=list)
    go: threading.Event = field(default_factory=threading.Event)
    other: str = ""
    """Another origin, for redirects to elsewhere."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        site = cast("_Server", self.server).site
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): text for name, text in self.headers.items()}
        site.seen.append(Seen(self.command, self.path, headers, body))
        route = self.path.partition("?")[0].strip("/").split("/")
        match route:
            case ["status", code]:
                self._answer(int(code), b'{"why": "asked"}')
            case ["retry", code, after]:
                self._answer(int(code), b"", {"Retry-After": after.replace("_", " ")})
            case ["echo"]:
                text = json.dumps({"headers": headers, "body": body.decode()})
                self._answer(200, text.encode())
            case ["text", *_]:
                self._answer(200, "grüße".encode(), {"Content-Type": "text/plain; charset=utf-8"})
            case ["latin"]:
                kind = {"Content-Type": "text/plain; charset=iso-8859-1"}
                self._answer(200, "grüße".encode("latin-1"), kind)
            case ["bytes"]:
                self._answer(200, b"\xff\xfe\x00", {"Content-Type": "application/octet-stream"})
            case ["json", "broken"]:
                self._answer(200, b'{"half": ')
            case ["json", "nul"]:
                self._answer(200, b'{"a": "\\u0000"}')
            case ["json", "marked"]:
                self._answer(200, b'\xef\xbb\xbf{"a": 1}')
            case ["charset", name]:
                self._answer(200, b"-99999", {"Content-Type": f"text/plain; charset={name}"})
            case ["surrogate"]:
                self._answer(200, b"+2AA-", {"Content-Type": "text/plain; charset=utf-7"})
            case ["json", "problem"]:
                self._answer(200, b'{"a": 1}', {"Content-Type": "application/problem+json"})
            case ["empty"]:
                self._answer(204, b"")
            case ["large", size]:
                self._answer(200, b"x" * int(size), {"Content-Type": "text/plain"})
            case ["bomb"]:
                data = gzip.compress(b"x" * 50_000_000)
                kind = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
                self._answer(200, data, kind)
            case ["endless"]:
                self._endless(site)
            case ["hang"]:
                site.go.wait(30)
                self.close_connection = True
            case ["slow"]:
                self._slow(site)
            case ["cut"]:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
            case ["garbage"]:
                self.wfile.write(b"this is no HTTP\r\n\r\n")
                self.close_connection = True
            case ["to", code, *rest]:
                self._answer(int(code), b"", {"Location": "/" + "/".join(rest)})
            case ["away", code, *rest]:
                self._answer(int(code), b"", {"Location": f"{site.other}/{'/'.join(rest)}"})
            case ["loop"]:
                self._answer(302, b"", {"Location": "/loop"})
            case ["cookie"]:
                self._answer(200, b"{}", {"Set-Cookie": "session=hidden"})
            case _:
                self._answer(404, b"{}")

    do_GET = do_POST = _handle  # noqa: N815  the library's names
    do_HEAD = do_OPTIONS = _handle  # noqa: N815

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _endless(self, site: Site) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.close_connection = True
        while not site.go.is_set():
            self.wfile.write(b"x" * 65_536)

    def _slow(self, site: Site) -> None:
        """One byte, and then nothing for a long time."""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"x")
        self.wfile.flush()
        site.go.wait(30)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.site = Site(f"http://127.0.0.1:{self.server_port}")

    def handle_error(self, request: object, client_address: Any) -> None:
        """Clients that go away in the middle are what is being tested."""


@contextmanager
def a_site() -> Iterator[Site]:
    """A server for the length of a test."""
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.site
    finally:
        server.site.go.set()
        server.shutdown()
        thread.join()
        server.server_close()
