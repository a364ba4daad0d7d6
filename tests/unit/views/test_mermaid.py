"""Graphs as Mermaid flowcharts: every node, in the syntax, whatever texts say."""

from __future__ import annotations

import re

import pytest
from tests.unit.views.whole import WHOLE, graph_of

from tenuto.views.mermaid import graph_mermaid

TEXTS = r'"(?:[^"#<>&`\\|\n]|<br/>|#(?:quot|lt|gt|amp|35|92|96|124);)*"'
NODE = re.compile(
    rf"(n[0-9_]+|on_failure)(?:\[{TEXTS}\]|\{{{TEXTS}\}}|\{{\{{{TEXTS}\}}\}}|\(\[{TEXTS}\]\)|\(\({TEXTS}\)\)"
    rf"|\[/{TEXTS}/\]|\[\[{TEXTS}\]\])"
)
EDGE = re.compile(rf"(n[0-9_]+) (?:-->|-\.->)(?:\|{TEXTS}\|)? (n[0-9_]+)")
SUBGRAPH = re.compile(rf"subgraph (n[0-9_]+)\[{TEXTS}\]")


def check_mermaid(text: str) -> set[str]:
    """Strictly: every line is one of four forms, subgraphs are closed, edges join what is there. The ids."""
    first, *lines = text.removesuffix("\n").split("\n")
    assert first == "flowchart TD"
    known, ends, depth = set[str](), set[str](), 1
    for line in lines:
        content = line.lstrip(" ")
        if content == "end":
            depth -= 1
        assert len(line) - len(content) == 2 * depth, line
        if content == "end":
            continue
        if found := SUBGRAPH.fullmatch(content):
            depth += 1
        elif (found := NODE.fullmatch(content)) is None:
            found = EDGE.fullmatch(content)
            assert found is not None, line
            ends |= set(found.groups())
            continue
        assert found[1] not in known, line
        known.add(found[1])
    assert depth == 1
    assert ends <= known
    return known


def test_a_flowchart_has_the_syntax_and_every_node() -> None:
    text = graph_mermaid(graph_of(WHOLE))

    assert check_mermaid(text) == {*(f"n{n}" for n in range(8)), "n1_0", "n1_1", "on_failure"}
    assert 'subgraph n1["each<br/>foreach input.list: call do"]' in text
    assert "n4 -.->|\"failure · error.code == 'timeout'\"| n5" in text


@pytest.mark.parametrize(
    "condition",
    [
        'input.a == "x"',
        "input.a < 1 && input.b > 2 || !input.c",
        'input.a == "`|#;&amp;<br/>]})"',
        r'input.a.matches("\\d+")',
        'input.a == "end"',
    ],
)
def test_whatever_a_condition_says_stays_a_text(condition: str) -> None:
    quoted = condition.replace("'", "''")
    text = (
        "name: a\nnodes:\n  end1: {type: fork}\n  b: {type: task, task: t}\n"
        f"edges:\n  - {{from: end1, to: b}}\n  - {{from: b, to: c, when: '{quoted}'}}\n"
    ).replace("edges:", "  c: {type: switch}\nedges:")

    assert check_mermaid(graph_mermaid(graph_of(text))) == {"n0", "n1", "n2"}


def test_the_same_graph_gives_the_same_flowchart() -> None:
    assert graph_mermaid(graph_of(WHOLE)) == graph_mermaid(graph_of(WHOLE))
