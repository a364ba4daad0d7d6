"""`tenuto language-server` as a user starts it, and an engine that uses it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.backing.ports import free_port
from tests.support.command import COMMAND, HANG_S

from tenuto.app.access import create_token
from tenuto.app.languages import Languages, Watch
from tenuto.languages.client import Unreachable
from tenuto.ports.access import Scope
from tenuto.ports.languages import Fault, Outcome, Output, Program, Say
from tenuto.settings.tree import Auth
from tenuto.settings.tree import Languages as Setting

FLOW = """name: w
nodes:
  a: {type: code, language: javascript, code: "function main({n}) { return n + 1 }", params: {n: 1}}
output: "${nodes.a.output}"
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server on a free port, with its address."""
    process = subprocess.Popen(
        [str(COMMAND), "language-server", "--listen", "127.0.0.1:0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("language server on 127.0.0.1:")
        yield process, first.split()[3].rstrip(";")
    finally:
        process.kill()
        process.communicate()


def tenuto(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), *words],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


def test_an_engine_uses_the_server_that_the_settings_name(
    tmp_path: Path, server: tuple[subprocess.Popen[str], str]
) -> None:
    (tmp_path / "w.yaml").write_text(FLOW)

    done = tenuto("run", "w.yaml", "-o", "json", cwd=tmp_path, TENUTO_LANGUAGES__SERVER=server[1])

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"] == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_what_it_offers_and_ends_when_told(
    server: tuple[subprocess.Popen[str], str], number: signal.Signals
) -> None:
    process, _ = server
    process.send_signal(number)

    assert process.stdout is not None
    assert process.stderr is not None
    said, trouble = process.stdout.read(), process.stderr.read()  # to their ends
    process.wait(HANG_S)

    assert process.returncode == 0
    assert len(said.splitlines()) <= 3  # the first line was read
    assert "cpython: restricted" in said
    assert trouble == ""


def test_a_port_in_use_is_named(tmp_path: Path, server: tuple[subprocess.Popen[str], str]) -> None:
    done = tenuto("language-server", "--listen", server[1], cwd=tmp_path)

    port = server[1].rpartition(":")[2]
    assert done.returncode == 4
    assert done.stderr.startswith(f"error: port {port} is in use by process {server[0].pid} (")


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("0.0.0.0:7070", "can be reached by others"),
        (":7070", "is no address; write 127.0.0.1:50061"),
        ("example.com:7070", "can be reached by others"),
        ("7070", "is no address; write 127.0.0.1:50061"),
        ("127.0.0.1:99999", "is no address"),
    ],
)
def test_without_a_secret_it_listens_where_only_this_machine_can_reach(
    tmp_path: Path, address: str, says: str
) -> None:
    done = tenuto("language-server", "--listen", address, cwd=tmp_path)

    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


SECRET = "s" * 32


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[str]:
    """The address of a server that others can reach, and that knows the secret."""
    process = subprocess.Popen(
        [str(COMMAND), "language-server", "--listen", "0.0.0.0:0"],
        cwd=tmp_path,
        env=os.environ | {"TENUTO_AUTH_SECRET": SECRET},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield "127.0.0.1:" + process.stdout.readline().split()[3].rstrip(";").rpartition(":")[2]
    finally:
        process.kill()
        process.communicate()


def run_on(address: str, token: str | None) -> Outcome:
    async def ask() -> Outcome:
        languages = Languages(Setting(server=address), draw=lambda: 0.5, token=lambda: token)
        try:
            program = Program(
                id="t", language="javascript", code="function main() { return 2 }", params="{}"
            )
            return await languages.run(program, lambda *_: None)
        finally:
            await languages.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("scope", list(Scope))
def test_a_guarded_server_works_for_who_has_a_token(guarded: str, scope: Scope) -> None:
    token = create_token(Auth(secret=SECRET), scope, lasts_us=3_600_000_000)

    assert run_on(guarded, token) == Output(text="2")


def test_a_guarded_server_runs_nothing_for_others(guarded: str) -> None:
    forged = create_token(Auth(secret="o" * 32), Scope.ADMIN, lasts_us=3_600_000_000)

    for token in (None, "x", forged):
        outcome = run_on(guarded, token)
        assert isinstance(outcome, Fault)
        assert "UNAUTHENTICATED" in outcome.message
        assert outcome.trouble == "language_unavailable"


def test_a_server_that_stays_away_is_the_attempts_failure(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(FLOW.replace("type: code,", "type: code, timeout: 5s,"))

    done = tenuto("run", "w.yaml", cwd=tmp_path, TENUTO_LANGUAGES__SERVER="127.0.0.1:9")

    assert done.returncode == 1
    said = done.stderr + done.stdout
    assert "no language server answers at 127.0.0.1:9, for 4.5 s now" in said
    assert "no language server answers; code nodes wait for it" in said


class Logged(logging.Handler):
    """What the watch of a language server says."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.events.append(getattr(record, "tenuto", {}).get("event", ""))


@pytest.fixture
def logged() -> Iterator[Logged]:
    handler, logger = Logged(), logging.getLogger("tenuto.languages")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.setLevel(level)
    logger.removeHandler(handler)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG_S):
        while not holds():  # noqa: ASYNC110 - the timeout bounds it
            await asyncio.sleep(0.05)


async def test_code_waits_for_a_server_that_is_away_and_each_change_is_said(logged: Logged) -> None:
    """As in an upgrade: no server at the start, one that comes, one that is killed, its successor."""
    address = f"127.0.0.1:{free_port()}"
    languages = Languages(Setting(server=address), draw=lambda: 0.5)
    stopping = asyncio.Event()
    program = Program(
        id="t", language="javascript", code="function main() { return 2 }", params="{}"
    )

    def serve() -> subprocess.Popen[bytes]:
        command = [str(COMMAND), "language-server", "--listen", address]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    async with asyncio.TaskGroup() as group:
        group.create_task(Watch(languages).run(stopping))
        for said in (1, 3):
            run = group.create_task(languages.run(program, lambda *_: None))
            await until(lambda: len(logged.events) >= said)  # noqa: B023 - over when it returns
            assert not run.done()
            server = serve()
            try:
                assert await run == Output(text="2")
            finally:
                server.kill()
                server.wait()
            assert await asyncio.to_thread(server.wait) != 0
        await until(lambda: len(logged.events) == 5)
        stopping.set()
    await languages.close()

    away, back = "language_server_away", "language_server_back"
    assert logged.events == [away, back, away, back, away]


@pytest.mark.parametrize("time_us", [50_000, 1_500_000])
async def test_a_server_that_code_was_given_up_for_is_away(logged: Logged, time_us: int) -> None:
    """However the pauses between two looks fell."""
    languages = Languages(Setting(server="127.0.0.1:9"), draw=lambda: 0.99)
    program = Program(id="t", language="javascript", code="", params="{}", time_us=time_us)

    outcome = await languages.run(program, lambda *_: None)

    assert isinstance(outcome, Fault)
    assert logged.events == ["language_server_away"]
    await languages.close()


async def test_code_that_ends_its_server_is_given_up() -> None:
    class Ends:
        """A server that is lost by whatever runs on it."""

        ran = 0

        def is_there(self) -> bool:
            return True

        async def run(self, program: Program, say: Say) -> Outcome:
            self.ran += 1
            raise Unreachable("gone")

        async def close(self) -> None:
            pass

    ends = Ends()
    languages = Languages(Setting(server="127.0.0.1:9"), draw=lambda: 0.5)
    languages._remote = ends  # type: ignore[assignment]
    program = Program(id="t", language="javascript", code="", params="{}")

    outcome = await languages.run(program, lambda *_: None)

    assert isinstance(outcome, Fault)
    assert "ended while the code ran, 3 times" in outcome.message
    assert outcome.retryable
    assert ends.ran == 3
