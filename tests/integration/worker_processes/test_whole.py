"""Workers as processes, a stream, and a real coordinator with its store: what becomes of runs when processes die."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.support import gateways
from tests.support.far_worker import FarWorker, far_workers
from tests.support.gateways import Desk, a_desk
from tests.support.process_tasks import heard
from tests.support.staff import STAFF_APP

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.sqlite.engine import open_engine
from tenuto.model.ids import RunId
from tenuto.model.states import RunState
from tenuto.ports.reads import TaskFilter

DIES = """
name: dies
nodes:
  n: {type: task, task: dies, params: {code: 0}}
"""
ONCE = """
name: once
input: {type: object}
nodes:
  n: {type: task, task: dies_once, params: {fifo: "${input.fifo}"}}
output: "${nodes.n.output}"
"""
HEEDS = """
name: heeds
input: {type: object}
nodes:
  n: {type: task, task: %s, params: {fifo: "${input.fifo}"}}
"""
Start = Callable[..., FarWorker]


@pytest.fixture
def long_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for the end of one waits for longer than a test may take. To be asked for before `desk`."""
    monkeypatch.setattr(gateways, "LEASE_US", 600_000_000)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    clock = SystemClock()
    engine = open_engine(":memory:", clock)
    async with a_desk(engine, clock, remote=True) as found:
        yield found
    await engine.close()


@pytest.fixture
async def server(desk: Desk) -> str:
    desk.server = await desk.serve(desk.side)
    return f"127.0.0.1:{desk.server.port}"


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with far_workers(tmp_path) as found:
        yield found


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "told")
    return tmp_path / "told"


async def losses(desk: Desk, run: RunId) -> int:
    return (await desk.events(run)).count("LeaseExpired")


async def test_a_task_that_ends_its_process_five_times_is_dead(
    desk: Desk, start: Start, server: str
) -> None:
    """Catalogue B17."""
    start("-A", STAFF_APP, "--server", server, "--processes", "2", "--no-code")
    run = await desk.begin(DIES, input={})
    await desk.until(run, RunState.FAILED)

    assert await losses(desk, run) == 5
    [row] = await desk.side.reads.list_tasks(TaskFilter(states=("dead",)))
    assert (row.run_id, row.task.lost) == (run, 5)
    assert '"lease_lost"' in (row.error or "")


async def test_a_lost_task_runs_again_at_once_and_long_before_its_lease_is_over(
    long_leases: None, desk: Desk, start: Start, server: str, tmp_path: Path
) -> None:
    start("-A", STAFF_APP, "--server", server, "--processes", "2", "--no-code")
    run = await desk.begin(ONCE, input={"fifo": str(tmp_path / "once")})
    await desk.until(run, RunState.SUCCESS)

    assert await losses(desk, run) == 1


async def test_what_a_drained_worker_gives_back_another_one_takes_and_no_attempt_is_burnt(
    desk: Desk, start: Start, server: str, fifo: Path
) -> None:
    """Catalogue B15."""
    words = ("-A", STAFF_APP, "--server", server, "--processes", "1", "--no-code")
    first = start(*words, "--grace", "0s")
    run = await desk.begin(HEEDS % "aheeds", input={"fifo": str(fifo)})
    await heard(fifo)
    second = start(*words)
    await second.until_said("connected to ")
    first.kept.send(signal.SIGTERM)
    await heard(fifo)

    assert await first.ended() == 0
    [(task, lease)] = (await desk.side.reads.get_run(run)).tasks
    assert (task.attempt, task.lost) == (1, 0)
    assert lease is not None
    await desk.side.commands.cancel(run)
    await desk.until(run, RunState.CANCELLED)


async def test_a_cancelled_run_stops_its_code(
    desk: Desk, start: Start, server: str, fifo: Path
) -> None:
    """Catalogue I-2."""
    start("-A", STAFF_APP, "--server", server, "--processes", "1", "--no-code")
    run = await desk.begin(HEEDS % "heeds", input={"fifo": str(fifo)})
    await heard(fifo)
    await desk.side.commands.cancel(run)
    proof = fifo.with_name("told.proof")
    while not proof.exists():  # noqa: ASYNC110  nobody announces it
        await asyncio.sleep(0.02)

    await desk.until(run, RunState.CANCELLED)
