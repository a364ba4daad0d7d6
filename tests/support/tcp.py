"""A TCP server of a test's own, for peers that misbehave: nothing of it is left when the test goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def a_tcp_server(answer: Answer) -> AsyncIterator[int]:
    """On a free port, which it yields. Each connection is closed when its answer is given, or at the end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError):
                await answer(reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of ours from its beginning: one of asyncio's that has not begun at the end would close nothing.
        if ended:
            writer.transport.abort()
        else:
            under_way.append(group.create_task(serve(reader, writer)))

    ended, under_way = False, list[asyncio.Task[None]]()
    async with asyncio.TaskGroup() as group:
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            ended = True
            server.close()
            for task in under_way:
                task.cancel()
