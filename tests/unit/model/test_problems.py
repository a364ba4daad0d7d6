from __future__ import annotations

from typing import Any

import pytest
from tests.support.graphs import definition, value

from tenuto.model.definition import (
    Call,
    Definition,
    Foreach,
    Handler,
    Node,
    NodeType,
    Work,
)
from tenuto.model.problems import Problem, chain, local_problems


def found(text: str, code: str, **more: Any) -> list[Problem]:
    return [p for p in local_problems(definition(text, **more)) if p.code == code]


# One row per code: the smallest text that causes it, one that just does not, and the edges it points at.
Case = tuple[str, dict[str, Any]]
CASES: list[tuple[str, Case, Case, tuple[int, ...]]] = [
    (
        "switch_edge_without_condition",
        ("s -> a", {"types": {"s": "switch"}}),
        ("s -> a when 'x'; s -> b else; s -failure-> c", {"types": {"s": "switch"}}),
        (0,),
    ),
    (
        "two_else",
        ("s -> a else; s -> b else", {"types": {"s": "switch"}}),
        ("s -> a else; s -> b when 'x'; s -failure-> c else", {"types": {"s": "switch"}}),
        (0, 1),
    ),
    (
        "two_else",
        ("a -failure-> b else; a -failure-> c else", {}),
        ("a -failure-> b else; a -failure-> c when 'x'", {}),
        (0, 1),
    ),
    (
        "else_without_switch",
        ("a -> b when 'x'; a -> c else", {}),
        ("a -> b when 'x'; a -> c; a -failure-> d else", {}),
        (1,),
    ),
    (
        "switch_always_edge",
        ("s -always-> a", {"types": {"s": "switch"}}),
        ("s -> b else; b -always-> a", {"types": {"s": "switch"}}),
        (0,),
    ),
    (
        "fork_edge_with_condition",
        ("f -> a; f -> b when 'x'", {"types": {"f": "fork"}}),
        ("f -> a; f -> b", {"types": {"f": "fork"}}),
        (1,),
    ),
    (
        "fork_edge_with_condition",
        ("f -> a else", {"types": {"f": "fork"}}),
        ("f -> a; a -> b when 'x'", {"types": {"f": "fork"}}),
        (0,),
    ),
    (
        "fail_has_successor",
        ("f -> a", {"types": {"f": "fail"}}),
        ("a -> f", {"types": {"f": "fail"}}),
        (0,),
    ),
    (
        "fail_has_successor",
        ("e -always-> a", {"types": {"e": "end"}}),
        ("a -always-> e", {"types": {"e": "end"}}),
        (0,),
    ),
    ("duplicate_edge", ("a -> b; a -> b", {}), ("a -> b; a -failure-> b", {}), (1, 0)),
    (
        "duplicate_edge",
        ("a -> b when 'x'; a -> b when 'x'", {}),
        ("a -> b when 'x'; a -> b when 'y'", {}),
        (1, 0),
    ),
    (
        "join_cannot_fill",
        ("a -> j; b -> j", {"join": {"j": 3}}),
        ("a -> j; b -> j", {"join": {"j": 2}}),
        (0, 1),
    ),
    (
        "join_cannot_fill",
        ("j -> a; a -> j loop 2", {"join": {"j": 1}}),
        ("s -> j; j -> a; a -> j loop 2", {"join": {"j": 1}}),
        (),
    ),
    (
        "join_cannot_fill",
        ("s -> j when 'x'; s -> j else", {"types": {"s": "switch"}, "join": {"j": 2}}),
        ("s -> j when 'x'; s -> j else; b -> j", {"types": {"s": "switch"}, "join": {"j": 2}}),
        (0, 1),
    ),
    (
        "join_cannot_fill",
        ("a -failure-> j when 'x'; a -failure-> j else", {"join": {"j": 2}}),
        ("a -failure-> j when 'x'; a -failure-> j when 'y'", {"join": {"j": 2}}),
        (0, 1),
    ),
    (
        "optional_with_failure_edge",
        ("a -> b; a -failure-> c", {"optional": ["a"]}),
        ("a -> b; a -always-> c", {"optional": ["a"]}),
        (1,),
    ),
    (
        "switch_without_else",
        ("s -> a when 'x'; s -failure-> b else", {"types": {"s": "switch"}}),
        ("s -> a when 'x'; s -> b else", {"types": {"s": "switch"}}),
        (),
    ),
    (
        "all_edges_conditional",
        ("a -> b when 'x'; a -> c when 'y'; a -failure-> d", {}),
        ("a -> b when 'x'; a -always-> c; d -failure-> e when 'z'", {}),
        (0, 1),
    ),
]
WARNINGS = {"switch_without_else", "all_edges_conditional"}


@pytest.mark.rule("T5.2", "F3.1", "F4.1", "V3.1")
@pytest.mark.parametrize(("code", "wrong", "right", "edges"), CASES)
def test_a_problem_is_found_where_it_is_and_not_just_beside(
    code: str, wrong: Case, right: Case, edges: tuple[int, ...]
) -> None:
    problems = found(wrong[0], code, **wrong[1])

    assert [p.edges for p in problems] == [edges]
    assert problems[0].nodes
    assert problems[0].hint
    assert problems[0].warning == (code in WARNINGS)
    assert found(right[0], code, **right[1]) == []


def test_hints_name_the_smallest_repair() -> None:
    (few,) = found("a -> j; b -> j", "join_cannot_fill", join={"j": 3})
    (lone,) = found("j", "join_cannot_fill", join={"j": 1})
    (switch,) = found(
        "s -> j when 'x'; s -> j else",
        "join_cannot_fill",
        types={"s": "switch"},
        join={"j": 2},
    )

    assert few.hint == "write `join: 2`, or lead more edges to it"
    assert lone.hint == "remove `join`"
    assert switch.hint == "write `join: any`"
    (failures,) = found(
        "a -failure-> j when 'x'; a -failure-> j when 'y'; a -failure-> j else",
        "join_cannot_fill",
        join={"j": 3},
    )
    assert failures.message == "`j` waits for 3 tokens, but `a` sends 2"
    assert failures.hint == "write `join: 2`"


def test_a_chain_of_up_to_eight_is_written_in_full() -> None:
    of = definition("; ".join(f"n{n}" for n in range(9)))

    assert chain(of, range(8)) == "`n0 → n1 → n2 → n3 → n4 → n5 → n6 → n7`"
    assert chain(of, range(9)) == "`n0 → n1 → n2 → n3 → n4 → n5 → … → n7 → n8`"


# --- compensate_inside_only ------------------------------------------------------------------------------

UNDO = Handler(NodeType.TASK, Work("undo", value("{}")))


@pytest.mark.rule("C3.5", "V4.1")
@pytest.mark.parametrize("is_each", [False, True])
@pytest.mark.parametrize(
    ("outer", "inner", "told"), [(None, UNDO, True), (UNDO, UNDO, False), (None, None, False)]
)
def test_c3_a_graph_with_compensations_needs_one_around_it(
    outer: Handler | None, inner: Handler | None, *, is_each: bool, told: bool
) -> None:
    call = Call(None, 0, value("{}"))
    node = Node("n", NodeType.CALL, call, compensate=outer)
    if is_each:
        node = Node("n", NodeType.FOREACH, Foreach(call, value("l")), compensate=outer)
    step = Node("x", NodeType.TASK, Work("t", value("{}")), compensate=inner)
    within = Definition("test", (step,), (), inline=True)

    problems = list(local_problems(Definition("test", (node,), (), inlines=(within,))))

    assert [(p.code, p.nodes, p.warning) for p in problems] == (
        [("compensate_inside_only", (0,), True)] if told else []
    )
