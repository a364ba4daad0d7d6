"""What changed between two definitions: every kind of change is told in the words of a definition, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.app.definitions import load_definition
from tenuto.views.diff import Side, diff_document

ORDER = """
name: order
input: {type: object, properties: {id: {type: integer}}}
vars: {greeting: hello}
nodes:
  check: {type: http, request: {method: GET, url: "http://stock/${input.id}"}}
  charge:
    type: task
    task: charge
    params: {amount: "${input.amount}", currency: EUR}
    retry: {max_attempts: 3}
    needs: [check]
  big: {type: switch, needs: [charge]}
  ship: {type: call, call: ship@stable, input: {id: "${input.id}"}}
  say: {type: set, values: {text: shipped}}
  each:
    type: foreach
    over: input.lines
    do:
      nodes: {pick: {type: task, task: pick, params: {line: "${item}"}}}
  run: {type: code, language: python, code: "def main(params):\\n    return 1\\n", params: {n: 1}}
edges:
  - {from: big, to: ship, when: "input.amount > 10"}
  - {from: big, to: say, else: true}
output: {text: "${nodes.say.output.?text}"}
"""


def side(text: str, label: str = "order@1") -> Side:
    loaded = load_definition(text, file="order.yaml")
    assert loaded.graph is not None, [str(finding) for finding in loaded.findings]
    return Side(label, loaded.graph.definition.source, loaded.graph.definition)


def diff(old: str, new: str) -> Any:
    return diff_document(side(old), side(new, "order@2"))


def test_what_means_the_same_has_no_changes_but_those_of_its_text() -> None:
    found = diff(ORDER, ORDER.replace("charge\n    params", "charge # a comment\n    params"))

    assert found["same"]
    assert found["text"][:2] == ["--- order@1", "+++ order@2"]
    assert "+    task: charge # a comment" in found["text"]
    assert found["workflow"] == []
    nothing: dict[str, list[object]] = {"added": [], "removed": [], "changed": []}
    assert found["nodes"] == found["edges"] == nothing


CHANGES = [
    ("GET", "POST", "check", "request.method", "GET", "POST"),
    ("task: charge", "task: charge_card", "charge", "task", "charge", "charge_card"),
    ("currency: EUR", "currency: USD", "charge", "params.currency", "EUR", "USD"),
    (", currency: EUR", "", "charge", "params.currency", "EUR", None),
    ("max_attempts: 3}", "max_attempts: 4}", "charge", "retry.max_attempts", 3, 4),
    (
        "max_attempts: 3}",
        "max_attempts: 3, initial: 2m}",
        "charge",
        "retry.initial",
        "1s",
        "2m",
    ),
    ("    needs: [check]", "    needs: [check]\n    timeout: 30s", "charge", "timeout", None, "30s"),
    ("    needs: [check]", "    needs: [check]\n    optional: true", "charge", "optional", False, True),
    ("ship@stable", "ship@3", "ship", "call", "ship@stable", "ship@3"),
    ("text: shipped", "text: 1", "say", "values.text", "shipped", 1),
    ("over: input.lines", "over: input.rows", "each", "over", "input.lines", "input.rows"),
    ("over: input.lines", "over: input.lines\n    batch: 5", "each", "batch", 0, 5),
    ("task: pick", "task: take", "each/pick", "task", "pick", "take"),
    ("params: {n: 1}", "params: {n: 2}", "run", "params.n", 1, 2),
    ("language: python", "language: cpython", "run", "language", "python", "cpython"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "node", "what", "before", "after"),
    CHANGES,
    ids=[c[3] + " " + c[1] for c in CHANGES],
)
def test_a_change_of_a_node_is_told_alone(
    old: str, new: str, node: str, what: str, before: object, after: object
) -> None:
    assert old in ORDER

    found = diff(ORDER, ORDER.replace(old, new))

    [changed] = found["nodes"]["changed"]
    assert changed["id"] == node
    assert changed["changes"] == [{"what": what, "old": before, "new": after}]
    assert not found["same"]
    assert found["workflow"] == []
    assert found["edges"] == {"added": [], "removed": [], "changed": []}


def test_what_undoes_a_node_belongs_to_it() -> None:
    undo = "    compensate: {type: http, request: {url: 'http://pay/undo'}, when: started}\n"

    found = diff(ORDER, ORDER.replace("    needs: [check]\n", f"    needs: [check]\n{undo}"))

    [changed] = found["nodes"]["changed"]
    told = {each["what"]: each["new"] for each in changed["changes"]}
    assert told["compensate.type"] == "http"
    assert told["compensate.request.url"] == "http://pay/undo"
    assert told["compensate.when"] == "started"


@pytest.mark.parametrize(
    ("old", "new", "what", "before", "after"),
    [
        ("name: order", "name: orders", "name", "order", "orders"),
        ("greeting: hello", "greeting: hi", "vars.greeting", "hello", "hi"),
        ("vars: {greeting: hello}", "timeout: 1h\nvars: {greeting: hello}", "timeout", None, "1h"),
        ("vars: {greeting: hello}", "closing_timeout: 1h\nvars: {greeting: hello}",
         "closing_timeout", "1d", "1h"),
        ("output: {text", "output: {said", "output.said", None, "${nodes.say.output.?text}"),
        ("{id: {type: integer}}", "{}", "input",
         {"type": "object", "properties": {"id": {"type": "integer"}}}, {"type": "object", "properties": {}}),
    ],
)  # fmt: skip
def test_a_change_of_the_workflow_is_told(
    old: str, new: str, what: str, before: object, after: object
) -> None:
    found = diff(ORDER, ORDER.replace(old, new, 1))

    assert {"what": what, "old": before, "new": after} in found["workflow"]
    assert found["nodes"]["changed"] == []


def test_nodes_and_edges_come_and_go() -> None:
    without = ORDER.replace("  ship: {type: call, call: ship@stable, input: {id: \"${input.id}\"}}\n", "").replace(
        '  - {from: big, to: ship, when: "input.amount > 10"}\n', ""
    )  # fmt: skip

    gone, came = diff(ORDER, without), diff(without, ORDER)

    edge = {"from": "big", "to": "ship", "on": "success", "when": "input.amount > 10",
            "else": False, "loop": None, "keep": None}  # fmt: skip
    assert gone["nodes"]["removed"] == came["nodes"]["added"] == [{"id": "ship", "type": "call"}]
    assert gone["edges"]["removed"] == came["edges"]["added"] == [edge]
    assert gone["nodes"]["added"] == gone["edges"]["added"] == []


def test_an_edge_is_changed_where_its_condition_is() -> None:
    found = diff(ORDER, ORDER.replace("amount > 10", "amount > 20"))

    [changed] = found["edges"]["changed"]
    assert (changed["from"], changed["to"], changed["on"]) == ("big", "ship", "success")
    assert changed["changes"] == [
        {"what": "when", "old": "input.amount > 10", "new": "input.amount > 20"}
    ]
    assert found["nodes"]["changed"] == []


def test_the_order_counts() -> None:
    lines = ORDER.splitlines()
    first = next(i for i, line in enumerate(lines) if "from: big, to: ship" in line)
    lines[first], lines[first + 1] = lines[first + 1], lines[first]

    found = diff(ORDER, "\n".join(lines) + "\n")

    [changed] = found["workflow"]
    assert changed["what"] == "order of edges"
    assert changed["new"][0] == "big -> say"
    assert not found["same"]


def test_one_and_true_are_not_the_same() -> None:
    found = diff(ORDER, ORDER.replace("params: {n: 1}", "params: {n: true}"))

    assert found["nodes"]["changed"][0]["changes"] == [{"what": "params.n", "old": 1, "new": True}]
