"""What task code may ask and say about its attempt."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
from typing import Any

import pytest
from tests.support.gateway import RUN
from tests.support.worker import a_crew

from tenuto.model.ids import LeaseId, Place
from tenuto.ports.gateway import Lease
from tenuto.worker.context import Context, current, enter
from tenuto.worker.notes import Notebook


def a_context(place: str = "ship", *, notebook: Notebook | None = None) -> Context:
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
        notebook or Notebook(),
    )


@pytest.mark.parametrize(
    "place", ["ship", "ship.2", "ship.2.3", "ship[4]", "ship.2[4]~3", "ship[p2]", "ship.2!undo"]
)
def test_the_node_is_the_place_without_passes_items_and_epochs(place: str) -> None:
    assert a_context(place).node == "ship"


def test_the_step_that_follows_a_failed_run_is_called_so() -> None:
    assert a_context("!on_failure~2").node == "on_failure"


@pytest.mark.rule("L3.3")
def test_the_idempotency_key_is_the_task_id_whatever_the_attempt() -> None:
    """Catalogue B21."""
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


def said(notebook: Notebook) -> list[tuple[str, str]]:
    """Kind and text of what has gathered."""
    return [(str(note.kind), note.text) for note in notebook.take()]


def test_lines_of_the_logger_are_kept_with_the_attempt_whatever_the_program_does_with_its_logs() -> (
    None
):
    notebook = Notebook()
    logger = a_context(notebook=notebook).logger
    logging.getLogger("tenuto").setLevel(logging.CRITICAL)
    try:
        logger.debug("unheard")
        logger.info("reserved", order="o 1", shelf=7, none=None)
        logger.bind(sku=3).warning("%s left of %d", "few", 9)
        logger.error("done by 100%", "to fill")
        logger.critical("over")
    finally:
        logging.getLogger("tenuto").setLevel(logging.NOTSET)

    assert said(notebook) == [
        ("log", 'reserved order="o 1" shelf=7 none=None'),
        ("log", "few left of 9 sku=3"),
        ("log", '"done by 100%" "to fill"'),
        ("log", "over"),
    ]


def test_an_exception_that_is_logged_is_named_in_the_note(caplog: pytest.LogCaptureFixture) -> None:
    notebook = Notebook()
    try:
        raise ValueError("no such order")
    except ValueError:
        a_context(notebook=notebook).logger.exception("failed", order=1)

    assert said(notebook) == [("log", 'failed order=1 exception="ValueError: no such order"')]
    assert "Traceback" in caplog.text


def test_a_field_that_cannot_be_shown_does_not_fail_the_task() -> None:
    class Rude:
        def __str__(self) -> str:
            raise RuntimeError

    notebook = Notebook()
    logging.disable(logging.INFO)
    try:
        a_context(notebook=notebook).logger.info("odd", value=Rude())
    finally:
        logging.disable(logging.NOTSET)

    assert said(notebook) == [("log", "odd value=<Rude>")]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((3, 10, "rows"), {"done": 3, "total": 10, "message": "rows"}),
        ((0.5,), {"done": 0.5, "total": None, "message": ""}),
        ((True, math.inf), {"done": 1, "total": None, "message": ""}),
        ((2**70, 2**71), {"done": 2.0**70, "total": 2.0**71, "message": ""}),
    ],
    ids=str,
)
def test_progress_is_numbers_that_json_holds(given: Any, text: object) -> None:
    notebook = Notebook()
    a_context(notebook=notebook).progress(*given)

    [(kind, told)] = said(notebook)
    assert kind == "progress"
    assert json.loads(told) == text


def test_progress_that_is_no_number_is_not_shown() -> None:
    notebook = Notebook()
    a_context(notebook=notebook).progress(math.nan, 3)

    assert said(notebook) == []


@pytest.mark.parametrize("given", [("3",), (None,), (1, "2")], ids=str)
def test_progress_of_another_type_is_the_callers_mistake(given: Any) -> None:
    with pytest.raises(TypeError, match="must be a number"):
        a_context().progress(*given)
