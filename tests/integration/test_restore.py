"""A cluster whose database goes back to a backup, as docs/backup-and-upgrade.md says it is done (L9).

The backup is a dump taken while everything works. Then the world moves on, which the database forgets: Redis has hints
of later, and the workers of before have done what will be done again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.support.chaos.cluster import Cluster, Plan, until
from tests.support.chaos.flows import FLOWS, Flow

RUNS = 12
HELD = Flow(
    "held",
    "name: held\ndefaults: {queue: a}\ninput: {type: object, required: [id]}\nnodes:\n"
    '  dumped: {type: wait_for_event, event: dumped, key: "${input.id}"}\n'
    "  last: {type: task, task: step, needs: [dumped]}\n",
    1,
)
"""Not over before the backup, however long that takes."""
WHOLE = (*FLOWS, HELD)
DONE_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One server, one worker, Redis, nothing in between."""
    plan = Plan(mode="redis", servers=1, workers=1, proxied=False, lease="2s")
    with Cluster(plan, tmp_path) as made:
        yield made


def tenuto(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tenuto", *words], capture_output=True, text=True, check=False
    )


def start_runs(cluster: Cluster, folder: Path) -> None:
    url = cluster.servers[0].url
    for flow in WHOLE:
        file = folder / f"{flow.name}.yaml"
        file.write_text(flow.text)
        assert tenuto("deploy", str(file), "--url", url).returncode == 0
    with httpx2.Client(base_url=url, timeout=30) as client:
        for number in range(RUNS):
            body = {"workflow": WHOLE[number % len(WHOLE)].name, "input": {"id": str(number)}}
            assert client.post("/v1/runs", json=body).status_code in (200, 201, 202)


def let_go(cluster: Cluster) -> None:
    with httpx2.Client(base_url=cluster.servers[0].url, timeout=30) as client:
        for number in range(RUNS):
            event = {"event": "dumped", "key": str(number)}
            assert client.post("/v1/events", json=event).status_code == 202


def left(cluster: Cluster) -> int:
    """How many of our runs, and of the runs that they call, have not succeeded."""
    return cluster.value("SELECT count(*) FROM runs WHERE state <> 'success'")


def restore(cluster: Cluster, dump: Path) -> None:
    """Into a database of the same name, as ours owns it."""
    postgres, name = cluster.postgres, cluster.database
    postgres.drop_database(cluster.dsn)
    postgres.execute(f'CREATE DATABASE "{name}" OWNER tenuto TEMPLATE template0')
    done = subprocess.run(
        [postgres.tool("pg_restore"), "--no-owner", f"--dbname={cluster.dsn}", str(dump)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(300)  # a cluster is started twice
@pytest.mark.parametrize("emptied", [True, False], ids=["redis-emptied", "redis-left-alone"])
def test_a_restored_cluster_carries_every_run_of_the_backup_to_its_end(
    cluster: Cluster, tmp_path: Path, emptied: bool
) -> None:
    """Catalogue L9."""
    dump = tmp_path / "tenuto.dump"
    start_runs(cluster, tmp_path)
    until(lambda: cluster.value("SELECT count(*) FROM events") > RUNS * 4, DONE_S)

    command = [cluster.postgres.tool("pg_dump"), "--format=custom", f"--file={dump}", cluster.dsn]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    let_go(cluster)
    until(lambda: left(cluster) == 0, DONE_S)

    assert cluster.workers[0].drain(20) == 0
    assert cluster.servers[0].drain(20) == 0
    restore(cluster, dump)
    assert left(cluster) > 0, "the backup was taken too late to show anything"
    assert cluster.redis is not None
    if emptied:
        cluster.redis.flush()
    assert tenuto("db", "check", "--database", cluster.dsn).returncode == 0
    assert "up to date" in tenuto("db", "upgrade", "--database", cluster.dsn).stderr
    cluster.servers[0].start()
    cluster.wait_ready()
    cluster.workers[0].start()
    let_go(cluster)

    until(lambda: left(cluster) == 0, DONE_S)
    assert cluster.value("SELECT count(*) FROM runs") >= RUNS
    verified = tenuto("run", "verify", "--all", "--database", cluster.dsn)
    assert verified.returncode == 0, verified.stdout + verified.stderr
