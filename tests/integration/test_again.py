"""Doing runs again, in part or as a whole, through the SDK near and far, and through REST: the same verbs, plans and
refusals.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.support.looping import LOOP
from tests.support.rest import Server, serving

from tenuto import Conflict, InvalidInput, NotFound, Tenuto
from tenuto.api import models, nested
from tenuto.sdk.failures import RunFailed
from tenuto.worker.registry import Registry, TaskError

pytestmark = pytest.mark.usefixtures("remembered")

LISTED = """
name: listed
nodes:
  each: {type: foreach, over: "range(5)", task: picky, params: {n: "${item}"}}
  sum: {type: set, needs: [each], values: {all: "${nodes.each.output}"}}
"""
FAMILY = """
name: family
nodes:
  sub: {type: call, do: {nodes: {w: {type: wait_for_event, event: go, key: "${input.key}"}}}}
input: {type: object, required: [key], properties: {key: {type: string}}}
"""
SAGA = """
name: saga
nodes:
  book: {type: task, task: fine, compensate: {type: task, task: fine}}
  pay: {type: task, task: refuse, needs: [book]}
"""
CHAIN = """
name: chain
input: {type: object, properties: {n: {type: integer, default: 1}}}
nodes:
  a: {type: set, values: {n: "${input.n}"}}
  b: {type: set, needs: [a], values: {n: "${nodes.a.output.n + input.n}"}}
output: "${nodes.b.output.n}"
"""
CALLBACK = """
name: callback
nodes:
  w: {type: wait_for_event, event: job.done, key: K, heartbeat_timeout: 1h}
"""
bad = {3}


def tasks() -> Registry:
    def picky(n: int) -> int:
        if n in bad:
            raise TaskError("bad_item", f"{n} is bad")
        return n * n

    def fine() -> None:
        return None

    def refuse() -> None:
        raise TaskError("no_stock", "none left")

    registry = Registry()
    for each in (picky, fine, refuse):
        registry.add(each)
    return registry


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(registry=tasks()) as made:
        yield made


@pytest.fixture(params=["near", "far"])
def app(request: pytest.FixtureRequest, server: Server) -> Iterator[Tenuto]:
    if request.param == "far":
        with Tenuto(server.url) as made:
            yield made
        return
    with Tenuto(":memory:") as made:
        made.registry = made.near._registry = tasks()
        yield made


@pytest.fixture(autouse=True)
def _all_bad() -> Iterator[None]:
    bad.add(3)
    yield
    bad.add(3)


def failed(run: Any) -> Any:
    with pytest.raises(RunFailed):
        run.result(timeout=30)
    return run


def until(holds: Any) -> Any:
    given_up_at = time.monotonic() + 30
    while not (found := holds()):
        assert time.monotonic() < given_up_at, "it never came true"
        time.sleep(0.01)
    return found


def test_R1_a_retry_shows_its_plan_and_does_only_what_failed(app: Tenuto) -> None:
    """Catalogue L14."""
    run = failed(app.start(LISTED))

    plan = run.retry(dry_run=True)
    assert plan.first == plan.nodes == ("each", "sum")
    assert (plan.inside, plan.items["each"]) == (
        ("each",),
        sum(i.state != "success" for i in run.items("each")),
    )
    assert run.status() == "failed"
    [dead] = run.items("each", state="dead")
    assert (dead.index, dead.error["code"], dead.input) == (3, "bad_item", {"n": 3})

    bad.clear()
    assert run.retry() == plan
    assert run.result(timeout=30) == {"sum": {"all": [0, 1, 4, 9, 16]}}
    assert [item.output for item in run.items("each")] == [0, 1, 4, 9, 16]
    with pytest.raises(Conflict, match="the run succeeded; replay it from a node instead"):
        run.retry()


def test_R1_a_retry_without_a_node_gives_it_an_output(app: Tenuto) -> None:
    run = failed(app.start(LISTED))

    plan = app.retry(run.id, skip="each", output=[7])

    assert plan.skipped == "each"
    assert run.result(timeout=30) == {"sum": {"all": [7]}}


@pytest.mark.parametrize(
    ("verb", "error", "told"),
    [
        (lambda run: run.retry(output=1), InvalidInput, "name it: skip="),
        (lambda run: run.retry(skip="eech"), NotFound, "eech"),
        (lambda run: run.retry(skip="sum"), Conflict, "waits for others that are done again"),
        (lambda run: run.retry(skip=""), InvalidInput, "is empty"),
        (lambda run: run.skip("nope"), NotFound, "nope"),
        (lambda run: run.replay("nope"), NotFound, "nope"),
        (lambda run: run.items("sum"), InvalidInput, "is no foreach"),
        (lambda run: run.items("each", state="odd"), InvalidInput, "'odd'"),
        (lambda run: run.iterations("sum"), InvalidInput, "is in no loop"),
        (lambda run: run.terminate(), Conflict, "already failed"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    app: Tenuto, verb: Any, error: type[Exception], told: str
) -> None:
    run = failed(app.start(LISTED))

    with pytest.raises(error) as caught:
        verb(run)
    assert told in str(caught.value)


def test_C3_a_run_whose_work_was_undone_is_not_retried(app: Tenuto) -> None:
    run = failed(app.start(SAGA))

    with pytest.raises(Conflict, match="has been undone"):
        run.retry()


def test_R2_a_replay_keeps_what_was_before_and_takes_another_input(app: Tenuto) -> None:
    run = app.start(CHAIN, {"n": 2})
    assert run.result(timeout=30) == 4

    plan = run.plan_replay("b", {"n": 10})
    assert (plan.nodes, plan.kept, plan.changed) == (("b",), ("a",), ("a",))
    new = run.replay("b", {"n": 10})

    assert new != run
    assert new.result(timeout=30) == 12
    assert app.replay(run.id, "a").result(timeout=30) == 4
    with pytest.raises(InvalidInput):
        run.replay("b", {"n": "text"})


def test_a_parent_knows_its_children_and_terminates_them(app: Tenuto) -> None:
    run = app.start(FAMILY, {"key": f"t{id(app)}"})
    [child] = until(run.children)
    assert child.status() in ("pending", "running")

    run.terminate("enough")

    assert until(lambda: child.status() == "cancelled")
    assert run.status() == "cancelled"
    with pytest.raises(Conflict, match="already cancelled"):
        run.terminate()


def test_a_node_under_way_is_skipped(app: Tenuto) -> None:
    run = app.start(FAMILY, {"key": f"s{id(app)}"})
    [child] = until(run.children)

    run.skip("sub", {"by": "hand"})

    assert run.result(timeout=30) == {"sub": {"by": "hand"}}
    assert until(lambda: child.status() == "cancelled")


def test_iterations_are_listed_oldest_first(app: Tenuto) -> None:
    run = app.start(LOOP)
    run.result(timeout=30)

    passes = run.iterations("count")

    assert [each.iteration for each in passes] == [1, 2, 3]
    assert [each.output for each in passes] == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_a_heartbeat_is_heard_by_who_waits(app: Tenuto) -> None:
    run = app.start(CALLBACK)
    until(lambda: app.heartbeat("job.done", "K"))

    assert app.heartbeat("job.done", "other") == 0
    run.cancel()


def test_an_event_may_be_kept_for_so_long(app: Tenuto) -> None:
    assert app.send_event("kept", "k", 1, keep="1h")
    for keep in ("0s", "soon"):
        with pytest.raises(InvalidInput):
            app.send_event("kept", "k", 1, keep=keep)


def test_C6_timers_are_frozen_while_a_run_is_paused(app: Tenuto) -> None:
    run = app.start("name: nap\nnodes: {w: {type: wait, for: 1h}}\n")
    run.pause()
    run.resume(freeze_timers=True)
    with pytest.raises(Conflict, match="is not paused"):
        run.resume()
    run.cancel()


# -- REST ----------------------------------------------------------------------------------------------------------


def ended(server: Server, source: str) -> str:
    """A run that has ended, of a definition whose second line names it."""
    server.deploy(source)
    name = source.splitlines()[1].removeprefix("name: ")
    run: str = server.client.post("/v1/runs", json={"workflow": name}).json()["run_id"]
    server.client.get(f"/v1/runs/{run}/wait", params={"timeout": 30})
    return run


def post(server: Server, path: str, **more: Any) -> httpx2.Response:
    return server.client.post(path, **more)


def test_rest_answers_plans_and_lists_in_the_shapes_that_it_documents(server: Server) -> None:
    run = ended(server, LISTED)
    path = f"/v1/runs/{run}"

    models.RunReport.model_validate(server.get(path))
    models.RunNode.model_validate(server.get(f"{path}/nodes/each"))
    nested.ItemPage.model_validate(server.get(f"{path}/nodes/each/items?state=dead&limit=1"))
    planned = post(server, f"{path}/retry?dry_run=true").json()
    assert nested.Planned.model_validate(planned).dry_run
    assert server.get(path)["state"] == "failed"
    skipped = post(server, f"{path}/retry", json={"skip": {"node": "each", "output": [1]}})
    assert (skipped.status_code, skipped.json()["run_id"]) == (200, run)
    assert server.get(f"{path}/wait?timeout=30")["output"] == {"sum": {"all": [1]}}
    again = post(server, f"{path}/replay", json={"from": "sum"})
    assert again.status_code == 201
    assert again.headers["location"] == f"/v1/runs/{again.json()['run_id']}"
    nested.Planned.model_validate(again.json())
    loop = ended(server, LOOP)
    nested.IterationPage.model_validate(server.get(f"/v1/runs/{loop}/nodes/count/iterations"))
    models.RunPage.model_validate(server.get(f"{path}/children"))
    nested.Heard.model_validate(
        post(server, "/v1/events/heartbeat", json={"event": "nobody", "key": "k"}).json()
    )


@pytest.mark.parametrize(
    ("path", "body", "status", "told"),
    [
        ("retry", {"skip": {}}, 422, "skip.node: is missing"),
        ("retry", {"skipp": 1}, 422, "did you mean 'skip'?"),
        ("retry?dryrun=true", {}, 422, "did you mean 'dry_run'?"),
        ("replay", {}, 422, "from: is missing"),
        ("replay", {"from": "nope"}, 404, "nope"),
        ("replay", {"from": "sum", "vars": {"x": 1}}, 422, "vars.x"),
        ("nodes/nope/skip", {}, 404, "nope"),
        ("nodes/each/skip", {"out": 1}, 422, "did you mean 'output'?"),
        ("terminate", {}, 409, "already failed"),
        ("resume", {"freeze_timers": "yes"}, 422, "true or false"),
    ],
)
def test_a_wrong_request_is_a_problem_with_its_cure(
    server: Server, path: str, body: Any, status: int, told: str
) -> None:
    run = ended(server, LISTED)

    answer = post(server, f"/v1/runs/{run}/{path}", json=body)

    assert (answer.status_code, told in answer.json()["detail"]) == (status, True), answer.json()
