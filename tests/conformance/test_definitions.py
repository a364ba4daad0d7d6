"""Definitions: a number per name, a hash per content, never changed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.graphs import definition, graph, index_of, value
from tests.support.store import (
    a_definition,
    a_settlement,
    a_start,
    a_task,
    commit,
    new_run_id,
)

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load
from tenuto.model.definition import Call, Foreach, Handler, NodeType, Work
from tenuto.model.errors import Conflict, NotFound
from tenuto.model.expressions import Expression, ExpressionKind
from tenuto.model.graph import Graph
from tenuto.model.ids import Place
from tenuto.model.stored import content_hash, encode_graph
from tenuto.ports.reads import AliasRow, NamedQueues, Reads
from tenuto.ports.store import DefinitionRow, NoticeKind, NoticeRow, Store


async def test_versions_count_from_one_for_each_name(store: Store) -> None:
    stored = [
        await store.put_definition(row)
        for row in (
            a_definition("h1"),
            a_definition("h2"),
            a_definition("h1", name="refund"),
            a_definition("h1", namespace="other"),
        )
    ]

    assert [row.version for row in stored] == [1, 2, 1, 1]


async def test_the_newest_content_again_is_no_new_version(store: Store, reads: Reads) -> None:
    first = await store.put_definition(a_definition("h1"))

    assert await store.put_definition(a_definition("h1")) == first
    assert await reads.find_definition("default", "order") == first


async def test_older_content_again_is_a_new_version(store: Store, reads: Reads) -> None:
    for content in ("h1", "h2", "h1"):
        await store.put_definition(a_definition(content))

    newest = await reads.find_definition("default", "order")

    assert newest is not None
    assert (newest.version, newest.hash) == (3, "h1")
    assert (await reads.get_definition("h1")).source == "name: order  # h1"


async def test_a_version_is_found_without_its_text_too(store: Store, reads: Reads) -> None:
    for content in ("h1", "h2"):
        await store.put_definition(a_definition(content))
    await store.put_alias("default", "order", "stable", 1)

    for reference in (None, "1", "2", "stable", "9", "9" * 30, "none"):
        whole = await reads.find_version("default", "order", reference)
        found = await reads.find_version_row("default", "order", reference)
        assert (found is None) == (whole is None), reference
        if found is not None and whole is not None:
            assert (found.name, found.version, found.hash, found.created_at) == (
                whole.name,
                whole.version,
                whole.hash,
                whole.created_at,
            )
    assert await reads.find_version_row("default", "nothing") is None
    assert await reads.find_version_row("other", "order") is None


async def test_many_deployers_of_one_content_make_one_version(store: Store) -> None:
    stored = await asyncio.gather(*(store.put_definition(a_definition("h1")) for _ in range(20)))

    assert {row.version for row in stored} == {1}


async def test_an_unknown_definition_is_not_found(reads: Reads) -> None:
    assert await reads.find_definition("default", "order") is None
    with pytest.raises(NotFound, match="no definition 'h9'"):
        await reads.get_definition("h9")


async def test_workflows_are_listed_by_name_with_their_newest_version(
    store: Store, reads: Reads
) -> None:
    for content, name in (("h1", "order"), ("h2", "order"), ("h1", "refund"), ("h1", "audit")):
        await store.put_definition(a_definition(content, name=name))
    await store.put_definition(a_definition("h1", namespace="other"))

    rows = await reads.list_workflows("default", limit=2)
    more = await reads.list_workflows("default", after=rows[-1].name)

    assert [(row.name, row.version, row.versions) for row in (*rows, *more)] == [
        ("audit", 1, 1),
        ("order", 2, 2),
        ("refund", 1, 1),
    ]
    assert rows[1].hash == "h2"


async def test_versions_are_listed_newest_first_in_pages_and_read_by_number(
    store: Store, reads: Reads
) -> None:
    for content in ("h1", "h2", "h3"):
        await store.put_definition(a_definition(content))

    first = await reads.list_versions("default", "order", limit=2)
    rest = await reads.list_versions("default", "order", before=first[-1].version)

    assert [(row.version, row.hash) for row in (*first, *rest)] == [(3, "h3"), (2, "h2"), (1, "h1")]
    assert (await reads.get_version("default", "order", 2)).source == "name: order  # h2"
    assert await reads.list_versions("other", "order") == ()
    with pytest.raises(NotFound, match="no version 'order 4'"):
        await reads.get_version("default", "order", 4)


# -- aliases ------------------------------------------------------------------------------------------------------


async def _deploy(store: Store, *contents: str) -> None:
    for content in contents:
        await store.put_definition(a_definition(content))


async def test_an_alias_means_a_version_until_it_is_moved(store: Store, reads: Reads) -> None:
    await _deploy(store, "h1", "h2")

    async def meant(reference: str | None) -> str | None:
        row = await reads.find_version("default", "order", reference)
        return None if row is None else row.hash

    assert await store.put_alias("default", "order", "stable", 1) is None
    assert await meant("stable") == "h1"
    assert await store.put_alias("default", "order", "stable", 2) == 1
    assert await meant("stable") == "h2"

    assert [await meant(ref) for ref in (None, "1", "2", "3", "9" * 30)] == [
        "h2",
        "h1",
        "h2",
        None,
        None,
    ]
    assert await meant("other") is None
    assert await reads.find_version("other", "order", "stable") is None
    assert await store.drop_alias("default", "order", "stable")
    assert not await store.drop_alias("default", "order", "stable")
    assert await meant("stable") is None


async def test_an_alias_of_a_version_that_is_not_there_is_refused(store: Store) -> None:
    await _deploy(store, "h1")

    with pytest.raises(NotFound, match="no version 'order 2'"):
        await store.put_alias("default", "order", "stable", 2)


async def test_aliases_are_listed_by_name_and_with_their_versions(
    store: Store, reads: Reads
) -> None:
    await _deploy(store, "h1", "h2")
    for alias, version in (("stable", 1), ("canary", 2), ("old", 1)):
        await store.put_alias("default", "order", alias, version)

    assert list(await reads.list_aliases("default", "order")) == [
        AliasRow(alias="canary", version=2),
        AliasRow(alias="old", version=1),
        AliasRow(alias="stable", version=1),
    ]
    assert await reads.list_aliases("default", "refund") == ()
    rows = await reads.list_versions("default", "order")
    assert [row.aliases for row in rows] == [("canary",), ("old", "stable")]


# -- deleted versions ---------------------------------------------------------------------------------------------


async def test_a_deleted_version_is_gone_and_its_number_is_not_given_again(
    store: Store, reads: Reads
) -> None:
    await _deploy(store, "h1", "h2", "h3")

    await store.drop_version("default", "order", 3)
    await store.drop_version("default", "order", 1)

    assert [row.version for row in await reads.list_versions("default", "order")] == [2]
    assert await reads.find_version("default", "order", "3") is None
    with pytest.raises(NotFound, match="no version 'order 3'"):
        await store.drop_version("default", "order", 3)
    assert (await store.put_definition(a_definition("h2"))).version == 2
    assert (await store.put_definition(a_definition("h3"))).version == 4
    for version in (2, 4):
        await store.drop_version("default", "order", version)
    assert await reads.list_workflows("default") == ()
    assert (await store.put_definition(a_definition("h1"))).version == 5


async def test_runs_that_have_ended_find_their_deleted_version(store: Store, reads: Reads) -> None:
    """Catalogue I-10."""
    await _deploy(store, "h1", "h2")
    await store.put_definition(a_definition("h2", name="refund"))

    await store.drop_version("default", "order", 1)
    await store.drop_version("default", "order", 2)

    assert (await reads.get_definition("h1")).source == "name: order  # h1"
    assert (await reads.get_definition("h2")).name == "refund", "one that is there comes first"


async def test_what_was_put_is_told_from_what_was_there(store: Store) -> None:
    made = [await store.put_definition(a_definition("h1")) for _ in range(2)]

    assert [row.created for row in made] == [True, False]


async def test_a_version_is_not_deleted_while_a_run_of_it_is_open(store: Store) -> None:
    await _deploy(store, "h1", "h2")
    run_id = new_run_id()
    await commit(
        store,
        a_start(run_id, a_task()),
        a_start(new_run_id(), a_task(), workflow="refund"),
        a_start(new_run_id(), a_task(), namespace="other"),
    )
    await store.drop_version("default", "order", 2)

    with pytest.raises(Conflict, match=f"version 1 of 'order' cannot be deleted: run {run_id} is"):
        await store.drop_version("default", "order", 1)

    another = new_run_id()
    await commit(store, a_start(another, a_task()))
    oldest, newest = sorted((run_id, another))
    said = f"2 runs of it, {oldest} to {newest}, are not over; wait for the end, or cancel"
    with pytest.raises(Conflict, match=said):
        await store.drop_version("default", "order", 1)

    await commit(store, a_settlement(run_id, 1), a_settlement(another, 1))
    await store.drop_version("default", "order", 1)


async def test_a_version_is_not_deleted_while_an_alias_means_it(store: Store) -> None:
    await _deploy(store, "h1")
    await store.put_alias("default", "order", "stable", 1)

    with pytest.raises(Conflict, match=r"the alias 'stable' means it; .* --drop"):
        await store.drop_version("default", "order", 1)

    await store.drop_alias("default", "order", "stable")
    await store.drop_version("default", "order", 1)


async def test_a_version_is_not_deleted_while_a_child_of_it_is_about_to_start(
    store: Store, reads: Reads
) -> None:
    await _deploy(store, "h1")
    child = new_run_id()
    notice = NoticeRow(
        run_id=child,
        kind=NoticeKind.START,
        place=Place("call"),
        sender=new_run_id(),
        data='{"definition":"h1#0","workflow":"order","version":1}',
    )
    await commit(store, a_start(notice.sender, a_task(), workflow="caller", notices=(notice,)))

    with pytest.raises(Conflict, match=f"run {child} of it is about to start; try again"):
        await store.drop_version("default", "order", 1)

    assert len(await reads.list_versions("default", "order")) == 1


# -- queues -------------------------------------------------------------------------------------------------------


def _work(queue: str | Expression, task: str = "w") -> Work:
    return Work(task, value("{}"), queue=queue)


async def _store_graph(store: Store, whole: Graph, **columns: str) -> DefinitionRow:
    row = a_definition(content_hash(whole.definition), **columns)
    return await store.put_definition(replace(row, graph=encode_graph(whole)))


async def test_queues_are_named_by_work_wherever_it_stands(store: Store, reads: Reads) -> None:
    undo = Handler(NodeType.TASK, _work("undo"))
    made = definition(
        "e; a; c",
        types={"e": "foreach", "c": "call"},
        details={
            "e": Foreach(_work("body"), source=_work("pages")),
            "a": _work("plain"),
            "c": Call(None, 0, value("{}")),
        },
    )
    nodes = (made.nodes[0], replace(made.nodes[1], compensate=undo), made.nodes[2])
    inline = replace(definition("b", details={"b": _work("Inline_1.x-y")}), inline=True)
    made = replace(made, nodes=nodes, on_failure=Handler(NodeType.TASK, _work("last")))
    await _store_graph(store, index_of(replace(made, inlines=(inline,))))
    await _store_graph(store, graph("a", details={"a": _work("q" * 100)}), namespace="other")

    found = await reads.list_queues()

    names = {"undo", "body", "pages", "plain", "Inline_1.x-y", "last", "q" * 100}
    assert found == NamedQueues(queues=frozenset(names), computed=False)


async def test_what_a_user_writes_of_queues_elsewhere_names_none(
    store: Store, reads: Reads
) -> None:
    made = replace(
        definition("a", details={"a": _work("mail", task='"queue":"text","queue_timeout_us":')}),
        description='"queue":"text","queue_timeout_us":\\"queue\\":\0é',
        vars='{"queue":"var","queue_timeout_us":1,"of":{"queue":["name","x"]}}',
        input_schema='{"properties":{"queue":{"type":"string"}}}',
    )
    await _store_graph(store, index_of(made))

    assert await reads.list_queues() == NamedQueues(queues=frozenset({"mail"}), computed=False)


async def test_a_queue_that_is_computed_is_noticed(store: Store, reads: Reads) -> None:
    asked = Expression(ExpressionKind.NAME, '"${input.queue}"' + " " * 200, "queue")
    await _store_graph(store, graph("a; b", details={"a": _work(asked), "b": _work("mail")}))

    assert await reads.list_queues() == NamedQueues(queues=frozenset({"mail"}), computed=True)


async def test_queues_of_deleted_versions_are_no_longer_named(store: Store, reads: Reads) -> None:
    assert await reads.list_queues() == NamedQueues(queues=frozenset(), computed=False)
    for queue in ("old", "new"):
        await _store_graph(store, graph("a", details={"a": _work(queue)}))

    await store.drop_version("default", "order", 1)

    assert (await reads.list_queues()).queues == {"new"}


async def test_what_is_compiled_from_a_users_text_is_found_too(store: Store, reads: Reads) -> None:
    text = """
name: order
nodes:
  a: {type: task, task: x, queue: mail}
  b: {type: http, request: {url: "http://x.test"}, needs: a}
  c: {type: task, task: x, queue: "${1 < 2 ? 'a' : 'b'}", needs: b}
"""
    loaded = load(text, file="order.yaml", parser=CelParser())
    assert loaded.graph is not None, loaded.findings
    await _store_graph(store, loaded.graph)

    found = await reads.list_queues()

    assert found == NamedQueues(queues=frozenset({"mail", "default"}), computed=True)
