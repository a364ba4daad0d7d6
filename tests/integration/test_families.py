"""Families of runs under whatever users ask for, in random order, with tasks that fail at random: nothing is stuck, and
every history folds to what is stored. Polling is off: a lost hint or notice would leave a run open.

`TENUTO_TEST_SEED` chooses what is asked; the timing is the machine's.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path

import pytest
from tests.support.driver import Driver, engine_with

from tenuto.coordinator import timers
from tenuto.model.errors import Conflict
from tenuto.model.ids import RunId
from tenuto.ports.reads import RunFilter

pytestmark = pytest.mark.usefixtures("remembered")

FAMILY = """
name: family
nodes:
  e:
    type: foreach
    over: "range(6)"
    tolerate: 2
    concurrency: 4
    do:
      nodes: {a: {type: task, task: work}, b: {type: task, task: work}}
      edges: [a -> b]
  p: {type: foreach, over: "range(6)", tolerate: 2, task: work, retry: {max_attempts: 2, initial: 5ms}}
  s:
    type: call
    retry: {max_attempts: 2, initial: 5ms}
    timeout: 80ms
    do:
      nodes: {a: {type: task, task: work}, w: {type: wait, for: 20ms}, b: {type: task, task: work}}
      edges: [a -> w, w -> b]
  z: {type: task, task: work}
edges: [e -> z, p -> z, s -> z]
"""
ASKED = ("cancel", "pause", "resume", "retry", "retry", "retry", "skip", "terminate")


@pytest.mark.parametrize("number", range(3))
def test_families_end_whatever_is_asked_of_them(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catalogue C4."""
    monkeypatch.setattr(timers, "POLL_US", 600_000_000)
    monkeypatch.setattr(timers, "PULSE_US", 600_000_000)
    seed = f"{os.environ.get('TENUTO_TEST_SEED', '1')}-{number}"
    print(f"\nseed {seed}")
    dice = random.Random(seed)

    async def work() -> None:
        await asyncio.sleep(dice.uniform(0, 0.01))
        if dice.random() < 0.25:
            raise ValueError("on purpose")

    with engine_with(work, path=tmp_path / "t.db") as driver:
        runs = [driver.begin(FAMILY) for _ in range(10)]
        done = sum(_ask(driver, dice, dice.choice(runs)) for _ in range(120))
        for run_id in runs:
            _ask(driver, dice, run_id, "resume")
        driver.until(lambda: not _open(driver))
        driver.check(*runs)
        assert done > 5, "nothing was asked that could be done: the test proved nothing"


def _ask(driver: Driver, dice: random.Random, run_id: RunId, verb: str | None = None) -> bool:
    verb = verb or dice.choice(ASKED)
    if verb in ("cancel", "terminate") and dice.random() < 0.7:
        time.sleep(dice.uniform(0, 0.05))
        return False
    given = (dice.choice("epsz"), '"given"') if verb == "skip" else ()
    try:
        driver.ask(getattr(driver.commands, verb)(run_id, *given))
    except Conflict:
        return False
    return True


def _open(driver: Driver) -> bool:
    wanted = RunFilter(states=("pending", "running", "closing"), limit=1)
    return bool(driver.ask(driver.engine.reads.list_runs(wanted)))
