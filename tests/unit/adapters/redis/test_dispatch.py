from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, cast

from tenuto.adapters.redis.dispatch import RedisDispatch
from tenuto.adapters.redis.link import Link
from tenuto.adapters.redis.reader import Crowd, Ears, Reader
from tenuto.adapters.redis.shelf import Shelf
from tenuto.adapters.redis.streams import Slot


class Swallowing:
    """A link whose client swallows the first cancellation, as redis-py does now and then."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.connection_pool = self

    async def reader(self, _: str) -> Swallowing:
        return self

    async def eval(self, *_: Any) -> tuple[int, list[Any]]:
        if not self.asked.is_set():
            self.asked.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        return 0, []

    async def execute_command(self, *_: Any) -> None: ...

    async def aclose(self) -> None: ...

    async def disconnect(self) -> None: ...


async def test_a_reader_of_a_slot_that_nobody_wants_ends_though_its_cancel_was_swallowed() -> None:
    link, slot = Swallowing(), Slot("default", 0)

    def nothing(*_: Any) -> None: ...

    ears = Ears(
        found=nothing, nobody=nothing, junk=nothing, missing=nothing, fault=nothing, spare=nothing
    )

    def draw() -> float:
        return 0.5

    dispatch = RedisDispatch(
        cast("Any", None), cast("Link", link), incarnation="me", on_offer=nothing, draw=draw
    )
    shelf = Shelf(nothing)
    reader = Reader(slot, cast("Link", link), shelf, Crowd(), ears, me="me", draw=draw)
    task = asyncio.create_task(reader.run())
    dispatch._readers[slot] = reader, task
    await link.asked.wait()

    dispatch._end(slot)

    async with asyncio.timeout(60):
        await asyncio.wait([task])
