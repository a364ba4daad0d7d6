"""Notices between runs over a real store: troubles on the way, and what is handed in twice."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.driver import engine_with
from tests.support.graphs import definition, graph, index_of, value
from tests.support.house import House, house

from tenuto.coordinator import timers
from tenuto.coordinator.notices import StartNotice, fact_of
from tenuto.coordinator.waiting import NOBODY, Beginning
from tenuto.model.definition import Call
from tenuto.model.errors import InvariantViolated
from tenuto.model.graph import Graph
from tenuto.model.ids import Place, RunId
from tenuto.ports.reads import RunFilter
from tenuto.ports.store import Loaded, NoticeKind, NoticeRow


@pytest.fixture(autouse=True)
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is due must be announced by whoever makes it so; polling would hide a lost hint."""
    monkeypatch.setattr(timers, "POLL_US", 600_000_000)
    monkeypatch.setattr(timers, "PULSE_US", 600_000_000)


def parent() -> Graph:
    """One call of an inline graph of one task."""
    inline = definition("a")
    outer = definition("c", types={"c": "call"}, details={"c": Call(None, 0, value("{}"))})
    whole = index_of(replace(outer, inlines=(inline,)))
    return replace(whole, inlines=(index_of(inline),))


async def children(h: House, run_id: RunId) -> list[RunId]:
    return [row.run_id for row in await h.reads.list_runs(RunFilter(parent=run_id))]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Children cannot begin while the list holds something."""
    trouble, beginning = ["a bug"], StartNotice.beginning

    def fails(self: StartNotice, loaded: Loaded, at: int) -> Beginning:
        if trouble:
            raise InvariantViolated(trouble[0])
        return beginning(self, loaded, at)

    monkeypatch.setattr(StartNotice, "beginning", fails)
    return trouble


async def test_a_child_that_cannot_begin_puts_its_parent_into_quarantine(
    broken: list[str],
) -> None:
    """Catalogue I-11."""
    async with house() as h:
        hand = await h.hire(["a"])
        [run_id] = await h.begin(parent())
        [other] = await h.begin(graph("a"))
        await hand.report(*await hand.lease())
        assert (await h.commands.wait(other)).state == "success"
        # Its notice is looked up by another thread than the one that writes: it may be later than all of this.
        while (reason := (await h.reads.get_run(run_id)).run.quarantine) is None:
            pass
        assert reason == "StartNotice: InvariantViolated: a bug"
        assert not await children(h, run_id)

        broken.clear()
        await h.commands.resume(run_id)
        await hand.report(*await hand.lease())
        assert (await h.commands.wait(run_id)).state == "success"


async def test_notices_that_are_handed_in_again_change_nothing() -> None:
    """Catalogue I-12."""
    async with house() as h:
        hand = await h.hire(["a"])
        [run_id] = await h.begin(parent())
        [lease] = await hand.lease()
        child = lease.run_id
        for kind, to, sender in (
            (NoticeKind.START, child, run_id),
            (NoticeKind.CANCEL, child, run_id),
            (NoticeKind.SETTLED, run_id, child),
        ):
            data = '{"definition":"x","workflow":"x","version":1,"inline":true,"waited":true,"depth":1}'
            it = NoticeRow(run_id=to, kind=kind, place=Place("c"), sender=sender, data=data)
            h.coordinator.submit([fact_of(it, NOBODY, 0)] * 2)
        await hand.report(lease)

        assert (await h.commands.wait(run_id)).state == "success"
        assert [row.kind for row in await h.reads.history(child)] == [
            "RunStarted",
            "AttemptSucceeded",
        ]
        assert await children(h, run_id) == [child]


async def test_a_cancel_that_comes_before_the_start_is_found_again(
    broken: list[str],
) -> None:
    async with house() as h:
        await h.hire(["a"])
        [run_id] = await h.begin(parent())
        while (await h.reads.get_run(run_id)).run.quarantine is None:
            pass
        await h.commands.cancel(run_id)  # the child does not exist, and its CANCEL waits
        assert (await h.reads.get_run(run_id)).run.state == "closing"
        broken.clear()
        await h.commands.resume(run_id)
        run = await h.commands.wait(run_id)
        [child] = await children(h, run_id)

        assert run.state == "cancelled"
        assert (await h.reads.get_run(child)).run.state == "cancelled"


ITEMS_OF_SETS = """
name: many
nodes:
  e:
    type: foreach
    over: "range(20000)"
    do: {nodes: {s: {type: set, values: {n: 1}}, t: {type: task, task: nobody_has_it, needs: s}}}
    concurrency: 10000
"""


@pytest.mark.alone("measures how long a stop takes")
def test_a_stop_does_not_wait_for_children_that_have_yet_to_begin(tmp_path: Path) -> None:
    with engine_with(path=tmp_path / "tenuto.db") as driver:
        run_id = driver.begin(ITEMS_OF_SETS)
        driver.until(lambda: driver.children(run_id))
        begun_at = time.monotonic()
    took = time.monotonic() - begun_at

    with engine_with(path=tmp_path / "tenuto.db") as driver:
        assert took < 5
        assert driver.row(run_id).state == "running"
        driver.ask(driver.commands.terminate(run_id))
        assert driver.end(run_id).state == "cancelled"


def test_C4_what_ends_runs_goes_before_the_thousands_that_have_yet_to_begin() -> None:
    bomb = """
name: bomb
input: {type: object}
nodes:
  e: {type: foreach, over: "range(4)", call: bomb, input: {n: "${input.n + 1}"}, tolerate: 4}
"""
    with engine_with() as driver:
        driver.deploy(bomb)
        run_id = driver.begin(bomb, input={"n": 0})

        def count() -> int:
            return sum(driver.ask(driver.engine.reads.count_runs("default")).values())

        driver.until(lambda: count() > 1_000)
        first = driver.children(run_id)
        driver.ask(driver.commands.terminate(run_id))
        begun = count()  # however late this thread came to ask for the end
        driver.until(lambda: all(driver.row(child.run_id).state == "cancelled" for child in first))

        assert count() - begun < 4_000
