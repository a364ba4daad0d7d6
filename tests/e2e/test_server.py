"""`tenuto server` as it runs: who is let in, what it says of itself, what it survives, how it ends.

Catalogue A11, L3, L11, L15, S19, S24, S55.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import httpx2
import pytest
from tests.support.backing.postgres import Postgres, start_postgres
from tests.support.backing.redis import Redis, start_redis
from tests.support.cluster import Serving, upgraded
from tests.support.command import HANG_S, Tenuto
from tests.support.inside import Inside

from tenuto.app.access import create_token
from tenuto.app.database import check_schema, current_schema, list_partitions
from tenuto.ports.access import Scope
from tenuto.proto.worker.v1 import worker_pb2 as pb
from tenuto.proto.worker.v1 import worker_pb2_grpc as stubs
from tenuto.rpc.wire import PROTOCOL
from tenuto.settings import Database
from tenuto.settings.tree import Auth

OLD, NEW = "old-secret-" * 3, "new-secret-" * 3
SET = 'name: two\nnodes:\n  a: {type: set, values: {two: "${1 + 1}"}}\noutput: "${nodes.a.output.two}"\n'
QUEUED = "name: queued\nnodes:\n  a: {{type: task, task: nothing, queue: {queue}}}\n"
APP = "from tenuto import Tenuto\napp = Tenuto()\n\n@app.task\ndef nothing():\n    pass\n"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """One of this file's own: it is stopped."""
    made = start_postgres()
    yield made
    made.close()


@pytest.fixture
def dsn(postgres: Postgres) -> Iterator[str]:
    made = upgraded(postgres)
    yield made
    postgres.drop_database(made)


def token(secret: str, scope: Scope = Scope.ADMIN) -> str:
    return create_token(Auth(secret=secret), scope, lasts_us=3_600_000_000)


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that comes by itself."""
    end = time.monotonic() + HANG_S
    while not holds():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)


def workers_answer(address: str, shown: str | None) -> grpc.StatusCode:
    """What the workers' service says to who opens a stream and sends nothing."""
    with grpc.insecure_channel(address) as channel:
        call = stubs.WorkersStub(channel).Work(  # type: ignore[no-untyped-call]
            iter(()),
            metadata=(("authorization", f"Bearer {shown}"),) if shown else (),
            timeout=HANG_S,
        )
        with suppress(grpc.RpcError):
            list(call)
        found: grpc.StatusCode = call.code()
        return found


def test_who_has_no_right_token_gets_in_nowhere_and_secrets_change_without_a_restart(
    tmp_path: Path, dsn: str
) -> None:
    secrets = tmp_path / "secrets"
    secrets.write_text(f"{OLD}\n")
    tenuto = Inside(tmp_path)
    admin, worker, later = token(OLD), token(OLD, Scope.WORKER), token(NEW)
    said = ""
    env = {"TENUTO_AUTH_SECRET_FILE": "secrets"}
    words = ("--database", dsn, "--host", "0.0.0.0", "--grpc-host", "0.0.0.0")
    with Serving(tmp_path, *words, env=env, token=admin) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        gate = server.workers.replace("0.0.0.0", "127.0.0.1")

        def code_of(shown: str) -> int:
            done = tenuto("run", "list", "--url", url, env={"TENUTO_TOKEN": shown})
            nonlocal said
            said += done.stdout + done.stderr
            return done.returncode

        assert [code_of(each) for each in ("", "x.y.z", worker, later)] == [5, 5, 5, 5]
        assert code_of(admin) == 0
        denied = grpc.StatusCode.UNAUTHENTICATED
        assert [workers_answer(gate, each) for each in (None, "x.y.z", later)] == [denied] * 3
        assert workers_answer(gate, worker) is not denied

        secrets.write_text(f"{NEW}\n{OLD}\n")
        assert [code_of(each) for each in (later, admin)] == [0, 0]
        secrets.write_text(f"{NEW}\n")
        assert [code_of(each) for each in (later, admin)] == [0, 5]
        command = Path(f"/proc/{server.process.pid}/cmdline").read_bytes().decode()
        said += command + str(server.lines) + server.stop()

    for hidden in (OLD, NEW, admin, worker, later):
        assert hidden not in said


def test_a_server_without_a_secret_is_this_machines_alone(tmp_path: Path, dsn: str) -> None:
    with Serving(tmp_path, "--database", dsn) as server:
        assert server.ask("/v1/runs").status_code == 200
        assert server.ask("/v1/runs", headers={"Host": "evil.example"}).status_code == 403
        assert server.lines[-1]["tokens"] == "none: only this machine reaches it"


def test_two_servers_are_equals_over_one_database(tmp_path: Path, dsn: str) -> None:
    with Serving(tmp_path, "--database", dsn) as one, Serving(tmp_path, "--database", dsn) as other:
        deployed = one.ask("/v1/workflows", "POST", json={"source": SET})
        run_id = other.ask("/v1/runs", "POST", json={"workflow": "two"}).json()["run_id"]

        report = one.ask(f"/v1/runs/{run_id}/wait", params={"timeout": 30}).json()

        assert (deployed.status_code, report["state"], report["output"]) == (201, "success", 2)
        one.stop()
        assert other.ask("/readyz").status_code == 200


def test_a_worker_for_a_queue_that_nothing_names_is_told_so_and_serves_it_once_something_does(
    tmp_path: Path, dsn: str
) -> None:
    (tmp_path / "app.py").write_text(APP)
    with Serving(tmp_path, "--database", dsn) as server:

        def deploy(queue: str) -> None:
            source = QUEUED.format(queue=queue)
            assert server.ask("/v1/workflows", "POST", json={"source": source}).is_success

        def said_by_worker(queues: str) -> list[str]:
            """What the server had to say, while a run on `mial` is done by this worker if it serves that."""
            words = ("-A", "app.py", "--server", server.workers, "--queues", queues, "--no-code")
            json_lines = {"TENUTO_LOG__FORMAT": "json"}
            worker = Tenuto(tmp_path).start("worker", *words, "--processes", "1", env=json_lines)
            assert worker.stderr is not None
            events = []
            for line in worker.stderr:
                events.append(json.loads(line))
                if events[-1]["event"] == "connected":
                    break
            if "mial" in queues:
                deploy("mial")
                run = server.ask("/v1/runs", "POST", json={"workflow": "queued"}).json()["run_id"]
                done = server.ask(f"/v1/runs/{run}/wait", params={"timeout": 30}).json()
                assert done["state"] == "success"
            worker.terminate()
            worker.communicate(timeout=HANG_S)
            return [each["reason"] for each in events if each["event"] == "server_said"]

        assert said_by_worker("mail") == []  # nothing is deployed yet
        deploy("mail")
        assert said_by_worker("mail") == said_by_worker("*") == []
        [line] = said_by_worker("mail,mial")
        assert line.startswith("no definition names the queue `mial`, and no task waits in it")
    with Serving(tmp_path, "--database", dsn) as server:  # which has seen no definition yet
        assert said_by_worker("mail,mial") == []
        [line] = said_by_worker("maill")
        assert "did you mean `mail`? Check `--queues`, or deploy a definition" in line


def test_while_postgresql_is_away_it_is_not_ready_and_goes_on_by_itself(
    tmp_path: Path, postgres: Postgres, dsn: str
) -> None:
    with Serving(tmp_path, "--database", dsn) as server:
        assert server.ask("/readyz").status_code == 200
        postgres.stop()
        try:
            until(lambda: server.ask("/readyz").status_code == 503)
            away = server.ask("/readyz").json()
            assert (away["code"], "postgresql://127.0.0.1:" in away["detail"]) == (
                "unavailable",
                True,
            )
            assert server.ask("/healthz").status_code == 200
            assert server.ask("/v1/runs").status_code == 503
        finally:
            postgres.start()
        until(lambda: server.ask("/readyz").status_code == 200)
        server.ask("/v1/workflows", "POST", json={"source": SET})
        run_id = server.ask("/v1/runs", "POST", json={"workflow": "two"}).json()["run_id"]
        assert (
            server.ask(f"/v1/runs/{run_id}/wait", params={"timeout": 30}).json()["state"]
            == "success"
        )
        said = server.stop()

    assert said.count('"database_away"') == 1
    assert "Traceback" not in said


def test_a_database_that_takes_no_writes_is_no_ready_one(
    tmp_path: Path, postgres: Postgres, dsn: str
) -> None:
    name = dsn.rpartition("/")[2]
    with Serving(tmp_path, "--database", dsn) as server:
        postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        postgres.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )

        until(lambda: "read-only" in server.ask("/readyz").text)

        assert server.ask("/readyz").status_code == 503


@pytest.fixture
def redis() -> Iterator[Redis]:
    made = start_redis()
    yield made
    made.close()


def test_without_redis_it_is_ready_and_says_what_it_lacks(
    tmp_path: Path, redis: Redis, dsn: str
) -> None:
    with Serving(tmp_path, "--database", dsn, "--redis", redis.url) as server:
        assert server.lines[-1]["dispatch"] == "redis"
        until(lambda: server.ask("/readyz").json()["degraded"] == [])
        redis.stop()

        until(lambda: server.ask("/readyz").json()["degraded"] != [])

        lame = server.ask("/readyz")
        assert lame.status_code == 200
        [why] = lame.json()["degraded"]
        # And then what was seen last: a lost connection, or nobody there.
        assert why.startswith("dispatch by redis: ")
        assert f"redis://127.0.0.1:{redis.port}" in why
        redis.start()
        until(lambda: server.ask("/readyz").json()["degraded"] == [])


def test_a_redis_that_is_away_at_the_start_keeps_nobody_from_it(
    tmp_path: Path, redis: Redis, dsn: str
) -> None:
    redis.stop()
    with Serving(tmp_path, "--database", dsn, "--redis", redis.url) as server:
        assert server.ask("/readyz").status_code == 200
        redis.start()
        until(lambda: server.ask("/readyz").json()["degraded"] == [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_it_and_ends_what_is_held_in_order(
    tmp_path: Path, dsn: str, number: signal.Signals
) -> None:
    env = {"TENUTO_SERVER__DRAIN": "1h"}  # for workers: there are none
    with Serving(tmp_path, "--database", dsn, env=env) as server:
        with httpx2.stream("GET", f"{server.url}/v1/runs/events", timeout=HANG_S) as stream:
            assert stream.status_code == 200
            server.process.send_signal(number)
            for _ in stream.iter_raw():
                pass  # until it is ended: in order, not torn
        _, said = server.process.communicate(timeout=HANG_S)

    assert server.process.returncode == 0, said
    assert '"event": "stopping"' in said
    assert said.rstrip().splitlines()[-1].count('"event": "stopped"') == 1
    assert "Traceback" not in said


@contextmanager
def a_worker(server: Serving) -> Iterator[tuple[Iterator[pb.FromServer], threading.Event]]:
    """What a server says to a worker that has registered, and that heeds nothing until the event."""
    leaves = threading.Event()

    def stays() -> Iterator[pb.FromWorker]:
        hello = pb.Register(protocol=PROTOCOL, worker="w-1", queues=["q"], names=["n"], capacity=1)
        yield pb.FromWorker(call=1, register=hello)
        leaves.wait()

    with grpc.insecure_channel(server.workers) as channel:
        worker = stubs.WorkersStub(channel).Work(stays())  # type: ignore[no-untyped-call]
        try:
            assert next(worker).HasField("welcome")
            yield worker, leaves
        finally:
            leaves.set()


def test_while_it_drains_it_sends_everybody_elsewhere(tmp_path: Path, dsn: str) -> None:
    env = {"TENUTO_SERVER__DRAIN": "1h"}
    with (
        Serving(tmp_path, "--database", dsn, env=env) as server,
        a_worker(server) as (worker, leaves),
    ):
        server.process.terminate()

        until(lambda: server.ask("/readyz").status_code == 503)

        assert next(worker).HasField("drain")
        draining = server.ask("/readyz").json()
        assert draining["detail"] == "this server stops"
        assert server.ask("/healthz").status_code == 200
        assert server.ask("/v1/runs").status_code == 200, "requests under way are answered"
        assert server.ask("/v1/runs/events").status_code == 503, "nothing that stays begins"
        leaves.set()
        assert server.process.wait(HANG_S) == 0, "there is nobody left to wait for"


def test_a_worker_that_does_not_go_keeps_it_for_the_time_of_a_drain(
    tmp_path: Path, dsn: str
) -> None:
    env = {"TENUTO_SERVER__DRAIN": "1s"}
    with Serving(tmp_path, "--database", dsn, env=env) as server, a_worker(server) as (worker, _):
        server.process.terminate()

        assert server.process.wait(HANG_S) == 0
        said = []
        with pytest.raises(grpc.RpcError) as ended:
            for message in worker:
                said.append(message.WhichOneof("message"))  # noqa: PERF401 - it ends by an error
        assert said == ["drain"]
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE


BEGIN = """
import asyncio, sys
from tenuto.app.database import open_database
from tenuto.settings import Database
async def main():
    print("begins", flush=True)
    opened = await open_database(Database(url=sys.argv[1]))
    await opened.engine.close()
asyncio.run(main())
"""


@pytest.mark.parametrize("number", range(5))
def test_killed_again_and_again_while_it_makes_the_schema_it_leaves_a_whole_one(
    postgres: Postgres, number: int
) -> None:
    dice = random.Random(number)
    dsn = postgres.create_database()
    for _ in range(5):
        pair = [
            subprocess.Popen([sys.executable, "-c", BEGIN, dsn], stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for each in pair:
            assert each.stdout is not None
            each.stdout.readline()
        time.sleep(dice.random() * 0.15)  # a random moment of the start
        for each in pair:
            each.kill()
            each.communicate()

    both = [subprocess.Popen([sys.executable, "-c", BEGIN, dsn]) for _ in range(2)]

    assert [each.wait(HANG_S) for each in both] == [0, 0]
    database = Database(url=dsn)
    asyncio.run(check_schema(database))
    assert asyncio.run(current_schema(database)) >= 1
    assert len(asyncio.run(list_partitions(database))) >= 4
    postgres.drop_database(dsn)


def test_a_second_signal_ends_it_at_once(tmp_path: Path, dsn: str) -> None:
    env = {"TENUTO_SERVER__DRAIN": "1h"}  # the first does not end it before the second is heard
    with Serving(tmp_path, "--database", dsn, env=env) as server, a_worker(server):
        os.kill(server.process.pid, signal.SIGSTOP)
        os.kill(server.process.pid, signal.SIGTERM)
        os.kill(server.process.pid, signal.SIGINT)
        os.kill(server.process.pid, signal.SIGCONT)
        server.process.communicate(timeout=HANG_S)

    assert server.process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT)
