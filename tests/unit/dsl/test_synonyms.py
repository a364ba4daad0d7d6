"""Words of other engines lead to ours, and lengths of time to whole numbers."""

from __future__ import annotations

import pytest
from tests.unit.dsl.cases import NODES, TASK, task

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load
from tenuto.dsl.synonyms import spell_seconds

PARSER = CelParser()


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        (task("retry: {attempts: 3}"), "max_attempts"),
        (task("retry: {delay: 3s}"), "initial"),
        (task("retry: {multiplier: 3}"), "factor"),
        (task("retries: 3"), "retry"),
        (task("max_retries: 3"), "retry"),
        (task("depends_on: b"), "needs"),
        (task("after: b"), "needs"),
        (task("requires: b"), "needs"),
        (task("args: {a: 1}"), "params"),
        (NODES + "  a: {type: sleep}\n", "wait"),
        (NODES + "  a: {type: delay}\n", "wait"),
        (NODES + "  a: {type: signal}\n", "wait_for_event"),
        (NODES + "  a: {type: wait, duration: 3s}\n", "for"),
        (TASK + "edges:\n  - {from: a, to: a, if: input.x}\n", "when"),
        (TASK + "edges:\n  - {source: a, to: a}\n", "from"),
        ("name: a\nsteps: {}\n", "nodes"),
        (NODES + "  a: {type: map}\n", "foreach"),
        (NODES + "  a: {type: parallel_map}\n", "foreach"),
        (NODES + "  a: {type: subworkflow}\n", "call"),
        (NODES + "  a: {type: child_workflow}\n", "call"),
        (NODES + "  a: {type: publish}\n", "emit"),
        (
            NODES + "  a: {type: foreach, over: input.l, task: t, max_concurrency: 3}\n",
            "concurrency",
        ),
        (NODES + "  a: {type: foreach, over: input.l, item_processor: {}, task: t}\n", "do"),
        (NODES + "  a: {type: foreach, over: input.l, task: t, chunk_size: 3}\n", "batch"),
        (NODES + "  a: {type: emit, event: e, key: k, data: 1}\n", "payload"),
        (NODES + "  a: {type: emit, event: e, key: k, ttl: 1d}\n", "keep"),
        (NODES + "  a: {type: wait_for_event, event: e, filter: 'event.x'}\n", "match"),
        (task("undo: {}"), "compensate"),
        (task("retry: {policies: []}"), "rules"),
        (task("retry: {non_retryable_errors: []}"), "give_up_on"),
        (task("retry: {rules: [{error_equals: timeout, max_attempts: 2}]}"), "on"),
        (TASK + "on_error: {type: task, task: t}\n", "on_failure"),
    ],
)
def test_a_word_of_another_engine_gets_ours_as_its_hint(text: str, ours: str) -> None:
    hints = [
        finding.hint
        for finding in load(text, file="a.yaml", parser=PARSER).findings
        if finding.code in ("unknown_key", "unknown_type")
    ]

    assert hints == [f"did you mean `{ours}`?"]


@pytest.mark.parametrize("word", ["catch", "on_error"])
def test_a_node_that_catches_is_told_of_failure_edges(word: str) -> None:
    (finding,) = load(task(f"{word}: b"), file="a.yaml", parser=PARSER).findings

    assert (finding.code, finding.text) == ("key_not_allowed", word)
    assert "on: failure" in finding.hint


def test_a_word_is_not_proposed_where_it_cannot_stand() -> None:
    loaded = load("name: a\ndepends_on: b\nnodes: {a: {type: fork}}\n", file="a", parser=PARSER)

    assert [finding.hint for finding in loaded.findings] == [
        "take it out, or call it `x-depends_on`"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.5s", "500ms"),
        ("1.5h", "1h30m"),
        (".25m", "15s"),
        ("10 seconds", "10s"),
        ("2 weeks", "14d"),
        ("1.0001s", None),
        ("0s", None),
        ("soon", None),
        ("99999999d", None),
        ("1e3", None),
    ],
)
def test_a_duration_is_spelt_in_whole_numbers_where_it_can_be(text: str, said: str | None) -> None:
    assert spell_seconds(text) == said


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("0.5s", "numbers are whole: write `500ms`"),
        ("soon", "write it like `500ms`, `10s`, `1h30m` or `2d`, in whole numbers"),
        ("0.5", "write it like `500ms`"),
    ],
)
def test_a_bad_duration_comes_with_the_good_one(value: str, hint: str) -> None:
    loaded = load(task(f"timeout: {value}"), file="a.yaml", parser=PARSER)

    assert [finding.hint for finding in loaded.findings] == [hint]
