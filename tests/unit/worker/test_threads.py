"""The bounded set of threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from tests.support import process_tasks
from tests.support.worker import a_crew


async def test_no_more_functions_run_at_once_than_there_are_threads() -> None:
    lock, most, running = threading.Lock(), 0, 0
    barrier = threading.Barrier(3)

    def work() -> None:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
        barrier.wait()
        with lock:
            running -= 1

    async with a_crew({"work": work}, threads=3) as crew:
        leases = [crew.gateway.offer("work") for _ in range(9)]
        for lease in leases:
            await crew.gateway.output(lease)

        assert most == 3


async def test_threads_start_only_as_they_are_needed() -> None:
    def name() -> str:
        return threading.current_thread().name

    async with a_crew({"name": name}) as crew:
        names = {str(await crew.gateway.output(crew.gateway.offer("name"))) for _ in range(5)}

        assert names == {"tenuto-task-1"}


async def atwo() -> int:
    return 2


@pytest.mark.parametrize(
    ("function", "process"),
    [(lambda: 2, False), (atwo, False), (process_tasks.pid_of, True)],
    ids=["def", "async def", "process"],
)
async def test_a_machine_without_threads_costs_attempts_and_nothing_later(
    monkeypatch: pytest.MonkeyPatch, function: Callable[[], object], process: bool
) -> None:
    start, short = threading.Thread.start, True

    def limited(thread: threading.Thread) -> None:
        if short and thread.name.startswith("tenuto-"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    async with a_crew({"task": function}, process=process, threads=1) as crew:
        lease = crew.gateway.offer("task")
        failure = await crew.gateway.failure(lease)
        short = False

        assert (failure.code, failure.retryable) == ("internal", True)
        assert not crew.user.busy(lease.task_id)
        assert await crew.gateway.output(crew.gateway.offer("task"))


async def test_a_call_that_was_cancelled_while_it_waited_for_a_thread_never_runs() -> None:
    begun, go = threading.Event(), threading.Event()
    ran: list[int] = []

    def first() -> None:
        begun.set()
        go.wait()

    def second() -> None:
        ran.append(1)

    async with a_crew({"first": first, "second": second}, threads=1) as crew:
        blocking = crew.gateway.offer("first")
        await asyncio.to_thread(begun.wait)
        late = crew.gateway.offer("second", attempt_us=20_000)
        assert (await crew.gateway.failure(late)).code == "timeout"
        go.set()
        await crew.gateway.output(blocking)
        await crew.user.until_free(late.task_id)

        assert ran == []


async def test_threads_are_daemons_so_an_endless_task_does_not_hold_the_program() -> None:
    def daemon() -> bool:
        return threading.current_thread().daemon

    async with a_crew({"daemon": daemon}) as crew:
        assert await crew.gateway.output(crew.gateway.offer("daemon")) is True
