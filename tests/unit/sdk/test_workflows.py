"""What a user may call a workflow, and how a run's vars and input are put together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tenuto.model.errors import InvalidDefinition, InvalidInput, NotFound
from tenuto.model.stored import decode_graph, encode_graph
from tenuto.sdk.workflows import (
    Deployed,
    Source,
    compile_source,
    find_source,
    single_task,
    vars_text,
    workflow_of,
)

TEXT = 'name: t\nvars: {url: "http://x", n: 1}\nnodes:\n  a: {type: set, values: {m: 1}}\n'


def workflow(declared: str) -> Deployed:
    return Deployed(name="t", version=1, hash="h", input_schema=None, vars=declared)


def test_a_path_a_text_and_a_name_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(TEXT)

    assert find_source(file) == find_source(str(file)) == Source(TEXT.encode(), str(file))
    assert find_source(TEXT) == Source(TEXT, "<text>")
    assert find_source('{"name": "t"}') == Source('{"name": "t"}', "<text>")
    assert find_source("order") is None


def test_a_missing_file_proposes_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "order.yaml").write_text(TEXT)

    with pytest.raises(NotFound) as raised:
        find_source(tmp_path / "ordr.yaml")

    assert raised.value.args[0].endswith(f"did you mean {tmp_path}/order.yaml?")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a directory; name a file in it"):
        find_source(tmp_path)


def test_a_broken_definition_raises_all_its_findings() -> None:
    with pytest.raises(InvalidDefinition) as raised:
        compile_source(Source("name: t\nnodes:\n  a: {type: x}\n  b: {type: y}\n", "t.yaml"))

    assert [finding.line for finding in raised.value.findings] == [3, 4]  # type: ignore[attr-defined]


def test_a_stored_version_keeps_what_starting_needs() -> None:
    made = workflow_of(compile_source(Source(TEXT, "t.yaml")), version=3, content_hash="h")

    assert (made.name, made.version, made.hash, made.input_schema) == ("t", 3, "h", None)
    assert json.loads(made.vars) == {"url": "http://x", "n": 1}


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("hello", "hello"),
        ("stock.reserve", "stock_reserve"),
        ("tool:run-it", "tool_run_it"),
        ("2nd", "_2nd"),
        ("package", "_package"),
        ("x" * 200, "x" * 60),
    ],
)
def test_the_workflow_of_a_single_task_is_called_like_it(name: str, id: str) -> None:
    graph = single_task(name)

    assert graph.definition.name == f"enqueue:{name}"
    [node] = graph.definition.nodes
    assert (node.id, node.detail.name) == (id, name)  # type: ignore[union-attr]
    assert decode_graph(encode_graph(graph)) == graph


def test_no_definition_can_take_the_name_of_an_enqueued_task() -> None:
    with pytest.raises(InvalidDefinition, match="bad_value"):
        compile_source(Source(TEXT.replace("name: t", "name: 'enqueue:t'"), "t.yaml"))


def test_given_vars_win_over_the_environment_over_the_definition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TENUTO_VAR_URL", "http://env")
    monkeypatch.setenv("TENUTO_VAR_n", "5")

    declared = '{"url": "http://x", "n": 1, "kept": true}'

    assert json.loads(vars_text(workflow(declared), {"n": 7})) == {
        "url": "http://env",
        "n": 7,
        "kept": True,
    }


def test_an_unknown_var_is_refused_with_the_one_meant() -> None:
    with pytest.raises(InvalidInput, match="did you mean `url`"):
        vars_text(workflow('{"url": "x"}'), {"urll": "y"})
