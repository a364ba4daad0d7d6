"""The table of bounds, and that the door holds the bounds that it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load
from tenuto.dsl.limits import LIMITS, as_markdown
from tenuto.model.definition import DEFINITION_MAX, NODES_MAX

DOCS = Path(__file__).resolve().parents[3] / "docs" / "limits.md"
PARSER = CelParser()


def codes(text: str) -> list[str]:
    return [str(finding.code) for finding in load(text, file="a.yaml", parser=PARSER).findings]


@pytest.mark.rule("D1.5")
def test_the_table_in_the_docs_is_the_table() -> None:
    found = re.search(r"<!-- limits -->\n(.*?)\n<!-- end -->", DOCS.read_text(), re.DOTALL)

    assert found is not None
    assert as_markdown() == found[1], (
        "print it: python -c 'from tenuto.dsl.limits import as_markdown; print(as_markdown())'"
    )
    assert f"{DEFINITION_MAX:,} bytes of UTF-8" in {limit.bound for limit in LIMITS}


def test_the_largest_file_is_accepted() -> None:
    head = "name: a\nnodes: {a: {type: fork}}\n# "

    assert codes(head + "x" * (DEFINITION_MAX - len(head))) == []


def test_size_is_counted_in_bytes() -> None:
    head = "name: a\nnodes: {a: {type: fork}}\n# "

    assert codes(head + "é" * (DEFINITION_MAX // 2)) == ["too_large"]


@pytest.mark.parametrize(
    "keys",
    ["concurrency: 1", "concurrency: 10000", "batch: 1", "batch: 10000", "tolerate: 1000000"],
)
def test_the_bounds_of_a_foreach_are_accepted(keys: str) -> None:
    assert (
        codes(f"name: a\nnodes: {{a: {{type: foreach, over: input.l, task: t, {keys}}}}}\n") == []
    )


def test_nodes_in_do_count_among_the_most() -> None:
    inner = ", ".join(f"n{n}: {{type: fork}}" for n in range(NODES_MAX - 1))
    text = f"name: a\nnodes:\n  a: {{type: call, do: {{nodes: {{{inner}}}}}}}\n"

    assert codes(text) == []
    assert codes(text + "  b: {type: call, do: {type: fork}}\n") == ["too_many_nodes"]


def test_the_most_nodes_are_accepted_in_one_chain() -> None:
    text = "name: a\nnodes:\n  n0: {type: fork}\n" + "".join(
        f"  n{n}: {{type: fork, needs: n{n - 1}}}\n" for n in range(1, NODES_MAX)
    )

    assert codes(text) == []


@pytest.mark.parametrize(
    "keys",
    [
        "retry: {max_attempts: 1000000, factor: 1000, initial: 0s, max: 3660d}",
        "priority: 0",
        "priority: 9",
        "queue: " + "q" * 100,
        "timeout: 3660d",
        "params: {a: 9223372036854775807, b: -9223372036854775808}",
        f"retry: {{rules: [{', '.join(f'{{on: a{n}, max_attempts: 1000000}}' for n in range(100))}]}}",
        f"retry: {{give_up_on: [{', '.join(f'a{n}' for n in range(100))}]}}",
    ],
)
def test_the_bounds_themselves_are_accepted(keys: str) -> None:
    assert codes(f"name: a\nnodes: {{a: {{type: task, task: t, {keys}}}}}\n") == []
