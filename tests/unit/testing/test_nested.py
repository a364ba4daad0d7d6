"""Mocks and verbs for what is nested: items, nodes of a `do:`, handlers, called workflows; retry, replay, skip."""

from __future__ import annotations

import pytest

from tenuto import Conflict, InvalidInput, NotFound, Tenuto
from tenuto.testing import engine, raises, returns
from tenuto.testing.reading import Reading

LISTED = """
name: listed
nodes:
  each:
    type: foreach
    over: "range(4)"
    task: picky
    params: {n: "${item}"}
    retry: {max_attempts: 2, initial: 10s}
  sub:
    type: call
    needs: [each]
    do: {nodes: {a: {type: task, task: inner}, w: {type: wait, for: 1h, needs: [a]}}}
    compensate: {type: task, task: undo}
  bill: {type: call, call: billing@stable, input: {n: 4}, needs: [sub], retry: {max_attempts: 2}}
  last: {type: task, task: ship, needs: [bill], params: {v: "${nodes.bill.output}"}}
"""


def test_items_nodes_inside_and_called_workflows_are_mocked_on_one_clock() -> None:
    with engine(strict=True) as env:
        env.mock("each", calls=lambda params: params["n"] * 2)
        env.mock("each[3]", attempts=[raises("flop"), returns(0)])
        env.mock("a", returns=3)
        env.mock(workflow="billing@stable", attempts=[raises("declined"), returns({"ok": True})])
        env.mock("last", calls=lambda params: params["v"])
        run = env.start(LISTED)

        took = env.run_to_end(run)

        run.assert_success(output={"last": {"ok": True}})
        assert took.total_seconds() >= 3_600
        assert run.node("each").output == [0, 2, 4, 0]
        assert [item.attempt for item in run.items("each")] == [1, 1, 1, 2]
        assert [child.status() for child in run.children()] == ["success", "failed", "success"]
        assert env.runs() == [run]


def test_C3_a_handler_has_a_mock_of_its_own() -> None:
    with engine(strict=True) as env:
        env.mock("each", returns=1)
        env.mock("a", returns=3)
        env.mock("sub!undo", returns=None)
        env.mock(workflow="billing@stable", raises="declined")
        run = env.start(LISTED)

        env.run_to_end(run)

        run.assert_failed(code="child_failed", node="bill")
        assert run.node("sub").undo == "undone"
        with pytest.raises(Conflict, match="has been undone"):
            run.retry()


def test_R1_a_run_is_retried_skipped_and_replayed() -> None:
    with engine() as env:
        env.mock(task="picky", raises="flop")
        text = "name: one\nnodes: {a: {type: task, task: picky}, b: {type: wait, for: 1h, needs: [a]}}\n"
        run = env.start(text)
        run.assert_failed(code="flop")
        assert run.retry(dry_run=True).first == ("a", "b")

        run.retry(skip="a", output=7)
        run.assert_waiting("b")
        assert run.node("a").output == 7
        run.skip("b", 8)
        run.assert_success(output={"b": 8})

        again = run.replay("b")
        again.assert_waiting("b")
        again.terminate()
        assert again.status() == "cancelled"


def test_L5_iterations_of_a_loop_are_listed() -> None:
    text = """
name: loop
nodes:
  count: {type: task, task: t, params: {n: "${iteration}"}}
  more: {type: switch}
  done: {type: set, values: {n: 0}}
edges:
  - {from: count, to: more}
  - {from: more, to: count, when: "iteration < 3", loop: {max: 3}}
  - {from: more, to: done, else: true}
"""
    with engine() as env:
        env.mock("count", calls=lambda params: params["n"] * 10)
        run = env.start(text)
        run.assert_success()

        assert [each.output for each in run.iterations("count")] == [10, 20, 30]


def test_a_heartbeat_moves_the_silence_of_a_wait() -> None:
    text = "name: w\nnodes: {w: {type: wait_for_event, event: e, key: k, heartbeat_timeout: 10m}}\n"
    with engine() as env:
        run = env.start(text)
        env.advance("9m")
        assert env.heartbeat("e", "k") == 1
        env.advance("9m")
        run.assert_waiting("w")
        env.advance("2m")
        run.assert_failed(code="heartbeat_timeout")


def test_C6_frozen_timers_move_by_the_length_of_the_pause() -> None:
    with engine() as env:
        run = env.start("name: nap\nnodes: {w: {type: wait, for: 1h}}\n")
        run.pause()
        env.advance("50m")
        run.resume(freeze_timers=True)
        env.advance("59m")
        run.assert_waiting("w")
        env.advance("2m")
        run.assert_success()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"workflow": "billing@3"}, "is a single version; mock the whole workflow"),
        ({"workflow": "billing", "task": "t"}, "mock one node"),
        ({}, "mock one node"),
    ],
)
def test_a_mock_of_what_cannot_be_mocked_is_refused(given: dict[str, str], told: str) -> None:
    with engine() as env, pytest.raises(InvalidInput, match=told):
        env.mock(**given, returns=1)  # type: ignore[arg-type]


def test_a_call_itself_has_no_mock_and_the_cure_is_named() -> None:
    with engine() as env:
        env.mock(workflow="billing@stable", returns=1)
        env.deploy(LISTED)
        with pytest.raises(InvalidInput, match=r"env\.mock\(workflow='billing', …\)"):
            env.mock("bill", returns=1)
        with pytest.raises(InvalidInput, match="mock the nodes of what it calls"):
            env.mock("sub", returns=1)


def test_an_engine_whose_runs_cannot_be_shown_is_shut_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Tenuto()

    async def broken(self: Reading) -> str:
        raise NotFound("definition", "cf15")

    monkeypatch.setattr(Reading, "describe", broken)
    with pytest.raises(ZeroDivisionError) as raised, engine(app):
        raise ZeroDivisionError

    assert raised.value.__notes__ == ["the runs cannot be shown: no definition 'cf15'"]
    with engine(app):
        """It was given back."""


async def test_the_same_of_an_engine_in_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Tenuto()

    async def broken(self: Reading) -> str:
        raise NotFound("definition", "cf15")

    monkeypatch.setattr(Reading, "describe", broken)
    with pytest.raises(ZeroDivisionError):
        async with engine(app):
            raise ZeroDivisionError

    async with engine(app):
        """It was given back."""
