"""R1, R2: what a retry or replay would do, without doing it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.graphs import graph, value
from tests.support.saga import saga
from tests.support.world import Script, World

from tenuto.machine.plan import Plan, Refusal, plan_replay, plan_retry, wanted
from tenuto.model.definition import Call, End, Foreach, Work
from tenuto.model.expressions import Expression, ExpressionKind, Fault, Read, Root
from tenuto.model.graph import Graph
from tenuto.model.ids import Place
from tenuto.model.states import RunState

OVER = Expression(ExpressionKind.ITEMS, "[1,2,3]", "nodes.each.over")


def names(graph: Graph, nodes: tuple[int, ...]) -> str:
    return " ".join(sorted(graph.definition.nodes[node].id for node in nodes))


def retry_of(world: World, skip: str | None = None) -> Plan:
    return plan_retry(world.graph, world.snapshot, skip=skip)


def replay_of(world: World, node: str, *, changed: bool = False) -> Plan:
    return plan_replay(world.graph, world.snapshot, node, changed=changed)


def failed(text: str, fails: str, *succeed: str, **what: object) -> World:
    world = World(graph(text, **what)).start()  # type: ignore[arg-type]
    for id in succeed:
        world.succeed(id)
    world.fail(fails)
    return world


# -- S0 and S -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("C2.2", "R1.1")
def test_R1_S0_are_unhandled_dead_nodes_and_those_that_the_closing_cancelled() -> None:
    world = failed("a -> b; b -> c; p -> q", "b", "a")
    plan = retry_of(world)

    assert plan.refused is None
    assert names(world.graph, plan.first) == "b c p q"
    assert names(world.graph, plan.nodes) == "b c p q"


@pytest.mark.rule("R1.1")
def test_R1_the_plan_tells_what_had_not_begun_from_what_was_cut_short() -> None:
    world = failed("a; b; c -> d", "a", "c")

    plan = retry_of(world)

    assert names(world.graph, plan.first) == "a b d"
    assert names(world.graph, plan.unbegun) == ""

    waiting = failed("a; b -> c", "a")
    plan = retry_of(waiting)
    assert names(waiting.graph, plan.unbegun) == "c"


def test_R1_a_handled_dead_node_is_not_in_S0() -> None:
    text = "a -> b; a -failure-> f; f -> g"
    world = World(graph(text)).start()
    world.fail("a")
    world.fail("f")

    assert names(world.graph, retry_of(world).first) == "f g"


@pytest.mark.rule("R1.1")
def test_R1_a_loser_of_a_race_is_not_in_S0() -> None:
    text = "a -> j; b -> j; j -> c"
    world = World(graph(text, types={"j": "join"}, join={"j": 1}, cancel_losers=["j"])).start()
    world.succeed("a")
    world.fail("c")

    assert world.letter("b") == "c"
    assert names(world.graph, retry_of(world).first) == "c"


@pytest.mark.rule("R1.1", "R1.6")
def test_R1_S_is_S0_and_all_that_forward_edges_reach() -> None:
    text = "a -always-> f; f -> g; b -> h"
    world = World(graph(text)).start()
    world.succeed("b")
    world.succeed("h")
    world.fail("a")
    world.succeed("f")
    world.succeed("g")

    plan = retry_of(world)
    assert names(world.graph, plan.first) == "a"
    assert names(world.graph, plan.nodes) == "a f g"
    assert names(world.graph, plan.repeated) == "f g"


@pytest.mark.rule("R1.1")
def test_R1_S_does_not_follow_back_edges() -> None:
    text = "h -> a; a -> s; s -> h when 'again' loop 3; s -> e else"
    world = World(graph(text, types={"s": "switch"}), {"again": True}).start()
    world.succeed("h")
    world.fail("a")

    plan = retry_of(world)
    assert names(world.graph, plan.nodes) == "a e s"
    assert plan.passes == (1,)
    assert plan.restarted == ()


@pytest.mark.rule("R1.2")
def test_R1_edges_leaving_S_are_undecided_and_others_stay() -> None:
    world = failed("a -> b; a -failure-> x; b -> c", "b", "a")
    assert world.edges == "td-"

    assert retry_of(world).edges == b"td-"
    assert names(world.graph, retry_of(world).nodes) == "b c"


@pytest.mark.rule("R1.2")
def test_R1_a_loop_whose_header_is_in_S_starts_at_1_and_others_keep_their_iteration() -> None:
    text = "o -> h; h -> s; s -> h when 'in' loop 5; s -> t else; t -> o when 'out' loop 5; t -> e else"
    script: Script = {"in": [True, False, True], "out": True}
    world = World(graph(text, types={"s": "switch", "t": "switch"}), script).start()
    world.succeed("o")
    world.succeed("h")
    world.succeed("h")
    world.succeed("o")
    world.succeed("h")
    world.fail("h")
    assert world.snapshot.passes == (2, 2)

    plan = retry_of(world)
    assert plan.passes == (2, 1)
    assert plan.restarted == (1,)


REOPENED = "h -> x when 'out'; h -> n else; n -always-> a; a -> h when 'again' loop 3"
"""`n` dies unhandled, its `always` edge leads to the source of the back edge, and the loop closes."""


@pytest.mark.rule("R1.2")
def test_R1_what_a_loop_that_is_open_again_had_let_out_belongs_to_S_too() -> None:
    """Without it a later pass would send its token to `x`, which was skipped when the loop closed."""
    world = World(
        graph(REOPENED, types={"h": "switch"}), {"out": [False, True], "again": [False, True]}
    ).start()
    world.fail("n")
    world.succeed("a")
    assert (world.letter("x"), world.state) == ("k", RunState.FAILED)

    plan = retry_of(world)
    assert names(world.graph, plan.first) == "n"
    assert names(world.graph, plan.nodes) == "a n x"
    assert plan.edges.decode() == "wt--"


def test_R1_the_reset_is_repeated_until_nothing_changes() -> None:
    text = (
        "o -> h; h -> x when 'out'; h -> n else; n -always-> a; a -> h when 'again' loop 3;"
        "a -> z else; z -> o when 'outer' loop 3; z -> e else; x -> o when 'outer' loop 3; x -> e else"
    )
    types = {"h": "switch", "a": "switch", "x": "switch", "z": "switch", "o": "set", "e": "set"}
    world = World(graph(text, types=types), {"out": False, "again": False, "outer": False}).start()
    world.fail("n")
    assert (world.letters, world.state) == ("sskxsss", RunState.FAILED)
    plan = retry_of(world)

    assert names(world.graph, plan.nodes) == "a e n x z"
    assert plan.edges.decode() == "twt-------"


# -- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("R1.7")
def test_R1_refused_not_final() -> None:
    assert retry_of(World(graph("a")).start()).refused is Refusal.NOT_FINAL


@pytest.mark.rule("R1.7")
def test_R1_refused_success() -> None:
    world = World(graph("a")).start()
    world.succeed("a")
    assert retry_of(world).refused is Refusal.SUCCEEDED


@pytest.mark.rule("R1.7")
def test_R1_refused_any_undo_started() -> None:
    world = World(saga("a; z", undo="a")).start()
    world.succeed("a")
    world.fail("z")
    world.drained()
    world.fail("a!undo")

    assert world.snapshot.compensation == "partial"
    assert retry_of(world).refused is Refusal.UNDONE


@pytest.mark.rule("R1.7")
def test_R1_a_run_that_had_nothing_to_undo_may_be_retried() -> None:
    world = World(saga("a; z", undo="a")).start()
    world.fail("z")
    world.drained()

    assert world.snapshot.compensation == "none"
    assert retry_of(world).refused is None


@pytest.mark.rule("R1.7")
def test_R1_refused_ended_by_fail() -> None:
    world = World(graph("a -> f", types={"f": "fail"})).start()
    world.succeed("a")
    assert retry_of(world).refused is Refusal.ENDED


@pytest.mark.rule("R1.7")
@pytest.mark.parametrize("cancelled", [True, False])
def test_R1_refused_ended_by_end(cancelled: bool) -> None:
    text = "a -> e; b" if cancelled else "x -always-> w; a -> e; b"
    world = World(graph(text, types={"e": "end"}, details={"e": End(cancelled=True)})).start()
    if not cancelled:
        world.fail("x")
    world.succeed("a")

    assert world.is_final
    assert retry_of(world).refused is Refusal.ENDED


@pytest.mark.rule("R1.7")
def test_R1_refused_S0_empty() -> None:
    output = Expression(ExpressionKind.VALUE, "out", "output")
    world = World(graph("a", output=output), {"out": Fault("expression_error", "no")}).start()
    world.succeed("a")

    assert world.state is RunState.FAILED
    assert retry_of(world).refused is Refusal.NOTHING_FAILED


@pytest.mark.rule("R1.7")
def test_R1_refused_an_open_child() -> None:
    world = World(graph("c", types={"c": "call"}, details={"c": calling()}))
    world.family.workflows["other"] = graph("x")
    world.start()
    world.child("c")
    world.terminate()
    assert world.snapshot.children == 1
    assert retry_of(world).refused is Refusal.OPEN_CHILD

    world.tell()
    assert world.snapshot.children == 0
    assert retry_of(world).refused is None


def test_every_refusal_has_its_sentence() -> None:
    assert all(len(refusal.text) > 10 for refusal in Refusal)


# -- foreach and call ---------------------------------------------------------------------------------------------


def calling(**what: object) -> Call:
    fields: dict[str, object] = {"name": "other", "inline": None, "input": value("{}")} | what
    return Call(**fields)  # type: ignore[arg-type]


def with_each(text: str) -> Graph:
    each = Foreach(Work("hash", value("{}")), over=OVER)
    return graph(text, types={"each": "foreach"}, details={"each": each})


def listed(world: World) -> World:
    world.script = {"[1,2,3]": "[1,2,3]"}
    return world.start()


@pytest.mark.rule("R1.4")
def test_R1_a_foreach_in_S0_that_nothing_else_in_S_leads_to_goes_on_inside() -> None:
    world = listed(World(with_each("a -> each; each -> b")))
    world.succeed("a")
    world.succeed("each[0]")
    world.fail("each[1]")

    plan = retry_of(world)
    assert names(world.graph, plan.inside) == "each"
    assert plan.anew == ()
    assert wanted(world.graph, world.snapshot) == (("each",), ())
    assert wanted(world.graph, world.snapshot, "a") == ((), ())


@pytest.mark.rule("R1.5")
def test_R1_a_foreach_that_something_in_S_leads_to_starts_whole() -> None:
    world = listed(World(with_each("a -always-> each; each -> b")))
    world.fail("a")
    world.fail("each[1]")

    plan = retry_of(world)
    assert names(world.graph, plan.first) == "a b each"
    assert plan.inside == ()
    assert names(world.graph, plan.anew) == "each"


def test_R1_a_foreach_that_never_had_a_list_starts_whole() -> None:
    world = World(with_each("a -> each"))
    listed(world)
    world.cancel()

    assert names(world.graph, retry_of(world).anew) == "each"


def test_R1_a_foreach_whose_list_could_not_be_evaluated_starts_whole() -> None:
    world = World(with_each("each -> b"), {"[1,2,3]": Fault("expression_error", "no")}).start()

    assert names(world.graph, retry_of(world).first) == "b each"
    assert retry_of(world).inside == ()


@pytest.mark.rule("R1.4")
def test_R1_a_call_in_S0_likewise() -> None:
    world = World(graph("a -> c", types={"c": "call"}, details={"c": calling()}))
    world.family.workflows["other"] = graph("x")
    world.start()
    world.succeed("a")
    world.settle_child("c", RunState.FAILED)

    assert names(world.graph, retry_of(world).inside) == "c"
    assert wanted(world.graph, world.snapshot) == ((), ("c",))


def test_R1_a_loop_that_starts_at_1_takes_nothing_up_from_a_later_pass() -> None:
    text = "c -> s; s -> c when 'again' loop 3; s -> e else"
    details = {"c": calling()}
    world = World(graph(text, types={"c": "call", "s": "switch"}, details=details), {"again": True})
    world.family.workflows["other"] = graph("x")
    world.start()
    world.settle_child("c")
    world.settle_child("c", RunState.FAILED)

    assert retry_of(world).inside == ()
    assert names(world.graph, retry_of(world).anew) == "c"


# -- skip ---------------------------------------------------------------------------------------------------------


def test_skip_is_for_a_node_of_S0_that_nothing_else_in_S_leads_to() -> None:
    world = failed("a -> b; b -> c", "b", "a")

    assert retry_of(world, skip="b").refused is None
    assert retry_of(world, skip="a").refused is Refusal.NOT_FAILED
    assert retry_of(world, skip="c").refused is Refusal.NOT_FIRST
    assert retry_of(world, skip="d").refused is Refusal.NO_NODE


# -- replay -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("R2.1")
def test_R2_S0_is_the_node_and_everything_that_R1_would_name() -> None:
    world = failed("a -> b; a -> d; b -> c; p -> q", "b", "a", "p", "q", "d")

    assert names(world.graph, replay_of(world, "p").first) == "b c p"
    assert names(world.graph, replay_of(world, "p").nodes) == "b c p q"
    assert names(world.graph, replay_of(world, "p").repeated) == "p q"


def test_R2_a_run_that_succeeded_may_be_replayed_and_one_that_has_not_ended_not() -> None:
    world = World(graph("a -> b")).start()
    assert replay_of(world, "a").refused is Refusal.NOT_FINAL
    world.succeed("a")
    world.succeed("b")

    assert names(world.graph, replay_of(world, "b").nodes) == "b"
    assert replay_of(world, "nobody").refused is Refusal.NO_NODE


def reading(id: str, *reads: Read) -> Work:
    return Work(id, Expression(ExpressionKind.VALUE, "{}", f"nodes.{id}.params", reads))


@pytest.mark.rule("R2.2")
def test_R2_changed_input_is_marked_where_a_kept_output_had_read_it() -> None:
    details = {id: reading(id, Read(Root.INPUT)) for id in "ac"}
    world = World(graph("a -> b; b -> c; d", details=details)).start()
    for id in "adbc":
        world.succeed(id)

    assert names(world.graph, replay_of(world, "b", changed=True).changed) == "a"
    assert replay_of(world, "b").changed == ()


@pytest.mark.rule("R2.6")
def test_R2_a_wait_in_S_whose_key_a_kept_node_has_read_is_marked() -> None:
    details = {"a": reading("a", Read(Root.NODES, "w", "callback_key"))}
    world = World(graph("a -> w; w -> b", types={"w": "wait_for_event"}, details=details)).start()
    world.succeed("a")
    world.post("w")
    world.succeed("b")

    assert names(world.graph, replay_of(world, "w").called) == "w"
    assert replay_of(world, "b").called == ()
    assert replay_of(world, "a").called == ()


@pytest.mark.rule("R2.5")
def test_R2_refused_if_a_kept_node_has_been_undone() -> None:
    world = World(saga("a -> b; c; z", undo="ac")).start()
    world.succeed("a")
    world.succeed("c")
    world.fail("z")
    world.drained()
    world.fail("c!undo")
    world.succeed("a!undo")

    assert replay_of(world, "c").refused is Refusal.UNDONE
    assert replay_of(world, "a").refused is None


def test_R2_whoever_knows_more_of_what_was_undone_says_so() -> None:
    world = failed("a -> b", "b", "a")
    plan = plan_replay(world.graph, world.snapshot, "b", undone=[Place("a")])

    assert plan.refused is Refusal.UNDONE


@pytest.mark.rule("R2.3")
def test_R2_foreach_and_call_in_S_start_whole() -> None:
    world = listed(World(with_each("a -> each; each -> b")))
    world.succeed("a")
    world.fail("each[1]")
    plan = replay_of(world, "each")

    assert plan.inside == ()
    assert names(world.graph, plan.anew) == "each"


def test_the_plan_of_a_run_is_the_same_whatever_stands_beside_it() -> None:
    world = failed("a -> b", "b", "a")
    assert retry_of(world) == plan_retry(world.graph, replace(world.snapshot, at=0))
