"""Foreach on the engine: a thousand items, graphs and calls as items, pages, failures, cancel, restart."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from tests.support.driver import engine_with

from tenuto.coordinator import timers

pytestmark = pytest.mark.usefixtures("remembered")


@pytest.fixture(autouse=True)
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is due must be announced by whoever makes it so; polling would hide a lost hint."""
    monkeypatch.setattr(timers, "POLL_US", 600_000_000)
    monkeypatch.setattr(timers, "PULSE_US", 600_000_000)


async def double(n: int) -> int:
    return n * 2


async def picky(n: int) -> int:
    if n % 10 == 3:
        raise ValueError(f"not {n}")
    return n


EACH = """
name: each
nodes:
  e: {type: foreach, over: "range(input.count)", task: double, params: {n: "${item}"}, concurrency: 100}
output: "${nodes.e.output}"
"""


def test_a_thousand_items_end_in_input_order() -> None:
    """Catalogue J1."""
    with engine_with(double) as driver:
        run = driver.run(EACH, input={"count": 1000})

        assert driver.output(run) == [2 * n for n in range(1000)]
        driver.check(run.run_id)


@pytest.mark.rule("W2.5")
def test_the_output_of_a_foreach_is_the_runs_by_reference() -> None:
    with engine_with(double) as driver:
        run = driver.run(EACH.replace('output: "${nodes.e.output}"\n', ""), input={"count": 5})

        assert driver.output(run) == {"e": [0, 2, 4, 6, 8]}


@pytest.mark.rule("W2.4")
def test_failures_and_states_of_items_may_be_read() -> None:
    text = """
name: each
nodes:
  e: {type: foreach, over: "range(20)", task: picky, params: {n: "${item}"}, tolerate: 5}
  s:
    type: set
    values:
      failed: "${nodes.e.failures.map(f, f.index)}"
      codes: "${nodes.e.failures.map(f, f.error.code)}"
      done: "${nodes.e.items.filter(i, i.status == 'success').size()}"
      third: "${nodes.e.output[3]}"
edges: [e -> s]
output: "${nodes.s.output}"
"""
    with engine_with(picky) as driver:
        run = driver.run(text)

        assert driver.output(run) == {
            "failed": [3, 13],
            "codes": ["ValueError", "ValueError"],
            "done": 18,
            "third": None,
        }
        driver.check(run.run_id)


def test_more_failures_than_are_tolerated_cancel_the_rest() -> None:
    text = """
name: each
nodes:
  e: {type: foreach, over: "range(100)", task: picky, params: {n: "${item}"}, tolerate: 1, concurrency: 1}
  s: {type: set, values: {n: "${nodes.e.items.filter(i, i.status == 'cancelled').size()}"}}
edges: [{from: e, to: s, on: failure}]
"""
    with engine_with(picky) as driver:
        run = driver.run(text)

        assert driver.output(run) == {"s": {"n": 86}}
        driver.check(run.run_id)


def test_items_that_are_graphs_are_children_with_item_and_index() -> None:
    text = """
name: each
nodes:
  e:
    type: foreach
    over: "['a', 'b', 'c']"
    params: {who: "${input.who}"}
    do:
      nodes:
        x: {type: task, task: double, params: {n: "${index}"}}
        y: {type: set, values: {t: "${params.who + item}", n: "${nodes.x.output}"}}
      edges: [x -> y]
      output: "${nodes.y.output}"
output: "${nodes.e.output}"
"""
    with engine_with(double) as driver:
        run = driver.run(text, input={"who": "-"})

        assert driver.output(run) == [{"t": f"-{c}", "n": 2 * n} for n, c in enumerate("abc")]
        assert len(driver.children(run.run_id)) == 3
        driver.check(run.run_id)


@pytest.mark.rule("W2.5")
def test_a_list_may_come_in_pages() -> None:
    text = """
name: each
nodes:
  e:
    type: foreach
    source: {task: pages, params: {size: 4}}
    task: double
    params: {n: "${item}"}
    concurrency: 3
output: "${nodes.e.output}"
"""

    def pages(size: int, cursor: int | None = None) -> dict[str, object]:
        at = cursor or 0
        return {"items": list(range(at, at + size)), "next": at + size if at + size < 12 else None}

    with engine_with(double, pages) as driver:
        run = driver.run(text)

        assert driver.output(run) == [2 * n for n in range(12)]
        driver.check(run.run_id)


def test_cancelling_a_run_cancels_items_and_their_children() -> None:
    text = """
name: each
nodes:
  e: {type: foreach, over: "range(50)", do: {nodes: {w: {type: wait, for: 1h}}}, concurrency: 20}
"""
    with engine_with() as driver:
        run_id = driver.begin(text)
        driver.until(lambda: len(driver.children(run_id)) == 20)
        driver.ask(driver.commands.cancel(run_id))
        run = driver.end(run_id)

        assert run.state == "cancelled"
        assert {c.state for c in driver.children(run_id)} == {"cancelled"}
        driver.check(run_id)


def test_F2_the_failure_of_one_child_cancels_the_others() -> None:
    text = """
name: each
nodes:
  e:
    type: foreach
    over: "range(10)"
    do:
      nodes:
        x: {type: task, task: picky, params: {n: "${item}"}}
        w: {type: wait, for: 1h}
      edges: [x -> w]
"""
    with engine_with(picky) as driver:
        run = driver.run(text)
        states = [c.state for c in driver.children(run.run_id)]

        assert run.state == "failed"
        assert driver.error(run)["code"] == "foreach_failed"
        assert states.count("failed") == 1
        assert set(states) == {"failed", "cancelled"}
        driver.check(run.run_id)


def test_items_go_on_after_the_engine_was_stopped_in_the_middle(tmp_path: Path) -> None:
    path, begun, stopped = tmp_path / "t.db", threading.Semaphore(0), threading.Event()
    done: list[int] = []

    async def slow(n: int) -> int:
        begun.release()
        if len(done) >= 100 and not stopped.is_set():
            await asyncio.Event().wait()  # however long it takes until the engine is stopped
        done.append(n)
        return n

    text = EACH.replace("double", "slow")
    with engine_with(slow, path=path) as driver:
        run_id = driver.begin(text, input={"count": 600})
        for _ in range(150):
            assert begun.acquire(timeout=60)
        driver.engine.stop(grace_s=0)
    assert len(done) < 600
    stopped.set()
    with engine_with(slow, path=path) as driver:
        run = driver.end(run_id)

        assert driver.output(run) == list(range(600))
        driver.check(run_id)


def test_children_of_items_go_on_after_the_engine_was_stopped_in_the_middle(
    tmp_path: Path,
) -> None:
    text = """
name: each
nodes:
  e:
    type: foreach
    over: "range(120)"
    concurrency: 40
    do:
      nodes:
        x: {type: task, task: slow, params: {n: "${item}"}}
        y: {type: task, task: slow, params: {n: "${nodes.x.output}"}}
      edges: [x -> y]
      output: "${nodes.y.output}"
output: "${nodes.e.output}"
"""
    path, begun = tmp_path / "t.db", threading.Semaphore(0)

    async def slow(n: int) -> int:
        begun.release()
        return n

    run_id = None
    for after in (20, 60, 100):
        with engine_with(slow, path=path) as driver:
            run_id = run_id or driver.begin(text)
            for _ in range(after):
                begun.acquire(timeout=5)
            driver.engine.stop(grace_s=0)
    with engine_with(slow, path=path) as driver:
        assert run_id is not None
        run = driver.end(run_id)

        assert driver.output(run) == list(range(120))
        assert len(driver.children(run_id)) == 120
        driver.check(run_id)


def test_a_queue_that_is_computed_is_served_after_a_restart_too(tmp_path: Path) -> None:
    text = """
name: each
nodes:
  e: {type: foreach, over: "['x', 'y']", task: "${input.task}", queue: "q-${item}", params: {n: 1}}
output: "${nodes.e.output}"
"""
    path = tmp_path / "t.db"
    with engine_with(path=path) as driver:
        run_id = driver.begin(text, input={"task": "double"})
    with engine_with(double, path=path) as driver:
        assert driver.output(driver.end(run_id)) == [2, 2]
        driver.check(run_id)
