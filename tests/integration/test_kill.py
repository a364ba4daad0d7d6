"""kill -9 with 200 runs of five steps in flight, twenty times, judged by a journal outside the engine.

Fifteen kills fall at random, five are the store's own hook between the last statement and COMMIT. `TENUTO_TEST_SEED`
chooses the moments; it is printed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from tests.support.killed import STEPS, has_lost_enough, until_safe

from tenuto.app.files import read_only
from tenuto.machine.codec import decode_event
from tenuto.machine.fold import fold
from tenuto.model.ids import RunId, split_task_id
from tenuto.model.states import FINAL_RUN_STATES
from tenuto.model.stored import decode_graph
from tenuto.ports.reads import RunDetail, RunFilter
from tenuto.ports.store import EventRow

RUNS = 200
KILLS = 20
HOOK_KILLS = 5


@dataclass(frozen=True, slots=True)
class Interval:
    """One attempt as the journal saw it. `end` is its end, or the death of its process."""

    task: str
    attempt: int
    lease: str
    start: int
    end: int


def spawn(
    db: Path, journal: Path, *, start: int = 0, after: int = 0, kill_at_commit: int = 0
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.killed", str(db), str(journal)]
    command += ["--start", str(start), "--after", str(after)]
    command += ["--kill-at-commit", str(kill_at_commit)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def wait_for(child: subprocess.Popen[str], word: str) -> bool:
    """Read the child's lines until it says `word`; False if it ends first."""
    assert child.stdout is not None
    return any(line.strip() == word for line in child.stdout)


def intervals(journal: Path, deaths: list[int]) -> list[Interval]:
    """Pair starts with ends; what has no end ended with its process."""
    ends: dict[str, int] = {}
    starts: list[tuple[str, int, str, int]] = []
    for line in journal.read_text().splitlines():
        what, task, number, lease, at = line.split()
        if what == "end":
            ends[lease] = int(at)
        else:
            starts.append((task, int(number), lease, int(at)))
    found = []
    for task, attempt, lease, start in starts:
        end = ends.get(lease) or min((d for d in deaths if d >= start), default=None)
        assert end is not None, f"{task} attempt {attempt} has no end and its process did not die"
        found.append(Interval(task, attempt, lease, start, end))
    return found


@pytest.mark.timeout(400)
def test_two_hundred_runs_survive_twenty_kills(tmp_path: Path) -> None:
    """Catalogue K5."""
    seed = int(os.environ.get("TENUTO_TEST_SEED", "1"))
    print(f"\nseed {seed}")
    dice = random.Random(seed)
    db, journal = tmp_path / "tenuto.db", tmp_path / "journal"
    by_hook = set(dice.sample(range(1, KILLS), HOOK_KILLS))
    deaths: list[int] = []
    while (kill := len(deaths)) < KILLS:
        hook = dice.randint(2, 40) if kill in by_hook else 0
        if hook and has_lost_enough(db):
            hook = 0  # a life that lasts as long as it has to
        # So many are in flight whenever a kill comes, however much an earlier life has got done.
        after, left = count(db) if db.exists() else (0, 0)
        child = spawn(db, journal, start=RUNS - left, after=after, kill_at_commit=hook)
        if hook:
            watchdog = threading.Timer(30, child.kill)
            watchdog.start()
            assert wait_for(child, "killed by its own hook")
            child.wait()
            watchdog.cancel()
        else:
            assert wait_for(child, "started")
            until_safe(db)
            time.sleep(dice.uniform(0.0, 0.25))
            child.kill()
            child.wait()
        assert child.stdout is not None
        child.stdout.close()
        if child.returncode == 0:
            continue  # all was over before we came to kill it
        deaths.append(time.time_ns() // 1_000)
        assert child.returncode == -signal.SIGKILL
    last = spawn(db, journal)
    assert last.wait(timeout=120) == 0
    assert last.stdout is not None
    last.stdout.close()

    runs, histories = asyncio.run(read_all(db))

    assert {run.run.key for run in runs} == {f"key-{i}" for i in range(max(len(runs), RUNS))}
    assert {run.run.state for run in runs} == {"success"}
    seen = intervals(journal, deaths)
    by_task = defaultdict(list)
    for interval in seen:
        by_task[interval.task].append(interval)
    assert len(by_task) == len(runs) * STEPS
    overlaps_none(by_task)
    starts_none_after_success(by_task, histories)
    attempts_are_told_apart(seen)
    for run in runs:
        folds_to_stored(run, *histories[run.run.run_id])
    lost = sum(len(many) - 1 for many in by_task.values())
    print(f"{len(seen)} attempts of {len(by_task)} tasks, {lost} of them after a lost one")
    assert lost > 0, "no kill hit an attempt: the test proved nothing"


def count(db: Path) -> tuple[int, int]:
    """How many runs there are, and how many of them are open, while no engine lives."""

    async def look() -> Mapping[str, int]:
        with read_only(db) as file:
            return await file.reads.count_runs("default")

    counts = asyncio.run(look())
    return sum(counts.values()), sum(n for s, n in counts.items() if s not in FINAL_RUN_STATES)


def overlaps_none(by_task: dict[str, list[Interval]]) -> None:
    """I2: no two intervals of a task overlap."""
    for task, many in by_task.items():
        ordered = sorted(many, key=lambda interval: interval.start)
        for before, after in pairwise(ordered):
            assert before.end <= after.start, f"{task}: {before} overlaps {after}"


def starts_none_after_success(
    by_task: dict[str, list[Interval]], histories: dict[RunId, tuple[str, list[EventRow]]]
) -> None:
    """I3: no attempt starts after the task's success is in the history, and there is one success a task."""
    for task, many in by_task.items():
        run_id, place = split_task_id(task)
        successes = [
            event
            for event in histories[run_id][1]
            if event.kind == "AttemptSucceeded" and event.place == place
        ]
        assert len(successes) == 1
        assert max(interval.start for interval in many) <= successes[0].at


def attempts_are_told_apart(seen: list[Interval]) -> None:
    """An attempt is run under one lease, and a lease runs one attempt."""
    assert len({interval.lease for interval in seen}) == len(seen)
    assert len({(interval.task, interval.attempt) for interval in seen}) == len(seen)


def folds_to_stored(run: RunDetail, graph_text: str, events: list[EventRow]) -> None:
    """I5: numbered without gaps, and folding gives every decided column."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    history = [decode_event(e.kind, e.at, e.place, e.data) for e in events]
    snapshot, ledger = fold(run.run.run_id, decode_graph(graph_text), history)
    assert snapshot == run.snapshot
    assert ledger.tasks == {task.place: task for task, _ in run.tasks}
    assert not ledger.timers
    assert not run.timers
    assert not run.waits
    assert not run.ready


async def read_all(
    db: Path,
) -> tuple[list[RunDetail], dict[RunId, tuple[str, list[EventRow]]]]:
    details, histories = [], {}
    with read_only(db) as file:
        for row in await file.reads.list_runs(RunFilter(limit=100_000)):
            details.append(await file.reads.get_run(row.run_id))
            definition = await file.reads.get_definition(row.definition)
            history = list(await file.reads.history(row.run_id))
            histories[row.run_id] = (definition.graph, history)
    return details, histories
