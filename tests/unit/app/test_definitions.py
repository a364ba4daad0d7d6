"""Definitions compiled without an engine."""

from __future__ import annotations

from tenuto.app.definitions import load_definition


def test_a_definition_becomes_a_graph() -> None:
    loaded = load_definition("name: one\nnodes:\n  a: {type: task, task: work}\n", file="one.yaml")

    assert loaded.findings == ()
    assert loaded.graph is not None
    assert [node.id for node in loaded.graph.definition.nodes] == ["a"]


def test_expressions_are_checked_by_the_engines_own_parser() -> None:
    text = "name: one\nnodes:\n  a: {type: task, task: work, params: {n: '${1 +}'}}\n"
    loaded = load_definition(text, file="one.yaml")

    assert loaded.graph is None
    assert [(finding.file, finding.line) for finding in loaded.findings] == [("one.yaml", 3)]
