"""Retry, replay and skip on the engine (SEMANTICS R), undoing (C3, C4), and what is refused."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.support.driver import engine_with

from tenuto.coordinator import timers
from tenuto.model.errors import Conflict, InvalidInput, NotFound
from tenuto.model.ids import RunId

pytestmark = pytest.mark.usefixtures("remembered")


@pytest.fixture(autouse=True)
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is due must be announced by whoever makes it so; polling would hide a lost hint."""
    monkeypatch.setattr(timers, "POLL_US", 600_000_000)
    monkeypatch.setattr(timers, "PULSE_US", 600_000_000)


class Shop:
    """Tasks that remember what they did, and fail while they are told to."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.broken: set[str] = set()

    def work(self, what: str) -> str:
        self.did.append(what)
        if what in self.broken:
            raise ValueError(f"{what} is broken")
        return what


@pytest.fixture
def shop() -> Shop:
    return Shop()


CHAIN = """
name: chain
nodes:
  a: {type: task, task: work, params: {what: a}}
  b: {type: task, task: work, params: {what: "${'b' + string(size(nodes.a.output))}"}}
  c: {type: task, task: work, params: {what: c}}
edges: [a -> b, b -> c]
"""


@pytest.mark.rule("R1.6")
def test_R1_a_retry_goes_on_where_the_run_failed(shop: Shop) -> None:
    """Catalogue I-4."""
    shop.broken = {"b1"}
    with engine_with(shop.work) as driver:
        run_id = driver.begin(CHAIN)
        assert driver.end(run_id).state == "failed"
        plan = driver.ask(driver.commands.retry(run_id, dry_run=True))
        assert (plan.first, plan.nodes, plan.kept) == (("b", "c"), ("b", "c"), ("a",))
        assert driver.row(run_id).state == "failed"
        shop.broken = set()
        driver.ask(driver.commands.retry(run_id))
        run = driver.end(run_id)

        assert run.state == "success"
        assert shop.did == ["a", "b1", "b1", "c"]
        assert driver.output(run) == {"c": "c"}
        driver.check(run_id)


def test_R1_what_is_refused_says_why(shop: Shop) -> None:
    with engine_with(shop.work) as driver:
        run_id = driver.begin(CHAIN)
        driver.end(run_id)
        with pytest.raises(Conflict, match="the run succeeded"):
            driver.ask(driver.commands.retry(run_id))
        with pytest.raises(NotFound):
            driver.ask(driver.commands.retry(RunId("nowhere")))
        with pytest.raises(NotFound, match="node"):
            driver.ask(driver.commands.replay(run_id, "z"))
        waiting = driver.begin("name: w\nnodes:\n  w: {type: wait, for: 1h}\n")
        with pytest.raises(Conflict, match="has not ended"):
            driver.ask(driver.commands.retry(waiting))
        with pytest.raises(Conflict, match="has not ended"):
            driver.ask(driver.commands.replay(waiting, "w"))


def test_R1_a_foreach_does_only_the_items_again_that_failed(shop: Shop) -> None:
    text = """
name: each
nodes:
  e: {type: foreach, over: "['a', 'b', 'c', 'd']", task: work, params: {what: "${item}"}, concurrency: 4, tolerate: 1}
output: "${nodes.e.output}"
"""
    shop.broken = {"b", "d"}
    with engine_with(shop.work) as driver:
        run_id = driver.begin(text)
        assert driver.end(run_id).state == "failed"
        shop.broken = set()
        before = len(shop.did)
        plan = driver.ask(driver.commands.retry(run_id))
        run = driver.end(run_id)

        assert plan.inside == ("e",)
        assert driver.output(run) == ["a", "b", "c", "d"]
        assert {"b", "d"} <= set(shop.did[before:])
        assert "a" not in shop.did[before:] or plan.items[0][1] > 2
        driver.check(run_id)


def test_R1_a_call_goes_on_inside_its_child(shop: Shop) -> None:
    child = CHAIN.replace("name: chain", "name: child")
    text = "name: parent\nnodes:\n  p: {type: call, call: child, input: {}}\n"
    shop.broken = {"b1"}
    with engine_with(shop.work) as driver:
        driver.deploy(child)
        run_id = driver.begin(text)
        assert driver.end(run_id).state == "failed"
        shop.broken = set()
        plan = driver.ask(driver.commands.retry(run_id))
        run = driver.end(run_id)

        assert plan.inside == ("p",)
        assert driver.output(run) == {"p": {"c": "c"}}
        assert shop.did == ["a", "b1", "b1", "c"]
        assert len(driver.children(run_id)) == 1
        driver.check(run_id)


def test_R1_a_call_whose_child_allows_no_retry_starts_a_new_one(shop: Shop) -> None:
    child = """
name: child
nodes:
  a: {type: task, task: work, params: {what: a}, compensate: {type: task, task: work, params: {what: undo}}}
  b: {type: task, task: work, params: {what: b}}
edges: [a -> b]
"""
    text = "name: parent\nnodes:\n  p: {type: call, call: child, input: {}}\n"
    shop.broken = {"b"}
    with engine_with(shop.work) as driver:
        driver.deploy(child)
        run_id = driver.begin(text)
        assert driver.end(run_id).state == "failed"
        shop.broken = set()
        plan = driver.ask(driver.commands.retry(run_id))

        assert plan.anew == ("p",)
        assert driver.end(run_id).state == "success"
        assert shop.did == ["a", "b", "undo", "a", "b"]
        assert [c.state for c in driver.children(run_id)] == ["failed", "success"]
        driver.check(run_id)


def test_R2_a_replay_is_a_new_run_that_keeps_what_came_before(shop: Shop) -> None:
    text = """
name: re
input: {type: object, properties: {n: {type: integer}}}
vars: {unit: EUR}
nodes:
  a: {type: task, task: work, params: {what: "a${input.n}"}}
  e: {type: foreach, over: "['x', 'y']", task: work, params: {what: "${item}"}}
  b: {type: task, task: work, params: {what: "b${input.n}${vars.unit}"}}
edges: [a -> e, e -> b]
output: {a: "${nodes.a.output}", e: "${nodes.e.output}", b: "${nodes.b.output}"}
"""
    with engine_with(shop.work) as driver:
        source = driver.begin(text, input={"n": 1})
        driver.end(source)
        none, plan = driver.ask(driver.commands.replay(source, "b", dry_run=True))
        assert none is None
        assert (plan.nodes, plan.kept) == (("b",), ("a", "e"))
        new, plan = driver.ask(
            driver.commands.replay(source, "b", input='{"n": 2}', vars={"unit": "USD"})
        )
        run = driver.end(new)

        assert plan.changed == ("a",)
        assert driver.output(run) == {"a": "a1", "e": ["x", "y"], "b": "b2USD"}
        assert run.source == source
        assert sorted(shop.did) == ["a1", "b1EUR", "b2USD", "x", "y"]
        with pytest.raises(InvalidInput, match=r"input\.n"):
            driver.ask(driver.commands.replay(source, "b", input='{"n": "two"}'))
        driver.check(source, new)


def test_R2_a_replay_is_refused_once_a_kept_node_was_undone(shop: Shop) -> None:
    text = """
name: re
nodes:
  a: {type: task, task: work, params: {what: a}, compensate: {type: task, task: work, params: {what: undo}}}
  b: {type: task, task: work, params: {what: b}}
edges: [a -> b]
"""
    shop.broken = {"b"}
    with engine_with(shop.work) as driver:
        run_id = driver.begin(text)
        assert driver.end(run_id).compensation == "complete"
        with pytest.raises(Conflict, match="undone"):
            driver.ask(driver.commands.replay(run_id, "b"))
        with pytest.raises(Conflict, match="undone"):
            driver.ask(driver.commands.retry(run_id))
        shop.broken = set()
        new, _ = driver.ask(driver.commands.replay(run_id, "a"))
        assert driver.end(new).state == "success"


def test_a_node_under_way_or_one_that_failed_may_be_skipped(shop: Shop) -> None:
    text = """
name: s
nodes:
  w: {type: wait, for: 1h}
  b: {type: task, task: work, params: {what: b}}
  c: {type: task, task: work, params: {what: "${nodes.b.output}"}}
edges: [w -> b, b -> c]
"""
    shop.broken = {"b"}
    with engine_with(shop.work) as driver:
        run_id = driver.begin(text)
        with pytest.raises(Conflict, match="nothing under way"):
            driver.ask(driver.commands.skip(run_id, "b", "1"))
        with pytest.raises(NotFound):
            driver.ask(driver.commands.skip(run_id, "z", "1"))
        driver.ask(driver.commands.skip(run_id, "w", "null"))
        assert driver.end(run_id).state == "failed"
        driver.ask(driver.commands.skip(run_id, "b", '"by hand"'))
        run = driver.end(run_id)

        assert driver.output(run) == {"c": "by hand"}
        driver.check(run_id)


SAGA = """
name: trip
nodes:
  hotel:
    type: task
    task: work
    params: {what: hotel}
    compensate: {type: task, task: work, params: {what: "-${nodes.hotel.output}"}}
  flight:
    type: task
    task: work
    params: {what: flight}
    compensate: {type: task, task: work, params: {what: "-${nodes.flight.output}"}}
  car: {type: task, task: work, params: {what: car}}
edges: [hotel -> flight, flight -> car]
on_failure: {type: task, task: work, params: {what: "told ${error.code}"}}
"""


def test_C3_a_saga_undoes_what_was_done_in_reverse(shop: Shop) -> None:
    shop.broken = {"car"}
    with engine_with(shop.work) as driver:
        run = driver.run(SAGA)

        assert (run.state, run.compensation) == ("failed", "complete")
        assert shop.did == ["hotel", "flight", "car", "-flight", "-hotel", "told ValueError"]
        driver.check(run.run_id)


@pytest.mark.parametrize("stop_at", [1, 2, 3, 4, 5, 6])
def test_C3_a_saga_goes_on_after_the_engine_was_stopped_in_the_middle(
    tmp_path: Path, stop_at: int
) -> None:
    path, did, entered = tmp_path / "t.db", [], threading.Event()

    async def work(what: str) -> str:
        did.append(what)
        if len(did) == stop_at:
            entered.set()
        if what == "car":
            raise ValueError("no car")
        return what

    with engine_with(work, path=path) as driver:
        run_id = driver.begin(SAGA)
        assert entered.wait(60)
        driver.engine.stop(grace_s=0)
    with engine_with(work, path=path) as driver:
        run = driver.end(run_id)

        assert (run.state, run.compensation) == ("failed", "complete")
        order = list(dict.fromkeys(did))
        assert order == ["hotel", "flight", "car", "-flight", "-hotel", "told ValueError"]
        driver.check(run_id)


def test_C2_no_handler_begins_while_work_is_still_leased() -> None:
    text = """
name: drain
nodes:
  a: {type: task, task: quick, compensate: {type: task, task: undo}}
  b: {type: task, task: slow, compensate: {type: task, task: undo_slow, when: started}}
  c: {type: task, task: fails}
edges: [a -> c]
"""
    slow_runs, go, order = threading.Event(), threading.Event(), []

    def quick() -> None:
        assert slow_runs.wait(60)

    def slow() -> str:
        slow_runs.set()
        assert go.wait(60)
        order.append("slow ended")
        return "done"

    def fails() -> None:
        raise ValueError("no")

    def undo() -> None:
        order.append("undo")

    def undo_slow() -> None:
        order.append("undo slow")

    with engine_with(quick, slow, fails, undo, undo_slow) as driver:
        run_id = driver.begin(text)
        driver.until(lambda: driver.row(run_id).state == "closing")
        assert order == []
        go.set()
        run = driver.end(run_id)

        assert run.compensation == "complete"
        assert order[0] == "slow ended"
        assert sorted(order[1:]) == ["undo", "undo slow"]
        driver.check(run_id)


def test_C4_terminate_ends_a_closing_run_without_its_handlers() -> None:
    text = """
name: t
nodes:
  a: {type: task, task: fails}
on_failure: {type: call, do: {nodes: {w: {type: wait, for: 1h}}}}
"""

    def fails() -> None:
        raise ValueError("no")

    with engine_with(fails) as driver:
        run_id = driver.begin(text)
        driver.until(lambda: driver.children(run_id))
        with pytest.raises(Conflict, match="closing"):
            driver.ask(driver.commands.cancel(run_id))
        driver.ask(driver.commands.terminate(run_id))
        run = driver.row(run_id)
        [child] = driver.children(run_id)
        driver.until(lambda: "ChildSettled" in driver.kinds(run_id))

        assert run.state == "failed"
        assert driver.row(child.run_id).state == "cancelled"
        driver.check(run_id)


def test_a_retry_goes_on_after_the_engine_was_stopped_in_the_middle(tmp_path: Path) -> None:
    """Catalogue A10."""
    path, entered, broken = tmp_path / "t.db", threading.Event(), {"b"}
    text = """
name: parent
nodes:
  p:
    type: call
    do:
      nodes: {a: {type: task, task: work, params: {what: a}}, b: {type: task, task: work, params: {what: b}}}
      edges: [a -> b]
  q: {type: task, task: work, params: {what: q}}
edges: [p -> q]
"""

    async def work(what: str) -> str:
        if what in broken:
            entered.set()
            raise ValueError("broken")
        return what

    with engine_with(work, path=path) as driver:
        run_id = driver.begin(text)
        assert driver.end(run_id).state == "failed"
        broken.clear()
        driver.ask(driver.commands.retry(run_id))
        driver.engine.stop(grace_s=0)
    with engine_with(work, path=path) as driver:
        assert driver.end(run_id).state == "success"
        assert len(driver.children(run_id)) == 1
        driver.check(run_id)


def test_C2_a_run_drains_as_soon_as_its_cancelled_work_fails_or_is_lost(tmp_path: Path) -> None:
    """Not only when the lease expires: its worker's report, or its worker's death, ends it."""
    text = """
name: drain
nodes:
  a: {type: task, task: quick, compensate: {type: task, task: undo}}
  b: {type: task, task: slow}
  c: {type: task, task: fails}
edges: [a -> c]
"""
    slow_runs, go, undone = threading.Event(), threading.Event(), threading.Event()

    def quick() -> None:
        assert slow_runs.wait(60)

    def slow() -> str:
        slow_runs.set()
        assert go.wait(60)
        raise ValueError("too late")

    def fails() -> None:
        raise ValueError("no")

    def undo() -> None:
        undone.set()

    with engine_with(quick, slow, fails, undo, path=tmp_path / "t.db", lease_us=60_000_000) as d:
        run_id = d.begin(text)
        d.until(lambda: d.row(run_id).state == "closing")
        go.set()
        assert undone.wait(20)
        assert d.end(run_id).compensation == "complete"
        d.check(run_id)


def test_R1_of_several_retries_at_once_one_goes_on_and_the_others_are_told_why(shop: Shop) -> None:
    """Catalogue I-19."""
    shop.broken = {"b1"}
    with engine_with(shop.work) as driver:
        run_id = driver.begin(CHAIN)
        driver.end(run_id)
        shop.broken = set()
        calls = [driver.engine.call(driver.commands.retry(run_id)) for _ in range(3)]
        errors = [str(call.exception()) for call in calls if call.exception() is not None]

        assert len(errors) == 2
        assert all("has not ended" in error or "succeeded" in error for error in errors)
        assert driver.end(run_id).state == "success"
        driver.check(run_id)
