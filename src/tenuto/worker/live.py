"""Calls whose code still runs, by task: how an executor keeps a step from running twice at the same time here.

A call is live until its body has ended, whatever became of its result: threads cannot be stopped, and coroutines and
processes may take their time. Belongs to one loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from tenuto.model.ids import TaskId
from tenuto.ports.gateway import Result

C = TypeVar("C")


class Live(Generic[C]):
    """Live calls, and who waits for their end."""

    def __init__(self) -> None:
        self._calls: dict[TaskId, C] = {}
        self._waiters: dict[TaskId, list[asyncio.Future[None]]] = {}

    def begin(self, task_id: TaskId, call: C) -> None:
        """A call of this task is under way; no other one is."""
        assert task_id not in self._calls, "the runner asks busy() first"
        self._calls[task_id] = call

    def end(self, task_id: TaskId) -> None:
        """Its body has ended. A second time does nothing."""
        self._calls.pop(task_id, None)
        for waiter in self._waiters.pop(task_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    def find(self, task_id: TaskId) -> C | None:
        """The live call of a task."""
        return self._calls.get(task_id)

    def calls(self) -> Iterable[C]:
        """All of them."""
        return self._calls.values()

    def busy(self, task_id: TaskId) -> bool:
        """Whether a function of that task is still running, its result wanted or not."""
        return task_id in self._calls

    async def until_free(self, task_id: TaskId) -> None:
        """Wait until `busy` is False."""
        while task_id in self._calls:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.setdefault(task_id, []).append(waiter)
            await waiter


async def answer_of(answer: asyncio.Future[Result], stop: Callable[[], None]) -> Result:
    """Wait for a call's result. Cancelling asks its code to `stop` and returns at once; then see `Live.busy`."""
    try:
        return await answer
    except asyncio.CancelledError:
        if answer.done() and not answer.cancelled():
            return answer.result()  # both came in one turn, and the work is done
        stop()
        raise
