"""A worker's stream by hand: messages of the protocol as they are, for tests of a server. And a server for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import grpc.aio
from tests.support.gateway import MemoryGateway

from tenuto.adapters.local.dice import SystemDice
from tenuto.proto.worker.v1 import worker_pb2 as pb
from tenuto.proto.worker.v1 import worker_pb2_grpc as stubs
from tenuto.rpc.server import WorkerServer

LEASE_US = 10_000_000


class Raw:
    """One stream on a channel of its own."""

    def __init__(self, port: int, token: str | None = None, **options: Any) -> None:
        self.channel = grpc.aio.insecure_channel(
            f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]
        )
        metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        stub = stubs.WorkersStub(self.channel)  # type: ignore[no-untyped-call]
        self.call = stub.Work(metadata=metadata, **options)

    async def say(self, call: int = 0, **message: Any) -> None:
        # That it has ended already is what `ending` tells.
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self.call.write(pb.FromWorker(call=call, **message))

    async def hear(self) -> Any:
        """The next message; None at the end."""
        message = await self.call.read()
        return None if message is grpc.aio.EOF else message

    async def ask(self, call: int, **message: Any) -> Any:
        """Say it and hear one message."""
        await self.say(call, **message)
        return await self.hear()

    async def register(self, **columns: Any) -> Any:
        """The first message, and what comes of it."""
        return await self.ask(1, register=a_register(**columns))

    async def ending(self) -> tuple[grpc.StatusCode, str]:
        """Wait for the end; how it was."""
        try:
            while await self.call.read() is not grpc.aio.EOF:
                pass
        except grpc.aio.AioRpcError:
            pass
        return await self.call.code(), await self.call.details()

    async def close(self) -> None:
        self.call.cancel()
        await self.channel.close()


def a_register(**columns: Any) -> pb.Register:
    values: dict[str, Any] = {
        "protocol": 1,
        "worker": "raw-12345678",
        "queues": ["default"],
        "names": ["work"],
        "capacity": 4,
    }
    return pb.Register(**(values | columns))


class Served:
    """A server over a gateway in memory. `stop` may be set; `kill` ends it as a killed process ends."""

    def __init__(self, server: WorkerServer, gateway: MemoryGateway) -> None:
        self.server = server
        self.gateway = gateway
        self.stop = asyncio.Event()
        self.running: asyncio.Task[None]

    @property
    def port(self) -> int:
        return self.server.port

    async def kill(self) -> None:
        self.running.cancel()
        await asyncio.wait([self.running])


@asynccontextmanager
async def a_server(gateway: MemoryGateway | None = None, **options: Any) -> AsyncIterator[Served]:
    """Stopped in order at the end, if it still runs."""
    gateway = gateway or MemoryGateway(lease_us=LEASE_US)
    server = WorkerServer(gateway, dice=SystemDice(1), lease_us=LEASE_US, **options)
    await server.open()
    served = Served(server, gateway)
    async with asyncio.TaskGroup() as group:
        served.running = group.create_task(server.run(served.stop))
        try:
            yield served
        finally:
            served.stop.set()
