"""A worker that gives its tasks back, as a draining one does, and reports on them all the same: late, and wrongly."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress

from tenuto.adapters.local.dice import SystemDice
from tenuto.model.errors import Unavailable
from tenuto.model.ids import WorkerId
from tenuto.ports.gateway import Beat, Report, Success, Verdict, WorkerInfo
from tenuto.rpc.client import RemoteGateway

NAMES = ("step", "astep", "flaky")
TASKS = 100
"""More than the others ask for, so that it is asked first; it gets what is there."""
LIE = '{"attempt":-1}'


def lie(server: str, queues: tuple[str, ...], later_s: float) -> list[Verdict]:
    """Lease some tasks, give them back, and report them `later_s` afterwards; what the server said of each report."""
    return asyncio.run(_lie(server, queues, later_s))


async def _lie(server: str, queues: tuple[str, ...], later_s: float) -> list[Verdict]:
    gateway = RemoteGateway([server], dice=SystemDice(), answer_us=5_000_000)
    stopping = asyncio.Event()
    service = asyncio.ensure_future(gateway.run(stopping))
    worker = WorkerId(f"liar-{secrets.token_hex(4)}")
    verdicts: list[Verdict] = []
    try:
        with suppress(Unavailable):  # other accidents are under way
            info = WorkerInfo(id=worker, queues=queues, names=NAMES, capacity=TASKS)
            await gateway.register(info, ())
            leases = await gateway.lease(worker, TASKS)
            beats = [
                Beat(run_id=lease.run_id, place=lease.place, lease_id=lease.lease_id)
                for lease in leases
            ]
            await gateway.release(worker, beats)
            await asyncio.sleep(later_s)
            reports = [
                Report(
                    run_id=lease.run_id,
                    place=lease.place,
                    attempt=lease.attempt,
                    lease_id=lease.lease_id,
                    result=Success(output=LIE),
                )
                for lease in leases
            ]
            if reports:
                verdicts += (await gateway.report(worker, reports, 0)).verdicts
            await gateway.leave(worker)
    finally:
        stopping.set()
        await service
    return verdicts
