"""C3, C5, F6, W1, W6: what a run and the runs that it calls are to each other, and what each tells."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.graphs import condition, definition, graph, index_of, key, value
from tests.support.saga import calling, orders, saga, undos
from tests.support.world import RUN, World

from tenuto.machine.actions import PostMessage
from tenuto.model.definition import Call, Emit
from tenuto.model.graph import Graph
from tenuto.model.states import RunState


@pytest.mark.rule("F6.4")
@pytest.mark.parametrize("how", ["pause", "cancel", "terminate", "fail"])
def test_F6_a_child_that_is_not_waited_for_has_no_parent(how: str) -> None:
    """Whatever happens to the run that started it."""
    details = {"a": calling("a", wait=False)}
    world = World(saga("a; b", undo="a", types={"a": "call"}, details=details))
    world.family.workflows["other"] = saga("x -> y", undo="x")
    world.start()
    [order] = world.started
    world.tell()
    child = world.family.worlds[order.child]
    child.succeed("x")
    if how == "pause":
        world.pause()
    elif how == "cancel":
        world.cancel()
    elif how == "terminate":
        world.terminate()
    else:
        world.fail("b")
    world.tell()
    assert (child.state, child.letters, child.is_held) == (RunState.RUNNING, "sa", False)

    child.succeed("y")
    world.tell()

    assert child.state is RunState.SUCCESS
    assert not world.notices


@pytest.mark.rule("C3.5")
def test_C3_what_was_done_in_a_child_that_succeeded_is_its_parent_s_to_undo() -> None:
    types = {"a": "call"}
    world = World(saga("a -> z", undo="a", types=types, details={"a": calling("a")}))
    world.family.workflows["other"] = saga("x", undo="x")
    world.start()
    child = world.child("a")
    child.succeed("x")
    world.tell()
    world.fail("z")
    world.drained()
    world.tell()

    assert (child.state, undos(child), child.snapshot.compensation) == ("success", [], "none")
    assert undos(world) == ["a!undo"]


def scope(edges: str, **what: object) -> Graph:
    """A call `c` of an inline graph in which `x` and `y` work side by side."""
    call = Call(None, 0, value("{}"))
    made = definition(edges, types={"c": "call"}, details={"c": call}, **what)  # type: ignore[arg-type]
    inner = replace(definition("x; y"), inline=True)
    return replace(index_of(replace(made, inlines=(inner,))), inlines=(index_of(inner),))


@pytest.mark.rule("W1.2")
def test_W1_a_failure_inside_cancels_what_is_active_there_and_is_the_node_s() -> None:
    world = World(scope("c -> a; c -failure-> f; b")).start()
    child = world.child("c")
    child.grant("y")
    child.fail("x")
    world.tell()

    assert (child.letters, child.state) == ("xc", RunState.FAILED)
    assert child.task("y").state == "cancelled"
    assert (world.letters, world.state) == ("xkaa", RunState.RUNNING)
    error = json.loads(world.error("c"))
    assert (error["code"], error["details"]["cause"]["code"]) == ("child_failed", "boom")


@pytest.mark.rule("W1.2")
def test_W1_a_scope_that_is_optional_tolerates_a_failure_inside() -> None:
    world = World(scope("c -> a", optional=["c"])).start()
    world.child("c").fail("x")
    world.tell()

    assert (world.letters, world.state) == ("xa", RunState.RUNNING)


@pytest.mark.rule("C5.2")
@pytest.mark.parametrize(
    ("last", "failures"), [("succeeds", ("b", "a")), ("fails", ("b", "a", "c"))]
)
def test_C5_the_error_of_a_run_is_that_of_the_first_unhandled_failure_and_the_others_are_listed(
    last: str, failures: tuple[str, ...]
) -> None:
    world = World(graph("a -always-> c; b -always-> c; c -> d")).start()
    world.fail("b", "first")
    world.fail("a", "second")
    if last == "fails":
        world.fail("c", "third")
    else:
        world.succeed("c")
        world.succeed("d")

    assert world.settled is not None
    assert world.settled.error is not None
    assert (world.state, world.settled.error.place) == (RunState.FAILED, "b")
    assert world.snapshot.failures == failures
    assert world.output() is None


@pytest.mark.rule("C5.1")
def test_C5_what_did_not_succeed_is_no_output() -> None:
    text = "a; b; s -> c when 'no'; s -> d else"
    world = World(graph(text, types={"s": "switch"}, optional=["b"]), {"no": False}).start()
    world.succeed("a", "1")
    world.fail("b")
    world.succeed("d", "2")

    assert (world.state, world.output()) == (RunState.SUCCESS, {"a": "1", "d": "2"})


@pytest.mark.rule("W6.4")
def test_W6_each_pass_emits_an_event_of_its_own() -> None:
    """Its id holds run, node and iterations; that a later epoch adds itself is seen in `test_handlers`."""
    made = graph(
        "e -> e when 'again' loop 3; e -failure-> z",
        types={"e": "emit"},
        details={"e": Emit("told", key('"k"'), value("1"))},
    )
    world = World(made, {condition("again").text: [True, False], '"k"': "k", "1": "1"}).start()

    posts = [action.event_id for action in orders(world) if isinstance(action, PostMessage)]
    assert posts == [f"{RUN}/e.1", f"{RUN}/e.2"]


@pytest.mark.rule("W6.4")
def test_W6_an_emit_of_a_later_epoch_is_another_event() -> None:
    made = graph(
        "a -always-> e; e -> b",
        types={"e": "emit"},
        details={"e": Emit("told", key('"k"'), value("1"))},
    )
    world = World(made, {'"k"': "k", "1": "1"}).start()
    world.fail("a")
    world.fail("b")
    world.retry()
    world.succeed("a")

    posts = [action.event_id for action in orders(world) if isinstance(action, PostMessage)]
    assert posts == [f"{RUN}/e~2"]
