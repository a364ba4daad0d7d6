"""C3, C4, F8: what is undone after the outcome, and the handler of a failed run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.graphs import key, value
from tests.support.saga import calling, each, last, nodes, orders, reading, saga, undoing, undos
from tests.support.world import Script, World, text_of

from tenuto.machine.actions import (
    CreateTask,
    PostMessage,
    SettleRun,
    StartChild,
    TerminateChildren,
)
from tenuto.machine.events import (
    CancelRequested,
    Drained,
    Rejection,
    RunStarted,
    TerminateRequested,
    TimerKind,
)
from tenuto.machine.snapshot import Done
from tenuto.model.definition import Call, Emit, Handler, NodeType
from tenuto.model.expressions import Fault, Read, Root
from tenuto.model.ids import RUN_PLACE, Place, RunId, undo_place
from tenuto.model.payload import ItemsView, JoinView, PayloadKey, PayloadKind
from tenuto.model.retry import LOST_MAX, Jitter, RetryPolicy
from tenuto.model.states import RunState, TaskState

ERROR = Read(Root.ERROR)
ITERATION = Read(Root.ITERATION)


def failed(world: World, *done: str) -> World:
    """These nodes succeed, then `z` fails, and the run is drained."""
    world.start()
    for id in done:
        world.succeed(id)
    world.fail("z")
    world.drained()
    return world


# -- C3: what is undone, and in what order ------------------------------------------------------------------------


@pytest.mark.rule("C3.1", "C4.5")
def test_C3_finished_work_is_undone_one_after_another_in_reverse_of_the_ends() -> None:
    world = failed(World(saga("a; b; c; z", undo="abc")), "b", "c", "a")
    assert undos(world) == ["a!undo"]

    world.succeed("a!undo")
    assert undos(world) == ["a!undo", "c!undo"]
    assert world.state is RunState.CLOSING

    world.succeed("c!undo")
    world.succeed("b!undo")

    assert undos(world) == ["a!undo", "c!undo", "b!undo"]
    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "complete")


@pytest.mark.rule("C3.1")
def test_C3_ends_of_one_decision_are_undone_in_their_reverse_too() -> None:
    text = "a -> p; a -> q; a -> z"
    off = {"p": calling("p", wait=False), "q": calling("q", wait=False)}
    graph = saga(text, undo="apq", types={"p": "call", "q": "call"}, details=off)
    world = World(graph)
    world.family.workflows["other"] = saga("x")
    failed(world, "a")
    for place in ("q!undo", "p!undo", "a!undo"):
        assert undos(world)[-1] == place
        world.succeed(place)

    assert world.state is RunState.FAILED


@pytest.mark.rule("C3.1")
@pytest.mark.parametrize("how", ["failure", "timeout", "cancel"])
def test_C3_it_is_undone_after_failure_timeout_and_cancel(how: str) -> None:
    world = World(saga("a; z", undo="a", timeout_us=10)).start()
    world.succeed("a")
    if how == "failure":
        world.fail("z")
    elif how == "timeout":
        world.fire("", TimerKind.RUN)
    else:
        world.cancel()
    world.drained()
    world.succeed("a!undo")

    expected = {"failure": "failed", "timeout": "timed_out", "cancel": "cancelled"}
    assert (world.state, world.snapshot.compensation) == (RunState(expected[how]), "complete")


@pytest.mark.rule("C3.1")
def test_C3_a_run_that_succeeds_undoes_nothing() -> None:
    world = World(saga("a", undo="a", on_failure=last())).start()
    world.succeed("a")

    assert (world.state, world.snapshot.compensation, undos(world)) == ("success", "none", [])


@pytest.mark.rule("C3.1")
def test_C3_work_that_did_not_succeed_is_not_undone() -> None:
    world = World(saga("a -failure-> f; b; c -> z", undo="abcfz")).start()
    world.fail("a")
    world.grant("b")
    world.succeed("f")
    world.succeed("c")
    world.fail("z")
    world.lapse("b")
    world.drained()
    world.succeed("c!undo")
    world.succeed("f!undo")

    assert world.state is RunState.FAILED
    assert undos(world) == ["c!undo", "f!undo"]


@pytest.mark.rule("C3.1", "C3.2")
def test_C3_one_for_each_pass_of_a_loop() -> None:
    graph = saga("h -> s; s -> h when 'again' loop 3; s -> z else", undo="h", types={"s": "switch"})
    world = World(graph, {"again": [True, True, False]}).start()
    for _ in range(3):
        world.succeed("h")
    world.fail("z")
    world.drained()
    for place in ("h.3!undo", "h.2!undo", "h.1!undo"):
        world.succeed(place)

    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "complete")


@pytest.mark.rule("C3.1")
@pytest.mark.parametrize("started", ["", "a"])
def test_C3_T6_work_whose_edges_made_it_dead_counts_as_done(started: str) -> None:
    fault = Fault("expression_error", "no")
    world = World(saga("a -> b when 'x'", undo="a", started=started), {"x": fault}).start()
    world.succeed("a")
    assert (world.letters, world.state) == ("xc", RunState.CLOSING)
    assert world.snapshot.done == (Done(Place("a"), world.snapshot.seq),)
    world.drained()

    assert undos(world) == ["a!undo"]


@pytest.mark.rule("L2.3", "C3.1")
def test_C3_L2_work_that_used_up_the_loop_counts_as_done() -> None:
    text = "h -> s; s -> h loop 2; s -failure-> x"
    world = World(saga(text, undo="s")).start()
    for id in "hshs":
        world.succeed(id)
    world.fail("x")
    assert json.loads(world.error("s"))["code"] == "loop_exhausted"
    world.drained()
    world.succeed("s.2!undo")
    world.succeed("s.1!undo")

    assert world.state is RunState.FAILED


@pytest.mark.rule("F8.1", "C3.1")
def test_C3_F8_a_late_success_counts_at_the_number_of_its_event() -> None:
    world = World(saga("a; b; z", undo="ab")).start()
    late = world.grant("a")
    world.grant("b")
    world.cancel()
    world.succeed("b")
    world.accept(world.success_of(late, '"late"'))
    assert [done.place for done in world.snapshot.done if done.sure] == ["b", "a"]
    assert world.snapshot.done[-1] == Done(Place("a"), world.snapshot.seq)
    world.drained()
    world.succeed("a!undo")
    world.succeed("b!undo")

    assert (world.state, world.letters) == (RunState.CANCELLED, "ccc")


@pytest.mark.rule("F8.1")
def test_F8_a_late_success_is_stored_and_counts_whatever_the_run_s_state() -> None:
    world = World(saga("a; b", undo="a")).start()
    late = world.grant("a")
    world.terminate()
    world.accept(world.success_of(late, "7"))

    assert world.payload("a", PayloadKind.OUTPUT) == "7"
    assert world.snapshot.done == (Done(Place("a"), world.snapshot.seq),)
    assert (world.state, world.letters) == (RunState.CANCELLED, "cc")


@pytest.mark.rule("F8.2")
def test_F8_a_late_success_of_an_item_or_a_handler_is_no_node_s_work() -> None:
    graph = saga("e; z", undo="e", types={"e": "foreach"}, details={"e": each("e")})
    world = World(graph).start()
    late = world.grant("e[0]")
    world.cancel()
    assert world.state is RunState.CANCELLED
    world.accept(world.success_of(late))

    assert world.snapshot.done == ()


@pytest.mark.rule("F8.2")
def test_F8_a_cancelled_foreach_is_covered_by_started_only() -> None:
    graph = saga("e; z", started="e", types={"e": "foreach"}, details={"e": each("e")})
    world = World(graph).start()
    late = world.grant("e[0]")
    world.cancel()
    world.accept(world.success_of(late))
    world.drained()

    assert undos(world) == ["e!undo"]


def test_F8_the_child_of_a_cancelled_call_that_succeeds_is_undone() -> None:
    world = World(saga("a; z", undo="a", types={"a": "call"}, details={"a": calling("a")}))
    world.family.workflows["other"] = saga("x")
    world.start()
    world.fail("z")
    assert TimerKind.DRAIN not in {kind for _, kind in world.ledger.timers}
    world.settle_child("a", output="3")
    world.drained()

    assert undos(world) == ["a!undo"]


# -- C3: `when: started` ------------------------------------------------------------------------------------------


@pytest.mark.rule("C3.3")
def test_C3_started_covers_dead_work() -> None:
    world = World(saga("a", started="a")).start()
    world.fail("a")
    world.drained()

    assert undos(world) == ["a!undo"]


@pytest.mark.rule("C3.3")
def test_C3_started_covers_what_lost_a_race() -> None:
    text = "s -> a; s -> b; a -> j; b -> j; j -> z"
    world = World(saga(text, started="b", join={"j": 1}, cancel_losers="j")).start()
    world.succeed("s")
    world.grant("b")
    world.succeed("a")
    world.succeed("j")
    world.lapse("b")
    world.fail("z")
    world.drained()

    assert undos(world) == ["b!undo"]


@pytest.mark.rule("C3.3")
def test_C3_started_covers_what_was_cancelled_with_an_attempt_handed_out() -> None:
    world = World(saga("a; b; z", started="ab")).start()
    world.grant("a")
    world.fail("z")
    world.lapse("a")
    world.drained()
    world.succeed("a!undo")

    assert undos(world) == ["a!undo"]
    assert world.state is RunState.FAILED


@pytest.mark.rule("C3.3")
def test_C3_started_does_not_cover_work_of_which_no_attempt_was_made() -> None:
    world = World(saga("a; z", started="a"), {}).start()
    world.fail("z")
    assert world.state is RunState.CLOSING
    world.drained()

    assert (world.state, world.snapshot.compensation, undos(world)) == ("failed", "none", [])


def test_C3_started_does_not_cover_work_whose_input_failed() -> None:
    fault = Fault("expression_error", "no")
    details = {"a": replace(each("a").body, input=reading("in", "nodes.a.params"))}
    world = World(saga("a", started="a", details=details), {"in": fault}).start()
    assert world.letters == "x"
    world.drained()

    assert (world.state, undos(world)) == (RunState.FAILED, [])


@pytest.mark.rule("C3.4")
def test_C3_a_foreach_was_handed_out_with_its_first_item_and_counts_as_one() -> None:
    graph = saga(
        "e; f; z",
        started="ef",
        types=dict.fromkeys("ef", "foreach"),
        details={"e": each("e"), "f": each("f")},
    )
    world = World(graph).start()
    world.succeed("e[1]")
    world.grant("e[0]")
    world.fail("z")
    world.lapse("e[0]")
    world.drained()
    world.succeed("e!undo")

    assert (world.state, undos(world)) == (RunState.FAILED, ["e!undo"])


@pytest.mark.rule("C3.4")
def test_C3_a_foreach_that_succeeded_counts_as_one() -> None:
    graph = saga("e; z", undo="e", types={"e": "foreach"}, details={"e": each("e")})
    world = World(graph).start()
    for index in range(3):
        world.succeed(f"e[{index}]")
    world.fail("z")
    world.drained()
    world.succeed("e!undo")

    assert (world.state, undos(world)) == (RunState.FAILED, ["e!undo"])


@pytest.mark.rule("C3.4")
def test_C3_a_call_was_handed_out_with_its_child() -> None:
    world = World(saga("a; z", started="a", types={"a": "call"}, details={"a": calling("a")}))
    world.family.workflows["other"] = saga("x")
    world.start()
    world.fail("z")
    world.settle_child("a", RunState.CANCELLED)
    world.drained()

    assert undos(world) == ["a!undo"]


# -- C3: what a handler sees --------------------------------------------------------------------------------------


@pytest.mark.rule("C3.6")
def test_C3_a_compensation_reads_itself_and_its_loop_mates_in_the_pass_it_undoes() -> None:
    text = "o -> h; h -> m; m -> s; s -> h when 'again' loop 3; s -> z else"
    reads = (nodes("h"), nodes("m"), nodes("o"), nodes("z", "status"), ITERATION, ERROR)
    graph = saga(text, undo={"h": undoing("h", *reads)}, types={"s": "switch"})
    world = World(graph, {"again": [True, False], "undo-h": "{}"}).start()
    world.succeed("o")
    for number in "12":
        world.succeed("h", f'"h{number}"')
        world.succeed("m", f'"m{number}"')
    world.fail("z")
    world.drained()
    scope = world.last_asked("nodes.h.compensate").scope
    seen = {view.id: view for view in scope.nodes}
    assert (scope.iteration, scope.error) == (2, PayloadKey(Place("z"), PayloadKind.ERROR))
    assert {id: view.output for id, view in seen.items() if id in "hmo"} == {
        "h": PayloadKey(Place("h.2"), PayloadKind.OUTPUT),
        "m": PayloadKey(Place("m.2"), PayloadKind.OUTPUT),
        "o": PayloadKey(Place("o"), PayloadKind.OUTPUT),
    }
    assert (seen["z"].status, seen["h"].maybe, seen["m"].maybe) == ("dead", False, False)

    world.succeed("h.2!undo")
    scope = world.last_asked("nodes.h.compensate").scope
    seen = {view.id: view for view in scope.nodes}
    assert scope.iteration == 1
    assert {id: view.output for id, view in seen.items() if id in "hmo"} == {
        "h": PayloadKey(Place("h.1"), PayloadKind.OUTPUT),
        "m": PayloadKey(Place("m.1"), PayloadKind.OUTPUT),
        "o": PayloadKey(Place("o"), PayloadKind.OUTPUT),
    }
    assert (seen["h"].maybe, seen["m"].maybe, seen["o"].maybe) == (True, True, False)


def test_C3_the_iterations_of_outer_loops_are_those_of_the_pass_too() -> None:
    text = (
        "o -> i; i -> s; s -> i when 'inner' loop 2; s -> t else;"
        "t -> o when 'outer' loop 2; t -> z else"
    )
    reads = (nodes("o", "iteration"), nodes("i", "iteration"), ITERATION, nodes("t", "status"))
    graph = saga(text, undo={"i": undoing("i", *reads)}, types={"s": "switch", "t": "switch"})
    script: Script = {"inner": [True, False, False], "outer": [True, False], "undo-i": "{}"}
    world = World(graph, script).start()
    for id in "oiioi":
        world.succeed(id)
    world.fail("z")
    world.drained()
    found = []
    for place in ("i.2.1", "i.1.2", "i.1.1"):
        scope = world.last_asked("nodes.i.compensate").scope
        seen = {view.id: view.iteration for view in scope.nodes}
        found.append((scope.iteration, seen["o"], seen["i"]))
        world.succeed(f"{place}!undo")

    assert found == [(1, 2, 1), (2, 1, 2), (1, 1, 1)]


def test_C3_what_an_inner_loop_did_in_a_pass_that_is_over_is_absent() -> None:
    text = "o -> i; i -> s; s -> i when 'inner' loop 2; s -> t else; t -> o when 'outer' loop 2; t -> z else"
    graph = saga(text, undo={"o": undoing("o", nodes("i"))}, types={"s": "switch", "t": "switch"})
    script: Script = {"inner": False, "outer": [True, False], "undo-o": "{}"}
    world = World(graph, script).start()
    for id in "oioi":
        world.succeed(id)
    world.fail("z")
    world.drained()
    assert [v.id for v in world.last_asked("nodes.o.compensate").scope.nodes] == ["i"]
    world.succeed("o.2!undo")

    assert world.last_asked("nodes.o.compensate").scope.nodes == ()


def test_C3_a_foreach_reads_its_own_items_of_the_pass_it_undoes() -> None:
    text = "e -> s; s -> e when 'again' loop 2; s -> z else"
    types = {"e": "foreach", "s": "switch"}
    graph = saga(
        text,
        undo={"e": undoing("e", nodes("e"), nodes("e", "items"))},
        types=types,
        details={"e": each("e", "list")},
    )
    script: Script = {"again": [True, False], "list": ["[1,2]", "[3]"], "undo-e": "{}"}
    world = World(graph, script).start()
    for place in ("e.1[0]", "e.1[1]", "e.2[0]"):
        world.succeed(place)
    world.fail("z")
    world.drained()
    found = []
    for place in ("e.2!undo", "e.1!undo"):
        (seen,) = world.last_asked("nodes.e.compensate").scope.nodes
        assert seen.items == seen.output
        found.append(seen.output)
        world.succeed(place)

    assert found == [ItemsView(Place("e.2"), 1), ItemsView(Place("e.1"), 2)]


def test_C3_a_foreach_that_died_lists_its_items_and_has_no_output() -> None:
    undo = {"e": undoing("e", nodes("e", "items"), started=True)}
    graph = saga("e", undo=undo, types={"e": "foreach"}, details={"e": each("e")})
    world = World(graph, {"undo-e": "{}"}).start()
    world.fail("e[0]")
    for place in list(world.leases):
        world.lapse(place)
    world.drained()
    (seen,) = world.last_asked("nodes.e.compensate").scope.nodes

    assert (seen.status, seen.has_output) == ("dead", False)
    assert seen.items == ItemsView(Place("e"), 3)


@pytest.mark.rule("W4.1")
def test_C3_X4_the_callback_key_of_a_loop_mate_is_that_of_the_pass() -> None:
    text = "h -> w; w -> s; s -> h when 'again' loop 2; s -> z else"
    undo = {"h": undoing("h", nodes("w", "callback_key"))}
    graph = saga(text, undo=undo, types={"w": "wait_for_event", "s": "switch"})
    script: Script = {"again": [True, False], "undo-h": "{}"}
    world = World(graph, script).start()
    for _ in range(2):
        world.succeed("h")
        world.post("w")
    world.fail("z")
    world.drained()
    found = []
    for place in ("h.2!undo", "h.1!undo"):
        (seen,) = world.last_asked("nodes.h.compensate").scope.nodes
        found.append(seen.callback_key)
        world.succeed(place)

    assert found == [f"{world.run_id}/w.2", f"{world.run_id}/w.1"]


def test_C3_a_join_of_a_pass_that_is_over_is_absent() -> None:
    text = "h -> j; j -> s; s -> h when 'again' loop 2; s -> z else"
    graph = saga(text, undo={"h": undoing("h", nodes("j"))}, types={"j": "join", "s": "switch"})
    world = World(graph, {"again": [True, False], "undo-h": "{}"}).start()
    for id in "hh":
        world.succeed(id)
    world.fail("z")
    world.drained()
    (seen,) = world.last_asked("nodes.h.compensate").scope.nodes
    assert isinstance(seen.output, JoinView)
    world.succeed("h.2!undo")
    (seen,) = world.last_asked("nodes.h.compensate").scope.nodes

    assert (seen.output, seen.has_output) == (None, False)


def test_C3_F8_a_compensation_reads_the_late_output_of_its_own_node() -> None:
    graph = saga("a", undo={"a": undoing("a", nodes("a"), nodes("a", "status"))})
    world = World(graph, {"undo-a": "{}"}).start()
    late = world.grant("a")
    world.cancel()
    world.accept(world.success_of(late, "7"))
    world.drained()
    (seen,) = world.last_asked("nodes.a.compensate").scope.nodes

    assert (seen.status, seen.output) == ("cancelled", PayloadKey(Place("a"), PayloadKind.OUTPUT))
    assert seen.has_output


@pytest.mark.rule("C3.6")
def test_C3_the_error_of_a_cancelled_run_says_so() -> None:
    graph = saga("a; z", undo={"a": undoing("a", ERROR)})
    world = World(graph, {"undo-a": "{}"}).start()
    world.succeed("a")
    world.cancel("enough")
    world.drained()

    assert world.last_asked("nodes.a.compensate").scope.error == PayloadKey(
        RUN_PLACE, PayloadKind.ERROR
    )


# -- C3: a handler is work like any other -------------------------------------------------------------------------


@pytest.mark.rule("C3.7")
def test_C3_a_handler_has_its_own_retry() -> None:
    policy = RetryPolicy(max_attempts=2, initial_us=5, jitter=Jitter.NONE)
    world = World(saga("a; z", undo={"a": undoing("a", retry=policy)}))
    failed(world, "a")
    world.fail("a!undo")
    assert world.task("a!undo").state is TaskState.RETRY
    world.fire("a!undo", TimerKind.BACKOFF)
    world.succeed("a!undo")

    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "complete")


@pytest.mark.rule("C3.7", "C4.5")
def test_C3_a_dead_handler_is_recorded_and_the_next_one_goes_on() -> None:
    world = failed(World(saga("a; b; z", undo="ab")), "a", "b")
    world.fail("b!undo", "gone")
    assert json.loads(world.error("b!undo"))["code"] == "gone"
    world.succeed("a!undo")

    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "partial")
    assert [done.place for done in world.snapshot.done] == ["b"]


def test_C3_X5_a_handler_whose_input_fails_is_dead_and_the_next_one_goes_on() -> None:
    fault = Fault("expression_error", "no such key")
    graph = saga("a; b; z", undo={"a": undoing("a"), "b": undoing("b", ERROR)})
    world = failed(World(graph, {"undo-b": fault}), "a", "b")
    error = json.loads(world.error("b!undo"))
    assert (error["code"], error["node"]) == ("expression_error", "b")
    assert world.task("b!undo").state is TaskState.DEAD
    world.succeed("a!undo")

    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "partial")


def test_C3_the_worker_of_a_handler_may_be_lost() -> None:
    world = failed(World(saga("a; z", undo="a")), "a")
    world.grant("a!undo")
    world.lose("a!undo")
    world.succeed("a!undo")

    assert world.state is RunState.FAILED


def test_C3_a_handler_that_loses_its_workers_is_dead() -> None:
    world = failed(World(saga("a; z", undo="a")), "a")
    for _ in range(LOST_MAX):
        world.lose("a!undo")

    assert json.loads(world.error("a!undo"))["code"] == "lease_lost"
    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "partial")


def test_C3_a_handler_that_is_an_inline_graph_works_on_the_run_s_item() -> None:
    handler = Handler(NodeType.CALL, Call(None, 0, value("{}")))
    graph = saga("a; z", undo={"a": handler})
    graph = replace(graph, inlines=(saga("i"),))
    world = World(graph)
    world.payloads[PayloadKey(RUN_PLACE, PayloadKind.ITEM), 0] = text_of("7")
    world.accept(RunStarted(at=world.now, parent=(RunId("p"), Place("each[3]")), index=3, depth=1))
    world.succeed("a")
    world.fail("z")
    world.drained()
    (order,) = [action for action in orders(world) if isinstance(action, StartChild)]

    assert (order.index, order.item) == (3, PayloadKey(RUN_PLACE, PayloadKind.ITEM))


def test_C3_T7_an_end_that_is_put_off_counts_when_it_comes() -> None:
    graph = saga(
        "c -> c when 'again' loop 300; c -failure-> x",
        undo="c",
        types={"c": "call"},
        details={"c": calling("c", wait=False)},
    )
    world = World(graph, {"again": [True] * 110 + [False]})
    world.family.workflows["other"] = saga("x")
    world.start()
    assert "c.101" not in {done.place for done in world.snapshot.done}
    world.go_on()

    (found,) = [done for done in world.snapshot.done if done.place == "c.101"]
    assert found.seq == 2


def test_C3_a_node_that_was_skipped_by_hand_did_no_work() -> None:
    world = World(saga("a; z", undo="a")).start()
    world.grant("a")
    world.skip("a")
    world.fail("z")
    world.lapse("a")
    world.drained()

    assert (world.state, undos(world)) == (RunState.FAILED, [])


@pytest.mark.rule("C3.2")
def test_C3_R3_the_list_is_kept_over_epochs_and_each_undo_reads_its_own() -> None:
    graph = saga("z -always-> a; a -> y", undo={"a": undoing("a", nodes("a"))})
    world = World(graph, {"undo-a": "{}"}).start()
    world.fail("z")
    world.succeed("a")
    world.fail("y")
    world.terminate()
    assert world.snapshot.compensation == "none"
    world.retry()
    world.succeed("z")
    world.succeed("a~2")
    world.fail("y")
    world.drained()
    found = []
    for place in ("a~2", "a"):
        (seen,) = world.last_asked("nodes.a.compensate").scope.nodes
        found.append(seen.output)
        world.succeed(undo_place(Place(place)))

    assert found == [PayloadKey(Place(p), PayloadKind.OUTPUT) for p in ("a~2", "a")]
    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "complete")


def test_C3_a_handler_may_be_a_call() -> None:
    handler = Handler(NodeType.CALL, calling("a"))
    world = World(saga("a; z", undo={"a": handler}))
    world.family.workflows["other"] = saga("x")
    failed(world, "a")
    assert (world.state, world.snapshot.children) == (RunState.CLOSING, 1)
    world.settle_child("a!undo")

    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "complete")


def test_C3_a_handler_that_sends_an_event_or_a_child_off_ends_at_once() -> None:
    tell = Emit("undone", key('"k"'), value("1"))
    handlers = {
        "a": Handler(NodeType.EMIT, tell),
        "b": Handler(NodeType.CALL, calling("b", wait=False)),
    }
    world = World(saga("a; b; z", undo=handlers))
    world.family.workflows["other"] = saga("x")
    failed(world, "a", "b")
    kinds = [type(action) for action in orders(world)]

    assert kinds.index(StartChild) < kinds.index(PostMessage) < kinds.index(SettleRun)
    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "complete")


def test_C3_R3_handlers_of_one_node_in_two_epochs_send_two_events() -> None:
    tell = Emit("undone", key('"k"'), value("1"))
    world = World(saga("z -always-> a; a -> y", undo={"a": Handler(NodeType.EMIT, tell)})).start()
    world.fail("z")
    world.succeed("a")
    world.fail("y")
    world.terminate()
    world.retry()
    world.succeed("z")
    world.succeed("a~2")
    world.fail("y")
    world.drained()
    posts = [action.event_id for action in orders(world) if isinstance(action, PostMessage)]

    assert posts == [f"{world.run_id}/a!undo~2", f"{world.run_id}/a!undo"]


def test_C3_a_handler_that_cannot_send_its_event_is_dead() -> None:
    tell = Emit("undone", key("who", "nodes.a.compensate.key"), value("1"))
    graph = saga("a; z", undo={"a": Handler(NodeType.EMIT, tell)})
    world = failed(World(graph, {"who": Fault("expression_error", "no")}), "a")

    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "partial")
    assert json.loads(world.error("a!undo"))["code"] == "expression_error"


@pytest.mark.rule("C3.2")
def test_C3_nothing_leaves_the_list_but_by_being_undone() -> None:
    world = failed(World(saga("a; b; z", undo="ab")), "a", "b")
    assert [done.place for done in world.snapshot.done][:2] == ["a", "b"]
    world.succeed("b!undo")
    assert "b" not in [done.place for done in world.snapshot.done]
    world.fail("a!undo")

    assert "a" in [done.place for done in world.snapshot.done]


# -- C4: on_failure -----------------------------------------------------------------------------------------------


@pytest.mark.rule("C4.1")
def test_C4_on_failure_comes_after_the_compensations() -> None:
    world = failed(World(saga("a; z", undo="a", on_failure=last())), "a")
    assert undos(world) == ["a!undo"]
    world.succeed("a!undo")
    assert undos(world) == ["a!undo", "!on_failure"]
    assert world.task("!on_failure").node == -1
    world.succeed("!on_failure")

    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "complete")


@pytest.mark.rule("C4.1")
@pytest.mark.parametrize("how", ["failed", "timed_out", "cancelled"])
def test_C4_on_failure_runs_when_the_run_failed_or_timed_out_only(how: str) -> None:
    world = World(saga("z", on_failure=last(), timeout_us=9)).start()
    if how == "failed":
        world.fail("z")
    elif how == "timed_out":
        world.fire("", TimerKind.RUN)
    else:
        world.cancel()
        assert (world.state, undos(world)) == (RunState.CANCELLED, [])
        return
    world.drained()
    world.succeed("!on_failure")

    assert (world.state, world.snapshot.compensation) == (RunState(how), "none")


def test_C4_on_failure_runs_again_in_another_epoch() -> None:
    world = failed(World(saga("z", on_failure=last())))
    world.succeed("!on_failure")
    world.retry()
    world.fail("z")
    world.drained()
    world.succeed("!on_failure~2")

    assert (world.state, undos(world)) == (RunState.FAILED, ["!on_failure", "!on_failure~2"])


@pytest.mark.rule("C4.1")
def test_C4_on_failure_has_the_error_and_every_node_in_scope() -> None:
    graph = saga("a; z", on_failure=last(ERROR, nodes("a"), nodes("z", "error")))
    world = failed(World(graph, {"last": "{}"}), "a")
    scope = world.last_asked("on_failure").scope
    seen = {view.id: view for view in scope.nodes}

    assert scope.error == PayloadKey(Place("z"), PayloadKind.ERROR)
    assert seen["a"].output == PayloadKey(Place("a"), PayloadKind.OUTPUT)
    assert seen["z"].error == scope.error


@pytest.mark.rule("C4.2")
def test_C4_on_failure_never_changes_the_outcome() -> None:
    world = failed(World(saga("z", on_failure=last())))
    before = world.snapshot.closing
    world.fail("!on_failure")

    assert before is not None
    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "none")
    assert world.settled is not None
    assert world.settled.error == PayloadKey(Place("z"), PayloadKind.ERROR)


@pytest.mark.rule("C1.1")
def test_C4_an_error_in_the_run_s_output_is_followed_by_handlers() -> None:
    fault = Fault("expression_error", "no")
    graph = saga("a", undo="a", on_failure=last(), output=reading("out", "output"))
    world = World(graph, {"out": fault}).start()
    world.succeed("a")
    assert world.state is RunState.CLOSING
    world.drained()
    world.succeed("a!undo")
    world.succeed("!on_failure")

    assert world.state.value == "failed"


# -- C4: closing_timeout ------------------------------------------------------------------------------------------


@pytest.mark.rule("C4.3")
def test_C4_closing_timeout_counts_from_drained() -> None:
    world = World(saga("a; b; z", undo="a", closing_timeout_us=50)).start()
    world.succeed("a")
    world.grant("b")
    world.fail("z")
    assert (RUN_PLACE, TimerKind.CLOSING) not in world.ledger.timers
    world.now += 1_000
    world.lapse("b")
    world.drained()

    assert world.timer("", TimerKind.CLOSING).due_at == world.now + 50


@pytest.mark.rule("C4.4")
def test_C4_when_closing_timeout_passes_handlers_are_terminated_and_the_run_is_final() -> None:
    world = failed(World(saga("a; b; z", undo="ab", closing_timeout_us=50)), "a", "b")
    world.succeed("b!undo")
    lease = world.grant("a!undo")
    world.fire("", TimerKind.CLOSING)

    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "partial")
    assert world.task("a!undo").state is TaskState.CANCELLED
    assert [done.place for done in world.snapshot.done][:1] == ["a"]
    world.accept(world.success_of(lease))
    assert [done.place for done in world.snapshot.done][:1] == ["a"]


@pytest.mark.rule("C4.4")
def test_C4_when_closing_timeout_passes_children_are_terminated() -> None:
    handler = Handler(NodeType.CALL, calling("a"))
    world = World(saga("a; z", undo={"a": handler}, closing_timeout_us=50))
    world.family.workflows["other"] = saga("x")
    failed(world, "a")
    world.fire("", TimerKind.CLOSING)

    assert TerminateChildren() in orders(world)
    assert (world.state, world.snapshot.children) == (RunState.FAILED, 1)
    world.settle_child("a!undo", RunState.CANCELLED)
    assert world.snapshot.children == 0


def test_C4_closing_timeout_does_not_outlive_the_run() -> None:
    world = failed(World(saga("a; z", undo="a", closing_timeout_us=50)), "a")
    world.succeed("a!undo")

    assert not world.ledger.timers


# -- C4: compensation, cancel, terminate --------------------------------------------------------------------------


@pytest.mark.rule("C4.5")
def test_C4_compensation_is_none_when_no_undo_was_started() -> None:
    world = World(saga("a; z", undo="a")).start()
    world.succeed("a")
    world.fail("z")
    world.terminate()

    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "none")
    assert world.settled is not None
    assert world.settled.compensation == "none"


@pytest.mark.rule("C4.5")
def test_C4_compensation_is_partial_when_an_undo_was_under_way() -> None:
    world = failed(World(saga("a; z", undo="a")), "a")
    world.terminate()

    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "partial")


@pytest.mark.rule("C4.5")
def test_C4_compensation_is_partial_when_due_ones_are_left() -> None:
    world = failed(World(saga("a; b; z", undo="ab")), "a", "b")
    world.succeed("b!undo")
    world.terminate()

    assert world.snapshot.compensation == "partial"


@pytest.mark.rule("C4.6")
def test_C4_another_cancel_is_rejected_while_closing() -> None:
    world = World(saga("a; z", undo="a")).start()
    world.succeed("a")
    world.cancel()
    assert world.send(CancelRequested(at=world.now)).rejected is Rejection.CLOSING
    world.drained()
    assert world.send(CancelRequested(at=world.now)).rejected is Rejection.CLOSING


@pytest.mark.rule("C4.6")
def test_C4_pause_and_resume_are_allowed_while_closing() -> None:
    world = World(saga("a; b; z", undo="ab")).start()
    world.succeed("a")
    world.succeed("b")
    world.fail("z")
    world.pause()
    world.drained()
    assert (world.task("b!undo").held, world.ready) == (True, set())
    world.resume()
    world.succeed("b!undo")
    world.pause()
    assert world.task("a!undo").held
    world.resume()
    world.succeed("a!undo")

    assert (world.state, world.snapshot.compensation) == (RunState.FAILED, "complete")


@pytest.mark.rule("C4.7")
def test_C4_terminate_makes_a_closing_run_final_without_drain_and_handlers() -> None:
    world = World(saga("a; b; z", undo="a", on_failure=last())).start()
    world.succeed("a")
    world.grant("b")
    world.fail("z")
    world.terminate()

    assert (world.state, undos(world)) == (RunState.FAILED, [])
    assert world.send(TerminateRequested(at=world.now)).rejected is Rejection.RUN_FINAL


@pytest.mark.rule("C2.5", "C7.1")
def test_C2_C7_only_the_drain_that_was_asked_for_counts_and_once() -> None:
    world = World(saga("a; z", undo="a")).start()
    early = Drained(at=world.now, version=1, started=())
    assert world.send(early).rejected is Rejection.STALE
    world.succeed("a")
    world.fail("z")
    version = world.timer("", TimerKind.DRAIN).version
    assert world.send(replace(early, version=version - 1)).rejected is Rejection.STALE
    world.accept(replace(early, version=version))

    assert any(isinstance(action, CreateTask) for action in orders(world))
    assert world.send(replace(early, version=version)).rejected is Rejection.STALE
