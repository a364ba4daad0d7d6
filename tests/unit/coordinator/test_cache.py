from __future__ import annotations

from dataclasses import replace

from tests.support.graphs import graph
from tests.support.rows import LEASE, TASK

from tenuto.coordinator.cache import LEASE_SIZE, Remembered, RunCache
from tenuto.machine.decide import initial
from tenuto.model.ids import Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.ports.store import RunRow

GRAPH = graph("a")
KEY = PayloadKey(Place("a"), PayloadKind.OUTPUT)


def a_run(run_id: str, text: str = "") -> Remembered:
    row = RunRow(
        run_id=RunId(run_id),
        namespace="default",
        workflow="w",
        version=1,
        definition="h",
        key=None,
        state="running",
        paused=False,
        created_at=1,
        ended_at=None,
    )
    snapshot = initial(RunId(run_id), GRAPH)
    return Remembered(row, GRAPH, snapshot, {KEY: text}, text_size=len(text))


def test_a_run_is_taken_out_to_be_decided() -> None:
    cache = RunCache()
    run = a_run("a")
    cache.keep(RunId("a"), run)

    assert cache.take(RunId("a")) is run
    assert cache.take(RunId("a")) is None


def test_the_run_that_was_decided_longest_ago_goes_first() -> None:
    cache = RunCache(runs_max=2)
    for name in ("a", "b"):
        cache.keep(RunId(name), a_run(name))
    taken = cache.take(RunId("a"))
    assert taken is not None
    cache.keep(RunId("a"), taken)
    cache.keep(RunId("c"), a_run("c"))

    assert [name in cache for name in ("a", "b", "c")] == [True, False, True]


def test_texts_of_all_runs_together_are_bounded() -> None:
    cache = RunCache(texts_max=1_000)
    for number in range(20):
        cache.keep(RunId(str(number)), a_run(str(number), "x" * 100))

    assert len(cache) == 10


def test_a_run_with_too_much_text_is_remembered_without_it() -> None:
    cache = RunCache(texts_max=1_000)
    cache.keep(RunId("a"), a_run("a", "x" * 500))
    found = cache.take(RunId("a"))

    assert found is not None
    assert found.texts == {}


def test_what_is_taken_out_no_longer_counts() -> None:
    cache = RunCache(texts_max=1_000)
    for _ in range(100):
        cache.keep(RunId("a"), a_run("a", "x" * 100))
        cache.take(RunId("a"))
    for number in range(9):
        cache.keep(RunId(str(number)), a_run(str(number), "x" * 100))

    assert len(cache) == 9


def test_leases_are_remembered_until_their_tasks_are_touched() -> None:
    cache = RunCache(texts_max=10 * LEASE_SIZE)
    run = a_run("a")
    granted = [(replace(TASK, place=Place(name)), LEASE) for name in "abc"]
    run.advance(run.snapshot, 0, (), granted)
    run.advance(run.snapshot, 0, [Place("b"), Place("z")], ())

    assert sorted(run.leased) == ["a", "c"]
    assert run.size == 2 * LEASE_SIZE
    run.advance(run.snapshot, 0, None, granted[:1])
    assert sorted(run.leased) == ["a"]
    for number in range(20):
        other = a_run(str(number))
        other.advance(other.snapshot, 0, (), granted[:1])
        cache.keep(RunId(str(number)), other)
    assert len(cache) == 10
