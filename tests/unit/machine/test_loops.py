"""L and T7: back edges, passes, withheld tokens, the bound of one decision."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.graphs import definition, graph, index_of, key, value
from tests.support.world import Script, World, text_of

from tenuto.machine.actions import CancelTask, DropPayloads
from tenuto.machine.columns import encode_snapshot
from tenuto.machine.decide import decide, initial
from tenuto.machine.decision import Decision
from tenuto.machine.events import AttemptSucceeded, Event, Rejection, RunStarted, TimerKind
from tenuto.machine.fold import Ledger, Recorded
from tenuto.model.definition import Handler, NodeType, SetValue, Wait, WaitForEvent, Work
from tenuto.model.expressions import (
    Expression,
    ExpressionKind,
    Fault,
    Outcome,
    Read,
    Root,
    Verdict,
)
from tenuto.model.graph import Graph
from tenuto.model.ids import LeaseId, Place, RunId
from tenuto.model.payload import PayloadKind, Text
from tenuto.model.retry import RetryPolicy
from tenuto.model.states import CancelReason, RunState

POLL = "h -> s; s -> h when 'again' loop 3; s -> e else"


def poll(script: list[bool], text: str = POLL) -> World:
    return World(graph(text, types={"s": "switch"}), {"again": script}).start()


@pytest.mark.rule("T1.2")
def test_T1_an_edge_is_decided_once_in_each_pass_of_the_loops_around_its_source() -> None:
    text = "r -> h; h -> a; h -failure-> f; a -> s; s -> h when 'again' loop 3; s -> e else"
    world = poll([True, False], text)
    seen = []
    for id in "rhaha":
        world.succeed(id)
        seen.append(world.edges)

    assert seen == ["t-----", "ttw---", "t-----", "ttw---", "ttdtdt"]


@pytest.mark.rule("L1.2")
def test_L1_back_edges_to_one_header_share_one_counter() -> None:
    text = "h -> a; a -> s; a -failure-> h loop 3; s -> h when 'again' loop 3; s -> e else"
    world = poll([True], text)
    world.succeed("h")
    world.fail("a")
    world.succeed("h")
    world.succeed("a")

    assert world.snapshot.passes == (3,)


@pytest.mark.rule("L2.1", "L2.2")
def test_L2_max_counts_passes_the_first_included() -> None:
    world = poll([True])
    for _ in range(3):
        world.succeed("h")

    assert (world.letters, world.state) == ("sxc", RunState.FAILED)
    assert json.loads(world.error("s.3"))["code"] == "loop_exhausted"


@pytest.mark.rule("L2.2")
def test_L2_used_up_passes_decide_the_edges_once_more_for_dead_without_back_edges() -> None:
    text = "h -> s; s -> h when 'again' loop 1; s -> e else; s -failure-> f"
    world = poll([True], text)
    world.succeed("h")

    assert (world.letters, world.edges) == ("sxka", "tddt")


@pytest.mark.rule("L2.2")
def test_L2_of_used_up_passes_no_back_edge_is_taken_not_even_of_another_loop() -> None:
    text = "o -> s; s -> s when 'again' loop 1; s -> e else; s -failure-> o loop 3"
    world = poll([True], text)
    world.succeed("o")

    assert (world.state, world.snapshot.passes) == (RunState.FAILED, (1, 1))
    assert json.loads(world.error("s.1.1"))["code"] == "loop_exhausted"


@pytest.mark.rule("L2.2")
def test_L2_a_failure_back_edge_that_is_used_up_names_the_failure_as_its_cause() -> None:
    world = World(graph("h -> e; h -failure-> h loop 2")).start()
    world.fail("h", "first")
    world.fail("h", "second")
    error = json.loads(world.error("h.2"))

    assert world.state is RunState.FAILED
    assert (error["code"], error["details"]) == ("loop_exhausted", {"cause": {"code": "second"}})


def test_L2_a_cause_that_is_too_long_is_left_out() -> None:
    world = World(graph("h -> e; h -failure-> h loop 1")).start()
    event = world.failure_of(world.grant("h"))
    long = '{"code":"boom","message":"' + "x" * 1_048_500 + '"}'
    world.accept(replace(event, error=text_of(long)))

    assert json.loads(world.error("h.1"))["details"] is None


@pytest.mark.rule("L3.1")
def test_L3_a_back_edge_resets_the_body_and_starts_the_header() -> None:
    world = poll([True, False])
    world.succeed("h")
    assert (world.letters, world.edges, world.snapshot.passes) == ("a..", "---", (2,))

    world.succeed("h")
    world.succeed("e")

    assert (world.letters, world.edges, world.state) == ("sss", "tdt", RunState.SUCCESS)


@pytest.mark.rule("L3.2", "L3.4")
def test_L3_places_carry_the_pass_so_an_earlier_report_is_stale() -> None:
    world = poll([True])
    lease = world.grant("h")
    world.succeed("h")
    late = world.success_of(lease)

    assert world.send(late).rejected is Rejection.DUPLICATE
    assert world.place("h") == "h.2"
    assert sorted(world.ledger.tasks) == ["h.1", "h.2"]


@pytest.mark.rule("L3.2", "C7.1")
def test_L3_waits_and_timers_carry_the_pass_so_those_of_an_earlier_one_are_stale() -> None:
    detail = WaitForEvent("w", key('"k"'), timeout_us=9)
    text = "w -> s; s -> w when 'again' loop 3; s -> e else; w -failure-> e2"
    world = World(
        graph(text, types={"w": "wait_for_event", "s": "switch"}, details={"w": detail}),
        {"again": True},
    ).start()
    world.put_message("w")
    matched, timer = world.match(), world.firing_of(world.timer("w", TimerKind.EVENT))
    assert matched is not None
    world.accept(matched)

    assert list(world.ledger.waits) == ["w.2"]
    assert set(world.ledger.timers) == {("w.2", TimerKind.EVENT)}
    assert world.send(matched).rejected is Rejection.STALE
    assert world.send(timer).rejected is Rejection.STALE


@pytest.mark.rule("L3.1", "L3.2")
def test_L3_a_race_loser_still_active_is_cancelled_by_the_reset() -> None:
    text = "h -> a; h -> b; a -> j; b -> j; j -> s; s -> h when 'again' loop 2; s -> e else"
    world = World(
        graph(text, types={"s": "switch", "j": "join"}, join={"j": 1}), {"again": [True, False]}
    ).start()
    world.succeed("h")
    lease = world.grant("b")
    world.succeed("a")

    assert (world.letters[:3], world.snapshot.passes) == ("a..", (2,))
    assert CancelTask(Place("b.1"), CancelReason.RESET) in world.decision.actions
    assert world.task("b.1").state == "cancelled"
    assert world.send(world.failure_of(lease)).rejected is Rejection.STALE
    world.accept(world.success_of(lease))
    assert world.letter("b") == "."


@pytest.mark.rule("L3.1", "L3.4")
def test_L3_counters_of_inner_loops_become_one() -> None:
    text = "o -> i; i -> s; s -> i when 'inner' loop 5; s -> t else; t -> o when 'outer' loop 5; t -> e else"
    world = World(
        graph(text, types={"s": "switch", "t": "switch"}),
        {"inner": [True, True, False, False], "outer": [True, False]},
    ).start()
    world.succeed("o")
    for _ in range(3):
        world.succeed("i")
    assert (world.snapshot.passes, world.place("i")) == ((2, 1), "i.2.1")

    world.succeed("o")
    world.succeed("i")
    world.succeed("e")

    assert world.state is RunState.SUCCESS


@pytest.mark.rule("L3.1")
def test_L3_a_restarted_header_does_not_wait_for_its_join() -> None:
    text = "r -> h; q -> h; h -> s; s -> h when 'again' loop 2; s -> e else"
    world = World(
        graph(text, types={"s": "switch"}, join={"h": 2}), {"again": [True, False]}
    ).start()
    world.succeed("r")
    world.succeed("q")
    world.succeed("h")

    assert (world.letter("h"), world.snapshot.passes) == ("a", (2,))


@pytest.mark.rule("T3.1")
def test_L3_a_header_whose_join_cannot_fill_does_not_begin_its_first_pass() -> None:
    text = "r -> h; q -> h when 'no'; h -> s; s -> h when 'again' loop 2; s -> e else"
    world = World(graph(text, types={"s": "switch"}, join={"h": 2}), {"no": False}).start()
    world.succeed("r")
    world.succeed("q")

    assert (world.letter("h"), world.state) == ("x", RunState.FAILED)


@pytest.mark.rule("T1.1", "L4.1", "L4.2")
def test_L4_a_dead_token_is_withheld_until_the_loop_is_closed() -> None:
    text = "h -> a; h -failure-> f; a -> s; s -> h when 'again' loop 3; s -> e else"
    world = poll([True, False], text)
    world.succeed("h")
    assert (world.letter("f"), world.edges) == (".", "tw---")

    world.succeed("a")
    world.succeed("h")
    assert (world.letter("f"), world.edges) == (".", "tw---")

    world.succeed("a")

    assert (world.letter("f"), world.edges) == ("k", "tdtdt")


@pytest.mark.rule("L4.1")
def test_L4_a_taken_token_leaves_at_once() -> None:
    world = poll(
        [True, False], "h -> a; h -failure-> f; a -> s; s -> h when 'again' loop 3; s -> e else"
    )
    world.fail("h")

    assert (world.letter("f"), world.letter("e"), world.letter("s")) == ("a", "k", "k")


@pytest.mark.rule("L4.1")
def test_L4_a_token_that_leaves_two_loops_is_withheld_until_both_are_closed() -> None:
    text = (
        "o -> i; i -> s; i -failure-> f; s -> i when 'inner' loop 5; s -> t else;"
        "t -> o when 'outer' loop 5; t -> e else"
    )
    world = World(
        graph(text, types={"s": "switch", "t": "switch"}),
        {"inner": False, "outer": [True, False]},
    ).start()
    world.succeed("o")
    world.succeed("i")
    assert (world.letter("f"), world.snapshot.passes) == (".", (2, 1))

    world.succeed("o")
    world.succeed("i")

    assert world.letter("f") == "k"


@pytest.mark.rule("L4.1")
def test_L4_a_back_edge_of_an_outer_loop_is_withheld_while_an_inner_one_may_run_again() -> None:
    """`a` fails in the inner loop's first pass; in its second it may still send the outer loop round."""
    text = "o -> a; o -failure-> x; a -failure-> b; b -> a loop 2; a -> o loop 2"
    world = World(graph(text, types={"b": "set"})).start()
    world.succeed("o")
    world.fail("a")
    assert (world.letter("x"), world.edges, world.snapshot.passes) == (".", "tw---", (1, 2))

    world.succeed("a")
    assert (world.letters, world.snapshot.passes) == ("a...", (2, 1))

    world.fail("o")

    assert (world.letter("x"), world.edges[2:]) == ("a", "ddd")


@pytest.mark.rule("L4.2")
def test_L4_a_loop_is_open_while_one_of_its_back_edges_may_be_taken() -> None:
    text = (
        "h -> a; h -failure-> f; a -> b; a -failure-> h loop 3; b -> s; s -> h when 'again' loop 3;"
        "s -> e else"
    )
    world = poll([True, False], text)
    world.succeed("h")
    world.succeed("a")
    assert (world.letter("f"), world.edges[3]) == (".", "d")
    world.succeed("b")
    world.fail("h")

    assert world.letter("f") == "a"


@pytest.mark.rule("L4.2")
def test_L4_closing_an_inner_loop_may_close_the_outer_one() -> None:
    text = (
        "o -> a; o -failure-> x; a -> s; s -> a when 'inner' loop 2; s -> o when 'outer' loop 2;"
        "s -> e else"
    )
    world = World(graph(text, types={"s": "switch"}), {"inner": False, "outer": False}).start()
    world.succeed("o")
    world.succeed("a")

    assert (world.letter("x"), world.letter("e"), world.edges) == ("k", "a", "tdtddt")


@pytest.mark.rule("L4.2")
def test_L4_a_skipped_header_closes_its_loop() -> None:
    world = World(graph("r -> h when 'x'; " + POLL, types={"s": "switch"}), {"x": False}).start()
    world.succeed("r")

    assert (world.letters, world.edges) == ("skkk", "dddd")
    assert world.state is RunState.SUCCESS


@pytest.mark.rule("L5.1")
def test_L5_a_record_is_replaced_as_a_whole_also_by_skipped() -> None:
    text = "h -> a when 'first'; a -> s; h -> s; s -> h when 'again' loop 2; s -> e else"
    world = World(
        graph(text, types={"s": "switch"}), {"first": [True, False], "again": [True, False]}
    ).start()
    world.succeed("h")
    world.succeed("a", "1")
    world.succeed("h")
    a = world.graph.numbers["a"]

    assert (world.snapshot.records[a].letter, world.snapshot.records[a].passes) == ("k", (2,))


def test_L5_a_failure_back_edge_tries_the_body_again() -> None:
    world = World(graph("h -> a; a -> e; a -failure-> h loop 3")).start()
    world.succeed("h")
    world.fail("a")
    world.succeed("h")
    world.succeed("a")
    world.succeed("e")

    assert (world.letters, world.state, world.snapshot.failures) == ("sss", RunState.SUCCESS, ())


# -- T7 -----------------------------------------------------------------------------------------------------------


def instant(max: int, again: object, *, detail: SetValue | None = None) -> World:
    text = f"c -> s; s -> c when 'again' loop {max}; s -> e else"
    return World(
        graph(
            text,
            types={"c": "set", "s": "switch", "e": "set"},
            details={"c": detail or SetValue(value("1", "c"))},
        ),
        {"again": again},  # type: ignore[dict-item]
    )


@pytest.mark.rule("T7.1", "T7.2")
def test_T7_an_event_is_decided_to_its_fixpoint() -> None:
    types = {
        "a": "set",
        "f": "fork",
        "b": "set",
        "w": "wait",
        "j": "join",
        "s": "switch",
        "x": "end",
    }
    world = World(
        graph(
            "a -> f; f -> b; f -> w; b -> j; w -> j; j -> s; s -> x else",
            types=types,
            details={"w": Wait(for_us=0)},
        )
    ).start()

    assert (world.letters, world.state, world.snapshot.seq) == ("sssssss", RunState.SUCCESS, 1)


@pytest.mark.rule("T7.1")
def test_T7_woken_nodes_are_taken_in_topological_order() -> None:
    """`j` stands before `b` in the file; were it looked at first, it would act without the token of `b`."""
    types = {"r": "set", "b": "set", "j": "join"}
    world = World(graph("r -> j; r -> b; b -> j", types=types, join={"j": 1})).start()

    assert world.output() == {"j": {"r": "1", "b": "1"}}


@pytest.mark.rule("T7.3")
def test_T7_at_most_100_back_edges_are_taken_in_one_decision() -> None:
    """999 back edges: the first event takes 100, nine more the rest; each postponed condition is asked twice."""
    world = instant(1_000, lambda scope, call: call < 1_000 + 9).start()
    assert (world.letters, world.snapshot.passes) == ("sa.", (101,))
    assert set(world.ledger.timers) == {("s.101", TimerKind.CONTINUE)}

    events = world.go_on()

    assert (world.letters, world.state) == ("sss", RunState.SUCCESS)
    assert (world.snapshot.passes, events) == ((1_000,), 9)


@pytest.mark.rule("T7.3")
def test_T7_exactly_100_back_edges_need_no_second_event() -> None:
    world = instant(1_000, lambda scope, call: call < 101).start()

    assert (world.state, world.snapshot.passes, world.snapshot.seq) == (RunState.SUCCESS, (101,), 1)


def test_T7_the_used_up_loop_ends_over_several_events_too() -> None:
    world = instant(250, True).start()
    world.go_on()

    assert (world.state, world.snapshot.passes) == (RunState.FAILED, (250,))


@pytest.mark.rule("T7.3")
def test_T7_the_internal_event_is_stale_once_it_finds_another_state() -> None:
    world = instant(1_000, True).start()
    timer = world.timer("s.101", TimerKind.CONTINUE)
    event = world.firing_of(timer)
    world.accept(event)

    assert world.send(event).rejected is Rejection.STALE
    world.cancel()
    assert world.send(event).rejected is Rejection.STALE
    assert not world.ledger.timers


@pytest.mark.rule("T7.3")
def test_T7_a_postponed_set_is_evaluated_again_by_the_internal_event() -> None:
    """The 101st back edge is the set's own: what it put is taken back."""
    read = Expression(ExpressionKind.VALUE, "n", "c", (Read(Root.NODES, "c", "output"),))
    world = World(
        graph(
            "c -> c when 'again' loop 500; c -failure-> e",
            types={"c": "set", "e": "set"},
            details={"c": SetValue(read)},
        ),
        {"again": lambda scope, call: call < 150, "n": lambda scope, call: str(call)},
    ).start()
    assert (world.letter("c"), world.snapshot.passes) == ("a", (101,))
    assert world.payload("c", PayloadKind.OUTPUT) is None

    world.go_on()

    assert world.state is RunState.SUCCESS


def test_T7_a_wait_in_a_loop_takes_one_event_in_each_pass() -> None:
    text = "c -> w; w -> c when 'again' loop 500; w -failure-> e"
    world = World(
        graph(text, types={"c": "set", "w": "wait_for_event", "e": "set"}), {"again": True}
    )
    for payload in ("1", "2"):
        world.put_message("w", payload=payload)
    world.start()
    assert (world.letter("w"), world.snapshot.passes, world.mailbox) == ("a", (3,), [])
    assert [world.payload(f"w.{n}", PayloadKind.OUTPUT) for n in (1, 2)] == ["1", "2"]

    world.post("w", payload="3")

    assert (world.snapshot.passes, world.mailbox) == ((4,), [])


def test_T7_a_postponed_wait_for_event_gives_its_message_back() -> None:
    text = "c -> w; w -> c when 'again' loop 500; w -failure-> e"
    world = World(
        graph(text, types={"c": "set", "w": "wait_for_event", "e": "set"}), {"again": True}
    )
    messages = [world.put_message("w") for _ in range(102)]
    world.start()
    assert (world.letter("w"), world.snapshot.passes) == ("a", (101,))
    assert [m.message_id for m in world.mailbox] == messages[100:]

    world.go_on()

    assert (world.snapshot.passes, world.mailbox) == ((103,), [])


def test_T7_a_message_found_by_the_postponed_node_stays_in_the_mailbox() -> None:
    """A loop of 101 passes without the mailbox, then the wait's own back edge is the one too many."""
    text = (
        "h -> c; c -> c2; c2 -> s; s -> c when 'inner' loop 200; s -> w else;"
        "w -> h when 'outer' loop 9; w -failure-> e"
    )
    world = World(
        graph(
            text,
            types={
                "h": "set",
                "c": "set",
                "c2": "set",
                "s": "switch",
                "w": "wait_for_event",
                "e": "set",
            },
            details={"w": WaitForEvent("w", key('"k"'))},
        ),
        {"inner": lambda scope, call: call <= 100, "outer": [True, True, False]},
    )
    message = world.put_message("w")
    world.start()
    assert (world.letter("w"), world.snapshot.passes) == ("a", (1, 101))
    assert [m.message_id for m in world.mailbox] == [message]
    assert not world.ledger.waits

    world.go_on()

    assert (world.snapshot.passes, world.mailbox) == ((2, 1), [])


def test_T7_a_postponed_failure_ends_by_the_internal_event() -> None:
    """Its error is taken back with the rest, and put again."""
    fault = Fault("expression_error", "no")
    world = World(
        graph(
            "c -> e; c -failure-> c loop 500",
            types={"c": "set", "e": "set"},
            details={"c": SetValue(value("v", "c"))},
        ),
        {"v": lambda scope, call: fault if call < 120 else "1"},
    ).start()
    assert world.letter("c") == "a"
    assert world.payload("c", PayloadKind.ERROR) is None

    world.go_on()

    assert world.state is RunState.SUCCESS


@pytest.mark.rule("T7.3")
def test_T7_a_task_in_the_loop_starts_the_count_anew() -> None:
    text = "c -> t; t -> c when 'again' loop 500; t -failure-> e"
    world = World(
        graph(text, types={"c": "set"}), {"again": lambda scope, call: call < 150}
    ).start()
    for _ in range(150):
        world.succeed("t")

    assert (world.state, world.snapshot.passes) == (RunState.SUCCESS, (150,))


@pytest.mark.rule("T7.2", "T7.4")
def test_T7_nothing_is_activated_once_the_outcome_is_decided() -> None:
    world = World(graph("r -> x; r -> a", types={"r": "set", "x": "fail"})).start()

    assert (world.letters, world.state) == ("sxc", RunState.FAILED)
    assert not world.ledger.tasks


@pytest.mark.parametrize("max_attempts", [1, 3])
def test_L3_each_pass_has_its_attempts_anew(max_attempts: int) -> None:
    world = World(
        graph(
            "h -> e; h -failure-> h loop 2",
            details={"h": Work("h", value("{}"), retry=RetryPolicy(max_attempts=max_attempts))},
        )
    ).start()
    for _ in range(max_attempts - 1):
        world.fail("h")
        world.fire("h", TimerKind.BACKOFF)
    world.fail("h")

    assert (world.place("h"), world.task("h").attempt) == ("h.2", 1)


# -- L5: what is kept, what is listed -----------------------------------------------------------------------------


def keeping(text: str, keep: int, **types: str) -> Graph:
    """The graph of a text whose back edges all say `keep`."""
    plain = definition(text, types=types)
    edges = tuple(
        replace(edge, loop_keep=keep) if edge.loop_max is not None else edge for edge in plain.edges
    )
    return index_of(replace(plain, edges=edges))


def dropped(decision: Decision) -> list[str]:
    return [p for a in decision.actions if isinstance(a, DropPayloads) for p in a.places]


@pytest.mark.rule("L5.3")
def test_L5_keep_bounds_what_the_passes_leave() -> None:
    world = World(
        keeping("h -> s; s -> h when 'again' loop 9; s -> e else", 2, s="switch"), {"again": True}
    ).start()
    found = [dropped(world.succeed("h")) for _ in range(5)]

    assert found == [[], [], ["h.1", "s.1"], ["h.2", "s.2"], ["h.3", "s.3"]]


def test_L5_without_keep_all_passes_are_kept() -> None:
    world = poll([True])
    assert not any(dropped(world.succeed("h")) for _ in range(2))


def test_L5_an_inner_loop_drops_its_own_passes_and_an_outer_one_all_of_them() -> None:
    text = "o -> i; i -> s; s -> i when 'in' loop 5; s -> t else; t -> o when 'out' loop 5; t -> e else"
    script: Script = {"in": [True, True, False, False, False], "out": True}
    world = World(keeping(text, 1, s="switch", t="switch"), script).start()
    world.succeed("o")
    assert dropped(world.succeed("i")) == []
    assert dropped(world.succeed("i")) == ["i.1.1", "s.1.1"]
    world.succeed("i")
    world.succeed("o")

    assert dropped(world.succeed("i")) == ["o.1", "i.1", "s.1", "t.1"]


@pytest.mark.rule("L5.2")
def test_L5_keep_never_drops_what_a_due_compensation_reads() -> None:
    plain = definition(
        "h -> b; b -> s; s -> h when 'again' loop 9; s -> e else", types={"s": "switch"}
    )
    edges = tuple(replace(edge, loop_keep=1) if edge.loop_max else edge for edge in plain.edges)
    handler = Handler(NodeType.TASK, Work("undo", value("{}")))
    nodes = (replace(plain.nodes[0], compensate=handler), *plain.nodes[1:])
    world = World(index_of(replace(plain, edges=edges, nodes=nodes)), {"again": True}).start()
    for _ in range(4):
        world.succeed("h")
        assert dropped(world.succeed("b")) == []


def test_L5_keep_never_drops_the_error_that_a_run_ends_with() -> None:
    graph = keeping("h -always-> s; s -> h when 'again' loop 9; s -> e else", 1, s="switch")
    world = World(graph, {"again": [True, True, True, False]}).start()
    world.fail("h", "first")
    assert dropped(world.succeed("h")) == []
    assert dropped(world.succeed("h")) == ["h.2", "s.2"]
    world.succeed("h")
    world.succeed("e")

    assert world.state is RunState.FAILED
    assert world.settled is not None
    assert world.read(world.settled.error) == '{"code":"first"}'


def test_L5_after_a_retry_all_names_of_a_pass_are_dropped() -> None:
    world = World(
        keeping("h -> s; s -> h when 'again' loop 9; s -> e else", 1, s="switch"), {"again": True}
    ).start()
    world.succeed("h")
    world.fail("h")
    world.retry()
    world.succeed("h")

    assert dropped(world.succeed("h")) == ["h.1", "h.1~2", "s.1", "s.1~2"]


@pytest.mark.rule("L5.3")
def test_L5_iterations_lists_the_passes_of_a_node_to_a_reader_outside() -> None:
    reads = Expression(
        ExpressionKind.VALUE, "e", "nodes.e.params", (Read(Root.NODES, "h", "iterations"),)
    )
    text = "h -> s; s -> h when 'again' loop 9; s -> e else"
    g = graph(text, types={"s": "switch"}, details={"e": Work("e", reads)})
    world = World(g, {"again": [True, False], "e": "{}"}).start()
    world.succeed("h")
    world.succeed("h")

    view = world.last_asked("nodes.e.params").scope.nodes[0]
    assert view.passes == ("h.", 1, 1)


@pytest.mark.rule("L5.1")
def test_L5_a_node_has_one_record_replaced_as_a_whole_when_it_ends() -> None:
    world = poll([True, False])
    world.succeed("h")
    h = world.graph.numbers["h"]
    assert world.snapshot.records[h].passes == (1,)
    world.fail("h")

    assert (world.snapshot.records[h].passes, world.snapshot.records[h].letter) == ((2,), "x")


@pytest.mark.rule("L5.1")
def test_L5_a_record_is_replaced_by_skipped_and_cancelled_too() -> None:
    text = (
        "h -> a when 'left'; h -> b else; a -> s; b -> s; s -> h when 'again' loop 3; s -> e else"
    )
    world = World(
        graph(text, types={"h": "switch", "s": "switch"}), {"left": [True, False], "again": True}
    ).start()
    world.succeed("a")
    numbers = world.graph.numbers
    world.cancel()

    assert world.snapshot.records[numbers["a"]].letter == "k"
    assert world.snapshot.records[numbers["b"]].letter == "c"


def test_a_loop_of_10_000_passes_costs_the_same_in_each() -> None:
    """What a decision writes and what the state holds do not grow with the passes."""
    text = "h -> s; s -> h when 'again' loop 20000; s -> e else"
    g = keeping(text, 3, s="switch")
    snapshot, ledger = initial(RunId("r"), g), Ledger()

    def step(event: Event, *outcomes: Outcome) -> Decision:
        nonlocal snapshot
        found = decide(g, snapshot, ledger.rows(), event, Recorded(outcomes))
        assert isinstance(found, Decision)
        snapshot = found.snapshot
        ledger.tasks.clear()
        ledger.apply(found.actions)
        return found

    step(RunStarted(at=1), Text(2))
    sizes = {}
    for number in range(1, 10_001):
        done = AttemptSucceeded(
            at=1, place=Place(f"h.{number}"), attempt=1, lease_id=LeaseId("l"), output=Text(2)
        )
        found = step(done, Verdict(True), Text(2))
        if number in (10, 9_999):
            sizes[number] = (len(found.actions), len(encode_snapshot(snapshot)[2]))
    few, many = sizes[10], sizes[9_999]

    assert few[0] == many[0]
    assert many[1] - few[1] < 40
