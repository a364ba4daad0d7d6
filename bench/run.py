"""Measure the embedded engine: `make bench`, or `python bench/run.py [NAME …] [--repeat N] [--quick]`.

Every figure is printed beside its goal and, where it is a rate, as a ratio to plain one-row commits per second of the
same disk in the same run, since machines differ and are noisy. Nothing here is a test: no figure fails the build.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenuto import Tenuto

BENCH_DIR = Path(os.environ.get("TENUTO_BENCH_DIR", tempfile.gettempdir()))


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number. `goal` is an upper bound where `less` is set, else a lower one."""

    name: str
    value: float
    unit: str
    goal: float
    less: bool = True
    note: str = ""

    def is_met(self) -> bool:
        return self.value <= self.goal if self.less else self.value >= self.goal

    def __str__(self) -> str:
        sign = "<=" if self.less else ">="
        mark = "ok  " if self.is_met() else "MISS"
        goal = f"{sign} {self.goal:g}"
        return (
            f"{mark} {self.name:34} {self.value:10,.2f} {self.unit:12} goal {goal:10} {self.note}"
        )


# -- workflows ------------------------------------------------------------------------------------

ONE = "name: one\nnodes:\n  a: {type: task, task: noop}\n"
DIAMOND = """name: diamond
nodes:
  a: {type: task, task: noop}
  b: {type: task, task: noop, needs: [a]}
  c: {type: task, task: noop, needs: [a]}
  d: {type: task, task: noop, needs: [b, c]}
"""
PARKED = """name: parked
input: {type: object}
nodes:
  gate: {type: wait_for_event, event: go, key: "${input.key}"}
  after: {type: task, task: noop, needs: [gate]}
"""


def chain(length: int) -> str:
    """A chain of no-op tasks."""
    lines = [f"name: chain{length}", "nodes:", "  n0: {type: task, task: noop}"]
    lines += [f"  n{i}: {{type: task, task: noop, needs: [n{i - 1}]}}" for i in range(1, length)]
    return "\n".join(lines) + "\n"


def fan(width: int) -> str:
    """One task, `width` tasks after it, and a join."""
    lines = ["name: fan", "nodes:", "  root: {type: task, task: noop}"]
    lines += [f"  n{i}: {{type: task, task: noop, needs: [root]}}" for i in range(width)]
    names = ", ".join(f"n{i}" for i in range(width))
    lines.append(f"  all: {{type: join, needs: [{names}]}}")
    return "\n".join(lines) + "\n"


def engine(directory: Path) -> Tenuto:
    """A fresh engine on its own file, with one task."""
    app = Tenuto(directory / "bench.db")

    @app.task
    async def noop() -> dict[str, bool]:
        return {"ok": True}

    return app


# -- figures --------------------------------------------------------------------------------------


def commits_per_second(directory: Path, seconds: float) -> float:
    """Plain SQLite: one row of about 350 bytes a commit, WAL, synchronous=FULL."""
    db = sqlite3.connect(directory / "commits.db", isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, text TEXT)")
    text, count, started = "x" * 350, 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        db.execute("INSERT INTO t(text) VALUES (?)", (text,))
        count += 1
    rate = count / (time.perf_counter() - started)
    db.close()
    return rate


async def many_runs(directory: Path, base: float, scale: float) -> list[Figure]:
    """W1: one-step runs, started 100 per call."""
    count = int(8_000 * scale) // 100 * 100
    async with engine(directory) as app:
        await (await app.astart(ONE)).aresult()
        await app.adeploy(ONE)
        started, cpu = time.perf_counter(), time.process_time()
        runs = []
        for _ in range(count // 100):
            runs += await app.astart_many("one", [None] * 100)
        await app.aresults(runs)
        wall, used = time.perf_counter() - started, time.process_time() - cpu
    rate = count / wall
    note = f"{rate:,.0f} runs/s, {used / count * 1e3:.2f} CPU ms a run"
    return [Figure("W1 one-step runs", rate / base, "x commits/s", 0.3, less=False, note=note)]


async def chains(directory: Path, base: float, scale: float) -> list[Figure]:
    """W2: 200 chains of 10."""
    count = max(20, int(200 * scale))
    async with engine(directory) as app:
        await (await app.astart(ONE)).aresult()
        await app.adeploy(chain(10))
        started, cpu = time.perf_counter(), time.process_time()
        runs = await app.astart_many("chain10", [None] * count)
        await app.aresults(runs)
        wall, used = time.perf_counter() - started, time.process_time() - cpu
    rate = count * 10 / wall
    note = f"{rate:,.0f} steps/s, {used / count / 10 * 1e3:.2f} CPU ms a step"
    return [Figure("W2 chains of 10", rate / base, "x commits/s", 0.5, less=False, note=note)]


async def fan_out(directory: Path, _base: float, _scale: float) -> list[Figure]:
    """W3: 1,000 tasks and a join."""
    async with engine(directory) as app:
        await app.adeploy(fan(1_000))
        await (await app.astart(ONE)).aresult()
        walls = []
        for _ in range(3):
            started = time.perf_counter()
            await (await app.astart("fan")).aresult()
            walls.append(time.perf_counter() - started)
    return [Figure("W3 1,000 and join", statistics.median(walls), "s", 0.5)]


async def latency(directory: Path, _base: float, scale: float) -> list[Figure]:
    """W4: one run after the other on an idle engine."""
    figures = []
    async with engine(directory) as app:
        for name, text, goal in (("one step", ONE, 5.0), ("diamond", DIAMOND, 12.0)):
            await app.adeploy(text)
            workflow = "one" if text is ONE else "diamond"
            times = []
            for _ in range(max(30, int(200 * scale))):
                started = time.perf_counter()
                await (await app.astart(workflow)).aresult()
                times.append((time.perf_counter() - started) * 1e3)
            times = sorted(times[10:])
            note = f"p99 {times[int(len(times) * 0.99)]:.1f} ms"
            figures.append(
                Figure(f"W4 {name} p50", statistics.median(times), "ms", goal, note=note)
            )
    return figures


async def parked(directory: Path, _base: float, scale: float) -> list[Figure]:
    """W5: 10,000 runs that wait for an event; 1,000 of them woken."""
    count, seconds = int(10_000 * scale), 30 * scale
    async with engine(directory) as app:
        await app.adeploy(PARKED)
        await (await app.astart(ONE)).aresult()
        await asyncio.sleep(1)
        before = rss_mb()
        runs = []
        for first in range(0, count, 100):
            inputs = [{"key": f"k{i}"} for i in range(first, first + 100)]
            runs += await app.astart_many("parked", inputs)
        await asyncio.sleep(2)
        growth, cpu = rss_mb() - before, time.process_time()
        await asyncio.sleep(seconds)
        idle = time.process_time() - cpu
        woken = min(1_000, count // 2)
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for i in range(woken):
                group.create_task(app.asend_event("go", f"k{i}", {"n": i}))
        sent = time.perf_counter() - started
        await app.aresults(runs[:woken])
        awake = time.perf_counter() - started
    return [
        Figure(f"W5 {count:,} parked, growth", growth, "MB", 20),
        Figure(f"W5 idle CPU in {seconds:g} s", idle, "CPU s", 0.6 * scale),
        Figure(f"W5 {woken:,} woken and done", awake, "s", 1.0, note=f"{sent:.2f} s to send"),
    ]


async def long_chain(directory: Path, _base: float, scale: float) -> list[Figure]:
    """CPU of one event in a chain of 10,000 nodes against a chain of 10."""
    length = int(10_000 * scale) // 10 * 10
    costs = {}
    for size, count in ((10, length // 10), (length, 1)):
        async with engine(directory / f"c{size}") as app:
            text = chain(size)
            await app.adeploy(text)
            await (await app.astart(ONE)).aresult()
            cpu = time.process_time()
            for _ in range(count):  # one run at a time, as the long chain is
                await (await app.astart(f"chain{size}")).aresult(timeout=600)
            costs[size] = (time.process_time() - cpu) / (size * count)
    ratio = costs[length] / costs[10]
    note = f"{costs[10] * 1e6:.0f} and {costs[length] * 1e6:.0f} CPU us an event"
    return [Figure(f"event in {length:,} over in 10 nodes", ratio, "x", 3.0, note=note)]


async def help_text(_directory: Path, _base: float, _scale: float) -> list[Figure]:
    """`tenuto --help`, as a whole process."""
    times = await asyncio.to_thread(_time_help)
    return [Figure("tenuto --help", statistics.median(times), "ms", 300)]


def _time_help() -> list[float]:
    times = []
    for _ in range(7):
        started = time.perf_counter()
        command = [sys.executable, "-m", "tenuto", "--help"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append((time.perf_counter() - started) * 1e3)
    return times


def rss_mb() -> float:
    """Resident memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


MEASURES: dict[str, Callable[[Path, float, float], Coroutine[Any, Any, list[Figure]]]] = {
    "w1": many_runs,
    "w2": chains,
    "w3": fan_out,
    "w4": latency,
    "w5": parked,
    "long": long_chain,
    "help": help_text,
}


def main() -> None:
    """Print one line a figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}")
    parser.add_argument("--repeat", type=int, default=1, help="how often (default 1)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    options = parser.parse_args()
    unknown = set(options.names) - set(MEASURES)
    if unknown:
        parser.error(f"no measure {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    scale = 0.1 if options.quick else 1.0
    import tenuto.app.definitions
    import tenuto.app.embedded  # noqa: F401 - all that an engine loads, before the clock runs

    gc.freeze()  # as `tenuto run` does, and docs/sdk.md advises
    for _ in range(options.repeat):
        with tempfile.TemporaryDirectory(dir=BENCH_DIR) as place:
            base = commits_per_second(Path(place), 2.0)
        print(f"     {'one-row commits, synchronous=FULL':34} {base:10,.0f} commits/s")
        for name in options.names or MEASURES:
            with tempfile.TemporaryDirectory(dir=BENCH_DIR) as place:
                for figure in asyncio.run(MEASURES[name](Path(place), base, scale)):
                    print(figure, flush=True)


if __name__ == "__main__":
    main()
