"""Who watches a run is told of its events and its end, once, and leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenuto.coordinator.watch import Watchers
from tenuto.model.errors import Unavailable
from tenuto.model.ids import Place, RunId
from tenuto.ports.gateway import NoteKind
from tenuto.ports.store import EventRow, NoteRow, RunRow

RUN = RunId("run")
EVENT = EventRow(seq=1, at=1, kind="RunStarted", place=Place(""), data="{}")
NEXT, LAST = replace(EVENT, seq=2), replace(EVENT, seq=3)
FINAL = RunRow(
    run_id=RUN,
    namespace="default",
    workflow="w",
    version=1,
    definition="hash",
    key=None,
    state="success",
    paused=False,
    created_at=1,
    ended_at=2,
)


async def test_the_end_is_told_to_all_who_wait_and_to_nobody_twice() -> None:
    watchers = Watchers()
    one, two, gone = (watchers.expect_end(RUN) for _ in range(3))
    gone.cancel()
    watchers.tell(RUN, (), FINAL)
    watchers.tell(RUN, (), FINAL)

    assert (one.result(), two.result()) == (FINAL, FINAL)
    assert RUN not in watchers


async def test_who_gives_up_is_forgotten() -> None:
    watchers = Watchers()
    future, follower = watchers.expect_end(RUN), watchers.follow(RUN)
    watchers.forget(RUN, future)
    watchers.forget(RUN, future)
    assert RUN in watchers
    watchers.unfollow(RUN, follower)
    watchers.unfollow(RUN, follower)

    assert RUN not in watchers


async def test_a_follower_gets_events_in_order_and_then_the_end() -> None:
    watchers = Watchers()
    follower = watchers.follow(RUN)
    watchers.tell(RUN, [EVENT], None)
    assert (list(follower.events), follower.closed) == ([EVENT], False)
    watchers.tell(RUN, [EVENT, NEXT], FINAL)

    assert (list(follower.events), follower.closed) == ([EVENT, NEXT], True)
    assert follower.wake.is_set()


async def test_a_follower_waits_for_what_lies_between_and_is_not_told_the_end_before() -> None:
    watchers = Watchers()
    follower = watchers.follow(RUN)
    assert follower.begin_after(1, now=1)
    watchers.tell(RUN, [LAST], FINAL)
    assert (list(follower.events), follower.closed) == ([], False)
    assert watchers.gap.is_set()
    assert watchers.behind(RUN, 3) == 1

    watchers.tell(RUN, [NEXT, LAST], None)
    watchers.tell(RUN, (), FINAL)

    assert (list(follower.events), follower.closed) == ([NEXT, LAST], True)
    assert watchers.behind(RUN, 3) is None


async def test_a_follower_learns_that_it_lacks_what_was_decided_while_it_looked() -> None:
    watchers = Watchers()
    follower = watchers.follow(RUN)
    watchers.tell(RUN, [EVENT], None)

    assert not follower.begin_after(2, now=1)
    assert watchers.behind(RUN, 2) == 1


async def test_when_the_engine_ends_nobody_waits_in_vain() -> None:
    watchers = Watchers()
    future, follower = watchers.expect_end(RUN), watchers.follow(RUN)
    watchers.fail(Unavailable("it ended"))

    with pytest.raises(Unavailable, match="it ended"):
        future.result()
    assert (follower.closed, follower.wake.is_set()) == (True, True)


NOTE = NoteRow(
    run_id=RUN, place=Place("a"), attempt=1, number=1, at=1, kind=NoteKind.STDOUT, text="hi"
)


async def test_a_follower_gets_notes_of_its_run_among_the_events() -> None:
    watchers = Watchers()
    follower, other = watchers.follow(RUN), watchers.follow(RunId("other"))
    watchers.tell(RUN, [EVENT], None)
    watchers.tell_notes([NOTE])

    assert list(follower.events) == [EVENT, NOTE]
    assert list(other.events) == []


async def test_a_listener_learns_once_of_each_run_that_changed() -> None:
    watchers = Watchers()
    listener, gone = watchers.listen(), watchers.listen()
    watchers.unlisten(gone)
    watchers.unlisten(gone)
    for run in (RUN, RunId("b"), RUN):
        watchers.tell_changed(run)

    assert list(listener.changed) == [RUN, RunId("b")]
    assert listener.wake.is_set()
    assert not gone.changed


async def test_a_listener_is_woken_by_the_engines_end() -> None:
    watchers = Watchers()
    listener = watchers.listen()
    watchers.fail(Unavailable("it ends"))

    assert (listener.closed, listener.wake.is_set()) == (True, True)
