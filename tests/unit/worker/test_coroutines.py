"""The loop where coroutines of the user run: its begin and its end."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.support.worker import a_crew

from tenuto.worker import coroutines


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits for the thread however slow it is."""
    monkeypatch.setattr(coroutines, "_JOIN_S", 60.0)


async def test_its_thread_starts_with_the_first_coroutine_and_ends_with_the_executor() -> None:
    others = set(threading.enumerate())  # another test's may be on its way out

    def thread_names() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread not in others]

    async def later() -> list[str]:
        return thread_names()

    def plain() -> list[str]:
        return thread_names()

    async with a_crew({"later": later, "plain": plain}) as crew:
        before = await crew.gateway.output(crew.gateway.offer("plain"))
        during = await crew.gateway.output(crew.gateway.offer("later"))

    assert "tenuto-user" not in before  # type: ignore[operator]
    assert "tenuto-user" in during  # type: ignore[operator]
    for thread in threading.enumerate():
        if thread.name == "tenuto-user" and thread not in others:
            await asyncio.to_thread(thread.join, 10)
    assert "tenuto-user" not in thread_names()


async def test_closing_cancels_what_runs_and_waits_for_its_clean_up() -> None:
    begun, cleaned = threading.Event(), threading.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    async with a_crew({"endless": endless}) as crew:
        crew.gateway.offer("endless")
        await asyncio.to_thread(begun.wait)
        await crew.user.close()

        assert cleaned.is_set()


async def test_closing_a_loop_that_was_given_leaves_that_loop_running() -> None:
    async def later() -> int:
        return 1

    here = asyncio.get_running_loop()
    async with a_crew({"later": later}, loop=here) as crew:
        await crew.gateway.output(crew.gateway.offer("later"))

    assert here.is_running()
    await asyncio.sleep(0)


async def test_a_task_that_user_code_left_behind_is_cancelled_at_the_end() -> None:
    ended = threading.Event()
    kept: list[asyncio.Task[None]] = []

    async def background() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def spawns() -> None:
        kept.append(asyncio.create_task(background()))
        await asyncio.sleep(0)

    async with a_crew({"spawns": spawns}) as crew:
        await crew.gateway.output(crew.gateway.offer("spawns"))

    assert ended.is_set()


async def test_user_code_that_stops_the_loop_does_not_end_its_neighbours() -> None:
    async def stops() -> int:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return 1

    async def later() -> int:
        return 2

    async with a_crew({"stops": stops, "later": later}) as crew:
        first = await crew.gateway.output(crew.gateway.offer("stops"))
        second = await crew.gateway.output(crew.gateway.offer("later"))

    assert (first, second) == (1, 2)
