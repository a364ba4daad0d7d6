"""Definitions: a number per name, a hash per content, never changed."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.store import START

from tenuto.model.errors import NotFound
from tenuto.ports.reads import Reads
from tenuto.ports.store import DefinitionRow, Store


def a_definition(hash: str, *, name: str = "order", namespace: str = "default") -> DefinitionRow:
    return DefinitionRow(
        namespace=namespace,
        name=name,
        version=0,
        hash=hash,
        source=f"name: {name}  # {hash}",
        graph="{}",
        created_at=START,
    )


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
