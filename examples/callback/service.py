"""The other side: a press that takes orders at once, prints in its own time, and calls back. A process of its own.

Standard library only; of Tenuto it knows the address that came with the order. What it does depends on the title:

    any           three signs of life, then it is printed
    …jam…         a sign of life, then an error
    …silence…     nothing is ever heard of it again

The first try of each order is answered with 503, and one of more than 1,000 copies with 422.

    python service.py --port 0

Prints `listening on http://127.0.0.1:PORT` as its first line, then a line for each thing that it does.

    POST /jobs {book, copies, callback: {url, event, key}}     202 and {job}; the same for the same Idempotency-Key
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.error import URLError
from urllib.request import Request, urlopen

MOST_COPIES = 1000
SHEET_S = 0.1
CALL_TRIES = 20


@dataclass
class Press:
    """What the press remembers."""

    jobs: dict[str, str] = field(default_factory=dict)
    tries: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def order(self, key: str, wanted: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Take an order, once for a key."""
        with self.lock:
            if wanted["copies"] > MOST_COPIES:
                return 422, {"error": f"{MOST_COPIES} copies at most"}
            self.tries[key] += 1
            if self.tries[key] == 1:
                return 503, {"error": "the press warms up"}
            if key not in self.jobs:
                self.jobs[key] = f"job-{len(self.jobs) + 1}"
                threading.Thread(target=work, args=(self.jobs[key], wanted), daemon=True).start()
            return 202, {"job": self.jobs[key]}


def work(job: str, wanted: dict[str, Any]) -> None:
    """Print an order, and call back."""
    book, callback = wanted["book"], wanted["callback"]
    wait = {"event": callback["event"], "key": callback["key"]}
    print(f"{job}: prints {book}", flush=True)
    if "silence" in book:
        return
    for _ in range(1 if "jam" in book else 3):
        time.sleep(SHEET_S)
        call(f"{callback['url']}/heartbeat", wait)
    if "jam" in book:
        payload = {"job": job, "error": {"code": "paper_jam", "message": "the paper is stuck"}}
    else:
        payload = {"job": job, "copies": wanted["copies"]}
    # With an id, so that saying it twice is saying it once.
    call(callback["url"], {**wait, "payload": payload, "event_id": job + callback["key"]})
    print(f"{job}: called back", flush=True)


def call(url: str, body: dict[str, Any]) -> None:
    """Say something to whoever ordered, again and again if nobody is there."""
    data = json.dumps(body).encode()
    for _ in range(CALL_TRIES):
        try:
            request = Request(url, data, {"Content-Type": "application/json"})
            with urlopen(request, timeout=5):
                return
        except URLError as failure:
            print(f"{url}: {failure}", flush=True)
            time.sleep(SHEET_S)


class Server(ThreadingHTTPServer):
    """One thread a request."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.press = Press()


class Handler(BaseHTTPRequestHandler):
    """The route."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        wanted = json.loads(self.rfile.read(length))
        key = self.headers.get("Idempotency-Key") or ""
        status, body = cast("Server", self.server).press.order(key, wanted)
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: what is printed tells what matters."""


def main() -> None:
    """Serve until interrupted, or until standard input ends with `--with-parent`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--with-parent", action="store_true", help="end when standard input does")
    wanted = parser.parse_args()
    server = Server(wanted.port)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    if wanted.with_parent:
        threading.Thread(target=_end_with_parent, args=(server,), daemon=True).start()
    try:
        server.serve_forever(poll_interval=0.05)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def _end_with_parent(server: Server) -> None:
    """A parent that dies, however, closes the pipe."""
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
