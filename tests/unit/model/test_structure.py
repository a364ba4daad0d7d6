from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from tests.support.graphs import definition, detail, graph, index_of, key, value
from tests.support.shapes import (
    always_passes,
    body_of,
    definitions,
    dominates,
    forward_of,
    starts,
    walk,
    ways_out,
)

from tenuto.model.definition import NESTING_MAX, Call, Definition, Edge, Emit, Node, NodeType
from tenuto.model.graph import Graph, Loop
from tenuto.model.structure import (
    Ancestry,
    Problem,
    analyse,
    is_ancestor,
    is_descendant_inside,
)


def found(text: str, code: str, **more: Any) -> list[Problem]:
    return [p for p in analyse(definition(text, **more)).problems if p.code == code]


def one(text: str, code: str, **more: Any) -> Problem:
    problems = found(text, code, **more)
    assert len(problems) == 1, problems
    return problems[0]


def named(of: Graph, nodes: Iterable[int]) -> set[str]:
    return {of.definition.nodes[node].id for node in nodes}


# --- by brute force ----------------------------------------------------------------------------------


def innermost(loops: tuple[Loop, ...], node: int) -> Loop | None:
    """The smallest loop around a node that is not its header."""
    around = [loop for loop in loops if node in loop.body and node != loop.header]
    return min(around, key=lambda loop: len(loop.body), default=None)


@pytest.mark.rule("L1.2", "L1.3")
@given(definitions())
def test_a_body_is_what_reaches_a_source_without_passing_the_header(any: Definition) -> None:
    structure = analyse(any).structure
    headers = {edge.target for edge in any.edges if edge.loop_max is not None}

    assert structure is not None
    assert sorted(headers) == sorted(loop.header for loop in structure.loops)
    for loop in structure.loops:
        assert body_of(any, loop.header) == loop.body
        assert loop.back == tuple(
            n for n, e in enumerate(any.edges) if e.loop_max and e.target == loop.header
        )
        assert loop.exits == tuple(
            n
            for n, e in enumerate(any.edges)
            if e.loop_max is None and e.source in loop.body and e.target not in loop.body
        )


@pytest.mark.rule("L1.4")
@given(definitions())
def test_loops_nest_or_are_disjoint_and_the_outer_comes_first(any: Definition) -> None:
    structure = analyse(any).structure

    assert structure is not None
    for at, loop in enumerate(structure.loops):
        around = [n for n, other in enumerate(structure.loops) if loop.body < other.body]
        for n, other in enumerate(structure.loops):
            shared = loop.body & other.body
            assert not shared or shared in (loop.body, other.body)
            assert n != at or other is loop
        assert all(n < at for n in around)
        assert loop.parent == max(around, default=None)


def test_who_repeats_a_loop_around_the_dominator_belongs_to_the_race() -> None:
    """`c -> done`, `c -> fix -> start (loop)`: from `fix` every way comes by `c` again, and so to `done`."""
    tasks = [Node(id, NodeType.TASK, detail(id, NodeType.TASK)) for id in ("start", "c", "fix")]
    done = Node("done", NodeType.TASK, detail("done", NodeType.TASK), join=1)
    edges = (Edge(0, 1), Edge(1, 3), Edge(1, 2), Edge(2, 0, loop_max=3))
    structure = analyse(Definition("x", (*tasks, done), edges)).structure

    assert structure is not None
    assert structure.races == {3: frozenset({2})}


@pytest.mark.rule("J3.1")
@settings(max_examples=300)
@given(definitions())
def test_a_race_is_what_the_definition_of_a_race_says(any: Definition) -> None:
    structure = analyse(any).structure
    forward = forward_of(any)
    roots = starts(forward)

    assert structure is not None
    nodes = range(len(any.nodes))
    for join in nodes:
        if not any.nodes[join].join or join in roots:
            assert join not in structure.races
            continue
        strict = [d for d in nodes if d != join and dominates(forward, roots, d, join)]
        near = [d for d in strict if all(dominates(forward, roots, o, d) for o in strict)]
        loop = innermost(structure.loops, join)
        ways = ways_out(any, loop, structure.loops)
        expected = {
            n
            for n in ways
            if n not in (-1, join, *near)
            and all(dominates(forward, roots, d, n) for d in near)
            and not dominates(forward, roots, join, n)
            and always_passes(ways, n, join)
        }
        assert expected == structure.races[join]


@pytest.mark.rule("V2.2")
@given(definitions())
def test_parallel_exits_are_groups_whose_targets_share_no_node_before_the_end(
    any: Definition,
) -> None:
    analysis = analyse(any)
    assert analysis.structure is not None
    expected = set()
    for loop in analysis.structure.loops:
        ways = ways_out(any, loop, analysis.structure.loops)
        inside = loop.body - {loop.header}
        for node in loop.body:
            outs = [e for e in any.edges if e.source == node]
            always = [e for e in outs if e.on == "always"]
            for edges in (
                [e for e in outs if e.on == "success"],
                [e for e in outs if e.on == "failure" and not e.otherwise],
                [e for e in outs if e.on == "failure" and e.otherwise],
            ):
                group = [e.target for e in (*edges, *always)]
                shared = [
                    p
                    for p in loop.body
                    if all(t in inside and always_passes(ways, t, p) for t in group)
                ]
                if len(group) > 1 and not shared:
                    expected.add(node)

    assert expected == {p.nodes[0] for p in analysis.problems if p.code == "loop_parallel_exit"}


@given(definitions())
def test_ancestors_are_what_forward_edges_lead_from(any: Definition) -> None:
    analysis = analyse(any)
    if not analysis.is_legal:
        return
    of = index_of(any)
    forward = forward_of(any)
    ancestry = Ancestry(of)

    for a in range(len(any.nodes)):
        after = walk(forward.__getitem__, forward[a])
        for b in range(len(any.nodes)):
            if a != b:
                assert ancestry.is_ancestor(a, b) == is_ancestor(of, a, b) == (b in after)
            for number, loop in enumerate(of.loops):
                inside = {a, b} <= loop.body and (a == b or b in after)
                assert ancestry.is_descendant_inside(number, a, b) == inside
                assert is_descendant_inside(of, number, a, b) == inside


@given(definitions())
def test_the_same_definition_gives_the_same_analysis(any: Definition) -> None:
    assert analyse(any) == analyse(any)


# --- cycles and reachability ---------------------------------------------------------------------------


@pytest.mark.rule("V1.1")
def test_a_cycle_is_named_from_where_it_is_entered() -> None:
    problem = one("x; s -> b; b -> a; a -> b", "cycle")

    assert problem.message.startswith("`b → a → b` is a cycle; mark the edge that goes back with")
    assert problem.edges == (2, 1)
    assert problem.nodes == (2, 3)
    assert "`a → b` goes back" in problem.hint
    assert analyse(definition("a -> b; b -> a")).structure is None


def test_a_node_that_leads_to_itself_is_a_cycle() -> None:
    assert "`a → a` is a cycle" in one("a -> a", "cycle").message


def test_every_separate_cycle_is_found_at_once() -> None:
    assert len(found("a -> b; b -> a; b -> c; c -> d; d -> c", "cycle")) == 2


def test_a_long_cycle_is_named_shortly() -> None:
    text = "; ".join(f"n{n} -> n{(n + 1) % 100}" for n in range(100))

    assert "n0 → n1 → n2 → n3 → n4 → n5 → … → n99 → n0" in one(text, "cycle").message


@pytest.mark.rule("L1.1")
def test_a_marked_back_edge_is_no_cycle() -> None:
    assert found("a -> b; b -> a loop 3; b -> c", "cycle") == []


def test_a_node_only_behind_a_cycle_that_nothing_enters_is_unreachable() -> None:
    problem = one("a -> b; b -> a; b -> c; c -> d", "unreachable")

    assert problem.nodes == (2, 3)
    assert "`c` and 1 more can never run" in problem.message
    assert found("s -> a; a -> b; b -> a; b -> c", "unreachable") == []


def test_a_node_behind_the_failure_of_a_fork_or_full_join_is_unreachable() -> None:
    types = {"f": "fork", "j": "join"}

    assert one("f -> a; f -failure-> x", "unreachable", types={"f": "fork"}).nodes == (2,)
    assert one("a -> j; j -failure-> x; x -> y", "unreachable", types={"j": "join"}).nodes == (2, 3)
    assert found("a -> j; f -failure-> x; j -> x", "unreachable", types=types) == []


def test_a_node_behind_a_failure_that_can_happen_is_reachable() -> None:
    join = {"types": {"j": "join"}}

    assert found("a -failure-> x", "unreachable") == []
    assert found("a -> j; b -> j; j -failure-> x", "unreachable", join={"j": 1}, **join) == []
    assert found("a -> j; j -> b when 'c'; j -failure-> x", "unreachable", **join) == []
    assert found("a -> j; j -> a loop 2; j -failure-> x", "unreachable", **join) == []


# --- loops -----------------------------------------------------------------------------------------


@pytest.mark.rule("L1.1", "V1.2")
def test_a_loop_is_entered_through_its_header_only() -> None:
    problem = one("s -> h; s -> x; h -> x; x -> y; y -> h loop 3; y -> out", "loop_entry")

    assert problem.message == ("the loop back to `h` can be entered at `x` without passing `h`")
    assert problem.hint == "lead the edge from `s` to `h`"
    assert problem.edges == (4, 1)
    assert analyse(definition("s -> h; s -> x; h -> x; x -> h loop 3")).structure is None
    assert found("s -> h; h -> x; x -> y; y -> h loop 3; y -> out", "loop_entry") == []


@pytest.mark.rule("L1.1")
def test_a_back_edge_that_does_not_go_back_is_told_so() -> None:
    problem = one("a -> b; a -> c loop 3", "loop_entry")

    assert "`a → c` doesn't go back: `c` doesn't lead to `a`" in problem.message
    assert problem.hint == "remove `loop` from this edge"


@pytest.mark.rule("L1.2", "V1.3")
def test_back_edges_to_one_header_have_one_max() -> None:
    text = "h -> a when 'x'; h -> b else; a -> h loop 3; b -> h loop {}; h -failure-> out"
    problem = one(text.format(4), "loop_max_differs", types={"h": "switch"})

    assert problem.edges == (2, 3)
    assert problem.hint == "write `max: 4` on all of them"
    assert found(text.format(3), "loop_max_differs", types={"h": "switch"}) == []


@pytest.mark.rule("V1.3")
def test_a_loop_needs_an_edge_that_leaves_it() -> None:
    problem = one("a -> b; b -> a loop 3", "loop_no_exit")

    assert "no edge leaves the loop of `a`" in problem.message
    assert "from `b`" in problem.hint
    assert found("a -> b; b -> a loop 3; b -failure-> c", "loop_no_exit") == []
    assert len(found("h -always-> h loop 3", "loop_no_exit")) == 1
    assert len(found("a -> b; b -failure-> a loop 3; b -always-> a loop 3", "loop_no_exit")) == 1


@pytest.mark.rule("F4.4")
def test_a_success_that_nothing_follows_is_an_exit_of_a_loop() -> None:
    assert graph("h -failure-> h loop 3").sinks == (0,)
    assert found("a -> b; b -failure-> a loop 3", "loop_no_exit") == []
    assert found("a -> b; b -failure-> r; r -> a loop 3", "loop_no_exit") == []


def test_the_way_back_to_an_outer_header_leaves_an_inner_loop() -> None:
    text = "o -> i; i -> i when 'x' loop 3; i -> o when 'y' loop 4; o -failure-> out"

    assert found(text, "loop_no_exit", types={"i": "switch"}) == []


@pytest.mark.rule("V2.1")
def test_a_branch_inside_a_loop_may_not_leave_it_while_another_runs() -> None:
    text = "h -> a; h -> b; a -> j; b -> j; j -> s; s -> h when 'x' loop 3; s -> out else"
    legal = found(text, "loop_parallel_exit", types={"s": "switch"})
    problem = one(text + "; a -failure-> out", "loop_parallel_exit", types={"s": "switch"})

    assert legal == []
    assert problem.nodes == (0, 1, 2)
    assert problem.message.startswith("`a` and `b` run in parallel inside the loop of `h`")
    assert problem.hint == "let them meet in a join inside the loop"


def test_to_repeat_and_to_leave_are_decided_by_a_switch() -> None:
    problem = one("a -> a when 'x' loop 3; a -> b when 'y'", "loop_parallel_exit")

    assert problem.hint == "lead `a` to a `switch` that decides between them"


@pytest.mark.rule("V2.2")
def test_success_edges_of_a_switch_are_no_group_but_its_failure_edges_are() -> None:
    text = "h -> h when 'x' loop 3; h -> out else"
    also = "; h -failure-> p; h -failure-> q"

    assert found(text, "loop_parallel_exit", types={"h": "switch"}) == []
    assert len(found(text + also, "loop_parallel_exit", types={"h": "switch"})) == 1


def test_of_two_failure_edges_of_which_one_is_else_only_one_is_taken() -> None:
    text = "h -> a; a -failure-> h when 'x' loop 3; a -failure-> gone{}"

    assert found(text.format(" else"), "loop_parallel_exit") == []
    problem = one(text.format(" when 'y'"), "loop_parallel_exit")
    assert problem.hint == "give one of the two failure edges a `when`, the other `else: true`"
    pairs = found(text.format(" else; a -always-> log"), "loop_parallel_exit")
    assert [p.edges for p in pairs] == [(1, 3), (2, 3)]
    problem = one(text.format(" when 'y'; a -failure-> other else"), "loop_parallel_exit")
    assert problem.edges == (1, 2)
    assert "to a `switch` that reads `nodes.a.error`" in problem.hint


@pytest.mark.rule("V2.2")
def test_inner_back_edges_count_as_edges() -> None:
    text = (
        "h -> a; h -> b; a -> a2; a2 -> a when 'x' loop 2; a2 -> j else; b -> j; j -> s; "
        "s -> h when 'y' loop 3; s -> out else"
    )

    assert found(text, "loop_parallel_exit", types={"a2": "switch", "s": "switch"}) == []


def test_more_loops_around_a_node_than_the_limit_are_refused() -> None:
    def nested(depth: int) -> str:
        down = "; ".join(f"n{n} -> n{n + 1}" for n in range(depth))
        return (
            down
            + "; "
            + "; ".join(f"n{depth} -> n{n} when '{n}' loop 2" for n in range(depth))
            + f"; n{depth} -> out else"
        )

    def at(depth: int) -> list[Problem]:
        return found(nested(depth), "loop_too_deep", types={f"n{depth}": "switch"})

    assert at(NESTING_MAX) == []
    assert len(at(NESTING_MAX + 1)) == 1


@pytest.mark.rule("V4.1")
def test_a_long_loop_of_instant_nodes_is_warned_about() -> None:
    text = "h -> h when 'x' loop {}; h -> out else"
    problem = one(text.format(1_001), "loop_without_wait", types={"h": "switch"})

    assert problem.warning
    assert found(text.format(1_000), "loop_without_wait", types={"h": "switch"}) == []
    waiting = "w -> h; h -> w when 'x' loop 1001; h -> out else"
    assert found(waiting, "loop_without_wait", types={"h": "switch", "w": "wait"}) == []
    assert found(waiting, "loop_without_wait", types={"h": "switch", "w": "task"}) == []


def test_an_emit_and_a_call_that_is_not_waited_for_are_no_waits() -> None:
    text = "w -> h; h -> w when 'x' loop 1001; h -> out else"
    types = {"h": "switch", "w": "call"}
    let_go = {"w": Call("child", None, value("{}"), wait=False)}
    waited = {"w": Call("child", None, value("{}"))}

    assert len(found(text, "loop_without_wait", types=types, details=let_go)) == 1
    assert found(text, "loop_without_wait", types=types, details=waited) == []
    emit = {"w": Emit("e", key('"k"'), value("null"))}
    types = {"h": "switch", "w": "emit"}
    assert len(found(text, "loop_without_wait", types=types, details=emit)) == 1


@pytest.mark.rule("L5.3")
@pytest.mark.parametrize(
    ("keeps", "kept", "told"),
    [
        ((None, None), None, False),
        ((2, None), 2, False),
        ((None, 2), 2, False),
        ((2, 2), 2, False),
        ((2, 3), 3, True),
    ],
)
def test_l5_a_loop_keeps_what_one_of_its_back_edges_says(
    keeps: tuple[int | None, int | None], kept: int | None, *, told: bool
) -> None:
    text = "h -> a; h -> b; a -> s; b -> s; s -> h when 'x' loop 4; s -> h when 'y' loop 4; s -> out else"
    of = definition(text, types={"s": "switch"})
    edges = list(of.edges)
    for number, keep in zip((4, 5), keeps, strict=True):
        edges[number] = dataclasses.replace(edges[number], loop_keep=keep)

    analysis = analyse(dataclasses.replace(of, edges=tuple(edges)))

    assert analysis.structure is not None
    assert [loop.keep for loop in analysis.structure.loops] == [kept]
    problems = [p for p in analysis.problems if p.code == "loop_keep_differs"]
    assert [p.edges for p in problems] == ([(4, 5)] if told else [])


# --- races -----------------------------------------------------------------------------------------


def race(text: str, at: str, **more: Any) -> set[str]:
    of = graph(text, **more)
    return named(of, of.races[of.numbers[at]])


@pytest.mark.rule("J3.1")
def test_a_race_lies_between_a_join_and_where_its_branches_part() -> None:
    text = "z -> s; s -> a; s -> b; b -> c; a -> j; c -> j; j -> k"

    assert race(text, "j", join={"j": 1}) == {"a", "b", "c"}


@pytest.mark.rule("J3.1")
def test_roots_race_when_nothing_comes_before_them() -> None:
    assert race("a -> j; b -> j", "j", join={"j": 2}) == {"a", "b"}


@pytest.mark.rule("J3.1", "J3.4")
def test_a_path_that_ends_before_the_join_is_out_of_its_race() -> None:
    text = "s -> a; s -> b; a -> a2; a2 -> j; b -> j; a2 -failure-> x"

    assert race(text, "j", join={"j": 1}) == {"b"}
    assert race(text, "j", join={"j": 1}, types={"x": "fail"}) == {"b"}


def test_a_node_whose_only_way_is_to_repeat_an_inner_loop_stays_in_the_race() -> None:
    text = "s -> h; s -> b; h -> w when 'x'; w -> h loop 3; h -> j else; b -> j"

    assert race(text, "j", join={"j": 1}, types={"h": "switch"}) == {"h", "w", "b"}


def test_a_node_that_only_repeats_the_loop_where_branches_part_is_in_the_race() -> None:
    text = "h -> j when 'x'; h -> a when 'y'; a -> j; h -> w else; w -> h loop 3"

    assert race(text, "j", join={"j": 1}, types={"h": "switch"}) == {"a", "w"}


def test_repeating_the_loop_around_the_join_is_out_of_the_race() -> None:
    text = (
        "h -> a when 'x'; h -> b else; a -> j; a -failure-> c; c -> h loop 3; b -> j; j -> s; "
        "s -> h when 'y' loop 3; s -> out else"
    )
    more = {"types": {"h": "switch", "s": "switch"}, "join": {"j": 1}}

    assert found(text, "loop_parallel_exit", **more) == []
    assert race(text, "j", **more) == {"b"}


def test_a_join_that_starts_a_loop_has_its_race_before_it() -> None:
    text = "s -> a; s -> b; a -> j; b -> j; j -> w; w -> j when 'x' loop 3; w -> out else"

    assert race(text, "j", join={"j": 1}, types={"w": "switch"}) == {"a", "b"}


def test_races_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "s -> a; s -> b; a -> j; b -> j"
    monkeypatch.setattr("tenuto.model.structure.RACES_MAX", 1)

    assert one(text, "races_too_large", join={"j": 1}).nodes == (3,)
    assert found(text, "races_too_large") == []


# --- the whole ---------------------------------------------------------------------------------------


def test_problems_come_in_order_of_nodes() -> None:
    text = "e -> f; s -> a; s -> b when 'x'; f -> g"
    problems = analyse(definition(text, types={"s": "switch", "e": "end"})).problems

    assert [p.code for p in problems] == [
        "end_while_parallel",
        "fail_has_successor",
        "switch_without_else",
        "switch_edge_without_condition",
    ]
    assert not analyse(definition(text, types={"e": "end"})).is_legal


def test_errors_that_leave_order_and_loops_alone_leave_a_structure() -> None:
    analysis = analyse(definition("a -> b; a -> b"))

    assert analysis.structure is not None
    assert not analysis.is_legal


def test_an_empty_definition_has_an_empty_structure() -> None:
    analysis = analyse(Definition("none", (), ()))

    assert analysis.problems == ()
    assert analysis.structure is not None
    assert analysis.structure.order == ()


def test_ten_thousand_nodes_in_a_chain_that_loops_are_analysed() -> None:
    """Deep, and one loop as long: nothing may recurse or grow with the square."""
    last = 9_999
    text = "; ".join(f"n{n} -> n{n + 1}" for n in range(last))
    of = graph(
        f"{text}; n{last} -> n0 when 'x' loop 3; n{last} -> out else", types={f"n{last}": "switch"}
    )
    ancestry = Ancestry(of)

    assert len(of.loops[0].body) == last + 1
    assert ancestry.is_ancestor(0, last)
    assert not ancestry.is_ancestor(last, 0)
    assert is_ancestor(of, last - 1, last)


def test_ten_thousand_branches_that_race_are_analysed() -> None:
    width = 9_998
    text = "; ".join(f"s -> n{n}; n{n} -> j" for n in range(width))
    of = graph(text, join={"j": 1})

    assert len(of.races[of.numbers["j"]]) == width
