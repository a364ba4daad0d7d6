"""`retry` key by key, with rules (SEMANTICS D, F5)."""

from __future__ import annotations

import pytest

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load
from tenuto.model.definition import Work
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.instants import SECOND_US
from tenuto.model.retry import Jitter, RetryPolicy, RetryRule

PARSER = CelParser()


def policy_of(retry: str, top: str = "") -> RetryPolicy:
    text = f"name: a\nnodes:\n  n: {{type: task, task: t{retry and ', retry: ' + retry}}}\n{top}\n"
    loaded = load(text, file="a.yaml", parser=PARSER)
    assert loaded.graph is not None, loaded.findings
    detail = loaded.graph.definition.nodes[0].detail
    assert isinstance(detail, Work)
    return detail.retry


def test_rules_have_names_a_condition_and_a_back_off_of_their_own() -> None:
    found = policy_of(
        "{rules: [{on: [timeout, http.5xx, ConnectionError], max_attempts: 5, initial: 2s, factor: 3, max: 9s,"
        " jitter: none}, {when: 'error.details.again', max_attempts: 2}, {on: '*', max_attempts: 3}],"
        " give_up_on: [http.4xx]}"
    )

    when = Expression(
        ExpressionKind.CONDITION,
        "error.details.again",
        "nodes.n.retry.rules[1].when",
        (Read(Root.ERROR),),
    )
    assert found.rules == (
        RetryRule(
            ("timeout", "http.5xx", "ConnectionError"),
            *(5, None, 2 * SECOND_US, 3.0, 9 * SECOND_US, Jitter.NONE),
        ),
        RetryRule((), 2, when),
        RetryRule(("*",), 3),
    )
    assert found.give_up_on == ("http.4xx",)
    assert (found.max_attempts, found.total) == (1, None)


def test_a_rule_has_the_back_off_beside_it_but_for_what_it_says() -> None:
    (rule,) = policy_of(
        "{initial: 5s, jitter: equal, rules: [{on: timeout, max_attempts: 2, factor: 4}]}"
    ).rules

    assert (rule.initial_us, rule.factor, rule.jitter) == (5 * SECOND_US, 4.0, Jitter.EQUAL)


def test_max_attempts_beside_rules_is_the_total() -> None:
    found = policy_of("{max_attempts: 4, rules: [{on: timeout, max_attempts: 9}]}")

    assert (found.max_attempts, found.total) == (4, 4)
    assert policy_of("{max_attempts: 4}").total is None


def test_rules_are_one_key_of_the_merge() -> None:
    top = (
        "defaults: {retry: {max_attempts: 6, rules: [{on: a, max_attempts: 2}, {on: b, max_attempts: 3}],"
        " give_up_on: c}}"
    )

    kept = policy_of("{initial: 7s}", top)
    taken = policy_of("{rules: [{on: d, max_attempts: 4}]}", top)

    assert [rule.on for rule in kept.rules] == [("a",), ("b",)]
    assert {rule.initial_us for rule in kept.rules} == {7 * SECOND_US}
    assert (kept.total, kept.give_up_on) == (6, ("c",))
    assert [rule.on for rule in taken.rules] == [("d",)]
    assert policy_of("{rules: []}", top).rules == ()
    assert [rule.on for rule in policy_of("", top).rules] == [("a",), ("b",)]


@pytest.mark.parametrize(
    "rules",
    [
        "{on: timeout, max_attempts: 2}, {max_attempts: 3}",
        "{on: '*', when: 'error.details.x', max_attempts: 2}, {on: timeout, max_attempts: 3}",
        "{on: http.503, max_attempts: 2}, {on: http.5xx, max_attempts: 3}",
        "{on: [timeout, http.503], max_attempts: 2}, {on: [http.503, http.502], max_attempts: 3}",
    ],
)
def test_a_rule_that_can_still_match_is_left_alone(rules: str) -> None:
    assert len(policy_of(f"{{rules: [{rules}]}}").rules) == 2


@pytest.mark.parametrize(
    ("retry", "why"),
    [
        (
            "{rules: [{on: http.5xx, max_attempts: 2}, {on: http.503, max_attempts: 3}]}",
            "rule 1 takes it",
        ),
        (
            "{give_up_on: '*', rules: [{on: timeout, max_attempts: 3}]}",
            "`give_up_on` comes first",
        ),
        ("{rules: [{on: lease_lost, max_attempts: 3}]}", "`lease_lost` is never retried"),
    ],
)
def test_a_rule_that_can_never_match_says_why(retry: str, why: str) -> None:
    text = f"name: a\nnodes: {{n: {{type: task, task: t, retry: {retry}}}}}\n"

    (finding,) = load(text, file="a.yaml", parser=PARSER).findings

    assert (finding.code, finding.message) == (
        "retry_rule_unreachable",
        f"this rule never matches: {why}",
    )


def test_a_status_is_written_as_the_code_that_it_gives() -> None:
    text = "name: a\nnodes: {n: {type: task, task: t, retry: {give_up_on: 404}}}\n"

    (finding,) = load(text, file="a.yaml", parser=PARSER).findings

    assert finding.hint == "write `http.404`"
