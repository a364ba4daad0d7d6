"""`tenuto dev` as a process: started in a folder, asked over HTTP, read line by line, stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Self

import httpx2
from tests.support.command import HANG_S

_URL = re.compile(r"on (http://127\.0\.0\.1:\d+)")


class Dev:
    """One server. `lines` is what it has said on stderr so far."""

    def __init__(
        self, folder: Path, *words: str, env: Mapping[str, str] | None = None, port: int | None = 0
    ) -> None:
        chosen = () if port is None else ("--port", str(port))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tenuto", "dev", *words, *chosen],
            cwd=folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = ""

    def __enter__(self) -> Self:
        found = _URL.search(self.until(_URL.pattern))
        assert found is not None
        self.url = found[1]
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self._reader.join()  # before its stream is closed
        self.process.communicate()

    def until(self, pattern: str, *, after: int = 0) -> str:
        """Wait for a line that matches, among those after the first `after`."""
        return self.lines[self.past(pattern, after=after) - 1]

    def past(self, pattern: str, *, after: int = 0) -> int:
        """The same; how many lines there are up to that one."""
        deadline = monotonic() + HANG_S
        wanted = re.compile(pattern)
        with self._changed:
            while True:
                for count, line in enumerate(self.lines[after:], after + 1):
                    if wanted.search(line):
                        return count
                left = deadline - monotonic()
                if left <= 0 or (self.process.poll() is not None and not self._reader.is_alive()):
                    raise AssertionError(f"no line {pattern!r} in:\n" + "\n".join(self.lines))
                self._changed.wait(min(left, 0.2))

    def stop(self, number: int = signal.SIGINT) -> int:
        """Ask it to stop, and wait; its exit code."""
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        """Wait for its end; its exit code."""
        code = self.process.wait(HANG_S)
        self._reader.join()
        return code

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """One request."""
        return httpx2.request(method, f"{self.url}{path}", timeout=HANG_S, **more)

    def document(self, path: str) -> Any:
        """What a GET answers."""
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def start(self, workflow: str, input: object = None) -> str:
        """Start a run."""
        answer = self.ask("POST", "/v1/runs", json={"workflow": workflow, "input": input})
        assert answer.status_code == 201, answer.text
        run_id: str = answer.json()["run_id"]
        return run_id

    def result(self, run_id: str) -> Any:
        """Wait for the end of a run."""
        while True:
            report = self.document(f"/v1/runs/{run_id}/wait?timeout=30")
            if report["ended_at"] is not None:
                return report

    def until_document(self, path: str, holds: Any) -> Any:
        """Ask until what is answered fits."""
        deadline = monotonic() + HANG_S
        while not holds(found := self.document(path)):
            assert monotonic() < deadline, json.dumps(found)
            sleep(0.05)
        return found

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
