"""A campaign: a cluster carries many runs while accidents strike, then all heals, and the auditor judges.

starts runs (a client with keys) ──▶ servers ──▶ workers ──▶ journal
                 accidents, one every 1 to 3 s   ▲                  │
everything healed, all runs over ────────────────┴──▶ auditor ◀─────┘
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.chaos import audit, leases
from tests.support.chaos.audit import Verdict
from tests.support.chaos.cluster import Cluster, Mode, Plan
from tests.support.chaos.faults import Faults
from tests.support.chaos.flows import FLOWS

from tenuto.model.errors import TenutoError
from tenuto.sdk.remote import Remote

CLIENTS = 8
QUIET_S = 120.0
"""How long runs may take to end once everything is well again: several leases, and work for a slow machine."""
_TRIES_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What is to be done.

    Attributes:
        runs: how many, of all flows by turns.
        seconds: accidents strike for at most so long; they end earlier when all runs are over.
        quiet_s: how long runs may take to end once everything is well again.
        accidents: False: nothing goes wrong but what is in the code.
    """

    mode: Mode
    seed: int
    runs: int
    seconds: float
    skewed: bool = True
    lease_s: int = 3
    quiet_s: float = QUIET_S
    accidents: bool = True
    env: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    verdict: Verdict
    accidents: Mapping[str, int]
    struck_s: float
    settled_s: float
    """From the last healing to the last run's end."""
    stuck: tuple[str, ...]
    """Also what a late report was wrongly told."""

    @property
    def problems(self) -> tuple[str, ...]:
        return (*self.stuck, *self.verdict.problems)

    def __str__(self) -> str:
        dealt = ", ".join(f"{kind} {count}" for kind, count in self.accidents.items())
        return "\n".join(
            [
                f"{sum(self.accidents.values())} accidents in {self.struck_s:.0f} s: {dealt}",
                f"all runs over {self.settled_s:.1f} s after the last was healed",
                *self.stuck,
                str(self.verdict),
            ]
        )


def conduct(
    campaign: Campaign, folder: Path, say: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Do all of it."""
    plan = Plan(
        mode=campaign.mode,
        servers=2,
        workers=3,
        skewed=campaign.skewed,
        lease=f"{campaign.lease_s}s",
        env=campaign.env or {},
    )
    with Cluster(plan, folder) as cluster:
        say(
            f"cluster is up: {cluster.postgres.version}, dispatch {campaign.mode}, seed {campaign.seed}"
        )
        return asyncio.run(_conduct(campaign, cluster, say))


async def _conduct(campaign: Campaign, cluster: Cluster, say: Callable[[str], None]) -> Outcome:
    await leases.install(cluster.dsn)
    client = _Client(cluster, campaign.seed)
    await client.deploy()
    faults = Faults(cluster, campaign.seed, campaign.lease_s)
    began = time.monotonic()
    starting = asyncio.ensure_future(client.start(campaign.runs, campaign.seconds * 0.6))
    while campaign.accidents and time.monotonic() - began < campaign.seconds:
        accident = await asyncio.to_thread(faults.strike)
        say(f"{time.monotonic() - began:6.1f} s  {accident.kind}: {accident.what}")
        until = time.monotonic() + faults.pause_s()
        while time.monotonic() < until:
            await asyncio.to_thread(faults.heal)
            await asyncio.sleep(0.05)
        if "postgres" in faults.scene.busy:
            continue  # a frozen one answers nobody, and nobody but this loop heals it
        if starting.done() and await asyncio.to_thread(_is_over, cluster, campaign.runs):
            break
    struck_s = time.monotonic() - began
    await asyncio.to_thread(lambda: faults.heal(all=True))
    died = await asyncio.to_thread(_revive, cluster)
    await starting
    healed = time.monotonic()
    say(f"{struck_s:6.1f} s  all is healed")
    stuck: tuple[str, ...] = ()
    while not await asyncio.to_thread(_is_over, cluster, campaign.runs):
        if time.monotonic() - healed > campaign.quiet_s:
            stuck = tuple(await asyncio.to_thread(_stuck, cluster))
            break
        await asyncio.sleep(0.1)
    settled_s = time.monotonic() - healed
    await asyncio.sleep(1)  # what comes late comes now
    while not await asyncio.to_thread(_is_cleared, cluster):
        if time.monotonic() - healed > campaign.quiet_s:
            break  # the auditor says what is left
        await asyncio.sleep(0.1)
    facts = await audit.gather(
        cluster.dsn,
        cluster.journal,
        client.told,
        steps={flow.name: flow.steps for flow in FLOWS},
        drained={worker.name: worker.drained for worker in cluster.workers},
    )
    believed = tuple(f"I3: a late report was answered {said}" for said in faults.scene.believed)
    return Outcome(
        audit.judge(facts), faults.counts(), struck_s, settled_s, (*died, *stuck, *believed)
    )


def _revive(cluster: Cluster) -> tuple[str, ...]:
    """What ended by itself, also if an accident has met it since; starts again what is down."""
    falls = cluster.falls()
    for member in cluster.members():
        if not member.alive:
            member.start()
    return tuple(falls)


def _is_over(cluster: Cluster, runs: int) -> bool:
    [(top, open_ones)] = cluster.rows(
        "SELECT count(*) FILTER (WHERE parent IS NULL), count(*) FILTER (WHERE ended_at IS NULL) FROM runs"
    )
    return bool(top == runs and open_ones == 0)


def _is_cleared(cluster: Cluster) -> bool:
    """Whether all is gone that a run's end clears away, which takes a moment longer than the end."""
    counts = [f"(SELECT count(*) FROM {table})" for table in audit.LEFT]
    leased = "(SELECT count(*) FROM tasks WHERE lease_id IS NOT NULL)"
    return cluster.value(f"SELECT {' + '.join([*counts, leased])}") == 0


def _stuck(cluster: Cluster) -> list[str]:
    """What is still open, with all that should move it."""
    found = cluster.rows(
        """
        SELECT r.run_id, r.workflow, s.state, s.quarantine, s.nodes,
          (SELECT string_agg(format('%s %s attempt %s lease %s', t.place, t.state, t.attempt,
             CASE WHEN t.lease_id IS NULL THEN 'none' ELSE t.worker END), '; ')
             FROM tasks t WHERE t.run_id = r.run_id AND t.state IN ('pending', 'retry')),
          (SELECT string_agg(format('%s published %s', y.place, y.published), '; ')
             FROM ready y WHERE y.run_id = r.run_id)
        FROM runs r JOIN run_states s USING (run_id) WHERE r.ended_at IS NULL ORDER BY 1 LIMIT 20
        """
    )
    return [f"stuck: {' | '.join(map(str, row))}" for row in found]


class _Client:
    """Starts runs by keys, at any server that answers, again and again until one says that it is stored."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._dice = random.Random(f"client {seed}")
        self.told: dict[str, list[str]] = {}

    async def deploy(self) -> None:
        async with Remote(self._cluster.servers[0].url) as remote:
            for flow in FLOWS:
                await remote.deploy(flow.text, f"{flow.name}.yaml")

    async def start(self, runs: int, within_s: float) -> None:
        """All of them, spread over so many seconds."""
        numbers = iter(range(runs))
        began = time.monotonic()

        async def one_by_one(remotes: list[Remote]) -> None:
            for number in numbers:
                wait_s = began + within_s * number / runs - time.monotonic()
                await asyncio.sleep(max(0.0, wait_s))
                await self._start(remotes, number)

        remotes = [
            Remote(server.url, timeout_s=5, patience_s=5) for server in self._cluster.servers
        ]
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(CLIENTS):
                    group.create_task(one_by_one(remotes))
        finally:
            for remote in remotes:
                await remote.close()

    async def _start(self, remotes: list[Remote], number: int) -> None:
        flow, key = FLOWS[number % len(FLOWS)], f"run-{number}"
        deadline = time.monotonic() + _TRIES_S
        while True:
            remote = self._dice.choice(remotes)
            try:
                run = await remote.start_run(flow.name, {"id": key}, key=key, priority=number % 10)
            except TenutoError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.2)
                continue
            self.told.setdefault(key, []).append(run["run_id"])
            if self._dice.random() > 0.1:
                return  # else ask again: the same key is the same run
