"""The worker in JavaScript, for real: node, npm's packages, a coordinator with its workers' service in this process."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.examples import EXAMPLES, ROOT
from tests.support.gateways import Desk, a_desk
from tests.support.streams import a_server

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.sqlite.engine import open_engine
from tenuto.model.errors import Denied
from tenuto.model.states import RunState
from tenuto.ports.access import Grantee
from tenuto.views.values import read_value

PROTO = ROOT / "proto" / "tenuto" / "worker" / "v1" / "worker.proto"
TEXT = "to be or not to be"
COUNTS = {"to": 2, "be": 2, "or": 1, "not": 1}
WORDS = (EXAMPLES / "worker_js" / "words.yaml").read_text()
FAILING = """
name: failing
nodes:
  a: {type: task, task: text.fail, params: {message: "no “words”"}, retry: {max_attempts: 5}}
"""
SLOW = """
name: slow
nodes:
  a: {type: task, task: slow, params: {ms: "${input.n}"}, timeout: "${input.timeout}"}
output: "${nodes.a.output}"
"""
HELD = """
name: held
nodes:
  a: {type: task, task: until, params: {file: "${input.file}"}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its packages, and two slow tasks more."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.fail("this test needs node 20 and npm: install the packages nodejs and npm")
    made = tmp_path_factory.mktemp("js") / "worker_js"
    shutil.copytree(
        EXAMPLES / "worker_js", made, ignore=shutil.ignore_patterns("node_modules", "package-lock*")
    )
    with (made / "tasks.js").open("a") as tasks:
        tasks.write(
            "\ntasks.slow = ({ ms }) => new Promise((resolve) => setTimeout(resolve, ms, ms));\n"
            'import { existsSync } from "node:fs";\n'
            "tasks.until = ({ file }) => new Promise((resolve) => {\n"
            "  const look = () => (existsSync(file) ? resolve(1) : setTimeout(look, 20));\n"
            "  look();\n"
            "});\n"
        )
    done = subprocess.run(
        [npm, "install", "--no-package-lock", "--no-audit", "--no-fund"],
        cwd=made,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, f"npm install failed:\n{done.stdout}\n{done.stderr}"
    return made


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    clock = SystemClock()
    engine = open_engine(":memory:", clock)
    async with a_desk(engine, clock, remote=True) as desk:
        yield desk
    await engine.close()


@asynccontextmanager
async def a_js_worker(
    folder: Path, *ports: int, stderr: int | None = None, **environment: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Runs; what it says goes to the test's own stderr, unless `stderr` says else."""
    process = await asyncio.create_subprocess_exec(
        "node",
        "worker.js",
        ",".join(f"127.0.0.1:{port}" for port in ports),
        cwd=folder,
        env=os.environ | {"TENUTO_PROTO": str(PROTO)} | environment,
        stderr=stderr,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def output_of(desk: Desk, run_id: Any) -> Any:
    row = (await desk.side.reads.get_run(run_id)).run
    return await read_value(desk.side.reads, run_id, row.output)


async def test_it_runs_tasks_and_leaves_when_it_is_told_to(desk: Desk, folder: Path) -> None:
    server = await desk.serve(desk.side)
    async with a_js_worker(folder, server.port) as process:
        runs = [await desk.begin(WORDS, input={"text": TEXT}) for _ in range(20)]
        for run_id in runs:
            await desk.until(run_id, RunState.SUCCESS)
            assert await output_of(desk, run_id) == COUNTS

        process.send_signal(signal.SIGTERM)

        assert await process.wait() == 0
        # It waits for 2 s to be let go: a server that stalls for longer forgets it a moment after.
        while list(await desk.side.reads.list_workers()):  # noqa: ASYNC110 - a row that goes away says nothing
            await asyncio.sleep(0.01)


async def test_a_failure_for_good_is_not_tried_again(desk: Desk, folder: Path) -> None:
    server = await desk.serve(desk.side)
    async with a_js_worker(folder, server.port):
        run_id = await desk.begin(FAILING)
        await desk.until(run_id, RunState.FAILED)

    row = (await desk.side.reads.get_run(run_id)).run
    error: Any = await read_value(desk.side.reads, run_id, row.error)
    assert (error["code"], error["message"]) == ("task_error", "no “words”")
    assert (await desk.events(run_id)).count("AttemptFailed") == 1


async def test_an_attempt_that_takes_too_long_says_so(desk: Desk, folder: Path) -> None:
    server = await desk.serve(desk.side)
    async with a_js_worker(folder, server.port):
        run_id = await desk.begin(SLOW, input={"n": 60_000, "timeout": "100ms"})
        await desk.until(run_id, RunState.FAILED)

    row = (await desk.side.reads.get_run(run_id)).run
    error: Any = await read_value(desk.side.reads, run_id, row.error)
    assert error["code"] == "timeout"


async def test_without_a_token_it_says_so_once(folder: Path) -> None:
    tries, tried = 0, asyncio.Event()

    def nobody(_token: str | None) -> Grantee:
        nonlocal tries
        tries += 1
        if tries == 4:
            tried.set()
        raise Denied("this needs a token")

    async with (
        a_server(authorize=nobody) as served,
        a_js_worker(folder, served.port, stderr=subprocess.PIPE) as process,
    ):
        assert process.stderr is not None
        first = await process.stderr.readline()
        await tried.wait()  # three more, and what the first two of them had to say
        process.kill()
        rest = await process.stderr.read()
        await process.wait()

    assert b"this needs a token; trying again" in first
    assert rest == b""


async def test_what_a_server_says_to_whoever_runs_it_is_printed(folder: Path) -> None:
    async def notes(queues: Sequence[str]) -> Sequence[str]:
        return [f"no definition names the queue `{queue}`" for queue in queues]

    async with (
        a_server(notes=notes) as served,
        a_js_worker(folder, served.port, stderr=subprocess.PIPE) as process,
    ):
        assert process.stderr is not None
        said = [await process.stderr.readline() for _ in range(2)]
        process.kill()
        await process.wait()

    assert said[0].startswith(f"127.0.0.1:{served.port}: connected".encode())
    assert said[1] == f"127.0.0.1:{served.port}: no definition names the queue `default`\n".encode()


async def test_it_works_on_while_servers_come_and_go(
    desk: Desk, folder: Path, tmp_path: Path
) -> None:
    """A drain, then a server that is killed: the work under way is neither lost nor done twice."""
    first, second = await desk.serve(desk.side), await desk.serve(desk.side)
    async with a_js_worker(folder, first.port, second.port):
        go = tmp_path / "go"
        slow = await desk.begin(HELD, input={"file": str(go)})
        await desk.until_leased(slow)
        here, there = (first, second) if first.streams else (second, first)

        await desk.running.stop(here)
        while not there.streams:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        again = await desk.serve(desk.side, port=here.port)
        await desk.running.kill(there)
        while not again.streams:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        go.touch()
        await desk.until(slow, RunState.SUCCESS)

        assert again.streams == 1
        assert (await desk.events(slow)).count("AttemptSucceeded") == 1
        assert (await desk.events(slow)).count("LeaseExpired") == 0
