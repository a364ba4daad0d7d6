"""Services start in order, stop in reverse, and one that crashes ends all."""

from __future__ import annotations

import asyncio

import pytest

from tenuto.runtime.service import is_ending, pause, serve, unless


class Recorder:
    """A service that writes down what happens to it."""

    def __init__(
        self, name: str, story: list[str], *, crash: bool = False, deaf: bool = False
    ) -> None:
        self._name = name
        self._story = story
        self._crash = crash
        self._deaf = deaf

    @property
    def name(self) -> str:
        return self._name

    async def run(self, stopping: asyncio.Event) -> None:
        self._story.append(f"{self.name} starts")
        try:
            if self._crash:
                raise ZeroDivisionError(self.name)
            await stopping.wait()
            if self._deaf:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._story.append(f"{self.name} is cancelled")
            raise
        self._story.append(f"{self.name} stops")


async def run(services: list[Recorder], *, grace_us: int = 60_000_000) -> None:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(services, stop=stop, grace_us=grace_us))
        for _ in range(3):
            await asyncio.sleep(0)
        stop.set()


async def test_the_last_to_start_is_the_first_to_stop() -> None:
    story: list[str] = []

    await run([Recorder(name, story) for name in "abc"])

    assert story == ["a starts", "b starts", "c starts", "c stops", "b stops", "a stops"]


async def test_one_that_does_not_stop_in_its_grace_is_cancelled_and_the_others_stop_well() -> None:
    story: list[str] = []

    await run([Recorder("a", story), Recorder("b", story, deaf=True)], grace_us=1_000)

    assert story == ["a starts", "b starts", "b is cancelled", "a stops"]


async def test_a_crash_cancels_all_others_and_is_told() -> None:
    """Catalogue C12."""
    story: list[str] = []

    with pytest.raises(ExceptionGroup) as caught:
        await run([Recorder("a", story), Recorder("b", story, crash=True)])

    assert caught.group_contains(ZeroDivisionError)
    assert "a is cancelled" in story


async def test_a_pause_ends_early_when_it_is_time_to_stop() -> None:
    stopping = asyncio.Event()

    assert await pause(stopping, 1) is True
    asyncio.get_running_loop().call_soon(stopping.set)
    assert await pause(stopping, 3_600_000_000) is False


async def test_work_is_given_up_when_it_is_time_to_stop() -> None:
    stopping, begun, given_up = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    async def failing() -> None:
        raise ZeroDivisionError

    async def cancelled() -> None:
        raise asyncio.CancelledError

    assert await unless(stopping, asyncio.sleep(0))
    with pytest.raises(ZeroDivisionError):
        await unless(stopping, failing())
    with pytest.raises(asyncio.CancelledError):  # a library's own: nobody told it to stop
        await unless(stopping, cancelled())
    working = asyncio.create_task(unless(stopping, endless()))
    await begun.wait()
    stopping.set()

    assert not await working
    assert given_up.is_set()


async def test_a_librarys_cancelled_error_is_told_from_ones_own_end() -> None:
    seen: list[bool] = []

    async def hears(error: asyncio.Event) -> None:
        try:
            await error.wait()
            raise asyncio.CancelledError
        except asyncio.CancelledError:
            seen.append(is_ending())

    happened = asyncio.Event()
    happened.set()
    await hears(happened)
    task = asyncio.create_task(hears(asyncio.Event()))
    await asyncio.sleep(0)
    task.cancel()
    await task

    assert seen == [False, True]
