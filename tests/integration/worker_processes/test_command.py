"""`tenuto worker` as a user starts it: real processes, a real stream, a gateway in memory behind it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from tests.support.backing.ports import free_port
from tests.support.far_worker import FarWorker, a_server, far_workers
from tests.support.gateway import MemoryGateway
from tests.support.process_tasks import heard, is_alive, until_dead
from tests.support.staff import STAFF_APP

from tenuto.model.errors import Denied
from tenuto.ports.access import Grantee
from tenuto.ports.gateway import Success

WITHIN_S = 10.0
"""Five times what is promised for the end of what a killed supervisor leaves."""
Start = Callable[..., FarWorker]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with far_workers(tmp_path) as found:
        yield found


@pytest.fixture
def gateway() -> MemoryGateway:
    return MemoryGateway()


@pytest.fixture
async def server(gateway: MemoryGateway) -> AsyncIterator[str]:
    async with a_server(gateway) as found:
        yield f"127.0.0.1:{found.port}"


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "told")
    return tmp_path / "told"


async def dead(pid: int) -> bool:
    return await asyncio.to_thread(until_dead, pid, WITHIN_S)


async def test_it_says_what_it_is_works_and_drains(
    start: Start, gateway: MemoryGateway, server: str
) -> None:
    words = ("-A", STAFF_APP, "--server", server, "--name", "web", "--processes", "2")
    worker = start(*words, "--queues", "default,mail", "--slots", "7", "--no-code")
    assert await gateway.output(gateway.offer("echo", {"value": "hello"})) == "hello"
    assert (await gateway.output(gateway.offer("own_pid_of"))) in worker.family()
    worker.kept.send(signal.SIGTERM)

    assert await worker.ended() == 0
    said = worker.said.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in said)
    lines = [line.partition(" ")[2] for line in said]
    assert len(lines[: lines.index(f"connected to {server}") + 1]) <= 6
    assert lines[0].startswith("worker web-")
    assert lines[0].endswith("7 slots in 2 task processes")
    assert lines[1] == f"servers {server}; queues default, mail"
    assert "tasks: " in lines[2]
    assert lines[3] == "http on; code off"
    assert lines[-1] == "stopped"
    assert gateway.calls[-1] == "leave"


async def test_where_the_log_is_json_every_line_of_a_worker_is(
    start: Start, gateway: MemoryGateway, server: str
) -> None:
    words = ("-A", STAFF_APP, "--server", server, "--processes", "1", "--no-code")
    worker = start(*words, env={"TENUTO_LOG__FORMAT": "json"})
    assert await gateway.output(gateway.offer("echo", {"value": 1})) == 1
    worker.kept.send(signal.SIGTERM)

    assert await worker.ended() == 0
    events = [json.loads(line)["event"] for line in worker.said.splitlines()]
    for event in ("worker_started", "connected", "stopping", "stopped"):
        assert events.count(event) == 1


async def test_what_the_server_has_to_say_of_its_queues_stands_in_its_log(
    start: Start, gateway: MemoryGateway
) -> None:
    async def notes(queues: Sequence[str]) -> Sequence[str]:
        return [f"no definition names the queue `{queue}`" for queue in queues]

    async with a_server(gateway, notes=notes) as found:
        server = f"127.0.0.1:{found.port}"
        words = ("-A", STAFF_APP, "--server", server, "--processes", "1", "--no-code")
        worker = start(*words, "--queues", "defualt")
        await worker.until_said("connected to ")
        worker.kept.send(signal.SIGTERM)

        assert await worker.ended() == 0
    line = "warning: the server says: no definition names the queue `defualt`"
    assert worker.said.count(line) == 1


async def test_a_worker_whose_language_server_is_away_says_so_and_works(
    start: Start, gateway: MemoryGateway, server: str
) -> None:
    words = ("-A", STAFF_APP, "--server", server, "--processes", "1")
    worker = start(*words, "--languages", "127.0.0.1:9")

    assert await gateway.output(gateway.offer("echo", {"value": 1})) == 1
    await worker.until_said("no language server answers")
    assert "server=127.0.0.1:9" in worker.said


async def test_a_drain_finishes_what_ends_in_time(
    start: Start, gateway: MemoryGateway, server: str, fifo: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    worker = start("-A", STAFF_APP, "--server", server, "--processes", "1")
    lease = gateway.offer("waits", {"fifo": str(fifo), "go": str(tmp_path / "go")})
    await heard(fifo)
    worker.kept.send(signal.SIGTERM)
    await worker.until_said("stopping: ")
    await asyncio.to_thread((tmp_path / "go").write_text, "done")

    assert await worker.ended() == 0
    assert gateway.results[lease.task_id] == Success(output='"done"')


async def test_the_same_signal_again_gives_back_at_once(
    start: Start, gateway: MemoryGateway, server: str, fifo: Path
) -> None:
    worker = start("-A", STAFF_APP, "--server", server, "--processes", "1", "--grace", "1h")
    lease = gateway.offer("spins", {"fifo": str(fifo)})
    [pid] = await heard(fifo)
    worker.kept.send(signal.SIGINT)
    await worker.until_said("stopping: ")
    worker.kept.send(signal.SIGINT)

    assert await worker.ended() == 0
    assert gateway.released == [lease.task_id]
    assert not is_alive(pid)


async def test_a_hangup_loads_the_app_anew(
    start: Start, gateway: MemoryGateway, server: str, tmp_path: Path
) -> None:
    app = tmp_path / "app.py"
    text = "from tenuto import Tenuto\napp = Tenuto()\n@app.task\ndef version():\n    return {}\n"
    app.write_text(text.format(1))
    worker = start("-A", "app", "--server", server, "--processes", "2")
    assert await gateway.output(gateway.offer("version")) == 1
    app.write_text(text.format(2_000))
    worker.kept.send(signal.SIGHUP)
    await worker.until_said("the app was loaded anew")

    assert await gateway.output(gateway.offer("version")) == 2_000


@pytest.mark.parametrize("name", ["spins", "own_ignores_terminate", "holds_the_interpreter"])
async def test_nothing_outlives_a_killed_supervisor(
    start: Start, gateway: MemoryGateway, server: str, fifo: Path, name: str
) -> None:
    """Catalogue K12."""
    worker = start("-A", STAFF_APP, "--server", server, "--processes", "2")
    gateway.offer(name, {"fifo": str(fifo)})
    await heard(fifo)
    family = worker.family()
    assert len(family) >= 3
    os.kill(worker.kept.pid, signal.SIGKILL)

    assert all([await dead(pid) for pid in family])


async def test_a_worker_whose_launcher_dies_ends(
    start: Start, gateway: MemoryGateway, server: str
) -> None:
    worker = start("-A", STAFF_APP, "--server", server, "--processes", "2")
    await gateway.output(gateway.offer("echo", {"value": 1}))
    family = worker.family()
    os.kill(family[0], signal.SIGKILL)

    assert await worker.ended() == 6
    assert "the process that starts task processes is gone" in worker.said
    assert all([await dead(pid) for pid in family])


async def test_a_killed_task_process_is_told_with_its_last_words(
    start: Start, gateway: MemoryGateway, server: str
) -> None:
    worker = start("-A", STAFF_APP, "--server", server, "--processes", "1")
    lease = gateway.offer("last_words", {"code": 9})
    await gateway.until(lambda: lease.task_id in gateway.losses)
    await worker.until_said("ended itself with exit code 9")
    await worker.until_said("\n  goodbye")

    assert await gateway.output(gateway.offer("echo", {"value": 1})) == 1


@pytest.mark.parametrize("name", ["aheeds", "spins"])
async def test_a_frozen_supervisor_works_on_nothing_after_its_lease(
    start: Start, tmp_path: Path, fifo: Path, name: str
) -> None:
    """Catalogue B6."""
    gateway = MemoryGateway(lease_us=2_000_000)
    async with a_server(gateway) as server:
        worker = start("-A", STAFF_APP, "--server", f"127.0.0.1:{server.port}", "--processes", "1")
        lease = gateway.offer(name, {"fifo": str(fifo)})
        [pid] = await heard(fifo)
        worker.kept.send(signal.SIGSTOP)
        if name == "aheeds":
            while not (tmp_path / "told.proof").exists():  # noqa: ASYNC110  nobody announces it
                await asyncio.sleep(0.02)
        else:
            assert await dead(pid)
        gateway.lost.add(lease.lease_id)
        worker.kept.send(signal.SIGCONT)

        assert await gateway.output(gateway.offer("echo", {"value": 1})) == 1
        assert lease.task_id not in gateway.results
        worker.kept.send(signal.SIGTERM)
        assert await worker.ended() == 0


async def test_it_waits_for_a_server_and_says_so_once(
    start: Start, gateway: MemoryGateway, tmp_path: Path
) -> None:
    port = free_port()
    worker = start("-A", STAFF_APP, "--server", f"127.0.0.1:{port}", "--processes", "1")
    await worker.until_said("no connection to a server")
    async with a_server(gateway, port=port):
        assert await gateway.output(gateway.offer("echo", {"value": 1})) == 1
        assert worker.said.count("no connection to a server") == 1


async def test_a_worker_that_waits_for_a_server_can_be_ended(start: Start) -> None:
    worker = start("-A", STAFF_APP, "--server", "127.0.0.1:1", "--processes", "1")
    await worker.until_said("no connection to a server")
    worker.kept.send(signal.SIGTERM)

    assert await worker.ended() == 0


async def test_a_refused_token_ends_it(start: Start, gateway: MemoryGateway) -> None:
    def authorize(token: str | None) -> Grantee:
        raise Denied("this server asks for a token")

    async with a_server(gateway, authorize=authorize) as server:
        worker = start("-A", STAFF_APP, "--server", f"127.0.0.1:{server.port}", "--processes", "1")

        assert await worker.ended() == 5
        assert "this server asks for a token" in worker.said
        assert "tenuto token create --scope worker --expires 90d" in worker.said
        assert "Traceback" not in worker.said
        assert worker.said.count("this server asks for a token") == 1
        assert "trying again" not in worker.said


async def test_a_server_of_another_version_ends_it(
    start: Start, gateway: MemoryGateway, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenuto.rpc.session.PROTOCOL", 99)
    worker = start("-A", STAFF_APP, "--server", server, "--processes", "1")

    assert await worker.ended() == 4
    assert "upgrade" in worker.said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-A", "nowhere:app"), "there is no module 'nowhere'"),
        (("-A", "app.py:other"), "has no 'other'"),
        (("-A", "broken.py"), "ValueError: no key"),
        (("-A", "app.py", "--server", "nowhere"), "is no host:port"),
        (("-A", "app.py", "--queues", "a b"), "names no queue"),
        (("-A", "app.py", "--name", "a b"), "is no name"),
        (("-A", "app.py", "--no-http", "--no-code"), "nothing that this worker could do"),
        (("-A", "app.py", "--grace", "soon"), "--grace"),
        (("--app",), "--app"),
        (("lits",), "No such command 'lits'"),
        ((), "name your app with -A"),
    ],
)
async def test_a_mistake_is_told_with_its_cure(
    start: Start, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    (tmp_path / ("empty.py" if words == () else "app.py")).write_text(
        "from tenuto import Tenuto\napp = Tenuto()\n"
    )
    (tmp_path / "broken.py").write_text("def make():\n    raise ValueError('no key')\nmake()\n")
    worker = start(*words)

    assert await worker.ended() == 2
    assert told in worker.said
    assert "Traceback" not in worker.said


async def test_nothing_forks_once_grpc_is_loaded(
    start: Start, gateway: MemoryGateway, server: str, tmp_path: Path
) -> None:
    """Catalogue G9."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "def hook(event, details):\n"
        "    if event in ('os.fork', 'os.forkpty', 'subprocess.Popen', 'os.posix_spawn'):\n"
        "        if 'grpc' in sys.modules and 'tenuto.app.worker' in sys.modules:\n"
        "            sys.stderr.write(f'FORKED {event}\\n')\n"
        "sys.addaudithook(hook)\n"
    )
    path = f"{tmp_path}{os.pathsep}{Path(__file__).parents[3]}"
    words = ("-A", STAFF_APP, "--server", server, "--processes", "1")
    worker = start(*words, env={"PYTHONPATH": path})
    code = '{"language": "python", "code": "def main(params):\\n    return 1\\n", "params": {}}'
    assert await gateway.output(gateway.offer("code", input=code)) == 1
    lease = gateway.offer("dies", {"code": 1})
    await gateway.until(lambda: lease.task_id in gateway.losses)
    worker.kept.send(signal.SIGHUP)
    await worker.until_said("the app was loaded anew")
    assert isinstance(await gateway.output(gateway.offer("own_pid_of")), int)
    worker.kept.send(signal.SIGTERM)

    assert await worker.ended() == 0
    assert "FORKED" not in worker.said
