"""Measure a cluster of real processes on PostgreSQL: `python bench/cluster.py [NAME …] [--mode MODE] [--quick]`.

One server, one worker, PostgreSQL that flushes to the disk, and Redis in that mode: all on this machine. Runs are
started over REST, 100 in a request (`Remote.start_runs`), where it is not said otherwise. Every figure stands beside
its floor (DESIGN section 8) and, where it is a rate, as a ratio to plain one-row commits of the same PostgreSQL in the
same run.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import asyncpg

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import bench.run  # noqa: E402
from bench.run import DIAMOND, ONE, PARKED, Figure, chain, fan  # noqa: E402
from tests.support.backing.postgres import start_postgres  # noqa: E402
from tests.support.chaos.cluster import Cluster, Plan  # noqa: E402

from tenuto import Tenuto  # noqa: E402
from tenuto.sdk.remote import Remote, Sending  # noqa: E402

CLIENTS = 64
TOGETHER = 100
"""Runs that one request starts, where it starts many."""
_TICKS = os.sysconf("SC_CLK_TCK")
_OPEN = """
SELECT count(*) FROM (
  SELECT 1 FROM runs WHERE namespace = 'default' AND state IN ('pending', 'running', 'closing') LIMIT $1 + 1
) AS found
"""
app = Tenuto()


@app.task
async def noop() -> dict[str, bool]:
    """Nothing: what is measured is the way to it and back."""
    return {"ok": True}


@dataclass(frozen=True, slots=True)
class Bench:
    """A cluster that is up. `base`: one-row commits per second; `scale`: of the work."""

    cluster: Cluster
    remote: Remote
    link: asyncpg.Connection
    base: float
    scale: float

    async def start(self, workflow: str, count: int, inputs: Callable[[int], object]) -> None:
        """So many runs, over as many connections as there are clients."""
        numbers = iter(range(count))

        async def client() -> None:
            for number in numbers:
                await self.remote.start_run(workflow, inputs(number))

        async with asyncio.TaskGroup() as group:
            for _ in range(min(CLIENTS, count)):
                group.create_task(client())

    async def start_and_wait(self, workflow: str) -> None:
        """One run, by a request for each of the two."""
        run = await self.remote.start_run(workflow)
        await self.remote.wait_run(run["run_id"])

    async def start_together(self, workflow: str, count: int) -> None:
        """So many runs, 100 in a request, some requests at a time."""
        parts = iter([min(TOGETHER, count - first) for first in range(0, count, TOGETHER)])

        async def client() -> None:
            for size in parts:
                await self.remote.start_runs(workflow, [(None, None)] * size)

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(client())

    async def over(self, left: int = 0) -> None:
        """Until no more than so many runs are open."""
        while await self.link.fetchval(_OPEN, left) > left:  # noqa: ASYNC110 - other processes end them
            await asyncio.sleep(0.02)

    def cpu_s(self) -> dict[str, float]:
        """Processor time so far: of the server, the worker, PostgreSQL, and this process."""
        cluster = self.cluster
        return {
            "server": cpu_of(cluster.servers[0].pid, cluster.servers[0].children()),
            "worker": cpu_of(cluster.workers[0].pid, cluster.workers[0].children()),
            "postgres": postgres_cpu(cluster),
            "client": time.process_time(),
        }


Measure = Callable[[Bench], Awaitable[list[Figure]]]


async def many_runs(bench: Bench) -> list[Figure]:
    """W1: one-step runs."""
    count = int(4_000 * bench.scale)
    await bench.remote.deploy(ONE)
    alone, note_alone = await rated(
        bench, count // 4, 1, lambda: bench.start("one", count // 4, lambda _: None)
    )
    rate, note = await rated(bench, count, 1, lambda: bench.start_together("one", count))
    return [
        Figure("W1 one-step runs", rate, "runs/s", 2_000, less=False, note=note),
        Figure("W1 a request for each", alone, "runs/s", 500, less=False, note=note_alone),
        await backlog(bench, count),
    ]


async def backlog(bench: Bench, count: int) -> Figure:
    """The same without their starts: they wait when the worker comes; from the first end to the last."""
    worker = bench.cluster.workers[0]
    await asyncio.to_thread(worker.drain, 30)
    last = await bench.link.fetchval("SELECT max(run_id) FROM runs")
    await bench.start_together("one", count)
    before = bench.cpu_s()["server"]
    worker.start()
    await bench.over()
    cost = (bench.cpu_s()["server"] - before) / count * 1e3
    took_us = await bench.link.fetchval(
        "SELECT max(ended_at) - min(ended_at) FROM runs WHERE run_id > $1", last
    )
    rate = count / (took_us / 1e6)
    note = f"{rate / bench.base:.2f} x commits; CPU ms a run of the server: {cost:.2f}"
    return Figure("W1 one-step runs, of a backlog", rate, "runs/s", 2_000, less=False, note=note)


async def chains(bench: Bench) -> list[Figure]:
    """W2: chains of 10."""
    count = max(20, int(400 * bench.scale))
    await bench.remote.deploy(chain(10))
    rate, note = await rated(bench, count, 10, lambda: bench.start_together("chain10", count))
    return [Figure("W2 chains of 10", rate, "steps/s", 3_000, less=False, note=note)]


async def rated(
    bench: Bench, count: int, steps: int, start: Callable[[], Awaitable[None]]
) -> tuple[float, str]:
    """Steps a second, and what they cost."""
    before, began = bench.cpu_s(), time.perf_counter()
    await start()
    submitted_s = time.perf_counter() - began
    await bench.over()
    took_s = time.perf_counter() - began
    after = bench.cpu_s()
    cost = {name: (after[name] - before[name]) / count / steps * 1e3 for name in after}
    rate = count * steps / took_s
    parts = ", ".join(f"{name} {value:.2f}" for name, value in cost.items())
    total = sum(value for name, value in cost.items() if name != "client")
    return rate, (
        f"{rate / bench.base:.2f} x commits; CPU ms a step: {total:.2f} ({parts}); {submitted_s / took_s:.0%} to submit"
    )


async def fan_out(bench: Bench) -> list[Figure]:
    """W3: 1,000 tasks and a join."""
    await bench.remote.deploy(fan(1_000))
    walls = []
    for _ in range(3):
        began = time.perf_counter()
        run = await bench.remote.start_run("fan")
        await bench.remote.wait_run(run["run_id"])
        walls.append(time.perf_counter() - began)
    return [Figure("W3 1,000 and join", statistics.median(walls), "s", 0.5)]


async def latency(bench: Bench) -> list[Figure]:
    """W4: one run after the other; from the request to the answer that it is over: one request, or one to start and one
    to wait.
    """
    figures = []
    for name, text, goal in (("one", ONE, 5.0), ("diamond", DIAMOND, 12.0)):
        await bench.remote.deploy(text)
        for _ in range(
            max(10, int(100 * bench.scale))
        ):  # plans and caches grow warm: the first form would pay for it
            await bench.start_and_wait(name)
            await bench.remote.run(name)
        figures.append(await timed(bench, name, goal, "", bench.remote.run))
        figures.append(await timed(bench, name, goal, ", two requests", bench.start_and_wait))
    return figures


async def timed(
    bench: Bench, name: str, goal: float, how: str, run: Callable[[str], Awaitable[object]]
) -> Figure:
    """The median of some runs, each alone."""
    times = []
    for _ in range(max(30, int(200 * bench.scale))):
        began = time.perf_counter()
        await run(name)
        times.append((time.perf_counter() - began) * 1e3)
    times = sorted(times[10:])
    inner = await bench.link.fetch(
        "SELECT ended_at - created_at AS us FROM runs WHERE workflow = $1 ORDER BY run_id DESC LIMIT $2",
        name,
        len(times),
    )
    stored = statistics.median(r["us"] / 1e3 for r in inner)
    note = f"p99 {times[int(len(times) * 0.99)]:.1f} ms; {stored:.1f} ms from its row to its end"
    return Figure(f"W4 {name} p50{how}", statistics.median(times), "ms", goal, note=note)


async def parked(bench: Bench) -> list[Figure]:
    """W5: runs that wait for an event; some woken by 100 events in a request, and as many by a request for each."""
    count, seconds = int(10_000 * bench.scale), 30 * bench.scale
    await bench.remote.deploy(PARKED)
    pid = bench.cluster.servers[0].pid
    before = rss_mb(pid)
    await bench.start("parked", count, lambda n: {"key": f"k{n}"})
    await asyncio.sleep(2)
    growth, cpu = rss_mb(pid) - before, bench.cpu_s()
    await asyncio.sleep(seconds)
    idle = (bench.cpu_s()["server"] - cpu["server"]) / seconds * 100
    woken = min(1_000, count // 4)
    together, note = await waking(bench, count, range(woken), TOGETHER)
    alone, note_alone = await waking(bench, count - woken, range(woken, 2 * woken), 1)
    return [
        Figure(
            f"W5 {count:,} parked, growth", growth, "MB", 20, note="of the server, starts included"
        ),
        Figure("W5 idle CPU of the server", idle, "% of a core", 5),
        Figure(f"W5 {woken:,} woken and done", together, "s", 1.0, note=note),
        Figure(f"W5 {woken:,} woken, a request for each", alone, "s", 4.0, note=note_alone),
    ]


async def waking(bench: Bench, parked: int, numbers: range, together: int) -> tuple[float, str]:
    """Seconds until these of the parked runs are done, with so many events in a request."""
    parts = iter([numbers[first : first + together] for first in range(0, len(numbers), together)])
    began = time.perf_counter()

    async def client() -> None:
        for part in parts:
            if together == 1:
                await bench.remote.send_event("go", f"k{part[0]}", {"n": part[0]})
            else:
                await bench.remote.send_events([Sending("go", f"k{n}", {"n": n}) for n in part])

    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS if together == 1 else 4):
            group.create_task(client())
    sent = time.perf_counter() - began
    await bench.over(parked - len(numbers))
    return time.perf_counter() - began, f"{sent:.2f} s to send"


MEASURES: dict[str, Measure] = {
    "w1": many_runs,
    "w2": chains,
    "w3": fan_out,
    "w4": latency,
    "w5": parked,
}


async def commits_per_second(dsn: str, seconds: float) -> float:
    """One connection, one row of about 350 bytes a commit."""
    link = await asyncpg.connect(dsn)
    await link.execute("CREATE TABLE commits (id BIGSERIAL PRIMARY KEY, text TEXT)")
    text, count, began = "x" * 350, 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        await link.execute("INSERT INTO commits (text) VALUES ($1)", text)
        count += 1
    rate = count / (time.perf_counter() - began)
    await link.close()
    return rate


def cpu_of(pid: int, below: list[int]) -> float:
    """Seconds of processor time of these processes."""
    total = 0
    for each in (pid, *below):
        try:
            words = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, words[11:15]))  # of its ended children too
    return total / _TICKS


def postgres_cpu(cluster: Cluster) -> float:
    """Of PostgreSQL with all its processes."""
    from tests.support.backing.keeper import descendants

    pid = cluster.postgres.server.pid
    return cpu_of(pid, descendants(pid))


def rss_mb(pid: int) -> float:
    """Resident memory in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


async def measure(cluster: Cluster, names: list[str], scale: float) -> None:
    """Print one line a figure."""
    base = await commits_per_second(cluster.postgres.create_database(), 2.0)
    print(f"     {'one-row commits, fsync on':34} {base:10,.0f} commits/s")
    link = await asyncpg.connect(cluster.dsn)
    async with Remote(cluster.servers[0].url, timeout_s=60) as remote:
        bench = Bench(cluster, remote, link, base, scale)
        await remote.deploy(ONE)
        await bench.start("one", 50, lambda _: None)
        await bench.over()
        for name in names:
            for figure in await MEASURES[name](bench):
                print(figure, flush=True)
    await link.close()


def one_process(names: list[str], scale: float) -> None:
    """The measures of `bench/run.py`, with everything but PostgreSQL in this process: `Tenuto("postgresql://…")`."""
    postgres = start_postgres(durable=True)
    try:
        print(f"-- one process, PostgreSQL {postgres.version}")
        base = asyncio.run(commits_per_second(postgres.create_database(), 2.0))
        print(f"     {'one-row commits, fsync on':34} {base:10,.0f} commits/s")

        def engine(directory: Path) -> Tenuto:  # noqa: ARG001 - in place of one that takes it
            made = Tenuto(postgres.create_database())
            made.task(name="noop")(noop)
            return made

        bench.run.engine = engine
        gc.freeze()  # as docs/sdk.md advises
        for name in names:
            for figure in asyncio.run(bench.run.MEASURES[name](Path(), base, scale)):
                print(figure, flush=True)
    finally:
        postgres.close()


def main() -> None:
    """One cluster for each mode."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}")
    modes = ("process", "database", "redis")
    parser.add_argument("--mode", choices=modes, action="append", help="default: all three")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    options = parser.parse_args()
    unknown = set(options.names) - set(MEASURES)
    if unknown:
        parser.error(f"no measure {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    names, scale = options.names or list(MEASURES), 0.1 if options.quick else 1.0
    for mode in options.mode or modes:
        if mode == "process":
            one_process(names, scale)
            continue
        plan = Plan(
            mode="redis" if mode == "redis" else "database",
            servers=1,
            workers=1,
            queues=("default",),
            app="bench/cluster.py:app",
            proxied=False,
            durable=True,
            lease="10s",
            env={"TENUTO_WORKER__TASK_PROCESSES": "1", "TENUTO_WORKER__SLOTS": "200"},
        )
        with tempfile.TemporaryDirectory() as place, Cluster(plan, Path(place)) as cluster:
            print(f"-- dispatch {mode}, PostgreSQL {cluster.postgres.version}")
            asyncio.run(measure(cluster, names, scale))


if __name__ == "__main__":
    main()
