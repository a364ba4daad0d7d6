"""What a called name means, and whether it takes its input (SEMANTICS F6)."""

from __future__ import annotations

from dataclasses import replace

from tests.support.graphs import definition, index_of

from tenuto.coordinator.callees import Callees
from tenuto.model.expressions import Callee, Fault
from tenuto.model.payload import Text
from tenuto.ports.store import DefinitionRow

SCHEMA = '{"type":"object","properties":{"n":{"type":"integer"},"m":{"default":5}}}'
GRAPH = index_of(replace(definition("a"), input_schema=SCHEMA, vars='{"unit":"EUR"}'))
ROW = DefinitionRow(
    namespace="default", name="child", version=3, hash="h", source="", graph="", created_at=1
)


def a_table() -> Callees:
    callees = Callees()
    callees.learn("child", (ROW, GRAPH))
    callees.learn("gone", None)
    callees.learn("child@9", None)
    callees.learn("child@old", None)
    return callees


def test_a_name_that_was_not_looked_up_has_no_answer() -> None:
    assert a_table().get(("other", "{}")) is None


def test_F6_defaults_are_filled_in_and_constants_come_along() -> None:
    assert a_table()["child", '{"n":1}'] == Callee(
        workflow="child",
        version=3,
        definition="h",
        input=Text(13, '{"m":5,"n":1}'),
        vars=Text(14, '{"unit":"EUR"}'),
    )


def test_F6_an_input_that_does_not_fit_names_the_place() -> None:
    fault = a_table()["child", '{"n":"x"}']

    assert isinstance(fault, Fault)
    assert fault.code == "invalid_input"
    assert fault.message.startswith("input.n: ")


def test_F6_an_unknown_workflow_version_or_alias_is_named() -> None:
    table = a_table()
    told = {name: table[name, "{}"] for name in ("gone", "child@9", "child@old")}

    assert all(isinstance(f, Fault) and f.code == "unknown_workflow" for f in told.values())
    assert [f.message for f in told.values() if isinstance(f, Fault)] == [
        "no workflow `gone` is deployed",
        "no workflow `child` with version 9 is deployed",
        "no workflow `child` with alias `old` is deployed",
    ]
