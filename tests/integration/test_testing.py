"""`tenuto.testing`: the real engine under a hand-turned clock. Instants are exact, and real time decides nothing."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.examples import load_app

from tenuto import Conflict, InvalidInput, NotFound, RunFailed, TaskError, Tenuto, current
from tenuto.adapters.sql.engine import Steps
from tenuto.model.errors import InvariantViolated, TenutoError
from tenuto.testing import (
    Engine,
    Failure,
    NotFinished,
    NothingDue,
    RunCheck,
    StillRunning,
    UnusedMocks,
    engine,
    hangs,
    lost,
    raises,
    real,
    response,
    returns,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
ORDER = Path(__file__).parents[2] / "examples" / "order" / "order.yaml"


def one_node(more: str = "", name: str = "work") -> str:
    return (
        f"name: one\nnodes:\n  {name}: {{type: task, task: {name}{', ' + more if more else ''}}}\n"
    )


def at(env: Engine, node: str) -> list[float]:
    """When the attempts of a node began, seconds after the start."""
    return [(call.at - START).total_seconds() for call in env.calls(node)]


@contextmanager
def impatient(env: Engine) -> Iterator[None]:
    """With patience for what is meant to outlast it, and for nothing else: a machine may be slow."""
    patient, env._settling._patience_s = env._settling._patience_s, 0.2
    yield
    env._settling._patience_s = patient


@pytest.fixture
def order_app() -> Tenuto:
    return load_app("order")


# -- the order example ------------------------------------------------------------------------------------------------


def test_two_days_without_an_approval_pass_in_a_moment_and_the_charge_is_refunded(
    order_app: Tenuto,
) -> None:
    with engine(order_app) as env:
        env.mock("charge", returns=response({"id": "ch-1"}))
        env.mock("refund", returns=response({"id": "r-1"}))
        run = env.start(ORDER, {"order_id": "A-1", "amount": 9000})
        run.assert_waiting("approval", "event order.approved key A-1")

        assert env.run_to_end(run) == timedelta(days=2)
        assert env.now == START + timedelta(days=2)
        run.assert_success(output={"charge": "ch-1", "parcel": None})
        env.assert_path(
            run,
            ["charge", {"reserve", "score"}, "both", "triage", "approval", "refund"],
        )
        [call] = env.calls("refund")
        assert call.request["json"] == {"charge": "ch-1"}


def test_an_approval_lets_the_parcel_go_out(order_app: Tenuto) -> None:
    with engine(order_app) as env:
        env.mock("charge", returns=response({"id": "ch-1"}))
        run = env.start(ORDER, {"order_id": "A-1", "amount": 9000})
        env.advance("1d")
        env.send_event("order.approved", "A-1", {"by": "me"})

        run.assert_success()
        assert env.now == START + timedelta(days=1)
        assert run.node("approval").output == {"by": "me"}
        assert run.node("refund").state == "skipped"
        assert run.node("reserve").output["order"] == "A-1"  # the real functions ran


def test_it_works_with_await_too(order_app: Tenuto) -> None:
    async def main() -> None:
        async with engine(order_app) as env:
            env.mock("charge", returns=response({"id": "ch-1"}))
            run = await env.astart(ORDER, {"order_id": "A-1", "amount": 10})
            assert await run.astatus() == "running"
            assert (await run.anode("cool_off")).waits_for.startswith("its time in 2s")
            await env.aadvance("1999ms")
            assert not await run.ais_final()
            await env.aadvance("1ms")
            await run.aassert_success()
            assert await env.aadvance_until(run) == timedelta(0)
            assert [call.node for call in await env.acalls()] == [
                "charge",
                "reserve",
                "score",
                "ship",
            ]

    asyncio.run(main())


def test_async_tasks_run_on_the_loop_of_the_test() -> None:
    app = Tenuto(":memory:")
    loops = []

    @app.task
    async def work() -> None:
        loops.append(asyncio.get_running_loop())

    async def main() -> None:
        async with engine(app) as env:
            run = await env.astart(one_node())
            await run.aassert_success()
            assert loops == [asyncio.get_running_loop()]

    asyncio.run(main())


# -- instants ---------------------------------------------------------------------------------------------------------


def test_back_offs_without_jitter_happen_at_their_exact_instants() -> None:
    with engine() as env:
        env.mock("work", raises="http.503")
        run = env.start(
            one_node("retry: {max_attempts: 5, initial: 1s, factor: 3, max: 10s, jitter: none}")
        )
        env.run_to_end(run)

        assert at(env, "work") == [0, 1, 4, 13, 23]
        run.assert_failed(code="http.503", node="work")


def test_one_turn_over_many_due_moments_stops_at_each() -> None:
    """The second node's back-offs lie between those of the first, and a wait ends between them."""
    text = """
name: crossed
nodes:
  a: {type: task, task: a, retry: {max_attempts: 3, initial: 10s, factor: 1, jitter: none}}
  b: {type: task, task: b, retry: {max_attempts: 3, initial: 4s, factor: 1, jitter: none}}
  rest: {type: wait, for: 7s}
  after: {type: task, task: after, needs: rest}
  last: {type: task, task: last, needs: [a, b, after]}
"""
    with engine() as env:
        env.mock("a", attempts=[raises("X"), raises("X"), returns(1)])
        env.mock("b", attempts=[raises("X"), raises("X"), returns(2)])
        env.mock("after", returns=3)
        env.mock("last", returns=4)
        run = env.start(text)
        env.advance("365d")

        calls = [(call.node, (call.at - START).total_seconds()) for call in env.calls()]
        assert calls == [
            ("a", 0),
            ("b", 0),
            ("b", 4),
            ("after", 7),
            ("b", 8),
            ("a", 10),
            ("a", 20),
            ("last", 20),
        ]
        assert env.now == START + timedelta(days=365)
        run.assert_success()


def test_the_same_seed_draws_the_same_jitter() -> None:
    """Catalogue J4."""
    text = one_node("retry: {max_attempts: 6, initial: 1s, factor: 2, max: 1m, jitter: full}")

    def instants(seed: int) -> list[float]:
        with engine(seed=seed) as env:
            env.mock("work", raises="X")
            env.run_to_end(env.start(text))
            return at(env, "work")

    first = instants(7)
    assert len(first) == 6
    assert instants(7) == first
    assert instants(8) != first


def test_retry_after_is_waited_for() -> None:
    with engine() as env:
        env.mock("work", attempts=[raises("http.429", retry_after="1m"), returns()])
        env.run_to_end(env.start(one_node("retry: {max_attempts: 2, initial: 1s, jitter: none}")))

        assert at(env, "work") == [0, 60]


def test_a_hanging_attempt_times_out_by_the_clock_at_once_and_is_tried_again() -> None:
    with engine() as env:
        env.mock("work", attempts=[hangs(), returns("late")])
        run = env.start(
            one_node("timeout: 30s, retry: {max_attempts: 2, initial: 5s, jitter: none}")
        )
        env.advance("29s")
        assert run.node("work").state == "running"
        env.advance("1s")
        assert run.node("work").state == "retry"
        env.advance("5s")

        run.assert_success(output={"work": "late"})
        first, second = run.timeline()
        assert (first.code, first.message) == ("timeout", "no result within 30s")
        assert (first.ended_at or 0) - (first.started_at or 0) == 30_000_000
        assert second.started_at == (first.ended_at or 0) + 5_000_000


def test_work_that_is_done_never_times_out_however_far_the_clock_is_turned() -> None:
    """Its timeout is shorter than the real time that it takes."""
    app = Tenuto(":memory:")
    begun, go = threading.Event(), threading.Event()

    @app.task
    def work() -> str:
        begun.set()
        go.wait()
        return "done"

    with engine(app) as env:
        run = env.start(one_node("timeout: 1ms"))
        begun.wait()
        threading.Timer(0.05, go.set).start()
        env.advance("2d")

        run.assert_success(output={"work": "done"})


def test_total_timeout_queue_timeout_and_heartbeat_timeout_fire_at_their_instants() -> None:
    cases = {
        "total_timeout: 25s, retry: {max_attempts: 9, initial: 10s, factor: 1}": (
            "total_timeout",
            25,
        ),
        "timeout: 1h, heartbeat_timeout: 40s": ("heartbeat_timeout", 40),
    }
    for keys, (code, seconds) in cases.items():
        with engine() as env:
            env.mock("work", **({"hangs": True} if "heartbeat" in keys else {"raises": "X"}))
            run = env.start(one_node(keys))
            assert env.run_to_end(run) == timedelta(seconds=seconds), keys
            run.assert_failed(code=code)

    with engine() as env:  # nobody has the task
        run = env.start(one_node("queue_timeout: 3m"))
        run.assert_waiting("work", "a worker that has `work`")
        assert env.run_to_end(run) == timedelta(minutes=3)
        run.assert_failed(code="queue_timeout", node="work")


def test_a_task_that_sends_heartbeats_lives_on() -> None:
    app = Tenuto(":memory:")
    done = threading.Event()

    @app.task
    def work() -> None:
        current().heartbeat()
        done.wait()

    with engine(app) as env:
        run = env.start(one_node("heartbeat_timeout: 10ms, timeout: 1h"))
        with impatient(env), pytest.raises(StillRunning):
            env.advance("5ms")
        assert env.now == START
        done.set()
        env.advance("1h")
        run.assert_success()


def test_a_runs_own_timeout_fires_while_it_waits() -> None:
    with engine() as env:
        run = env.start("name: w\ntimeout: 3h\nnodes:\n  rest: {type: wait, for: 1d}\n")

        assert env.run_to_end(run) == timedelta(hours=3)
        assert run.status() == "timed_out"
        run.assert_failed()


def test_a_fixed_moment_is_waited_for() -> None:
    with engine(start_at="2026-12-24T00:00:00+01:00") as env:
        run = env.start(
            'name: w\nnodes:\n  rest: {type: wait, until: "2026-12-24T18:00:00+01:00"}\n'
        )

        assert env.run_to_end(run) == timedelta(hours=18)


# -- leases -----------------------------------------------------------------------------------------------------------


def test_turning_two_days_under_way_loses_no_lease() -> None:
    with engine() as env:
        mock = env.mock("work", hangs=True)
        run = env.start(one_node())
        env.advance("2d")
        env.advance("2d")
        assert run.node("work").state == "running"
        assert mock.let_go({"ok": True}) == 1

        run.assert_success(output={"work": {"ok": True}})
        assert [(step.attempt, step.result) for step in run.timeline()] == [(1, "success")]
        assert env.now == START + timedelta(days=4)


def test_a_lost_attempt_is_handed_out_again_when_its_lease_has_run_out() -> None:
    with engine() as env:
        env.mock("work", attempts=[lost(), returns(1)])
        run = env.start(one_node())
        env.advance("9999ms")
        assert len(env.calls("work")) == 1
        env.advance("1ms")

        run.assert_success()
        assert at(env, "work") == [0, 10]
        assert [step.result for step in run.timeline()] == ["lost", "success"]


def test_a_task_that_kills_every_worker_is_dead_after_five() -> None:
    with engine() as env:
        env.mock("work", lost=True)
        run = env.start(one_node())

        assert env.run_to_end(run) == timedelta(seconds=50)
        run.assert_failed(code="lease_lost")


# -- requests from outside --------------------------------------------------------------------------------------------


def test_a_cancel_stops_a_hanging_attempt_at_once() -> None:
    with engine() as env:
        env.mock("work", hangs=True)
        run = env.start(one_node("timeout: 1h"))
        run.cancel("changed my mind")

        assert run.status() == "cancelled"
        assert env.now == START
        with pytest.raises(RunFailed, match="was cancelled"):
            run.result()
        env.advance("2h")
        assert [step.result for step in run.timeline() if step.what == "attempt"] == ["cancelled"]


def test_a_paused_run_hands_out_nothing_until_it_is_resumed() -> None:
    text = "name: p\nnodes:\n  rest: {type: wait, for: 1h}\n  work: {type: task, task: work, needs: rest}\n"
    with engine() as env:
        env.mock("work", returns=1)
        run = env.start(text)
        run.pause()
        env.advance("1d")
        assert run.status() == "paused"
        assert env.calls() == []
        run.resume()

        run.assert_success()
        assert at(env, "work") == [86_400]


def test_an_event_that_came_first_is_kept_and_one_that_never_comes_times_out() -> None:
    text = """
name: e
nodes:
  first: {type: wait_for_event, event: a, key: "1", timeout: 1h}
  second: {type: wait_for_event, event: b, key: "1", timeout: 1h, needs: first}
"""
    with engine() as env:
        env.send_event("a", "1", {"n": 1})
        run = env.start(text)
        assert run.node("first").output == {"n": 1}

        assert env.run_to_end(run) == timedelta(hours=1)
        run.assert_failed(code="timeout", node="second")


def test_the_verbs_of_the_app_use_the_same_engine_and_its_close_does_not_end_it() -> None:
    app = Tenuto(":memory:")

    @app.task
    def work() -> int:
        app.send_event("said", "1", "from the task")
        return 1

    text = """
name: own
nodes:
  work: {type: task, task: work}
  heard: {type: wait_for_event, event: said, key: "1", needs: work}
  rest: {type: wait, for: 5d, needs: heard}
"""
    with engine(app) as env:
        started = app.start(text)
        app.close()
        [run] = env.runs()
        assert run.id == started.id
        env.advance("5d")
        run.assert_success()
    assert not app.link.is_open


# -- loops and mocks --------------------------------------------------------------------------------------------------

POLL = """
name: poll
nodes:
  look: {type: task, task: look, params: {n: "${iteration}"}}
  is_ready: {type: switch, needs: [look]}
  pause: {type: wait, for: 10m}
  use: {type: task, task: use}
edges:
  - {from: is_ready, to: use, when: "nodes.look.output.ready"}
  - {from: is_ready, to: pause, else: true}
  - {from: pause, to: look, loop: {max: 5}}
"""


@dataclass
class Ready:
    """What becomes JSON as a task's result does."""

    ready: bool


def test_a_loop_goes_on_until_a_called_mock_says_so() -> None:
    looked: list[Any] = []

    def look(params: dict[str, int]) -> Ready:
        looked.append(params)
        return Ready(ready=len(looked) == 3)

    with engine() as env:
        env.mock("look", calls=look)
        env.mock("use", returns="used")
        run = env.start(POLL)

        assert env.run_to_end(run) == timedelta(minutes=20)
        assert looked == [{"n": 1}, {"n": 2}, {"n": 3}]
        env.assert_path(
            run,
            [*["look", "is_ready", "pause"] * 2, "look", "is_ready", "use"],
        )
        assert run.node("look").iteration == 3


def test_mocks_say_how_each_attempt_ends() -> None:
    def broken(params: object) -> object:
        raise LookupError("not there")

    table: list[tuple[dict[str, Any], str, str]] = [
        ({"returns": {"a": [1, None]}}, "success", ""),
        ({"returns": None}, "success", ""),
        ({"raises": TaskError("declined", "no money", retryable=False)}, "declined", "no money"),
        ({"raises": KeyError("x")}, "KeyError", "'x'"),
        ({"raises": "http.503"}, "http.503", "made to fail by a mock"),
        ({"raises": Failure("odd", "why")}, "odd", "why"),
        ({"raises": raises("mine", "said", details={"a": 1})}, "mine", "said"),
        ({"returns": response(status=404)}, "http.404", "the mock answered 404"),
        ({"calls": broken}, "LookupError", "not there"),
        ({"calls": lambda params: object()}, "invalid_result", ""),
        ({"calls": lambda params: raises("chosen", "here")}, "chosen", "here"),
        ({"calls": lambda params: params}, "success", ""),
        ({"attempts": [returns(1)]}, "success", ""),
    ]
    for given, code, message in table:
        with engine() as env:
            env.mock(task="work", **given)
            run = env.start(one_node())
            if code == "success":
                run.assert_success()
            else:
                run.assert_failed(code=code)
                assert message in run.node("work").error["message"], given


def test_one_attempt_may_fail_before_the_real_work_is_done() -> None:
    app = Tenuto(":memory:")

    @app.task
    def work() -> int:
        return current().attempt

    with engine(app) as env:
        env.mock("work", attempts=[raises("connect"), real()])
        run = env.start(one_node("retry: {max_attempts: 3, initial: 1s}"))
        env.run_to_end(run)

        run.assert_success(output={"work": 2})
        assert [call.mocked for call in env.calls("work")] == [True, False]


def test_a_later_mock_goes_before_an_earlier_one_and_a_nodes_before_its_tasks() -> None:
    text = "name: n\nnodes:\n  a: {type: task, task: same}\n  b: {type: task, task: same}\n"
    with engine() as env:
        env.mock("a", returns="node")
        env.mock(task="same", returns="old")
        newest = env.mock(task="same", returns="new")
        env.start(text).assert_success(output={"a": "node", "b": "new"})

        assert newest.used == 1
        assert [str(mock) for mock in env.unused_mocks()] == ["task 'same'"]


def test_no_request_leaves_a_test_unless_it_may() -> None:
    text = "name: h\nnodes:\n  get: {type: http, request: {url: 'http://127.0.0.1:9/x'}}\n"
    with engine() as env:
        run = env.start(text)
        run.assert_failed(code="http_not_mocked")
        assert "env.mock('get', returns=…)" in run.node("get").error["message"]
    with engine(allow_http=True) as env:
        env.start(text).assert_failed(code="connect")


def test_every_env_begins_anew_with_the_same_app(order_app: Tenuto) -> None:
    for _ in range(2):
        with engine(order_app) as env:
            env.mock("charge", returns=response({"id": "ch-1"}))
            env.run_to_end(env.start(ORDER, {"order_id": "A", "amount": 1}, key="once"))
            assert len(env.runs()) == 1


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_work_that_blocks_is_named_with_its_line() -> None:
    app = Tenuto(":memory:")
    begun, go = threading.Event(), threading.Event()

    @app.task(name="stock.reserve")
    def reserve() -> None:
        assert [*map(operator.call, (begun.set, go.wait))]  # type: ignore[arg-type]

    text = "name: b\nnodes:\n  res: {type: task, task: stock.reserve}\n"
    with engine(app) as env:
        env.start(text)
        begun.wait()
        with pytest.raises(StillRunning) as caught:
            env.drain(patience=0.2)
        go.set()
        env.drain()

    line = reserve.__code__.co_firstlineno + 2
    assert caught.value.nodes == ("res",)
    assert str(caught.value).splitlines() == [
        "something still runs after 0.2 s of real time, and the clock waits for it:",
        f"  res (stock.reserve), attempt 1: {__file__}:{line} in reserve",
        "A task that waits for real time cannot be hurried: mock it, or give more with patience=…",
    ]


def test_a_failed_check_shows_the_timeline() -> None:
    with engine() as env:
        env.mock("work", attempts=[raises("http.503"), returns(1)])
        run = env.start(one_node("retry: {max_attempts: 2, initial: 2s, jitter: none}"))
        with pytest.raises(RunCheck) as caught:
            run.assert_success()
        assert str(caught.value).splitlines() == [
            "expected success, but the run is running",
            f"run {run.id} of one: running, started 2026-01-01T00:00:00.000Z",
            "  +0µs  work  attempt 1  failed http.503: made to fail by a mock",
            "  now: work waits for attempt 2 in 2s",
        ]
        env.run_to_end(run)
        checks: list[tuple[Callable[[], None], str]] = [
            (lambda: run.assert_success(output=2), "expected the output 2, got"),
            (run.assert_failed, "expected a failure, but the run is success"),
            (lambda: run.assert_waiting("work"), "expected work to wait, but it is success"),
            (lambda: env.assert_path(run, ["other"]), "step 1 is work, not other; the path is"),
            (lambda: env.assert_path(run, []), "after the last step came work"),
            (lambda: env.assert_path(run, ["work", "x"]), "step 2 is missing, not x"),
        ]
        for check, said in checks:
            with pytest.raises(RunCheck) as caught:
                check()
            assert said in str(caught.value)
            assert "attempt 2" in str(caught.value)


def test_a_failing_test_is_told_about_its_runs() -> None:
    with pytest.raises(ZeroDivisionError) as caught, engine() as env:
        env.mock("work", hangs=True)
        env.start(one_node())
        env.drain()
        raise ZeroDivisionError

    [note] = caught.value.__notes__
    assert note.splitlines()[0] == "the clock shows 2026-01-01T00:00:00.000Z"
    assert note.splitlines()[2].split() == ["+0µs", "work", "attempt", "1", "running"]


def test_a_history_that_does_not_fold_fails_the_test() -> None:
    with pytest.raises(InvariantViolated, match="does not fold to what is stored"), engine() as env:
        env.mock("work", returns=1)
        run = env.start(one_node())
        run.assert_success()

        def change() -> Steps[None]:
            yield (("UPDATE tasks SET attempt = 7", ()),)

        database = env._stage.parts.database
        env.wait(env._ask(lambda: database.write(change)), "tamper")


def test_an_unused_mock_fails_a_strict_engine() -> None:
    text = (
        "name: u\nnodes:\n  work: {type: wait, for: 1s}\n"
        "  never: {type: task, task: x, needs: work}\n"
    )
    said = r"^no attempt met the mocks of node 'never'$"
    with pytest.raises(UnusedMocks, match=said), engine(strict=True) as env:
        env.mock("never", returns=1)
        env.start(text)


def test_mistakes_are_answered_in_one_line_with_the_cure(order_app: Tenuto) -> None:
    with engine(order_app) as env:
        env.deploy(ORDER)
        run = env.start(ORDER, {"order_id": "A-1", "amount": 9000})  # charge fails: not mocked
        waits = env.start("name: w\nnodes:\n  rest: {type: wait, for: 40d}\n")
        mistakes: list[tuple[Any, type[TenutoError], str]] = [
            (
                lambda: env.mock("chrage", returns=1),
                NotFound,
                "no node 'chrage'; in 'order', 'w'; did you mean 'charge'?",
            ),
            (
                lambda: env.mock("q", returns=1),
                NotFound,
                "no node 'q'; in 'order', 'w'; a worker runs charge, reserve, score, ship, refund",
            ),
            (
                lambda: env.mock("approval", returns=1),
                InvalidInput,
                (
                    "node 'approval' of order is a `wait_for_event`, which no worker runs; send its event"
                    " with env.send_event(…)"
                ),
            ),
            (
                lambda: env.mock("cool_off", returns=1),
                InvalidInput,
                (
                    "node 'cool_off' of order is a `wait`, which no worker runs; turn the clock with"
                    " env.advance(…)"
                ),
            ),
            (
                lambda: env.mock(task="stock.reserv", returns=1),
                NotFound,
                "no task 'stock.reserv'; did you mean 'stock.reserve'?",
            ),
            (
                lambda: env.mock(returns=1),
                InvalidInput,
                (
                    "mock one node, mock('charge', …), one task, mock(task='…', …), or one workflow,"
                    " mock(workflow='…', …)"
                ),
            ),
            (
                lambda: env.mock("charge"),
                InvalidInput,
                "a mock does one thing: returns=, raises=, calls=, hangs=True, lost=True or attempts=[…]",
            ),
            (
                lambda: env.mock("charge", returns=1, raises="x"),
                InvalidInput,
                "a mock does one thing, not returns and raises; use attempts=[…]",
            ),
            (
                lambda: env.mock("charge", returns=float("nan")),
                InvalidInput,
                "returns: result is NaN, which JSON cannot hold: return None or a string",
            ),
            (
                lambda: env.mock("charge", raises=503),
                InvalidInput,
                (
                    "raises: 503 is neither a code nor an exception; write raises='http.503' or"
                    " raises=TaskError('declined')"
                ),
            ),
            (
                lambda: env.mock("charge", attempts=["x"]),
                InvalidInput,
                "attempts[1]: 'x' is none of returns(…), raises(…), response(…), hangs(), lost(), real()",
            ),
            (
                lambda: env.mock("charge", attempts=[]),
                InvalidInput,
                "attempts: a list is needed, like [raises('http.503'), returns({})]",
            ),
            (
                lambda: env.mock("charge", calls=3),
                InvalidInput,
                "calls: 3 is no plain function of the params; write calls=lambda params: …",
            ),
            (
                lambda: env.advance(10),  # type: ignore[arg-type]
                InvalidInput,
                "10 is no duration; write it like '500ms', '10s', '1h30m', '2d'",
            ),
            (
                lambda: env.advance("2 days"),
                InvalidInput,
                "'2 days' is not a duration; write it like 500ms, 10s, 1h30m or 2d",
            ),
            (
                lambda: env.advance(timedelta(days=-1)),
                InvalidInput,
                "the clock only goes forward; datetime.timedelta(days=-1) would turn it back",
            ),
            (
                lambda: env.advance_to("2025-01-01T00:00:00Z"),
                InvalidInput,
                "the clock only goes forward: it shows 2026-01-01T00:00:00.000Z already",
            ),
            (
                lambda: engine(start_at="2026-01-01T00:00:00"),
                InvalidInput,
                "'2026-01-01T00:00:00' has no offset; add Z or one like +01:00",
            ),
            (
                lambda: run.node("chagre"),
                NotFound,
                "no node 'chagre'; in 'order'; did you mean 'charge'?",
            ),
            (
                waits.result,
                NotFinished,
                (
                    f"run {waits.id} of w has not ended: rest waits for its time in 40d00h; turn the clock"
                    " with env.run_to_end(run), or make happen what it waits for"
                ),
            ),
            (
                lambda: env.run_to_end(waits),
                NothingDue,
                (
                    "not within 30d00h: the next is due at 2026-02-10T00:00:00.000Z\n"
                    f"  run {waits.id} of w: rest waits for its time in 40d00h"
                ),
            ),
            (
                lambda: engine(order_app).open(),
                Conflict,
                "this app is open already; close it first: app.close()",
            ),
        ]
        for mistake, kind, said in mistakes:
            with pytest.raises(TenutoError) as caught:
                mistake()
            assert (type(caught.value), str(caught.value)) == (kind, said)

    with pytest.raises(Conflict, match="this engine is not open; use it inside"):
        env.drain()


def test_a_mistaken_mock_is_found_by_the_start_that_knows_better() -> None:
    with engine() as env:
        env.mock("wrok", returns=1)
        with pytest.raises(NotFound, match="no node 'wrok'; in 'one'; did you mean 'work'"):
            env.start(one_node())
        assert env.runs() == []


def test_what_nobody_will_ever_do_is_said_with_what_it_waits_for() -> None:
    with engine() as env:
        run = env.start('name: f\nnodes:\n  w: {type: wait_for_event, event: e, key: "1"}\n')
        with pytest.raises(NothingDue) as caught:
            env.run_to_end(run)

    assert str(caught.value).splitlines() == [
        "nothing more is due after 0µs",
        f"  run {run.id} of f: w waits for event e key 1",
    ]


def test_a_condition_may_be_waited_for() -> None:
    text = "name: c\nnodes:\n  a: {type: wait, for: 1d}\n  b: {type: wait, for: 1d, needs: a}\n"
    with engine() as env:
        run = env.start(text)
        turned = env.advance_until(lambda: run.node("b").state == "waiting")

        assert turned == timedelta(days=1)
        assert run.status() == "running"
