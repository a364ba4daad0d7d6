"""Work of items, handlers and inline graphs reaches whoever does it, under its own place (SEMANTICS L3, X1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support import process_tasks
from tests.support.http_server import Site, a_site

from tenuto import Context, Graph, RunFailed, Step, Tenuto, Workflow, current


@pytest.fixture
def app() -> Iterator[Tenuto]:
    with Tenuto(":memory:") as made:
        yield made


@pytest.fixture
def site() -> Iterator[Site]:
    with a_site() as made:
        yield made


def places(app: Tenuto) -> tuple[Any, list[str]]:
    """A task that notes under which id it runs, and these ids without the run's."""
    seen: list[str] = []

    @app.task
    def note(here: Context) -> str:
        assert here.idempotency_key == here.task_id == current().task_id
        seen.append(f"{here.node} {here.task_id.removeprefix(here.run_id)}")
        return here.place

    return note, seen


@pytest.mark.rule("L3.3")
def test_items_and_handlers_have_the_task_id_of_their_place(app: Tenuto) -> None:
    note, seen = places(app)

    @app.task
    def fails() -> None:
        raise ValueError("no")

    with Workflow("w") as wf:
        each = wf.foreach("each", over="[7, 8]", task=note, concurrency=1)
        each.compensate(Step.task(note))
        each >> wf.task("last", fails)
        wf.on_failure = Step.task(note)

    with pytest.raises(RunFailed, match="no"):
        app.start(wf).result(timeout=60)

    assert seen == [
        "each /each[0]",
        "each /each[1]",
        "each /each!undo",
        "on_failure /!on_failure",
    ]


@pytest.mark.rule("L3.3")
def test_an_item_that_calls_an_api_sends_its_task_id(app: Tenuto, site: Site) -> None:
    with Workflow("w") as wf:
        call = Step.http(request={"url": f"{site.url}/echo"})
        wf.foreach("each", over="range(2)", do=call, concurrency=1)

    run = app.start(wf)
    run.result(timeout=60)

    keys = [seen.headers["idempotency-key"] for seen in site.seen]
    assert keys == [f"{run.id}/each[0]", f"{run.id}/each[1]"]


def test_code_runs_for_items_in_graphs_and_as_a_handler(app: Tenuto) -> None:
    noted: list[Any] = []

    @app.task
    def fails() -> None:
        raise ValueError("no")

    @app.task
    def hear(said: Any) -> None:
        noted.append(said)

    def twice(params: dict[str, Any]) -> Any:
        return 2 * params["n"]

    with Graph() as body:
        body.output = body.code("twice", twice, params={"n": body.params.n}).output
    with Graph() as undo:
        said = undo.code("said", twice, params={"n": undo.params.n})
        said >> undo.task("heard", hear, params={"said": said.output})
    with Workflow("w") as wf:
        plain = wf.foreach("plain", over="[1, 2]", do=Step.code(twice, params={"n": wf.item}))
        graphs = wf.foreach("graphs", over=plain.output, do=body, params={"n": wf.item})
        graphs.compensate(Step.call(do=undo, params={"n": graphs.output[1]}))
        plain >> graphs >> wf.task("last", fails)

    with pytest.raises(RunFailed):
        app.start(wf).result(timeout=60)

    assert noted == [16]


def test_items_run_in_processes_of_their_own(app: Tenuto) -> None:
    app.registry.add(process_tasks.who, process=True)
    with Workflow("w") as wf:
        wf.output = wf.foreach("each", over="range(3)", task="who").output

    run = app.start(wf)

    assert run.result(timeout=60) == [
        [run.id, f"each[{n}]", 1, f"{run.id}/each[{n}]", "each"] for n in range(3)
    ]


@pytest.mark.rule("X1.1")
@pytest.mark.parametrize(("given", "kind"), [([1], "a list"), ("x", "text"), (None, "null")])
def test_computed_params_that_are_no_object_are_bad_arguments(
    app: Tenuto, given: object, kind: str
) -> None:
    @app.task
    def ship(order: str) -> str:
        return order

    for step in (
        Step.task(ship, params="${input.params}"),
        Step.code("def main(params):\n    return params\n", params="${input.params}"),
    ):
        with Workflow("w") as wf:
            wf.foreach("each", over="[0]", do=step, tolerate=1)
            wf.output = wf["each"].failures[0].error
        error = app.start(wf, {"params": given}).result(timeout=60)
        assert error["code"] == "bad_arguments"
        assert f"params must be an object, not {kind}" in error["message"]
