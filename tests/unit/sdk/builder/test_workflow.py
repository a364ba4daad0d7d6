"""A definition built in Python is the one that its YAML is, and mistakes in it are told at lines of Python."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.support.examples import ROOT
from tests.support.twins import TWINS

from tenuto import InvalidDefinition, Tenuto, Workflow
from tenuto.app.definitions import load_definition
from tenuto.dsl.findings import Finding
from tenuto.model.stored import content_hash

EXAMPLES = sorted(path for path in ROOT.glob("examples/*/*.yaml") if "nodes:" in path.read_text())


class Order(BaseModel):
    order_id: str
    amount: float


@dataclasses.dataclass
class Point:
    x: int


def hash_of(text: str) -> str:
    loaded = load_definition(text, file="text")
    assert loaded.graph is not None, "\n".join(map(str, loaded.findings))
    return content_hash(loaded.graph.definition)


def line_here() -> int:
    """The number of the line that calls."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


@pytest.mark.parametrize("name", TWINS)
def test_an_example_built_in_python_is_its_yaml(name: str) -> None:
    text = (ROOT / "examples" / name / f"{name}.yaml").read_text()
    twin = TWINS[name]()

    assert hash_of(twin.to_yaml()) == hash_of(json.dumps(twin.to_dict())) == hash_of(text)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_a_definition_that_is_read_in_is_written_out_the_same(path: Path) -> None:
    workflow = Workflow.from_yaml(path.read_text())

    assert hash_of(workflow.to_yaml()) == hash_of(path.read_text())
    assert Workflow.from_yaml(workflow.to_yaml()).to_dict() == workflow.to_dict()


def every_type() -> Workflow:
    with Workflow("all", timeout=dt.timedelta(days=1, seconds=30, milliseconds=5)) as wf:
        first = wf.http("first", request={"url": "http://127.0.0.1:1/"}, priority=3, optional=True)
        fork = wf.fork("fork", needs=[first])
        wait = wf.wait("wait", for_=dt.timedelta(0), needs="fork")
        until = wf.wait("until", until=dt.datetime(2026, 1, 2, tzinfo=dt.UTC))
        computed = wf.set("computed", {"n": 1, "none": None})
        any_ = wf.join("any", join="any", cancel_losers=True, needs=[wait, until])
        switch = wf.switch("switch")
        work = wf.task("work", "do", retry={"max_attempts": 2, "initial": dt.timedelta(seconds=1)})
        wf.end("end", as_="cancelled", output={"n": computed.output.n}, needs=work)
        failed = wf.fail("failed", "odd", message="no", details={"a": [1]})
        fork >> [until, computed]
        [any_, computed] >> switch
        switch.when("nodes.computed.output.n > 1") >> work
        switch.otherwise >> failed
    return wf


def test_every_type_of_node_is_built_with_its_keys() -> None:
    assert every_type().to_dict() == {
        "name": "all",
        "timeout": "1d30s5ms",
        "nodes": {
            "first": {
                "type": "http",
                "request": {"url": "http://127.0.0.1:1/"},
                "priority": 3,
                "optional": True,
            },
            "fork": {"type": "fork", "needs": ["first"]},
            "wait": {"type": "wait", "for": "0s", "needs": ["fork"]},
            "until": {"type": "wait", "until": "2026-01-02T00:00:00+00:00"},
            "computed": {"type": "set", "values": {"n": 1, "none": None}},
            "any": {
                "type": "join",
                "join": "any",
                "cancel_losers": True,
                "needs": ["wait", "until"],
            },
            "switch": {"type": "switch"},
            "work": {"type": "task", "task": "do", "retry": {"max_attempts": 2, "initial": "1s"}},
            "end": {
                "type": "end",
                "as": "cancelled",
                "output": {"n": "${nodes.computed.output.n}"},
                "needs": ["work"],
            },
            "failed": {"type": "fail", "code": "odd", "message": "no", "details": {"a": [1]}},
        },
        "edges": [
            "fork -> until",
            "fork -> computed",
            "any -> switch",
            "computed -> switch",
            {"from": "switch", "to": "work", "when": "nodes.computed.output.n > 1"},
            {"from": "switch", "to": "failed", "else": True},
        ],
    }
    assert [f for f in every_type().validate() if f.severity == "error"] == []


def test_names_of_the_run_are_references() -> None:
    wf = Workflow("w", vars={"url": "x"})

    refs = (wf.input.a, wf.vars.url, wf.secrets.TOKEN, wf.error.code, wf.iteration)
    assert [str(ref) for ref in refs] == [
        "${input.a}",
        "${vars.url}",
        "${secrets.TOKEN}",
        "${error.code}",
        "${iteration}",
    ]


def test_code_is_text_or_a_function() -> None:
    def score(params: dict[str, Any]) -> int:
        return 1

    wf = Workflow("w")
    wf.code("a", score, params={"n": wf.input.n}, timeout="1s")
    wf.code("b", "export function main() {}", language="javascript", memory="32MiB")

    assert wf.to_dict()["nodes"] == {
        "a": {
            "type": "code",
            "language": "python",
            "code": "def main(params):\n    return 1\n",
            "params": {"n": "${input.n}"},
            "timeout": "1s",
        },
        "b": {
            "type": "code",
            "language": "javascript",
            "code": "export function main() {}",
            "memory": "32MiB",
        },
    }
    with pytest.raises(InvalidDefinition, match="no javascript"):
        wf.code("c", score, language="javascript")


def test_the_schema_of_the_input_may_be_a_model() -> None:
    built = Workflow("w", input=Order)
    built.fork("a")

    assert built.to_dict()["input"]["required"] == ["order_id", "amount"]
    assert built.validate() == ()
    assert Workflow("w", input=Point).to_dict()["input"]["properties"]["x"]["type"] == "integer"
    with pytest.raises(InvalidDefinition, match="`input` cannot be the class int"):
        Workflow("w", input=int)


def test_a_task_is_a_registered_function_whose_params_are_its_own() -> None:
    app = Tenuto(":memory:")

    @app.task(name="stock.reserve")
    def reserve(order: str, *, fast: bool = False) -> str:
        return order

    @app.task
    def charge(order: Order) -> None: ...

    wf = Workflow("w")
    wf.task("a", reserve, params={"order": wf.input.order_id})
    wf.task("b", charge, params={"order_id": wf.input.order_id, "amount": 3})

    assert wf.to_dict()["nodes"]["a"]["task"] == "stock.reserve"
    with pytest.raises(InvalidDefinition, match="has no parameter 'ordre'; did you mean 'order'"):
        wf.task("c", reserve, params={"ordre": 1})
    with pytest.raises(InvalidDefinition, match=r"needs 'order'"):
        wf.task("c", reserve)
    with pytest.raises(InvalidDefinition, match="has no parameter 'amuont'"):
        wf.task("c", charge, params={"order_id": 1, "amuont": 3})


def test_an_unfinished_workflow_that_raised_shows_what_it_raised() -> None:
    with pytest.raises(ZeroDivisionError), Workflow("w") as wf:
        wf.fork("a").when("true")
        1 / 0  # noqa: B018


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (lambda wf: wf.fork("a"), "duplicate_key", "there are two nodes `a`; the first is at "),
        (lambda wf: wf.fork(3), "wrong_type", "a node's id is text, not 3"),
        (lambda wf: wf["aa"], "unknown_node", "did you mean `a`?"),
        (lambda wf: wf["zzz"], "unknown_node", "make it first"),
        (lambda wf: wf.fork("b", needs=[3]), "wrong_type", "`needs` names nodes, and 3 is none"),
        (
            lambda wf: wf.fork("b", needs=Workflow("o").fork("x")),
            "unknown_node",
            "`x` is a node of another workflow",
        ),
        (lambda wf: wf.set("b", {"x": object()}), "wrong_type", "`b.values.x` is of type object"),
        (lambda wf: wf.set("b", {"x": wf["a"]}), "wrong_type", "`a.output`"),
        (lambda wf: wf.wait("b", until=dt.datetime(2026, 1, 1)), "bad_instant", "has no offset"),  # noqa: DTZ001
        (
            lambda wf: wf.wait("b", for_=dt.timedelta(microseconds=1)),
            "bad_duration",
            "whole milliseconds",
        ),
        (lambda wf: wf.task("b", test_code_is_text_or_a_function), "bad_value", "not registered"),
        (lambda wf: setattr(wf, "output", {"x": {1, object()}}), "wrong_type", "`output.x"),
    ],
)
def test_a_mistake_is_raised_at_the_line_that_makes_it(make: Any, code: str, said: str) -> None:
    wf = Workflow("w")
    wf.fork("a")

    with pytest.raises(InvalidDefinition) as caught:
        make(wf)

    [found] = caught.value.findings
    assert isinstance(found, Finding)
    assert found.code == code
    assert found.file.endswith("test_workflow.py")
    assert said in str(caught.value)


def test_findings_of_the_whole_stand_where_their_node_or_edge_was_made() -> None:
    wf, lines = Workflow("w"), {"w": line_here()}
    a, lines["a"] = wf.task("a", "t", params={"x": "${nodes.b.output}"}), line_here()
    b, lines["b"] = wf.task("b", "t", timeout="soon", retry={"mox": 1}), line_here()  # type: ignore[typeddict-unknown-key]
    a.when("nodes.c.output") >> b; lines["a -> b"] = line_here()  # noqa: E702  # fmt: skip
    wf.output = "${nodes.nowhere.output}"

    found = {(f.code, f.line) for f in wf.validate() if f.file.endswith("test_workflow.py")}

    assert found >= {
        ("bad_duration", lines["b"]),
        ("unknown_key", lines["b"]),
        ("unknown_reference", lines["a -> b"]),
        ("unknown_reference", lines["w"]),
    }


def test_findings_about_the_graph_stand_at_lines_of_python() -> None:
    with Workflow("w") as wf:
        a, b = wf.task("a", "t"), wf.task("b", "t")
        a >> b
        line = line_here() + 1
        b >> a

    [found] = wf.validate()

    assert (found.code, found.file, found.line in (line, line - 2)) == ("cycle", _relative(), True)


def _relative() -> str:
    file = Path(__file__)
    return str(file.relative_to(Path.cwd())) if file.is_relative_to(Path.cwd()) else str(file)


def test_an_end_that_leads_nowhere_is_among_the_findings() -> None:
    wf = Workflow("w")
    wf.fork("a").when("true")

    assert [finding.code for finding in wf.validate()] == ["edge_form"]
    with pytest.raises(InvalidDefinition, match="leads nowhere"):
        wf.to_yaml()


def test_what_was_read_from_a_text_is_found_in_the_text_that_it_becomes() -> None:
    wf = Workflow.from_yaml("name: w\nnodes:\n  a: {type: task, task: t}\n")
    wf["a"] >> wf.task("b", "t", timeout="soon")
    wf["a"].tree["queue"] = "no queue!"

    first, second = sorted(wf.validate(), key=lambda finding: finding.code)

    assert (first.code, first.file) == ("bad_duration", _relative())
    assert (second.code, second.file, second.line) == ("bad_value", "<workflow w>", 4)


def test_a_text_that_is_no_definition_is_refused_with_its_findings() -> None:
    with pytest.raises(InvalidDefinition, match=r"flow.yaml:1:1: error missing_key"):
        Workflow.from_yaml("nodes: {a: {type: fork}}", file="flow.yaml")


def test_a_workflow_says_what_it_is() -> None:
    assert repr(every_type()) == "<workflow all: 10 nodes>"
