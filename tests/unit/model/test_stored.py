from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.graphs import definition, graph
from tests.support.shapes import definitions

from tenuto.model.definition import (
    Call,
    Definition,
    Detail,
    Edge,
    Emit,
    End,
    Fail,
    Foreach,
    Handler,
    Node,
    NodeType,
    On,
    SetValue,
    Tolerance,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.graph import Graph, index
from tenuto.model.instants import DAY_US
from tenuto.model.retry import Jitter, RetryPolicy, RetryRule
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
names = texts | expressions
amounts = durations | expressions
backoffs = (
    st.integers(0, 2**62),
    st.floats(1, 10),
    st.integers(0, 2**62),
    st.sampled_from(Jitter),
)
failures = st.lists(texts, max_size=2).map(tuple)
rules = st.builds(RetryRule, failures, st.integers(1, 9), st.none() | expressions, *backoffs)
policies = st.builds(
    RetryPolicy,
    st.integers(1, 99),
    *backoffs,
    st.lists(rules, max_size=2).map(tuple),
    st.none() | st.integers(1, 9),
    failures,
)
works = st.builds(
    Work,
    names,
    expressions,
    names,
    st.integers(-9, 9) | expressions,
    policies,
    amounts,
    amounts,
    amounts,
    amounts,
)
emits = st.builds(Emit, names, expressions, expressions, amounts)
counts = st.integers(0, 99) | expressions


@cache
def calls(inlines: int) -> st.SearchStrategy[Call]:
    """Of a definition with so many graphs inside."""
    return st.builds(
        Call,
        st.none() | names,
        st.none() | st.integers(0, inlines - 1) if inlines else st.none(),
        expressions,
        st.none() | expressions,
        st.booleans(),
        policies,
        amounts,
        amounts,
    )


@cache
def handlers(inlines: int) -> st.SearchStrategy[Handler]:
    detail = works | calls(inlines) | emits
    return st.builds(Handler, st.sampled_from(NodeType), detail, st.booleans())


@cache
def details(inlines: int) -> st.SearchStrategy[Detail]:
    return st.one_of(
        st.none(),
        works,
        calls(inlines),
        emits,
        st.builds(
            Foreach,
            works | calls(inlines),
            st.none() | expressions,
            st.none() | works,
            counts,
            st.builds(Tolerance, st.integers(0, 99), st.booleans()) | expressions,
            counts,
            amounts,
        ),
        st.builds(Wait, amounts, amounts),
        st.builds(
            WaitForEvent,
            names,
            st.none() | expressions,
            amounts,
            st.none() | expressions,
            st.none() | expressions,
            amounts,
        ),
        st.builds(SetValue, expressions),
        st.builds(Fail, texts, st.none() | expressions, st.none() | expressions),
        st.builds(End, st.booleans(), st.none() | expressions),
    )


LEAF = dataclasses.replace(definition("a -> b; b -> a loop 2; b -failure-> c"), inline=True)
INSIDE = (
    LEAF,
    dataclasses.replace(
        definition("x", details={"x": Call(None, 0, Expression(ExpressionKind.VALUE, "{}", "x"))}),
        inlines=(LEAF,),
        inline=True,
    ),
)


@st.composite
def full_definitions(draw: st.DrawFn) -> Definition:
    """Shapes of `definitions`, with every field drawn, and graphs inside."""
    shape = draw(definitions(nodes_max=3))
    inlines = draw(st.lists(st.sampled_from(INSIDE), max_size=2))
    count = len(inlines)
    nodes = tuple(
        dataclasses.replace(
            node,
            type=draw(st.sampled_from(NodeType)),
            detail=draw(details(count)),
            cancel_losers=draw(st.booleans()),
            optional=draw(st.booleans()),
            compensate=draw(st.none() | handlers(count)),
        )
        for node in shape.nodes
    )
    edges = tuple(
        dataclasses.replace(
            edge,
            when=draw(st.none() | expressions),
            otherwise=draw(st.booleans()),
            loop_keep=draw(st.none() | st.integers(1, 9)) if edge.loop_max else None,
        )
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
        on_failure=draw(st.none() | handlers(count)),
        closing_timeout_us=draw(st.just(DAY_US) | st.integers(0, 2**62)),
        inlines=tuple(inlines),
        inline=draw(st.booleans()),
    )


def indexed(any: Definition) -> Graph:
    structure = analyse(any).structure
    assert structure is not None
    return index(any, structure, tuple(map(indexed, any.inlines)))


@given(full_definitions())
def test_a_graph_is_read_as_it_was_written(any: Definition) -> None:
    written = indexed(any)
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
    with_node(0, detail=Work("a", value("{}"), priority=0)),
    with_node(0, detail=Work("a", value("{}"), priority=1)),
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
    dataclasses.replace(BASE, on_failure=Handler(NodeType.TASK, Work("u", value("{}")))),
    dataclasses.replace(BASE, closing_timeout_us=1),
    dataclasses.replace(BASE, inlines=(BASE,)),
    dataclasses.replace(BASE, inlines=(dataclasses.replace(BASE, edges=()),)),
    dataclasses.replace(BASE, inline=True),
    with_node(0, compensate=Handler(NodeType.TASK, Work("u", value("{}")))),
    with_node(0, compensate=Handler(NodeType.TASK, Work("u", value("{}")), started=True)),
    with_node(0, detail=Work(value("a"), value("{}"))),
    with_node(0, detail=Work("a", value("{}"), timeout_us=value("1s"))),
    with_node(0, detail=Work("a", value("{}"), retry=RetryPolicy(give_up_on=("x",)))),
    with_node(0, detail=Work("a", value("{}"), retry=RetryPolicy(total=1))),
    with_node(0, detail=Work("a", value("{}"), retry=RetryPolicy(rules=(RetryRule((), 2),)))),
    with_node(0, detail=Work("a", value("{}"), retry=RetryPolicy(rules=(RetryRule((), 3),)))),
    with_node(0, detail=Call("a", None, value("{}"))),
    with_node(0, detail=Call("a", None, value("{}"), wait=False)),
    with_node(0, detail=Foreach(Work("a", value("{}")), value("l"))),
    with_node(0, detail=Foreach(Work("a", value("{}")), value("l"), batch=2)),
    with_node(0, detail=Foreach(Work("a", value("{}")), value("l"), tolerate=Tolerance(5))),
    with_node(
        0, detail=Foreach(Work("a", value("{}")), value("l"), tolerate=Tolerance(5, percent=True))
    ),
    with_node(0, detail=Emit("a", value("k"), value("null"))),
    with_node(1, detail=WaitForEvent("e", None)),
    with_node(1, detail=WaitForEvent("e", None, match=value("x"))),
    with_node(1, detail=WaitForEvent("e", None, fail_when=value("x"))),
    with_node(1, detail=WaitForEvent("e", None, heartbeat_timeout_us=1)),
    with_edge(0, loop_max=2, loop_keep=1),
]


def test_every_change_of_meaning_changes_the_hash() -> None:
    hashes = {content_hash(changed) for changed in (BASE, *CHANGED)}

    assert len(hashes) == 1 + len(CHANGED)


# --- what was stored before ------------------------------------------------------------------------------

HISTORIES = Path(__file__).resolve().parents[2] / "golden" / "histories"
STORED = {
    "conditions_and_faults": "5d7dfd94492380e1e86dd1f178caf5f8c5ee5a203507010668dd0b2ef9b94d72",
    "failures_and_clocks": "f21e7c82f3820b6eb412fc7731a539b1ac02e8f783075cefefe23291e516943c",
    "loops_and_races": "f5035bd16a70cc3eba9929af5fdad87df07027c01b3f9c05a975fb54b1e6b967",
    "waits_and_messages": "cf38750335bc66e8a92adb215519540c27b885105c2ec90b0fc8ee9f0a1916da",
}
"""Content hashes as the first release made them."""


@pytest.mark.parametrize("name", sorted(STORED))
def test_what_an_older_release_stored_is_written_and_named_as_it_was(name: str) -> None:
    stored = json.loads((HISTORIES / f"{name}.json").read_text())["graph"]
    text = json.dumps(stored, sort_keys=True, separators=(",", ":"))

    read = decode_graph(text)

    assert encode_graph(read) == text
    assert content_hash(read.definition) == STORED[name]


def test_a_plain_definition_has_the_hash_that_the_first_release_gave_it() -> None:
    assert content_hash(BASE) == "592701a06c723d412d8488229e953415011dc049fdb69edcb0a944dbbef1b281"


def test_what_is_not_said_is_not_written() -> None:
    structure = analyse(BASE).structure
    assert structure is not None
    text = encode_graph(index(BASE, structure))

    for key in (
        "on_failure",
        "closing_timeout_us",
        "inline",
        "keep",
        "rules",
        "compensate",
        "zero",
    ):
        assert key not in text


def test_the_version_of_the_rules_is_kept_and_part_of_the_meaning() -> None:
    first = graph("a -> b")
    later = dataclasses.replace(
        first, definition=dataclasses.replace(first.definition, semantics=2)
    )

    assert "semantics" not in encode_graph(first), "older texts stay what they are"
    assert decode_graph(encode_graph(first)).definition.semantics == 1
    assert decode_graph(encode_graph(later)).definition.semantics == 2
    assert content_hash(first.definition) != content_hash(later.definition)
