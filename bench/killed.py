"""Measure what a kill -9 costs (W6): `python bench/killed.py [--steps N] [--repeat N]`.

A program with an embedded engine on SQLite has so many steps under way; it is killed, and started again at once. Every
step says in a file that it has begun, so it is seen from outside when all are at work again: counted from the start of
the new process, its imports included. Then they are let go, and every run must end in success.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.run import BENCH_DIR, Figure

from tenuto import Tenuto

FLOW = "name: held\nnodes:\n  a: {type: task, task: hold}\n"
GOAL_S = 1.0
PATIENCE_S = 60.0


async def program(directory: Path, steps: int) -> None:
    """The program that is killed. The first time it starts the runs; it ends when all have ended."""
    app = Tenuto(directory / "w6.db", slots=steps)
    begun = (directory / "begun").open("a", buffering=1)

    @app.task
    async def hold() -> None:
        begun.write("begun\n")
        while not (directory / "let go").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.05)

    started = directory / "started"
    async with app:
        if started.exists():
            runs = [await app.aget_run(run_id) for run_id in started.read_text().split()]
        else:
            await app.adeploy(FLOW)
            runs = await app.astart_many("held", [None] * steps)
            (directory / "starting").write_text("\n".join(run.id for run in runs))
            (directory / "starting").rename(started)
        await app.aresults(runs)


def measure(steps: int) -> list[Figure]:
    """Kill it, start it again, count."""
    with tempfile.TemporaryDirectory(dir=BENCH_DIR) as place:
        directory = Path(place)
        first = _start(directory, steps)
        _until(lambda: (directory / "started").exists() and _begun(directory) >= steps)
        first.kill()
        first.wait()
        before, began = _begun(directory), time.perf_counter()
        second = _start(directory, steps)
        _until(lambda: _begun(directory) - before >= steps)
        took_s = time.perf_counter() - began
        (directory / "let go").touch()
        code = second.wait(timeout=PATIENCE_S)
        again = _begun(directory) - before
    return [
        Figure(
            f"W6 {steps} steps, kill -9: at work again",
            took_s,
            "s",
            GOAL_S,
            note=f"of a process started anew; {again} begun again",
        ),
        Figure("W6 lost", float(steps - again if code == 0 else steps), "steps", 0),
    ]


def _start(directory: Path, steps: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "--program", str(directory), str(steps)])


def _begun(directory: Path) -> int:
    journal = directory / "begun"
    return journal.read_text().count("\n") if journal.exists() else 0


def _until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError(f"not within {PATIENCE_S:g} s")
        time.sleep(0.005)


def main() -> None:
    """Print two lines a repetition."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500, help="under way (default 500)")
    parser.add_argument("--repeat", type=int, default=3, help="how often (default 3)")
    parser.add_argument("--program", nargs=2, metavar=("DIR", "N"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        asyncio.run(program(Path(options.program[0]), int(options.program[1])))
        return
    for _ in range(options.repeat):
        for figure in measure(options.steps):
            print(figure, flush=True)


if __name__ == "__main__":
    main()
