"""kill -9 of an engine whose tasks run in processes: none outlives it, and none runs beside its successor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.process_tasks import is_alive, until_dead

from tenuto import Conflict, Tenuto

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import os, signal, sys, time
from tenuto import Tenuto
from tests.support import process_tasks as tasks

app = Tenuto("runs.db")
for function in (
    tasks.spins, tasks.holds_the_interpreter, tasks.ignores_terminate, tasks.begets,
    tasks.outlives_the_kernels_signal, tasks.outlives_everything, tasks.pid_of,
):
    app.task(process=True)(function)

def stay():
    while True:  # not for ever at once: a signal that comes just before would be noticed after that
        time.sleep(0.05)

if __name__ == "__main__":
    name = sys.argv[1]
    if name == "dies_at_once":
        from tenuto.worker import children

        class Popen(children.subprocess.Popen):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                os.write(1, b"%d\\n" % self.pid)
                os.kill(os.getpid(), signal.SIGKILL)

        children.subprocess.Popen = Popen
        name = "pid_of"
    if name == "pid_of":
        print(app.enqueue(name).result(), flush=True)
        stay()
    print(app.enqueue(name, fifo="told").id, flush=True)
    stay()
"""
WITHIN_S = 2.0
"""What is promised."""

pytestmark = pytest.mark.alone("2 s are promised")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    os.mkfifo(tmp_path / "told")
    return tmp_path


@pytest.fixture
def engines(folder: Path) -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for engine in started:
        engine.kill()
        engine.wait()
        assert engine.stdout is not None
        engine.stdout.close()  # not read to its end: a child that has escaped would hold it open


def start(folder: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "program.py", name],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def line(engine: subprocess.Popen[str]) -> str:
    assert engine.stdout is not None
    return engine.stdout.readline().strip()


def told(folder: Path) -> list[int]:
    return [int(number) for number in (folder / "told").read_text().split()]


@pytest.mark.parametrize(
    "name",
    ["spins", "holds_the_interpreter", "ignores_terminate", "outlives_the_kernels_signal"],
)
def test_no_child_outlives_a_killed_engine(
    folder: Path, engines: list[subprocess.Popen[str]], name: str
) -> None:
    """Catalogue K12."""
    engines.append(start(folder, name))
    [pid] = told(folder)
    assert is_alive(pid)
    engines[0].kill()

    assert until_dead(pid, WITHIN_S)


def test_no_idle_child_does_either(folder: Path, engines: list[subprocess.Popen[str]]) -> None:
    engines.append(start(folder, "pid_of"))
    pid = int(line(engines[0]))
    assert is_alive(pid)
    engines[0].kill()

    assert until_dead(pid, WITHIN_S)


def test_a_child_whose_engine_dies_before_it_could_ask_the_kernel_ends_too(
    folder: Path, engines: list[subprocess.Popen[str]]
) -> None:
    engines.append(start(folder, "dies_at_once"))
    pid = int(line(engines[0]))

    assert until_dead(pid, WITHIN_S)


def test_a_new_engine_opens_the_file_when_the_last_child_of_the_dead_one_is_gone(
    folder: Path, engines: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    engines.append(start(folder, "outlives_everything"))
    run_id = line(engines[0])
    [pid] = told(folder)
    engines[0].kill()
    engines[0].wait()
    try:
        with pytest.raises(Conflict) as refused:
            Tenuto("runs.db").open()
        assert is_alive(pid)
        assert f"still in use by a process (pid {pid})" in str(refused.value)
        assert f"an engine (pid {engines[0].pid}) left behind" in str(refused.value)
    finally:
        os.kill(pid, signal.SIGKILL)
    assert until_dead(pid, 20.0)

    next_one = start_again(folder, run_id)
    assert next_one == "{'attempt': 'again'}"


def start_again(folder: Path, run_id: str) -> str:
    """Another engine on the same file, until the run ends."""
    text = (
        "import sys; from program import app\n"
        "with app: print({'attempt': app.get_run(sys.argv[1]).result(timeout=60)})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, run_id],
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=90,
    )
    return (done.stdout + done.stderr).strip()


def test_an_engine_that_ends_takes_along_what_its_children_started(
    folder: Path, engines: list[subprocess.Popen[str]]
) -> None:
    """Not so a killed one: the kernel's signal reaches the children only."""
    engines.append(start(folder, "begets"))
    child, grandchild = told(folder)
    assert line(engines[0])  # it stays from now on
    engines[0].send_signal(signal.SIGINT)

    assert until_dead(child, 60.0)
    assert until_dead(grandchild, 60.0)
