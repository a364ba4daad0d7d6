"""What task code may ask about its attempt."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.support.gateway import RUN
from tests.support.worker import a_crew

from tenuto.model.ids import LeaseId, Place
from tenuto.ports.gateway import Lease
from tenuto.worker.context import Context, current, enter
from tenuto.worker.notes import Notebook


def a_context(place: str = "ship") -> Context:
    return Context(
        Lease(
            run_id=RUN,
            place=Place(place),
            lease_id=LeaseId("l"),
            name="ship",
            queue="default",
            attempt=2,
            input="{}",
            lease_us=1,
            attempt_us=None,
            heartbeat_us=None,
        ),
        Notebook(),
    )


@pytest.mark.parametrize("place", ["ship", "ship.2", "ship.2.3", "ship[4]", "ship.2[4]~3"])
def test_the_node_is_the_place_without_passes_items_and_epochs(place: str) -> None:
    assert a_context(place).node == "ship"


def test_the_idempotency_key_is_the_task_id_whatever_the_attempt() -> None:
    context = a_context("ship.2")

    assert context.idempotency_key == context.task_id == f"{RUN}/ship.2"
    assert context.attempt == 2


def test_a_heartbeat_is_taken_once() -> None:
    context = a_context()
    context.heartbeat()

    assert [context.take_beat(), context.take_beat()] == [True, False]


def test_outside_a_task_there_is_no_current_attempt() -> None:
    with pytest.raises(RuntimeError, match="outside a task"):
        current()


async def test_each_asyncio_task_has_an_attempt_of_its_own() -> None:
    async def nested(place: str) -> str:
        enter(a_context(place))
        await asyncio.sleep(0)
        return current().place

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(nested(place)) for place in ("a", "b")]

    assert [task.result() for task in tasks] == ["a", "b"]
    with pytest.raises(RuntimeError):
        current()


async def test_it_is_there_in_coroutines_and_in_threads() -> None:
    async def later() -> list[object]:
        here = current()
        inside = await asyncio.to_thread(lambda: current().place)
        return [here.place, inside, here.attempt, threading.current_thread().name]

    def at_once() -> list[object]:
        here = current()
        return [here.place, here.attempt, here.node, here.run_id]

    async with a_crew({"later": later, "at_once": at_once}) as crew:
        first = crew.gateway.offer("later", place="x.2", attempt=3)
        second = crew.gateway.offer("at_once", place="y", attempt=4)

        assert await crew.gateway.output(first) == ["x.2", "x.2", 3, "tenuto-user"]
        assert await crew.gateway.output(second) == ["y", 4, "y", RUN]


def test_the_logger_has_run_task_and_attempt_bound(caplog: pytest.LogCaptureFixture) -> None:
    a_context().logger.warning("slow", seconds=3)

    assert f"task_id='{RUN}/ship'" in caplog.text
    assert "attempt=2" in caplog.text
    assert "seconds=3" in caplog.text
