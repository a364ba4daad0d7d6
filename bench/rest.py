"""REST: requests a second and their latencies, beside the same verb in the process; memory; a thousand waits.

    .venv/bin/python bench/rest.py [--seconds 5] [--clients 8]

The server is a process of its own with a database file; clients are threads of this one, each with one connection that
stays. Figures of one machine mean little: look at the ratios, and at the in-process line of the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ONE_STEP = "name: one\nnodes:\n  say: {type: set, values: {n: 1}}\n"
LONG = "name: long\nnodes:\n  pause: {type: wait, for: 1h}\n"
WAITS = 900  # below the limit of 1,000, and of 1,024 files


def serve(path: str) -> None:
    """The server's process: prints its port, ends when its input does."""
    from tenuto import web
    from tenuto.api.limits import Limits
    from tenuto.api.page import Page
    from tenuto.app.embedded import Engine
    from tenuto.app.listening import bind
    from tenuto.app.rest import RestService
    from tenuto.worker.registry import Registry

    bound = bind(0)
    up = threading.Event()
    limits = Limits(requests_per_second=1_000_000, burst=1_000_000)
    page = Page(files=web.files(), routes=web.ROUTES, headers=web.HEADERS)
    engine = Engine(
        path,
        registry=Registry(),
        services=lambda made: [
            RestService(made, bound, database=path, limits=limits, page=page, listening=up.set)
        ],
    )
    engine.start()
    up.wait()
    print(bound.getsockname()[1], flush=True)
    sys.stdin.read()
    engine.stop(grace_s=1)


def in_process(path: str, seconds: float) -> float:
    """Starts a second through the engine's own commands, one after another."""
    from tenuto.app.definitions import load_definition
    from tenuto.app.embedded import Engine
    from tenuto.coordinator.commands import StartRequest

    engine = Engine(path)
    engine.start()
    graph = load_definition(ONE_STEP, file="one.yaml").graph
    assert graph is not None
    row = engine.call(engine.commands.deploy(graph)).result()
    request = StartRequest(
        graph_hash=row.hash, workflow=row.name, version=row.version, input="{}", vars="{}"
    )
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        engine.call(engine.commands.start([request])).result()
        count += 1
    engine.stop(grace_s=1)
    return count / seconds


def ask(connection: socket.socket, request: bytes) -> bytes:
    """One request over a connection that stays: no client library, so that the server is what is measured."""
    connection.sendall(request)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(65_536)
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65_536)
    assert head.startswith(b"HTTP/1.1 2"), answer
    return body


def made(port: int, method: str, path: str, body: Any = None) -> bytes:
    """A request."""
    content = b"" if body is None else json.dumps(body).encode()
    kind = "" if body is None else "Content-Type: application/json\r\n"
    return (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{kind}"
        f"Content-Length: {len(content)}\r\n\r\n"
    ).encode() + content


def load(port: int, request: bytes, clients: int, seconds: float) -> tuple[float, float, float]:
    """Requests a second of all clients; median and 99th percentile of their latencies in ms."""
    latencies: list[float] = []
    until = time.monotonic() + seconds

    def client() -> None:
        mine = []
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (begun := time.monotonic()) < until:
                ask(connection, request)
                mine.append(time.monotonic() - begun)
        latencies.extend(mine)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cuts = statistics.quantiles(latencies, n=100)
    return len(latencies) / seconds, cuts[49] * 1_000, cuts[98] * 1_000


def resident(pid: int) -> float:
    """MB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1_024


def busy(pid: int) -> float:
    """Seconds of processor time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def wait_all(port: int, run_id: str, pid: int) -> tuple[float, float, float]:
    """MB that the waits cost, processor share of 2 s of them, and seconds from a cancel to the last answer."""
    before = resident(pid)
    request = made(port, "GET", f"/v1/runs/{run_id}/wait?timeout=60")
    ended = 0

    async def wait() -> None:
        nonlocal ended
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        ended += 1
        writer.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(WAITS):
            group.create_task(wait())
        await asyncio.sleep(3)
        cost = resident(pid) - before
        spent = busy(pid)
        await asyncio.sleep(2)
        share = (busy(pid) - spent) / 2
        assert ended == 0
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        begun = time.monotonic()
        writer.write(made(port, "POST", f"/v1/runs/{run_id}/cancel"))
        await reader.readline()
        writer.close()
    return cost, share, time.monotonic() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    with tempfile.TemporaryDirectory() as folder:
        alone = in_process(f"{folder}/alone.db", options.seconds)
        print(f"start, in the process, one caller      {alone:8.0f} /s")
        process = subprocess.Popen(
            [sys.executable, __file__, "--serve", f"{folder}/rest.db"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            print(f"memory of the server, idle             {resident(process.pid):8.0f} MB")
            with socket.create_connection(("127.0.0.1", port)) as connection:
                for source in (ONE_STEP, LONG):
                    ask(connection, made(port, "POST", "/v1/workflows", {"source": source}))
                started = ask(connection, made(port, "POST", "/v1/runs", {"workflow": "long"}))
            run_id = json.loads(started)["run_id"]
            for name, request in (
                ("GET /healthz", made(port, "GET", "/healthz")),
                ("GET /v1/health", made(port, "GET", "/v1/health")),
                ("GET /v1/runs/{id}", made(port, "GET", f"/v1/runs/{run_id}")),
                ("POST /v1/runs", made(port, "POST", "/v1/runs", {"workflow": "one"})),
            ):
                for clients in (1, options.clients):
                    rate, median, worst = load(port, request, clients, options.seconds)
                    print(
                        f"{name:20s} {clients:3d} clients      {rate:8.0f} /s"
                        f"   p50 {median:6.2f} ms   p99 {worst:6.2f} ms"
                    )
            print(f"memory of the server, after that       {resident(process.pid):8.0f} MB")
            cost, share, last = asyncio.run(wait_all(port, run_id, process.pid))
            print(
                f"{WAITS} waits on one run: {cost:.0f} MB, {share:.3f} of a core,"
                f" all answered {last:.2f} s after its end"
            )
        finally:
            process.communicate(timeout=30)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)


if __name__ == "__main__":
    main()
