"""kill -9 while runs call runs: foreach over graphs and tasks, calls, sagas, retries, events; judged by what is stored.

Some kills fall at random, some are the store's own hook between the last statement and COMMIT. `TENUTO_TEST_SEED`
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
from pathlib import Path

import pytest
from tests.support.driver import check_fold
from tests.support.killed import has_lost_enough, until_safe
from tests.support.killed_family import ITEMS

from tenuto.app.files import read_only
from tenuto.ports.reads import RunFilter
from tenuto.ports.store import RunRow
from tenuto.views.values import read_value

EACH = 10
KILLS = 14


def spawn(
    db: Path, journal: Path, *, start: int = 0, kill_at_commit: int = 0
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.killed_family", str(db), str(journal)]
    command += ["--start", str(start), "--kill-at-commit", str(kill_at_commit)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def wait_for(child: subprocess.Popen[str], word: str) -> bool:
    assert child.stdout is not None
    return any(line.strip() == word for line in child.stdout)


@pytest.mark.timeout(300)
def test_families_of_runs_survive_kills(tmp_path: Path) -> None:
    seed = int(os.environ.get("TENUTO_TEST_SEED", "1"))
    print(f"\nseed {seed}")
    dice = random.Random(seed)
    db, journal = tmp_path / "tenuto.db", tmp_path / "journal"
    for kill in range(KILLS):
        hook = dice.randint(2, 30) if kill % 2 else 0
        if hook and has_lost_enough(db):
            hook = 0  # a life that lasts as long as it has to
        child = spawn(db, journal, start=0 if kill else EACH, kill_at_commit=hook)
        if hook:
            watchdog = threading.Timer(30, child.kill)
            watchdog.start()
            wait_for(child, "killed by its own hook")
            watchdog.cancel()
        else:
            assert wait_for(child, "up" if kill else "started")
            until_safe(db)
            time.sleep(dice.uniform(0.0, 0.2))
            child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
        assert child.returncode in (-signal.SIGKILL, 0)
        if child.returncode == 0:
            break
    print(f"{kill + 1} kills")
    last = spawn(db, journal)
    assert last.wait(timeout=120) == 0
    assert last.stdout is not None
    last.stdout.close()

    asyncio.run(judge(db, journal.read_text().splitlines()))


async def judge(db: Path, journal: list[str]) -> None:
    done = defaultdict(list)
    for line in journal:
        task, what = line.split()
        done[task.partition("/")[0]].append(what)
    with read_only(db) as file:
        rows = await file.reads.list_runs(RunFilter(limit=10_000))
        for row in rows:
            await check_fold(file.reads, row.run_id)
        tops = [row for row in rows if row.parent is None]
        children: dict[str, list[RunRow]] = defaultdict(list)
        for row in rows:
            if row.parent is not None:
                children[row.parent[0]].append(row)
        assert len(tops) == 3 * EACH
        for run in tops:
            below = children[run.run_id]
            if run.workflow == "family":
                assert run.state == "success"
                value = await read_value(file.reads, run.run_id, run.output)
                assert value == [10 * n for n in range(ITEMS)]
                assert len(below) == ITEMS + 1
                assert {f"p{n}" for n in range(ITEMS)} <= set(done[run.run_id])
            elif run.workflow == "saga":
                assert (run.state, run.compensation) == ("failed", "complete")
                assert list(dict.fromkeys(done[run.run_id])) == ["a", "undo_b", "undo_a"]
                assert [done[child.run_id][-1] for child in below[::-1]] == ["b", "told"]
            else:
                assert run.state == "success"
                assert len(below) == 1
