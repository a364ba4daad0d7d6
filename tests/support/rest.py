"""A real engine behind real HTTP on a free port, and clients of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tenuto.api.held import Held
from tenuto.api.limits import Limits
from tenuto.api.page import Page
from tenuto.app.embedded import Engine
from tenuto.app.listening import bind
from tenuto.app.rest import RestService
from tenuto.ports.access import Authorize
from tenuto.worker.registry import Registry

PAUSE = """
name: {name}
nodes:
  pause: {{type: wait, for: {time}}}
"""
ECHO = """
name: echo
input: {type: object, required: [n], properties: {n: {type: integer}}}
vars: {greeting: hello}
nodes:
  say: {type: set, values: {n: "${input.n}", greeting: "${vars.greeting}"}}
output: "${nodes.say.output}"
"""
AWAIT = """
name: approval
nodes:
  ask: {type: wait_for_event, event: order.approved, key: "${input.order}"}
output: "${nodes.ask.output}"
"""
CALL = """
name: call
nodes:
  work: {type: task, task: work, params: {n: "${input.n}"}}
output: "${nodes.work.output}"
"""


@dataclass(slots=True)
class Server:
    """`client` asks it, over one connection or several."""

    engine: Engine
    url: str
    client: httpx2.Client
    registry: Registry
    services: list[RestService]

    @property
    def held(self) -> Held:
        """Its open streams and waits."""
        app = self.services[0].app
        assert app is not None
        return app.service.held

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def get(self, path: str, **query: Any) -> Any:
        """The document of a GET that succeeds."""
        answer = self.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: object = None, *, status: int = 200) -> Any:
        """The document of a POST with this status."""
        answer = self.client.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def deploy(self, source: str) -> Any:
        """Store a definition."""
        answer = self.client.post("/v1/workflows", json={"source": source})
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def start(self, workflow: str, input: object = None, **more: object) -> str:
        """Start a run; its id."""
        document = self.post("/v1/runs", {"workflow": workflow, "input": input, **more}, status=201)
        return str(document["run_id"])

    def wait(self, run_id: str) -> Any:
        """The report once it is final."""
        report = self.get(f"/v1/runs/{run_id}/wait", timeout=60)
        assert report["ended_at"] is not None, report
        return report


@dataclass(slots=True)
class Event:
    """One server-sent event; a comment has only `comment`."""

    event: str = ""
    id: str | None = None
    data: Any = None
    comment: str = ""


@contextmanager
def serving(
    path: Path | str = ":memory:",
    *,
    registry: Registry | None = None,
    limits: Limits | None = None,
    page: Page | None = None,
    environment: Mapping[str, str] | None = None,
    authorize: Authorize | None = None,
) -> Iterator[Server]:
    """Serve until the block ends. `authorize`: what tokens grant; None: nobody is asked for one."""
    registry = registry or Registry()
    bound = bind(0)
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    up = threading.Event()
    plenty = Limits(requests_per_second=1_000_000, burst=1_000_000)
    services: list[RestService] = []

    def make(engine: Engine) -> list[RestService]:
        service = RestService(
            engine,
            bound,
            database=str(path),
            limits=limits or plenty,
            page=page,
            environment=environment or {},
            listening=up.set,
            authorize=authorize,
        )
        services.append(service)
        return services

    engine = Engine(path, registry=registry, services=make)
    engine.start()
    assert up.wait(30)
    try:
        with httpx2.Client(base_url=url, timeout=70) as client:
            yield Server(engine, url, client, registry, services)
    finally:
        engine.stop(grace_s=1)


@dataclass(slots=True)
class Stream:
    """A stream of events, read one by one."""

    answer: Any
    _lines: Iterator[str] = field(init=False)

    def __post_init__(self) -> None:
        self._lines = self.answer.iter_lines()

    def __iter__(self) -> Iterator[Event]:
        event, filled = Event(), False
        for line in self._lines:
            if not line:
                if filled:
                    yield event
                event, filled = Event(), False
                continue
            name, _, value = line.partition(": ")
            match name:
                case "event":
                    event.event, filled = value, True
                case "data":
                    event.data, filled = json.loads(value), True
                case "id":
                    event.id = value
                case "":
                    event.comment, filled = value, True
                case _:
                    pass  # retry

    def until(self, name: str) -> list[Event]:
        """Events up to the first of this name, which is the last."""
        found = []
        for event in self:
            found.append(event)
            if event.event == name or (name == "comment" and event.comment):
                return found
        raise AssertionError(f"the stream ended before {name}: {found}")


@contextmanager
def streaming(server: Server, path: str, *, last: int | None = None) -> Iterator[Stream]:
    """Open a stream."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    with server.client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        yield Stream(answer)
