"""`tenuto language-server` as a user starts it, and an engine that uses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command import COMMAND, HANG_S

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
        (":7070", "every address can be reached by others"),
        ("example.com:7070", "can be reached by others"),
        ("7070", "is no address; write 127.0.0.1:50061"),
        ("127.0.0.1:99999", "is no address"),
    ],
)
def test_it_listens_where_only_this_machine_can_reach(
    tmp_path: Path, address: str, says: str
) -> None:
    done = tenuto("language-server", "--listen", address, cwd=tmp_path)

    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_server_that_is_not_there_is_the_attempts_failure(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(FLOW)

    done = tenuto("run", "w.yaml", cwd=tmp_path, TENUTO_LANGUAGES__SERVER="127.0.0.1:9")

    assert done.returncode == 1
    assert "no language server answers at 127.0.0.1:9" in done.stderr + done.stdout
