"""A process of the cluster that ends by itself is told of by its name, its exit code and its last words."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.support.chaos.cluster import Cluster, Plan, until

SERVER = Plan(servers=1, workers=0, proxied=False)


def test_a_fall_is_told_with_whatever_fails_by_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as waited, Cluster(SERVER, tmp_path) as cluster:
        os.kill(cluster.servers[0].pid, signal.SIGKILL)
        until(lambda: not cluster.servers[0].alive, 10)
        cluster.wait_ready()

    [note] = waited.value.__notes__
    assert "server-1 has ended with code -9; it said last:" in note
    assert "serving url=" in note


def test_what_is_ended_by_an_accident_has_not_fallen(tmp_path: Path) -> None:
    with Cluster(SERVER, tmp_path) as cluster:
        [server] = cluster.servers
        server.kill()
        assert cluster.falls() == []
        server.start()
        os.kill(server.pid, signal.SIGKILL)
        until(lambda: not server.alive, 10)
        server.kill()  # too late: it had ended before
        server.start()
        assert len(cluster.falls()) == 1
