"""What one change costs in the store: µs per change at several changes per commit, idle and beside a busy thread.

A change is a step of a chain: one report (a claimed lease), one event, two payloads, one task ended, one created, one
ready row or eager lease, the run's state. `python bench/store_commit.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import open_engine
from tenuto.machine.snapshot import Snapshot, Task
from tenuto.model.ids import LeaseId, Place, RunId, WorkerId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import RunState, TaskState
from tenuto.ports.store import (
    Change,
    Claims,
    EagerGrant,
    EventRow,
    GrantRequest,
    NewRun,
    PayloadRow,
)

LEASE_US = 10_000_000
WORKER = WorkerId("worker-1")
OUTPUT = '{"value":"' + "x" * 120 + '"}'


def a_task(step: int, seq: int) -> Task:
    return Task(
        place=Place(f"step_{step}"),
        node=step,
        name="work",
        queue="default",
        priority=0,
        state=TaskState.PENDING,
        attempt=1,
        lost=0,
        input_seq=seq,
        timeout_us=None,
        heartbeat_us=None,
        queue_timeout_us=None,
        total_until=None,
        queue_until=None,
        held=False,
        ended_lease=None,
    )


def a_state(run_id: RunId, seq: int, nodes: int) -> Snapshot:
    return Snapshot(
        run_id=run_id,
        seq=seq,
        at=seq,
        state=RunState.RUNNING,
        paused=False,
        epoch=1,
        nodes=b"s" * seq + b"." * (nodes - seq),
        edges=b"t" * seq + b"-" * (nodes - seq),
        passes=(),
        live=nodes,
    )


def started(run_id: RunId, nodes: int) -> Change:
    task = a_task(1, 1)
    return Change(
        run_id=run_id,
        expected_seq=0,
        snapshot=a_state(run_id, 1, nodes),
        new_run=NewRun(
            namespace="default", workflow="w", version=1, definition="h", key=None, created_at=1
        ),
        events=(EventRow(seq=1, at=1, kind="RunStarted", place=Place(""), data="{}"),),
        payloads=(PayloadRow(key=PayloadKey(task.place, PayloadKind.INPUT), seq=1, text=OUTPUT),),
        created=(task,),
        ready=(task,),
    )


def stepped(
    run_id: RunId, seq: int, lease_id: LeaseId, nodes: int, *, eager: LeaseId | None
) -> Change:
    done, task = a_task(seq, seq), a_task(seq + 1, seq + 1)
    ended = Task(
        **{f: getattr(done, f) for f in Task.__slots__}
        | {"state": TaskState.SUCCESS, "ended_lease": lease_id}
    )
    data = f'{{"attempt":1,"lease":"{lease_id}","size":130,"outcomes":[{{"t":40}}]}}'
    return Change(
        run_id=run_id,
        expected_seq=seq,
        snapshot=a_state(run_id, seq + 1, nodes),
        claims=Claims(leases=((done.place, 1, lease_id),)),
        events=(EventRow(seq=seq + 1, at=1, kind="AttemptSucceeded", place=done.place, data=data),),
        payloads=(
            PayloadRow(key=PayloadKey(done.place, PayloadKind.OUTPUT), seq=seq + 1, text=OUTPUT),
            PayloadRow(key=PayloadKey(task.place, PayloadKind.INPUT), seq=seq + 1, text=OUTPUT),
        ),
        created=(task,),
        updated=((ended, True),),
        ready=(task,),
        eager=()
        if eager is None
        else (EagerGrant(place=task.place, worker=WORKER, lease_id=eager),),
    )


async def measure(path: Path, size: int, nodes: int, rounds: int) -> tuple[float, float]:
    clock, ids = SystemClock(), Uuid7Ids()
    engine = open_engine(path, clock)
    store = SqlStore(engine)
    runs = [ids.run_id(clock.now()) for _ in range(size)]
    await store.commit([started(run, nodes) for run in runs], lease_us=LEASE_US)
    leases: dict[RunId, LeaseId] = {}
    granted = await store.grant(
        GrantRequest(
            worker=WORKER,
            queues=("default",),
            names=("work",),
            lease_ids=tuple(ids.lease_id() for _ in runs),
            lease_us=LEASE_US,
        )
    )
    leases = {g.run_id: g.lease.lease_id for g in granted}
    wall, cpu = [], []
    for seq in range(1, rounds + 1):
        fresh = {run: ids.lease_id() for run in runs}
        changes = [stepped(run, seq, leases[run], nodes, eager=fresh[run]) for run in runs]
        start, used = time.perf_counter(), time.process_time()
        done = await store.commit(changes, lease_us=LEASE_US)
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
        assert not done.losers, done
        assert len(done.granted) == size
        leases = fresh
    await store.close()
    return (
        statistics.median(wall) / size * 1e6,
        statistics.median(cpu) / size * 1e6,
    )


def spin(stop: threading.Event) -> None:
    count = 0
    while not stop.is_set():
        for n in range(1_000):
            count += n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10, help="letters in the run's state")
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    nodes = max(options.nodes, options.rounds + 2)
    print(f"{sys.version.split()[0]}, {nodes} nodes")
    for busy in (False, True):
        stop = threading.Event()
        if busy:
            threading.Thread(target=spin, args=(stop,), daemon=True).start()
        for size in (1, 10, 50, 100):
            with tempfile.TemporaryDirectory() as folder:
                wall, cpu = asyncio.run(
                    measure(Path(folder) / "t.db", size, nodes, options.rounds if not busy else 15)
                )
            print(
                f"{'busy' if busy else 'idle'}  {size:4} changes/commit"
                f"  {wall:8.0f} µs/change"
                + ("" if busy else f"  {cpu:6.0f} µs CPU/change")
                + f"  {wall * size / 1000:8.2f} ms/commit"
            )
        stop.set()


if __name__ == "__main__":
    main()
