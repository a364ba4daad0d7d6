"""How long recovery takes after each kind of accident, alone; and what a cluster costs that has nothing to do.

Each figure has a goal and a limit: five times as much, for a slow machine and to catch what hangs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.support.backing.proxy import Way
from tests.support.chaos import journal
from tests.support.chaos.cluster import Cluster, Member, Mode, Plan, Server, until
from tests.support.chaos.flows import CHAIN, NAP, TASK

from tenuto.model.errors import TenutoError
from tenuto.sdk.remote import Remote

LEASE_S = 3
SLACK = 5
QUEUED = 10_000
IDLE_S = 10.0
_STREAMED = (
    "local n = 0 for _, key in ipairs(redis.call('KEYS', '*')) do "
    "if redis.call('TYPE', key).ok == 'stream' then n = n + redis.call('XLEN', key) end end return n"
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement. `unit`: what `value` and `goal` are in."""

    name: str
    value: float
    goal: float
    unit: str = "s"

    @property
    def is_within(self) -> bool:
        """Whether it keeps to the limit."""
        return self.value <= self.goal * SLACK

    @property
    def verdict(self) -> str:
        if self.value <= self.goal:
            return "ok"
        return "over its goal" if self.is_within else "OVER ITS LIMIT"


def table(figures: Sequence[Figure]) -> str:
    """The figures as lines."""
    width = max(len(figure.name) for figure in figures)
    lines = [f"{'recovery':<{width}}  {'measured':>12}  {'goal':>10}"]
    lines += [
        f"{f.name:<{width}}  {f.value:>8.2f} {f.unit:<3}  {f.goal:>6g} {f.unit:<3}  {f.verdict}"
        for f in figures
    ]
    return "\n".join(lines)


def measure(
    mode: Mode, folder: Path, *, queued: int = QUEUED, idle_s: float = IDLE_S
) -> list[Figure]:
    """All figures of one mode, one after another on one cluster of two servers and two workers."""
    plan = Plan(mode=mode, servers=2, workers=2, lease=f"{LEASE_S}s")
    with Cluster(plan, folder) as cluster:
        bench = _Bench(cluster)
        bench.deploy()

        def measured(name: str, figure: Callable[[], float], goal: float) -> Figure:
            took = figure()
            cluster.wait_ready()  # whoever was thrown out by it is back before the next one
            if cluster.falls():
                raise RuntimeError(f"a process has ended by itself; measured was: {name}")
            return Figure(name, took, goal)

        figures = [
            measured("lost NOTIFY: a task waits for a worker elsewhere", bench.lost_notify, 1),
            measured("a task process killed: its tasks run again", bench.killed_process, 1),
            measured("a worker's host gone: its tasks run again", bench.lost_host, LEASE_S + 2),
            measured("a coordinator killed: every worker goes on", bench.killed_server, 2),
            measured("PostgreSQL restarted (fast): working", partial(bench.restarted, "fast"), 5),
            measured(
                "PostgreSQL restarted (immediate): working",
                partial(bench.restarted, "immediate"),
                5,
            ),
        ]
        if cluster.redis is not None:
            name = f"Redis flushed with {queued:,} queued: all offered again"
            figures.append(measured(name, partial(bench.flushed, queued), 30))
    plan = Plan(mode=mode, servers=1, workers=1, proxied=False, lease="10s")
    with Cluster(plan, folder / "idle") as cluster:
        figures += idle(cluster, idle_s)
    return figures


class _Bench:
    """Measures on a cluster that is well, and leaves it well."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def deploy(self) -> None:
        asyncio.run(self._deploy())

    async def _deploy(self) -> None:
        async with Remote(self._cluster.servers[0].url) as remote:
            for flow in (CHAIN, NAP, TASK):
                await remote.deploy(flow.text, f"{flow.name}.yaml")

    # -- figures --------------------------------------------------------------------------------------------------

    def lost_notify(self) -> float:
        """A server whose notifications vanish has the workers; runs are started at the other one."""
        deaf, other = self._cluster.servers
        took = []
        with self._workers_at(deaf):
            assert deaf.listen is not None
            deaf.listen.black_hole(Way.DOWN)
            for _ in range(5):
                time.sleep(0.3)
                began = time.monotonic()
                self._start(other, NAP.name, {"ms": 0})
                took.append(self._first_start(began) - began)
            deaf.listen.heal()
        return max(took)

    def killed_process(self) -> float:
        """SIGKILL to one process that executes tasks."""
        began = time.monotonic()
        asyncio.run(self._start_many(20, NAP.name, {"ms": 4_000}))
        under_way = self._under_way(20, began)
        victim = under_way[0].pid
        tasks = {each.task for each in under_way if each.pid == victim}
        os.kill(victim, signal.SIGKILL)
        took = self._run_again(tasks, time.monotonic(), 30)
        self._finish()
        return took

    def lost_host(self) -> float:
        """SIGKILL to a worker and all below it, at once: nobody is left to say so."""
        began = time.monotonic()
        asyncio.run(self._start_many(20, NAP.name, {"ms": 4_000}))
        under_way = self._under_way(20, began)
        victim = next(w for w in self._cluster.workers if w.name == under_way[0].worker)
        tasks = {each.task for each in under_way if each.worker == victim.name}
        victim.kill_all()
        took = self._run_again(tasks, time.monotonic(), (LEASE_S + 2) * SLACK)
        victim.start()
        self._finish()
        self._cluster.wait_workers(2)
        return took

    def killed_server(self) -> float:
        """SIGKILL to the server that has both workers, while runs are under way."""
        victim, other = self._cluster.servers
        with self._workers_at(victim):
            pass
        asyncio.run(self._start_many(150, CHAIN.name, None, at=other))
        time.sleep(0.3)
        victim.kill()
        killed = time.monotonic()
        names = {worker.name for worker in self._cluster.workers}

        def missing() -> set[str]:
            return names - {e.worker for e in self._executions() if e.began > killed * 1e6 + 20_000}

        until(lambda: not missing(), 2 * SLACK + 10, lambda: f"nothing from {missing()}")
        firsts: dict[str, int] = {}
        for each in self._executions():
            if each.began > killed * 1e6 + 20_000:
                firsts.setdefault(each.worker, each.began)
        victim.start()
        self._cluster.wait_ready()
        self._finish()
        return max(firsts.values()) / 1e6 - killed

    def restarted(self, mode: str) -> float:
        """From the restart's end until a new run is stored, executed and over."""
        self._cluster.postgres.restart(mode)  # type: ignore[arg-type]
        began = time.monotonic()
        self._start(self._cluster.servers[0], NAP.name, {"ms": 0}, patient=True)
        self._finish()
        return time.monotonic() - began

    def flushed(self, queued: int) -> float:
        """A worker with one slot is busy, so all others wait; then the streams are gone."""
        redis = self._cluster.redis
        assert redis is not None
        for worker in self._cluster.workers:
            worker.drain(20)
        # Serves both queues, but only one thing at a time.
        single = self._cluster.add_worker("single", env={"TENUTO_WORKER__SLOTS": "1"})
        self._cluster.wait_workers(1)
        began = time.monotonic()
        self._start(self._cluster.servers[0], NAP.name, {"ms": 600_000})
        self._under_way(1, began)  # else it does some of the others first, which are never queued
        asyncio.run(self._start_many(queued, TASK.name, None))

        def streamed() -> int:
            return int(redis.command("EVAL", _STREAMED, "0").lstrip(":"))

        until(lambda: streamed() >= queued, 60, lambda: f"{streamed()} of {queued} are offered")
        redis.flush()
        began = time.monotonic()
        until(lambda: streamed() >= queued, 30 * SLACK, lambda: f"{streamed()} of {queued}")
        took = time.monotonic() - began
        single.kill_all()
        self._cluster.workers.remove(single)
        return took

    # -- means ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _workers_at(self, server: Server) -> Iterator[None]:
        """All workers are connected to this server; the others refuse them meanwhile."""
        others = [each for each in self._cluster.servers if each is not server]
        for each in others:
            assert each.gate is not None
            each.gate.refuse()
        assert server.gate is not None
        gate = server.gate
        until(lambda: gate.connections >= len(self._cluster.workers), 30)
        time.sleep(0.5)
        try:
            yield
        finally:
            for each in others:
                assert each.gate is not None
                each.gate.heal()

    def _start(self, server: Server, flow: str, input: object, *, patient: bool = False) -> str:
        return asyncio.run(self._start_one(server, flow, input, patient=patient))

    async def _start_one(self, server: Server, flow: str, input: object, *, patient: bool) -> str:
        key = f"{flow}-{time.monotonic_ns()}"
        async with Remote(server.url, timeout_s=5) as remote:
            while True:
                try:
                    run = await remote.start_run(flow, input, key=key)
                    return str(run["run_id"])
                except TenutoError:
                    if not patient:
                        raise
                    await asyncio.sleep(0.02)

    async def _start_many(
        self, count: int, flow: str, input: object, at: Server | None = None
    ) -> None:
        """At one server, or at all by turns."""
        numbers = iter(range(count))

        async def one_by_one(remote: Remote) -> None:
            for _ in numbers:
                await remote.start_run(flow, input)

        servers = self._cluster.servers if at is None else [at]
        remotes = [Remote(server.url, timeout_s=30) for server in servers]
        async with asyncio.TaskGroup() as group:
            for number in range(32):
                group.create_task(one_by_one(remotes[number % len(remotes)]))
        for remote in remotes:
            await remote.close()

    def _executions(self) -> list[journal.Execution]:
        return journal.read(self._cluster.journal)

    def _under_way(self, count: int, since: float) -> list[journal.Execution]:
        """So many executions that began since then and have not ended."""

        def found() -> list[journal.Execution]:
            return [e for e in self._executions() if e.began > since * 1e6 and e.ended is None]

        until(
            lambda: len(found()) >= count,
            30,
            lambda: f"{len(found())} of {count} tasks are at work",
        )
        return found()

    def _first_start(self, since: float) -> float:
        """When the first execution since then began."""

        def began() -> list[int]:
            return [e.began for e in self._executions() if e.began > since * 1e6]

        until(lambda: bool(began()), 1 * SLACK + 10)
        return min(began()) / 1e6

    def _run_again(self, tasks: set[str], since: float, within_s: float) -> float:
        """Until every one of these tasks has begun anew."""

        def begun() -> dict[str, int]:
            return {
                e.task: e.began
                for e in self._executions()
                if e.task in tasks and e.began > since * 1e6
            }

        until(
            lambda: begun().keys() == tasks,
            within_s,
            lambda: f"only {len(begun())} of {len(tasks)}",
        )
        return max(begun().values()) / 1e6 - since

    def _finish(self) -> None:
        """Until no run is open."""
        until(
            lambda: self._quiet("SELECT count(*) FROM runs WHERE ended_at IS NULL"),
            60,
            lambda: "runs are still open",
        )

    def _quiet(self, sql: str) -> bool:
        try:
            return self._cluster.value(sql) == 0
        except OSError:
            return False


# -- idle -------------------------------------------------------------------------------------------------------------


def idle(cluster: Cluster, for_s: float) -> list[Figure]:
    """What one server and one worker cost while there is nothing to do."""
    time.sleep(5)  # starting is over
    members: list[Member] = [cluster.servers[0], cluster.workers[0]]
    cluster.postgres.fetch("SELECT count(*) FROM (SELECT pg_stat_statements_reset()) AS done")
    before = [_cpu_s(member) for member in members]
    began = time.monotonic()
    time.sleep(for_s)
    spent = [_cpu_s(member) - was for member, was in zip(members, before, strict=True)]
    took = time.monotonic() - began
    [(calls,)] = cluster.postgres.fetch(
        "SELECT coalesce(sum(calls), 0)::BIGINT FROM pg_stat_statements AS s JOIN pg_roles AS r ON r.oid = s.userid"
        " WHERE r.rolname = 'tenuto'"
    )
    return [
        Figure("idle: queries each second", calls / took, 2, "/s"),
        Figure("idle: the server, of a core", spent[0] / took * 100, 1, "%"),
        Figure("idle: the worker, of a core", spent[1] / took * 100, 1, "%"),
    ]


def _cpu_s(member: Member) -> float:
    """Processor time of a process and of all below it."""
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(_ticks(pid) for pid in (member.pid, *member.children())) / ticks


def _ticks(pid: int) -> int:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(words[11]) + int(words[12])
