"""The way in: every request passes here before a route sees it, every answer on its way out.

In order: the host's name, the sender's site, the client's rate, the body's size while it streams. Whatever a route lets
escape is answered here, with an id that the log has too. Nothing is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from email.utils import formatdate
from time import monotonic

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenuto.api.guards import check_host, check_origin, check_text
from tenuto.api.limits import Limits, Rates
from tenuto.api.problems import Problem, problem_of
from tenuto.model.errors import TenutoError
from tenuto.runtime.logging import get_logger

UNLIMITED = frozenset({"/healthz", "/readyz"})
"""Whoever watches a server must not be the one that is turned away."""

_EVERYWHERE = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of every answer that does not say something else."""
_FRESH = (b"cache-control", b"no-store")
"""And of documents."""

_log = get_logger("rest")


class Door:
    """ASGI middleware around the whole app.

    Args:
        app: what is inside.
        limits: of clients and bodies.
        incident: a new id for an unexpected error.
        guarded: tokens are asked for inside, under whatever name the server is reached.
    """

    def __init__(
        self, app: ASGIApp, *, limits: Limits, incident: Callable[[], str], guarded: bool = False
    ) -> None:
        self._app = app
        self._limits = limits
        self._incident = incident
        self._guarded = guarded
        self._rates = Rates(limits.requests_per_second, limits.burst)
        self._date = _Date()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return  # no lifespan, no web sockets
        outgoing = _Outgoing(send, scope["path"].startswith("/v1"), self._date)
        try:
            # Of a name that comes twice the first counts.
            headers = {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in reversed(scope["headers"])
            }
            self._check(scope, headers)
            body = _Body(receive, self._limits.body)
            body.check_length(headers.get("content-length"))
            await self._app(scope, body.receive, outgoing.send)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the last handler: whatever it is becomes an answer
            known = problem_of(error) if isinstance(error, TenutoError) else None
            known = known or self._unexpected(scope, error)
            if outgoing.begun:
                return  # the connection is closed by the server: the client sees that it is incomplete
            await known.response()(scope, receive, outgoing.send)

    def _check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        check_text(scope["path"], scope["query_string"])
        server = scope.get("server")
        if not self._guarded:
            check_host(headers.get("host"), server[1] if server else None)
        check_origin(scope["method"], headers, guarded=self._guarded)
        client = scope.get("client")
        if scope["path"] in UNLIMITED:
            return
        wait = self._rates.take(client[0] if client else "")
        if wait:
            raise Problem(
                "rate_limited",
                f"more than {self._limits.requests_per_second} requests a second"
                f" (api.requests_per_second); try again in {wait} s",
                headers={"Retry-After": str(wait)},
            )

    def _unexpected(self, scope: Scope, error: Exception) -> Problem:
        incident = self._incident()
        _log.error(
            "request_failed",
            incident=incident,
            method=scope["method"],
            path=scope["path"],
            exc_info=error,
        )
        return Problem("internal", f"this is a bug in tenuto; the log says more under {incident}")


class _Body:
    """Counts what comes in. Raises Problem (payload_too_large) out of `receive`."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._size = 0

    def check_length(self, announced: str | None) -> None:
        """What is announced as too large is not read at all."""
        if announced is not None and announced.isascii() and announced.isdigit():
            self._refuse_beyond(int(announced[:20]), "")

    async def receive(self) -> Message:
        """The next part, counted."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._refuse_beyond(self._size, "at least ")
        return message

    def _refuse_beyond(self, size: int, about: str) -> None:
        if size > self._limit:
            raise Problem(
                "payload_too_large",
                f"the body has {about}{size:,} bytes; the limit is {self._limit:,} (api.body)",
                # The rest of it is not read, so nothing else can come on this connection.
                headers={"Connection": "close"},
            )


class _Outgoing:
    """Adds headers that every answer has."""

    def __init__(self, send: Send, is_api: bool, date: _Date) -> None:  # noqa: FBT001 - one caller
        self._send = send
        self._is_api = is_api
        self._date = date
        self.begun = False

    async def send(self, message: Message) -> None:
        """Pass a message on."""
        if message["type"] == "http.response.start":
            self.begun = True
            # As bytes: an object around them would cost more than all checks of a request.
            headers = message["headers"] = [
                each for each in message["headers"] if each[0] != b"date"
            ]
            known = {name for name, _ in headers}
            headers.append((b"date", self._date.text()))
            headers += [each for each in _EVERYWHERE if each[0] not in known]
            if self._is_api and _FRESH[0] not in known:
                headers.append(_FRESH)
        await self._send(message)


class _Date:
    """The header of RFC 9110, written once a second."""

    def __init__(self) -> None:
        self._text = b""
        self._until = 0.0

    def text(self) -> bytes:
        """Now, or less than a second ago."""
        now = monotonic()
        if now >= self._until:
            self._text, self._until = formatdate(usegmt=True).encode(), now + 1
        return self._text
