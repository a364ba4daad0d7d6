"""C1, C2, C4 (terminate), C5, F2, F4: the outcome of a run, and how it becomes final."""

from __future__ import annotations

import json

import pytest
from tests.support.graphs import graph, key, value
from tests.support.saga import calling, last, orders, saga, undos
from tests.support.world import World

from tenuto.machine.actions import (
    CloseRun,
    SettleRun,
    TellParent,
    TerminateChildren,
)
from tenuto.machine.events import (
    CancelRequested,
    ParentPaused,
    PauseRequested,
    Rejection,
    ResumeRequested,
    RunStarted,
    TerminateRequested,
    TimerKind,
)
from tenuto.model.definition import End, WaitForEvent, Work
from tenuto.model.expressions import Fault
from tenuto.model.graph import Graph
from tenuto.model.ids import RUN_PLACE, Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import RunState, TaskState


@pytest.mark.rule("C1.1")
def test_C1_a_run_settles_when_every_node_is_final() -> None:
    world = World(graph("a; b")).start()
    world.succeed("a")
    assert not world.is_final

    world.succeed("b")

    assert world.state is RunState.SUCCESS


@pytest.mark.rule("C1.1")
def test_C1_an_unhandled_dead_node_that_remains_makes_it_failed() -> None:
    world = World(graph("a -always-> b; c", timeout_us=5)).start()
    world.fail("a")
    world.succeed("b")
    world.succeed("c")

    assert (world.letters, world.state) == ("xss", RunState.FAILED)
    assert not world.ledger.timers


@pytest.mark.rule("C1.1", "C2.1")
def test_C1_an_error_in_the_run_s_output_is_its_failure() -> None:
    fault = Fault("expression_error", "no such key")
    world = World(graph("a", output=value("v", "output")), {"v": fault}).start()
    world.succeed("a")
    error = json.loads(world.payload("", PayloadKind.ERROR) or "")

    assert (world.state, world.letters) == (RunState.FAILED, "s")
    assert (error["code"], error["node"]) == ("expression_error", "output")


@pytest.mark.rule("C2.1")
def test_C2_the_outcome_is_decided_once() -> None:
    world = World(graph("a")).start()
    world.cancel("first")

    assert world.send(CancelRequested(at=world.now)).rejected is Rejection.RUN_FINAL
    assert world.state is RunState.CANCELLED


@pytest.mark.rule("C2.2")
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


@pytest.mark.rule("C2.1")
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
        TerminateRequested(at=world.now),
        PauseRequested(at=world.now),
        ResumeRequested(at=world.now),
        ParentPaused(at=world.now, paused=True),
        RunStarted(at=world.now),
    ):
        assert world.send(event).rejected is not None


@pytest.mark.rule("C5.1")
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


@pytest.mark.rule("C5.1")
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


@pytest.mark.rule("C5.2")
def test_C5_the_output_is_null_unless_success() -> None:
    world = World(graph("a; b")).start()
    world.succeed("a")
    world.fail("b")

    assert world.output() is None


# -- C1: open children --------------------------------------------------------------------------------------------


def with_child(graph: Graph) -> World:
    """A started run whose calls find their workflow."""
    world = World(graph)
    world.family.workflows["other"] = saga("x")
    return world.start()


def raced() -> Graph:
    """`b` is a call that loses its race to `a`."""
    return saga(
        "s -> a; s -> b; a -> j; b -> j",
        types={"b": "call"},
        details={"b": calling("b")},
        join={"j": 1},
        cancel_losers="j",
    )


@pytest.mark.rule("C1.1")
def test_C1_a_run_does_not_settle_while_a_child_is_open() -> None:
    world = with_child(raced())
    for id in "saj":
        world.succeed(id)
    assert (world.letters, world.state) == ("sscs", RunState.RUNNING)
    world.settle_child("b", RunState.CANCELLED)

    assert world.state is RunState.SUCCESS


@pytest.mark.rule("C1.1")
def test_C1_with_an_unhandled_dead_node_it_is_failed_when_its_last_child_has_ended() -> None:
    text = "s -> a; s -> b; a -> j; b -> j; s -> f; f -always-> g"
    graph = saga(
        text,
        types={"b": "call"},
        details={"b": calling("b")},
        join={"j": 1},
        cancel_losers="j",
    )
    world = with_child(graph)
    world.succeed("s")
    world.fail("f")
    for id in "gaj":
        world.succeed(id)
    assert world.state is RunState.RUNNING
    world.settle_child("b", RunState.CANCELLED)

    assert world.state.value == "failed"


@pytest.mark.rule("F6.4", "C1.1")
def test_C1_a_child_that_nobody_waits_for_keeps_no_run_open() -> None:
    graph = saga("a", types={"a": "call"}, details={"a": calling("a", wait=False)})

    assert with_child(graph).state is RunState.SUCCESS


# -- C2: the outcome, once ----------------------------------------------------------------------------------------


@pytest.mark.rule("F2.3", "C2.1")
def test_C2_F2_an_unhandled_failure_comes_before_what_else_asks_for_the_end() -> None:
    for how in ("cancel", "run_timeout", "end"):
        types = {"e": "end"}
        world = World(graph("a -always-> b; b -> e", types=types, timeout_us=9)).start()
        world.fail("a")
        if how == "cancel":
            world.cancel("late")
        elif how == "run_timeout":
            world.fire("", TimerKind.RUN)
        else:
            world.succeed("b")
        closed_by = {"cancel": "cancelled"}.get(how, how)

        assert (world.state, world.snapshot.closed_by) == (RunState.FAILED, (closed_by,))
        assert world.settled is not None
        assert world.settled.error == PayloadKey(Place("a"), PayloadKind.ERROR)


@pytest.mark.rule("C2.3")
def test_C2_without_handlers_and_children_it_is_final_in_that_decision() -> None:
    world = World(graph("a; b")).start()
    world.grant("b")
    world.fail("a")

    assert world.state is RunState.FAILED
    assert world.snapshot.closing is None


def test_C2_work_that_never_began_is_nothing_to_undo() -> None:
    world = World(saga("z -> a", undo="a")).start()
    world.fail("z")

    assert (world.state, world.letters) == (RunState.FAILED, "xc")


@pytest.mark.rule("C2.2", "C2.4")
def test_C2_with_handlers_it_closes_first() -> None:
    world = World(saga("a; b; c", undo="a", timeout_us=99)).start()
    world.succeed("a")
    world.grant("b")
    world.fail("c")

    assert (world.state, world.letters) == (RunState.CLOSING, "scx")
    assert set(world.ledger.timers) == {(RUN_PLACE, TimerKind.DRAIN)}
    assert world.task("b").state is TaskState.CANCELLED
    assert not any(isinstance(action, SettleRun) for action in orders(world))


@pytest.mark.rule("C2.4")
def test_C2_no_handler_starts_before_the_drain() -> None:
    world = World(saga("a; b; c", undo="a", on_failure=last())).start()
    world.succeed("a")
    lease = world.grant("b")
    world.fail("c")
    assert undos(world) == []
    world.accept(world.success_of(lease))
    assert undos(world) == []
    world.drained()

    assert undos(world) == ["a!undo"]


@pytest.mark.rule("C2.4", "C2.6")
def test_C2_cancelled_work_that_may_still_succeed_is_waited_for() -> None:
    """F8: its late success would be due, so the run cannot be final yet."""
    world = World(saga("a; z", undo="a")).start()
    world.grant("a")
    world.fail("z")
    assert world.state is RunState.CLOSING
    world.lapse("a")
    world.drained()

    assert (world.state, undos(world)) == (RunState.FAILED, [])


@pytest.mark.rule("C2.4")
def test_C2_the_drain_waits_for_the_children() -> None:
    graph = saga("a; z", types={"a": "call"}, details={"a": calling("a")}, on_failure=last())
    world = with_child(graph)
    world.fail("z")
    assert (world.state, set(world.ledger.timers)) == (RunState.CLOSING, set())
    world.settle_child("a", RunState.CANCELLED)
    assert set(world.ledger.timers) == {(RUN_PLACE, TimerKind.DRAIN)}
    world.drained()

    assert undos(world) == ["!on_failure"]


@pytest.mark.rule("C2.3", "C2.4", "C2.6")
def test_C2_an_open_child_alone_keeps_the_run_closing() -> None:
    graph = saga(
        "a; b; z", types=dict.fromkeys("ab", "call"), details={i: calling(i) for i in "ab"}
    )
    world = with_child(graph)
    world.fail("z")
    world.settle_child("a", RunState.CANCELLED)
    assert (world.state, set(world.ledger.timers)) == (RunState.CLOSING, set())
    world.settle_child("b", RunState.CANCELLED)
    world.drained()

    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "none")


@pytest.mark.rule("C2.4")
def test_C2_what_loses_a_race_is_drained_too() -> None:
    graph = saga(
        "s -> a; s -> b; a -> j; b -> j; j -> z", undo="b", join={"j": 1}, cancel_losers="j"
    )
    world = World(graph).start()
    world.succeed("s")
    late = world.grant("b")
    for id in "aj":
        world.succeed(id)
    world.fail("z")
    assert world.state is RunState.CLOSING
    world.accept(world.success_of(late))
    world.drained()

    assert undos(world) == ["b!undo"]


# -- C4: terminate ------------------------------------------------------------------------------------------------


@pytest.mark.rule("C4.7")
def test_C4_terminate_ends_a_running_run_at_once_as_cancelled() -> None:
    world = World(saga("a; b; w", undo="a", on_failure=last(), types={"w": "wait"})).start()
    world.succeed("a")
    world.grant("b")
    world.terminate("now")
    error = json.loads(world.payload("", PayloadKind.ERROR) or "")

    assert (world.state, world.letters, undos(world)) == (RunState.CANCELLED, "scc", [])
    assert (error["code"], error["message"]) == ("cancelled", "now")
    assert world.task("b").state is TaskState.CANCELLED
    assert world.snapshot.compensation == "none"


@pytest.mark.rule("F2.3")
def test_C4_F2_terminate_alone_gives_cancelled_even_after_an_unhandled_failure() -> None:
    world = World(graph("a -always-> b")).start()
    world.fail("a")
    world.terminate()
    assert world.settled is not None

    assert (world.state, world.snapshot.closed_by) == (RunState.CANCELLED, ())
    assert world.settled.error == PayloadKey(RUN_PLACE, PayloadKind.ERROR)


@pytest.mark.rule("F2.3", "C4.7")
def test_C4_terminate_keeps_an_outcome_that_is_decided() -> None:
    world = World(saga("a", undo="a", timeout_us=9)).start()
    world.fire("", TimerKind.RUN)
    world.terminate()
    assert world.settled is not None

    assert (world.state, world.settled.state) == (RunState.TIMED_OUT, RunState.TIMED_OUT)


@pytest.mark.rule("C4.7")
def test_C4_every_open_child_gets_a_terminate_in_the_same_transaction() -> None:
    world = with_child(saga("a; b", types={"a": "call"}, details={"a": calling("a")}))
    world.terminate()

    assert TerminateChildren() in orders(world)
    assert (world.state, world.snapshot.children) == (RunState.CANCELLED, 1)


@pytest.mark.rule("C4.7")
def test_C4_also_a_child_that_was_sent_a_cancel_before() -> None:
    world = with_child(saga("a; z", types={"a": "call"}, details={"a": calling("a")}))
    world.fail("z")
    world.terminate()

    assert TerminateChildren() in orders(world)
    assert world.state is RunState.FAILED


def test_C4_terminate_is_refused_by_a_run_that_is_final_only() -> None:
    world = World(graph("a"))
    assert world.send(TerminateRequested(at=world.now)).rejected is Rejection.RUN_FINAL
    world.start()
    world.terminate()

    assert world.send(TerminateRequested(at=world.now)).rejected is Rejection.RUN_FINAL


@pytest.mark.parametrize("how", ["settles", "terminated", "undone"])
def test_C1_the_parent_is_told_in_the_decision_that_makes_the_run_final(how: str) -> None:
    parent = (RunId("parent"), Place("call"))
    world = World(saga("a; z", undo="a"))
    world.accept(RunStarted(at=world.now, parent=parent, depth=1))
    world.succeed("a")
    if how == "settles":
        world.succeed("z")
    elif how == "terminated":
        world.terminate()
    else:
        world.fail("z")
        assert TellParent(*parent) not in orders(world)
        world.drained()
        world.succeed("a!undo")

    assert world.is_final
    assert orders(world)[-1] == TellParent(*parent)


# -- F4: end ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("F4.3")
@pytest.mark.parametrize("cancelled", [False, True])
def test_F4_end_runs_no_compensation_and_no_on_failure(cancelled: bool) -> None:
    graph = saga(
        "a -> e",
        undo="a",
        on_failure=last(),
        types={"e": "end"},
        details={"e": End(cancelled=cancelled)},
    )
    world = World(graph).start()
    world.succeed("a")

    assert world.state is (RunState.CANCELLED if cancelled else RunState.SUCCESS)
    assert (undos(world), world.snapshot.compensation) == ([], "none")


@pytest.mark.rule("F4.3")
@pytest.mark.parametrize("cancelled", [False, True])
def test_F4_end_cancels_live_children_and_is_final_when_C2_says_so(cancelled: bool) -> None:
    graph = saga(
        "a -> e; b; p",
        undo="ap",
        on_failure=last(),
        types={"e": "end", "b": "call"},
        details={"e": End(cancelled=cancelled, output=value("5")), "b": calling("b")},
    )
    world = with_child(graph)
    world.succeed("a")
    assert (world.state, world.letters) == (RunState.CLOSING, "sscc")
    assert CloseRun() in orders(world)
    world.settle_child("b", RunState.CANCELLED)
    world.drained()

    assert world.state is (RunState.CANCELLED if cancelled else RunState.SUCCESS)
    assert world.output() == (None if cancelled else "5")
    assert (undos(world), world.snapshot.compensation) == ([], "none")


@pytest.mark.rule("F4.2")
def test_F4_F2_end_after_an_unhandled_failure_closes_as_failed_and_undoes() -> None:
    world = World(saga("a; f -always-> g; g -> e", undo="a", types={"e": "end"})).start()
    world.succeed("a")
    world.fail("f")
    world.succeed("g")
    assert world.state is RunState.CLOSING
    world.drained()
    world.succeed("a!undo")

    assert (world.state, world.snapshot.closed_by) == (RunState.FAILED, ("end",))
    assert world.snapshot.compensation == "complete"


@pytest.mark.rule("F4.1")
def test_F4_fail_closes_the_run_with_its_error() -> None:
    world = World(saga("a -> f; b", undo="a", types={"f": "fail"})).start()
    world.succeed("a")
    assert (world.state, json.loads(world.error("f"))["code"]) == (
        RunState.CLOSING,
        "failed_on_purpose",
    )
    world.drained()
    world.succeed("a!undo")

    assert world.state is RunState.FAILED


@pytest.mark.rule("F4.3")
def test_F4_a_child_that_end_cancels_undoes_its_own_work() -> None:
    types = {"e": "end", "b": "call"}
    world = World(saga("a -> e; b", types=types, details={"b": calling("b")}))
    world.family.workflows["other"] = saga("x; y", undo="x")
    world.start()
    child = world.child("b")
    child.succeed("x")
    world.succeed("a")
    world.tell()
    assert (child.state, world.state) == (RunState.CLOSING, RunState.CLOSING)
    child.drained()
    child.succeed("x!undo")
    assert (child.state, child.snapshot.compensation) == (RunState.CANCELLED, "complete")
    world.tell()
    world.drained()

    assert world.state.value == "success"


def test_C2_C4_terminate_reaches_a_child_that_undoes_its_work_already() -> None:
    world = World(saga("b; z", types={"b": "call"}, details={"b": calling("b")}))
    world.family.workflows["other"] = saga("x; y", undo="x")
    world.start()
    child = world.child("b")
    child.succeed("x")
    world.fail("z")
    world.tell()
    child.drained()
    world.terminate()
    world.tell()

    assert (child.state, child.snapshot.compensation) == (RunState.CANCELLED, "partial")
    assert (world.state, world.snapshot.children) == (RunState.FAILED, 0)
