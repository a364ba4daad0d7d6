"""X2-X4: what an expression may see, as the evaluator is told it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.graphs import definition, graph, index_of, value
from tests.support.world import World

from tenuto.machine.events import TimerKind
from tenuto.model.definition import Definition, SetValue, Work
from tenuto.model.expressions import (
    Expression,
    ExpressionKind,
    Fault,
    NodeView,
    Read,
    Root,
    Scope,
)
from tenuto.model.graph import Graph
from tenuto.model.ids import Place
from tenuto.model.payload import JoinView, PayloadKey, PayloadKind
from tenuto.model.retry import RetryPolicy


def reading(*names: str, text: str = "1", condition: bool = False) -> Expression:
    """An expression that reads `node.field`s and roots."""
    reads = []
    for name in names:
        node, _, field = name.rpartition(".")
        reads.append(Read(Root.NODES, node, field) if node else Read(Root(field)))
    kind = ExpressionKind.CONDITION if condition else ExpressionKind.VALUE
    return Expression(kind, text, "here", tuple(reads))


def setting(*names: str) -> SetValue:
    return SetValue(reading(*names))


def with_condition(found: Definition, edge: int, when: Expression) -> Graph:
    """The same graph, with `when` on one edge."""
    edges = list(found.edges)
    edges[edge] = replace(edges[edge], when=when)
    return index_of(replace(found, edges=tuple(edges)))


def scope(world: World) -> Scope:
    return world.last_asked("here").scope


def seen(world: World) -> dict[str, NodeView]:
    return {view.id: view for view in scope(world).nodes}


def key(place: str, kind: PayloadKind = PayloadKind.OUTPUT) -> PayloadKey:
    return PayloadKey(Place(place), kind)


@pytest.mark.rule("X2.1")
def test_X2_a_node_reads_its_ancestors() -> None:
    world = World(graph("a -> b; b -> c", types={"c": "set"}, details={"c": setting("a.output")}))
    world.start().succeed("a")
    world.succeed("b")

    assert seen(world) == {"a": NodeView("a", "success", 1, key("a"), has_output=True)}


@pytest.mark.rule("X2.2")
def test_X2_output_exists_only_after_success_and_error_only_after_dead() -> None:
    text = "a -failure-> b; a -> k; k -> b; b -> c"
    world = World(
        graph(text, types={"c": "set"}, details={"c": setting("a.output", "k.status")})
    ).start()
    world.fail("a")
    world.succeed("b")

    assert seen(world) == {
        "a": NodeView("a", "dead", 1, error=key("a", PayloadKind.ERROR)),
        "k": NodeView("k", "skipped", 0),
    }


@pytest.mark.rule("X2.3")
def test_X2_an_ancestor_that_still_runs_behind_a_race_is_absent() -> None:
    text = "r -> a; r -> b; a -> j; b -> j; j -> c"
    world = World(
        graph(
            text, types={"c": "set"}, join={"j": 1}, details={"c": setting("b.output", "a.output")}
        )
    ).start()
    world.succeed("r")
    world.succeed("a")
    world.succeed("j")

    assert set(seen(world)) == {"a"}


@pytest.mark.rule("X2.2")
def test_X2_a_loser_that_never_began_has_no_attempts() -> None:
    text = "r -> a; r -> b; b -> b2; a -> j; b2 -> j; j -> c"
    world = World(
        graph(
            text,
            types={"c": "set"},
            join={"j": 1},
            cancel_losers=["j"],
            details={"c": setting("b.attempts", "b2.attempts")},
        )
    ).start()
    world.succeed("r")
    world.succeed("a")
    world.succeed("j")

    assert seen(world) == {"b": NodeView("b", "cancelled", 1), "b2": NodeView("b2", "cancelled", 0)}


def test_X2_attempts_of_a_loser_in_its_second_attempt_are_two() -> None:
    text = "r -> a; r -> b; a -> j; b -> j; j -> c"
    world = World(
        graph(
            text,
            types={"c": "set"},
            join={"j": 1},
            cancel_losers=["j"],
            details={
                "b": Work("b", value("{}"), retry=RetryPolicy(max_attempts=3)),
                "c": setting("b.attempts"),
            },
        )
    ).start()
    world.succeed("r")
    world.fail("b")
    world.fire("b", TimerKind.BACKOFF)
    world.succeed("a")
    world.succeed("j")

    assert seen(world)["b"].attempts == 2


@pytest.mark.rule("X5.1")
def test_X2_a_node_that_died_of_its_input_had_no_attempt() -> None:
    world = World(
        graph("a -failure-> c", types={"c": "set"}, details={"c": setting("a.attempts", "error")}),
        {"{}": Fault("expression_error", "no")},
    ).start()

    assert seen(world)["a"].attempts == 0


def test_X2_a_node_that_no_worker_runs_has_no_attempts() -> None:
    world = World(
        graph("a -> c", types={"a": "set", "c": "set"}, details={"c": setting("a.attempts")})
    ).start()

    assert seen(world)["a"].attempts == 0


@pytest.mark.rule("X2.4", "X4.1")
def test_X2_a_when_reads_its_source_as_it_just_ended() -> None:
    when = reading("a.output", "error", "iteration", text="true", condition=True)
    world = World(with_condition(definition("a -> b"), 0, when)).start()
    world.succeed("a", "1")

    assert seen(world) == {"a": NodeView("a", "success", 1, key("a"), has_output=True)}
    assert (scope(world).error, scope(world).iteration) == (None, None)


@pytest.mark.rule("X4.6")
def test_X2_the_run_s_output_reads_every_node() -> None:
    world = World(graph("a; b", output=reading("a.output", "b.output", "input", "vars"))).start()
    world.succeed("a", "1")
    world.succeed("b", "2")

    assert set(seen(world)) == {"a", "b"}
    assert scope(world).input == key("", PayloadKind.INPUT)


def test_X2_no_output_is_null() -> None:
    world = World(
        graph("a -> c", types={"a": "fork", "c": "set"}, details={"c": setting("a.output")})
    ).start()

    assert seen(world) == {"a": NodeView("a", "success", 0, None, has_output=True)}


@pytest.mark.rule("J4.1")
def test_J4_a_join_is_read_as_a_view() -> None:
    text = "r -> a; r -> b; a -> j; b -> j; j -> c"
    world = World(
        graph(text, types={"j": "join", "c": "set"}, details={"c": setting("j.output")})
    ).start()
    world.succeed("r")
    world.succeed("b")
    world.succeed("a")

    assert seen(world)["j"].output == JoinView((("a", key("a")), ("b", key("b"))))


LOOP = "h -> a; a -> s; s -> h when 'again' loop 5; s -> e else"
AGAIN = {"again": [True, False]}


@pytest.mark.rule("X3.1")
def test_X3_an_ancestor_is_seen_in_the_reader_s_pass() -> None:
    world = World(
        graph(LOOP, types={"a": "set", "s": "switch"}, details={"a": setting("h.output")}), AGAIN
    ).start()
    world.succeed("h")
    world.succeed("h")

    assert seen(world)["h"].output == key("h.2")


@pytest.mark.rule("L2.1", "X3.1", "X4.3")
def test_X3_a_node_reads_itself_and_what_follows_as_of_the_pass_before() -> None:
    names = ("h.output", "a.output", "s.status", "iteration")
    world = World(
        graph(LOOP, types={"h": "set", "s": "switch"}, details={"h": setting(*names)}), AGAIN
    ).start()
    assert (seen(world), scope(world).iteration) == ({}, 1)

    world.succeed("a")

    assert seen(world) == {
        "h": NodeView("h", "success", 0, key("h.1"), has_output=True),
        "a": NodeView("a", "success", 1, key("a.1"), has_output=True),
        "s": NodeView("s", "success", 0, None, has_output=True),
    }
    assert scope(world).iteration == 2


@pytest.mark.rule("X3.5")
def test_X3_a_node_that_did_not_run_in_the_last_pass_has_no_output_to_read() -> None:
    """Its record says `skipped` (L5), so an output of two passes ago is never taken for the last one."""
    text = "h -> t; t -> a when 'go'; t -> b else; a -> s; b -> s; s -> h when 'again' loop 5; s -> e else"
    world = World(
        graph(
            text,
            types={"h": "set", "t": "switch", "s": "switch"},
            details={"h": setting("a.output", "b.output")},
        ),
        {"go": [True, False], "again": [True, True, False]},
    ).start()
    world.succeed("a")
    assert set(seen(world)) == {"a", "b"}
    assert seen(world)["b"].status == "skipped"

    world.succeed("b")

    assert seen(world)["a"].status == "skipped"
    assert seen(world)["b"].output == key("b.2")


@pytest.mark.rule("X3.1", "X3.2")
def test_X3_an_inner_loop_s_first_pass_sees_nothing_of_the_outer_pass_before() -> None:
    text = "o -> i; i -> s; s -> i when 'inner' loop 5; s -> t else; t -> o when 'outer' loop 5; t -> e else"
    names = ("i.output", "s.status", "o.output")
    world = World(
        graph(
            text, types={"i": "set", "s": "switch", "t": "switch"}, details={"i": setting(*names)}
        ),
        {"inner": [True, False, False], "outer": [True, False]},
    ).start()
    world.succeed("o")
    assert world.place("o") == "o.2"

    world.succeed("o")

    assert seen(world) == {"o": NodeView("o", "success", 1, key("o.2"), has_output=True)}


@pytest.mark.rule("X3.4")
def test_X3_without_a_common_loop_the_last_record_is_read() -> None:
    world = World(
        graph(
            LOOP, types={"s": "switch", "e": "set"}, details={"e": setting("a.output", "h.status")}
        ),
        AGAIN,
    ).start()
    for _ in range(2):
        world.succeed("h")
        world.succeed("a")

    assert {view.output for view in seen(world).values()} == {key("a.2"), key("h.2")}


@pytest.mark.rule("X2.4")
def test_X3_a_condition_in_a_loop_sees_its_source_of_this_pass() -> None:
    found = definition("h -> a; a -> h when 'again' loop 5; a -failure-> e")
    when = reading("a.output", "h.output", "iteration", text="again", condition=True)
    world = World(with_condition(found, 1, when), {"again": [True, False]}).start()
    for _ in range(2):
        world.succeed("h")
        world.succeed("a")

    assert {view.output for view in seen(world).values()} == {key("a.2"), key("h.2")}
    assert scope(world).iteration == 2


@pytest.mark.rule("X4.1")
def test_X4_error_in_a_when_is_the_source_s() -> None:
    found = definition("a -failure-> b")
    world = World(with_condition(found, 0, reading("error", text="true", condition=True))).start()
    world.fail("a")

    assert scope(world).error == key("a", PayloadKind.ERROR)


@pytest.mark.rule("X4.1")
def test_X4_error_in_a_node_is_that_of_its_first_taken_in_edge_whose_source_is_dead() -> None:
    text = "r -> a; r -> b; a -always-> c; b -failure-> c; r -> c"
    world = World(graph(text, types={"c": "set"}, details={"c": setting("error")})).start()
    world.succeed("r")
    world.succeed("a")
    world.fail("b")

    assert scope(world).error == key("b", PayloadKind.ERROR)


@pytest.mark.rule("T2.2", "X4.1")
def test_T2_X4_the_first_in_edge_is_that_of_the_lowest_number() -> None:
    """Neither the order of the nodes nor that of the ends decides."""
    text = "r -> a; r -> b; b -failure-> c; a -failure-> c"
    world = World(graph(text, types={"c": "set"}, details={"c": setting("error")})).start()
    world.succeed("r")
    world.fail("a")
    world.fail("b")

    assert scope(world).error == key("b", PayloadKind.ERROR)


@pytest.mark.rule("X4.1")
def test_X4_error_in_a_node_that_nothing_dead_leads_to_is_null() -> None:
    world = World(
        graph("a -always-> c", types={"c": "set"}, details={"c": setting("error")})
    ).start()
    world.succeed("a")

    assert scope(world).error is None


@pytest.mark.rule("X4.1")
def test_X4_error_behind_a_success_edge_is_null_though_its_source_is_dead() -> None:
    """`optional`: the failure is tolerated, and its success edges are taken."""
    world = World(
        graph("a -> c", types={"c": "set"}, optional=["a"], details={"c": setting("error")})
    ).start()
    world.fail("a")

    assert (world.letters, scope(world).error) == ("xs", None)


def test_X4_error_behind_a_loop_is_that_of_the_pass_that_left_it() -> None:
    world = World(
        graph(
            "h -> a; a -> h loop 3; a -failure-> e",
            types={"e": "set"},
            details={"e": setting("error")},
        )
    ).start()
    world.succeed("h")
    world.succeed("a")
    world.succeed("h")
    world.fail("a")

    assert scope(world).error == key("a.2", PayloadKind.ERROR)


@pytest.mark.rule("X4.3")
def test_X4_the_iteration_of_an_outer_loop_is_read_from_its_header() -> None:
    text = "o -> i; i -> s; s -> i when 'inner' loop 5; s -> t else; t -> o when 'outer' loop 5; t -> e else"
    names = ("o.iteration", "o.status", "iteration", "i.iteration")
    world = World(
        graph(
            text, types={"i": "set", "s": "switch", "t": "switch"}, details={"i": setting(*names)}
        ),
        {"inner": [False, True, False], "outer": [True, False]},
    ).start()
    world.succeed("o")
    world.succeed("o")

    assert (seen(world)["o"].iteration, seen(world)["o"].status) == (2, "success")
    assert (seen(world)["i"].iteration, scope(world).iteration) == (2, 2)


def test_X4_the_iteration_of_a_header_that_is_not_visible_stands_alone() -> None:
    world = World(
        graph(LOOP, types={"h": "set", "s": "switch"}, details={"h": setting("h.iteration")}), AGAIN
    ).start()

    assert seen(world) == {"h": NodeView("h", "pending", 0, iteration=1)}


def test_X4_a_node_that_is_no_header_has_no_iteration() -> None:
    world = World(
        graph(
            LOOP,
            types={"a": "set", "s": "switch"},
            details={"a": setting("h.output", "a.iteration")},
        ),
        AGAIN,
    ).start()
    world.succeed("h")

    assert set(seen(world)) == {"h"}


def test_X8_texts_of_the_decision_under_way_travel_with_the_scope() -> None:
    world = World(
        graph("a -> c", types={"a": "set", "c": "set"}, details={"c": setting("a.output")})
    ).start()

    assert scope(world).fresh[key("a")].text == "1"
    assert world.needs == 0
