"""What stands on the wire between a client and a server: addresses, paths, bodies, event streams; and pauses between
tries. Sends nothing.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx2

from tenuto.model.errors import InvalidInput, NotFound

_NO_TLS = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
RETRY_AFTER_MAX_S = 10.0
"""A server that wants more is asked again sooner: by then who waits has lost patience."""


def check_address(text: str) -> str:
    """An address as requests need it: `http://host:port`, with a path where a proxy has one. Raises InvalidInput."""
    try:
        parts = urlsplit(text.strip())
        port = parts.port
        httpx2.URL(text.strip())
    except (ValueError, httpx2.InvalidURL) as error:
        raise InvalidInput(f"{text!r} is no address: {error}", path="url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(
            f"{text!r} is no address of a server; write it like http://127.0.0.1:8080", path="url"
        )
    if parts.query or parts.fragment or port == 0:
        raise InvalidInput(f"{text!r} has more than an address; leave out the rest", path="url")
    return text.strip().rstrip("/").removesuffix("/v1")


class Calm:
    """Pauses between tries, longer each time; after `patience_s` the error is raised instead."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self.reset()

    def reset(self) -> None:
        """All is well again."""
        self._until: float | None = None
        self._pause_s = 0.1

    async def wait(self, error: Exception) -> None:
        """Pause, or raise `error`."""
        now = asyncio.get_running_loop().time()
        if self._until is None:
            self._until = now + self._patience_s
        if now + self._pause_s > self._until:
            raise error
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(1.0, self._pause_s * 2)


async def read_events(answer: httpx2.Response) -> AsyncIterator[tuple[str, str, str]]:
    """(event, data, id) of a text/event-stream; comments are signs of life."""
    data: list[str] = []
    event, number = "message", ""
    async for line in _lines(answer):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield event, "\n".join(data), number
            event, data, number = "message", [], ""
        elif name == "event":
            event = value
        elif name == "data":
            data.append(value)
        elif name == "id":
            number = value


async def _lines(answer: httpx2.Response) -> AsyncIterator[str]:
    """Lines as event streams end them: data may hold what other readers take for a line's end (U+2028)."""
    rest = b""
    async for chunk in answer.aiter_bytes():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")


def is_of_workers(reason: str) -> bool:
    """Whether HTTP/2 answered where HTTP/1 was spoken: gRPC, which is for workers."""
    return "illegal" in reason and any(each in reason for each in ("request line", "status line"))


def run_segment(text: str) -> str:
    """A run, as people name it, as one part of a path. Raises InvalidInput."""
    if not text.strip():
        raise InvalidInput("a run's id is empty")
    return segment(text.strip(), "run")


def segment(text: str, kind: str) -> str:
    """A name as one part of a path."""
    if not text:
        raise InvalidInput(f"the {kind}'s name is empty")
    if text in (".", "..") or ("/" in text and kind != "workflow"):  # an address would lose it
        raise NotFound(kind, text)
    return quote(text.encode("utf-8", "replace"), safe="")


def query(params: Mapping[str, object] | None) -> str:
    """As it stands behind a path, with its question mark; without what was not given."""
    kept = {name: value for name, value in (params or {}).items() if value not in (None, [])}
    return f"?{urlencode(kept, doseq=True, errors='replace', quote_via=quote)}" if kept else ""


def members(fields: Mapping[str, str]) -> str:
    """Of a JSON object, whose values are JSON texts already."""
    return ",".join(f"{json.dumps(name)}:{text}" for name, text in fields.items())


def body_of(fields: Mapping[str, str]) -> bytes:
    """A JSON object of members that are JSON texts already."""
    return f"{{{members(fields)}}}".encode()


def object_of(answer: httpx2.Response) -> dict[str, Any] | None:
    """The JSON object that an answer is, None if it is none."""
    if "json" not in answer.headers.get("content-type", ""):
        return None
    try:
        document = json.loads(answer.content)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def drawn(what: str) -> str:
    """A key of the request's own."""
    return f"{what}-{secrets.token_hex(12)}"


def retry_after(answer: httpx2.Response) -> float:
    """Seconds until the server wants to be asked again."""
    text = answer.headers.get("retry-after", "")
    wanted = float(text) if text.isascii() and text.isdecimal() else 1.0
    return min(wanted, RETRY_AFTER_MAX_S) or 0.1


def reason_of(error: Exception) -> str:
    """What an error says, or is."""
    return str(error) or type(error).__name__


def is_unknown_name(error: BaseException | None) -> bool:
    """Whether it was a host's name that could not be looked up."""
    while error is not None:
        if isinstance(error, socket.gaierror):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_without_tls(reason: str) -> bool:
    """Whether who answered spoke plain HTTP; versions of OpenSSL tell it in different words."""
    return any(word in reason for word in _NO_TLS)


def is_loopback(url: str) -> bool:
    """Whether it is this very machine."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def trust(url: str) -> ssl.SSLContext:
    """Reading the system's certificates takes a moment, which plain HTTP does not need."""
    if url.startswith("https:"):
        return ssl.create_default_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
