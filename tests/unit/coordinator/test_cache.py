from __future__ import annotations

from tests.support.graphs import graph

from tenuto.coordinator.cache import Remembered, RunCache
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
    return Remembered(row, GRAPH, snapshot, {KEY: text}, size=len(text))


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
