"""Servers of a cluster as processes, on a PostgreSQL of the tests: started, asked, stopped."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
from tests.support.backing.postgres import Postgres
from tests.support.command import HANG_S, Tenuto

from tenuto.app.database import upgrade_schema
from tenuto.settings import Database


def upgraded(postgres: Postgres) -> str:
    """The URL of a new database with Tenuto's schema."""

    def fill(dsn: str) -> None:
        asyncio.run(upgrade_schema(Database(url=dsn)))

    return postgres.create_database(postgres.template("tenuto", fill))


class Serving:
    """`tenuto server` as a user starts it; its lines are JSON. Enter it to have it serving."""

    def __init__(
        self, folder: Path, *words: str, env: Mapping[str, str] | None = None, token: str = ""
    ) -> None:
        self._words, self._env = words, {"TENUTO_LOG__FORMAT": "json", **(env or {})}
        self._command = Tenuto(folder)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.lines: list[dict[str, Any]] = []
        self.url = self.workers = ""

    def __enter__(self) -> Self:
        words = ("server", "--port", "0", "--grpc-port", "0", *self._words)
        self.process: subprocess.Popen[str] = self._command.start(*words, env=self._env)
        try:
            served = self.until("serving")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.url, self.workers = served["url"], served["workers"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def until(self, event: str) -> dict[str, Any]:
        """Read its lines up to the next of this event."""
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            if line.startswith("{"):
                self.lines.append(json.loads(line))
                if self.lines[-1]["event"] == event:
                    return self.lines[-1]
        raise AssertionError(f"ended without saying {event}: {''.join(said)}")

    def ask(self, path: str, method: str = "GET", **more: Any) -> httpx2.Response:
        """One answer."""
        with httpx2.Client(base_url=self.url, headers=self.headers, timeout=HANG_S) as client:
            return client.request(method, path, **more)

    def stop(self) -> str:
        """SIGTERM; what it still said. It has ended in order."""
        self.process.terminate()
        _, said = self.process.communicate(timeout=HANG_S)
        assert self.process.returncode == 0, said
        return said
