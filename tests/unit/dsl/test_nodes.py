"""What the keys of each node type become, and which defaults fill them (SEMANTICS D, F5)."""

from __future__ import annotations

import pytest

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load
from tenuto.model.definition import (
    Detail,
    End,
    Fail,
    Node,
    NodeType,
    SetValue,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.instants import DAY_US, MINUTE_US, SECOND_US
from tenuto.model.retry import Jitter, RetryPolicy

PARSER = CelParser()


def node_of(keys: str, top: str = "") -> Node:
    loaded = load(f"name: a\nnodes:\n  n: {{{keys}}}\n{top}", file="a.yaml", parser=PARSER)
    assert loaded.graph is not None, loaded.findings
    return loaded.graph.definition.nodes[0]


def work_of(keys: str, top: str = "") -> Work:
    detail = node_of(keys, top).detail
    assert isinstance(detail, Work)
    return detail


def value(text: str, where: str, *reads: Read) -> Expression:
    return Expression(ExpressionKind.VALUE, text, f"nodes.n.{where}", reads)


def test_a_task_with_nothing_but_its_name_has_the_defaults_of_the_language() -> None:
    assert work_of("type: task, task: stock.reserve") == Work(
        name="stock.reserve", input=value("{}", "params")
    )


def test_all_keys_of_work_are_read() -> None:
    found = work_of(
        "type: task, task: t, params: {b: 1, a: '${input.x}'}, queue: q, priority: -3, timeout: 1s,"
        " total_timeout: 1m, queue_timeout: 1d, heartbeat_timeout: 2s,"
        " retry: {max_attempts: 3, initial: 0s, factor: 1.5, max: 1m, jitter: equal}"
    )

    assert found == Work(
        name="t",
        input=value('{"b":1,"a":"${input.x}"}', "params", Read(Root.INPUT)),
        queue="q",
        priority=-3,
        retry=RetryPolicy(3, 0, 1.5, MINUTE_US, Jitter.EQUAL),
        timeout_us=SECOND_US,
        total_timeout_us=MINUTE_US,
        queue_timeout_us=DAY_US,
        heartbeat_timeout_us=2 * SECOND_US,
    )


def test_an_http_request_is_kept_as_it_is_written() -> None:
    found = work_of('type: http, request: {url: "http://a", json: {b: [1, "${input.x}"]}}')

    assert found.name == "http"
    assert found.input == value(
        '{"url":"http://a","json":{"b":[1,"${input.x}"]}}', "request", Read(Root.INPUT)
    )


@pytest.mark.parametrize(
    "request_",
    [
        'url: "https://a/b?c=${input.x}"',
        'url: "${vars.base}/b", method: post',
        'url: "http://a", method: "${input.method}"',
        'url: "http://a", headers: {a: b, c: 1}, query: {a: 1, b: true, c: null}',
        'url: "http://a", form: {a: "${input.x}"}',
        'url: "http://a", body: "text"',
        'url: "http://a", json: null',
        'url: "http://a", auth: {bearer: "${secrets.TOKEN}"}',
        'url: "http://a", auth: {basic: {username: u, password: "${secrets.PASSWORD}"}}',
    ],
)
def test_every_form_of_request_is_accepted(request_: str) -> None:
    assert (
        work_of(f"type: http, request: {{{request_}}}", "vars: {base: 'http://a'}").name == "http"
    )


@pytest.mark.parametrize(
    ("node", "top", "timeout_us"),
    [
        ('type: http, request: {url: "http://a"}', "", 30 * SECOND_US),
        ('type: http, request: {url: "http://a"}', "defaults: {timeout: 5s}", 5 * SECOND_US),
        (
            'type: http, timeout: 1s, request: {url: "http://a"}',
            "defaults: {timeout: 5s}",
            SECOND_US,
        ),
        ("type: task, task: t", "", None),
        ("type: task, task: t", "defaults: {timeout: 5s}", 5 * SECOND_US),
    ],
)
def test_a_timeout_comes_from_the_node_then_the_defaults_then_the_type(
    node: str, top: str, timeout_us: int | None
) -> None:
    assert work_of(node, top).timeout_us == timeout_us


def test_retry_is_merged_key_by_key_over_the_defaults_over_the_language() -> None:
    found = work_of(
        "type: task, task: t, retry: {max: 2s, jitter: none}",
        "defaults: {retry: {max_attempts: 7, max: 9s}}",
    )

    assert found.retry == RetryPolicy(
        max_attempts=7, initial_us=SECOND_US, factor=2.0, max_us=2 * SECOND_US, jitter=Jitter.NONE
    )


def test_a_node_that_says_one_key_of_retry_keeps_the_others_of_the_defaults() -> None:
    given = "{max_attempts: 7, initial: 3s, factor: 4, max: 9s, jitter: equal}"

    found = work_of(
        "type: task, task: t, retry: {max_attempts: 2}", f"defaults: {{retry: {given}}}"
    )

    assert found.retry == RetryPolicy(2, 3 * SECOND_US, 4.0, 9 * SECOND_US, Jitter.EQUAL)


def test_the_other_defaults_fill_what_a_node_leaves_out() -> None:
    top = "defaults: {queue: q, priority: 5, total_timeout: 1m, queue_timeout: 2m, heartbeat_timeout: 3s}"

    filled, own = (
        work_of("type: task, task: t", top),
        work_of("type: task, task: t, queue: r, priority: 0, queue_timeout: 1s", top),
    )

    assert (filled.queue, filled.priority, filled.total_timeout_us) == ("q", 5, MINUTE_US)
    assert (filled.queue_timeout_us, filled.heartbeat_timeout_us) == (2 * MINUTE_US, 3 * SECOND_US)
    assert (own.queue, own.priority, own.queue_timeout_us) == ("r", 0, SECOND_US)


KEY = Expression(ExpressionKind.KEY, '"k"', "nodes.n.key")


@pytest.mark.parametrize(
    ("keys", "detail"),
    [
        ("type: fork", None),
        ("type: wait, for: 1m30s", Wait(for_us=90 * SECOND_US)),
        ("type: wait, for: 0s", Wait(for_us=0)),
        ("type: wait, until: 1970-01-02T01:00:00+01:00", Wait(until_at=DAY_US)),
        ("type: wait_for_event, event: a.b, key: k", WaitForEvent("a.b", KEY)),
        (
            "type: wait_for_event, event: e, key: 7, timeout: 1s",
            WaitForEvent("e", Expression(ExpressionKind.KEY, "7", "nodes.n.key"), SECOND_US),
        ),
        ("type: set, values: {a: 1}", SetValue(value('{"a":1}', "values"))),
        ("type: set, values: {}", SetValue(value("{}", "values"))),
        (
            "type: fail, code: c, message: 'm ${input.x}', details: [1]",
            Fail(
                "c",
                Expression(
                    ExpressionKind.KEY, '"m ${input.x}"', "nodes.n.message", (Read(Root.INPUT),)
                ),
                value("[1]", "details"),
            ),
        ),
        ("type: fail, code: c", Fail("c")),
        ("type: end", End()),
        ("type: end, as: success", End()),
        (
            "type: end, as: cancelled, output: null",
            End(cancelled=True, output=value("null", "output")),
        ),
    ],
)
def test_the_keys_of_a_type_become_its_detail(keys: str, detail: Detail) -> None:
    assert node_of(keys).detail == detail


@pytest.mark.parametrize("name", ["WAIT", "Wait", "wait"])
def test_a_type_is_known_in_any_letter_case(name: str) -> None:
    assert node_of(f"type: {name}, for: 1s").type is NodeType.WAIT


@pytest.mark.parametrize(("word", "join"), [("all", 0), ("any", 1), ("1", 1), ("2", 2)])
def test_join_is_all_any_or_a_number(word: str, join: int) -> None:
    text = (
        "name: a\nnodes:\n  a: {type: task, task: t}\n  b: {type: task, task: t}\n"
        f"  j: {{type: join, needs: [a, b], join: {word}, cancel_losers: {str(join > 0).lower()}}}\n"
    )
    loaded = load(text, file="a.yaml", parser=PARSER)
    assert loaded.graph is not None, loaded.findings

    found = loaded.graph.definition.nodes[2]

    assert (found.join, found.cancel_losers) == (join, join > 0)


@pytest.mark.parametrize(
    "keys",
    [
        'type: http, request: {url: "http://a"}, optional: true',
        "type: task, task: t, optional: true",
        "type: wait_for_event, event: e, key: k, optional: true",
    ],
)
def test_work_and_waits_for_events_may_be_optional(keys: str) -> None:
    assert node_of(keys).optional


def test_keys_that_begin_with_x_are_free_everywhere() -> None:
    text = (
        "x-a: {b: ['${not read']}\nname: a\nnodes:\n"
        "  n: {x-b: 1, type: http, retry: {x-c: 1}, request: {url: 'http://a', x-d: 1}}\n"
    )

    loaded = load(text, file="a.yaml", parser=PARSER)

    assert loaded.findings == ()
    assert loaded.graph is not None
    detail = loaded.graph.definition.nodes[0].detail
    assert isinstance(detail, Work)
    assert detail.input.text == '{"url":"http://a"}'
