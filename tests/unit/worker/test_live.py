"""Calls whose code still runs."""

from __future__ import annotations

import asyncio

import pytest

from tenuto.model.ids import TaskId
from tenuto.ports.gateway import Result, Success
from tenuto.worker.live import Live, answer_of

TASK = TaskId("run/step")


async def test_a_task_is_busy_until_its_body_has_ended_and_all_who_wait_are_told() -> None:
    live: Live[str] = Live()
    live.begin(TASK, "call")
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(live.until_free(TASK)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        assert (live.busy(TASK), live.find(TASK), list(live.calls())) == (True, "call", ["call"])
        live.end(TASK)
        live.end(TASK)

    assert not live.busy(TASK)
    assert live.find(TASK) is None
    await live.until_free(TASK)


async def test_who_waits_goes_on_waiting_while_the_next_call_of_the_task_runs() -> None:
    live: Live[int] = Live()
    live.begin(TASK, 1)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(live.until_free(TASK))
        await asyncio.sleep(0)
        live.end(TASK)
        live.begin(TASK, 2)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
        live.end(TASK)


def test_one_task_has_one_live_call() -> None:
    live: Live[int] = Live()
    live.begin(TASK, 1)
    with pytest.raises(AssertionError, match="busy"):
        live.begin(TASK, 2)


@pytest.mark.parametrize("ended", [True, False])
async def test_a_cancelled_wait_stops_the_code_unless_its_result_is_there(*, ended: bool) -> None:
    answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    stopped: list[bool] = []
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(answer_of(answer, lambda: stopped.append(True)))
        await asyncio.sleep(0)
        if ended:
            answer.set_result(Success(output="1"))
        waiting.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert waiting.cancelled() is not ended
    assert stopped == ([] if ended else [True])
