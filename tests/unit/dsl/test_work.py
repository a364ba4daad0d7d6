"""What a worker's node becomes, and which defaults fill it (SEMANTICS D, F5)."""

from __future__ import annotations

import pytest

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load
from tenuto.model.definition import Work
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.instants import DAY_US, MINUTE_US, SECOND_US
from tenuto.model.retry import Jitter, RetryPolicy

PARSER = CelParser()


def work_of(keys: str, top: str = "") -> Work:
    loaded = load(f"name: a\nnodes:\n  n: {{{keys}}}\n{top}", file="a.yaml", parser=PARSER)
    assert loaded.graph is not None, loaded.findings
    detail = loaded.graph.definition.nodes[0].detail
    assert isinstance(detail, Work)
    return detail


def value(text: str, where: str, *reads: Read) -> Expression:
    return Expression(ExpressionKind.VALUE, text, f"nodes.n.{where}", reads)


@pytest.mark.rule("D1.1")
def test_a_task_with_nothing_but_its_name_has_the_defaults_of_the_language() -> None:
    assert work_of("type: task, task: stock.reserve") == Work(
        name="stock.reserve", input=value("{}", "params")
    )


def test_all_keys_of_work_are_read() -> None:
    found = work_of(
        "type: task, task: t, params: {b: 1, a: '${input.x}'}, queue: q, priority: 3, timeout: 1s,"
        " total_timeout: 1m, queue_timeout: 1d, heartbeat_timeout: 2s,"
        " retry: {max_attempts: 3, initial: 0s, factor: 1.5, max: 1m, jitter: equal}"
    )

    assert found == Work(
        name="t",
        input=value('{"b":1,"a":"${input.x}"}', "params", Read(Root.INPUT)),
        queue="q",
        priority=3,
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


@pytest.mark.rule("D1.2")
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


@pytest.mark.rule("D1.1")
def test_retry_is_merged_key_by_key_over_the_defaults_over_the_language() -> None:
    found = work_of(
        "type: task, task: t, retry: {max: 2s, jitter: none}",
        "defaults: {retry: {max_attempts: 7, max: 9s}}",
    )

    assert found.retry == RetryPolicy(
        max_attempts=7, initial_us=SECOND_US, factor=2.0, max_us=2 * SECOND_US, jitter=Jitter.NONE
    )


@pytest.mark.rule("F5.1")
@pytest.mark.parametrize(
    "keys",
    [
        'type: http, request: {url: "http://a"}',
        "type: code, language: python, code: 'def main(p): pass'",
        "type: task, task: t",
    ],
)
def test_F5_the_defaults_retry_is_for_all_that_a_worker_does(keys: str) -> None:
    assert work_of(keys, "defaults: {retry: {max_attempts: 7}}").retry.max_attempts == 7


@pytest.mark.rule("D1.1")
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


@pytest.mark.rule("X1.3")
def test_a_node_that_says_no_priority_leaves_it_to_its_run() -> None:
    assert work_of("type: task, task: t").priority is None
    assert work_of("type: task, task: t", "defaults: {queue: q}").priority is None
    assert work_of("type: task, task: t", "defaults: {priority: 0}").priority == 0
