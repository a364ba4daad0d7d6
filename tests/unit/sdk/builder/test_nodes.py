"""`>>` between nodes, lists and ends of nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto import InvalidDefinition, Workflow
from tenuto.sdk.builder.nodes import Group, Node, Port


@pytest.fixture
def wf() -> Workflow:
    """A workflow with the nodes a to e."""
    workflow = Workflow("w")
    for id in "abcde":
        workflow.fork(id)
    return workflow


def edges(wf: Workflow) -> Any:
    return wf.to_dict()["edges"]


def test_one_node_leads_to_another_and_on(wf: Workflow) -> None:
    last = wf["a"] >> wf["b"] >> wf["c"]

    assert last is wf["c"]
    assert edges(wf) == ["a -> b", "b -> c"]


def test_lists_and_tuples_stand_side_by_side(wf: Workflow) -> None:
    end = wf["a"] >> [wf["b"], wf["c"]] >> wf["d"]

    assert end is wf["d"]
    assert edges(wf) == ["a -> b", "a -> c", "b -> d", "c -> d"]
    assert [wf["a"], wf["b"]] >> wf["e"] is wf["e"]
    assert isinstance(wf["d"] >> (wf["e"],), Group)


def test_a_list_leads_to_a_list_by_every_pair(wf: Workflow) -> None:
    wf["a"] >> [wf["b"], wf["c"]] >> [wf["d"], wf["e"]]

    assert edges(wf)[2:] == ["b -> d", "b -> e", "c -> d", "c -> e"]


def test_ends_say_what_they_follow(wf: Workflow) -> None:
    a, b, c, d, e = (wf[id] for id in "abcde")
    a.on_failure >> b
    a.on_success >> c
    a.always >> d
    a.when("input.n > 1") >> e
    a.otherwise >> b
    a.on_failure.when("error.code == 'x'") >> c
    a.on_failure.otherwise >> d
    a.when(wf.input.ok) >> c

    assert edges(wf) == [
        {"from": "a", "to": "b", "on": "failure"},
        "a -> c",
        {"from": "a", "to": "d", "on": "always"},
        {"from": "a", "to": "e", "when": "input.n > 1"},
        {"from": "a", "to": "b", "else": True},
        {"from": "a", "to": "c", "on": "failure", "when": "error.code == 'x'"},
        {"from": "a", "to": "d", "on": "failure", "else": True},
        {"from": "a", "to": "c", "when": "input.ok"},
    ]


def test_a_chain_may_lead_to_an_end_and_go_on_from_there(wf: Workflow) -> None:
    a, b, c, d, e = (wf[id] for id in "abcde")
    end = a >> b.when("true")
    end >> [c, d.on_failure] >> e

    assert isinstance(end, Port)
    assert edges(wf) == [
        "a -> b",
        {"from": "b", "to": "c", "when": "true"},
        {"from": "b", "to": "d", "when": "true"},
        "c -> e",
        {"from": "d", "to": "e", "on": "failure"},
    ]


def test_loops_lead_back_with_their_bound(wf: Workflow) -> None:
    a, b = wf["a"], wf["b"]
    b.loop(back_to=a, max=5)
    b.loop(back_to=a, max=6, when="input.n > 1")
    b.otherwise.loop(back_to=a, max=7)
    b.on_failure.loop(back_to=a, max=8)

    assert edges(wf) == [
        {"from": "b", "to": "a", "loop": {"max": 5}},
        {"from": "b", "to": "a", "when": "input.n > 1", "loop": {"max": 6}},
        {"from": "b", "to": "a", "else": True, "loop": {"max": 7}},
        {"from": "b", "to": "a", "on": "failure", "loop": {"max": 8}},
    ]


def test_what_a_node_leaves_is_named() -> None:
    node = Workflow("w").fork("a")

    assert [str(ref) for ref in (node.output.x, node.error, node.status, node.attempts, node.iteration)] == [
        "${nodes.a.output.x}",
        "${nodes.a.error}",
        "${nodes.a.status}",
        "${nodes.a.attempts}",
        "${nodes.a.iteration}",
    ]  # fmt: skip


def _foreign(wf: Workflow) -> Node:
    return Workflow("other").fork("x")


@pytest.mark.parametrize(
    ("draw", "code", "said"),
    [
        (lambda wf: wf["a"] >> "b", "edge_form", "`>>` joins nodes, and 'b' is none"),
        (lambda wf: "b" >> wf["a"], "edge_form", "or write `wf['b']`"),
        (lambda wf: wf["a"] >> None, "edge_form", "`>>` joins nodes, and None is none"),
        (lambda wf: wf["a"] >> [], "edge_form", "leads to an empty list"),
        (lambda wf: wf["a"] >> [wf["b"], "c"], "edge_form", "'c' is none"),
        (lambda wf: wf["a"] >> [[wf["b"]]], "edge_form", "a list in a list"),
        (lambda wf: wf["a"] >> wf["b"].output, "edge_form", "`>>` joins nodes"),
        (lambda wf: wf["a"] >> _foreign(wf), "unknown_node", "`x` is a node of another workflow"),
        (lambda wf: _foreign(wf) >> wf["a"], "unknown_node", "`a` is a node of another workflow"),
        (lambda wf: wf["a"].loop(back_to="b", max=3), "edge_form", "'b' is none"),
        (lambda wf: wf["a"].when(""), "condition_type", "when('') is no condition"),
        (lambda wf: wf["a"].when(True), "condition_type", "when(True) is no condition"),
        (lambda wf: wf["a"].when("x").when("y"), "else_with_when", "has a condition already"),
        (lambda wf: wf["a"].when("x").otherwise, "else_with_when", "has a condition already"),
    ],
)
def test_a_mistake_is_told_at_the_line_that_makes_it(
    wf: Workflow, draw: Any, code: str, said: str
) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        draw(wf)

    [found] = caught.value.findings
    assert found.code == code  # type: ignore[attr-defined]
    assert said in str(caught.value)
    assert "test_nodes.py:" in str(caught.value)


def test_an_end_that_leads_nowhere_is_told_at_its_line() -> None:
    with pytest.raises(InvalidDefinition) as caught, Workflow("w") as wf:
        wf.fork("a").when("input.n > 1")

    assert "an end of `a` (when: input.n > 1) leads nowhere" in str(caught.value)
    assert "lead it on with `>> node`" in str(caught.value)
