from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.graphs import graph

from tenuto.adapters.local.dice import SystemDice
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.coordinator.asking import CommandWaiting
from tenuto.coordinator.batch import Batch
from tenuto.coordinator.reports import ReportWaiting
from tenuto.coordinator.seats import Seats
from tenuto.coordinator.waiting import (
    NOBODY,
    Beginning,
    Call,
    DrainWaiting,
    Found,
    Moment,
    Settled,
    Waiting,
    Wanted,
    first_alone,
    text_of,
)
from tenuto.machine.decide import initial
from tenuto.machine.events import CancelRequested, Drained, TimerKind
from tenuto.machine.snapshot import Done, Timer
from tenuto.model.errors import NotFound, Unavailable
from tenuto.model.ids import RUN_PLACE, LeaseId, Place, RunId
from tenuto.ports.gateway import Report, Success
from tenuto.ports.store import Loaded, NewRun

RUN = RunId("r")


def a_report(call: Call, slot: int) -> Waiting:
    report = Report(
        run_id=RUN,
        place=Place("a"),
        attempt=1,
        lease_id=LeaseId("l"),
        result=Success(output="{}"),
    )
    return ReportWaiting(report, call, slot)


def a_cancel(call: Call) -> Waiting:
    return CommandWaiting(
        RUN, lambda at: CancelRequested(at=at), call, missing=NotFound("run", RUN)
    )


async def test_a_call_is_done_with_its_last_answer() -> None:
    call = Call(2)
    call.answer(1, "second")
    assert not call.done.done()
    call.answer(0, "first")
    await call.done

    assert call.answers == ["first", "second"]


async def test_a_call_of_nothing_is_done() -> None:
    await Call(0).done


async def test_an_error_among_the_answers_is_raised_once_all_are_in() -> None:
    call = Call(2)
    call.answer(0, Unavailable("the disk is full"))
    assert not call.done.done()
    call.answer(1, "fine")
    with pytest.raises(Unavailable, match="full"):
        await call.done


async def test_answers_to_a_caller_that_has_gone_do_no_harm() -> None:
    call = Call(1)
    call.done.cancel()
    call.answer(0, "too late")

    assert call.done.cancelled()


async def test_reports_share_a_change_and_commands_travel_alone() -> None:
    """Catalogue C6."""
    call = Call(9)
    one, two, three = (a_report(call, slot) for slot in range(3))
    cancel = a_cancel(call)

    assert first_alone([one, two, three]) == 3
    assert first_alone([one, two, cancel, three]) == 2
    assert first_alone([cancel, one]) == 1


async def test_what_is_to_be_narrowed_down_goes_alone() -> None:
    call = Call(9)
    one, two = (a_report(call, slot) for slot in range(2))
    two.alone = True

    assert first_alone([one, two]) == 1
    assert first_alone([two, one]) == 1


def test_a_size_is_counted_in_bytes() -> None:
    assert text_of("abc").size == 3
    assert text_of("äβ").size == 4


def a_drain(done: tuple[Done, ...]) -> tuple[DrainWaiting, Batch]:
    definition = graph("a; e", types={"e": "foreach"})
    timer = Timer(RUN_PLACE, TimerKind.DRAIN, 1, 7)
    snapshot = replace(initial(RUN, definition), seq=7, done=done)
    new = NewRun(
        namespace="default", workflow="w", version=1, definition="h", key=None, created_at=1
    )
    row = Beginning(new, {}).row(RUN)
    batch = Batch(definition, row, snapshot, {}, message_id=Uuid7Ids().message_id)
    batch.timers[timer.place, timer.kind] = timer
    return DrainWaiting(RUN, timer, NOBODY, 0), batch


MOMENT = Moment(now=50, dice=SystemDice(1), workers=Seats())


def test_C2_what_was_handed_out_is_asked_for_only_where_it_matters() -> None:
    fact, batch = a_drain((Done(Place("a"), 3),))

    event = fact.event(batch, Loaded(now=1), MOMENT)
    assert event == Drained(at=50, version=7, started=())


def test_C3_of_a_foreach_one_item_that_was_handed_out_is_enough() -> None:
    fact, batch = a_drain((Done(Place("e.1"), 3, sure=False), Done(Place("b"), 3, sure=False)))
    wanted = fact.event(batch, Loaded(now=1), MOMENT)
    assert isinstance(wanted, Wanted)
    assert list(wanted.started) == [RUN]
    handed = ("a", "e.1[0]", "e.1[1]", "e.2[0]", "b!undo")
    fact.learn(Found(Loaded(now=1), tuple(map(Place, handed))))

    event = fact.event(batch, Loaded(now=1), MOMENT)
    assert event == Drained(at=50, version=7, started=(Place("e.1[0]"),))


def test_a_drain_whose_timer_is_gone_says_nothing() -> None:
    fact, batch = a_drain(())
    batch.timers.clear()

    assert fact.event(batch, Loaded(now=1), MOMENT) == Settled(False)
    assert fact.travels_alone
