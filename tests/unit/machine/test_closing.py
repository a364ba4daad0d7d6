"""C1, C2, C5, C6: settling, closing, pausing."""

from __future__ import annotations

import json

import pytest
from tests.support.graphs import graph, key, value
from tests.support.world import World

from tenuto.machine.events import (
    CancelRequested,
    PauseRequested,
    Rejection,
    ResumeRequested,
    RunStarted,
    TimerKind,
)
from tenuto.model.definition import WaitForEvent, Work
from tenuto.model.expressions import Fault
from tenuto.model.payload import PayloadKind
from tenuto.model.retry import RetryPolicy
from tenuto.model.states import RunState


def test_C1_a_run_settles_when_every_node_is_final() -> None:
    world = World(graph("a; b")).start()
    world.succeed("a")
    assert not world.is_final

    world.succeed("b")

    assert world.state is RunState.SUCCESS


def test_C1_an_unhandled_dead_node_that_remains_makes_it_failed() -> None:
    world = World(graph("a -always-> b; c", timeout_us=5)).start()
    world.fail("a")
    world.succeed("b")
    world.succeed("c")

    assert (world.letters, world.state) == ("xss", RunState.FAILED)
    assert not world.ledger.timers


def test_C1_an_error_in_the_run_s_output_is_its_failure() -> None:
    fault = Fault("expression_error", "no such key")
    world = World(graph("a", output=value("v", "output")), {"v": fault}).start()
    world.succeed("a")
    error = json.loads(world.payload("", PayloadKind.ERROR) or "")

    assert (world.state, world.letters) == (RunState.FAILED, "s")
    assert (error["code"], error["node"]) == ("expression_error", "output")


def test_C2_the_outcome_is_decided_once() -> None:
    world = World(graph("a")).start()
    world.cancel("first")

    assert world.send(CancelRequested(at=world.now)).rejected is Rejection.RUN_FINAL
    assert world.state is RunState.CANCELLED


def test_C2_closing_cancels_what_is_not_final_and_takes_tasks_waits_and_timers() -> None:
    text = "a -> b; w; e; r"
    world = World(
        graph(
            text,
            types={"w": "wait", "e": "wait_for_event"},
            details={
                "e": WaitForEvent("e", key('"k"'), timeout_us=9),
                "r": Work("r", value("{}"), total_timeout_us=50),
            },
            timeout_us=1_000,
        )
    ).start()
    world.grant("a")
    world.succeed("r")
    world.cancel("enough")
    error = json.loads(world.payload("", PayloadKind.ERROR) or "")

    assert (world.letters, world.state) == ("ccccs", RunState.CANCELLED)
    assert (error["code"], error["message"]) == ("cancelled", "enough")
    assert not world.ledger.timers
    assert not world.ledger.waits
    assert world.task("a").state == "cancelled"


def test_C2_a_run_timeout_ends_as_timed_out() -> None:
    world = World(graph("a", timeout_us=10)).start()
    world.fire("", TimerKind.RUN)

    assert (world.state, world.letters) == (RunState.TIMED_OUT, "c")
    assert json.loads(world.payload("", PayloadKind.ERROR) or "")["code"] == "run_timeout"


def test_C2_a_cancel_without_a_reason_says_so() -> None:
    world = World(graph("a")).start()
    world.cancel()

    assert (
        json.loads(world.payload("", PayloadKind.ERROR) or "")["message"] == "cancelled on request"
    )


def test_C2_nothing_happens_to_a_final_run() -> None:
    world = World(graph("a", timeout_us=10)).start()
    firing = world.firing_of(next(iter(world.ledger.timers.values())))
    world.succeed("a")

    for event in (
        firing,
        CancelRequested(at=world.now),
        PauseRequested(at=world.now),
        ResumeRequested(at=world.now),
        RunStarted(at=world.now),
    ):
        assert world.send(event).rejected is not None


def test_C5_the_default_output_is_that_of_the_sinks_that_succeeded() -> None:
    text = "a -> b; a -> c; a -> d when 'x'; c -failure-> f; b -always-> z"
    world = World(graph(text, types={"z": "set"}), {"x": False}).start()
    world.succeed("a", "0")
    world.succeed("b", "1")
    world.succeed("c", "2")

    assert world.output() == {"c": "2", "z": "1"}


def test_C5_the_default_output_is_in_the_order_of_ids() -> None:
    world = World(graph("b; c; a")).start()
    for id in "bca":
        world.succeed(id)
    output = world.output()

    assert isinstance(output, dict)
    assert list(output) == ["a", "b", "c"]


def test_C5_a_sink_in_a_loop_counts_in_its_last_pass() -> None:
    world = World(graph("h -> a; a -failure-> h loop 3; h -failure-> x")).start()
    world.succeed("h")
    world.fail("a")
    world.succeed("h")
    world.succeed("a", "2")

    assert world.output() == {"a": "2"}


def test_C5_a_sink_without_output_is_null() -> None:
    world = World(graph("w", types={"w": "wait"})).start()
    world.fire("w", TimerKind.WAIT)

    assert world.output() == {"w": None}


def test_C5_the_output_is_null_unless_success() -> None:
    world = World(graph("a; b")).start()
    world.succeed("a")
    world.fail("b")

    assert world.output() is None


def test_C6_a_paused_run_grants_nothing_and_decides_everything() -> None:
    world = World(graph("a -> b; a -> s; s -> c", types={"s": "set"})).start()
    lease = world.grant("a")
    world.pause()
    world.accept(world.success_of(lease))

    assert (world.letters, world.ready) == ("sasa", set())
    assert world.task("b").held


def test_C6_resume_offers_again_what_waits() -> None:
    world = World(graph("a; b")).start()
    world.grant("b")
    world.pause()
    world.resume()

    assert world.ready == {"a"}
    assert not world.task("b").held


def test_C6_pause_and_resume_are_refused_when_there_is_nothing_to_do() -> None:
    world = World(graph("a")).start()
    assert world.send(ResumeRequested(at=world.now)).rejected is Rejection.NOT_PAUSED

    world.pause()

    assert world.send(PauseRequested(at=world.now)).rejected is Rejection.ALREADY_PAUSED


def test_C6_a_run_that_is_paused_before_its_start_begins_held() -> None:
    world = World(graph("a"))
    world.pause()
    world.start()

    assert (world.letters, world.ready) == ("a", set())
    world.resume()
    assert world.ready == {"a"}


def test_C6_a_back_off_that_ends_while_paused_waits_for_the_resume() -> None:
    work = Work("a", value("{}"), retry=RetryPolicy(max_attempts=2), queue_timeout_us=10)
    world = World(graph("a", details={"a": work})).start()
    world.fail("a")
    world.pause()
    world.fire("a", TimerKind.BACKOFF)
    assert (world.ready, world.task("a").queue_until) == (set(), None)

    world.resume()

    assert (world.ready, world.task("a").queue_until) == ({"a"}, world.now + 10)


def test_C6_a_run_may_settle_while_paused() -> None:
    world = World(graph("a")).start()
    lease = world.grant("a")
    world.pause()
    world.accept(world.success_of(lease))

    assert (world.state, world.snapshot.paused) == (RunState.SUCCESS, True)


@pytest.mark.parametrize(
    ("how", "paused"), [("cancel", False), ("failure", True), ("timeout", True)]
)
def test_C6_only_a_cancel_that_decides_the_outcome_lifts_the_pause(how: str, paused: bool) -> None:
    world = World(graph("a", timeout_us=10)).start()
    lease = world.grant("a")
    world.pause()
    if how == "cancel":
        world.cancel()
    elif how == "timeout":
        world.fire("", TimerKind.RUN)
    else:
        world.accept(world.failure_of(lease))

    assert world.is_final
    assert world.snapshot.paused is paused
