"""A TCP proxy that fails on demand: cuts, stalls, swallows, refuses, and cuts at a chosen moment of the traffic.

It runs in a thread with a loop of its own; every method may be called from anywhere, and has taken effect when it
returns. Connections made after `cut` are served again; the other faults last until `heal`.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import re
import socket
import threading
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from tests.support.backing.ports import free_port

CHUNK = 65_536
LINGER = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # on, 0 s: closing sends RST
COMMIT = b"COMMIT"
# PostgreSQL's Parse of a statement that is a whole commit; its Bind says nothing but this name.
COMMITTING = re.compile(rb"P.{4}([^\0]+)\0SELECT \* FROM tenuto_at_once_", re.DOTALL)
TAIL = 128
"""Bytes of what came before that are looked at once more: a pattern may come in two pieces."""


class Way(enum.Flag):
    """Directions of traffic."""

    UP = enum.auto()  # to the server
    DOWN = enum.auto()  # to the client
    BOTH = UP | DOWN


class Proxy:
    """Stands before one address; made by `start_proxy`. `with` closes it."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None
        self._flowing = {Way.UP: asyncio.Event(), Way.DOWN: asyncio.Event()}
        self._swallowed = Way(0)
        self._ending = asyncio.Event()
        self._ended = threading.Event()
        self._trap: _Trap | None = None

    # --- life ---

    def start(self) -> Self:
        """Listen on a free port of the loopback; nobody else gets it while `refuse` lasts."""
        for event in (*self._flowing.values(), self._ending):
            event.set()
        self._thread.start()
        for left in (2, 1, 0):
            self.port = free_port()
            try:
                self._call(self._listen())
            except OSError:  # somebody was quicker
                if left == 0:
                    self.close()
                    raise
            else:
                break
        return self

    def close(self) -> None:
        """End every connection and the thread."""
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """host:port of the proxy."""
        return f"127.0.0.1:{self.port}"

    def url(self, url: str) -> str:
        """The same URL, through the proxy."""
        parts = urlsplit(url)
        who, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{who}{at}{self.address}"))

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._links)

    # --- faults ---

    def cut(self) -> int:
        """Break every connection with RST, at once; answers how many."""
        count: int = self._call(self._cut())
        return count

    def refuse(self) -> None:
        """Break every connection and refuse new ones."""
        self._call(self._refuse())

    def stall(self, way: Way = Way.BOTH) -> None:
        """Forward nothing more; the bytes wait, and go on after `heal`."""
        self._call(self._stall(way))

    def black_hole(self, way: Way = Way.BOTH) -> None:
        """Swallow what comes, and break nothing: as a network that drops packets.

        Bytes in the middle are lost, so after `heal` only new connections make sense: `heal` cuts the old ones.
        """
        self._call(self._set(lambda: setattr(self, "_swallowed", way)))

    def hold_ends(self) -> threading.Event:
        """Pass on what the server says last, but not yet that it has closed; answers what is set once that was held."""
        self._call(self._set(self._ending.clear))
        return self._ended

    def heal(self) -> None:
        """Forward again, listen again; connections that lost bytes are cut."""
        self._call(self._heal())

    def cut_at(
        self,
        pattern: bytes,
        *,
        after: bool = False,
        answers: tuple[bytes, ...] = (b"",),
        times: int = 1,
    ) -> threading.Event:
        """Break the connection on which a client sends `pattern`: before it is forwarded, or once it was answered.

        `after`: the server gets the bytes and answers; the client never sees that answer. Where answers to what was
        sent earlier may still be on their way, `answers` says what the right one holds. Other connections go on. The
        event is set when it has happened `times` times; from then on everything passes.
        """
        trap = _Trap(pattern, answers if after else (), times)
        self._call(self._set(lambda: setattr(self, "_trap", trap)))
        return trap.sprung

    def cut_at_commit(self, *, after: bool = False, times: int = 1) -> threading.Event:
        """`cut_at` what commits, as PostgreSQL's clients send it: the word, or the call of a function that is all of a
        transaction. Answered is either when the server says that it is idle.
        """
        answers = (b"COMMIT\0", b"ROLLBACK\0", b"Z\0\0\0\5I")
        return self.cut_at(COMMIT, after=after, answers=answers, times=times)

    # --- on the proxy's loop ---

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _set(self, change: Callable[[], object]) -> None:
        change()

    async def _stall(self, way: Way) -> None:
        for one in way:
            self._flowing[one].clear()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _unlisten(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _cut(self) -> int:
        links = list(self._links)
        for link in links:
            link.reset()
        for link in links:
            await link.gone.wait()
        return len(links)

    async def _refuse(self) -> None:
        await self._unlisten()
        await self._cut()

    async def _heal(self) -> None:
        lossy = bool(self._swallowed)
        self._swallowed, self._trap = Way(0), None
        if lossy:
            await self._cut()
        for event in (*self._flowing.values(), self._ending):
            event.set()
        if self._server is None:
            await self._listen()

    async def _stop(self) -> None:
        await self._unlisten()
        await self._cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(reader, writer)
        self._links.add(link)
        try:
            await link.run(self)
        finally:
            self._links.discard(link)
            link.gone.set()

    async def passes(self, way: Way) -> bool:
        """Wait while this way is stalled; answers whether bytes are to be forwarded."""
        await self._flowing[way].wait()
        return way not in self._swallowed

    async def ends(self) -> None:
        """The server has closed: wait while that is held."""
        if not self._ending.is_set():
            self._ended.set()
            await self._ending.wait()

    def trap_for(self, before: bytes, data: bytes, calls: Collection[bytes] = ()) -> _Trap | None:
        """The trap that these bytes spring, with what came just before: a pattern must end in the new ones.

        `calls` commit as the word COMMIT does.
        """
        trap = self._trap
        if trap is None:
            return None
        patterns = (trap.pattern, *calls) if trap.pattern == COMMIT else (trap.pattern,)
        if not any(pattern in before[1 - len(pattern) :] + data for pattern in patterns):
            return None
        trap.left -= 1
        if trap.left <= 0:
            self._trap = None
        return trap


class _Trap:
    """Where to cut, and how often."""

    def __init__(self, pattern: bytes, answers: tuple[bytes, ...], times: int) -> None:
        self.pattern = pattern
        self.answers = answers
        """Empty: the connection is cut before the pattern is forwarded."""
        self.left = times
        self.sprung = threading.Event()

    def spring(self) -> None:
        if self.left <= 0:
            self.sprung.set()


class _Link:
    """One connection through the proxy: two pumps, which end together."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._client = (reader, writer)
        self._server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.gone = asyncio.Event()
        self._over = asyncio.Event()
        self._answer_cuts: _Trap | None = None  # the server's next bytes end this connection
        self._calls: set[bytes] = set()
        """How what commits by one call is called on it."""

    async def run(self, proxy: Proxy) -> None:
        try:
            self._server = await asyncio.open_connection(*proxy.target)
        except OSError:
            self._close()
            return
        up, down = self._pump(proxy, Way.UP), self._pump(proxy, Way.DOWN)
        pumps = {asyncio.ensure_future(one) for one in (up, down, self._over.wait())}
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.wait(pumps)
            self._close()

    async def _pump(self, proxy: Proxy, way: Way) -> None:
        assert self._server is not None
        reader = self._client[0] if way is Way.UP else self._server[0]
        writer = self._server[1] if way is Way.UP else self._client[1]
        tail = b""
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if not await proxy.passes(way):
                    continue
                if way is Way.UP:
                    trap = proxy.trap_for(tail, data, self._calls)
                    self._calls |= {
                        b"\0" + name + b"\0" for name in COMMITTING.findall(tail + data)
                    }
                    tail = (tail + data)[-TAIL:] if trap is None else b""
                    if trap is not None and not trap.answers:
                        self.reset()
                        trap.spring()
                        return
                    self._answer_cuts = trap or self._answer_cuts
                elif self._answer_cuts is not None and any(
                    answer in data for answer in self._answer_cuts.answers
                ):
                    self.reset()
                    self._answer_cuts.spring()
                    return
                writer.write(data)
                await writer.drain()
            if way is Way.DOWN:
                await proxy.ends()

    def reset(self) -> None:
        """Break both sides with RST."""
        for _, writer in filter(None, (self._client, self._server)):
            with contextlib.suppress(OSError):
                made = writer.get_extra_info("socket")
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
            writer.transport.abort()
        self._over.set()

    def _close(self) -> None:
        for _, writer in filter(None, (self._client, self._server)):
            writer.close()


def start_proxy(url: str) -> Proxy:
    """A proxy before the host and port of a URL."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return Proxy(parts.hostname, parts.port).start()
