"""The installed command as a user runs it, and the small app and definitions that its tests share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).with_name("tenuto")
ALONE = {"TENUTO_DEV__PORT": "1"}
"""Nobody listens there: where there is no file, a command looks for a server, and finds none of another's."""
HANG_S = 60
"""Longer than anything here takes on a busy machine; what waits so long hangs."""

APP = """
import asyncio
import time

from tenuto import TaskError, Tenuto

app = Tenuto()


@app.task
def hello(name: str, greeting: str = "Hello") -> str:
    return f"{greeting} {name}"


@app.task
async def nap(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@app.task
def block(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@app.task
def refuse() -> None:
    raise TaskError("no_stock", "none left")


@app.task
def evil(kind: str) -> object:
    return EVIL[kind]()


def cycle() -> object:
    made: list[object] = []
    made.append(made)
    return made


def deep() -> object:
    made: object = 0
    for _ in range(10_000):
        made = [made]
    return made


EVIL = {
    "nul": lambda: "a\\0b",
    "surrogate": lambda: "\\ud800",
    "nan": lambda: float("nan"),
    "huge": lambda: 10**30,
    "large": lambda: "x" * 10_000_000,
    "deep": deep,
    "cycle": cycle,
}
"""

HELD = """

@app.task
def held() -> None:
    from pathlib import Path

    Path("begun").touch()
    while not Path("go").exists():
        time.sleep(0.01)
"""
"""A task more for that app: it is under way once the file `begun` is there, and until the file `go` is."""

GREET = """
name: greet
vars: {greeting: Hello}
input:
  type: object
  required: [name]
  properties:
    name: {type: string}
    times: {type: integer, default: 1}
nodes:
  hello: {type: task, task: hello, params: {name: "${input.name}", greeting: "${vars.greeting}"}}
output: {said: "${nodes.hello.output}", times: "${input.times}"}
"""

SLEEPY = """
name: sleepy
nodes:
  a: {type: task, task: nap, params: {seconds: 0.3}}
  b: {type: task, task: nap, params: {seconds: 0.3}, needs: [a]}
  c: {type: task, task: nap, params: {seconds: 0.3}, needs: [b]}
"""

APPROVAL = """
name: approval
input: {type: object, required: [id]}
nodes:
  approved: {type: wait_for_event, event: order.approved, key: "${input.id}"}
output: "${nodes.approved.output}"
"""


class Tenuto:
    """Runs the command in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self, *words: str, input: str | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end."""
        return subprocess.run(
            [COMMAND, *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            input=input,
            env=os.environ | ALONE | dict(env or {}),
            timeout=HANG_S,
            check=False,
        )

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Run beside the test."""
        return subprocess.Popen(
            [COMMAND, *words],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | ALONE | dict(env or {}),
        )

    def write(self, **files: str) -> None:
        """Put files into the folder; `a_yaml` is a.yaml."""
        for name, text in files.items():
            (self.folder / ".".join(name.rsplit("_", 1))).write_text(text)


def json_of(done: subprocess.CompletedProcess[str]) -> Any:
    """What it printed on stdout, which must be one JSON value."""
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"no JSON: {done.stdout!r}; stderr: {done.stderr}") from None


def until_there(path: Path) -> None:
    """Wait for a file."""
    given_up_at = time.monotonic() + HANG_S
    while not path.exists():
        assert time.monotonic() < given_up_at, path
        time.sleep(0.01)


def read_until(process: subprocess.Popen[str], words: Sequence[str]) -> list[str]:
    """Lines of its stderr up to the first that holds one of the words. Not a byte more is taken: `communicate` reads
    beside the stream's buffer, and would go on in the middle of a line.
    """
    assert process.stderr is not None
    lines: list[str] = []
    while line := _next_line(process.stderr.fileno()):
        lines.append(line)
        if any(word in line for word in words):
            return lines
    raise AssertionError(f"ended without saying {words}: {''.join(lines)}")


def _next_line(pipe: int) -> str:
    read = b""
    while not read.endswith(b"\n") and (byte := os.read(pipe, 1)):
        read += byte
    return read.decode()
