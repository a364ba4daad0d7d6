"""Graphs by content hash: bounded, yet as many at once as are asked for."""

from __future__ import annotations

import pytest
from tests.support.graphs import graph

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import open_engine
from tenuto.coordinator import graphs
from tenuto.coordinator.graphs import Graphs
from tenuto.model.errors import NotFound
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
