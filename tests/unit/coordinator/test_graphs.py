"""Graphs by content hash: bounded, yet as many at once as are asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.graphs import definition, graph, index_of, value

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import open_engine
from tenuto.coordinator import graphs
from tenuto.coordinator.graphs import Graphs
from tenuto.model.definition import Call, Foreach, Handler, NodeType, Work
from tenuto.model.errors import NotFound
from tenuto.model.expressions import Expression, ExpressionKind
from tenuto.model.stored import content_hash, encode_graph
from tenuto.ports.store import DefinitionRow


async def test_more_than_are_remembered_are_brought_in_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graphs, "GRAPHS_MAX", 2)
    sqlite = open_engine(":memory:", SystemClock())
    store, whole = SqlStore(sqlite), Graphs(SqlReads(sqlite))
    made = {}
    for number in range(5):
        one = graph("a", name=f"w{number}")
        row = DefinitionRow(
            namespace="default",
            name=one.definition.name,
            version=0,
            hash=content_hash(one.definition),
            source="",
            graph=encode_graph(one),
            created_at=1,
        )
        await store.put_definition(row)
        made[row.hash] = one
    found = dict(await whole.fetch([*made, "nowhere"]))
    await store.close()

    assert isinstance(found.pop("nowhere"), NotFound)
    assert found == made
    kept = list(made)[-2:]
    assert await whole.fetch(kept) == {each: made[each] for each in kept}  # without the store


def test_all_queues_ever_seen_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "GRAPHS_MAX", 1)
    sqlite = open_engine(":memory:", SystemClock())
    whole = Graphs(SqlReads(sqlite))
    whole.put("one", graph("a"))
    whole.put("two", graph("w", types={"w": "join"}))
    sqlite.shut()

    assert whole.queues == ("default",)


async def test_the_graph_of_an_inline_run_is_found_within_its_versions() -> None:
    sqlite = open_engine(":memory:", SystemClock())
    whole = Graphs(SqlReads(sqlite))
    inner, middle, outer = graph("i"), graph("m"), graph("o")
    middle = replace(middle, inlines=(graph("x"), inner))
    outer = replace(outer, inlines=(middle,))
    whole.put("h", outer)
    found = await whole.fetch(["h", "h#0", "h#0.1"])
    await sqlite.close()

    assert found == {"h": outer, "h#0": middle, "h#0.1": inner}


async def test_queues_of_bodies_sources_handlers_and_inline_graphs_are_known() -> None:
    def work(queue: str | Expression) -> Work:
        return Work("w", value("{}"), queue=queue)

    handler = Handler(NodeType.TASK, work("undo"))
    each = definition(
        "e; a; c",
        types={"e": "foreach", "c": "call"},
        details={
            "e": Foreach(work("body"), source=work("pages")),
            "a": work("plain"),
            "c": Call(None, 0, value("{}")),
        },
    )
    nodes = (each.nodes[0], replace(each.nodes[1], compensate=handler), each.nodes[2])
    inline = definition("b", details={"b": work("inline")})
    each = replace(
        each,
        nodes=nodes,
        on_failure=Handler(NodeType.TASK, work("last")),
        inlines=(inline,),
    )
    sqlite = open_engine(":memory:", SystemClock())
    whole = Graphs(SqlReads(sqlite))
    whole.put("h", index_of(each))
    assert whole.queues == ("body", "inline", "last", "pages", "plain", "undo")
    assert not whole.computes_queues

    computed = work(Expression(ExpressionKind.NAME, '"${input.q}"', "queue"))
    whole.put("g", graph("a", details={"a": computed}))
    await sqlite.close()
    assert whole.computes_queues
    assert whole.see_queue("seen")
    assert not whole.see_queue("seen")
    assert "seen" in whole.queues
