"""What a task process says of each attempt, to a supervisor that the test is: one last word, after all others."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from tests.support.staff import ENTRY

from tenuto.model.ids import LeaseId, Place, RunId
from tenuto.ports.gateway import Lease
from tenuto.worker.frames import Unpacker, pack
from tenuto.worker.launching import python

APP = """
import asyncio, threading, time
from pathlib import Path
from tenuto import Tenuto, current
app = Tenuto()

@app.task
async def quick(path=""):
    if path: Path(path).touch()

@app.task
def plain(path=""):
    if path: Path(path).touch()

@app.task(process=True)
def own(path=""):
    if path: Path(path).touch()

@app.task
async def large():
    return "x" * 500_000

@app.task
async def ticks(path):
    n = 0
    while True:
        n += 1
        Path(path).write_text(str(n))
        await asyncio.sleep(0.01)

@app.task
async def cleans_up(path):
    current().heartbeat()
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.05)
        Path(path).touch()

@app.task
async def says():
    current().logger.info("first")
    current().progress(1, 2)

@app.task
async def blocks(path):
    current().heartbeat()
    while not Path(path).exists():
        time.sleep(0.01)

@app.task
async def ends_and_blocks():
    asyncio.get_running_loop().call_soon(time.sleep, 1)
"""
LEASE = Lease(
    run_id=RunId("r"),
    place=Place("p"),
    lease_id=LeaseId("l"),
    name="",
    queue="default",
    attempt=1,
    input="{}",
    lease_us=60_000_000,
    attempt_us=None,
    heartbeat_us=None,
)


class Process:
    """A task process and the supervisor's end of its pipe."""

    def __init__(self, app: Path) -> None:
        self.pipe, theirs = socket.socketpair()
        self.pipe.settimeout(60)
        with theirs:
            self.child = subprocess.Popen(
                python(ENTRY.format(pid=os.getpid())), stdin=theirs.fileno(), start_new_session=True
            )
        self._unpacker = Unpacker()
        self._heard: list[dict[str, Any]] = []
        order = {"app": str(app), "path": sys.path, "argv": sys.argv, "level": 20}
        self.say({"do": "load", "threads": 2, "children": 1, **order})
        assert self.hear()["say"] == "ready"

    def say(self, *orders: dict[str, Any]) -> None:
        """In one piece."""
        self.pipe.sendall(b"".join(map(pack, orders)))

    def hear(self) -> dict[str, Any]:
        while not self._heard:
            data = self.pipe.recv(1 << 18)
            assert data, "the process has ended"
            self._heard += self._unpacker.feed(data)
        return self._heard.pop(0)

    def hear_rest(self) -> list[dict[str, Any]]:
        """Have it end; what else it has said."""
        self.say({"do": "end"})
        while data := self.pipe.recv(1 << 18):
            self._heard += self._unpacker.feed(data)
        assert self.child.wait(30) == 0
        return self._heard


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    app = tmp_path / "app.py"
    app.write_text(APP)
    found = Process(app)
    yield found
    with suppress(ProcessLookupError):
        os.killpg(found.child.pid, signal.SIGKILL)
    found.child.wait()
    found.pipe.close()


def run(name: str, lease: str = "l", place: str = "", input: str = "{}") -> dict[str, Any]:
    given = replace(
        LEASE, name=name, lease_id=LeaseId(lease), place=Place(place or lease), input=input
    )
    return {"do": "run", "lease": given, "until": monotonic() + 1_000}


def stop(lease: str = "l") -> dict[str, Any]:
    return {"do": "stop", "lease": lease}


def at(path: Path) -> str:
    return f'{{"path":"{path}"}}'


def until_other(path: Path, text: str) -> str:
    """Wait until a file holds something else."""
    ends = monotonic() + 60
    while not path.exists() or (now := path.read_text()) in ("", text):
        assert monotonic() < ends
        sleep(0.01)
    return now


@pytest.mark.parametrize("name", ["quick", "plain", "own"])
def test_a_result_is_the_one_last_word(process: Process, name: str) -> None:
    process.say(run(name))

    word = process.hear()
    while word["say"] == "beat":  # a process of its own has begun
        word = process.hear()
    assert (word["say"], word["lease"]) == ("result", "l")
    process.say(stop())  # it has crossed the result
    assert process.hear_rest() == []


def test_what_is_stopped_before_the_users_loop_has_looked_never_runs(
    process: Process, tmp_path: Path
) -> None:
    proof, go = tmp_path / "ran", tmp_path / "go"
    process.say(run("blocks", "blocking", input=at(go)))
    assert process.hear()["say"] == "beat"
    process.say(run("quick", input=at(proof)), stop(), run("plain", "later"))
    assert process.hear()["lease"] == "later"  # so the process has taken what came before
    go.touch()

    last = {word["lease"]: word["say"] for word in (process.hear(), process.hear())}
    assert last == {"blocking": "result", "l": "ended"}
    assert process.hear_rest() == []
    assert not proof.exists()


def test_what_is_stopped_before_its_own_process_has_begun_never_runs(
    process: Process, tmp_path: Path
) -> None:
    proof = tmp_path / "ran"
    process.say(run("own", input=at(proof)), stop())

    assert process.hear() == {"say": "ended", "lease": "l"}
    assert process.hear_rest() == []
    assert not proof.exists()


def test_a_stopped_coroutine_has_ended_once_it_has_cleaned_up(
    process: Process, tmp_path: Path
) -> None:
    proof = tmp_path / "clean"
    process.say(run("cleans_up", input=at(proof)))
    assert process.hear()["say"] == "beat"
    assert not proof.exists()
    process.say(stop(), stop())

    assert process.hear() == {"say": "ended", "lease": "l"}
    assert proof.exists()
    assert process.hear_rest() == []


def test_what_an_attempt_says_comes_before_its_result(process: Process) -> None:
    process.say(*(run("says", str(n)) for n in range(20)))
    noted: set[tuple[str, str]] = set()
    left = 20
    while left:
        word = process.hear()
        if word["say"] == "notes":
            noted |= {(note["place"], note["kind"]) for note in word["notes"]}
        elif word["say"] == "result":
            assert {(word["lease"], "log"), (word["lease"], "progress")} <= noted
            left -= 1


def test_the_end_stops_what_runs_and_says_so(process: Process, tmp_path: Path) -> None:
    process.say(run("cleans_up", input=at(tmp_path / "clean")))
    assert process.hear()["say"] == "beat"

    assert process.hear_rest() == [{"say": "ended", "lease": "l"}]
    assert (tmp_path / "clean").exists()


def test_a_supervisor_that_takes_nothing_holds_up_no_coroutine_and_misses_nothing(
    process: Process, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    process.say(run("ticks", "ticks", input=at(count)), *(run("large", str(n)) for n in range(20)))
    seen = ""
    for _ in range(50):  # 10 MB are said meanwhile, and nobody reads
        seen = until_other(count, seen)

    heard = [process.hear() for _ in range(20)]
    assert {each["lease"] for each in heard} == {str(n) for n in range(20)}
    assert all(len(each["result"]["success"]["output"]) == 500_002 for each in heard)
    process.say(stop("ticks"))
    assert process.hear() == {"say": "ended", "lease": "ticks"}


def test_the_next_attempt_may_come_before_the_process_has_noticed_the_end_of_the_last(
    process: Process,
) -> None:
    """The result leaves from the user's loop; what blocks that loop keeps it from telling the other one."""
    process.say(run("ends_and_blocks", "first", place="same"))
    assert process.hear()["lease"] == "first"
    process.say(run("plain", "second", place="same"))

    assert process.hear()["lease"] == "second"
    assert process.hear_rest() == []
