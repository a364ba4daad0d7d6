"""Random definitions, written twice: with the builder, and as the tree that YAML gives. They mean the same.

The two writers know nothing of each other: each goes from the random definition to its own form.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from random import Random
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support.flows import Taste, random_graph

from tenuto import Graph, Step, Workflow
from tenuto.app.definitions import load_definition
from tenuto.model.definition import (
    Amount,
    Call,
    Definition,
    Edge,
    Emit,
    Foreach,
    Handler,
    NodeType,
    On,
    Tolerance,
    WaitForEvent,
    Work,
)
from tenuto.model.definition import Node as Meant
from tenuto.model.instants import SECOND_US
from tenuto.model.retry import RetryPolicy
from tenuto.model.stored import content_hash
from tenuto.sdk.builder.graph import NodeKeys
from tenuto.sdk.builder.nodes import Node, Port

WHOLE = Taste(
    nodes=8, clocks=True, reads=False, whole=40, inlines=2, undo=40, rules=40, events=30
)  # fmt: skip
FORMS = 4


def form_of(id: str) -> int:
    """In which of several ways a thing is said: by chance, but the same for both writers."""
    return sum(map(ord, id)) % FORMS


def span(us: Amount) -> dt.timedelta:
    """Fixed, as all are here."""
    assert isinstance(us, int)
    return dt.timedelta(microseconds=us)


def seconds(us: Amount) -> str:
    """The same as text."""
    assert isinstance(us, int)
    return f"{us // SECOND_US}s"


# -- with the builder ---------------------------------------------------------------------------------------------


def drawn(definition: Definition) -> Workflow:
    """The definition by methods, `>>`, `loop` and the ends of nodes, in the order of its edges."""
    with Workflow("flow", closing_timeout=dt.timedelta(hours=1)) as wf:
        _draw(wf, definition)
        if definition.on_failure is not None:
            wf.on_failure = _step(wf, definition, "failed", definition.on_failure)
    return wf


def _draw(graph: Graph, definition: Definition) -> None:
    nodes = [_made(graph, definition, meant) for meant in definition.nodes]
    for meant, node in zip(definition.nodes, nodes, strict=True):
        if (undo := meant.compensate) is not None:
            step = _step(graph, definition, meant.id, undo)
            node.compensate(step, when="started" if undo.started else None)
    for edge in definition.edges:
        _led(nodes[edge.source], nodes[edge.target], edge)
    if form_of(definition.nodes[0].id) == 0:
        graph.output = {"first": nodes[0].status}


def _made(graph: Graph, definition: Definition, meant: Meant) -> Node:
    keys: NodeKeys = {"join": meant.join or "all", "cancel_losers": meant.cancel_losers}
    id, detail, optional = meant.id, meant.detail, meant.optional
    match detail:
        case Work() if meant.type is NodeType.HTTP:
            url: Any = {"url": "http://127.0.0.1:1/"}
            return graph.http(id, request=url, optional=optional, **keys, **_work(graph, detail))
        case Work():
            return graph.task(id, "t", optional=optional, **keys, **_work(graph, detail))
        case Foreach():
            each = _each(graph, definition, id, detail)
            return graph.foreach(id, optional=optional, **keys, **each)
        case Call():
            call = _call(graph, definition, detail)
            return graph.call(id, optional=optional, **keys, **call)
        case WaitForEvent():
            return graph.wait_for_event(id, optional=optional, **keys, **_wait(graph, detail))
        case Emit():
            return graph.emit(id, **_emit(graph, detail), **keys)
        case _:
            pass
    match meant.type:
        case NodeType.WAIT:
            return graph.wait(id, for_="1s", **keys)
        case NodeType.SET:
            return graph.set(id, {"a": 1}, **keys)
        case NodeType.FAIL:
            return graph.fail(id, "stopped", **keys)
        case NodeType.END:
            return graph.end(id, **keys)
        case NodeType.SWITCH:
            return graph.switch(id, **keys)
        case NodeType.FORK:
            return graph.fork(id, **keys)
        case NodeType.JOIN:
            return graph.join(id, **keys)
        case other:
            raise AssertionError(other)


def _step(graph: Graph, definition: Definition, id: str, handler: Handler) -> Step:
    match handler.detail:
        case Work():
            return Step.task("u", params={"why": graph.error}, **_work(graph, handler.detail))
        case Call():
            return Step.call(**_call(graph, definition, handler.detail))
        case Emit():
            return Step.emit(**_emit(graph, handler.detail))


def _work(graph: Graph, work: Work | Call) -> Any:
    keys: dict[str, Any] = {"retry": _retry(graph, work.retry)}
    for clock in ("timeout", "total_timeout", "queue_timeout", "heartbeat_timeout"):
        us = getattr(work, f"{clock}_us", None)
        if us == SECOND_US:
            keys[clock] = graph.input.second
        elif us is not None:
            keys[clock] = dt.timedelta(microseconds=us)
    return keys


def _retry(graph: Graph, policy: RetryPolicy) -> Any:
    keys: dict[str, Any] = {
        "max_attempts": policy.max_attempts,
        "initial": dt.timedelta(microseconds=policy.initial_us),
        "jitter": policy.jitter.value,
    }
    if policy.give_up_on:
        keys["give_up_on"] = ValueError
    if policy.rules:
        keys["rules"] = [
            {
                "max_attempts": rule.max_attempts,
                "on": [ConnectionError, *rule.on],
                "when": graph.error.details.again if rule.when else None,
                "initial": dt.timedelta(microseconds=rule.initial_us),
            }
            for rule in policy.rules
        ]
    return keys


def _each(graph: Graph, definition: Definition, id: str, each: Foreach) -> Any:
    keys: dict[str, Any] = {"concurrency": each.concurrency}
    if each.source is not None:
        params = {"after": graph.cursor} if form_of(id) < 2 else {}
        keys["source"] = Step.task("pages", params=params, **_work(graph, each.source))
    else:
        keys["over"] = graph.input.list if form_of(id) < 2 else "[1, 2, 3]"
    match each.tolerate:
        case Tolerance(count, percent=True):
            keys["tolerate"] = f"{count}%"
        case Tolerance(1):
            keys["tolerate"] = graph.input.much
        case Tolerance(count):
            keys["tolerate"] = count
        case _:
            pass
    if each.batch:
        keys["batch"] = each.batch
    if each.total_timeout_us is not None:
        keys["total_timeout"] = span(each.total_timeout_us)
    item = {"item": graph.item, "n": graph.index}
    if isinstance(each.body, Work):
        work = _work(graph, each.body)
        work.pop("total_timeout", None)
        match form_of(id):
            case 0:
                return keys | work | {"task": "t", "params": item}
            case 1:
                return keys | work | {"task": graph.item.task, "params": graph.item.params}
            case 2:
                return keys | work | {"do": Step.code("def main(params): pass", params=item)}
            case _:
                return keys | {"do": Step.task("t", params=item, **work)}
    return keys | _runs(graph, definition, id, each.body)


def _runs(graph: Graph, definition: Definition, id: str, call: Call) -> Any:
    """A body that is a run of its own."""
    keys = {key: part for key, part in _work(graph, call).items() if key in ("retry", "timeout")}
    item = {"item": graph.item}
    match form_of(id):
        case 0:
            return keys | {"do": _inline(definition, call), "params": item}
        case 1:
            inner = Step.call(do=_inline(definition, call), params=item, output=graph.child_output)
            return keys | {"do": inner}
        case 2:
            return keys | {"call": "sub@stable", "input": item, "output": graph.child_output}
        case _:
            return keys | {"do": Step.wait_for_event("e", key=graph.item.key, match=graph.event.ok)}


def _call(graph: Graph, definition: Definition, call: Call) -> Any:
    keys: dict[str, Any] = {"wait": call.wait}
    if call.wait:
        keys |= _work(graph, call)
        if call.output is not None:
            keys["output"] = {"a": graph.child_output}
    if call.inline is not None:
        return keys | {"do": _inline(definition, call), "params": {"a": graph.input.a}}
    return keys | {"workflow": graph.input.name, "input": {"a": graph.input.a}}


def _inline(definition: Definition, call: Call) -> Graph:
    assert call.inline is not None
    with Graph() as graph:
        _draw(graph, definition.inlines[call.inline])
    return graph


def _wait(graph: Graph, wait: WaitForEvent) -> Any:
    keys: dict[str, Any] = {"event": "e" if wait.key is not None else graph.input.event}
    if wait.key is not None:
        keys["key"] = graph.input.key
    if wait.match is not None:
        keys["match"] = graph.event.ok
    if wait.fail_when is not None:
        keys["fail_when"] = "has(event.error)"
    if wait.timeout_us is not None:
        keys["timeout"] = span(wait.timeout_us)
    if wait.heartbeat_timeout_us is not None:
        keys["heartbeat_timeout"] = graph.input.second
    return keys


def _emit(graph: Graph, emit: Emit) -> Any:
    keep = None if emit.keep_us is None else span(emit.keep_us)
    return {"event": "e", "key": graph.input.key, "payload": [graph.input.a], "keep": keep}


def _led(source: Node, target: Node, edge: Edge) -> None:
    port = _end(source, edge.on)
    if edge.when is not None:
        port = port.when(f"input.{edge.when.text}")
    if edge.otherwise:
        port = port.otherwise
    if edge.loop_max is not None:
        port.loop(back_to=target, max=edge.loop_max, keep=edge.loop_keep)
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


# -- as YAML has it -----------------------------------------------------------------------------------------------


def written(definition: Definition) -> Mapping[str, Any]:
    """The definition as a tree."""
    tree: dict[str, Any] = {"name": "flow", "closing_timeout": "1h", **_graph_tree(definition)}
    if definition.on_failure is not None:
        tree["on_failure"] = _handler_tree(definition, definition.on_failure)
    return tree


def _graph_tree(definition: Definition) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "nodes": {node.id: _node_tree(definition, node) for node in definition.nodes},
        "edges": [_edge_tree(definition, edge) for edge in definition.edges],
    }
    first = definition.nodes[0].id
    if form_of(first) == 0:
        tree["output"] = {"first": f"${{nodes.{first}.status}}"}
    return tree


def _edge_tree(definition: Definition, edge: Edge) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "from": definition.nodes[edge.source].id,
        "to": definition.nodes[edge.target].id,
        "on": edge.on.value,
    }
    if edge.when is not None:
        tree["when"] = f"input.{edge.when.text}"
    if edge.otherwise:
        tree["else"] = True
    if edge.loop_max is not None:
        tree["loop"] = {"max": edge.loop_max}
        if edge.loop_keep is not None:
            tree["loop"]["keep"] = edge.loop_keep
    return tree


_PLAIN: Mapping[NodeType, dict[str, Any]] = {
    NodeType.WAIT: {"for": "1s"},
    NodeType.SET: {"values": {"a": 1}},
    NodeType.FAIL: {"code": "stopped"},
}


def _node_tree(definition: Definition, node: Meant) -> dict[str, Any]:
    tree: dict[str, Any] = {"type": node.type.value}
    if node.join:
        tree["join"] = node.join
    if node.cancel_losers:
        tree["cancel_losers"] = True
    if node.optional:
        tree["optional"] = True
    if node.compensate is not None:
        tree["compensate"] = _handler_tree(definition, node.compensate)
        if node.compensate.started:
            tree["compensate"]["when"] = "started"
    match node.detail:
        case Work() if node.type is NodeType.HTTP:
            tree["request"] = {"url": "http://127.0.0.1:1/"}
            return tree | _work_tree(node.detail)
        case Work():
            return tree | {"task": "t"} | _work_tree(node.detail)
        case Foreach():
            return tree | _each_tree(definition, node.id, node.detail)
        case Call():
            return tree | _call_tree(definition, node.detail)
        case WaitForEvent():
            return tree | _wait_tree(node.detail)
        case Emit():
            return tree | _emit_tree(node.detail)
        case _:
            return tree | _PLAIN.get(node.type, {})


def _handler_tree(definition: Definition, handler: Handler) -> dict[str, Any]:
    tree: dict[str, Any] = {"type": handler.type.value}
    match handler.detail:
        case Work():
            own = {"task": "u", "params": {"why": "${error}"}}
            return tree | own | _work_tree(handler.detail)
        case Call():
            return tree | _call_tree(definition, handler.detail)
        case Emit():
            return tree | _emit_tree(handler.detail)


def _work_tree(work: Work | Call) -> dict[str, Any]:
    tree: dict[str, Any] = {"retry": _retry_tree(work.retry)}
    for clock in ("timeout", "total_timeout", "queue_timeout", "heartbeat_timeout"):
        us = getattr(work, f"{clock}_us", None)
        if us is not None:
            tree[clock] = "${input.second}" if us == SECOND_US else seconds(us)
    return tree


def _retry_tree(policy: RetryPolicy) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "max_attempts": policy.max_attempts,
        "initial": f"{policy.initial_us // 1000}ms",
        "jitter": policy.jitter.value,
    }
    if policy.give_up_on:
        tree["give_up_on"] = "ValueError"
    if policy.rules:
        tree["rules"] = []
    for rule in policy.rules:
        said: dict[str, Any] = {
            "max_attempts": rule.max_attempts,
            "on": ["ConnectionError", *rule.on],
            "initial": f"{rule.initial_us // 1000}ms",
        }
        if rule.when is not None:
            said["when"] = "error.details.again"
        tree["rules"].append(said)
    return tree


def _each_tree(definition: Definition, id: str, each: Foreach) -> dict[str, Any]:
    tree: dict[str, Any] = {"concurrency": each.concurrency}
    if each.source is not None:
        tree["source"] = {"task": "pages", **_work_tree(each.source)}
        if form_of(id) < 2:
            tree["source"]["params"] = {"after": "${cursor}"}
    else:
        tree["over"] = "input.list" if form_of(id) < 2 else "[1, 2, 3]"
    assert isinstance(each.tolerate, Tolerance)
    if each.tolerate.percent:
        tree["tolerate"] = f"{each.tolerate.count}%"
    else:
        fixed = each.tolerate.count != 1
        tree["tolerate"] = each.tolerate.count if fixed else "${input.much}"
    if each.batch:
        tree["batch"] = each.batch
    if each.total_timeout_us is not None:
        tree["total_timeout"] = seconds(each.total_timeout_us)
    if isinstance(each.body, Call):
        return tree | _runs_tree(definition, id, each.body)
    item = {"item": "${item}", "n": "${index}"}
    work = _work_tree(each.body)
    work.pop("total_timeout", None)
    code = {"type": "code", "language": "python", "code": "def main(params): pass", "params": item}
    forms: list[dict[str, Any]] = [
        {"task": "t", "params": item, **work},
        {"task": "${item.task}", "params": "${item.params}", **work},
        {"do": code, **work},
        {"do": {"type": "task", "task": "t", "params": item, **work}},
    ]
    return tree | forms[form_of(id)]


def _runs_tree(definition: Definition, id: str, call: Call) -> dict[str, Any]:
    tree = {k: v for k, v in _work_tree(call).items() if k in ("retry", "timeout")}
    item = {"item": "${item}"}
    match form_of(id):
        case 0:
            return tree | {"do": _inline_tree(definition, call), "params": item}
        case 1:
            inner = {"type": "call", "do": _inline_tree(definition, call), "params": item}
            return tree | {"do": inner | {"output": "${output}"}}
        case 2:
            return tree | {"call": "sub@stable", "input": item, "output": "${output}"}
        case _:
            waits = {"event": "e", "key": "${item.key}", "match": "event.ok"}
            return tree | {"do": {"type": "wait_for_event", **waits}}


def _call_tree(definition: Definition, call: Call) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    if call.wait:
        tree |= _work_tree(call)
        if call.output is not None:
            tree["output"] = {"a": "${output}"}
    else:
        tree["wait"] = False
    given = {"a": "${input.a}"}
    if call.inline is not None:
        return tree | {"do": _inline_tree(definition, call), "params": given}
    return tree | {"call": "${input.name}", "input": given}


def _inline_tree(definition: Definition, call: Call) -> dict[str, Any]:
    assert call.inline is not None
    return _graph_tree(definition.inlines[call.inline])


def _wait_tree(wait: WaitForEvent) -> dict[str, Any]:
    tree: dict[str, Any] = {"event": "${input.event}"}
    if wait.key is not None:
        tree = {"event": "e", "key": "${input.key}"}
    if wait.match is not None:
        tree["match"] = "event.ok"
    if wait.fail_when is not None:
        tree["fail_when"] = "has(event.error)"
    if wait.timeout_us is not None:
        tree["timeout"] = seconds(wait.timeout_us)
    if wait.heartbeat_timeout_us is not None:
        tree["heartbeat_timeout"] = "${input.second}"
    return tree


def _emit_tree(emit: Emit) -> dict[str, Any]:
    tree: dict[str, Any] = {"event": "e", "key": "${input.key}", "payload": ["${input.a}"]}
    if emit.keep_us is not None:
        tree["keep"] = seconds(emit.keep_us)
    return tree


# -- the same ------------------------------------------------------------------------------------------------------


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
                (e.loop_max, e.loop_keep),
            )
            for e in definition.edges
        ],
    )


def compiled(text: str) -> Definition:
    loaded = load_definition(text, file="flow")
    assert loaded.graph is not None, "\n".join(map(str, loaded.findings))
    return loaded.graph.definition


@given(st.randoms(use_true_random=False), st.booleans())
def test_a_graph_that_is_drawn_again_is_the_same(rng: Random, loose: bool) -> None:
    graph = random_graph(rng, Taste(nodes=10, clocks=False, reads=False), loose=loose)
    assume(graph is not None)
    assert graph is not None
    workflow = drawn(graph.definition)

    read = compiled(workflow.to_yaml())

    assert shape(read) == shape(graph.definition)
    as_json = compiled(json.dumps(workflow.to_dict()))
    again = compiled(Workflow.from_yaml(workflow.to_yaml()).to_yaml())
    assert content_hash(as_json) == content_hash(again) == content_hash(read)


@settings(max_examples=max(1, settings().max_examples // 3))  # each compiles four texts
@given(st.randoms(use_true_random=False), st.booleans())
def test_a_definition_built_in_python_means_what_its_yaml_means(rng: Random, loose: bool) -> None:
    graph = random_graph(rng, WHOLE, loose=loose)
    assume(graph is not None)
    assert graph is not None
    workflow = drawn(graph.definition)

    meaning = content_hash(compiled(json.dumps(written(graph.definition))))

    assert content_hash(compiled(workflow.to_yaml())) == meaning
    assert content_hash(compiled(json.dumps(workflow.to_dict()))) == meaning
    again = Workflow.from_yaml(workflow.to_yaml())
    assert content_hash(compiled(again.to_yaml())) == meaning
