"""Messages into a stream: begun where they are put, in order, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tenuto.rpc.outbox import Outbox


class Sink:
    """A stream that takes a message when the test lets it, as gRPC does: first to the socket, then its word."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.cut: list[str] = []
        self.gates: dict[str, asyncio.Future[None]] = {}
        self.at_once = False

    async def write(self, message: str) -> None:
        self.begun.append(message)
        if message == "bad":
            raise OSError("the stream is gone")
        if not self.at_once:
            self.gates[message] = asyncio.get_running_loop().create_future()
            try:
                await self.gates[message]
            except asyncio.CancelledError:
                self.cut.append(message)
                raise
            await asyncio.sleep(0)
        self.ended.append(message)


async def write_all(outbox: Outbox[str]) -> None:
    while True:
        await outbox.until_news()
        while not outbox.idle:
            await outbox.write()


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_message_before_which_nothing_waits_is_begun_where_it_is_put() -> None:
    sink = Sink()
    outbox = Outbox(sink.write)

    outbox.put("a")

    assert sink.begun == ["a"]
    assert len(outbox) == 0
    assert not outbox.idle


async def test_the_next_message_waits_until_the_one_before_is_through_and_none_overtakes() -> None:
    sink = Sink()
    outbox = Outbox(sink.write)
    async with asyncio.TaskGroup() as group:
        writer = group.create_task(write_all(outbox))
        for message in ("a", "b", "c"):
            outbox.put(message)
        await turns()
        assert sink.begun == ["a"]
        assert len(outbox) == 2

        sink.gates["a"].set_result(None)
        await turns()
        outbox.put("d")
        assert sink.begun == ["a", "b"]
        for message in ("b", "c", "d"):
            sink.gates[message].set_result(None)
            await turns()

        assert sink.ended == ["a", "b", "c", "d"]
        assert outbox.idle
        writer.cancel()


async def test_a_stream_that_takes_all_at_once_gets_each_message_once() -> None:
    sink = Sink()
    sink.at_once = True
    outbox = Outbox(sink.write)
    async with asyncio.TaskGroup() as group:
        writer = group.create_task(write_all(outbox))
        for message in "abc":
            outbox.put(message)
        await turns()
        outbox.put("d")
        await turns()

        assert sink.ended == ["a", "b", "c", "d"]
        writer.cancel()


async def test_what_fails_in_its_first_step_fails_for_who_writes_not_for_who_puts() -> None:
    outbox = Outbox(Sink().write)

    outbox.put("bad")

    with pytest.raises(OSError, match="gone"):
        await outbox.write()


async def test_a_writer_that_is_cancelled_cuts_the_message_that_is_under_way() -> None:
    sink = Sink()
    outbox = Outbox(sink.write)
    outbox.put("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await outbox.write()

    assert sink.cut == ["a"]
    assert sink.ended == []


async def test_a_failure_while_it_waits_reaches_the_writer() -> None:
    sink = Sink()
    outbox = Outbox(sink.write)
    outbox.put("a")
    sink.gates["a"].set_exception(OSError("broken"))

    with pytest.raises(OSError, match="broken"):
        await outbox.write()


async def fail(outbox: Outbox[str], sink: Sink) -> None:
    outbox.put("bad")
    with pytest.raises(OSError, match="gone"):
        await outbox.write()


async def cancel(outbox: Outbox[str], sink: Sink) -> None:
    outbox.put("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await outbox.write()


async def close(outbox: Outbox[str], sink: Sink) -> None:
    outbox.close()


@pytest.mark.parametrize("end", [fail, cancel, close])
async def test_what_is_put_once_the_stream_is_broken_is_not_begun_and_is_returned(
    end: Callable[[Outbox[str], Sink], Awaitable[None]],
) -> None:
    sink = Sink()
    outbox = Outbox(sink.write)
    await end(outbox, sink)
    begun = list(sink.begun)

    outbox.put("b")
    outbox.put("c")
    await turns()

    assert sink.begun == begun
    assert outbox.close() == ["b", "c"]


async def test_closing_returns_what_nobody_can_have_read_and_lets_go_of_the_rest() -> None:
    sink = Sink()
    outbox = Outbox(sink.write)
    for message in "abc":
        outbox.put(message)

    assert outbox.close() == ["b", "c"]
    assert outbox.idle
    assert outbox.close() == []


async def test_whoever_waits_for_news_may_be_woken_without_any() -> None:
    outbox = Outbox(Sink().write)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(outbox.until_news())
        await turns()
        assert not waiting.done()
        outbox.wake()
