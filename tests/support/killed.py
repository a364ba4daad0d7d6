"""A process to be killed: one engine on a file, with tasks that write an outside journal.

Run as `python -m tests.support.killed DB JOURNAL --start N --after M --kill-at-commit K`. Prints `up` when the engine
is up, `started` when N runs have been started beside M earlier ones, and ends with code 0 when no run is open. Lines of
the journal are appended and synced: `start` or `end`, task, attempt, lease, time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from pathlib import Path

from tenuto.adapters.cel import CelParser
from tenuto.app.embedded import Engine
from tenuto.app.files import read_only
from tenuto.coordinator.commands import StartRequest
from tenuto.dsl.compile import load
from tenuto.model.states import FINAL_TASK_STATES
from tenuto.ports.reads import RunFilter, TaskFilter
from tenuto.worker.context import current
from tenuto.worker.registry import Registry

STEPS = 5
WORKFLOW = "name: steps\nnodes:\n  n1: {type: task, task: step}\n" + "".join(
    f"  n{i}: {{type: task, task: step, needs: [n{i - 1}]}}\n" for i in range(2, STEPS + 1)
)


def write(journal: int, what: str) -> None:
    """Append one synced line about the attempt that is calling."""
    it = current()
    line = f"{what} {it.task_id} {it.attempt} {it.lease_id} {time.time_ns() // 1_000}\n"
    os.write(journal, line.encode())
    os.fsync(journal)


def tasks(journal: int) -> Registry:
    """One task: writes `start`, takes 20 to 100 ms, writes `end`."""
    registry = Registry()

    @registry.add
    def step() -> dict[str, int]:
        it = current()
        write(journal, "start")
        time.sleep(random.Random(f"{it.task_id}/{it.attempt}").uniform(0.02, 0.1))
        write(journal, "end")
        return {"attempt": it.attempt}

    return registry


def killer(at_commit: int) -> object:
    """The store's own hook: SIGKILL to this process between the last statement and the K-th COMMIT."""
    seen = 0

    def before_commit() -> None:
        nonlocal seen
        seen += 1
        if seen == at_commit:
            os.write(1, b"killed by its own hook\n")
            os.kill(os.getpid(), signal.SIGKILL)

    return before_commit if at_commit else None


LOST_ENOUGH = 3
"""Five losses in a row end a task; and the last loss may be one that no engine has written down yet."""


def has_lost_enough(db: Path) -> bool:
    """Whether another kill or two would end a task: lives that are too short for its work lose it each time."""

    async def most() -> int:
        with read_only(db) as file:
            rows = await file.reads.list_tasks(TaskFilter(limit=10_000))
        return max((r.task.lost for r in rows if r.task.state not in FINAL_TASK_STATES), default=0)

    return asyncio.run(most()) >= LOST_ENOUGH


def until_safe(db: Path) -> None:
    """Let an engine live until it has done what was lost too often already, however slow the machine is."""
    while has_lost_enough(db):
        time.sleep(0.05)


def main() -> None:
    """Start runs if asked, then work until every run is final."""
    parser = argparse.ArgumentParser()
    parser.add_argument("db", type=Path)
    parser.add_argument("journal", type=Path)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--after", type=int, default=0)
    parser.add_argument("--kill-at-commit", type=int, default=0)
    options = parser.parse_args()
    journal = os.open(options.journal, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    engine = Engine(
        options.db,
        registry=tasks(journal),
        slots=16,
        threads=16,
        before_commit=killer(options.kill_at_commit),  # type: ignore[arg-type]
    )
    engine.start()
    print("up", flush=True)
    if options.start:
        graph = load(WORKFLOW, file="steps.yaml", parser=CelParser()).graph
        assert graph is not None
        row = engine.call(engine.commands.deploy(graph)).result()
        requests = [
            StartRequest(
                graph_hash=row.hash,
                workflow=row.name,
                version=row.version,
                input="{}",
                vars="{}",
                key=f"key-{i}",
            )
            for i in range(options.after, options.after + options.start)
        ]
        for first in range(0, len(requests), 100):
            engine.call(engine.commands.start(requests[first : first + 100])).result()
    print("started", flush=True)
    while engine.call(_open(engine)).result():
        time.sleep(0.05)
    engine.stop()
    sys.exit(0)


async def _open(engine: Engine) -> int:
    wanted = RunFilter(states=("pending", "running"), limit=1)
    return len(await engine.reads.list_runs(wanted))


if __name__ == "__main__":
    main()
