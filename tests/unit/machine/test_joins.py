"""J: when a node with several in-edges acts."""

from __future__ import annotations

import json

import pytest
from tests.support.graphs import graph
from tests.support.world import World

from tenuto.machine.actions import CancelTask
from tenuto.machine.events import TimerKind
from tenuto.model.definition import NodeType
from tenuto.model.ids import Place
from tenuto.model.payload import PAYLOAD_MAX, PayloadKind
from tenuto.model.states import CancelReason, RunState


@pytest.mark.rule("T3.2", "J1.1")
def test_J1_join_all_acts_when_every_token_is_in() -> None:
    world = World(graph("r -> a; r -> b; a -> j; b -> j")).start()
    world.succeed("r")
    world.succeed("b")
    assert world.letter("j") == "."

    world.succeed("a")

    assert world.letter("j") == "a"


@pytest.mark.rule("T3.2", "J1.1")
@pytest.mark.parametrize("type", NodeType)
def test_J1_join_all_is_the_default_of_every_node_type(type: NodeType) -> None:
    world = World(graph("a -> n; b -> n", types={"n": type.value}), {"n": 1}).start()
    world.succeed("a")
    assert world.letter("n") == "."

    world.succeed("b")

    assert world.letter("n") != "."


@pytest.mark.rule("J1.2")
def test_J1_join_all_acts_with_one_taken_and_skips_with_none() -> None:
    text = "s -> a when 'x'; s -> b when 'y'; s -> c else; a -> j; b -> j"
    one = World(graph(text, types={"s": "switch"}), {"x": True}).start()
    none = World(graph(text, types={"s": "switch"}), {"x": False, "y": False}).start()
    one.succeed("a")
    none.succeed("c")

    assert (one.letter("j"), none.letter("j")) == ("a", "k")


@pytest.mark.rule("J1.4")
def test_J1_a_repaired_branch_reaches_its_merge() -> None:
    """`try -> merge`, `try -failure-> repair -> merge` runs merge."""
    world = World(graph("try -> merge; try -failure-> repair; repair -> merge")).start()
    world.fail("try")
    assert world.letter("merge") == "."

    world.succeed("repair")

    assert world.letter("merge") == "a"


@pytest.mark.rule("J1.2", "J1.4")
def test_J1_a_handled_failure_cuts_a_join_off() -> None:
    """`pay -> ship`, `reserve -> ship`, `pay -failure-> notify` does not ship."""
    world = World(graph("pay -> ship; reserve -> ship; pay -failure-> notify")).start()
    world.fail("pay")
    world.succeed("reserve")
    assert world.letter("ship") == "k"

    world.succeed("notify")

    assert world.state is RunState.SUCCESS


@pytest.mark.rule("J1.3")
def test_J1_the_cut_off_looks_through_a_diamond() -> None:
    """The failure is two steps up, and both ways down from it are dead."""
    text = "r -> a; r -> z; a -> b; a -> c; a -failure-> n; b -> d; c -> d; d -> j; z -> j"
    world = World(graph(text)).start()
    world.succeed("r")
    world.succeed("z")
    world.fail("a")

    assert (world.letter("d"), world.letter("j")) == ("k", "k")


@pytest.mark.rule("J1.2")
def test_J1_one_living_way_down_from_the_failure_is_enough() -> None:
    text = "r -> a; r -> z; a -> b; a -failure-> c; b -> j; c -> j; z -> j"
    world = World(graph(text)).start()
    world.succeed("r")
    world.succeed("z")
    world.fail("a")
    world.succeed("c")

    assert world.letter("j") == "a"


@pytest.mark.rule("J1.2")
def test_J1_a_tolerated_failure_cuts_nothing_off() -> None:
    world = World(graph("a -> j when 'x'; b -> j", optional=["a"]), {"x": False}).start()
    world.fail("a")
    world.succeed("b")

    assert (world.edges, world.letter("j")) == ("dt", "a")


@pytest.mark.rule("J1.3")
def test_J1_the_cut_off_does_not_look_through_a_count_join() -> None:
    """`m` may be skipped by whatever means: the failure ahead of it is not why `j` lacks its token."""
    text = "f -> a; f -> z; a -failure-> n; a -> m; n -> q when 'no'; m -> j when 'no'; z -> j"
    plain = World(graph(text), {"no": False}).start()
    counted = World(graph(text + "; n -> m", join={"m": 1}), {"no": False}).start()
    for world in (plain, counted):
        world.succeed("f")
        world.succeed("z")
        world.fail("a")
        world.succeed("n")
    counted.succeed("m")

    assert (plain.letter("j"), counted.letter("j")) == ("k", "a")


@pytest.mark.rule("J1.2")
def test_J1_a_failure_that_a_race_answers_for_cuts_nothing_off() -> None:
    text = "r -> f; r -> z; r -> y; f -> m; z -> m; m -> j; y -> j"
    world = World(graph(text, join={"j": 1})).start()
    world.succeed("r")
    world.fail("f")
    world.succeed("z")

    assert world.letter("m") == "a"


@pytest.mark.rule("J2.1", "J2.2")
def test_J2_join_any_acts_at_the_first_token_and_later_ones_have_no_effect() -> None:
    world = World(graph("r -> a; r -> b; a -> j; b -> j", join={"j": 1})).start()
    world.succeed("r")
    world.succeed("a")
    world.succeed("j")
    assert (world.letters, world.state) == ("ssas", RunState.RUNNING)

    world.succeed("b")

    assert (world.letters, world.state) == ("ssss", RunState.SUCCESS)


@pytest.mark.rule("J2.2")
def test_J2_join_k_acts_at_the_kth_taken_token() -> None:
    text = "r -> a; r -> b; r -> c; a -> j; b -> j; c -> j"
    world = World(graph(text, join={"j": 2})).start()
    world.succeed("r")
    world.succeed("a")
    assert world.letter("j") == "."

    world.succeed("c")

    assert world.letter("j") == "a"


@pytest.mark.rule("J2.3")
def test_J2_too_few_taken_is_dead_and_says_who_failed() -> None:
    text = "r -> a; r -> b; r -> c; a -> j; b -> j; c -> j; j -failure-> n"
    world = World(graph(text, join={"j": 2})).start()
    world.succeed("r")
    world.succeed("b")
    world.fail("c")
    world.fail("a")
    error = json.loads(world.error("j"))

    assert (world.letter("j"), error["code"]) == ("x", "join_unsatisfied")
    assert error["details"] == {"taken": 1, "needed": 2, "errors": ["a", "c"]}
    assert world.letter("n") == "a"


@pytest.mark.rule("J2.3")
def test_J2_none_taken_and_nothing_failed_is_skipped() -> None:
    text = "s -> a when 'x'; s -> b when 'x'; s -> c else; a -> j; b -> j"
    world = World(graph(text, types={"s": "switch"}, join={"j": 1}), {"x": False}).start()
    world.succeed("c")

    assert (world.letters, world.state) == ("skksk", RunState.SUCCESS)


@pytest.mark.rule("J2.3")
def test_J2_none_taken_because_all_failed_is_dead() -> None:
    world = World(graph("r -> a; r -> b; a -> j; b -> j", join={"j": 1})).start()
    world.succeed("r")
    world.fail("a")
    world.fail("b")

    assert (world.letter("j"), world.state) == ("x", RunState.FAILED)


@pytest.mark.rule("J2.4")
def test_J2_all_in_edges_as_count_is_the_strict_join() -> None:
    text = "r -> a; r -> b when 'x'; a -> j; b -> j"
    one, both = (World(graph(text, join={"j": 2}), {"x": both}).start() for both in (False, True))
    for world in (one, both):
        world.succeed("r")
        world.succeed("a")

    assert (one.letter("j"), one.state) == ("x", RunState.FAILED)
    assert both.letter("j") == "."
    both.succeed("b")
    assert both.letter("j") == "a"


@pytest.mark.rule("J3.2")
def test_J3_losers_are_cancelled_pending_ones_too_and_their_edges_are_dead() -> None:
    text = "r -> a; r -> b; b -> c; a -> j; c -> j"
    world = World(graph(text, join={"j": 1}, cancel_losers=["j"])).start()
    world.succeed("r")
    world.grant("b")
    world.succeed("a")

    assert world.letters == "sscca"
    assert world.edges == "ttdtd"
    assert CancelTask(Place("b"), CancelReason.RACE) in world.decision.actions
    assert world.task("b").state == "cancelled"
    assert "c" not in world.ledger.tasks


@pytest.mark.rule("J3.3")
def test_J3_without_cancel_losers_they_run_on_and_the_run_waits() -> None:
    world = World(graph("r -> a; r -> b; a -> j; b -> j", join={"j": 1})).start()
    world.succeed("r")
    world.succeed("a")
    world.succeed("j")

    assert (world.letter("b"), world.state) == ("a", RunState.RUNNING)


@pytest.mark.rule("J3.2")
@pytest.mark.parametrize("type", ["wait", "wait_for_event"])
def test_J3_a_loser_s_timer_and_wait_go(type: str) -> None:
    world = World(
        graph(
            "r -> a; r -> b; a -> j; b -> j", types={"b": type}, join={"j": 1}, cancel_losers=["j"]
        )
    ).start()
    world.succeed("r")
    assert world.ledger.timers or world.ledger.waits

    world.succeed("a")

    assert not world.ledger.timers
    assert not world.ledger.waits


@pytest.mark.rule("J3.4")
def test_J3_a_path_that_ends_elsewhere_is_not_in_the_race() -> None:
    text = "r -> a; r -> b; a -> j; b -> j when 'x'; b -> s when 'y'"
    world = World(graph(text, join={"j": 1}, cancel_losers=["j"]), {"x": True, "y": True}).start()
    world.succeed("r")
    world.succeed("a")
    assert world.letter("b") == "a"

    world.fail("b")

    assert world.state is RunState.FAILED


def test_J3_a_loser_that_was_woken_in_the_same_decision_is_not_looked_at_again() -> None:
    """The race of `j` holds `n`, which stands after `j` in the order: its way to `j` is a back edge."""
    text = "h -> j; h -failure-> n; n -always-> h loop 2"
    world = World(graph(text, types={"j": "set"}, join={"j": 1}, cancel_losers=["j"])).start()
    world.succeed("h")

    assert (world.letters, world.state) == ("ssc", RunState.SUCCESS)


@pytest.mark.rule("J4.1")
def test_J4_the_output_of_a_join_is_what_it_took() -> None:
    text = "r -> a; r -> b when 'x'; r -> w; a -> j; b -> j; w -> j"
    world = World(graph(text, types={"j": "join", "w": "wait"}), {"x": False}).start()
    world.succeed("r")
    world.succeed("a", "1")
    world.fire("w", TimerKind.WAIT)

    assert world.output() == {"j": {"a": "1", "w": None}}


@pytest.mark.rule("J4.1")
def test_J4_a_view_is_no_copy_and_not_counted_against_the_payload_limit() -> None:
    world = World(graph("a -> j; b -> j", types={"j": "join"})).start()
    large = '"' + "x" * (PAYLOAD_MAX - 2) + '"'
    world.succeed("a", large)
    world.succeed("b", large)

    assert world.state is RunState.SUCCESS
    assert world.payload("j", PayloadKind.OUTPUT) is None
    assert world.output() == {"j": {"a": large, "b": large}}


@pytest.mark.rule("J4.1")
def test_J4_a_race_s_view_is_what_was_taken_when_the_join_acted() -> None:
    text = "r -> a; r -> b; a -> j; b -> j"
    world = World(graph(text, types={"j": "join"}, join={"j": 1})).start()
    world.succeed("r")
    world.succeed("b", "2")
    world.succeed("a", "1")

    assert (world.letters, world.output()) == ("ssss", {"j": {"b": "2"}})


def test_J4_views_nest_and_are_ordered_by_id() -> None:
    text = "r -> b; r -> a; b -> j; a -> j; j -> k; r -> k"
    world = World(graph(text, types={"j": "join", "k": "join"})).start()
    world.succeed("r", "0")
    world.succeed("b", "2")
    world.succeed("a", "1")
    output = world.output()

    assert output == {"k": {"j": {"a": "1", "b": "2"}, "r": "0"}}
    assert json.dumps(output) == '{"k": {"j": {"a": "1", "b": "2"}, "r": "0"}}'
