"""Which attempts a worker's log names as failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from tenuto.model.errors import Unavailable
from tenuto.model.ids import LeaseId, Place, RunId, WorkerId
from tenuto.ports.gateway import Answer, Failed, Report, Success, TaskGateway, Verdict
from tenuto.worker.telling import Telling

ME = WorkerId("w")


class Answering:
    """Gives these answers to reports, one after the other."""

    def __init__(self, *answers: Answer | Unavailable) -> None:
        self.answers = list(answers)

    async def report(self, worker: WorkerId, reports: Sequence[Report], want: int) -> Answer:
        answer = self.answers.pop(0)
        if isinstance(answer, Unavailable):
            raise answer
        return answer

    def __getattr__(self, name: str) -> Any:
        return name


def a_report(result: Success | Failed) -> Report:
    return Report(
        run_id=RunId("r"), place=Place("a"), attempt=2, lease_id=LeaseId("l"), result=result
    )


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of attempts; whatever another test has left may speak at any time."""
    said = [record.getMessage() for record in caplog.records if record.name == "tenuto.worker"]
    return [line for line in said if "attempt_failed" in line]


FAILED = a_report(Failed(code="no_stock", message="none\n  left"))


async def test_a_failed_attempt_is_one_line_once_it_is_known(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ok = Answer(verdicts=(Verdict.OK, Verdict.OK))
    gateway = Telling(cast("TaskGateway", Answering(Unavailable("away"), ok)))
    reports = [a_report(Success(output="1")), FAILED]
    with pytest.raises(Unavailable):
        await gateway.report(ME, reports, 0)
    assert told(caplog) == []

    assert await gateway.report(ME, reports, 0) is ok

    [said] = told(caplog)
    for part in ("attempt_failed", "task_id='r/a'", "attempt=2", "no_stock", "'none left'"):
        assert part in said


async def test_what_does_not_count_is_not_said(caplog: pytest.LogCaptureFixture) -> None:
    stale = Answer(verdicts=(Verdict.STALE,))
    gateway = Telling(cast("TaskGateway", Answering(stale)))

    await gateway.report(ME, [FAILED], 0)

    assert told(caplog) == []
    assert cast("str", gateway.leave) == "leave"
