"""A process to be killed while clients ask things of its engine, and note every positive answer in a synced journal.

Run as `python -m tests.support.killed_clients DB JOURNAL RUNS`. It says `up`, asks for everything again from the
start (every request may be repeated), and ends with code 0 when no run is open.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from contextlib import suppress
from pathlib import Path

from tenuto import RunFailed, Tenuto
from tenuto.model.errors import Conflict

WORKFLOW = """name: mixed
input: {type: object, required: [key]}
nodes:
  first: {type: task, task: step}
  gate: {type: wait_for_event, event: go, key: "${input.key}", needs: [first]}
  last: {type: task, task: step, needs: [gate]}
"""
CANCELLED_EVERY = 5


def is_cancelled(number: int) -> bool:
    """Whether the clients cancel this run instead of sending its event."""
    return number % CANCELLED_EVERY == 0


async def client(app: Tenuto, journal: int, number: int) -> None:
    """Start a run by its key, then let it go on or cancel it; note each answer once it is there."""
    run = await app.astart(WORKFLOW, {"key": f"k{number}"}, key=f"k{number}")
    note(journal, f"started k{number} {run.id}")
    await asyncio.sleep(random.uniform(0, 0.3))
    if is_cancelled(number):
        try:
            await run.acancel("test")
        except Conflict:
            return
        note(journal, f"cancelled k{number} {run.id}")
        return
    stored = await app.asend_event("go", f"k{number}", {"n": number}, event_id=f"e{number}")
    note(journal, f"{'posted' if stored else 'repeated'} k{number} e{number}")


def note(journal: int, line: str) -> None:
    os.write(journal, f"{line}\n".encode())
    os.fsync(journal)


async def main(db: Path, journal: int, runs: int) -> None:
    """Ask for everything, all at once, then wait for the ends."""
    app = Tenuto(db)

    @app.task
    async def step() -> None:
        await asyncio.sleep(random.uniform(0.01, 0.05))

    async with app:
        await app.adeploy(WORKFLOW)
        print("up", flush=True)
        async with asyncio.TaskGroup() as group:
            for number in range(runs):
                group.create_task(client(app, journal, number))
        for number in range(runs):
            run = await app.astart(WORKFLOW, {"key": f"k{number}"}, key=f"k{number}")
            with suppress(RunFailed):  # the cancelled ones
                await run.aresult()


if __name__ == "__main__":
    target = os.open(sys.argv[2], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    asyncio.run(main(Path(sys.argv[1]), target, int(sys.argv[3])))
