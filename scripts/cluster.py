"""A whole cluster on this machine: PostgreSQL, Redis, 2 servers, 3 workers and a language server run 1,000 orders.

The orders are those of `examples/order`, with a cool-off of a second; some wait for an approval, which is sent here.
Prints what ran where, and ends everything. Needs the services of the tests (`scripts/backing.py` installs Debian's).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.chaos import work  # noqa: E402
from tests.support.chaos.cluster import Cluster, Plan  # noqa: E402
from tests.support.chaos.work import BY_SERVER  # noqa: E402

from tenuto.sdk.remote import Remote  # noqa: E402

ORDER = ROOT / "examples" / "order"
QUEUES = ("default", "warehouse")
RISKY_EVERY = 10
"""One order in so many has to be approved."""
CLIENTS = 16
WAIT_S = 600.0


def main() -> int:
    """Run the orders; 0 when all of them succeeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--orders", type=int, default=1_000)
    parser.add_argument("--dispatch", choices=["redis", "database"], default="redis")
    wanted = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tenuto-cluster-"))
    plan = Plan(
        mode=wanted.dispatch,
        servers=2,
        workers=3,
        queues=QUEUES,
        app="examples/order/app.py:app",
        languages=True,
        proxied=False,
        durable=True,
        lease="10s",
    )
    began = time.monotonic()
    with payments() as address, Cluster(plan, folder, tell=starting) as cluster:
        print(
            f"PostgreSQL {cluster.postgres.version}, {wanted.dispatch} dispatch, 2 servers, 3 workers, a language "
            f"server: up in {time.monotonic() - began:.1f} s; logs: {folder}",
            flush=True,
        )
        return asyncio.run(run_orders(cluster, address, wanted.orders))


def starting(what: str) -> None:
    """A line for each part: all of them take half a minute."""
    print(f"starting {what} …", flush=True)


@contextmanager
def payments() -> Iterator[str]:
    """The payment service, which fails now and then; it ends when we do."""
    command = [sys.executable, str(ORDER / "service.py"), "--port", "0", "--with-parent"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdin is not None
        assert service.stdout is not None
        address = service.stdout.readline().strip().removeprefix("listening on ")
        # Its lines would fill the pipe, and then it would wait for us.
        drain = subprocess.Popen(["cat"], stdin=service.stdout, stdout=subprocess.DEVNULL)
        try:
            yield address
        finally:
            service.stdin.close()
            drain.wait()


async def run_orders(cluster: Cluster, address: str, orders: int) -> int:
    """Start them at both servers by turns, approve the risky ones, wait, and tell."""
    text = (ORDER / "order.yaml").read_text(encoding="utf-8")
    text = text.replace("{type: wait, for: 2s}", "{type: wait, for: 1s}").replace(
        "timeout: 1s\n", "timeout: 5s\n"
    )
    await work.install(cluster.dsn)
    remotes = [Remote(server.url, timeout_s=30) for server in cluster.servers]
    await remotes[0].deploy(text, "order.yaml")
    numbers = iter(range(orders))
    began = time.monotonic()

    async def client(first: int) -> None:
        for number in numbers:
            remote = remotes[(first + number) % len(remotes)]
            risky = number % RISKY_EVERY == 0
            order = {"order_id": f"A-{number}", "amount": 9_000 if risky else 100}
            await remote.start_run(
                "order", order, key=f"order-{number}", vars={"payments": address}
            )
            if risky:
                await remote.send_event("order.approved", f"A-{number}", {"by": "somebody"})

    async with asyncio.TaskGroup() as group:
        for first in range(CLIENTS):
            group.create_task(client(first))
    started_s = time.monotonic() - began
    print(f"{orders:,} orders started in {started_s:.1f} s", flush=True)
    shown = -1
    while (left := await asyncio.to_thread(cluster.value, _OPEN)) > 0:
        if time.monotonic() - began > WAIT_S:
            print(f"{left} orders are not over after {WAIT_S:.0f} s")
            break
        if left // 100 != shown:
            shown = left // 100
            print(f"  {left:,} under way", flush=True)
        await asyncio.sleep(0.2)
    took_s = time.monotonic() - began
    for remote in remotes:
        await remote.close()
    states = {str(row[0]): row[1] for row in cluster.rows(_STATES)}
    told = ", ".join(f"{count:,} {state}" for state, count in states.items())
    print(f"all over after {took_s:.1f} s: {told}\n")
    print(what_ran_where(cluster))
    effects = await asyncio.to_thread(booked, address)
    print(
        f"\nthe payment service booked {effects:,} payments: one an order, however often it was asked"
    )
    return 0 if states == {"success": orders} and effects == orders else 1


def booked(address: str) -> int:
    """How many payments the other side has."""
    with urlopen(f"{address}/journal", timeout=10) as answer:  # noqa: S310 - an address of ours
        return len(json.load(answer))


_OPEN = "SELECT count(*) FROM runs WHERE ended_at IS NULL"
_STATES = "SELECT state, count(*) FROM runs GROUP BY 1 ORDER BY 1"
_BY_WORKER = """
SELECT split_part(data::jsonb->>'worker', '-', 1) || '-' || split_part(data::jsonb->>'worker', '-', 2),
  t.name, count(*)
FROM events e JOIN tasks t USING (run_id, place)
WHERE e.kind IN ('AttemptSucceeded', 'AttemptFailed')
GROUP BY 1, 2 ORDER BY 1, 2
"""


def what_ran_where(cluster: Cluster) -> str:
    """Attempts of each task by worker; commits and requests by server."""
    counts: dict[str, dict[str, int]] = {}
    for worker, task, count in cluster.rows(_BY_WORKER):
        assert isinstance(count, int)
        counts.setdefault(str(worker), {})[str(task)] = count
    tasks = sorted({task for each in counts.values() for task in each})
    lines = [f"{'attempts':<12}" + "".join(f"{task:>16}" for task in tasks) + f"{'all':>10}"]
    for worker, each in counts.items():
        cells = "".join(f"{each.get(task, 0):>16,}" for task in tasks)
        lines.append(f"{worker:<12}{cells}{sum(each.values()):>10,}")
    lines += ["", f"{'server':<12}{'commits':>10}{'events':>10}{'runs ended':>12}"]
    names = {f"tenuto server {server.pid}": server.name for server in cluster.servers}
    for name, *figures in cluster.rows(BY_SERVER):
        shown = names.get(str(name), str(name))
        commits, events, ended = figures
        lines.append(f"{shown:<12}{commits:>10,}{events:>10,}{ended:>12,}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
