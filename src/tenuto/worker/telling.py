"""A worker's gateway that says in the log which attempts have failed, once the servers know. Changes nothing else.

The log of a cluster's worker is where people look first; there is no progress as of `tenuto run` beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenuto.model.ids import WorkerId
from tenuto.ports.gateway import Answer, Failed, Report, TaskGateway, Verdict
from tenuto.runtime.logging import get_logger

_MESSAGE_MAX = 300

log = get_logger("worker")


class Telling:
    """The gateway, and a line for each failed attempt whose report counts."""

    def __init__(self, gateway: TaskGateway) -> None:
        self._gateway = gateway
        self.register = gateway.register
        self.lease = gateway.lease
        self.heartbeat = gateway.heartbeat
        self.note = gateway.note
        self.release = gateway.release
        self.lose = gateway.lose
        self.leave = gateway.leave

    async def report(self, worker: WorkerId, reports: Sequence[Report], want: int) -> Answer:
        """Report; a report that has no answer comes again, so only an answered one is said."""
        answer = await self._gateway.report(worker, reports, want)
        for report, verdict in zip(reports, answer.verdicts, strict=True):
            result = report.result
            if verdict is Verdict.OK and isinstance(result, Failed):
                log.warning(
                    "attempt_failed",
                    run_id=report.run_id,
                    task_id=f"{report.run_id}/{report.place}",
                    attempt=report.attempt,
                    code=result.code,
                    reason=" ".join(result.message[:_MESSAGE_MAX].split()),
                )
        return answer
