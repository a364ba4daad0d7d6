"""Both dispatches beside each other: latency of one task while idle, throughput of a backlog, and what a flush costs.

A store in memory (or PostgreSQL: `--postgres`), two coordinators in this process, a Valkey of our own. No engine around
it: a task is committed, offered, claimed. `python bench/dispatch.py`; last column: to the database's own figure.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.backing.redis import Redis, start_redis  # noqa: E402
from tests.support.dispatching import (  # noqa: E402
    Coordinator,
    database_dispatch,
    redis_dispatch,
    until,
    url_of,
    waiting,
)

from tenuto.adapters.local.clock import SystemClock  # noqa: E402
from tenuto.adapters.redis.address import read_address  # noqa: E402
from tenuto.adapters.redis.link import Link  # noqa: E402
from tenuto.adapters.redis.streams import Slot  # noqa: E402
from tenuto.adapters.sql.store import SqlStore  # noqa: E402
from tenuto.adapters.sqlite.engine import open_engine  # noqa: E402

STREAM = Slot("default", 0).stream(0)
Row = tuple[str, dict[str, float], str]


class TimedLink(Link):
    """Notes when each round trip of the publisher was answered."""

    answered: list[float]

    def pipeline(self) -> Any:
        pipe, answered = super().pipeline(), self.answered

        class Timed:
            def execute_command(self, *words: Any) -> None:
                pipe.execute_command(*words)

            async def execute(self, **options: Any) -> Any:
                answer = await pipe.execute(**options)
                answered.append(time.perf_counter())
                return answer

        return Timed()


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """Median and 99th, in ms."""
    ordered = sorted(seconds)
    return statistics.median(ordered) * 1e3, ordered[int(len(ordered) * 0.99)] * 1e3


async def idle(store: SqlStore, sender: Coordinator, taker: Coordinator, count: int) -> list[float]:
    """From the end of the commit to the claim, one task at a time; offered by one, taken by the other."""
    seconds = []
    for _ in range(count):
        (hint,) = await waiting(store, 1)
        taker.want(5)
        begun = time.perf_counter()
        taker.woken.clear()
        sender.dispatch.offered([hint])
        while not await taker.claim(1):
            async with asyncio.timeout(5):
                await taker.woken.wait()
            taker.woken.clear()
        seconds.append(time.perf_counter() - begun)
        await asyncio.sleep(0.002)
    return seconds


async def backlog(store: SqlStore, takers: list[Coordinator], count: int) -> float:
    """Tasks a second that two coordinators take from a backlog."""
    begun = time.perf_counter()

    async def take(taker: Coordinator) -> None:
        while (await store.pulse(None)).ready:
            await taker.take_for(0.3, at_once=50)

    async with asyncio.TaskGroup() as group:
        for taker in takers:
            group.create_task(take(taker))
    return count / (time.perf_counter() - begun)


async def measure(
    name: str,
    store: SqlStore,
    redis: Redis | None,
    count: int,
    results: dict[str, dict[str, float]],
) -> None:
    link = None
    if redis is None:
        make = database_dispatch(store)
        make_sender = make
    else:
        link = TimedLink(read_address(url_of(redis)))
        link.answered = []
        make = redis_dispatch(store, url_of(redis))
        make_sender = redis_dispatch(store, url_of(redis), link=link)
    sender = await Coordinator("sender", store, make_sender).start()
    taker = await Coordinator("taker", store, make).start()
    if (
        redis is None
    ):  # its own process is told by the commit; others by news, which is not measured here
        sender.woken = taker.woken
    await taker.register()
    await sender.register()
    figures = results.setdefault(name, {})
    await idle(store, sender, taker, 50)
    if link is not None:
        adds = await added(store, sender, link, count)
        figures["commit -> XADD answered, p50 ms"], figures["commit -> XADD answered, p99 ms"] = (
            percentiles(adds)
        )
        await backlog(store, [taker], 1)
    seconds = await idle(store, sender, taker, count)
    figures["commit -> leased, p50 ms"], figures["commit -> leased, p99 ms"] = percentiles(seconds)
    hints = await waiting(store, 10 * count)
    for n in range(0, len(hints), 200):
        sender.dispatch.offered(hints[n : n + 200])
        await asyncio.sleep(0)
    if redis is not None:
        await settled(redis)
    figures["backlog, tasks/s"] = await backlog(store, [sender, taker], 10 * count)
    if redis is not None:
        await flushed(store, sender, redis, figures)
        redis.crash()
        await until(lambda: bool(getattr(sender.dispatch, "trouble", None)))
        hints = await waiting(store, 5 * count)
        figures["backlog without Redis, tasks/s"] = await backlog(store, [sender, taker], 5 * count)
        redis.start()
    await sender.kill()
    await taker.kill()


async def added(store: SqlStore, sender: Coordinator, link: TimedLink, count: int) -> list[float]:
    seconds = []
    for _ in range(count):
        (hint,) = await waiting(store, 1)
        link.answered.clear()
        begun = time.perf_counter()
        sender.dispatch.offered([hint])
        await until(lambda: bool(link.answered), 5)
        seconds.append(link.answered[0] - begun)
        await asyncio.sleep(0.002)
    return seconds


async def settled(redis: Redis) -> None:
    """Until the stream grows no more."""
    before = ""
    while (now := redis.command("XLEN", STREAM)) != before:
        before = now
        await asyncio.sleep(0.5)


async def flushed(
    store: SqlStore, sender: Coordinator, redis: Redis, figures: dict[str, float]
) -> None:
    """How long until 10,000 queued tasks are offered again."""
    sent = 0
    while sent < 10_000:
        sender.dispatch.offered(await waiting(store, 500))
        sent += 500
        await asyncio.sleep(0.1)
    await until(lambda: redis.command("XLEN", STREAM) == ":10000", 60)
    begun = time.perf_counter()
    redis.flush()
    await until(lambda: redis.command("XLEN", STREAM) == ":10000", 60)
    figures["flush -> 10,000 offered again, s"] = time.perf_counter() - begun
    await backlog(store, [sender], 1)


async def main(count: int, *, postgres: bool) -> None:
    results: dict[str, dict[str, float]] = {}
    opened: list[Callable[[], Awaitable[None]]] = []
    closing: list[Callable[[], None]] = []

    async def a_store() -> SqlStore:
        if postgres:
            from tests.support.backing.postgres import start_postgres
            from tests.support.shared_store import ShelvedDatabase

            database = ShelvedDatabase(start_postgres())
            closing.append(database.close)
            engine: Any = await database.open()
        else:
            engine = open_engine(":memory:", SystemClock())
        opened.append(engine.close)
        return SqlStore(engine)

    redis = start_redis()
    try:
        await measure("database", await a_store(), None, count, results)
        await measure("redis", await a_store(), redis, count, results)
    finally:
        for close in opened:
            await close()
        for shut in closing:
            shut()
        redis.close()
    print(f"{'':36}{'database':>10}{'redis':>10}{'ratio':>8}")
    for figure, value in results["redis"].items():
        own = results["database"].get(figure.replace(" without Redis", ""))
        ratio = "" if not own else f"{value / own:.2f}"
        print(f"{figure:36}{own if own is None else round(own, 2)!s:>10}{value:>10.2f}{ratio:>8}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--postgres", action="store_true")
    words = parser.parse_args()
    asyncio.run(main(words.count, postgres=words.postgres))
