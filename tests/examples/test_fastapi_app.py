"""The web application in a process of its own, asked over HTTP; killed in the middle and started again."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.support.command import HANG_S, Tenuto, json_of
from tests.support.examples import EXAMPLES

LISTENING = "Uvicorn running on "
DECIDE = ("event", "send", "leave.decided", "--key", "ada")


class Application:
    """The example under uvicorn, in a folder where its database comes to be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        readme = (EXAMPLES / "fastapi_app" / "README.md").read_text()
        said = next(line for line in readme.splitlines() if line.startswith("uvicorn "))
        words = said.replace("examples/", f"{EXAMPLES}/").split()[1:]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "--port", "0", *words],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if LISTENING in line:
                self.url = line.split(LISTENING)[1].split()[0]
                return
        raise AssertionError("".join(lines))

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        asked = Request(self.url + path, data, headers, method=method)
        try:
            with urlopen(asked, timeout=HANG_S) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)

    def until_final(self, run: str) -> dict[str, Any]:
        """What the application says of a run when it has ended."""
        until = time.monotonic() + HANG_S
        while time.monotonic() < until:
            status, found = self.ask("GET", f"/leaves/{run}")
            assert status == 200, found
            if found["state"] not in ("pending", "running"):
                return dict(found)
            time.sleep(0.05)
        raise AssertionError(f"{run} does not end")


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    made = Application(tmp_path)
    made.start()
    yield made
    made.kill()


def leave(days: int, request: str = "r-1") -> dict[str, object]:
    return {"request_id": request, "person": "ada", "days": days}


def test_a_short_leave_is_booked_without_anybody(application: Application) -> None:
    status, started = application.ask("POST", "/leaves", leave(2))

    assert status == 202
    assert application.until_final(started["run"]) == {
        "state": "success",
        "result": {"booked": "2 days for ada"},
    }


def test_a_long_leave_waits_for_the_decision(application: Application) -> None:
    _, started = application.ask("POST", "/leaves", leave(5))

    assert application.ask("POST", "/leaves", leave(5))[1] == started  # the same request
    assert application.ask("GET", f"/leaves/{started['run']}") == (200, {"state": "running"})
    assert application.ask("POST", "/people/ada/decision", {"approved": True})[0] == 202
    assert application.until_final(started["run"]) == {
        "state": "success",
        "result": {"booked": "5 days for ada"},
    }


def test_after_a_kill_9_the_application_carries_on_before_anybody_asks_it(
    application: Application, tenuto: Tenuto
) -> None:
    _, started = application.ask("POST", "/leaves", leave(5))
    application.kill()
    application.start()

    sent = tenuto(*DECIDE, "--payload", '{"approved": true}')
    assert sent.returncode == 0, sent.stderr
    until = time.monotonic() + HANG_S
    while json_of(tenuto("run", "show", started["run"], "-o", "json"))["state"] != "success":
        assert time.monotonic() < until
    verified = tenuto("run", "verify", started["run"])
    assert verified.returncode == 0, verified.stderr


def test_a_refusal_is_told_with_its_code(application: Application) -> None:
    _, started = application.ask("POST", "/leaves", leave(5))
    application.ask("POST", "/people/ada/decision", {"approved": False})

    assert application.until_final(started["run"]) == {
        "state": "failed",
        "code": "refused",
        "message": "ada stays",
    }


def test_mistakes_of_a_caller_are_the_callers(application: Application) -> None:
    status, said = application.ask("POST", "/leaves", leave(61))
    assert status == 422
    assert "days" in said["detail"]

    status, said = application.ask("GET", "/leaves/nobody")
    assert status == 404
    assert "nobody" in said["detail"]
