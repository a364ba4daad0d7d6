"""The tasks of chaos: each writes the journal. `tenuto worker -A tests.support.chaos.app:app` registers them."""

from __future__ import annotations

import asyncio
import random
import time

from tests.support.chaos.journal import journaled

from tenuto import Tenuto

app = Tenuto()


@app.task
def step(ms: int = 30) -> dict[str, int]:
    """A plain function of about so many milliseconds, in a thread: it cannot be stopped."""
    with journaled() as it:
        time.sleep(random.Random(f"{it.task_id}/{it.attempt}").uniform(0.2, 1.8) * ms / 1_000)
        return {"attempt": it.attempt}


@app.task
async def astep(ms: int = 30) -> dict[str, int]:
    """A coroutine of about so many milliseconds, which can be cancelled."""
    with journaled() as it:
        await asyncio.sleep(
            random.Random(f"{it.task_id}/{it.attempt}").uniform(0.2, 1.8) * ms / 1_000
        )
        return {"attempt": it.attempt}


@app.task
def flaky() -> dict[str, int]:
    """Fails in its first attempt."""
    with journaled() as it:
        if it.attempt == 1:
            raise RuntimeError("the first attempt fails")
        return {"attempt": it.attempt}


@app.task
def quick() -> None:
    """Nothing at all, unjournaled: for figures."""


@app.task
async def nap(ms: int) -> None:
    """Waits, and says when it began and ended."""
    with journaled():
        await asyncio.sleep(ms / 1_000)
