"""Whatever happens to Redis, no ready task is lost, none is granted twice, and work goes on meanwhile."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
import pytest
from tests.conformance.dispatch.test_dispatch import published, until_published
from tests.support.backing.proxy import Proxy, start_proxy
from tests.support.backing.redis import Redis, start_redis
from tests.support.dispatching import (
    SOON_S,
    Coordinator,
    redis_dispatch,
    until,
    url_of,
    waiting,
)

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.redis import link as links
from tenuto.adapters.redis import publisher, reader
from tenuto.adapters.redis.address import read_address
from tenuto.adapters.redis.dispatch import RedisDispatch
from tenuto.adapters.redis.link import Link
from tenuto.adapters.redis.publisher import Publisher
from tenuto.adapters.redis.streams import EPOCH, GROUP, SWEEP, Slot
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import open_engine
from tenuto.model.errors import InvalidInput, Unavailable
from tenuto.model.ids import Place, RunId
from tenuto.ports.dispatch import Hint

STREAM = Slot("default", 0).stream(0)


class Stage:
    """A store, and coordinators over one Redis of this test's own."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.url = ""
        self.coordinators: list[Coordinator] = []

    async def coordinator(self, name: str = "one", **more: Any) -> Coordinator:
        own = {key: more.pop(key) for key in ("link", "window", "shards", "prefix") if key in more}
        coordinator = Coordinator(
            name, self.store, redis_dispatch(self.store, self.url, **own), **more
        )
        self.coordinators.append(coordinator)
        await coordinator.start()
        await coordinator.register()
        return coordinator

    async def close(self) -> None:
        for coordinator in self.coordinators:
            await coordinator.kill()


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    engine = open_engine(":memory:", SystemClock())
    stage = Stage(SqlStore(engine))
    yield stage
    await stage.close()
    await engine.close()


@pytest.fixture(params=["valkey", "redis"])
def server(request: pytest.FixtureRequest, stage: Stage) -> Iterator[Redis]:
    server = start_redis(request.param)
    stage.url = url_of(server)
    yield server
    server.close()


@pytest.fixture
def proxy(server: Redis, stage: Stage) -> Iterator[Proxy]:
    with start_proxy(server.url) as proxy:
        stage.url = proxy.url(server.url)
        yield proxy


# Who dies on the spot here closes nothing, as in life; the connection says so when it is collected, then or later.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*AbstractConnection.__del__:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Whatever a test has left behind is collected within it."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at after half a minute is looked at after a moment."""
    monkeypatch.setattr(publisher, "CHECK_S", 0.3)
    monkeypatch.setattr(publisher, "LAPSED_US", 400_000)
    monkeypatch.setattr(reader, "IDLE_MS", 300)
    monkeypatch.setattr(reader, "RECLAIM_S", 0.2)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer counts however long the machine stands still: each late one would be a line of its own."""
    monkeypatch.setattr(links, "COMMAND_S", 60.0)
    monkeypatch.setattr(links, "READ_S", 60.0 + links.BLOCK_MS / 1_000)


def trouble(coordinator: Coordinator) -> str | None:
    assert isinstance(coordinator.dispatch, RedisDispatch)
    return coordinator.dispatch.trouble


async def queued(stage: Stage, coordinator: Coordinator, count: int) -> list[str]:
    """So many tasks whose hints are in Redis."""
    hints: list[Hint] = []
    while len(hints) < count:
        some = await waiting(stage.store, min(500, count - len(hints)))
        coordinator.dispatch.offered(some)
        hints += some
    await until_published(stage, count)  # type: ignore[arg-type]
    return sorted(hint.run_id for hint in hints)


async def in_use(coordinator: Coordinator) -> None:
    await until(lambda: trouble(coordinator) is None)


async def leased(stage: Stage) -> list[str]:
    """Runs whose task is leased, in the store's own words."""

    def job():  # type: ignore[no-untyped-def]
        row = yield (("SELECT json_group_array(run_id) FROM tasks WHERE lease_id IS NOT NULL", ()),)
        return row[0]

    return sorted(orjson.loads(await stage.store._engine.read(job)))


# -- what Redis loses ---------------------------------------------------------------------------------------------


async def test_after_a_flush_ten_thousand_tasks_are_offered_again(
    stage: Stage, server: Redis
) -> None:
    """F1. Figures are printed by bench/dispatch.py; the promise is 30 s."""
    coordinator = await stage.coordinator(window=20_000)  # room for hints that come twice
    runs = await queued(stage, coordinator, 10_000)
    assert all_hinted(server, 10_000)

    server.flush()

    await until(lambda: all_hinted(server, 10_000), 100)
    assert sorted(await coordinator.take(10_000, at_once=500, seconds=100)) == runs


def all_hinted(server: Redis, count: int) -> bool:
    """Whether so many tasks have a hint: of one that waited for a slow machine there may be two, never none."""
    script = (
        "local seen, n = {}, 0 for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
        "local run = e[2][2] if not seen[run] then seen[run] = true n = n + 1 end end return n"
    )
    if length(server) < count:
        return False
    return server.command("EVAL", script, "1", STREAM) == f":{count}"


async def test_after_a_restart_without_data_everything_is_offered_again(
    stage: Stage, server: Redis
) -> None:
    """F1, 4.1/2"""
    coordinator = await stage.coordinator()
    runs = await queued(stage, coordinator, 50)

    server.crash()
    await until(lambda: trouble(coordinator) is not None)
    server.start()
    await in_use(coordinator)

    await until(lambda: all_hinted(server, 50))
    assert sorted(await coordinator.take(50)) == runs


async def test_a_failover_to_an_older_copy_loses_and_repeats_nothing(
    stage: Stage, server: Redis
) -> None:
    """F2, F3: acked entries come back, the newest are gone."""
    coordinator = await stage.coordinator()
    first = await queued(stage, coordinator, 20)
    server.command("SAVE")
    taken = await coordinator.take(10)
    second = await queued(stage, coordinator, 20)

    server.crash()
    await until(lambda: trouble(coordinator) is not None)
    server.start()  # from the copy: the first twenty, none of the second
    await in_use(coordinator)
    taken += await coordinator.take(30)

    assert sorted(taken) == sorted(first + second)
    assert await leased(stage) == sorted(first + second)
    await until_empty(server, coordinator)


async def until_empty(server: Redis, coordinator: Coordinator) -> None:
    """Until nothing is in the streams. What came twice on a slow machine goes once it is read: nobody gets it."""
    async with asyncio.timeout(SOON_S):
        while any(length(server, stream) for stream in Slot("default", 0).streams):
            assert await coordinator.take_for(0.05) == []


def length(server: Redis, stream: str = STREAM, **where: int) -> int:
    return int(server.command("XLEN", stream, **where)[1:])


async def test_a_single_lost_hint_is_offered_again(stage: Stage, server: Redis) -> None:
    """F2, F19: and those that are there are not offered twice."""
    coordinator = await stage.coordinator()
    runs = await queued(stage, coordinator, 20)

    _lose_first(server)
    left = length(server)  # 19, and what came twice on a slow machine
    assert not all_hinted(server, 20)

    await until(lambda: all_hinted(server, 20), 100)
    await asyncio.sleep(1.0)  # further looks add nothing
    assert length(server) == left + 1
    assert sorted(await coordinator.take(20)) == runs


async def test_what_is_granted_while_a_queue_is_compared_is_not_lost(
    stage: Stage,
    server: Redis,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its row was read, and its entry is gone by right before the stream is."""
    coordinator = await stage.coordinator()
    await queued(stage, coordinator, 20)
    present, begun, compared = Publisher._present, asyncio.Event(), asyncio.Event()

    async def slow(self: Publisher, stream: str) -> set[tuple[RunId, Place]]:
        if begun.is_set():
            compared.set()
        else:
            begun.set()
            before = length(server)  # 20, and what came twice on a slow machine
            await coordinator.take(5)
            await until(lambda: length(server) <= before - 5)
        return await present(self, stream)

    monkeypatch.setattr(Publisher, "_present", slow)
    with caplog.at_level(logging.INFO, "tenuto"):
        await asyncio.wait_for(compared.wait(), 60)  # the next look: the first one is over

    assert "hints_lost" not in caplog.text


def _lose_first(server: Redis) -> None:
    """All that the stream has of the task that it has first."""
    script = (
        "local run for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
        "run = run or e[2][2] if e[2][2] == run then redis.call('XDEL', KEYS[1], e[1]) end end"
    )
    server.command("EVAL", script, "1", STREAM)


def _first_entry(server: Redis) -> str:
    script = "return redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1][1]"
    return server.command("EVAL", script, "1", STREAM)


async def test_a_hint_that_its_group_has_passed_is_offered_again(
    stage: Stage, server: Redis
) -> None:
    """F15: an entry that is delivered, pending for nobody and still in the stream reaches nobody."""
    coordinator = await stage.coordinator()
    runs = await queued(stage, coordinator, 5)

    server.command("XGROUP", "CREATE", STREAM, GROUP, "0", "MKSTREAM")
    server.command("XGROUP", "SETID", STREAM, GROUP, "$")

    assert sorted(await coordinator.take(5)) == runs


async def test_streams_that_vanish_under_readers_are_made_again(
    stage: Stage, server: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """F4, F5: NOGROUP makes no noise and no busy loop."""
    coordinator = await stage.coordinator()
    coordinator.want(5)  # readers block
    await asyncio.sleep(0.3)
    calls = _calls(server)
    with caplog.at_level(logging.INFO, "tenuto"):
        for _ in range(5):
            server.command("DEL", *Slot("default", 0).streams)
            await asyncio.sleep(0.2)

    assert _calls(server) - calls < 60
    assert len(caplog.records) < 5
    hints = await waiting(stage.store, 5)
    coordinator.dispatch.offered(hints)
    assert sorted(await coordinator.take(5)) == sorted(hint.run_id for hint in hints)


def _calls(server: Redis) -> int:
    text = server.command("INFO", "commandstats")
    lines = [line for line in text.splitlines() if line.startswith("cmdstat_eval:")]
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines)


async def test_entries_from_before_the_group_are_read(
    stage: Stage, server: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """F5: a group that is made by a reader begins at the start; it need not be healed afterwards."""
    coordinator = await stage.coordinator()
    runs = await queued(stage, coordinator, 5)
    server.command("XGROUP", "DESTROY", STREAM, GROUP)

    with caplog.at_level(logging.INFO, "tenuto"):
        assert sorted(await coordinator.take(5)) == runs
    assert not any("hints_lost" in record.getMessage() for record in caplog.records)


# -- what Redis refuses -------------------------------------------------------------------------------------------

REFUSALS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "full": (
        ("CONFIG", "SET", "maxmemory", "1"),
        ("CONFIG", "SET", "maxmemory", "0"),
        "no memory left",
    ),
    "replica": (
        ("REPLICAOF", "127.0.0.1", "1"),
        ("REPLICAOF", "NO", "ONE"),
        "read-only replica",
    ),
}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("name", list(REFUSALS))
async def test_while_redis_takes_nothing_the_database_hands_out(
    stage: Stage, server: Redis, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """F7, F8, F22: one line, and back to Redis by itself."""
    refuse, heal, words = REFUSALS[name]
    coordinator = await stage.coordinator()
    before = await queued(stage, coordinator, 10)

    with caplog.at_level(logging.INFO, "tenuto"):
        server.command(*refuse)
        hints = await waiting(stage.store, 10)
        coordinator.dispatch.offered(hints)
        after = sorted(hint.run_id for hint in hints)
        assert sorted(await coordinator.take(20)) == sorted([*before, *after])
        await until(lambda: trouble(coordinator) is not None)
        assert words in (trouble(coordinator) or "")
        await asyncio.sleep(1.5)
        server.command(*heal)
        await in_use(coordinator)

    lines = [record.getMessage() for record in caplog.records]
    assert sum("redis_not_used" in line for line in lines) == 1, lines
    runs = await queued(stage, coordinator, 5)
    assert sorted(await coordinator.take(5)) == runs


@pytest.mark.usefixtures("patient")
async def test_while_redis_is_down_the_database_hands_out(
    stage: Stage, server: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """F22"""
    coordinator = await stage.coordinator()
    before = await queued(stage, coordinator, 10)

    with caplog.at_level(logging.INFO, "tenuto"):
        server.crash()
        hints = await waiting(stage.store, 10)
        coordinator.dispatch.offered(hints)
        taken = await coordinator.take(20)
        await asyncio.sleep(2.0)
        server.start()
        await in_use(coordinator)

    assert sorted(taken) == sorted([*before, *(hint.run_id for hint in hints)])
    lines = [record.getMessage() for record in caplog.records]
    assert 1 <= sum("redis_not_used" in line for line in lines) <= 2, lines
    assert sum("redis_in_use" in line for line in lines) == 1
    runs = await queued(stage, coordinator, 5)
    assert sorted(await coordinator.take(5)) == runs


async def test_a_start_without_redis_works_from_the_database(stage: Stage) -> None:
    """Catalogue F22."""
    server = start_redis()
    stage.url = server.url
    server.crash()
    coordinator = Coordinator("one", stage.store, redis_dispatch(stage.store, stage.url))
    stage.coordinators.append(coordinator)
    coordinator._task = asyncio.create_task(coordinator.dispatch.run(coordinator.stopping))
    await coordinator.register()
    hints = await waiting(stage.store, 5)
    coordinator.dispatch.offered(hints)

    assert sorted(await coordinator.take(5)) == sorted(hint.run_id for hint in hints)

    server.start()
    await in_use(coordinator)
    runs = await queued(stage, coordinator, 5)
    assert sorted(await coordinator.take(5)) == runs
    await coordinator.stop()
    server.close()


async def test_a_wrong_password_is_said_and_heals(stage: Stage) -> None:
    """F23"""
    server = start_redis(password="right")
    stage.url = server.url
    coordinator = await stage.coordinator()
    stage.url = server.url.replace("right", "wrong")
    other = Coordinator("two", stage.store, redis_dispatch(stage.store, stage.url))
    stage.coordinators.append(other)
    other._task = asyncio.create_task(other.dispatch.run(other.stopping))

    await until(lambda: "refuses our password" in (trouble(other) or ""))

    assert "wrong" not in (trouble(other) or "")
    hints = await waiting(stage.store, 3)
    other.dispatch.offered(hints)
    assert len(await other.take(3)) == 3
    with pytest.raises(Unavailable, match="refuses our password"):
        await Link(read_address(stage.url)).probe()
    await coordinator.kill()
    await other.kill()
    server.close()


async def test_a_redis_that_evicts_is_refused_but_on_loopback(
    stage: Stage, server: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """F6"""
    server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")

    strict = Link(read_address(stage.url), strict=True)
    with pytest.raises(InvalidInput, match=r"maxmemory-policy allkeys-lru.*noeviction"):
        await strict.open()
    await strict.close()

    with caplog.at_level(logging.INFO, "tenuto"):
        coordinator = await stage.coordinator()
    assert trouble(coordinator) is None
    assert any("redis_may_lose_streams" in record.getMessage() for record in caplog.records)


async def test_a_stream_whose_key_holds_something_else_blocks_no_other(
    stage: Stage, server: Redis
) -> None:
    """E9: its tasks are handed out from the database. Catalogue E13."""
    server.command("SET", STREAM, "something else")
    coordinator = await stage.coordinator(queues=("default", "other"))
    broken = await waiting(stage.store, 5)
    other = await waiting(stage.store, 5, queue="other")
    coordinator.dispatch.offered([*broken, *other])

    taken = await coordinator.take(10)

    assert sorted(taken) == sorted(hint.run_id for hint in [*broken, *other])


async def test_an_entry_that_means_nothing_is_dropped(stage: Stage, server: Redis) -> None:
    """E9"""
    coordinator = await stage.coordinator()
    coordinator.want(5)
    await asyncio.sleep(0.2)
    server.command("XADD", STREAM, "*", "what", "ever")
    runs = await queued(stage, coordinator, 0)
    await until(lambda: length(server) == 0)
    assert runs == []


# -- the network --------------------------------------------------------------------------------------------------


async def test_cut_connections_are_made_again_each_time(
    stage: Stage, server: Redis, proxy: Proxy
) -> None:
    """F10, F11: also during a blocking read; a hundred times."""
    coordinator = await stage.coordinator()
    expected: list[str] = []
    taken: list[str] = []
    for _ in range(100):
        hints = await waiting(stage.store, 1)
        coordinator.dispatch.offered(hints)
        expected += [hint.run_id for hint in hints]
        proxy.cut()
        taken += await coordinator.take_for(0.02)
    taken += await coordinator.take(len(expected) - len(taken))

    assert sorted(taken) == sorted(expected)
    await in_use(coordinator)
    runs = await queued(stage, coordinator, 5)
    assert sorted(await coordinator.take(5)) == runs


async def test_a_black_hole_is_noticed(stage: Stage, server: Redis, proxy: Proxy) -> None:
    """F9, F11, F22"""
    coordinator = await stage.coordinator()
    coordinator.want(1)
    await asyncio.sleep(0.2)

    proxy.black_hole()
    hints = await waiting(stage.store, 5)
    coordinator.dispatch.offered(hints)
    assert sorted(await coordinator.take(5)) == sorted(hint.run_id for hint in hints)
    assert "does not answer" in (trouble(coordinator) or "")

    proxy.heal()
    await in_use(coordinator)
    runs = await queued(stage, coordinator, 5)
    assert sorted(await coordinator.take(5)) == runs


async def test_a_server_that_stops_answering_is_noticed(stage: Stage, server: Redis) -> None:
    """Catalogue F11."""
    coordinator = await stage.coordinator()
    coordinator.want(1)

    server.pause()
    try:
        hints = await waiting(stage.store, 5)
        coordinator.dispatch.offered(hints)
        assert len(await coordinator.take(5)) == 5
    finally:
        server.resume()

    await in_use(coordinator)
    runs = await queued(stage, coordinator, 5)
    assert sorted(await coordinator.take(5)) == runs


# -- consumers ----------------------------------------------------------------------------------------------------


async def test_what_a_dead_coordinator_had_is_claimed_by_others(
    stage: Stage, server: Redis
) -> None:
    """F12, F13"""
    one = await stage.coordinator("one")
    one.want(10)
    runs = await queued(stage, one, 10)
    await asyncio.sleep(0.1)
    await one.kill()  # with hints at hand

    two = await stage.coordinator("two")

    assert sorted(await two.take(10)) == runs
    await until_empty(server, two)


async def test_consumers_of_the_dead_are_forgotten_once_they_have_nothing_pending(
    stage: Stage, server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F15, F16"""
    monkeypatch.setattr(reader, "SWEEP_S", 0.2)
    monkeypatch.setattr(reader, "CONSUMER_IDLE_MS", 500)
    for n in range(5):
        dead = await stage.coordinator(f"dead-{n}")
        dead.want(2)
        runs = await queued(stage, dead, 2)
        await asyncio.sleep(0.1)
        await dead.kill()
        heir = await stage.coordinator(f"heir-{n}")
        assert sorted(await heir.take(2)) == runs
        await heir.stop()
    last = await stage.coordinator("last")
    last.want(1)

    def consumers() -> int:
        script = "return #redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])"
        return int(server.command("EVAL", script, "1", STREAM, GROUP)[1:])

    await until(lambda: consumers() <= 1)


async def test_a_consumer_with_something_pending_is_never_forgotten(
    stage: Stage, server: Redis
) -> None:
    """F15: what was pending there could be had by nobody."""
    server.command("XGROUP", "CREATE", STREAM, GROUP, "0", "MKSTREAM")
    server.command("XADD", STREAM, "*", "run", "r", "place", "p", "name", "n")
    server.command("XREADGROUP", "GROUP", GROUP, "gone", "STREAMS", STREAM, ">")
    await asyncio.sleep(0.05)

    assert server.command("EVAL", SWEEP, "1", STREAM, GROUP, "me", "1") == ":0"

    entry = _first_entry(server)
    server.command("XACK", STREAM, GROUP, entry)
    assert server.command("EVAL", SWEEP, "1", STREAM, GROUP, "me", "1") == ":1"


# -- bounds -------------------------------------------------------------------------------------------------------


async def test_a_queue_without_workers_is_not_published(stage: Stage, server: Redis) -> None:
    """F18, F19"""
    coordinator = await stage.coordinator()
    hints = await waiting(stage.store, 50, queue="nobody")
    coordinator.dispatch.offered(hints)
    await asyncio.sleep(2.5)
    assert await published(stage) == 0  # type: ignore[arg-type]

    late = await stage.coordinator("late", queues=("nobody",))
    assert len(await late.take(50)) == 50


async def test_a_stream_holds_its_window_and_the_rest_waits_in_the_database(
    stage: Stage, server: Redis
) -> None:
    """F17, F18, E11 Catalogue J5."""
    coordinator = await stage.coordinator(window=100)
    runs = await queued(stage, coordinator, 0)
    hints = await waiting(stage.store, 700)
    coordinator.dispatch.offered(hints)
    await until(lambda: length(server) == 100)
    await asyncio.sleep(1.5)  # further looks add nothing
    assert length(server) == 100

    taken = await coordinator.take(700, at_once=50, seconds=60)
    assert sorted(taken) == sorted([*runs, *(hint.run_id for hint in hints)])


async def test_low_priorities_do_not_starve(
    stage: Stage, server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F21: one task in eight is the longest waiting."""
    # What is given back because a claim took long stands behind the others: it has not waited any more.
    monkeypatch.setattr(publisher, "HOLD_S", 100.0)
    coordinator = await stage.coordinator()
    low = await waiting(stage.store, 3, priority=0)
    coordinator.dispatch.offered(low)
    await until_published(stage, 3)  # type: ignore[arg-type]
    high = await waiting(stage.store, 200, priority=9)
    coordinator.dispatch.offered(high)
    await until_published(stage, 203)  # type: ignore[arg-type]

    taken = await coordinator.take(40, at_once=4)

    assert {hint.run_id for hint in low} < set(taken)


# -- clusters -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["valkey", "redis"])
def cluster(request: pytest.FixtureRequest, stage: Stage) -> Iterator[Redis]:
    server = start_redis(request.param, cluster=2)
    stage.url = url_of(server)
    yield server
    server.close()


async def test_a_slot_that_moves_is_followed(stage: Stage, cluster: Redis) -> None:
    """F8: MOVED, and the hints that were in it."""
    coordinator = await stage.coordinator()
    coordinator.want(1)
    runs = await queued(stage, coordinator, 5)
    slot = cluster.command("CLUSTER", "KEYSLOT", STREAM)[1:]
    homes = [cluster.command("CLUSTER", "MYID", node=n) for n in (0, 1)]
    other = 1 if int(slot) < 8192 else 0
    cluster.command("DEL", *Slot("default", 0).streams, node=1 - other)
    for node in (other, 1 - other):
        cluster.command("CLUSTER", "SETSLOT", slot, "NODE", homes[other], node=node)

    more = await waiting(stage.store, 5)
    coordinator.dispatch.offered(more)

    expected = sorted([*runs, *(hint.run_id for hint in more)])
    assert sorted(await coordinator.take(10)) == expected
    await in_use(coordinator)
    runs = await queued(stage, coordinator, 5)
    assert length(cluster, node=other) >= 5  # more, if some came twice
    assert sorted(await coordinator.take(5)) == runs


async def test_queues_and_shards_spread_over_the_nodes(stage: Stage, cluster: Redis) -> None:
    """F20"""
    coordinator = await stage.coordinator(queues=("a", "b", "c"), shards=4)
    hints = [hint for queue in "abc" for hint in await waiting(stage.store, 40, queue=queue)]
    coordinator.dispatch.offered(hints)
    await until_published(stage, 120)  # type: ignore[arg-type]

    keys = [cluster.command("DBSIZE", node=node) for node in (0, 1)]
    assert ":0" not in keys
    assert sorted(await coordinator.take(120)) == sorted(hint.run_id for hint in hints)


# -- deaths between any two steps ---------------------------------------------------------------------------------


class Died(BaseException):
    """The process is gone."""


class Fate:
    """Dies before or after the nth step, and stays dead."""

    def __init__(self, at: int) -> None:
        self._left = at
        self.dead = False

    def step(self) -> None:
        if self.dead:
            raise Died
        self._left -= 1
        if self._left < 0:
            self.dead = True
            raise Died


class Mortal:
    """Whatever it wraps, with a step before and after each awaited call."""

    def __init__(self, inner: Any, fate: Fate) -> None:
        self._inner = inner
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found) or name in {"pipeline", "aclose"}:
            return found
        fate = self._fate

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = found(*args, **kwargs)
            if not asyncio.iscoroutine(answer) and not hasattr(answer, "__await__"):
                return answer

            async def mortal() -> Any:
                try:
                    fate.step()
                except Died:
                    if asyncio.iscoroutine(answer):
                        answer.close()
                    raise
                value = await answer
                fate.step()
                return value

            return mortal()

        return call


class MortalLink(Link):
    def __init__(self, url: str, fate: Fate) -> None:
        super().__init__(read_address(url))
        self._fate = fate

    @property
    def commands(self) -> Any:
        return Mortal(super().commands, self._fate)

    def pipeline(self) -> Any:
        return _MortalPipe(super().pipeline(), self._fate)

    async def reader(self, key: str) -> Any:
        return Mortal(await super().reader(key), self._fate)


class _MortalPipe:
    def __init__(self, inner: Any, fate: Fate) -> None:
        self._inner = inner
        self._fate = fate

    def execute_command(self, *words: Any) -> None:
        self._inner.execute_command(*words)

    async def execute(self, **options: Any) -> Any:
        self._fate.step()
        answer = await self._inner.execute(**options)
        self._fate.step()
        return answer


async def _live(stage: Stage, name: str, fate: Fate, url: str) -> list[str]:
    """A coordinator with six tasks of its own; it dies somewhere, or ends well."""
    store: Any = Mortal(stage.store, fate)
    make = redis_dispatch(store, url, link=MortalLink(url, fate))
    coordinator = Coordinator(name, stage.store, make)
    coordinator._task = asyncio.create_task(coordinator.dispatch.run(coordinator.stopping))
    await coordinator.register()
    await until(lambda: trouble(coordinator) is None or fate.dead)
    hints = [
        hint
        for columns in ({}, {"name": "strange"}, {"priority": 9})
        for hint in await waiting(stage.store, 2, **columns)
    ]
    coordinator.want(3)
    coordinator.dispatch.offered(hints)
    try:
        async with asyncio.timeout(SOON_S):
            while len(coordinator.granted) < 3 and not fate.dead:
                coordinator.want(3 - len(coordinator.granted))
                await coordinator.claim(3 - len(coordinator.granted))
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.3)
    except (Died, TimeoutError):
        pass
    if fate.dead:
        assert _leaves(await coordinator.kill()) <= {Died}
    else:
        await coordinator.stop()
    return [hint.run_id for hint in hints]


def _leaves(error: BaseException | None) -> set[type[BaseException]]:
    if isinstance(error, BaseExceptionGroup):
        return {kind for each in error.exceptions for kind in _leaves(each)}
    return set() if error is None else {type(error)}


@pytest.fixture(scope="module")
def shared() -> Iterator[Redis]:
    server = start_redis()
    yield server
    server.close()


@pytest.mark.parametrize("round_", range(6))
async def test_a_death_between_any_two_steps_loses_nothing(
    stage: Stage, shared: Redis, round_: int
) -> None:
    """E7, E8, E13, F12: each death is followed by one survivor; what the dead had leased counts as leased."""
    url = url_of(shared)
    stage.url = url
    shared.flush()
    deaths = 0
    runs: list[str] = []
    for at in range(round_, 60, 6):
        fate = Fate(at)
        runs += await _live(stage, f"mortal-{at}", fate, url)
        deaths += fate.dead
    assert deaths >= 5

    survivor = await stage.coordinator("survivor", names=("work", "strange"))
    async with asyncio.timeout(SOON_S):
        while (await stage.store.pulse(None)).ready:
            await survivor.take_for(0.3)

    assert await leased(stage) == sorted(runs)
    await until_empty(shared, survivor)


async def test_E9_a_row_that_no_hint_can_be_made_of_leaves_the_database_to_hand_out(
    stage: Stage, server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug of ours in dispatch is one of a hint: nobody's process ends by it."""
    coordinator = await stage.coordinator()
    await in_use(coordinator)

    async def bug(*_: object, **__: object) -> None:
        raise ValueError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(stage.store, "survey", bug)
        coordinator.dispatch.offered(await waiting(stage.store, 10))
        await until(lambda: trouble(coordinator) is not None)
        assert len(await coordinator.take(10)) == 10
    await in_use(coordinator)
    coordinator.dispatch.offered(await waiting(stage.store, 10))
    assert len(await coordinator.take(10)) == 10


async def test_installations_with_prefixes_of_their_own_share_a_redis(
    stage: Stage, server: Redis
) -> None:
    """Without, each would drop the other's entries as tasks that are gone."""
    other = Stage(SqlStore(open_engine(":memory:", SystemClock())))
    other.url = stage.url
    one = await stage.coordinator("one", prefix="one:")
    two = await other.coordinator("two", prefix="two:")
    try:
        for each, coordinator in ((stage, one), (other, two)):
            await queued(each, coordinator, 20)
        for coordinator in (one, two):
            assert len(await coordinator.take(20)) == 20
        keys = [server.command("EXISTS", f"{prefix}{EPOCH}") for prefix in ("one:", "two:", "")]
        assert keys == [":1", ":1", ":0"]
    finally:
        await other.close()
        await other.store.close()
