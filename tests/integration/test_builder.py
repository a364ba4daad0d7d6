"""Workflows built in Python, run to their end by the engine, with typed tasks."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
import threading
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tenuto import Context, InvalidDefinition, InvalidInput, RunFailed, Tenuto, Workflow, current
from tenuto.app.embedded import Engine
from tenuto.ports.gateway import NoteKind
from tenuto.ports.store import NoteRow
from tenuto.sdk.run import Run


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Item(BaseModel):
    sku: str
    price: Decimal


class Order(BaseModel):
    id: str
    placed: dt.datetime
    items: list[Item]
    size: Size = Size.SMALL


@dataclasses.dataclass
class Bill:
    order: str
    total: Decimal
    skus: set[str]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Tenuto]:
    with Tenuto(tmp_path / "runs.db") as made:
        yield made


ORDER = {
    "id": "o-1",
    "placed": "2026-01-02T03:04:05Z",
    "items": [{"sku": "b", "price": "1.50"}, {"sku": "a", "price": 2}],
}


def shop(app: Tenuto) -> Workflow:
    """Bill an order, count and greet side by side, then look whether it is dear."""

    @app.task(name="shop.bill")
    def bill(order: Order) -> Bill:
        assert order.placed.tzinfo is not None
        return Bill(
            order.id, sum((i.price for i in order.items), Decimal()), {i.sku for i in order.items}
        )

    @app.task
    async def count(here: Context, skus: set[str]) -> dict[str, Any]:
        await asyncio.sleep(0)
        here.progress(len(skus), len(skus))
        here.logger.info("counted", skus=len(skus))
        return {"count": len(skus), "key": here.idempotency_key}

    @app.task
    def greet(name: str, size: Size = Size.LARGE) -> tuple[str, Size]:
        return f"Dear {name}", size

    with Workflow("shop", input=Order) as wf:
        billed = wf.task("billed", bill, params={"order": wf.input})
        counted = wf.task("counted", count, params={"skus": billed.output.skus})
        greeted = wf.task("greeted", greet, params={"name": billed.output.order, "size": "small"})
        dear = wf.switch("dear")
        yes = wf.set("yes", {"dear": True})
        no = wf.set("no", {"dear": False})
        billed >> [counted, greeted] >> dear
        dear.when("double(nodes.billed.output.total) > 3.0") >> yes
        dear.otherwise >> no
        wf.output = {
            "total": billed.output.total,
            "count": counted.output.count,
            "greeting": greeted.output,
            "dear": "${has(nodes.yes.output)}",
        }
    return wf


def test_a_built_workflow_runs_to_its_end_with_typed_tasks(app: Tenuto) -> None:
    run = app.start(shop(app), ORDER)

    assert run.result(timeout=60) == {
        "total": "3.50",
        "count": 2,
        "greeting": ["Dear o-1", "small"],
        "dear": True,
    }
    assert notes_of(app, run) == {
        (NoteKind.LOG, "counted skus=2"),
        (NoteKind.PROGRESS, '{"done":2,"total":2,"message":""}'),
    }


def notes_of(app: Tenuto, run: Run) -> set[tuple[NoteKind, str]]:
    async def read(engine: object) -> Sequence[NoteRow]:
        assert isinstance(engine, Engine)
        return await engine.reads.notes(run.id)

    return {(row.kind, row.text) for row in app.link.wait(app.link.ask(read), "notes")}


def test_it_is_deployed_once_and_started_by_its_name(app: Tenuto) -> None:
    wf = shop(app)
    first = app.deploy(wf)
    again = app.deploy(wf)
    same = app.deploy(Workflow.from_yaml(wf.to_yaml()))
    wf.task("more", "greet", params={"name": "you"})
    other = app.deploy(wf)

    assert [each.version for each in (first, again, same, other)] == [1, 1, 1, 2]
    assert app.start("shop", ORDER).result(timeout=60)["count"] == 2


def test_a_python_function_is_the_code_of_a_node(app: Tenuto) -> None:
    def score(params: dict[str, Any]) -> dict[str, float]:
        return {"risk": params["amount"] / 100}

    with Workflow("scoring") as wf:
        wf.output = wf.code("score", score, params={"amount": wf.input.amount}).output

    assert app.start(wf, {"amount": 50}).result(timeout=60) == {"risk": 0.5}


def test_a_workflow_with_findings_is_not_stored_and_names_lines_of_python(app: Tenuto) -> None:
    with Workflow("odd") as wf:
        wf.task("a", "t", params={"n": "${nodes.b.output}"})

    with pytest.raises(
        InvalidDefinition, match=r"test_builder\.py:\d+:\d+: error unknown_reference"
    ):
        app.start(wf)
    with pytest.raises(InvalidInput, match="is no workflow; give a path"):
        app.start(wf.to_dict())  # type: ignore[arg-type]


def test_arguments_that_do_not_fit_fail_the_node_once_and_the_worker_goes_on(app: Tenuto) -> None:
    calls: list[int] = []

    @app.task
    def double(n: int) -> int:
        calls.append(n)
        return 2 * n

    with Workflow("doubling") as wf:
        first = wf.task("first", double, params={"n": wf.input.n}, retry={"max_attempts": 5})
        wf.output = first.output

    with pytest.raises(RunFailed) as caught:
        app.start(wf, {"n": "2"}).result(timeout=60)

    assert (caught.value.code, caught.value.message) == (
        "bad_arguments",
        'task double(n: int) -> int: n must be a whole number, not "2"',
    )
    assert calls == []
    assert app.start(wf, {"n": 2}).result(timeout=60) == 4


def test_a_result_that_json_cannot_hold_is_still_refused(app: Tenuto) -> None:
    @app.task
    def odd() -> dict[str, Any]:
        return {"a": [object()]}

    with pytest.raises(RunFailed, match=r"invalid_result: result\.a\[0\] is an object"):
        app.enqueue(odd).result(timeout=60)


def test_enqueue_takes_models_and_checks_them_before_it_stores_anything(app: Tenuto) -> None:
    @app.task
    def total(order: Order) -> Decimal:
        return sum((item.price for item in order.items), Decimal())

    assert app.enqueue(total, order=Order.model_validate(ORDER)).result(timeout=60) == "3.50"
    assert app.enqueue(total, **ORDER).result(timeout=60) == "3.50"
    assert total(Order.model_validate(ORDER)) == Decimal("3.50")
    with pytest.raises(InvalidInput, match=r"order\.items\[0\]\.price should be a valid decimal"):
        app.enqueue(total, **{**ORDER, "items": [{"sku": "a", "price": "much"}]})


def test_a_cancelled_coroutine_gets_an_error_and_a_cancelled_function_the_flag(app: Tenuto) -> None:
    begun, seen = threading.Semaphore(0), threading.Semaphore(0)

    @app.task
    async def waits() -> None:
        begun.release()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            seen.release()
            raise

    @app.task
    def looks(here: Context) -> None:
        begun.release()
        while not here.cancelled:
            assert here is current()
            stop.wait(0.01)
        seen.release()

    stop = threading.Event()
    with Workflow("both") as wf:
        wf.task("waits", waits)
        wf.task("looks", looks)

    run = app.start(wf)
    assert begun.acquire(timeout=60)
    assert begun.acquire(timeout=60)
    run.cancel("enough")

    assert seen.acquire(timeout=60)
    assert seen.acquire(timeout=60)
    with pytest.raises(RunFailed, match="was cancelled"):
        run.result(timeout=60)
