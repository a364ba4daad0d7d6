"""A process that runs every example in memory and prints what was stored, without ids and times.

Run as `python -m tests.support.agreeing FOLDER URL`, in a folder of its own: FOLDER holds the definitions, URL is an
`Echo`. It prints one line of JSON: run -> its state, all payload texts, the outcomes of all expressions. Two processes
print the same bytes, unless an expression's value depends on the process that evaluates it (SEMANTICS X8).
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from tests.support.command import HANG_S
from tests.support.examples import EXAMPLES, edited, load_app

from tenuto import Run, Tenuto
from tenuto.sdk.failures import RunFailed

IDS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=parcel-)[0-9a-f]{8}")
"""Ids of runs and messages, and the parcel's number, which is made of the run's."""
LOOKS = 3


class Echo(ThreadingHTTPServer):
    """A payment and export service without faults, dates and numbers of its own: equal requests get equal answers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.looks: dict[str, int] = {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Idempotency-Key"].replace("/", ".")
        self._answer({"zeta": [1, 2.5], "id": f"{self.path[1:]}-{key}", "for": wanted, "b": None})

    def do_GET(self) -> None:
        looks = cast("Echo", self.server).looks
        looks[self.path] = looks.get(self.path, 0) + 1
        ready = looks[self.path] >= LOOKS
        self._answer({"state": "ready" if ready else "working", "rows": 3})

    def _answer(self, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response_only(200)  # no Date, no Server
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def an_echo() -> Iterator[str]:
    """One for the length of a test; its address."""
    server = Echo()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def prepare(folder: Path) -> None:
    """Write the definitions with shorter clocks: the order's also once with a wait for nobody's approval. Its requests
    have time enough, since an attempt that is too late leaves its error.
    """
    patient = {
        f"{last}\n    timeout: 1s": f"{last}\n    timeout: 1m"
        for last in ('amount: "${input.amount}"}', 'charge: "${nodes.charge.output.body.id}"}')
    }
    for name, changes in {
        "order": {"for: 2s": "for: 10ms", **patient},
        "refund": {"timeout: 2d": "timeout: 10ms", **patient},
        "poll": {"for: 250ms": "for: 10ms"},
        "pipeline": {"initial: 20ms": "initial: 1ms"},
        "etl": {},
    }.items():
        (folder / name).mkdir()
        edited("order" if name == "refund" else name, folder / name, changes)


def start_all(folder: Path, url: str) -> Iterator[tuple[str, Tenuto, Run]]:
    """Every example with fixed inputs, so that each of its expressions is evaluated in some run."""
    app = load_app("order")
    app.send_event("order.approved", "A", {"by": "somebody", "at": 1.5, "a": [{"z": 1, "b": 2}]})
    given = {"payments": url}
    order = folder / "order" / "order.yaml"
    yield "approved", app, app.start(order, {"order_id": "A", "amount": 9000}, vars=given)
    yield "cooled", app, app.start(order, {"order_id": "B", "amount": 12.5}, vars=given)
    refund = folder / "refund" / "order.yaml"
    yield "refunded", app, app.start(refund, {"order_id": "C", "amount": 9000}, vars=given)
    app = load_app("poll")
    yield "polled", app, app.start(folder / "poll" / "poll.yaml", vars={"service": url})
    app = load_app("etl")
    files = {"source": str(EXAMPLES / "etl" / "sales.csv"), "target": "out"}
    yield "summed", app, app.start(folder / "etl" / "etl.yaml", files)
    app = load_app("pipeline")
    for seed in (2, 5):  # one that fails, one with a retry
        run = app.start(folder / "pipeline" / "pipeline.yaml", {"seed": seed})
        yield f"seed {seed}", app, run


def stored(run: Run) -> dict[str, Any]:
    """What the store holds of a run that has ended."""

    async def read() -> dict[str, Any]:
        payloads = await run._near.ask(lambda engine: engine.reads.all_payloads(run.id))
        events = await run._near.ask(lambda engine: engine.reads.history(run.id))
        return {
            "payloads": sorted([row.key.place, row.key.kind, row.text] for row in payloads),
            # Tasks side by side end in any order, and the last one has the outcomes of the join.
            "outcomes": sorted(
                json.dumps(outcome)
                for event in events
                for outcome in json.loads(event.data).get("outcomes", ())
            ),
        }

    return {"state": run.status(), **run.link.wait(read(), "stored")}


def main() -> None:
    """Run all, print all."""
    folder, url = Path(sys.argv[1]), sys.argv[2]
    found = {}
    for name, app, run in start_all(folder, url):
        with suppress(RunFailed):
            run.result(timeout=HANG_S)
        found[name] = json.loads(IDS.sub("ID", json.dumps(stored(run))))
        if name in ("refunded", "polled", "summed", "seed 5"):
            app.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
