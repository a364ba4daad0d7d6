"""Idempotency keys: one key, one run."""

from __future__ import annotations

import asyncio

from tests.support.store import LEASE_US, a_start, a_task, commit, new_run_id, seq_of

from tenuto.ports.reads import Reads
from tenuto.ports.store import Store


async def test_a_taken_key_names_the_run_that_has_it(store: Store, reads: Reads) -> None:
    first, second = new_run_id(), new_run_id()
    await commit(store, a_start(first, a_task(), key="order-7"))

    done = await store.commit([a_start(second, a_task(), key="order-7")], lease_us=LEASE_US)

    assert done.taken == {second: first}
    assert done.losers == {second}
    assert await seq_of(store, second) == 0
    assert await reads.find_run_by_key("default", "order", "order-7") == first


async def test_a_key_belongs_to_its_namespace_and_workflow(store: Store, reads: Reads) -> None:
    runs = [new_run_id() for _ in range(3)]

    await commit(
        store,
        a_start(runs[0], a_task(), key="k"),
        a_start(runs[1], a_task(), key="k", namespace="other"),
        a_start(runs[2], a_task(), key="k", workflow="refund"),
    )

    assert await reads.find_run_by_key("other", "order", "k") == runs[1]
    assert await reads.find_run_by_key("default", "refund", "k") == runs[2]
    assert await reads.find_run_by_key("third", "order", "k") is None


async def test_of_two_starts_with_one_key_in_one_commit_the_first_run_has_it(store: Store) -> None:
    first, second = new_run_id(), new_run_id()

    done = await store.commit(
        [a_start(second, a_task(), key="k"), a_start(first, a_task(), key="k")], lease_us=LEASE_US
    )

    assert done.taken == {second: first}
    assert (await seq_of(store, first), await seq_of(store, second)) == (1, 0)


async def test_many_starters_of_one_key_make_one_run(store: Store) -> None:
    """Catalogue D16."""
    runs = [new_run_id() for _ in range(16)]

    done = await asyncio.gather(
        *(store.commit([a_start(run, a_task(), key="k")], lease_us=LEASE_US) for run in runs)
    )

    winners = [run for run, end in zip(runs, done, strict=True) if not end.losers]
    assert len(winners) == 1
    assert {old for end in done for old in end.taken.values()} == set(winners)


async def test_a_repeated_start_is_told_its_own_run(store: Store) -> None:
    """The answer of the first commit was lost, so it is sent again."""
    run_id = new_run_id()
    start = a_start(run_id, a_task(), key="k")
    await commit(store, start)

    assert (await store.commit([start], lease_us=LEASE_US)).taken == {run_id: run_id}
