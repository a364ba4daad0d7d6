from __future__ import annotations

import pytest

from tenuto.coordinator.waiting import (
    Call,
    CommandWaiting,
    ReportWaiting,
    Waiting,
    first_alone,
    text_of,
)
from tenuto.machine.events import CancelRequested
from tenuto.model.errors import NotFound, Unavailable
from tenuto.model.ids import LeaseId, Place, RunId
from tenuto.ports.gateway import Report, Success

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
    return CommandWaiting(RUN, CancelRequested, call, missing=NotFound("run", RUN))


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
