"""The services that the tests start: they come, they fail on demand, and they go for certain."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

import asyncpg
import pytest
from tests.support.backing.fixtures import pgbouncer, postgres, postgres_url, redis, redis_url
from tests.support.backing.keeper import Kept, ended, keeper, unprivileged
from tests.support.backing.pgbouncer import PgBouncer
from tests.support.backing.ports import _own_ports, free_port
from tests.support.backing.postgres import (
    URL,
    Postgres,
    Programs,
    _opened,
    programs,
    start_postgres,
)
from tests.support.backing.proxy import Proxy, Way, start_proxy
from tests.support.backing.redis import Redis, start_redis

__all__ = ["pgbouncer", "postgres", "postgres_url", "redis", "redis_url"]


async def fetch(dsn: str, sql: str) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(dsn, statement_cache_size=0, timeout=10)
    try:
        return [tuple(row) for row in await connection.fetch(sql, timeout=10)]
    finally:
        connection.terminate()


async def insert(dsn: str) -> None:
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        async with connection.transaction():
            await connection.execute("INSERT INTO t VALUES (1)")
    finally:
        connection.terminate()


async def test_a_database_from_a_template_has_what_the_template_has(postgres: Postgres) -> None:
    def fill(dsn: str) -> None:
        asyncio.run(fetch(dsn, "CREATE TABLE t (n int)"))

    name = await asyncio.to_thread(postgres.template, "backing", fill)
    dsn = await asyncio.to_thread(postgres.create_database, name)
    await insert(dsn)
    other = await asyncio.to_thread(postgres.create_database, name)

    assert await fetch(dsn, "SELECT count(*) FROM t") == [(1,)]
    assert await fetch(other, "SELECT count(*) FROM t") == [(0,)]


def test_what_was_committed_survives_a_crash() -> None:
    made = start_postgres(programs().version, durable=True)
    dsn = made.create_database()
    asyncio.run(fetch(dsn, "CREATE TABLE t (n int)"))
    asyncio.run(insert(dsn))

    made.crash()
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(insert(dsn))
    made.start()

    assert asyncio.run(fetch(dsn, "SELECT count(*) FROM t")) == [(1,)]
    made.close()


def test_a_paused_server_answers_when_it_goes_on() -> None:
    made = start_postgres(programs().version)
    dsn = made.create_database()
    made.pause()

    async def ask() -> list[tuple[object, ...]]:
        asking = asyncio.ensure_future(fetch(dsn, "SELECT 1"))
        done, _ = await asyncio.wait([asking], timeout=0.3)
        assert not done
        made.resume()
        return await asking

    assert asyncio.run(ask()) == [(1,)]
    made.close()


def test_a_wrong_password_is_refused(postgres: Postgres) -> None:
    wrong = postgres.dsn.replace(":tenuto@", ":other@")

    with pytest.raises(asyncpg.InvalidPasswordError):
        asyncio.run(fetch(wrong, "SELECT 1"))


def test_programs_under_a_private_folder_are_run_from_a_copy(tmp_path: Path) -> None:
    found = programs(18)
    package = found.bin.parents[1]
    tmp_path.chmod(0o700)
    for folder in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(folder, tmp_path / folder.name, symlinks=True)
    private = Programs(18, tmp_path / found.bin.relative_to(package.parent))

    opened = _opened(private, unprivileged())

    version = [str(opened.bin / "psql"), "--version"]  # needs the libraries beside the package
    said = subprocess.run(
        version, user=unprivileged(), cwd="/", capture_output=True, text=True, check=True
    )
    assert " 18." in said.stdout
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_a_free_port_is_given_once_to_one_process_and_none_that_the_kernel_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = [free_port() for _ in range(300)]
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    first = set(islice(_own_ports(), 5_000))
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw1")
    second = set(islice(_own_ports(), 5_000))

    assert len(set(mine)) == len(mine)
    assert first.isdisjoint(second)
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")  # Linux alone says it
    lowest = int(given.read_text().split()[0]) if given.exists() else 32_768
    assert max(first | second | set(mine)) < lowest
    assert all(port + 1 not in first | second for port in mine)


def test_a_version_that_is_not_here_is_named_with_its_cure() -> None:
    with pytest.raises(
        LookupError, match=r"no programs of PostgreSQL 9 here: .*scripts/backing.py"
    ):
        programs(9)


def test_the_server_named_by_the_environment_is_used_and_left_alone(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL, postgres.admin_dsn)

    made = start_postgres()

    dsn = made.create_database()
    assert asyncio.run(fetch(dsn, "SELECT 1")) == [(1,)]
    made.drop_database(dsn)
    with pytest.raises(RuntimeError, match="not ours to stop"):
        made.stop()
    made.close()
    assert asyncio.run(fetch(postgres.dsn, "SELECT 1")) == [(1,)]


SESSION = """
import json, sys
from tests.support.backing.keeper import descendants, keeper
from tests.support.backing.postgres import start_postgres
from tests.support.backing.redis import start_redis
postgres, redis = start_postgres({version}), start_redis()
home = str(postgres.server.home)
print(json.dumps([home, descendants(keeper()._process.pid)]), flush=True)
sys.stdin.read()
"""


def test_killed_tests_leave_no_process_and_no_folder() -> None:
    root = Path(__file__).resolve().parents[2]
    session = subprocess.Popen(
        [sys.executable, "-c", SESSION.format(version=programs().version)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with session:
        assert session.stdout is not None
        home, pids = json.loads(session.stdout.readline())
        assert len(pids) > 3  # a postmaster, its children, Redis
        session.send_signal(signal.SIGKILL)

    assert all(ended(pid, 30) for pid in pids)
    removed = subprocess.run(
        ["sh", "-c", 'until [ ! -e "$0" ]; do sleep 0.05; done', home], timeout=30, check=False
    )
    assert removed.returncode == 0


def test_a_killed_process_ends_with_its_children(tmp_path: Path) -> None:
    script = "sh -c 'echo $$ > child; exec sleep 600' & echo up; wait"
    kept = keeper().start(["sh", "-c", script], folder=tmp_path, log=tmp_path / "log")
    child = tmp_path / "child"
    while not (child.exists() and child.read_text().strip()):
        assert kept.wait(0.01) is None

    kept.kill()

    assert ended(int(child.read_text()), 10)
    assert kept.wait(0) == -signal.SIGKILL


def test_a_program_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-such-program"):
        keeper().start(["no-such-program"], folder=tmp_path, log=tmp_path / "log")
    assert isinstance(keeper().start(["true"], folder=tmp_path, log=tmp_path / "log"), Kept)


# --- Redis -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_redis_forgets_or_keeps_as_it_was_told(kind: str) -> None:
    assert kind in ("valkey", "redis")
    for appendonly, expected in ((False, "$-1"), (True, "kept")):
        made = start_redis("redis" if kind == "redis" else "valkey", appendonly=appendonly)
        assert made.command("SET", "k", "kept") == "+OK"
        made.crash()
        made.start()
        assert made.command("GET", "k") == expected
        made.close()


def test_a_full_redis_refuses_writes() -> None:
    made = start_redis(maxmemory="2mb")

    replies = [made.command("SET", f"k{n}", "x" * 500_000) for n in range(6)]

    assert replies[-1].startswith("-OOM")
    made.close()


def test_a_cluster_sends_clients_to_the_node_that_has_the_slot() -> None:
    made = start_redis(cluster=2)

    replies = {made.command("SET", f"k{n}", "1").split()[0] for n in range(20)}

    assert replies == {"+OK", "-MOVED"}
    made.close()


def test_each_test_gets_an_empty_redis(redis: Redis, redis_url: str) -> None:
    assert redis_url == redis.url
    assert redis.command("DBSIZE") == ":0"


# --- between client and server ---------------------------------------------------------------------


async def test_pgbouncer_serves_any_database(pgbouncer: PgBouncer, postgres_url: str) -> None:
    assert await fetch(pgbouncer.dsn_of(postgres_url), "SELECT 1") == [(1,)]
    pgbouncer.restart()
    assert await fetch(pgbouncer.dsn_of(postgres_url), "SELECT 2") == [(2,)]


@pytest.fixture
def proxy(postgres_url: str) -> object:
    asyncio.run(fetch(postgres_url, "CREATE TABLE t (n int)"))
    with start_proxy(postgres_url) as made:
        yield made


@pytest.mark.parametrize(("after", "rows"), [(False, 0), (True, 1)])
def test_a_connection_is_cut_at_its_commit(
    proxy: Proxy, postgres_url: str, after: bool, rows: int
) -> None:
    happened = proxy.cut_at_commit(after=after)

    with pytest.raises((asyncpg.PostgresConnectionError, OSError)):
        asyncio.run(insert(proxy.url(postgres_url)))

    assert happened.is_set()
    assert asyncio.run(fetch(postgres_url, "SELECT count(*) FROM t")) == [(rows,)]
    asyncio.run(insert(proxy.url(postgres_url)))


def test_what_passed_before_a_trap_was_set_does_not_spring_it(
    proxy: Proxy, postgres_url: str
) -> None:
    async def commit_twice() -> bool:
        connection = await asyncpg.connect(proxy.url(postgres_url), timeout=10)
        try:
            await connection.execute("COMMIT")  # outside a transaction: a warning of the server's
            happened = proxy.cut_at_commit()
            assert await connection.fetchval("SELECT 1") == 1
            assert not happened.is_set()
            with pytest.raises((asyncpg.PostgresConnectionError, OSError)):
                await connection.execute("COMMIT")
            return happened.is_set()
        finally:
            connection.terminate()

    assert asyncio.run(commit_twice())


def test_a_cut_breaks_what_is_open_and_nothing_later(proxy: Proxy, postgres_url: str) -> None:
    async def cut_while_asking() -> None:
        asking = asyncio.ensure_future(fetch(proxy.url(postgres_url), "SELECT pg_sleep(60)"))
        while not await asleep():  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)
        assert proxy.cut() == 1
        await asking

    async def asleep() -> bool:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"
        return await fetch(postgres_url, sql) == [(1,)]

    with pytest.raises((asyncpg.PostgresConnectionError, OSError)):
        asyncio.run(cut_while_asking())
    assert asyncio.run(fetch(proxy.url(postgres_url), "SELECT 1")) == [(1,)]


@pytest.mark.parametrize("way", [Way.UP, Way.DOWN, Way.BOTH])
def test_swallowed_bytes_never_come(proxy: Proxy, postgres_url: str, way: Way) -> None:
    async def ask() -> None:
        async with asyncio.timeout(0.3):
            await fetch(proxy.url(postgres_url), "SELECT 1")

    proxy.black_hole(way)
    with pytest.raises(TimeoutError):
        asyncio.run(ask())

    proxy.heal()
    assert asyncio.run(fetch(proxy.url(postgres_url), "SELECT 1")) == [(1,)]


def test_stalled_bytes_come_later(proxy: Proxy, postgres_url: str) -> None:
    async def ask() -> list[tuple[object, ...]]:
        proxy.stall(Way.DOWN)
        asking = asyncio.ensure_future(fetch(proxy.url(postgres_url), "SELECT 1"))
        done, _ = await asyncio.wait([asking], timeout=0.3)
        assert not done
        proxy.heal()
        return await asking

    assert asyncio.run(ask()) == [(1,)]


def test_a_refusing_proxy_refuses_until_it_is_healed(proxy: Proxy, postgres_url: str) -> None:
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(fetch(proxy.url(postgres_url), "SELECT 1"))

    proxy.heal()
    assert asyncio.run(fetch(proxy.url(postgres_url), "SELECT 1")) == [(1,)]
