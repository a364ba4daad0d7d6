"""Telling changed runs: one reading for all listeners, and slow ones let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from tenuto.api import changes
from tenuto.api.changes import Changes
from tenuto.api.held import beside
from tenuto.model.errors import Unavailable
from tenuto.model.ids import RunId

A, B = RunId("a"), RunId("b")


class Engine:
    """A backend of the two things that are asked for: changes as the test says them, and rows."""

    def __init__(self) -> None:
        self.commands: Any = self
        self.said: asyncio.Queue[Sequence[RunId] | None] = asyncio.Queue()
        self.asked: list[Sequence[RunId]] = []
        self.fault: Exception | None = None

    async def changes(self, wanted: Callable[[], bool]) -> AsyncIterator[Sequence[RunId]]:
        while (batch := await self.said.get()) is not None:
            yield batch

    async def read(self, verb: Callable[[Any], Awaitable[Any]]) -> Any:
        if self.fault is not None:
            raise self.fault
        return await verb(self)

    async def get_run_rows(self, run_ids: Sequence[RunId]) -> list[dict[str, str]]:
        self.asked.append(run_ids)
        return [{"run_id": run_id} for run_id in run_ids]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(changes, "MERGE_S", 0.0)
    return Engine()


def made(engine: Engine) -> Changes:
    return Changes(engine)  # type: ignore[arg-type]


async def test_what_changed_is_read_once_for_all_who_listen(engine: Engine) -> None:
    whole = made(engine)
    async with beside(whole.run(), "run"):
        with whole.heard() as one, whole.heard() as two:
            engine.said.put_nowait([A, B])
            told = [await ear.take() for ear in (one, two)]

    assert told == [b'event: run\ndata: {"run_id":"a"}\n\nevent: run\ndata: {"run_id":"b"}\n\n'] * 2
    assert engine.asked == [[A, B]]


async def test_nothing_is_read_while_nobody_listens(engine: Engine) -> None:
    whole = made(engine)
    engine.said.put_nowait([A])
    engine.said.put_nowait(None)
    await whole.run()

    assert engine.asked == []


async def test_who_takes_nothing_is_let_go_and_the_others_go_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catalogue J11."""
    monkeypatch.setattr(changes, "EAR_MAX", 60)
    whole = made(engine)
    async with beside(whole.run(), "run"):
        with whole.heard() as slow, whole.heard() as quick:
            for _ in range(3):
                engine.said.put_nowait([A])
                assert await quick.take() == b'event: run\ndata: {"run_id":"a"}\n\n'
            with pytest.raises(Unavailable, match="too slow"):
                await slow.take()


async def test_the_end_of_the_engine_ends_listening_also_for_who_comes_later(
    engine: Engine,
) -> None:
    whole = made(engine)
    with whole.heard() as ear:
        engine.said.put_nowait([A])
        engine.said.put_nowait(None)
        await whole.run()
        assert await ear.take() is not None
        assert await ear.take() is None
    with whole.heard() as late:
        assert await late.take() is None


@pytest.mark.parametrize("fault", [Unavailable("the disk is gone"), ValueError("a bug")])
async def test_a_reading_that_fails_ends_who_listens_now_and_nobody_else(
    engine: Engine, fault: Exception
) -> None:
    whole = made(engine)
    async with beside(whole.run(), "run"):
        with whole.heard() as ear:
            engine.fault = fault
            engine.said.put_nowait([A])
            with pytest.raises(Unavailable):
                await ear.take()
        engine.fault = None
        with whole.heard() as ear:
            engine.said.put_nowait([B])
            assert await ear.take() == b'event: run\ndata: {"run_id":"b"}\n\n'
