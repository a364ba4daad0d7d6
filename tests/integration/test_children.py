"""Runs that call runs, on the engine: versions, inputs, ends, cancel, pause, focus (SEMANTICS F6, C2, C4, C6)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.support.driver import Driver, engine_with

from tenuto.coordinator import timers
from tenuto.model.errors import Conflict, InvalidInput, NotFound

pytestmark = pytest.mark.usefixtures("remembered")


@pytest.fixture(autouse=True)
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is due must be announced by whoever makes it so; polling would hide a lost hint."""
    monkeypatch.setattr(timers, "POLL_US", 600_000_000)
    monkeypatch.setattr(timers, "PULSE_US", 600_000_000)


def add(n: int, m: int = 0) -> int:
    return n + m


def fails() -> None:
    raise ValueError("on purpose")


class Gate:
    """A task that waits until it is let through."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()

    def task(self) -> str:
        self.entered.release()
        assert self.open.wait(60)
        return "through"


@pytest.fixture
def gate() -> Gate:
    return Gate()


CHILD = """
name: child
input: {type: object, properties: {n: {type: integer}, m: {type: integer, default: 5}}, required: [n]}
vars: {unit: EUR}
nodes:
  a: {type: task, task: add, params: {n: "${input.n}", m: "${input.m}"}}
output: {total: "${nodes.a.output}", unit: "${vars.unit}"}
"""


def calling(call: str = "child", more: str = 'input: {n: "${input.n}"}', rest: str = "") -> str:
    return f"name: parent\nnodes:\n  c: {{type: call, call: {call}, {more}}}\n{rest}"


def test_F6_a_call_ends_with_the_output_of_its_child_and_both_know_each_other() -> None:
    with engine_with(add) as driver:
        driver.deploy(CHILD)
        run = driver.run(calling(), input={"n": 1})
        [child] = driver.children(run.run_id)

        assert driver.output(run) == {"c": {"total": 6, "unit": "EUR"}}
        assert child.parent == (run.run_id, "c")
        assert (child.workflow, child.state) == ("child", "success")
        assert driver.kinds(run.run_id) == ["RunStarted", "ChildSettled"]
        driver.check(run.run_id)


def test_F6_the_output_of_a_call_may_be_a_part_of_its_childs() -> None:
    with engine_with(add) as driver:
        driver.deploy(CHILD)
        more = 'input: {n: 1, m: 1}, output: "${output.total * 10}"'
        run = driver.run(calling(more=more))

        assert driver.output(run) == {"c": 20}
        driver.check(run.run_id)


def test_a_call_may_name_a_version_an_alias_or_the_newest() -> None:
    other = CHILD.replace("default: 5", "default: 100")
    with engine_with(add) as driver:
        driver.deploy(CHILD, "stable")
        driver.deploy(other)

        def total(call: str) -> int:
            found: int = driver.output(driver.run(calling(call), input={"n": 1}))["c"]["total"]
            return found

        assert [total(call) for call in ("child", "child@1", "child@2", "child@stable")] == [
            101,
            6,
            101,
            6,
        ]
        driver.ask(driver.commands.set_alias("child", "stable", 2))
        assert total("child@stable") == 101
        driver.ask(driver.commands.drop_alias("child", "stable"))
        assert driver.run(calling("child@stable"), input={"n": 1}).state == "failed"


def test_a_call_may_compute_the_name() -> None:
    with engine_with(add) as driver:
        driver.deploy(CHILD)
        run = driver.run(calling('"${input.which}@1"'), input={"n": 1, "which": "child"})

        assert run.state == "success", driver.error(run)


@pytest.mark.rule("F6.3")
@pytest.mark.parametrize(
    ("call", "code", "told"),
    [
        ("nobody", "unknown_workflow", "no workflow `nobody`"),
        ("child@7", "unknown_workflow", "version 7"),
        ("child@gone", "unknown_workflow", "alias `gone`"),
        ("child", "invalid_input", "input.n: "),
    ],
)
def test_F6_a_name_or_an_input_that_is_wrong_ends_the_call_dead(
    call: str, code: str, told: str
) -> None:
    with engine_with(add) as driver:
        driver.deploy(CHILD)
        run = driver.run(calling(call, 'input: {n: "one"}, retry: {max_attempts: 3}'))
        error = driver.error(run)

        assert run.state == "failed"
        assert error["code"] == code
        assert told in error["message"]
        assert not driver.children(run.run_id)
        assert driver.kinds(run.run_id) == ["RunStarted"], "no attempt after the first"
        driver.check(run.run_id)


def test_F6_the_failure_of_a_child_is_the_calls_with_its_cause() -> None:
    child = "name: child\nnodes:\n  a: {type: task, task: fails}\n"
    rest = (
        '  r: {type: set, values: {code: "${error.code}", cause: "${error.details.cause.code}"}}\n'
        "edges: [{from: c, to: r, on: failure}]\n"
    )
    with engine_with(fails) as driver:
        driver.deploy(child)
        run = driver.run(calling(more="input: {}", rest=rest))

        assert driver.output(run) == {"r": {"code": "child_failed", "cause": "ValueError"}}
        driver.check(run.run_id)


def test_F6_a_retry_of_a_call_starts_a_new_child() -> None:
    seen: list[int] = []

    def flaky() -> int:
        seen.append(1)
        if len(seen) < 3:
            raise ValueError("not yet")
        return len(seen)

    child = "name: child\nnodes:\n  a: {type: task, task: flaky}\n"
    with engine_with(flaky) as driver:
        driver.deploy(child)
        run = driver.run(calling(more="input: {}, retry: {max_attempts: 3, initial: 1ms}"))

        assert run.state == "success"
        assert [c.state for c in driver.children(run.run_id)] == ["failed", "failed", "success"]
        driver.check(run.run_id)


def test_F6_more_than_32_levels_are_refused() -> None:
    text = 'name: deep\nnodes:\n  c: {type: call, call: deep, input: {}}\noutput: "${nodes.c.output}"\n'
    with engine_with() as driver:
        run = driver.run(text)
        error, levels = driver.error(run), 0
        while error["code"] == "child_failed":
            error, levels = error["details"]["cause"], levels + 1

        assert (error["code"], levels) == ("call_depth", 32)
        driver.check(run.run_id)


def test_F6_a_call_that_does_not_wait_goes_on_with_the_childs_id(gate: Gate) -> None:
    child = "name: child\nnodes:\n  a: {type: task, task: task}\n"
    with engine_with(gate.task) as driver:
        driver.deploy(child)
        run = driver.run(calling(more="input: {}, wait: false"))
        told = driver.output(run)["c"]["run_id"]
        driver.until(lambda: driver.children(run.run_id))
        [one] = driver.children(run.run_id)

        assert run.state == "success"
        assert (one.run_id, one.state, one.parent) == (told, "running", (run.run_id, "c"))
        gate.open.set()
        assert driver.end(one.run_id).state == "success"
        driver.check(run.run_id)


SCOPE = """
name: scoped
vars: {unit: EUR}
nodes:
  s:
    type: call
    params: {n: "${input.n}"}
    do:
      nodes:
        a: {type: task, task: add, params: {n: "${params.n}", m: 1}}
        b:
          type: call
          params: {n: "${nodes.a.output}"}
          do:
            nodes: {x: {type: set, values: {l: "${[params.n, input.n]}"}}}
            output: "${nodes.x.output.l}"
      edges: [a -> b]
      output: {list: "${nodes.b.output}", unit: "${vars.unit}"}
"""


@pytest.mark.rule("W1.1")
def test_an_inline_graph_sees_input_vars_and_its_params_and_may_hold_another() -> None:
    with engine_with(add) as driver:
        run = driver.run(SCOPE, input={"n": 1})
        [outer] = driver.children(run.run_id)
        [inner] = driver.children(outer.run_id)

        assert driver.output(run) == {"s": {"list": [2, 1], "unit": "EUR"}}
        assert outer.definition == f"{run.definition}#0"
        assert inner.definition == f"{run.definition}#0.0"
        assert (inner.workflow, inner.version) == ("scoped", run.version)
        driver.check(run.run_id)


def test_C2_a_cancel_reaches_the_children_and_the_run_waits_for_their_ends(gate: Gate) -> None:
    child = "name: child\nnodes:\n  a: {type: task, task: task}\n"
    with engine_with(gate.task) as driver:
        driver.deploy(child)
        run_id = driver.begin(calling(more="input: {}"))
        assert gate.entered.acquire(timeout=60)
        driver.ask(driver.commands.cancel(run_id))
        run = driver.end(run_id)
        gate.open.set()

        assert run.state == "cancelled"
        assert [c.state for c in driver.children(run_id)] == ["cancelled"]
        driver.check(run_id)


def test_C2_a_cancel_right_after_the_start_leaves_no_child_open() -> None:
    """Catalogue I-12."""
    child = "name: child\nnodes:\n  a: {type: wait, for: 1h}\n"
    with engine_with() as driver:
        driver.deploy(child)
        for _ in range(20):
            run_id = driver.begin(calling(more="input: {}"))
            driver.ask(driver.commands.cancel(run_id))
            assert driver.end(run_id).state == "cancelled"
            assert {c.state for c in driver.children(run_id)} <= {"cancelled"}
            driver.check(run_id)


def test_C4_terminate_ends_children_of_children_at_once(gate: Gate) -> None:
    text = """
name: t
nodes:
  s: {type: call, do: {nodes: {i: {type: call, do: {nodes: {a: {type: task, task: task}}}}}}}
"""
    with engine_with(gate.task) as driver:
        run_id = driver.begin(text)
        assert gate.entered.acquire(timeout=60)
        driver.ask(driver.commands.terminate(run_id))
        run = driver.row(run_id)
        [outer] = driver.children(run_id)
        driver.until(lambda: driver.children(outer.run_id)[0].state == "cancelled")

        assert run.state == "cancelled"
        assert driver.row(outer.run_id).state == "cancelled"
        gate.open.set()
        driver.check(run_id)


def test_C6_children_are_paused_and_resumed_with_their_parent(gate: Gate) -> None:
    child = """
name: child
nodes:
  a: {type: task, task: task}
  b: {type: task, task: add, params: {n: 1}}
edges: [a -> b]
"""
    with engine_with(gate.task, add) as driver:
        driver.deploy(child)
        run_id = driver.begin(calling(more="input: {}"))
        assert gate.entered.acquire(timeout=60)
        [one] = driver.children(run_id)
        driver.ask(driver.commands.pause(run_id))
        driver.until(lambda: "ParentPaused" in driver.kinds(one.run_id))
        with pytest.raises(Conflict, match="paused"):
            driver.ask(driver.commands.resume(one.run_id))
        gate.open.set()
        driver.until(lambda: "AttemptSucceeded" in driver.kinds(one.run_id))
        assert driver.row(one.run_id).state == "running"
        driver.ask(driver.commands.resume(run_id))

        assert driver.end(run_id).state == "success"
        driver.check(run_id)


def test_C6_a_child_of_a_paused_run_begins_paused(gate: Gate) -> None:
    text = """
name: t
nodes:
  a: {type: task, task: task}
  c: {type: call, do: {nodes: {b: {type: task, task: add, params: {n: 1}}}}}
edges: [a -> c]
"""
    with engine_with(gate.task, add) as driver:
        run_id = driver.begin(text)
        assert gate.entered.acquire(timeout=60)
        driver.ask(driver.commands.pause(run_id))
        gate.open.set()
        driver.until(lambda: driver.children(run_id))
        [one] = driver.children(run_id)
        assert driver.ask(driver.engine.reads.get_run(one.run_id)).snapshot.parent_paused
        driver.ask(driver.commands.resume(run_id))

        assert driver.end(run_id).state == "success"
        driver.check(run_id)


def test_F6_the_timeout_of_a_call_cancels_the_child_and_waits_for_its_end() -> None:
    child = "name: child\nnodes:\n  a: {type: wait, for: 1h}\n"
    with engine_with() as driver:
        driver.deploy(child)
        run = driver.run(calling(more="input: {}, timeout: 20ms"))

        assert driver.error(run)["code"] == "timeout"
        assert [c.state for c in driver.children(run.run_id)] == ["cancelled"]
        driver.check(run.run_id)


def test_a_child_whose_output_is_too_large_for_its_parent_fails_the_call() -> None:
    text = """
name: t
nodes:
  c:
    type: call
    do:
      nodes: {a: {type: task, task: large}, b: {type: task, task: large}}
"""

    def large() -> str:
        return "x" * 700_000

    with engine_with(large) as driver:
        run = driver.run(text)

        assert driver.error(run)["code"] == "payload_too_large"
        assert [c.state for c in driver.children(run.run_id)] == ["success"]
        driver.check(run.run_id)


def test_a_thousand_children_of_one_name_are_one_look_up() -> None:
    text = """
name: many
nodes:
  e: {type: foreach, over: "range(1000)", call: child, input: {n: "${item}"}, concurrency: 1000}
output: "${size(nodes.e.output)}"
"""
    child = 'name: child\nnodes:\n  a: {type: set, values: {n: "${input.n}"}}\n'
    with engine_with() as driver:
        driver.deploy(child)
        run = driver.run(text)

        assert run.state == "success", driver.error(run)
        assert driver.output(run) == 1000


def test_who_drives_a_run_drives_its_children_after_a_restart_too(
    tmp_path: Path, gate: Gate
) -> None:
    child = "name: child\nnodes:\n  a: {type: task, task: task}\n"
    path = tmp_path / "t.db"
    with engine_with(gate.task, path=path, focus=True) as driver:
        driver.deploy(child)
        run_id = driver.begin(calling(more="input: {}"))
        assert gate.entered.acquire(timeout=60)
        driver.engine.stop(grace_s=0)
    gate.open.set()
    with engine_with(gate.task, path=path, focus=True, carry_on=[run_id]) as driver:
        assert driver.end(run_id).state == "success"
        driver.check(run_id)


def test_a_start_that_was_not_decided_before_the_end_of_the_engine_is_found_again(
    tmp_path: Path,
) -> None:
    """The notice is stored in the commit of the parent; whoever opens the file next delivers it. Catalogue I-11."""
    child = "name: child\nnodes:\n  a: {type: set, values: {n: 1}}\n"
    path = tmp_path / "t.db"
    with engine_with(path=path) as driver:
        driver.deploy(child)
        driver.engine.call(_deaf(driver)).result(60)
        run_id = driver.begin(calling(more="input: {}"))
        assert not driver.children(run_id)
    with engine_with(path=path) as driver:
        assert driver.end(run_id).state == "success"
        driver.check(run_id)


async def _deaf(driver: Driver) -> None:
    """Nothing is heard of notices until the engine ends."""
    coordinator = driver.engine.commands._coordinator
    coordinator.on_due = lambda _: None
    submit = coordinator.submit
    coordinator.submit = lambda facts: submit(  # type: ignore[method-assign]
        fact for fact in facts if not hasattr(fact, "notice")
    )


def test_aliases_and_versions_are_checked() -> None:
    with engine_with(add) as driver:
        row = driver.deploy(CHILD, "stable")
        assert driver.deploy(CHILD).version == row.version
        with pytest.raises(InvalidInput, match="alias"):
            driver.ask(driver.commands.set_alias("child", "3", 1))
        with pytest.raises(NotFound):
            driver.ask(driver.commands.set_alias("child", "new", 9))
        with pytest.raises(NotFound):
            driver.ask(driver.commands.drop_alias("child", "new"))
        with pytest.raises(Conflict):
            driver.ask(driver.commands.delete_version("child", 1))
        driver.ask(driver.commands.drop_alias("child", "stable"))
        driver.ask(driver.commands.delete_version("child", 1))
        with pytest.raises(NotFound):
            driver.ask(driver.commands.delete_version("child", 1))
