"""SEMANTICS X1: an expression stands wherever a value does. What it may not yield is in `nested_cases`."""

from __future__ import annotations

from operator import attrgetter

import pytest

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root

PARSER = CelParser()
TASK = "type: task, task: t, "
EACH = "type: foreach, over: input.l, task: t, "
INPUT = Read(Root.INPUT)


def computed(keys: str, field: str, top: str = "") -> Expression:
    loaded = load(f"name: a\nnodes:\n  n: {{{keys}}}\n{top}\n", file="a.yaml", parser=PARSER)
    assert loaded.graph is not None, loaded.findings
    found = attrgetter(field)(loaded.graph.definition.nodes[0].detail)
    assert isinstance(found, Expression), found
    return found


KINDS: list[tuple[str, str, str, ExpressionKind]] = [
    ("type: task, ", "task", "name", ExpressionKind.NAME),
    (TASK, "queue", "queue", ExpressionKind.NAME),
    (TASK, "priority", "priority", ExpressionKind.COUNT),
    (TASK, "timeout", "timeout_us", ExpressionKind.DURATION),
    (TASK, "total_timeout", "total_timeout_us", ExpressionKind.DURATION),
    (TASK, "queue_timeout", "queue_timeout_us", ExpressionKind.DURATION),
    (TASK, "heartbeat_timeout", "heartbeat_timeout_us", ExpressionKind.DURATION),
    ("type: wait, ", "for", "for_us", ExpressionKind.DURATION),
    ("type: wait, ", "until", "until_at", ExpressionKind.INSTANT),
    ("type: wait_for_event, ", "event", "event", ExpressionKind.NAME),
    ("type: wait_for_event, event: e, ", "key", "key", ExpressionKind.KEY),
    ("type: wait_for_event, event: e, ", "timeout", "timeout_us", ExpressionKind.DURATION),
    (
        "type: wait_for_event, event: e, ",
        "heartbeat_timeout",
        "heartbeat_timeout_us",
        ExpressionKind.DURATION,
    ),
    ("type: call, ", "call", "name", ExpressionKind.NAME),
    ("type: call, call: w, ", "timeout", "timeout_us", ExpressionKind.DURATION),
    ("type: call, call: w, ", "total_timeout", "total_timeout_us", ExpressionKind.DURATION),
    ("type: emit, key: k, ", "event", "event", ExpressionKind.NAME),
    ("type: emit, event: e, ", "key", "key", ExpressionKind.KEY),
    ("type: emit, event: e, key: k, ", "keep", "keep_us", ExpressionKind.DURATION),
    (EACH, "concurrency", "concurrency", ExpressionKind.COUNT),
    (EACH, "batch", "batch", ExpressionKind.COUNT),
    (EACH, "tolerate", "tolerate", ExpressionKind.TOLERANCE),
    (EACH, "total_timeout", "total_timeout_us", ExpressionKind.DURATION),
    (EACH, "timeout", "body.timeout_us", ExpressionKind.DURATION),
    (EACH, "queue", "body.queue", ExpressionKind.NAME),
]


@pytest.mark.rule("X1.1", "X7.1")
@pytest.mark.parametrize(("keys", "key", "field", "kind"), KINDS)
def test_x1_a_value_may_be_computed(keys: str, key: str, field: str, kind: ExpressionKind) -> None:
    found = computed(f'{keys}{key}: "${{input.x}}"', field)

    assert found == Expression(kind, '"${input.x}"', f"nodes.n.{key}", (INPUT,))


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        (TASK + """timeout: "${duration('5s')}\"""", "timeout_us"),
        (TASK + 'timeout: "${input.n}s"', "timeout_us"),
        (TASK + 'timeout: "${string(input.n)}m30s"', "timeout_us"),
        (TASK + "timeout: \"${input.big ? '1h' : '1m'}\"", "timeout_us"),
        ("type: wait, until: \"${timestamp('2026-12-24T18:00:00Z')}\"", "until_at"),
        ('type: wait, until: "${node.entered_at}"', "until_at"),
        (EACH + 'concurrency: "${size(input.l)}"', "concurrency"),
        (EACH + 'tolerate: "${input.n}%"', "tolerate"),
        (EACH + 'timeout: "${item.limit}"', "body.timeout_us"),
    ],
)
def test_what_yields_the_right_kind_is_accepted(keys: str, field: str) -> None:
    computed(keys, field)


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ('type: task, task: t, params: "${input.p}"', "input"),
        ("type: set, values: \"${merge(input, {'a': 1})}\"", "value"),
        ('type: call, do: {type: fork}, params: "${input.p}"', "input"),
    ],
)
def test_x7_a_mapping_may_be_computed_as_a_whole(keys: str, field: str) -> None:
    assert computed(keys, field).kind is ExpressionKind.VALUE


def codes(text: str) -> list[str]:
    return [str(finding.code) for finding in load(text, file="a.yaml", parser=PARSER).findings]


TWO = "name: a\nnodes:\n  a: {type: task, task: t}\n  b: {type: task, task: t}\n"
WAIT = "name: a\nnodes:\n  a: {type: wait_for_event, event: e, "


@pytest.mark.rule("X1.1", "X7.1")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('name: a\nnodes: {"${input.x}": {type: fork}}\n', "bad_id"),
        ('name: a\nnodes: {a: {type: "${input.x}"}}\n', "template_not_allowed"),
        (TWO + 'edges: [{from: "${input.x}", to: b}]\n', "template_not_allowed"),
        (TWO + "edges: ['a -> ${input.x}']\n", "unknown_node"),
        (
            TWO + 'edges: [a -> b, {from: b, to: a, loop: {max: "${input.x}"}}]\n',
            "template_not_allowed",
        ),
        (TWO + 'edges: [{from: a, to: b, when: "${input.x}"}]\n', "template_in_condition"),
        (
            'name: a\nnodes: {a: {type: foreach, over: "${input.l}", task: t}}\n',
            "template_in_condition",
        ),
        (WAIT + 'match: "${event.x}"}\n', "template_in_condition"),
        (WAIT + 'fail_when: "${event.x}"}\n', "template_in_condition"),
    ],
)
def test_x1_x7_what_holds_no_template_says_so(text: str, code: str) -> None:
    assert code in codes(text)


@pytest.mark.rule("X7.1")
def test_x7_code_is_no_template() -> None:
    code = "function main() { return `${nope} $${x}` }"
    text = f"name: a\nnodes: {{a: {{type: code, language: javascript, code: '{code}'}}}}\n"

    loaded = load(text, file="a.yaml", parser=PARSER)

    assert (loaded.findings, loaded.graph is None) == ((), False)


def test_a_default_may_be_computed_from_input_and_vars() -> None:
    found = computed("type: task, task: t", "queue", 'defaults: {queue: "${vars.q}"}\nvars: {q: r}')

    assert found == Expression(
        ExpressionKind.NAME, '"${vars.q}"', "defaults.queue", (Read(Root.VARS),)
    )


@pytest.mark.rule("X4.2")
@pytest.mark.parametrize("key", ["match", "fail_when"])
def test_x4_conditions_of_a_wait_read_the_event_and_what_the_node_reads(key: str) -> None:
    found = computed(f"type: wait_for_event, event: e, {key}: 'event.id == input.id'", key)

    assert found == Expression(
        ExpressionKind.CONDITION,
        "event.id == input.id",
        f"nodes.n.{key}",
        (Read(Root.EVENT), INPUT),
    )


def test_a_wait_without_a_key_waits_under_its_own_callback_key() -> None:
    text = "name: a\nnodes: {n: {type: wait_for_event, event: e}}\n"

    loaded = load(text, file="a.yaml", parser=PARSER)

    assert loaded.graph is not None
    assert attrgetter("key")(loaded.graph.definition.nodes[0].detail) is None
