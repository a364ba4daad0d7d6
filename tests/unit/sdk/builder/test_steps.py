"""Steps: nodes without a name, for `do`, `compensate`, `on_failure` and `source`."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from tenuto import Graph, InvalidDefinition, Step, Tenuto, Workflow


def tree(step: Step) -> dict[str, Any]:
    return dict(step.part("do"))


def test_every_type_of_step_has_the_keys_of_its_node() -> None:
    wf = Workflow("w")
    hour = dt.timedelta(hours=1)

    assert tree(Step.http(request={"url": wf.item.url}, retry={"max_attempts": 2})) == {
        "type": "http",
        "request": {"url": "${item.url}"},
        "retry": {"max_attempts": 2},
    }
    assert tree(Step.task(wf.item.task, params=wf.item.params, queue=wf.vars.queue)) == {
        "type": "task",
        "task": "${item.task}",
        "params": "${item.params}",
        "queue": "${vars.queue}",
    }
    assert tree(Step.code("x", language="javascript", memory="32MiB", timeout=hour)) == {
        "type": "code",
        "language": "javascript",
        "code": "x",
        "memory": "32MiB",
        "timeout": "1h",
    }
    assert tree(Step.call("billing@stable", input={"id": wf.item}, output=wf.child_output.n)) == {
        "type": "call",
        "call": "billing@stable",
        "input": {"id": "${item}"},
        "output": "${output.n}",
    }
    assert tree(Step.call(wf, wait=False)) == {"type": "call", "call": "w", "wait": False}
    assert tree(Step.emit("e", key=wf.index, payload=[1], keep=hour)) == {
        "type": "emit",
        "event": "e",
        "key": "${index}",
        "payload": [1],
        "keep": "1h",
    }
    assert tree(Step.wait(for_=hour)) == {"type": "wait", "for": "1h"}
    assert tree(Step.wait_for_event("e", key="k", match=wf.event.ok, timeout=hour)) == {
        "type": "wait_for_event",
        "event": "e",
        "key": "k",
        "match": "event.ok",
        "timeout": "1h",
    }
    assert tree(Step.set({"a": wf.item})) == {"type": "set", "values": {"a": "${item}"}}
    assert tree(Step.fail("odd", message="no", details=[1])) == {
        "type": "fail",
        "code": "odd",
        "message": "no",
        "details": [1],
    }
    assert tree(Step.end(as_="cancelled")) == {"type": "end", "as": "cancelled"}
    inner = Step.foreach(over=wf.item, call=wf.item.name, input=wf.item, tolerate="5%", batch=2)
    assert tree(inner) == {
        "type": "foreach",
        "over": "item",
        "call": "${item.name}",
        "input": "${item}",
        "tolerate": "5%",
        "batch": 2,
    }
    assert repr(inner) == "<step foreach>"


def test_a_source_is_a_task_without_its_type() -> None:
    wf = Workflow("w")
    source = Step.task("pages", params={"after": wf.cursor}, queue="slow")
    wf.foreach("each", source=source, task="hash", params={"file": wf.item})

    assert wf.to_dict()["nodes"]["each"] == {
        "type": "foreach",
        "source": {"task": "pages", "params": {"after": "${cursor}"}, "queue": "slow"},
        "task": "hash",
        "params": {"file": "${item}"},
    }


def test_functions_of_items_and_handlers_are_checked_as_those_of_nodes() -> None:
    app, wf = Tenuto(":memory:"), Workflow("w")

    @app.task(name="files.hash")
    def digest(file: str) -> str:
        return file

    node = wf.foreach("each", over="[1]", task=digest, params={"file": wf.item})
    node.compensate(Step.task(digest, params={"file": "x"}), when="started")

    each = wf.to_dict()["nodes"]["each"]
    assert each["task"] == "files.hash"
    assert each["compensate"] == {
        "type": "task",
        "task": "files.hash",
        "params": {"file": "x"},
        "when": "started",
    }
    with pytest.raises(InvalidDefinition, match="has no parameter 'fil'; did you mean 'file'"):
        wf.foreach("other", over="[1]", task=digest, params={"fil": wf.item})
    with pytest.raises(InvalidDefinition, match="needs 'file'"):
        Step.task(digest)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda wf: wf.foreach("e", over="x", do={"type": "task"}), "`do` cannot be {'type': 'task'}"),
        (lambda wf: wf.foreach("e", over="x", do=wf), "`do` cannot be a whole workflow"),
        (lambda wf: wf.foreach("e", over="x", call=Graph()), "`call` names a workflow, and a Graph is none"),
        (lambda wf: wf.foreach("e", over=[1], task="t"), "`e.over` is no expression"),
        (lambda wf: wf.foreach("e", source=Step.set({}), task="t"), "a source is a task that hands out pages"),
        (lambda wf: wf.foreach("e", source=Graph(), task="t"), "`source` is one node, not a graph"),
        (lambda wf: wf.fork("a").compensate(Graph()), "`compensate` is one node, not a graph"),
        (lambda wf: wf.fork("a").compensate("t"), "`compensate` cannot be 't'"),
        (lambda wf: setattr(wf, "on_failure", "t"), "`on_failure` cannot be 't'"),
        (lambda wf: setattr(wf, "on_failure", Graph()), "`on_failure` is one node, not a graph"),
        (lambda wf: Step.set({"a": object()}), "`set.values.a` is of type object"),
    ],
)  # fmt: skip
def test_what_can_stand_nowhere_is_told_at_the_line_that_puts_it_there(
    make: Any, said: str
) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        make(Workflow("w"))

    [found] = caught.value.findings
    assert found.file.endswith("test_steps.py")  # type: ignore[attr-defined]
    assert said in str(caught.value)
