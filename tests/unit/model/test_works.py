"""Everything that a definition asks of workers, of other runs and of expressions is found, wherever it stands."""

from __future__ import annotations

from tests.support.driver import graph_of

from tenuto.model.definition import Definition
from tenuto.model.works import own_calls, own_expressions, works


def deep() -> Definition:
    """Work in every place that there is."""
    return graph_of("""
name: deep
nodes:
  first:
    type: http
    request: {url: "http://127.0.0.1:1/"}
    compensate: {type: task, task: undo.first, queue: slow}
  each:
    type: foreach
    source: {task: pages, queue: pages}
    do:
      nodes:
        a: {type: task, task: inner.a, compensate: {type: task, task: inner.undo}}
        b: {type: foreach, over: input.list, do: {type: wait, for: 1s}}
    params: {n: "${item}"}
    compensate:
      type: call
      do: {nodes: {c: {type: foreach, over: input.list, do: {type: task, task: deepest, params: {n: "${item}"}}}}}
  short: {type: foreach, over: input.list, task: "${item.task}", queue: "${input.queue}"}
  single: {type: call, do: {type: task, task: single}}
  named: {type: foreach, over: input.list, call: billing, input: {id: "${item}"}}
edges: [{from: each, to: short, when: "size(nodes.each.output) > 1"}]
on_failure: {type: task, task: alert, params: {error: "${error}"}}
output: "${nodes.short.output}"
""").definition


def test_all_work_is_found_with_where_it_stands() -> None:
    found = {asked.where: asked.task for asked in works(deep())}

    assert found == {
        "first": None,
        "first.compensate": "undo.first",
        "each.source": "pages",
        "each/a": "inner.a",
        "each/a.compensate": "inner.undo",
        "each.compensate/c": "deepest",
        "short": None,
        "single": "single",
        "on_failure": "alert",
    }
    owners = [asked.owner for asked in works(deep())]
    assert owners[2:4] == ["node each.source", "node each/a"]
    assert owners[-1] == "on_failure"


def test_of_nodes_that_are_done_only_the_handlers_are_left() -> None:
    found = [asked.where for asked in works(deep(), nodes={3})]

    assert found == ["first.compensate", "each.compensate/c", "single", "on_failure"]


def test_calls_are_those_that_a_run_begins_itself() -> None:
    definition = deep()

    names = [call.name if call.inline is None else call.inline for call in own_calls(definition)]

    assert sorted(names, key=str) == [0, 1, 2, "billing"]
    assert list(own_calls(graph_of("name: w\nnodes: {a: {type: fork}}").definition)) == []


def test_expressions_are_those_that_a_run_evaluates_itself() -> None:
    texts = [expression.text for expression in own_expressions(deep())]

    for text in (
        *('"${item.task}"', '"${input.queue}"', "size(nodes.each.output) > 1", "input.list"),
        *('"${nodes.short.output}"', '{"error":"${error}"}', '{"cursor":"${cursor}"}'),
    ):
        assert text in texts
    assert not any("deepest" in text for text in texts)
