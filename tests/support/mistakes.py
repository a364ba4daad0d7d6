"""Mistakes as a newcomer makes them, through every door: how one is made, and what came of it.

A mistake is a row: a line of shell, a request, or a call of the SDK. What was said is compared whole; what differs from
run to run (folders, ports, ids, times) is put back behind a word in capitals.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Self

from tests.support.backing.ports import free_port
from tests.support.command import ALONE, APP, APPROVAL, COMMAND, GREET, HANG_S
from tests.support.rest import ECHO, PAUSE, Server, serving

import tenuto
import tenuto.testing

_RUN = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b")
_PID = re.compile(r"\bpid \d+\b")


class Request(NamedTuple):
    """One request to a server. `RUN` in its path is a run that waits, `DONE` one that has ended."""

    method: str
    path: str
    json: object = None
    text: str | None = None
    headers: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Shell:
    """One line of bash in a folder with the files of a small project.

    Args:
        line: `tenuto` is the command, `python` is its Python, `OTHER` the port of a server that is no Tenuto.
        files: further ones, or others, by name.
        app: the text of app.py instead.
        stores: a database is there afterwards.
        out: what is printed on stdout.
    """

    line: str
    files: Mapping[str, str] = field(default_factory=dict)
    app: str | None = None
    stores: bool = False
    out: str = ""


Call = Callable[["Doors"], object]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A row: the door, what is done wrong, what is said, and how it is classed.

    `kind`: an exit code; a status and a code; or the name of an error.
    """

    door: str
    what: str
    how: Shell | Request | Call
    said: str
    kind: int | str

    @property
    def id(self) -> str:
        """For pytest."""
        return f"{self.door}: {self.what}"


class Met(NamedTuple):
    """What came of it. `left`: whether something was stored."""

    said: str
    kind: int | str
    left: bool


class Doors:
    """Everything that rows share, each opened when a row first needs it. Untyped: rows give what types forbid."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    # -- what rows use ---------------------------------------------------------------------------------------------

    @cached_property
    def server(self) -> Server:
        """A server with the workflows `echo` and `long`, and a run: where there is none, that is what it says."""
        server = self._open.enter_context(serving())
        server.deploy(ECHO)
        server.deploy(PAUSE.format(name="long", time="1h"))
        server.wait(server.start("echo", {"n": 1}))
        return server

    @cached_property
    def app(self) -> Any:
        """An app with the tasks `double` and `give`, on a file."""
        app = tenuto.Tenuto(self.folder / "sdk.db")

        @app.task
        def double(n: int) -> int:
            return 2 * n

        @app.task
        def give(kind: str) -> object:
            return {"nan": float("nan"), "function": give}[kind]

        self.double = double
        self._open.callback(app.close)
        return app

    @cached_property
    def far(self) -> Any:
        """A client of the server."""
        app = tenuto.Tenuto(self.server.url)
        self._open.callback(app.close)
        return app

    @cached_property
    def waiting(self) -> Any:
        """A run that waits for an hour."""
        return self.app.start(PAUSE.format(name="long", time="1h"))

    @cached_property
    def ended(self) -> Any:
        """A run that has ended."""
        run = self.app.start(ECHO, {"n": 1})
        run.result(HANG_S)
        return run

    @cached_property
    def env(self) -> Any:
        """An engine for tests."""
        return self._open.enter_context(tenuto.testing.engine(tenuto.Tenuto()))

    @cached_property
    def other(self) -> int:
        """The port of a server of another product."""
        server = ThreadingHTTPServer(("127.0.0.1", free_port()), _Other)
        thread = Thread(target=server.serve_forever)
        thread.start()
        self._open.callback(thread.join)
        self._open.callback(server.server_close)
        self._open.callback(server.shutdown)
        return server.server_port

    def file(self, name: str, text: str) -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.write_text(text)
        return path

    def code(self, language: str, text: str, **more: object) -> object:
        """The output of a run of one `code` node."""
        node = {"type": "code", "language": language, "code": text, **more}
        tree = {"name": "coded", "nodes": {"n": node}, "output": "${nodes.n.output}"}
        return self.app.start(json.dumps(tree), {}).result(HANG_S)

    # -- meeting mistakes ------------------------------------------------------------------------------------------

    def meet(self, mistake: Mistake, folder: Path) -> Met:
        """Make it."""
        how = mistake.how
        if isinstance(how, Shell):
            return self._type(how, folder)
        if isinstance(how, Request):
            return self._ask(how)
        return self._call(how)

    def _type(self, shell: Shell, folder: Path) -> Met:
        files = {"app.py": shell.app or APP, "greet.yaml": GREET, "approval.yaml": APPROVAL}
        for name, text in {**files, **shell.files}.items():
            (folder / name).write_text(text)
        line = shell.line
        if "OTHER" in line:
            line = line.replace("OTHER", str(self.other))
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=folder,
            env={**os.environ, **ALONE, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        assert done.stdout == shell.out, done.stdout
        said = done.stderr.replace(f"{folder}/", "").replace(str(folder), "FOLDER")
        left = any(folder.rglob("*.db"))
        return Met(self._plainly(said), done.returncode, left)

    def _ask(self, request: Request) -> Met:
        server = self.server
        path = request.path
        if "RUN" in path:
            path = path.replace("RUN", self._standing)
        if "DONE" in path:
            path = path.replace("DONE", self._done)
        before = _stored(server)
        body: dict[str, Any] = {"json": request.json} if request.text is None else {}
        if request.text is not None:
            body["content"] = request.text
        answer = server.client.request(request.method, path, headers=request.headers, **body)
        document = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        assert document["status"] == answer.status_code
        kind = f"{answer.status_code} {document['code']}"
        return Met(self._plainly(document["detail"]), kind, _stored(server) != before)

    def _call(self, call: Call) -> Met:
        try:
            found = call(self)
        except Exception as error:
            return Met(self._plainly(str(error)), type(error).__name__, left=False)
        raise AssertionError(f"no mistake: {found!r}")

    @cached_property
    def _standing(self) -> str:
        return self.server.start("long")

    @cached_property
    def _done(self) -> str:
        run_id = self.server.start("echo", {"n": 1})
        self.server.wait(run_id)
        return run_id

    def _plainly(self, said: str) -> str:
        """What was said, with words in capitals for what differs from run to run."""
        said = said.replace(f"{self.folder}/", "").replace(str(self.folder), "FOLDER")
        # Ids first, and ports as whole numbers: the digits of one may stand in the other.
        said = _PID.sub("pid PID", _ADDRESS.sub("ADDRESS", _RUN.sub("RUN", said)))
        said = re.sub(rf"process {os.getpid()} \(.*?\);", "process PID;", said)
        if "server" in self.__dict__:
            said = re.sub(rf"\b{self.server.port}\b", "PORT", said)
        if "other" in self.__dict__:
            said = re.sub(rf"\b{self.other + 1}\b", "NEXT", said)
            said = re.sub(rf"\b{self.other}\b", "OTHER", said)
        return said.replace(sys.executable, "PYTHON").removesuffix("\n")


def _stored(server: Server) -> tuple[int, int]:
    runs = server.get("/v1/runs", limit=1_000)["items"]
    return len(runs), len(server.get("/v1/workflows", limit=1_000)["items"])


class _Other(BaseHTTPRequestHandler):
    """Answers with a page, whatever is asked."""

    def do_GET(self) -> None:
        page = b"<h1>Another product</h1>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    do_POST = do_GET  # noqa: N815 - its name is given

    def log_message(self, *arguments: object) -> None:
        """Says nothing."""
