"""Ctrl-C at any moment: once is gentle, twice is at once, and nothing that was stored is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time

import pytest
from tests.support.command import APP, HANG_S, HELD, Tenuto, json_of, read_until, until_there

INTERRUPTED = 130
SEED = int(os.environ.get("TENUTO_TEST_SEED", "20260"))
THREE = """
name: three
nodes:
  a: {type: task, task: nap, params: {seconds: 0}}
  b: {type: task, task: held, needs: [a]}
  c: {type: task, task: nap, params: {seconds: 0}, needs: [b]}
"""


def run_until_a_random_moment(tenuto: Tenuto, dice: random.Random) -> subprocess.Popen[str]:
    """Start a run of about a second; let it go on, from its first line of ours, for up to as long."""
    process = tenuto.start("run", "sleepy.yaml", env={"PYTHONPROFILEIMPORTTIME": "1"})
    read_until(process, ["tenuto.cli.main"])
    time.sleep(dice.random() * 1.2)
    return process


def start_held(tenuto: Tenuto, background: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """Start a run, and wait until the second of its three tasks is under way; a file `go` ends that."""
    tenuto.write(app_py=APP + HELD, held_yaml=THREE)
    process = tenuto.start("run", "held.yaml", env={"TENUTO_WORKER__DRAIN": "1h"})
    background.append(process)
    until_there(tenuto.folder / "begun")
    return process


def without_imports(text: str) -> str:
    return "".join(
        line for line in text.splitlines(keepends=True) if not line.startswith("import time:")
    )


@pytest.mark.parametrize("number", range(6))
def test_an_interrupt_at_any_moment_leaves_a_run_that_can_be_carried_on(
    tenuto: Tenuto, background: list[subprocess.Popen[str]], number: int
) -> None:
    process = run_until_a_random_moment(tenuto, random.Random(SEED + number))
    background.append(process)
    process.send_signal(signal.SIGINT)

    _, err = process.communicate(timeout=HANG_S)

    said = without_imports(err)
    assert "Traceback" not in said
    assert process.returncode in (INTERRUPTED, 0), said
    runs = json_of(tenuto("run", "list", "-o", "json"))
    assert len(runs) <= 1
    for run in runs:
        if process.returncode == INTERRUPTED and run["state"] == "running":
            assert f"tenuto run sleepy.yaml --carry-on {run['run_id']}" in said
        done = tenuto("run", "sleepy.yaml", "--carry-on", run["run_id"])
        assert done.returncode == 0, done.stderr
        assert tenuto("run", "verify", run["run_id"]).returncode == 0


@pytest.mark.parametrize("number", range(3))
def test_two_interrupts_at_any_moment_lose_nothing_either(
    tenuto: Tenuto, background: list[subprocess.Popen[str]], number: int
) -> None:
    process = run_until_a_random_moment(tenuto, random.Random(SEED + 100 + number))
    background.append(process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)

    _, err = process.communicate(timeout=HANG_S)

    assert "Traceback" not in without_imports(err)
    assert process.returncode in (INTERRUPTED, 0)
    for run in json_of(tenuto("run", "list", "-o", "json")):
        assert tenuto("run", "sleepy.yaml", "--carry-on", run["run_id"]).returncode == 0
        assert tenuto("run", "verify", run["run_id"]).returncode == 0


def test_an_interrupted_run_is_carried_on_from_where_it_stood(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    process = start_held(tenuto, background)
    process.send_signal(signal.SIGINT)
    read_until(process, ["Ctrl-C again stops at once"])
    (tenuto.folder / "go").touch()
    process.communicate(timeout=HANG_S)
    [stopped] = json_of(tenuto("run", "list", "-o", "json"))

    report = json_of(tenuto("run", "held.yaml", "--carry-on", stopped["run_id"], "-o", "json"))

    assert (process.returncode, stopped["state"]) == (INTERRUPTED, "running")
    assert (report["run_id"], report["state"]) == (stopped["run_id"], "success")
    assert [step["node"] for step in report["timeline"] if step["result"] == "success"] == [
        "a",
        "b",
        "c",
    ]


def test_the_second_interrupt_does_not_wait_for_a_task_that_blocks(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    blocked = start_held(tenuto, background)
    blocked.send_signal(signal.SIGINT)
    read_until(blocked, ["Ctrl-C again stops at once"])
    blocked.send_signal(signal.SIGINT)

    out, err = blocked.communicate(timeout=HANG_S)

    assert blocked.returncode == INTERRUPTED
    assert out == "", "a stop after the drain would have shown the timeline"
    assert "carry it on with:\n  tenuto run held.yaml --carry-on " in err


def test_a_task_under_way_may_finish_after_the_first_interrupt(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    process = start_held(tenuto, background)
    process.send_signal(signal.SIGINT)
    read_until(process, ["Ctrl-C again stops at once"])
    (tenuto.folder / "go").touch()
    process.communicate(timeout=HANG_S)

    [run] = json_of(tenuto("run", "list", "-o", "json"))
    report = json_of(tenuto("run", "show", run["run_id"], "-o", "json"))

    assert process.returncode == INTERRUPTED
    assert [(step["node"], step["attempt"], step["result"]) for step in report["timeline"]] == [
        ("a", 1, "success"),
        ("b", 1, "success"),
    ]


NOT_YET = """
import sys, time

class Late:
    def find_spec(self, name, path=None, target=None):
        if name == "tenuto.cli.drive":
            time.sleep(600)

sys.meta_path.insert(0, Late())
"""
"""Nothing begins, however late the interrupts come."""


@pytest.mark.parametrize("number", range(4))
def test_three_interrupts_before_anything_began_are_one_quiet_end(
    tenuto: Tenuto, background: list[subprocess.Popen[str]], number: int
) -> None:
    (tenuto.folder / "sitecustomize.py").write_text(NOT_YET)
    env = {"PYTHONPROFILEIMPORTTIME": "1", "PYTHONPATH": str(tenuto.folder)}
    process = tenuto.start("run", "sleepy.yaml", env=env)
    background.append(process)
    read_until(process, ["typer.main"])
    dice = random.Random(SEED + 200 + number)
    time.sleep(dice.random() * 0.2)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(dice.random() * 0.02)

    _, err = process.communicate(timeout=HANG_S)

    assert process.returncode == INTERRUPTED
    assert without_imports(err) in ("interrupted\n", "")
    assert not (tenuto.folder / ".tenuto").exists()
