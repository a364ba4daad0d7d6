"""scripts/shake.py: another order, several times, and threads that starve."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.scripts import SCRIPTS, load_script

TESTS = """
import pytest
from pathlib import Path

@pytest.mark.parametrize("n", range(5))
def test_each(n):
    with Path(__file__).with_name("seen").open("a") as seen:
        print(n, file=seen)

def test_last(): {last}
"""


@pytest.fixture
def shake(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_script("shake", monkeypatch)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    calm = ("--share", "0", "--hogs", "0", "--workers", "1")
    return subprocess.run(
        [sys.executable, str(SCRIPTS / "shake.py"), *words, *calm],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("last", "code"), [("pass", 0), ("assert False", 1)])
def test_tests_run_several_times_in_an_order_that_can_be_had_again(
    tmp_path: Path, last: str, code: int
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = alone\n")
    (tmp_path / "test_it.py").write_text(TESTS.format(last=last))
    seen = tmp_path / "seen"

    done = run(str(tmp_path), "--times", "3", "--order", "7")

    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.startswith("order 7\n")
    first = seen.read_text().split()
    assert sorted(first) == sorted("01234" * 3)
    assert first != sorted(first)
    seen.unlink()
    run(str(tmp_path), "--times", "3", "--order", "7")
    assert seen.read_text().split() == first


def test_all_threads_starve_and_none_when_it_is_over(
    shake: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of processes further down. Real ones would need root."""
    policies: dict[int, int] = {}
    all_starved = threading.Event()
    code = "import sys, subprocess; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as tests:

        def schedule(thread: int, policy: int, _: object) -> None:
            policies[thread] = policy
            below = {tests.pid, *shake.descendants(tests.pid)}
            if len(below) > 1 and all(policies.get(pid) == os.SCHED_IDLE for pid in below):
                all_starved.set()

        monkeypatch.setattr(shake.os, "sched_setscheduler", schedule)
        monkeypatch.setattr(shake, "STARVED_S", 1_000)
        monkeypatch.setattr(shake, "STARVED_MAX_S", 1_000)
        with shake.starved(tests.pid, share=50_000):
            all_starved.wait()
        tests.communicate(b"\n")

    ours = {thread: policy for thread, policy in policies.items() if thread}
    assert tests.pid in ours
    assert set(ours.values()) == {os.SCHED_OTHER}
