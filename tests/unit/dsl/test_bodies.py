"""What foreach, call, emit and handlers become. What is wrong with them is in `nested_cases`."""

from __future__ import annotations

import pytest

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load
from tenuto.model.definition import (
    Call,
    Definition,
    Emit,
    Foreach,
    Handler,
    Node,
    NodeType,
    Tolerance,
    Wait,
    Work,
)
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.graph import Graph, inline_of
from tenuto.model.instants import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from tenuto.model.retry import RetryPolicy

PARSER = CelParser()
ITEM, INDEX, INPUT = Read(Root.ITEM), Read(Root.INDEX), Read(Root.INPUT)
RETRIED = "defaults: {retry: {max_attempts: 7}, queue: q, timeout: 9s}"


def graph_of(text: str) -> Graph:
    loaded = load(text, file="a.yaml", parser=PARSER)
    assert loaded.graph is not None, loaded.findings
    return loaded.graph


def definition_of(keys: str, top: str = "") -> Definition:
    return graph_of(f"name: a\nnodes:\n  n: {{{keys}}}\n{top}\n").definition


def node_of(keys: str, top: str = "") -> Node:
    return definition_of(keys, top).nodes[0]


def each_of(keys: str, top: str = "") -> Foreach:
    detail = node_of(f"type: foreach, {keys}", top).detail
    assert isinstance(detail, Foreach)
    return detail


def call_of(keys: str, top: str = "") -> Call:
    detail = node_of(f"type: call, {keys}", top).detail
    assert isinstance(detail, Call)
    return detail


def value(text: str, where: str, *reads: Read) -> Expression:
    return Expression(ExpressionKind.VALUE, text, where, reads)


def items(text: str, *reads: Read) -> Expression:
    return Expression(ExpressionKind.ITEMS, text, "nodes.n.over", reads)


# --- foreach -----------------------------------------------------------------------------------------


def test_a_foreach_of_a_task_has_the_task_as_its_body() -> None:
    found = each_of('over: input.l, task: t, params: {f: "${item}", n: "${index}"}')

    params = value('{"f":"${item}","n":"${index}"}', "nodes.n.params", ITEM, INDEX)
    assert found == Foreach(body=Work("t", params), over=items("input.l", INPUT))
    assert (found.concurrency, found.tolerate, found.batch) == (100, Tolerance(), 0)


@pytest.mark.rule("F5.3")
def test_its_own_keys_are_read() -> None:
    found = each_of(
        'over: "range(3)", task: t, concurrency: 20, tolerate: 5%, batch: 10, total_timeout: 1h'
    )

    assert found.over == items("range(3)")
    assert (found.concurrency, found.batch) == (20, 10)
    assert found.tolerate == Tolerance(5, percent=True)
    assert found.total_timeout_us == HOUR_US
    assert isinstance(found.body, Work)
    assert found.body.total_timeout_us is None


@pytest.mark.parametrize(
    ("text", "tolerance"),
    [("0", Tolerance()), ("3", Tolerance(3)), ("100%", Tolerance(100, percent=True))],
)
def test_what_is_tolerated_is_a_number_or_a_share(text: str, tolerance: Tolerance) -> None:
    assert each_of(f"over: input.l, task: t, tolerate: {text}").tolerate == tolerance


@pytest.mark.rule("F5.1", "F5.3")
def test_f5_clocks_and_retry_on_a_foreach_are_an_items_and_fall_back_to_the_defaults() -> None:
    own = each_of(
        "over: input.l, task: t, retry: {max_attempts: 2}, timeout: 1s, queue: r, queue_timeout: 2s,"
        " heartbeat_timeout: 3s, priority: 4",
        RETRIED,
    ).body
    filled = each_of("over: input.l, task: t", RETRIED).body

    assert isinstance(own, Work)
    assert (own.retry.max_attempts, own.timeout_us, own.queue) == (2, SECOND_US, "r")
    assert (own.queue_timeout_us, own.heartbeat_timeout_us) == (2 * SECOND_US, 3 * SECOND_US)
    assert own.priority == 4
    assert isinstance(filled, Work)
    assert (filled.retry.max_attempts, filled.timeout_us, filled.queue) == (7, 9 * SECOND_US, "q")


@pytest.mark.rule("W3.1")
def test_the_work_of_an_item_may_be_the_items_own_choice() -> None:
    body = each_of('over: input.l, task: "${item.task}", params: "${item.params}"').body

    assert isinstance(body, Work)
    assert body.name == Expression(ExpressionKind.NAME, '"${item.task}"', "nodes.n.task", (ITEM,))
    assert body.input == value('"${item.params}"', "nodes.n.params", ITEM)


@pytest.mark.rule("W1.3", "W2.5")
@pytest.mark.parametrize(
    ("do", "name"),
    [
        ('type: http, request: {url: "http://a/${item}"}', "http"),
        ("type: TASK, task: t, params: {x: '${item}'}", "t"),
        ("type: code, language: python, code: 'def main(p): pass'", "code"),
    ],
)
def test_a_single_node_of_work_in_do_is_a_plain_task(do: str, name: str) -> None:
    found = definition_of(f"type: foreach, over: input.l, timeout: 1s, do: {{{do}}}", RETRIED)

    detail = found.nodes[0].detail
    assert isinstance(detail, Foreach)
    assert isinstance(detail.body, Work)
    assert (detail.body.name, detail.body.timeout_us) == (name, SECOND_US)
    assert detail.body.retry.max_attempts == 7
    assert detail.body.input.where.startswith("nodes.n.do")
    assert found.inlines == ()


@pytest.mark.rule("F5.4", "W1.3", "W2.5")
def test_any_other_single_node_in_do_is_a_graph_of_its_own_whose_output_is_the_nodes() -> None:
    found = definition_of(
        'type: foreach, over: input.l, params: {t: "${item.t}"}, timeout: 1m,'
        ' do: {type: wait, for: "${params.t}"}',
        RETRIED,
    )

    detail, (inner,) = found.nodes[0].detail, found.inlines
    assert isinstance(detail, Foreach)
    params = value('{"t":"${item.t}"}', "nodes.n.params", ITEM)
    assert detail.body == Call(
        None, 0, params, timeout_us=MINUTE_US
    )  # F5: never the defaults' retry
    lasts = Expression(
        ExpressionKind.DURATION, '"${params.t}"', "nodes.n.do.for", (Read(Root.PARAMS),)
    )
    assert inner.nodes == (Node("n", NodeType.WAIT, Wait(lasts)),)
    assert inner.output == value(
        '"${nodes.n.?output}"', "nodes.n.do.output", Read(Root.NODES, "n", "output")
    )
    assert (inner.inline, inner.name) == (True, "a")


@pytest.mark.rule("F5.4", "W1.1")
def test_a_graph_in_do_is_an_inline_graph_with_edges_and_output() -> None:
    text = """
name: a
closing_timeout: 5m
nodes:
  n:
    type: foreach
    over: input.l
    retry: {max_attempts: 3}
    do:
      nodes:
        x: {type: task, task: t, params: {i: "${item}", n: "${index}", v: "${vars.v}"}}
        y: {type: set, values: {x: "${nodes.x.output}"}}
      edges: [x -> y]
      output: "${nodes.y.output.x}"
"""
    graph = graph_of(text + RETRIED + "\nvars: {v: 1}\n")

    detail, inner = graph.definition.nodes[0].detail, graph.inlines[0]
    assert isinstance(detail, Foreach)
    assert detail.body == Call(
        None, 0, value("{}", "nodes.n.params"), retry=RetryPolicy(max_attempts=3)
    )
    assert inner.definition == graph.definition.inlines[0]
    assert [node.id for node in inner.definition.nodes] == ["x", "y"]
    assert inner.ins == ((), (0,))
    assert (
        inner.definition.closing_timeout_us == graph.definition.closing_timeout_us == 5 * MINUTE_US
    )
    work = inner.definition.nodes[0].detail
    assert isinstance(work, Work)
    assert work.retry.max_attempts == 7  # F5: the defaults' retry goes to the nodes inside
    assert work.input.where == "nodes.n.do.nodes.x.params"


def test_items_may_be_runs_of_a_workflow() -> None:
    found = each_of(
        'over: input.l, call: billing@stable, input: {id: "${item}"}, output: "${output.total}", timeout: 1h',
        RETRIED,
    )

    assert found.body == Call(
        "billing@stable",
        None,
        value('{"id":"${item}"}', "nodes.n.input", ITEM),
        output=value('"${output.total}"', "nodes.n.output", Read(Root.OUTPUT)),
        timeout_us=HOUR_US,
    )


@pytest.mark.rule("W1.3")
def test_a_call_in_do_is_the_items_own_child() -> None:
    found = definition_of(
        'type: foreach, over: input.l, timeout: 1h, do: {type: call, call: w, input: "${item}"}'
    )

    detail = found.nodes[0].detail
    assert isinstance(detail, Foreach)
    given = value('"${item}"', "nodes.n.do.input", ITEM)
    assert detail.body == Call("w", None, given, timeout_us=HOUR_US)
    assert found.inlines == ()


def test_a_call_that_does_not_wait_in_do_is_a_graph_of_that_call() -> None:
    found = definition_of("type: foreach, over: input.l, do: {type: call, call: w, wait: false}")

    assert isinstance(found.inlines[0].nodes[0].detail, Call)
    assert not found.inlines[0].nodes[0].detail.wait


@pytest.mark.rule("X4.4", "W1.3")
def test_a_foreach_in_a_foreach_reads_the_outer_item_in_its_list_and_hides_it_in_its_body() -> None:
    graph = graph_of(
        "name: a\nnodes:\n  n: {type: foreach, over: input.rows, do: {type: foreach, over: item.cells,"
        ' task: t, params: {c: "${item}"}}}\n'
    )

    inner = graph.inlines[0].definition.nodes[0].detail
    assert isinstance(inner, Foreach)
    assert inner.over is not None
    assert (inner.over.text, inner.over.reads) == ("item.cells", (ITEM,))


def test_a_graph_deep_inside_is_found_by_its_path() -> None:
    graph = graph_of(
        "name: a\nnodes:\n  n: {type: call, do: {type: fork}}\n"
        "  m: {type: call, do: {nodes: {x: {type: call, do: {type: wait, for: 1s}}}}}\n"
    )

    assert inline_of(graph, "1.0").definition.nodes[0].type is NodeType.WAIT
    assert inline_of(graph, "0").definition.nodes[0].type is NodeType.FORK


# --- source ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "input", "reads"),
    [
        ("", '{"cursor":"${cursor}"}', ()),
        ("params: {a: '${input.x}'}, ", '{"a":"${input.x}","cursor":"${cursor}"}', (INPUT,)),
        ("params: {cursor: null}, ", '{"cursor":"${cursor}"}', ()),
    ],
)
def test_a_source_gets_its_params_and_the_cursor(
    params: str, input: str, reads: tuple[Read, ...]
) -> None:
    found = each_of(f"source: {{task: pages, {params}queue: z}}, task: t", RETRIED)

    assert found.over is None
    assert found.source is not None
    given = value(input, "nodes.n.source.params", *reads, Read(Root.CURSOR))
    assert found.source.input == given
    assert (found.source.name, found.source.queue) == ("pages", "z")
    assert found.source.retry.max_attempts == 7


def test_the_params_of_a_source_may_be_computed_as_a_whole_if_they_read_the_cursor() -> None:
    text = "\"${merge(input.p, {'after': cursor})}\""

    found = each_of(f"source: {{task: pages, params: {text}}}, task: t")

    assert found.source is not None
    assert found.source.input.text == text


def test_a_source_that_names_the_cursor_itself_gets_it_under_that_name_only() -> None:
    found = each_of('source: {task: pages, params: {after: "${cursor}"}}, task: t')

    assert found.source is not None
    assert found.source.input == value(
        '{"after":"${cursor}"}', "nodes.n.source.params", Read(Root.CURSOR)
    )


# --- call --------------------------------------------------------------------------------------------


@pytest.mark.rule("F5.1", "F5.2")
def test_a_call_with_nothing_but_a_name() -> None:
    assert call_of("call: billing", RETRIED) == Call("billing", None, value("{}", "nodes.n.input"))


def test_all_keys_of_a_call_are_read() -> None:
    found = call_of(
        'call: "${vars.w}@3", input: [1], output: {t: "${output.x}"}, timeout: 1h, total_timeout: 1d,'
        " retry: {max_attempts: 3}",
        f"vars: {{w: b}}\n{RETRIED}",
    )

    name = Expression(ExpressionKind.NAME, '"${vars.w}@3"', "nodes.n.call", (Read(Root.VARS),))
    assert found == Call(
        name,
        None,
        value("[1]", "nodes.n.input"),
        value('{"t":"${output.x}"}', "nodes.n.output", Read(Root.OUTPUT)),
        retry=RetryPolicy(max_attempts=3),
        timeout_us=HOUR_US,
        total_timeout_us=DAY_US,
    )


@pytest.mark.parametrize("name", ["w", "w@stable", "w@3", "a.b-c@v1.2"])
def test_a_workflow_is_named_alone_or_with_an_alias_or_a_version(name: str) -> None:
    assert call_of(f"call: {name}").name == name


@pytest.mark.rule("W3.2")
def test_a_call_may_go_on_without_waiting() -> None:
    assert not call_of("call: w, wait: false").wait
    assert call_of("call: w, wait: true").wait


@pytest.mark.rule("F3.1", "W1.2")
def test_a_call_of_a_graph_is_a_scope_that_may_be_optional() -> None:
    node = node_of("type: call, do: {nodes: {a: {type: fork}}}, params: {a: 1}, optional: true")

    assert node.optional
    assert node.detail == Call(None, 0, value('{"a":1}', "nodes.n.params"))


@pytest.mark.rule("F3.1")
def test_a_foreach_may_be_optional() -> None:
    assert node_of("type: foreach, over: input.l, task: t, optional: true").optional


# --- emit --------------------------------------------------------------------------------------------


def test_all_keys_of_an_emit_are_read() -> None:
    found = node_of(
        'type: emit, event: "order.${input.x}", key: "${input.id}", payload: {a: 1}, keep: 1d'
    ).detail

    assert found == Emit(
        Expression(ExpressionKind.NAME, '"order.${input.x}"', "nodes.n.event", (INPUT,)),
        Expression(ExpressionKind.KEY, '"${input.id}"', "nodes.n.key", (INPUT,)),
        value('{"a":1}', "nodes.n.payload"),
        DAY_US,
    )


def test_an_emit_without_a_payload_sends_null() -> None:
    found = node_of("type: emit, event: e, key: 7").detail

    assert isinstance(found, Emit)
    assert (found.payload.text, found.keep_us) == ("null", None)


# --- handlers ----------------------------------------------------------------------------------------


@pytest.mark.rule("F5.4")
def test_c3_a_compensation_is_a_leaf_with_the_defaults_retry() -> None:
    node = node_of(
        'type: task, task: t, compensate: {type: task, task: u, params: {x: "${nodes.n.output}", e: "${error}"}}',
        RETRIED,
    )

    assert node.compensate is not None
    work = node.compensate.detail
    assert isinstance(work, Work)
    assert (node.compensate.type, node.compensate.started) == (NodeType.TASK, False)
    assert (work.name, work.retry.max_attempts) == ("u", 7)
    assert work.input.where == "nodes.n.compensate.params"


def test_c3_a_compensation_may_be_for_all_that_was_started() -> None:
    node = node_of("type: task, task: t, compensate: {type: task, task: u, when: started}")

    assert node.compensate is not None
    assert node.compensate.started


@pytest.mark.rule("C3.1")
@pytest.mark.parametrize(
    "keys",
    [
        'type: http, request: {url: "http://a"}',
        "type: code, language: python, code: 'def main(p): pass'",
        "type: task, task: t",
        "type: call, call: w",
        "type: foreach, over: input.l, task: t",
    ],
)
def test_c3_every_type_that_does_work_may_be_undone(keys: str) -> None:
    assert node_of(f"{keys}, compensate: {{type: call, call: undo}}").compensate == Handler(
        NodeType.CALL, Call("undo", None, value("{}", "nodes.n.compensate.input"))
    )


@pytest.mark.rule("C4.1", "C4.3", "X4.6")
def test_c4_on_failure_reads_every_node_and_the_error() -> None:
    found = definition_of(
        "type: task, task: t",
        'on_failure: {type: emit, event: e, key: k, payload: ["${error}", "${nodes.n.?output}"]}',
    )

    assert found.on_failure is not None
    assert isinstance(found.on_failure.detail, Emit)
    assert found.on_failure.detail.payload.where == "on_failure.payload"
    assert found.closing_timeout_us == DAY_US


@pytest.mark.rule("F5.4")
def test_f5_on_failure_has_the_defaults_retry_if_a_worker_does_it() -> None:
    for handler, attempts in (("{type: task, task: t}", 7), ("{type: call, call: w}", 1)):
        found = definition_of("type: fork", f"on_failure: {handler}\n{RETRIED}").on_failure

        assert found is not None
        assert isinstance(found.detail, Work | Call)
        assert found.detail.retry.max_attempts == attempts


def test_a_handler_may_be_a_graph_in_a_call() -> None:
    found = definition_of("type: fork", "on_failure: {type: call, do: {type: wait, for: 1s}}")

    assert found.on_failure is not None
    assert found.on_failure.detail == Call(None, 0, value("{}", "on_failure.params"))
    assert found.inlines[0].nodes[0].type is NodeType.WAIT
