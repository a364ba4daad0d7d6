"""One stream from a worker to one server, and where servers are. Knows nothing of calls that outlive it."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
import grpc.aio

from tenuto.model.errors import Unavailable
from tenuto.ports.clock import Dice
from tenuto.proto.worker.v1 import worker_pb2 as pb
from tenuto.proto.worker.v1 import worker_pb2_grpc as stubs
from tenuto.rpc.outbox import Outbox
from tenuto.rpc.states import Breach, Side, Stream, Word
from tenuto.rpc.wire import CLIENT_OPTIONS, Tls
from tenuto.runtime.service import is_ending

CONNECT_S = 5.0
"""From the first packet to `welcome`: a server that needs longer would also need longer for all that follows."""
_KNOCK_S = 0.25
"""How long an address is knocked at before the next one is, too."""


class Refused(Unavailable):
    """A server was there, and will not have this worker: what is wrong will hardly pass by itself.

    `denied`: for its token, or for lack of one.
    """

    def __init__(self, message: str, *, denied: bool = False) -> None:
        self.denied = denied
        super().__init__(message)


class Lost(Unavailable):
    """The stream is gone; the text says how."""


_REFUSALS = {
    grpc.StatusCode.UNAUTHENTICATED: "the server does not know who this is: {}",
    grpc.StatusCode.PERMISSION_DENIED: "the server denies it: {}",
    grpc.StatusCode.FAILED_PRECONDITION: "{}",
    grpc.StatusCode.UNIMPLEMENTED: "what listens there is no server of Tenuto for workers ({})",
}


_NO_GRPC = "Failed parsing HTTP/2"
_NOT_FOR_WORKERS = (
    "what listens there does not speak gRPC: REST and the page, perhaps; workers go to the server's --grpc-port, by"
    " default 50051"
)
_SAYS_NOTHING = {"Internal error from Core", "Cancelling all calls", "Socket closed"}
"""What gRPC says of a killed server, and of a write that fails since the stream has ended: its status is lost then."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect to. `host` is what its certificate is for."""

    host: str
    ip: str
    port: int

    def __str__(self) -> str:
        at = f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"
        return at if self.host == self.ip else f"{self.host} ({at})"

    @property
    def target(self) -> str:
        """For gRPC, which has nothing left to look up."""
        return f"ipv6:[{self.ip}]:{self.port}" if ":" in self.ip else f"ipv4:{self.ip}:{self.port}"


def split_server(server: str) -> tuple[str, int]:
    """Take `host:port` apart. Raises ValueError: it is none."""
    host, colon, port = server.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError(f"{server!r} is no `host:port`")
    return host, int(port)


async def addresses(
    servers: Sequence[str], dice: Dice, *, last: Address | None
) -> tuple[Sequence[Address], str]:
    """All addresses of all servers, shuffled, that of `last` behind all others; and what could not be looked up."""
    loop = asyncio.get_running_loop()
    found: dict[Address, None] = {}
    trouble = ""
    for server in servers:
        host, port = split_server(server)
        try:
            async with asyncio.timeout(CONNECT_S):
                infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError, UnicodeError) as error:  # the last: of no name at all
            trouble = f"{host} has no address ({error or 'no answer'})"
            continue
        found |= {Address(host, str(info[4][0]), port): None for info in infos}
    drawn = sorted(found, key=lambda address: (address == last, dice.draw()))
    return drawn, trouble


async def first_open(found: Sequence[Address]) -> tuple[Address | None, str]:
    """Of addresses in the order in which they are wanted, the first that takes a connection; else why none does.

    A dead one is not waited for (RFC 8305): the next is knocked at too when it has not answered at once.
    """
    why = ""
    waiting = deque(found)
    knocks: dict[asyncio.Task[str], Address] = {}
    async with asyncio.TaskGroup() as group:
        try:
            while waiting or knocks:
                if waiting:
                    address = waiting.popleft()
                    knocks[group.create_task(_knock(address), name="gateway-knock")] = address
                answered, _ = await asyncio.wait(
                    knocks,
                    timeout=_KNOCK_S if waiting else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in answered:
                    address, why = knocks.pop(task), task.result()
                    if not why:
                        return address, ""
        finally:
            for task in knocks:
                task.cancel()
    return None, why


async def _knock(address: Address) -> str:
    """Why nobody opens; empty: somebody does."""
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(address.ip, address.port)
    except TimeoutError:
        return f"no answer within {CONNECT_S:g} s"
    except ConnectionRefusedError:
        return "nobody listens there"
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    return ""


class Connection:
    """One stream. Opened once, closed once; says and hears by the tables of `rpc.states`.

    Attributes:
        heard_at: when the server was last heard, in seconds of the loop.
    """

    def __init__(self, address: Address, *, token: str | None, tls: Tls | None) -> None:
        self.address = address
        self.stream = Stream(Side.WORKER)
        self.heard_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._outbox: Outbox[pb.FromWorker] = Outbox(self._write)
        self._heard = asyncio.Event()
        self._broken: str | None = None
        self._channel = _channel(address, tls)
        metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        stub = stubs.WorkersStub(self._channel)  # type: ignore[no-untyped-call]
        self._call = stub.Work(metadata=metadata)

    async def open(self, register: pb.Register) -> pb.Welcome:
        """Connect and register.

        Raises:
            Refused: this server will not have this worker.
            Lost: nobody answers there.
        """
        try:
            async with asyncio.timeout(CONNECT_S):
                self.stream.say(Word.REGISTER, 1)
                await self._write(pb.FromWorker(call=1, register=register))
                message = await self.hear()
        except TimeoutError:
            raise Lost(f"no answer within {CONNECT_S:g} s") from None
        if message is None:
            raise Lost("the server ended the stream")
        return message.welcome

    def say(self, word: Word, call: int, body: object) -> None:
        """Say something, after what was said before."""
        self.stream.say(word, call)
        self._outbox.put(pb.FromWorker(call=call, **{word.value: body}))  # type: ignore[arg-type]

    async def write(self) -> None:
        """Write what is said, until cancelled or broken; whoever hears learns of that."""
        try:
            while True:
                await self._outbox.until_news()
                while not self._outbox.idle:
                    await self._outbox.write()
        except Refused:
            return  # it has ended, and that is heard, too
        except Lost as lost:
            self.break_off(str(lost))

    async def hear(self) -> pb.FromServer | None:
        """The next message; None when the server has ended the stream in order.

        Raises:
            Refused, Lost: how it ended.
        """
        try:
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise self._ended(error) from None
        except asyncio.CancelledError:
            raise self._cancelled() from None
        if message is grpc.aio.EOF:
            code, details = await self._call.code(), await self._call.details()
            if code is not grpc.StatusCode.OK:
                raise _lost(code, details)
            return None
        if message is None:  # gRPC's word for bytes that it cannot read
            raise Lost("the server sent what is no message of this protocol")
        self.heard_at = self._loop.time()
        self._heard.set()
        field = message.WhichOneof("message")
        if field is None:
            return await self.hear()  # of a later version: not for us
        try:
            self.stream.hear(Word(field), message.call)
        except Breach as breach:
            raise Lost(f"the server broke the protocol: {breach}") from None
        answer: pb.FromServer = message
        return answer

    async def until_heard(self) -> None:
        """Wait for another message."""
        self._heard.clear()
        await self._heard.wait()

    async def finish(self) -> None:
        """Say that nothing more will be said."""
        try:
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
            return  # it is over already

    def break_off(self, reason: str) -> None:
        """End it from here: `hear` raises Lost with that reason."""
        if self._broken is None:
            self._broken = reason
        self._call.cancel()

    async def close(self) -> None:
        """Give the connection back."""
        self.stream.end()
        self._outbox.close()
        self._call.cancel()
        await self._channel.close()

    async def _write(self, message: pb.FromWorker) -> None:
        try:
            await self._call.write(message)
        except grpc.aio.AioRpcError as error:
            raise self._ended(error) from None
        except asyncio.InvalidStateError:
            # It has ended; its status says how.
            raise _lost(await self._call.code(), await self._call.details()) from None
        except asyncio.CancelledError:
            raise self._cancelled() from None

    def _cancelled(self) -> BaseException:
        """What to raise."""
        if is_ending():
            return asyncio.CancelledError()
        return Lost(self._broken or "the stream was cut")

    def _ended(self, error: grpc.aio.AioRpcError) -> Unavailable:
        if self._broken is not None:
            return Lost(self._broken)
        return _lost(error.code(), error.details())


def _lost(code: grpc.StatusCode, details: str | None) -> Unavailable:
    told = details or code.name.lower().replace("_", " ")
    if told in _SAYS_NOTHING or told.startswith("Stream removed"):
        return Lost("the server is gone, or has ended the stream")
    if _NO_GRPC in told:
        return Refused(_NOT_FOR_WORKERS)
    if code in _REFUSALS:
        unknown = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
        return Refused(_REFUSALS[code].format(told), denied=code in unknown)
    return Lost(told)


def _channel(address: Address, tls: Tls | None) -> grpc.aio.Channel:
    if tls is None:
        return grpc.aio.insecure_channel(address.target, options=CLIENT_OPTIONS)
    named = (
        ("grpc.ssl_target_name_override", address.host),
        ("grpc.default_authority", address.host),
    )
    credentials = grpc.ssl_channel_credentials(
        root_certificates=tls.ca, private_key=tls.key, certificate_chain=tls.certificate
    )
    return grpc.aio.secure_channel(address.target, credentials, options=(*CLIENT_OPTIONS, *named))
