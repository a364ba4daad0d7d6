"""What a retry does, told by node ids (R1)."""

from __future__ import annotations

import pytest
from tests.support.graphs import graph

from tenuto.cli.tables import plan_lines
from tenuto.coordinator.outlook import outlook_json, outlook_of
from tenuto.coordinator.waiting import Again
from tenuto.machine.plan import Plan
from tenuto.machine.snapshot import Items
from tenuto.model.ids import Place, RunId

GRAPH = graph("a -> e; a -> c; e -> z; c -> z", types={"e": "foreach", "c": "call"})
A, E, C, Z = (GRAPH.numbers[name] for name in "aecz")
PLAN = Plan(first=(E, C), nodes=(E, C, Z), repeated=(Z,), inside=(E, C))


@pytest.mark.rule("R1.5")
def test_R1_a_call_goes_on_inside_only_if_its_child_allows_it() -> None:
    allowing = Again((("e", (1, 4)),), ((Place("c"), RunId("child")),))
    outlook = outlook_of(GRAPH, PLAN, allowing)
    assert (outlook.inside, outlook.anew, outlook.items) == (("e", "c"), (), (("e", 2),))

    lists = {E: Items(listed=50, next=8, complete=True, concurrency=8, tolerate=0)}
    outlook = outlook_of(GRAPH, PLAN, allowing, lists=lists)
    assert outlook.items == (("e", 44),), "what had not begun is done too"
    assert outlook_json(outlook)["listed"] == {"e": 50}
    plan = outlook_json(outlook)
    assert "  e  44 of its 50 items" in plan_lines(plan)

    outlook = outlook_of(GRAPH, PLAN, Again((("e", (1, 4)),)))
    assert (outlook.inside, outlook.anew) == (("e",), ("c",))


@pytest.mark.rule("R1.6")
def test_R1_nodes_are_named_in_order_and_the_others_are_kept() -> None:
    outlook = outlook_of(GRAPH, PLAN, Again())

    assert outlook.first == ("e", "c")
    assert outlook.nodes == ("e", "c", "z")
    assert outlook.repeated == ("z",)
    assert outlook.kept == ("a",)


def test_a_node_that_is_skipped_neither_goes_on_nor_starts() -> None:
    outlook = outlook_of(GRAPH, PLAN, Again((("e", (1,)),)), skip="e")

    assert (outlook.skipped, outlook.inside, outlook.items) == ("e", (), ())
    assert outlook.anew == ("c",)
