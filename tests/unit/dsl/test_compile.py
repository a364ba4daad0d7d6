"""The door as a whole: a graph, or findings."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load
from tenuto.dsl.findings import KINDS, Severity

ROOT = Path(__file__).resolve().parents[3]
PARSER = CelParser()


def test_the_definition_of_the_docs_loads_without_findings() -> None:
    text = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs" / "definition.md").read_text(), re.DOTALL
    )

    example, *_ = text
    loaded = load(example, file="order.yaml", parser=PARSER)

    assert loaded.findings == ()
    assert loaded.graph is not None
    names = [node.id for node in loaded.graph.definition.nodes]
    assert [names[n] for n in loaded.graph.sinks] == ["ship"]


def test_warnings_alone_come_with_a_graph() -> None:
    text = (
        "name: a\nnodes: {a: {type: task, task: t}, b: {type: task, task: t}}\n"
        "edges: [{from: a, to: b, when: input.x}]\n"
    )

    loaded = load(text, file="a.yaml", parser=PARSER)

    assert [finding.severity for finding in loaded.findings] == [Severity.WARNING]
    assert loaded.graph is not None


def test_an_error_comes_without_a_graph_and_with_the_warnings() -> None:
    text = (
        "name: a\nnodes: {a: {type: task, task: t, timeout: 1}, b: {type: task, task: t}}\n"
        "edges: [{from: a, to: b, when: input.x}]\n"
    )

    loaded = load(text, file="a.yaml", parser=PARSER)

    assert {f.code for f in loaded.findings} == {"duration_type", "all_edges_conditional"}
    assert loaded.graph is None


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_bytes_and_text_are_the_same_definition(mark: str) -> None:
    text = "name: a\nnodes: {é: {type: fork}}\n".replace("é", "e")

    first = load(mark + text, file="a.yaml", parser=PARSER)
    second = load((mark + text).encode(), file="a.yaml", parser=PARSER)

    assert first == second
    assert first.graph is not None
    assert first.graph.definition.source == text


def test_every_problem_of_the_model_has_its_row_in_the_table() -> None:
    found = set()
    for path in (ROOT / "src" / "tenuto" / "model").glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                first = call.args[0] if call.args else None
                if call.func.id == "Problem" and isinstance(first, ast.Constant):
                    found.add(first.value)

    assert len(found) > 15
    assert found == {code for code, kind in KINDS.items() if kind.message == "{message}"}
