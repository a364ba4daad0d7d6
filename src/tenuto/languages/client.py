"""The client of a language server: the `Interpreter` port over gRPC. Starts and restarts nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
import grpc.aio

from tenuto.ports.languages import Fault, Outcome, Output, Program, Say, Trouble
from tenuto.proto.language.v1 import language_pb2 as pb
from tenuto.proto.language.v1 import language_pb2_grpc as rpc
from tenuto.runtime.service import is_ending

OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


class Unreachable(Exception):
    """The server is gone, or was never there; the text says which."""


class Client:
    """One channel. Belongs to one event loop, which must be the only one in its process that touches gRPC."""

    def __init__(self, target: str, token: Callable[[], str | None] = lambda: None) -> None:
        """`target`: `unix:PATH` or `host:port`. `token` is asked at each call: it may have been renewed."""
        self._target = target
        self._token = token
        self._channel = grpc.aio.insecure_channel(target, options=OPTIONS)
        self._stub = rpc.LanguageStub(self._channel)  # type: ignore[no-untyped-call]

    async def run(self, program: Program, say: Say) -> Outcome:
        """Send a program, pass on its lines, return its outcome. Cancelling ends the program.

        Raises:
            Unreachable: the connection failed; whether the program ran is unknown.
            InvalidInput: the token cannot be read.
        """
        token = self._token()
        request = pb.ExecuteRequest(
            id=program.id,
            language=program.language,
            code=program.code,
            params=program.params,
            limits=pb.Limits(
                time_ms=-(-program.time_us // 1_000) if program.time_us else 0,
                memory_bytes=program.memory or 0,
                output_bytes=program.output or 0,
            ),
        )
        shown = None if token is None else (("authorization", f"Bearer {token}"),)
        call = self._stub.Execute(request, metadata=shown)
        try:
            async for reply in call:
                if reply.HasField("result"):
                    return _outcome(reply.result)
                for line in reply.lines.lines:
                    say(line.stream == pb.STREAM_STDERR, line.text)
        except grpc.aio.AioRpcError as error:
            return _failed(self._target, error)
        except asyncio.CancelledError:
            if is_ending():
                raise
            # By `close`: another attempt has seen first that the server is gone.
            raise Unreachable("the language server ended while the code ran") from None
        finally:
            call.cancel()
        return Fault(
            trouble=Trouble.LANGUAGE_UNAVAILABLE,
            message="the language server gave no result",
            retryable=True,
        )

    def is_there(self) -> bool:
        """Whether the server is connected to just now. If not, asking is what makes it be tried."""
        state = self._channel.get_state(try_to_connect=True)
        return bool(state is grpc.ChannelConnectivity.READY)

    async def close(self) -> None:
        """Close the channel; what is under way is cancelled."""
        await self._channel.close()


def _outcome(result: pb.Result) -> Outcome:
    if result.HasField("output"):
        return Output(text=result.output, dropped=result.lines_dropped)
    failure = result.failure
    try:
        trouble = Trouble(failure.code)
    except ValueError:
        trouble = Trouble.CODE_ERROR  # a server of a later version
    return Fault(
        trouble=trouble,
        message=failure.message,
        details=failure.details,
        retryable=failure.retryable,
        dropped=result.lines_dropped,
    )


def _failed(target: str, error: grpc.aio.AioRpcError) -> Fault:
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        if target.startswith("unix:"):
            raise Unreachable("the language server ended while the code ran") from error
        message = f"no language server answers at {target}; start one: tenuto language-server"
        raise Unreachable(message) from error
    message = f"the language server failed: {error.code().name}: {error.details()}"
    return Fault(trouble=Trouble.LANGUAGE_UNAVAILABLE, message=message, retryable=True)
