"""The embedded engine whole: YAML in, the user's functions run, the run's end out; on a file, on threads of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.support.house import house

from tenuto.adapters.local.clock import SystemClock
from tenuto.app.definitions import load_definition
from tenuto.app.embedded import Engine
from tenuto.app.files import post_message, read_only
from tenuto.coordinator.commands import StartRequest
from tenuto.coordinator.mailbox import Message
from tenuto.machine.codec import decode_event, decode_output
from tenuto.machine.fold import fold
from tenuto.model.errors import Conflict, NotFound, Unavailable
from tenuto.model.graph import Graph
from tenuto.model.ids import RUN_PLACE, Place, RunId
from tenuto.model.payload import Output, PayloadKey, PayloadKind
from tenuto.model.stored import decode_graph
from tenuto.ports.gateway import Lease
from tenuto.ports.reads import Reads
from tenuto.ports.store import RunRow
from tenuto.worker.registry import Registry

T = TypeVar("T")


class Driver:
    """A program that has an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.engine.call(coroutine).result(timeout=60)

    def begin(self, text: str, *, input: str = "{}", key: str | None = None) -> RunId:
        graph = graph_of(text)
        row = self.ask(self.engine.commands.deploy(graph))
        request = StartRequest(
            graph_hash=row.hash,
            workflow=row.name,
            version=row.version,
            input=input,
            vars=graph.definition.vars,
            key=key,
        )
        [started] = self.ask(self.engine.commands.start([request]))
        return started.run_id

    def end(self, run_id: RunId) -> RunRow:
        return self.ask(self.engine.commands.wait(run_id))

    def run(self, text: str, *, input: str = "{}") -> RunRow:
        return self.end(self.begin(text, input=input))

    def kinds(self, run_id: RunId) -> list[str]:
        return [row.kind for row in self.ask(self.engine.reads.history(run_id))]

    def payload(self, run_id: RunId, place: str, kind: PayloadKind) -> str:
        key = PayloadKey(Place(place), kind)
        return self.ask(self.engine.reads.payloads(run_id, [key]))[key]

    def output(self, run: RunRow) -> dict[str, str]:
        """Of the default form: sink -> text."""
        found = decode_output(run.output)
        keys = dict(getattr(found, "entries", ()))
        texts = self.ask(self.engine.reads.payloads(run.run_id, list(keys.values())))
        return {name: texts[key] for name, key in keys.items()}


def graph_of(text: str) -> Graph:
    loaded = load_definition(text, file="test.yaml")
    assert loaded.graph is not None, [str(finding) for finding in loaded.findings]
    return loaded.graph


async def check_fold(reads: Reads, run_id: RunId) -> None:
    """The history yields what is stored."""
    detail = await reads.get_run(run_id)
    graph = decode_graph((await reads.get_definition(detail.run.definition)).graph)
    rows = await reads.history(run_id)
    snapshot, ledger = fold(
        run_id, graph, [decode_event(r.kind, r.at, r.place, r.data) for r in rows]
    )
    assert snapshot == detail.snapshot
    assert ledger.tasks == {task.place: task for task, _ in detail.tasks}


@contextmanager
def engine_with(
    *functions: Callable[..., Any], path: Path | str = ":memory:", **options: Any
) -> Iterator[Driver]:
    registry = Registry()
    for function in functions:
        registry.add(function)
    engine = Engine(path, registry=registry, **options)
    engine.start()
    try:
        yield Driver(engine)
    finally:
        engine.stop()


def chain(*names: str) -> str:
    nodes = "\n".join(f"  {name}: {{type: task, task: step}}" for name in names)
    edges = ", ".join(f"{a} -> {b}" for a, b in pairwise(names))
    return f"name: chain\nnodes:\n{nodes}\nedges: [{edges}]\n"


def step() -> int:
    return 1


# -- shapes -----------------------------------------------------------------------------------------------------------


def test_a_chain_runs_in_order() -> None:
    with engine_with(step) as driver:
        run = driver.run(chain("a", "b", "c"))

        assert run.state == "success"
        assert driver.output(run) == {"c": "1"}
        assert driver.kinds(run.run_id) == ["RunStarted"] + ["AttemptSucceeded"] * 3
        driver.ask(check_fold(driver.engine.reads, run.run_id))


def test_outputs_travel_through_a_diamond() -> None:
    async def seed(n: int) -> int:
        return n

    def double(n: int) -> int:
        return 2 * n

    async def square(n: int) -> int:
        return n * n

    def add(a: int, b: int) -> int:
        return a + b

    text = """
name: diamond
nodes:
  a: {type: task, task: seed, params: {n: "${input.n}"}}
  b: {type: task, task: double, params: {n: "${nodes.a.output}"}}
  c: {type: task, task: square, params: {n: "${nodes.a.output}"}}
  d: {type: task, task: add, params: {a: "${nodes.b.output}", b: "${nodes.c.output}"}}
edges: [a -> b, a -> c, b -> d, c -> d]
"""
    with engine_with(seed, double, square, add) as driver:
        run = driver.run(text, input='{"n":5}')

        assert driver.output(run) == {"d": "35"}
        driver.ask(check_fold(driver.engine.reads, run.run_id))


def test_a_fan_out_meets_in_its_join() -> None:
    width = 300
    nodes = "\n".join(f"  f{i}: {{type: task, task: step}}" for i in range(width))
    edges = "\n".join(f"  - s -> f{i}\n  - f{i} -> j" for i in range(width))
    text = (
        f"name: wide\nnodes:\n  s: {{type: task, task: step}}\n{nodes}\n"
        f"  j: {{type: join}}\nedges:\n{edges}\n"
    )
    with engine_with(step) as driver:
        run = driver.run(text)

        assert run.state == "success"
        assert len(driver.kinds(run.run_id)) == width + 2
        driver.ask(check_fold(driver.engine.reads, run.run_id))


def test_every_queue_is_served_by_the_one_worker() -> None:
    text = "name: q\nnodes:\n  a: {type: task, task: step, queue: warehouse}\n"
    with engine_with(step) as driver:
        assert driver.run(text).state == "success"


def test_a_function_registered_while_the_engine_runs_is_found() -> None:
    registry = Registry()
    engine = Engine(":memory:", registry=registry)
    engine.start()
    try:
        driver = Driver(engine)
        run_id = driver.begin("name: late\nnodes:\n  a: {type: task, task: step}\n")
        registry.add(step)

        assert driver.end(run_id).state == "success"
    finally:
        engine.stop()


# -- failures and time ------------------------------------------------------------------------------------------------


def test_a_failed_attempt_is_tried_again_after_its_back_off() -> None:
    calls: list[int] = []

    def flaky() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise ValueError("not yet")
        return "done"

    text = """
name: flaky
nodes:
  a:
    type: task
    task: flaky
    retry: {max_attempts: 3, initial: 5ms, jitter: none}
"""
    with engine_with(flaky) as driver:
        run = driver.run(text)

        assert driver.output(run) == {"a": '"done"'}
        assert driver.kinds(run.run_id) == [
            "RunStarted",
            "AttemptFailed",
            "TimerFired",
            "AttemptFailed",
            "TimerFired",
            "AttemptSucceeded",
        ]
        driver.ask(check_fold(driver.engine.reads, run.run_id))


def test_a_run_fails_with_the_error_of_its_task() -> None:
    def broken() -> None:
        raise ValueError("on purpose")

    with engine_with(broken) as driver:
        run = driver.run("name: b\nnodes:\n  a: {type: task, task: broken}\n")

        assert run.state == "failed"
        assert decode_output(run.error) == PayloadKey(Place("a"), PayloadKind.ERROR)
        assert '"code":"ValueError"' in driver.payload(run.run_id, "a", PayloadKind.ERROR)


def test_an_attempt_that_takes_too_long_is_a_timeout() -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    with engine_with(slow) as driver:
        run = driver.run("name: s\nnodes:\n  a: {type: task, task: slow, timeout: 30ms}\n")

        assert run.state == "failed"
        assert '"code":"timeout"' in driver.payload(run.run_id, "a", PayloadKind.ERROR)


def test_a_wait_lasts_as_long_as_it_says() -> None:
    text = "name: w\nnodes:\n  a: {type: wait, for: 40ms}\n  b: {type: task, task: step}\nedges: [a -> b]\n"
    with engine_with(step) as driver:
        run = driver.run(text)
        started, fired, _ = driver.ask(driver.engine.reads.history(run.run_id))

        assert run.state == "success"
        assert fired.at - started.at >= 40_000


APPROVAL = """
name: approval
nodes:
  ask: {type: wait_for_event, event: approved, key: "${input.id}"}
  go: {type: task, task: step}
edges: [ask -> go]
output: {by: "${nodes.ask.output.by}"}
"""


def run_output(driver: Driver, run: RunRow) -> str:
    found: Output = decode_output(run.output)
    assert found == PayloadKey(RUN_PLACE, PayloadKind.OUTPUT)
    return driver.payload(run.run_id, "", PayloadKind.OUTPUT)


@pytest.mark.parametrize("first", ["run", "event"])
def test_run_and_event_meet_in_either_order(first: str) -> None:
    """Catalogue H5."""
    with engine_with(step) as driver:
        send = driver.engine.commands.send_event
        if first == "event":
            driver.ask(send("approved", "7", '{"by":"ann"}'))
        run_id = driver.begin(APPROVAL, input='{"id":"7"}')
        if first == "run":
            driver.ask(send("approved", "7", '{"by":"ann"}'))
        run = driver.end(run_id)

        assert run_output(driver, run) == '{"by":"ann"}'
        driver.ask(check_fold(driver.engine.reads, run_id))


def test_an_event_sent_past_the_engine_into_its_file_arrives(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with engine_with(step, path=path) as driver:
        run_id = driver.begin(APPROVAL, input='{"id":"7"}')
        assert post_message(path, Message("approved", "7", '{"by":"bob"}', event_id="1"))
        assert not post_message(path, Message("approved", "7", "{}", event_id="1"))

        assert run_output(driver, driver.end(run_id)) == '{"by":"bob"}'


# -- commands ---------------------------------------------------------------------------------------------------------


def test_cancelling_a_run_stops_the_work_under_way() -> None:
    begun, stopped = threading.Event(), threading.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    with engine_with(endless, lease_us=300_000) as driver:
        run_id = driver.begin("name: e\nnodes:\n  a: {type: task, task: endless}\n")
        assert begun.wait(60)
        driver.ask(driver.engine.commands.cancel(run_id, "enough"))

        assert driver.end(run_id).state == "cancelled"
        assert stopped.wait(60)


def test_a_paused_run_goes_on_where_it_was() -> None:
    begun, go = threading.Event(), threading.Event()

    def held() -> None:
        begun.set()
        assert go.wait(60)

    text = "name: p\nnodes:\n  a: {type: task, task: held}\n  b: {type: task, task: step}\nedges: [a -> b]\n"
    with engine_with(held, step) as driver:
        run_id = driver.begin(text)
        assert begun.wait(60)
        driver.ask(driver.engine.commands.pause(run_id))
        follower = driver.engine.call(collect(driver, run_id, 1))
        watchers = driver.engine.commands._coordinator.watchers
        while run_id not in watchers.followed:
            time.sleep(0.005)
        go.set()
        assert follower.result(60) == ["AttemptSucceeded"]
        detail = driver.ask(driver.engine.reads.get_run(run_id))
        assert [(task.place, lease) for task, lease in detail.tasks if task.place == "b"] == [
            ("b", None)
        ]
        driver.ask(driver.engine.commands.resume(run_id))

        assert driver.end(run_id).state == "success"
        driver.ask(check_fold(driver.engine.reads, run_id))


async def collect(driver: Driver, run_id: RunId, count: int) -> list[str]:
    kinds: list[str] = []
    async for row in driver.engine.commands.follow(run_id):
        kinds.append(row.kind)
        if len(kinds) == count:
            break
    return kinds


def test_a_key_starts_one_run(tmp_path: Path) -> None:
    with engine_with(step, path=tmp_path / "t.db") as driver:
        text = chain("a")
        first = driver.begin(text, key="order-1")
        driver.end(first)

        assert driver.begin(text, key="order-1") == first
        assert driver.begin(text, key="order-2") != first


# -- life of an engine ------------------------------------------------------------------------------------------------


def test_a_second_engine_on_the_same_file_is_refused(tmp_path: Path) -> None:
    """Catalogue K4."""
    with engine_with(step, path=tmp_path / "t.db") as driver:
        with pytest.raises(Conflict, match="in use"):
            Engine(tmp_path / "t.db").start()

        assert driver.run(chain("a")).state == "success"


def test_a_file_is_read_beside_its_engine(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with pytest.raises(NotFound), read_only(path):
        raise AssertionError("a file that is not there was opened")
    with engine_with(step, path=path) as driver:
        run = driver.run(chain("a"))
        with read_only(path) as opened:
            assert asyncio.run(opened.reads.get_run(run.run_id)).run == run


def test_work_that_does_not_end_in_time_is_released_and_done_by_the_next_engine(
    tmp_path: Path,
) -> None:
    begun = threading.Event()
    attempts: list[int] = []

    async def stubborn() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            begun.set()
            await asyncio.Event().wait()

    text = "name: r\nnodes:\n  a: {type: task, task: stubborn}\n"
    registry = Registry()
    registry.add(stubborn)
    first = Engine(tmp_path / "t.db", registry=registry)
    first.start()
    run_id = Driver(first).begin(text)
    assert begun.wait(60)
    first.stop(grace_s=0.0)
    with engine_with(stubborn, path=tmp_path / "t.db") as driver:
        run = driver.end(run_id)
        [(task, _)] = driver.ask(driver.engine.reads.get_run(run_id)).tasks

        assert run.state == "success"
        assert task.attempt == 1
        assert len(attempts) == 2


def test_leases_of_a_dead_process_are_over_when_the_next_engine_starts(tmp_path: Path) -> None:
    path = tmp_path / "t.db"

    async def die_with_a_lease() -> tuple[RunId, Lease]:
        async with house(path, lease_us=600_000_000) as h:
            hand = await h.hire(["step"])
            [run_id] = await h.begin(graph_of(chain("a")))
            [lease] = await hand.lease()
            return run_id, lease

    run_id, lost = asyncio.run(die_with_a_lease())
    with engine_with(step, path=path) as driver:
        run = driver.end(run_id)
        expired = driver.ask(driver.engine.reads.history(run_id))[1]

        assert run.state == "success"
        assert expired.kind == "LeaseExpired"
        assert expired.at < run.created_at + lost.lease_us


class Behind(SystemClock):
    """The clock of two hours ago."""

    def now(self) -> int:
        return super().now() - 7_200_000_000


def test_an_attempt_whose_worker_died_is_lost_even_if_its_timeout_has_passed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.db"
    text = "name: t\nnodes:\n  a: {type: task, task: step, timeout: 1h}\n"

    async def die_with_a_lease() -> RunId:
        # The attempt's timeout has passed while no engine ran.
        async with house(path, clock=Behind()) as h:
            hand = await h.hire(["step"])
            [run_id] = await h.begin(graph_of(text))
            assert len(await hand.lease()) == 1
            return run_id

    run_id = asyncio.run(die_with_a_lease())
    with engine_with(step, path=path) as driver:
        run = driver.end(run_id)

        assert run.state == "success"
        assert driver.kinds(run_id) == ["RunStarted", "LeaseExpired", "AttemptSucceeded"]


def test_an_engine_offers_a_task_again_whose_input_it_has_never_seen(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    text = """
name: t
nodes:
  a: {type: task, task: step, retry: {max_attempts: 2, initial: 20ms, jitter: none}}
"""

    async def fail_once() -> RunId:
        async with house(path) as h:
            hand = await h.hire(["step"])
            [run_id] = await h.begin(graph_of(text))
            [lease] = await hand.lease()
            await hand.fail(lease)
            return run_id

    run_id = asyncio.run(fail_once())
    with engine_with(step, path=path) as driver:
        assert driver.end(run_id).state == "success"


def test_runs_of_an_earlier_engine_go_on(tmp_path: Path) -> None:
    """Catalogue A10."""
    idle = Engine(tmp_path / "t.db")
    idle.start()
    waiting = Driver(idle).begin(
        "name: q\nnodes:\n  a: {type: task, task: step, queue: elsewhere}\n"
    )
    idle.stop()
    with engine_with(step, path=tmp_path / "t.db") as driver:
        assert driver.end(waiting).state == "success"


def test_an_engine_with_a_focus_drives_its_own_runs_only(tmp_path: Path) -> None:
    idle = Engine(tmp_path / "t.db")
    idle.start()
    foreign, carried = Driver(idle).begin(chain("a")), Driver(idle).begin(chain("a"))
    idle.stop()
    with engine_with(step, path=tmp_path / "t.db", focus=True, carry_on=[carried]) as driver:
        own = driver.begin(chain("a", "b"))

        assert driver.end(own).state == "success"
        assert driver.end(carried).state == "success"
        assert driver.kinds(foreign) == ["RunStarted"]


def test_whoever_waits_when_the_engine_stops_is_told_so() -> None:
    with engine_with(step) as driver:
        run_id = driver.begin(APPROVAL, input='{"id":"7"}')
        waiting = driver.engine.call(driver.engine.commands.wait(run_id))
    with pytest.raises(Unavailable, match="stopped"):
        waiting.result(60)
    with pytest.raises(Unavailable, match="stopped"):
        driver.engine.call(driver.engine.commands.wait(run_id))


def test_an_engine_that_was_not_started_says_so() -> None:
    engine = Engine(":memory:")
    with pytest.raises(Unavailable, match="not started"):
        engine.call(asyncio.sleep(0))
    engine.stop()


def test_a_crash_of_a_part_ends_the_engine_and_names_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catalogue C12."""
    from tenuto.coordinator.timers import Timers

    broken = threading.Event()
    real = Timers._pass

    async def failing(self: Timers) -> bool:
        if broken.is_set():
            raise ZeroDivisionError("a bug in a loop")
        return await real(self)

    monkeypatch.setattr(Timers, "_pass", failing)
    with engine_with(step) as driver:
        run_id = driver.begin(APPROVAL, input='{"id":"7"}')
        waiting = driver.engine.call(driver.engine.commands.wait(run_id))
        broken.set()
        with pytest.raises(Unavailable, match="a bug in a loop"):
            waiting.result(60)
        with pytest.raises(Unavailable, match="a bug in a loop"):
            driver.ask(driver.engine.reads.history(run_id))


def test_a_broken_file_is_refused_at_the_start(tmp_path: Path) -> None:
    """Catalogue K10."""
    path = tmp_path / "t.db"
    path.write_bytes(b"not a database at all, and long enough to be looked at" * 20)
    before = set(threading.enumerate())
    with pytest.raises(Conflict):
        Engine(path).start()

    assert not [t for t in set(threading.enumerate()) - before if t.name == "tenuto-engine"]


def test_definitions_with_errors_come_back_as_findings() -> None:
    loaded = load_definition("name: x\nnodes:\n  a: {type: tusk}\n", file="x.yaml")

    assert loaded.graph is None
    assert loaded.findings
