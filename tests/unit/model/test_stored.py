from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.graphs import definition, graph
from tests.support.shapes import definitions

from tenuto.model.definition import (
    Definition,
    Detail,
    Edge,
    End,
    Fail,
    Node,
    NodeType,
    On,
    SetValue,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.graph import index
from tenuto.model.retry import Jitter, RetryPolicy
from tenuto.model.stored import content_hash, decode_graph, encode_graph
from tenuto.model.structure import analyse

texts = st.text(max_size=8)
durations = st.none() | st.integers(0, 2**62)
reads = st.builds(Read, st.sampled_from(Root), texts, texts)
expressions = st.builds(
    Expression,
    st.sampled_from(ExpressionKind),
    texts,
    texts,
    st.lists(reads, max_size=2).map(tuple),
)
policies = st.builds(
    RetryPolicy,
    st.integers(1, 99),
    st.integers(0, 2**62),
    st.floats(1, 10),
    st.integers(0, 2**62),
    st.sampled_from(Jitter),
)
details: st.SearchStrategy[Detail] = st.one_of(
    st.none(),
    st.builds(
        Work,
        texts,
        expressions,
        texts,
        st.integers(-9, 9),
        policies,
        durations,
        durations,
        durations,
        durations,
    ),
    st.builds(Wait, durations, durations),
    st.builds(WaitForEvent, texts, expressions, durations),
    st.builds(SetValue, expressions),
    st.builds(Fail, texts, st.none() | expressions, st.none() | expressions),
    st.builds(End, st.booleans(), st.none() | expressions),
)


@st.composite
def full_definitions(draw: st.DrawFn) -> Definition:
    """Shapes of `definitions`, with every field drawn."""
    shape = draw(definitions(nodes_max=5))
    nodes = tuple(
        dataclasses.replace(
            node,
            type=draw(st.sampled_from(NodeType)),
            detail=draw(details),
            cancel_losers=draw(st.booleans()),
            optional=draw(st.booleans()),
        )
        for node in shape.nodes
    )
    edges = tuple(
        dataclasses.replace(edge, when=draw(st.none() | expressions), otherwise=draw(st.booleans()))
        for edge in shape.edges
    )
    return dataclasses.replace(
        shape,
        name=draw(texts),
        nodes=nodes,
        edges=edges,
        description=draw(texts),
        vars=draw(texts),
        input_schema=draw(st.none() | texts),
        timeout_us=draw(durations),
        output=draw(st.none() | expressions),
    )


@given(full_definitions())
def test_a_graph_is_read_as_it_was_written(any: Definition) -> None:
    structure = analyse(any).structure
    assert structure is not None
    written = index(any, structure)
    text = encode_graph(written)
    read = decode_graph(text)

    assert written == read
    assert text == encode_graph(read)
    assert text.isascii()


def test_closed_sets_are_read_as_their_members_not_as_text() -> None:
    read = decode_graph(encode_graph(graph("a -failure-> b; c", types={"c": "fork"}))).definition

    assert read.nodes[2].type is NodeType.FORK
    assert read.edges[0].on is On.FAILURE
    assert isinstance(read.nodes[0].detail, Work)
    assert read.nodes[0].detail.retry.jitter is Jitter.FULL
    assert read.nodes[0].detail.input.kind is ExpressionKind.VALUE


def test_the_source_text_is_not_stored_twice() -> None:
    of = dataclasses.replace(definition("a"), source="a secret of the layout")
    structure = analyse(of).structure
    assert structure is not None
    text = encode_graph(index(of, structure))

    assert "layout" not in text
    assert decode_graph(text).definition.source == ""


def test_another_version_is_refused_by_its_number() -> None:
    stored = json.loads(encode_graph(graph("a")))
    stored["v"] = 2

    with pytest.raises(InvariantViolated, match="version 2, expected 1"):
        decode_graph(json.dumps(stored))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"v":1}',
        encode_graph(graph("a")).replace('"is":"work"', '"is":"play"'),
        encode_graph(graph("a")).replace('"task"', '"tusk"'),
        encode_graph(graph("a -> b")).replace("[0,1,", "[0,7,"),
    ],
)
def test_a_text_that_is_no_stored_graph_is_a_bug_and_says_so(text: str) -> None:
    with pytest.raises(InvariantViolated, match="cannot be read"):
        decode_graph(text)


# --- the hash ----------------------------------------------------------------------------------------


def value(text: str, where: str = "here", *reads: Read) -> Expression:
    return Expression(ExpressionKind.VALUE, text, where, reads)


BASE = Definition(
    "base",
    (
        Node("a", NodeType.TASK, Work("a", value("{}"))),
        Node("b", NodeType.WAIT, Wait(for_us=1)),
        Node("c", NodeType.JOIN),
    ),
    (Edge(0, 1), Edge(0, 2), Edge(1, 2, when=Expression(ExpressionKind.CONDITION, "x", "here"))),
)


def with_node(at: int, **changes: Any) -> Definition:
    nodes = list(BASE.nodes)
    nodes[at] = dataclasses.replace(nodes[at], **changes)
    return dataclasses.replace(BASE, nodes=tuple(nodes))


def with_edge(at: int, **changes: Any) -> Definition:
    edges = list(BASE.edges)
    edges[at] = dataclasses.replace(edges[at], **changes)
    return dataclasses.replace(BASE, edges=tuple(edges))


def test_the_hash_is_sixty_four_hex_digits() -> None:
    assert len(bytes.fromhex(content_hash(BASE))) == 32


@pytest.mark.parametrize(
    "same",
    [
        dataclasses.replace(BASE, source="nodes: {a: …}"),
        dataclasses.replace(BASE, description="What it is for."),
        with_node(0, detail=Work("a", value("{}", "there"))),
        with_node(0, detail=Work("a", value("{}", "here", Read(Root.INPUT)))),
    ],
)
def test_what_is_no_meaning_leaves_the_hash_alone(same: Definition) -> None:
    assert content_hash(BASE) == content_hash(same)


CHANGED = [
    dataclasses.replace(BASE, name="other"),
    dataclasses.replace(BASE, vars='{"a":1}'),
    dataclasses.replace(BASE, input_schema="{}"),
    dataclasses.replace(BASE, timeout_us=1),
    dataclasses.replace(BASE, output=value("{}")),
    dataclasses.replace(BASE, nodes=(BASE.nodes[0], *BASE.nodes[:0:-1])),
    dataclasses.replace(BASE, edges=BASE.edges[::-1]),
    with_node(0, id="z"),
    with_node(0, detail=Work("a", value("[]"))),
    with_node(0, detail=Work("a", value("{}"), queue="q")),
    with_node(0, detail=Work("a", value("{}"), retry=RetryPolicy(max_attempts=2))),
    with_node(0, optional=True),
    with_node(1, detail=Wait(for_us=2)),
    with_node(1, detail=Wait(until_at=1)),
    with_node(2, join=1),
    with_node(2, type=NodeType.FORK),
    with_node(2, cancel_losers=True),
    with_edge(0, on=On.FAILURE),
    with_edge(0, otherwise=True),
    with_edge(0, loop_max=2),
    with_edge(0, target=2),
    with_edge(2, when=Expression(ExpressionKind.CONDITION, "y", "here")),
    with_edge(2, when=None),
]


def test_every_change_of_meaning_changes_the_hash() -> None:
    hashes = {content_hash(changed) for changed in (BASE, *CHANGED)}

    assert len(hashes) == 1 + len(CHANGED)
