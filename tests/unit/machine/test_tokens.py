"""T, F1-F4: how a node's end decides its edges."""

from __future__ import annotations

import json

import pytest
from tests.support.graphs import graph, value
from tests.support.world import World

from tenuto.machine.events import TimerKind
from tenuto.model.definition import End, Fail
from tenuto.model.expressions import Fault
from tenuto.model.payload import PayloadKind
from tenuto.model.states import RunState

FAULT = Fault("expression_error", "no such key")


def code(error: str) -> str:
    found = json.loads(error)["code"]
    assert isinstance(found, str)
    return found


@pytest.mark.rule("T1.1", "T1.2")
def test_T1_an_edge_is_decided_once_when_its_source_ends() -> None:
    world = World(graph("a -> b; b -> c")).start()
    assert (world.letters, world.edges) == ("a..", "--")

    world.succeed("a")

    assert (world.letters, world.edges) == ("sa.", "t-")


@pytest.mark.rule("T2.3")
def test_T2_edges_may_join_the_same_pair_when_on_or_when_differ() -> None:
    world = World(
        graph("a -> b when 'x'; a -> b when 'y'; a -failure-> b"), {"x": False, "y": True}
    )
    world.start().succeed("a")

    assert (world.letters, world.edges) == ("sa", "dtd")


@pytest.mark.rule("T2.2", "T5.1")
def test_T2_a_switch_takes_the_first_edge_by_number_that_holds() -> None:
    world = World(
        graph("s -> b when 'x'; s -> a when 'y'", types={"s": "switch"}), {"x": True, "y": True}
    ).start()

    assert world.edges == "td"
    assert [asked.expression.text for asked in world.asked if asked.expression.text == "y"] == []


@pytest.mark.rule("T3.1")
def test_T3_every_node_without_forward_in_edges_starts_with_the_run() -> None:
    world = World(graph("a -> c; b -> d; a -failure-> a2; a2 -> c"))

    assert world.start().letters == "a.a.."


@pytest.mark.rule("T3.2")
def test_T3_a_token_that_reaches_a_node_that_has_acted_has_no_effect() -> None:
    world = World(graph("a -> j; b -> j", join={"j": 1})).start()
    world.succeed("a")
    assert world.letter("j") == "a"

    world.succeed("b")

    assert (world.edges, world.letter("j")) == ("tt", "a")


@pytest.mark.rule("T4.1", "T4.2", "T4.3")
@pytest.mark.parametrize(
    ("ends", "edges"), [("success", "tdt"), ("dead", "dtt"), ("skipped", "ddd")]
)
def test_T4_a_node_s_edges_are_decided_together_by_its_end(ends: str, edges: str) -> None:
    world = World(
        graph("a -> s; a -failure-> f; a -always-> z; r -> a when 'go'"), {"go": ends != "skipped"}
    ).start()
    world.succeed("r")
    if ends == "success":
        world.succeed("a")
    elif ends == "dead":
        world.fail("a")

    assert world.edges[:3] == edges


@pytest.mark.rule("T1.1", "T4.2")
def test_T4_a_condition_decides_whether_an_edge_is_taken() -> None:
    world = World(graph("a -> b when 'x'; a -> c when 'y'"), {"x": True, "y": False}).start()
    world.succeed("a")

    assert (world.letters, world.edges) == ("sak", "td")


@pytest.mark.rule("T4.3")
def test_T4_a_skipped_node_has_only_dead_edges() -> None:
    world = World(graph("a -> b when 'x'; b -always-> c"), {"x": False}).start()
    world.succeed("a")

    assert (world.letters, world.edges, world.state) == ("skk", "dd", RunState.SUCCESS)


@pytest.mark.rule("T4.3")
def test_T4_a_cancelled_node_has_only_dead_edges() -> None:
    """`always` means whether it succeeded or failed, not although it never ran."""
    world = World(
        graph("f -> a; f -> b; a -> j; b -always-> j", join={"j": 1}, cancel_losers=["j"])
    )
    world.start().succeed("f")
    world.succeed("a")

    assert (world.letters, world.edges) == ("ssca", "tttd")


@pytest.mark.rule("T5.1")
def test_T5_a_switch_takes_its_else_edge_when_nothing_holds() -> None:
    world = World(
        graph("s -> b else; s -> a when 'x'", types={"s": "switch"}), {"x": False}
    ).start()

    assert (world.letters, world.edges) == ("sak", "td")


@pytest.mark.rule("T5.1")
def test_T5_a_switch_without_a_match_is_dead() -> None:
    world = World(
        graph("s -> a when 'x'; s -failure-> f", types={"s": "switch"}), {"x": False}
    ).start()

    assert (world.letters, world.edges, code(world.error("s"))) == ("xka", "dt", "no_match")


@pytest.mark.rule("T5.2")
@pytest.mark.parametrize(("holds", "edges"), [(True, "td"), (False, "dt")])
def test_T5_the_else_of_failure_edges_is_taken_if_no_other_is(holds: bool, edges: str) -> None:
    world = World(graph("a -failure-> b when 'x'; a -failure-> c else"), {"x": holds}).start()
    world.fail("a")

    assert world.edges == edges


@pytest.mark.rule("T5.2")
def test_T5_an_always_edge_does_not_keep_the_else_from_being_taken() -> None:
    world = World(graph("a -always-> b; a -failure-> c else")).start()
    world.fail("a")

    assert world.edges == "tt"


@pytest.mark.rule("T4.2", "T6.1")
def test_T6_an_error_in_a_success_edge_makes_the_node_dead_once_more() -> None:
    world = World(graph("a -> b when 'x'; a -failure-> c; a -> d"), {"x": FAULT}).start()
    world.succeed("a", '"kept"')

    assert (world.letters, world.edges) == ("xkak", "dtd")
    assert code(world.error("a")) == "expression_error"
    assert world.payload("a", PayloadKind.OUTPUT) == '"kept"'


@pytest.mark.rule("T6.1")
def test_T6_an_error_in_a_switch_makes_it_dead() -> None:
    world = World(
        graph("s -> a when 'x'; s -> b else; s -failure-> f", types={"s": "switch"}), {"x": FAULT}
    ).start()

    assert (world.edges, code(world.error("s"))) == ("ddt", "expression_error")


@pytest.mark.rule("T6.1")
def test_T6_an_error_in_a_failure_edge_counts_as_not_holding() -> None:
    world = World(graph("a -failure-> b when 'x'; a -failure-> c else"), {"x": FAULT}).start()
    world.fail("a")

    assert (world.edges, code(world.error("a"))) == ("dt", "boom")


@pytest.mark.rule("T6.2")
def test_T6_there_is_no_third_round() -> None:
    """The second round may not end the node again: a failure back edge whose passes are used is not taken."""
    world = World(graph("h -> a when 'x'; h -failure-> h loop 1"), {"x": FAULT}).start()
    world.succeed("h")

    assert (world.letter("h"), world.state) == ("x", RunState.FAILED)
    assert code(world.error("h.1")) == "expression_error"


def test_T6_a_join_whose_edges_make_it_dead_has_no_output() -> None:
    """Its record, kept for the view, says so too."""
    world = World(
        graph("a -> j; j -> c when 'x'; j -failure-> d", types={"j": "join"}, join={"j": 1}),
        {"x": FAULT},
    ).start()
    world.succeed("a")

    assert (world.letter("j"), world.snapshot.records[1].letter) == ("x", "x")


@pytest.mark.rule("F1.1", "F4.4")
def test_F1_a_taken_failure_edge_handles_the_failure() -> None:
    world = World(graph("a -> b; a -failure-> c")).start()
    world.fail("a")
    world.succeed("c")

    assert (world.letters, world.state) == ("xks", RunState.SUCCESS)


@pytest.mark.rule("F1.1")
def test_F1_a_failure_in_a_race_is_the_join_s_to_answer_for() -> None:
    world = World(graph("f -> a; f -> b; a -> j; b -> j", join={"j": 1})).start()
    world.succeed("f")
    world.fail("a")
    assert world.state is RunState.RUNNING

    world.succeed("b")
    world.succeed("j")

    assert (world.letters, world.state) == ("sxss", RunState.SUCCESS)


@pytest.mark.rule("F1.1", "F2.1")
def test_F2_an_unhandled_failure_closes_the_run_now() -> None:
    world = World(graph("r -> a; r -> b; a -> c")).start()
    world.succeed("r")
    world.fail("a")

    assert (world.letters, world.state) == ("sxcc", RunState.FAILED)
    assert world.settled is not None
    assert world.settled.error is not None
    assert world.settled.error.place == "a"


@pytest.mark.rule("F2.2")
def test_F2_an_always_edge_lets_the_run_go_on_and_never_hides_the_failure() -> None:
    world = World(graph("a -> b; a -always-> c")).start()
    world.fail("a")
    assert (world.state, world.letters) == (RunState.RUNNING, "xka")

    world.succeed("c")

    assert (world.state, world.snapshot.failures) == (RunState.FAILED, ("a",))
    assert world.output() is None


@pytest.mark.rule("F1.1", "F2.1")
def test_F2_a_failure_edge_whose_condition_is_false_handles_nothing() -> None:
    world = World(graph("a -failure-> b when 'x'"), {"x": False}).start()
    world.fail("a")

    assert world.state is RunState.FAILED


@pytest.mark.rule("F2.3", "F4.2", "C2.1")
@pytest.mark.parametrize("how", ["cancelled", "run_timeout", "end"])
def test_F2_after_an_unhandled_failure_the_outcome_can_only_be_failed(how: str) -> None:
    world = World(graph("a -always-> c; c -> e", types={"e": "end"}, timeout_us=10), {}).start()
    world.fail("a")
    if how == "cancelled":
        world.cancel()
    elif how == "run_timeout":
        world.fire("", TimerKind.RUN)
    else:
        world.succeed("c")

    assert (world.state, world.snapshot.closed_by) == (RunState.FAILED, (how,))
    assert world.settled is not None
    assert world.settled.error is not None
    assert world.settled.error.place == "a"


@pytest.mark.rule("F1.1", "F3.1")
def test_F3_a_tolerated_failure_decides_its_edges_as_a_success_would() -> None:
    world = World(graph("a -> b; a -always-> c; b -> d", optional=["a"])).start()
    world.fail("a")
    assert (world.letters, world.edges) == ("xaa.", "tt-")

    world.succeed("b")
    world.succeed("c")
    world.succeed("d")

    assert world.state is RunState.SUCCESS


@pytest.mark.rule("F3.1")
def test_F3_a_tolerated_failure_cannot_win_a_race() -> None:
    world = World(graph("f -> a; f -> b; a -> j; b -> j", join={"j": 1}, optional=["a"])).start()
    world.succeed("f")
    world.fail("a")

    assert (world.edges, world.letter("j")) == ("ttd-", ".")


@pytest.mark.rule("F3.2")
def test_F3_an_error_in_the_edges_of_an_optional_node_is_not_tolerated() -> None:
    world = World(graph("a -> b when 'x'", optional=["a"]), {"x": FAULT}).start()
    world.fail("a")
    error = json.loads(world.error("a"))

    assert world.state is RunState.FAILED
    assert (error["code"], error["details"]["cause"]) == ("expression_error", {"code": "boom"})


@pytest.mark.rule("F3.2")
def test_F3_an_error_in_the_edges_after_a_success_is_not_tolerated_either() -> None:
    world = World(graph("a -> b when 'x'", optional=["a"]), {"x": FAULT}).start()
    world.succeed("a")

    assert world.state is RunState.FAILED


@pytest.mark.rule("F3.2")
def test_F3_a_join_that_cannot_fill_is_not_its_optional_node_s_own_work() -> None:
    world = World(graph("a -> j; b -> j when 'x'", join={"j": 2}, optional=["j"]), {"x": False})
    world.start().succeed("a")
    world.succeed("b")

    assert (world.state, code(world.error("j"))) == (RunState.FAILED, "join_unsatisfied")


@pytest.mark.rule("F3.2")
def test_F3_used_up_passes_are_not_tolerated() -> None:
    world = World(graph("p -> q; p -failure-> b; q -> p loop 1", optional=["q"])).start()
    world.succeed("p")
    world.fail("q")

    assert (world.state, code(world.error("q.1"))) == (RunState.FAILED, "loop_exhausted")


@pytest.mark.rule("F4.1")
def test_F4_fail_ends_dead_with_its_code_message_and_details() -> None:
    world = World(
        graph(
            "a",
            types={"a": "fail"},
            details={"a": Fail("nope", value('"why"', "m"), value('{"n":1}', "d"))},
        ),
        {'"why"': "why"},
    ).start()

    assert (world.state, world.letters) == (RunState.FAILED, "x")
    assert json.loads(world.error("a")) == {
        "code": "nope",
        "message": "why",
        "details": {"n": 1},
        "kind": "task",
        "node": "a",
    }


@pytest.mark.parametrize("part", ["m", "d"])
def test_F4_an_error_in_what_fail_says_is_its_failure(part: str) -> None:
    detail = Fail("nope", value("m", "m"), value("d", "d"))
    world = World(
        graph("a", types={"a": "fail"}, details={"a": detail}), {"m": "why", "d": "1", part: FAULT}
    ).start()

    assert (world.state, code(world.error("a"))) == (RunState.FAILED, "expression_error")


@pytest.mark.rule("F4.2", "F4.3", "C2.1")
@pytest.mark.parametrize(
    ("detail", "state", "output"),
    [
        (End(), RunState.SUCCESS, {"a": "1"}),
        (End(output=value("7", "e")), RunState.SUCCESS, "7"),
        (End(cancelled=True), RunState.CANCELLED, None),
        (End(cancelled=True, output=value("7", "e")), RunState.CANCELLED, None),
    ],
)
def test_F4_end_decides_the_outcome_at_once(detail: End, state: RunState, output: object) -> None:
    world = World(
        graph("r -> a; r -> b; r -> s; s -> e", types={"e": "end"}, details={"e": detail})
    )
    world.start().succeed("r")
    world.succeed("a", "1")
    world.succeed("s")

    assert (world.letters, world.state, world.output()) == ("sscss", state, output)


@pytest.mark.rule("F4.2")
def test_F4_end_falls_back_on_the_run_s_output() -> None:
    world = World(graph("a -> e", types={"e": "end"}, output=value("5", "output"))).start()
    world.succeed("a")

    assert (world.state, world.output()) == (RunState.SUCCESS, "5")


def test_F4_an_error_in_the_output_of_end_is_its_failure() -> None:
    world = World(
        graph("e", types={"e": "end"}, details={"e": End(output=value("v", "e"))}), {"v": FAULT}
    ).start()

    assert (world.state, world.letters) == (RunState.FAILED, "x")
