"""A file's keys become a definition: order, numbers, edges in all their forms."""

from __future__ import annotations

import pytest

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load
from tenuto.model.definition import Definition, Edge, On
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.instants import DAY_US

PARSER = CelParser()
TASKS = "name: a\nnodes:\n  a: {type: task, task: t}\n  b: {type: task, task: t}\n  c: {type: task, task: t}\n"


def definition_of(text: str) -> Definition:
    loaded = load(text, file="a.yaml", parser=PARSER)
    assert loaded.graph is not None, loaded.findings
    return loaded.graph.definition


def codes_of(text: str) -> list[str]:
    return [finding.code for finding in load(text, file="a.yaml", parser=PARSER).findings]


@pytest.mark.rule("X1.2")
def test_the_top_of_a_file_is_read() -> None:
    text = (
        "name: order-2.b\ndescription: What it does.\nvars: {b: 1, a: [x]}\n"
        "input: {type: object, required: [x]}\ntimeout: 3d\nnodes: {n: {type: fork}}\n"
        'output: {x: "${input.x}"}\n'
    )

    found = definition_of(text)

    assert found.name == "order-2.b"
    assert found.description == "What it does."
    assert found.vars == '{"b":1,"a":["x"]}'
    assert found.input_schema == '{"type":"object","required":["x"]}'
    assert found.timeout_us == 3 * DAY_US
    assert found.output == Expression(
        ExpressionKind.VALUE, '{"x":"${input.x}"}', "output", (Read(Root.INPUT),)
    )
    assert found.source == text


def test_the_smallest_file_has_the_defaults() -> None:
    found = definition_of("name: a\nnodes: {n: {type: fork}}\n")

    assert (found.description, found.vars, found.input_schema) == ("", "{}", None)
    assert (found.timeout_us, found.output, found.edges) == (None, None, ())


@pytest.mark.rule("T2.1", "T2.2")
def test_t2_edges_are_numbered_by_edges_then_by_needs_in_node_order() -> None:
    text = (
        "name: a\nnodes:\n  z: {type: fork}\n  c: {type: fork, needs: [b, a]}\n"
        "  b: {type: fork, needs: a}\n  a: {type: fork}\nedges:\n  - a -> z\n  - b -> z\n"
    )

    found = definition_of(text)

    ids = [node.id for node in found.nodes]
    assert ids == ["z", "c", "b", "a"]
    assert [(ids[e.source], ids[e.target]) for e in found.edges] == [
        ("a", "z"),
        ("b", "z"),
        ("b", "c"),
        ("a", "c"),
        ("a", "b"),
    ]


@pytest.mark.parametrize("arrow", ["a -> b", "a->b", "'  a  ->  b  '", '"a\\u0020-> b"'])
def test_an_edge_may_be_an_arrow(arrow: str) -> None:
    assert definition_of(TASKS + f"edges:\n  - {arrow}\n").edges == (Edge(0, 1),)


def test_an_edge_may_be_a_mapping_with_all_its_keys() -> None:
    text = (
        "name: a\nnodes:\n  a: {type: task, task: t}\n  s: {type: switch, needs: a}\n"
        "  b: {type: fork}\n  c: {type: fork}\n  d: {type: fork}\n"
        "  f: {type: task, task: t}\nedges:\n"
        "  - {from: s, to: a, when: input.x, loop: {max: 5}}\n"
        "  - {from: s, to: b, else: true}\n"
        "  - {from: f, to: c, on: failure, when: 'error.code == \"x\"'}\n"
        "  - {from: f, to: d, on: failure, else: true}\n"
    )

    found = definition_of(text)

    def when(text: str, where: str, root: Root) -> Expression:
        return Expression(ExpressionKind.CONDITION, text, f"edges[{where}].when", (Read(root),))

    assert found.edges == (
        Edge(1, 0, when=when("input.x", "s -> a", Root.INPUT), loop_max=5),
        Edge(1, 2, otherwise=True),
        Edge(5, 3, on=On.FAILURE, when=when('error.code == "x"', "f -> c", Root.ERROR)),
        Edge(5, 4, on=On.FAILURE, otherwise=True),
        Edge(0, 1),
    )


@pytest.mark.rule("T2.3")
def test_two_edges_may_join_the_same_pair() -> None:
    text = TASKS + "edges:\n  - {from: a, to: b, on: failure}\n  - {from: a, to: b}\n"

    assert [edge.on for edge in definition_of(text).edges] == [On.FAILURE, On.SUCCESS]


def test_else_false_says_nothing() -> None:
    assert definition_of(TASKS + "edges: [{from: a, to: b, else: false}]\n").edges == (Edge(0, 1),)


def test_a_node_of_a_wrong_type_does_not_hide_other_mistakes() -> None:
    text = "name: a\nnodes:\n  a: {type: foreech}\n  b: {type: fork, needs: [a, zz], queue: q}\n"

    assert codes_of(text) == ["unknown_type", "unknown_node", "key_not_allowed"]


def test_a_broken_edge_does_not_hide_what_its_condition_gets_wrong() -> None:
    text = TASKS + "edges:\n  - {from: a, to: zz, when: 'nodes.yy.output == 1'}\n"

    assert codes_of(text) == ["unknown_node", "unknown_reference"]


@pytest.mark.rule("X7.5")
def test_a_legal_spelling_is_proposed_for_an_illegal_id() -> None:
    def hint(id: str) -> str:
        loaded = load(f"name: a\nnodes: {{{id}: {{type: fork}}}}\n", file="a.yaml", parser=PARSER)
        return loaded.findings[0].hint

    assert "`charge_card`" in hint("charge-card")
    assert "`n1st`" in hint("'1st'")
    assert "`for_`" in hint("for")
    assert "`node`" in hint("'é'")


def test_json_is_a_definition_too() -> None:
    text = '{"name": "a", "nodes": {"a": {"type": "fork"}, "b": {"type": "fork", "needs": ["a"]}}}'

    assert definition_of(text).edges == (Edge(0, 1),)
