"""A program that just ends closes its engine: what is under way finishes, and nothing is said about it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tenuto import Tenuto

HANG_S = 60
APP = """
import asyncio, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from tenuto import Tenuto

app = Tenuto("runs.db")
begun = threading.Event()

@app.task
async def coroutine():
    return "a"

@app.task
def function():
    return "b"

@app.task
async def slow_coroutine():
    begun.set()
    await asyncio.sleep(0.2)
    return await asyncio.to_thread(lambda: "slow a")

@app.task
def slow_function():
    begun.set()
    time.sleep(0.2)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: "slow b").result()
"""


def run(folder: Path, text: str, before: str = "") -> subprocess.CompletedProcess[str]:
    file = folder / "program.py"
    file.write_text(before + APP + text)
    return subprocess.run(
        [sys.executable, file.name],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


@pytest.mark.parametrize(("task", "said"), [("coroutine", "a"), ("function", "b")])
@pytest.mark.parametrize(
    "hook", ["", "import concurrent.futures.thread\ndel threading._register_atexit\n"]
)
def test_a_program_that_ends_with_its_result_says_nothing_else(
    tmp_path: Path, task: str, said: str, hook: str
) -> None:
    before = f"import threading\n{hook}" if hook else ""

    done = run(tmp_path, f"print(app.enqueue({task}).result())\n", before)

    assert (done.returncode, done.stdout, done.stderr) == (0, f"{said}\n", "")


@pytest.mark.parametrize(
    ("task", "said"), [("slow_coroutine", "slow a"), ("slow_function", "slow b")]
)
def test_a_task_under_way_when_the_program_ends_finishes_executors_and_all(
    tmp_path: Path, task: str, said: str
) -> None:
    done = run(tmp_path, f"print(app.enqueue({task}).id)\nbegun.wait()\n")

    assert (done.returncode, done.stderr) == (0, "")
    with Tenuto(tmp_path / "runs.db") as app:
        assert app.get_run(done.stdout.strip()).result(timeout=30) == said


def test_a_program_that_ends_by_an_error_shows_that_error_alone(tmp_path: Path) -> None:
    done = run(tmp_path, "app.enqueue(coroutine).result()\nraise ValueError('mine')\n")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ValueError: mine"
    assert "engine" not in done.stderr
