"""What a stream sends: its wire format, and a client that takes nothing. Not what is in it (`integration/test_api`)."""

from __future__ import annotations

import asyncio

from starlette.types import Message

from tenuto.api.changes import encode
from tenuto.api.held import Held
from tenuto.api.limits import Limits
from tenuto.api.streams import Emit, EventStream
from tenuto.model.errors import Unavailable


async def _stays() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def _send_all(source: object, limits: Limits, send: object) -> None:
    stream = EventStream(Held(1), limits, source)  # type: ignore[arg-type]
    await stream({"type": "http", "path": "/v1/runs/events"}, _stays, send)  # type: ignore[arg-type]


def test_an_event_is_one_line_of_data_whatever_is_in_it() -> None:
    assert (
        encode("note", {"text": "a\nb\r"}, 7)
        == b'id: 7\nevent: note\ndata: {"text":"a\\nb\\r"}\n\n'
    )
    assert encode("end", {}) == b"event: end\ndata: {}\n\n"


async def test_a_client_that_takes_nothing_is_cut_off_without_a_last_word() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        if len(sent) == 2:
            await asyncio.Event().wait()
        sent.append(message)

    async def source(emit: Emit) -> None:
        while True:
            await emit(b"data: x\n\n")

    await _send_all(source, Limits(send_s=0.01), send)

    assert [each.get("more_body") for each in sent] == [None, True]


async def test_an_engine_that_fails_ends_the_stream_with_the_reason() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def source(emit: Emit) -> None:
        await emit(b"data: x\n\n")
        raise Unavailable("the disk\nis full")

    await _send_all(source, Limits(), send)

    assert sent[-1]["body"] == b": the disk is full\n\n"
    assert sent[-1]["more_body"] is False
