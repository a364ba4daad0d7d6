"""Requests that stay, and the four ways in which they end."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from tenuto.api.held import Held, beside
from tenuto.api.problems import Problem


class Client:
    """A connection that goes when it is told to."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self._first = True

    async def receive(self) -> Message:
        if self._first:
            self._first = False
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}


async def test_a_block_that_ends_ends() -> None:
    held = Held(1)
    async with held.hold(Client().receive):
        assert len(held) == 1

    assert len(held) == 0


async def test_time_that_is_up_ends_it_in_silence() -> None:
    async with Held(1).hold(Client().receive, 0):
        await asyncio.Event().wait()


async def test_a_client_that_goes_ends_it_in_silence() -> None:
    client = Client()
    client.gone.set()
    async with Held(1).hold(client.receive, 60):
        await asyncio.Event().wait()


async def test_a_server_that_stops_ends_all_and_takes_no_more() -> None:
    held = Held(10)
    ended = []

    async def stay() -> None:
        async with held.hold(Client().receive):
            await asyncio.Event().wait()
        ended.append(1)

    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(stay())
        await asyncio.sleep(0)  # all of them begin
        assert len(held) == 5
        held.stop()

    assert len(ended) == 5
    assert not held.has_room
    with pytest.raises(Problem, match="the server stops"):
        held.check()


async def test_one_too_many_is_turned_away() -> None:
    held = Held(1)
    assert held.has_room
    async with held.hold(Client().receive):
        assert not held.has_room
        with pytest.raises(Problem, match="1 streams and waits are open"):
            async with held.hold(Client().receive):
                raise AssertionError
    held.check()


async def test_an_error_of_the_block_comes_out_as_it_is() -> None:
    held = Held(1)
    with pytest.raises(KeyError):
        async with held.hold(Client().receive):
            raise KeyError("x")
    with pytest.raises(TimeoutError, match="of its own"):
        async with held.hold(Client().receive, 60):
            raise TimeoutError("of its own")

    assert len(held) == 0


async def test_what_runs_beside_a_block_ends_with_it() -> None:
    ended = asyncio.Event()

    async def other() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with beside(other(), "other"):
        await asyncio.sleep(0)

    assert ended.is_set()
