"""Documents about a run's inside become values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenuto.coordinator.outlook import Outlook, outlook_json
from tenuto.sdk.nested import all_pages, item_of, iteration_of, plan_of


def test_a_plan_is_the_same_from_an_engine_and_from_a_server() -> None:
    outlook = Outlook(
        first=("a",),
        nodes=("a", "each"),
        inside=("each",),
        items=(("each", 3),),
        kept=("z",),
        skipped="a",
    )

    plan = plan_of(outlook_json(outlook))

    assert (plan.first, plan.nodes, plan.inside) == (("a",), ("a", "each"), ("each",))
    assert (plan.items, plan.kept, plan.skipped) == ({"each": 3}, ("z",), "a")
    assert plan.repeated == plan.anew == plan.changed == plan.called == ()


def test_an_item_and_a_pass_leave_out_what_only_people_read() -> None:
    known = {"state": "success", "attempt": 1, "output": 2, "error": None}

    item = item_of({**known, "index": 4, "input": 1, "child": None, "worker": "w", "place": "e[4]"})
    one = iteration_of({**known, "iteration": 2, "iterations": [1, 2], "place": "n.1.2"})

    assert (item.index, item.state, item.output) == (4, "success", 2)
    assert (one.iteration, one.iterations, one.output) == (2, (1, 2), 2)


async def test_all_pages_are_read_by_their_cursors() -> None:
    asked: list[str | None] = []

    async def page(cursor: str | None) -> Mapping[str, Any]:
        asked.append(cursor)
        return {"items": [{"n": len(asked)}], "next": None if cursor == "2" else str(len(asked))}

    assert [each["n"] for each in await all_pages(page)] == [1, 2, 3]
    assert asked == [None, "1", "2"]
