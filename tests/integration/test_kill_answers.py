"""What the engine answered stays true, whatever is killed: starts by key, events, cancels (I1, I8, I10, I11, I16)."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.killed import until_safe
from tests.support.killed_clients import is_cancelled

from tenuto.app.files import read_only
from tenuto.machine.codec import decode_event
from tenuto.machine.events import CancelRequested, EventReceived
from tenuto.machine.snapshot import Task
from tenuto.model.expressions import Message
from tenuto.model.states import FINAL_RUN_STATES, FINAL_TASK_STATES, TaskState
from tenuto.ports.reads import RunDetail, RunFilter

RUNS = 60
KILLS = 8


@dataclass(slots=True)
class Answers:
    """What the journal says was answered. Key -> ids of its runs."""

    started: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    cancelled: set[str] = field(default_factory=set)
    posted: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def spawn(db: Path, journal: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.killed_clients", str(db), str(journal)]
    return subprocess.Popen([*command, str(RUNS)], stdout=subprocess.PIPE, text=True)


def read_journal(journal: Path) -> Answers:
    answers = Answers()
    for line in journal.read_text().splitlines():
        what, key, value = line.split()
        if what == "started":
            answers.started[key].add(value)
        elif what == "cancelled":
            answers.cancelled.add(key)
        elif what == "posted":
            answers.posted[key] += 1
    return answers


@pytest.mark.timeout(300)
def test_what_was_answered_before_a_kill_is_true_after_it(tmp_path: Path) -> None:
    """Catalogue A2, A7."""
    seed = int(os.environ.get("TENUTO_TEST_SEED", "1"))
    print(f"\nseed {seed}")
    dice = random.Random(seed)
    db, journal = tmp_path / "tenuto.db", tmp_path / "journal"
    for _ in range(KILLS):
        child = spawn(db, journal)
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "up"
        until_safe(db)
        time.sleep(dice.uniform(0.0, 0.35))
        child.kill()
        child.wait()
        child.stdout.close()
        for run, _ in asyncio.run(read_all(db)):
            has_a_cause_for_progress(run)
    last = spawn(db, journal)
    assert last.wait(timeout=120) == 0
    assert last.stdout is not None
    last.stdout.close()

    runs = asyncio.run(read_all(db))

    answers = read_journal(journal)
    by_key = {run.run.key: (run, messages) for run, messages in runs}
    assert len(runs) == len(by_key) == RUNS, "I10: one key, one run"
    for key, ids in answers.started.items():
        assert ids == {by_key[key][0].run.run_id}, "I10, I16: one key, one stable answer"
    for key in answers.cancelled:
        assert by_key[key][0].run.state == "cancelled", "I16: the cancel was answered"
    for number in range(RUNS):
        run, messages = by_key[f"k{number}"]
        if is_cancelled(number):
            assert run.run.state == "cancelled"
        else:
            assert run.run.state == "success"
            assert len(messages) == 1, "I8: used once"
            assert answers.posted[f"k{number}"] <= 1, "I8: an event id is stored once"
        nothing_is_leased_after_its_cancel(run, asyncio.run(cancelled_at(db, run)))
    used = [message for _, messages in runs for message in messages]
    assert len(used) == len(set(used)), "I8: no message ends two waits"
    assert not any(run.waits for run, _ in runs), "I8: no wait stays open beside its message"
    assert answers.cancelled
    assert answers.posted


def is_open(task: Task) -> bool:
    return task.state not in FINAL_TASK_STATES


def has_a_cause_for_progress(run: RunDetail) -> None:
    """I1: an open task has a ready row, a lease, a back-off timer, or is held; an open run waits for something."""
    if run.run.state in FINAL_RUN_STATES:
        return
    backing_off = {timer.place for timer in run.timers}
    for task, lease in run.tasks:
        if not is_open(task):
            continue
        waits = task.place in backing_off if task.state is TaskState.RETRY else lease is not None
        assert waits or task.held or task.place in run.ready, f"I1: {task} has no cause"
    open_tasks = [task for task, _ in run.tasks if is_open(task)]
    assert open_tasks or run.waits or run.timers, f"I1: {run.run.run_id} waits for nothing"


def nothing_is_leased_after_its_cancel(run: RunDetail, at: int | None) -> None:
    """I11: the lease columns of a cancelled task stay as they were when the cancel was committed."""
    for _, lease in run.tasks:
        assert at is None or lease is None or lease.leased_at <= at


async def read_all(db: Path) -> list[tuple[RunDetail, list[str]]]:
    """Every run, with the messages that ended its waits."""
    found = []
    with read_only(db) as file:
        for row in await file.reads.list_runs(RunFilter(limit=1_000)):
            messages: list[str] = []
            for e in await file.reads.history(row.run_id):
                event, outcomes = decode_event(e.kind, e.at, e.place, e.data)
                if isinstance(event, EventReceived):
                    messages.append(event.message_id)
                messages += [o.id for o in outcomes if isinstance(o, Message) and o.id is not None]
            found.append((await file.reads.get_run(row.run_id), messages))
    return found


async def cancelled_at(db: Path, run: RunDetail) -> int | None:
    with read_only(db) as file:
        for e in await file.reads.history(run.run.run_id):
            if e.kind == CancelRequested.__name__:
                return e.at
    return None
