from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tenuto.languages.client import Client, Unreachable
from tenuto.ports.languages import Program

PROGRAM = Program(id="t", language="javascript", code="", params="{}")


class Cancelled:
    """A call whose channel another attempt has closed: gRPC ends it by a CancelledError of its own."""

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if self._waits:
            await asyncio.Event().wait()
        raise asyncio.CancelledError

    def cancel(self) -> None: ...


def a_client(call: Cancelled) -> Client:
    client = Client("127.0.0.1:9", lambda: None)

    class Stub:
        def Execute(self, *_: Any, **__: Any) -> Cancelled:
            return call

    client._stub = Stub()  # type: ignore[assignment]
    return client


async def test_a_call_that_somebody_else_has_ended_lost_its_server() -> None:
    client = a_client(Cancelled(waits=False))

    with pytest.raises(Unreachable):
        await client.run(PROGRAM, lambda *_: None)
    await client.close()


async def test_our_own_cancellation_stays_one() -> None:
    client = a_client(Cancelled(waits=True))
    running = asyncio.create_task(client.run(PROGRAM, lambda *_: None))
    await asyncio.sleep(0)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    await client.close()
