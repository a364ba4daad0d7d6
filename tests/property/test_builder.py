"""Random graphs, drawn once more with the builder, compile to the same nodes and edges, as YAML and as JSON."""

from __future__ import annotations

import json
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.flows import Taste, random_graph

from tenuto import Workflow
from tenuto.app.definitions import load_definition
from tenuto.model.definition import Definition, Edge, NodeType, On
from tenuto.model.stored import content_hash
from tenuto.sdk.builder.nodes import Node, Port
from tenuto.sdk.builder.workflow import NodeKeys, Request


def drawn(definition: Definition) -> Workflow:
    """The definition's shape, by `>>`, `loop` and the ends of nodes, in the order of its edges."""
    with Workflow("flow") as wf:
        nodes = [_made(wf, definition, number) for number in range(len(definition.nodes))]
        for edge in definition.edges:
            _led(nodes[edge.source], nodes[edge.target], edge)
    return wf


def _made(wf: Workflow, definition: Definition, number: int) -> Node:
    node = definition.nodes[number]
    keys: NodeKeys = {"join": node.join or "all", "cancel_losers": node.cancel_losers}
    match node.type:
        case NodeType.TASK:
            return wf.task(node.id, "t", optional=node.optional, **keys)
        case NodeType.HTTP:
            request: Request = {"url": "http://127.0.0.1:1/"}
            return wf.http(node.id, request=request, optional=node.optional, **keys)
        case NodeType.WAIT_FOR_EVENT:
            return wf.wait_for_event(node.id, "e", key="k", optional=node.optional, **keys)
        case NodeType.WAIT:
            return wf.wait(node.id, for_="1s", **keys)
        case NodeType.SET:
            return wf.set(node.id, {"a": 1}, **keys)
        case NodeType.FAIL:
            return wf.fail(node.id, "stopped", **keys)
        case NodeType.END:
            return wf.end(node.id, **keys)
        case NodeType.SWITCH:
            return wf.switch(node.id, **keys)
        case NodeType.FORK:
            return wf.fork(node.id, **keys)
        case NodeType.JOIN:
            return wf.join(node.id, **keys)
        case other:
            raise AssertionError(other)


def _led(source: Node, target: Node, edge: Edge) -> None:
    port = _end(source, edge.on)
    if edge.when is not None:
        port = port.when(f"input.{edge.when.text}")
    if edge.otherwise:
        port = port.otherwise
    if edge.loop_max is not None:
        port.loop(back_to=target, max=edge.loop_max)
    else:
        port >> target


def _end(source: Node, on: On) -> Port:
    match on:
        case On.SUCCESS:
            return source.on_success
        case On.FAILURE:
            return source.on_failure
        case On.ALWAYS:
            return source.always


def shape(definition: Definition) -> object:
    """Nodes and edges, without what they do."""
    return (
        [(n.id, n.type, n.join, n.cancel_losers, n.optional) for n in definition.nodes],
        [
            (
                e.source,
                e.target,
                e.on,
                None if e.when is None else e.when.text.removeprefix("input."),
                e.otherwise,
                e.loop_max,
            )
            for e in definition.edges
        ],
    )


@given(st.randoms(use_true_random=False), st.booleans())
def test_a_graph_that_is_drawn_again_is_the_same(rng: Random, loose: bool) -> None:
    graph = random_graph(rng, Taste(nodes=10, clocks=False, reads=False), loose=loose)
    assume(graph is not None)
    assert graph is not None
    workflow = drawn(graph.definition)

    loaded = load_definition(workflow.to_yaml(), file="flow")

    assert loaded.graph is not None, loaded.findings
    assert shape(loaded.graph.definition) == shape(graph.definition)
    as_json = load_definition(json.dumps(workflow.to_dict()), file="flow")
    assert as_json.graph is not None
    again = load_definition(Workflow.from_yaml(workflow.to_yaml()).to_yaml(), file="flow")
    assert again.graph is not None
    meaning = content_hash(loaded.graph.definition)
    assert content_hash(as_json.graph.definition) == meaning
    assert content_hash(again.graph.definition) == meaning
