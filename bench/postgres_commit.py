"""What commits cost on PostgreSQL: changes/s at 1, 10 and 100 changes a commit, beside plain one-row commits.

A change is a step of a chain, as in `store_commit.py`; each task is handed out in the commit that makes it. Everything
is on this machine, flushed to the disk; lanes are commits under way at a time. `python bench/postgres_commit.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.store_commit import LEASE_US, WORKER, started, stepped
from tests.support.backing.postgres import start_postgres

from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.adapters.postgres.address import read_address
from tenuto.adapters.postgres.shared import Shared, open_shared
from tenuto.adapters.sql.engine import Steps
from tenuto.adapters.sql.store import SqlStore
from tenuto.model.ids import LeaseId, RunId
from tenuto.ports.store import GrantRequest

NODES = 400
ROW = "x" * 300
_NUMBERS = itertools.count()


async def plain(shared: Shared, lanes: int, seconds: float) -> float:
    """One-row commits a second."""
    done = 0
    until = time.perf_counter() + seconds

    async def lane() -> None:
        nonlocal done
        while time.perf_counter() < until:
            params = (f"{next(_NUMBERS):012}", ROW)

            def job(params: tuple[str, str] = params) -> Steps[None]:
                yield (("INSERT INTO plain (id, text) VALUES ($1, $2)", params),)

            await shared.engine.write(job)
            done += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(lanes):
            group.create_task(lane())
    return done / seconds


async def chains(shared: Shared, lanes: int, size: int, seconds: float) -> tuple[float, float]:
    """(changes a second, ms a commit)."""
    ids, store = Uuid7Ids(), SqlStore(shared.engine)
    changes = commits = 0
    busy = 0.0
    until = time.perf_counter() + seconds

    async def lane() -> None:
        nonlocal changes, commits, busy
        seq, leases = NODES, dict[RunId, LeaseId]()
        while time.perf_counter() < until:
            if seq == NODES:
                runs = tuple(ids.run_id(shared.clock.now()) for _ in range(size))
                await store.commit([started(run, NODES) for run in runs], lease_us=LEASE_US)
                request = GrantRequest(
                    worker=WORKER,
                    queues=("default",),
                    names=("work",),
                    lease_ids=tuple(ids.lease_id() for _ in runs),
                    lease_us=LEASE_US,
                    runs=runs,
                )
                leases = {g.run_id: g.lease.lease_id for g in await store.grant(request)}
                seq = 1
            fresh = {run: ids.lease_id() for run in runs}
            began = time.perf_counter()
            done = await store.commit(
                [stepped(run, seq, leases[run], NODES, eager=fresh[run]) for run in runs],
                lease_us=LEASE_US,
            )
            busy += time.perf_counter() - began
            assert not done.losers
            assert len(done.granted) == size
            leases, seq = fresh, seq + 1
            changes, commits = changes + size, commits + 1

    async with asyncio.TaskGroup() as group:
        for _ in range(lanes):
            group.create_task(lane())
    return changes / seconds, busy / commits * 1_000


async def main(version: int | None, lanes_of: list[int], seconds: float) -> None:
    server = start_postgres(version, durable=True)
    try:
        print(f"PostgreSQL {server.version}")
        shared = await open_shared(
            read_address(server.create_database()), name="bench", draw=lambda: 0.5
        )

        def table() -> Steps[None]:
            yield (("CREATE TABLE plain (id TEXT PRIMARY KEY, text TEXT)", ()),)

        await shared.engine.write(table)
        for lanes in lanes_of:
            await plain(shared, lanes, 0.5)
            rows = await plain(shared, lanes, seconds)
            print(f"{lanes} lanes: {rows:,.0f} one-row commits/s")
            for size in (1, 10, 100):
                await chains(shared, lanes, size, 0.5)
                rate, ms = await chains(shared, lanes, size, seconds)
                print(
                    f"  {size:>3} a commit: {rate:>7,.0f} changes/s, {ms:6.1f} ms a commit, "
                    f"{rate / rows:5.2f} of one-row commits"
                )
        await shared.engine.close()
    finally:
        server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", type=int, choices=(15, 18))
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    asyncio.run(main(given.version, given.lanes, given.seconds))
