"""A proxy before a gRPC server that knows HTTP/2 frames, so that a stream can be cut at any message.

In the test's own loop. Counts frames of data in each direction over all connections; at the one it was told, it cuts
the connection (before passing it on, or after), or lets this and all later ones vanish, as a network does that drops
packets. Not for anything but cleartext.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from enum import Enum

_PREFACE = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_DATA = 0
_RESET = struct.pack("ii", 1, 0)


class Way(Enum):
    """Directions."""

    UP = "to the server"
    DOWN = "to the worker"


class Fault(Enum):
    """What happens at the chosen message."""

    BEFORE = "cut before it is passed on"
    AFTER = "cut once it is passed on"
    VANISH = "it and all that comes after vanish, in both directions"
    VANISH_WAY = "it and all that comes after in its direction vanish"


class Frames:
    """The proxy. `port`: where it listens. `messages`: how many passed, by direction."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.messages = {Way.UP: 0, Way.DOWN: 0}
        self.struck = asyncio.Event()
        self._fault: tuple[Way, int, Fault] | None = None
        self._server: asyncio.Server | None = None
        self._lines: set[_Line] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        while self._lines:  # noqa: ASYNC110 - each ends by itself, and nobody else waits
            await asyncio.sleep(0.005)

    def cut(self) -> None:
        """All connections, at once."""
        for line in list(self._lines):
            line.cut()

    def strike(self, fault: Fault, way: Way = Way.DOWN, number: int = 1) -> None:
        """At the `number`-th further message in that direction, once."""
        self._fault = (way, self.messages[way] + number, fault)
        self.struck.clear()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Known before its task begins: one that never does would be closed by nobody.
        line = _Line(self, writer)
        self._lines.add(line)
        line.task = asyncio.get_running_loop().create_task(self._serve(line, reader))

    async def _serve(self, line: _Line, reader: asyncio.StreamReader) -> None:
        try:
            await line.run(reader)
        finally:
            self._lines.discard(line)

    def passing(self, way: Way) -> Fault | None:
        """A message passes: what is to happen to it?"""
        self.messages[way] += 1
        if self._fault is None or self._fault[:2] != (way, self.messages[way]):
            return None
        fault = self._fault[2]
        self._fault = None
        self.struck.set()
        return fault


class _Line:
    """One connection."""

    def __init__(self, proxy: Frames, client: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._writers = [client]
        self._vanished: set[Way] = set()
        self.task: asyncio.Task[None]

    async def run(self, reader: asyncio.StreamReader) -> None:
        try:
            up, writer = await asyncio.open_connection("127.0.0.1", self._proxy.target)
        except OSError:
            self.cut()
            return
        self._writers.append(writer)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pump(Way.UP, reader, writer))
            group.create_task(self._pump(Way.DOWN, up, self._writers[0]))

    async def _pump(
        self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            if way is Way.UP:
                writer.write(await reader.readexactly(_PREFACE))
            while True:
                head = await reader.readexactly(9)
                size = int.from_bytes(head[:3], "big")
                frame = head + await reader.readexactly(size)
                fault = self._proxy.passing(way) if head[3] == _DATA and size else None
                if fault is Fault.BEFORE:
                    break
                if fault is Fault.VANISH:
                    self._vanished |= set(Way)
                elif fault is Fault.VANISH_WAY:
                    self._vanished.add(way)
                if way not in self._vanished:
                    writer.write(frame)
                    await writer.drain()
                if fault is Fault.AFTER:
                    await asyncio.sleep(0.01)  # what is passed on is to arrive first
                    break
        if not self._vanished:
            self.cut()
        else:
            await asyncio.sleep(0)

    def cut(self) -> None:
        """With a reset, not in order."""
        for writer in self._writers:
            made = writer.get_extra_info("socket")
            if made is not None:
                with suppress(OSError):
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()
