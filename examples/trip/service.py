"""The other side: a travel agency that books and cancels. A process of its own.

Standard library only; it knows nothing of Tenuto. Requests with the same Idempotency-Key have one effect and get the
same answer; a booking that is cancelled twice is cancelled.

    python service.py --port 0 --no-cars --journal journal.jsonl

Prints `listening on http://127.0.0.1:PORT` as its first line, then a line for each thing that it does. With `--port 0`
the system picks a free port.

    POST   /hotels, /flights, /cars     201 and an id; 409 where none is left
    DELETE /hotels/<id>, …              200
    POST   /messages                    202; somebody is told
    GET    /journal                     everything that was done, in order
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

KINDS = ("hotels", "flights", "cars")


@dataclass
class Desk:
    """What the agency remembers."""

    sold_out: frozenset[str] = frozenset()
    stuck: str = ""
    journal: Path | None = None
    done: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    tries: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def book(self, kind: str, key: str, wanted: object) -> tuple[int, dict[str, Any]]:
        """A booking, once for a key. Every first try is refused: the desk is busy."""
        with self.lock:
            if kind in self.sold_out:
                return 409, {"error": f"no {kind} are left"}
            self.tries[key] += 1
            if self.tries[key] == 1:
                return 503, {"error": "busy, try again"}
            if key not in self.answers:
                self.answers[key] = {"id": f"{kind[:-1]}-{len(self.answers) + 1}"}
                self._note("booked", self.answers[key]["id"], wanted)
            return 201, self.answers[key]

    def cancel(self, kind: str, name: str) -> tuple[int, dict[str, Any]]:
        """Give a booking back. It says yes however often it is asked."""
        with self.lock:
            if kind == self.stuck:
                return 500, {"error": f"{kind} cannot be cancelled today"}
            if all(made["id"] != name for made in self.answers.values()):
                return 404, {"error": f"there is no {name}"}
            if name not in self.gone:
                self.gone.add(name)
                self._note("cancelled", name, None)
            return 200, {"id": name, "cancelled": True}

    def tell(self, wanted: object) -> tuple[int, dict[str, Any]]:
        """Send a message to somebody."""
        with self.lock:
            self._note("told", "", wanted)
        return 202, {}

    def _note(self, what: str, name: str, wanted: object) -> None:
        entry = {"what": what, "id": name, "for": wanted}
        self.done.append(entry)
        print(f"{what} {name or json.dumps(wanted)}", flush=True)
        if self.journal is not None:
            with self.journal.open("a") as file:
                file.write(json.dumps(entry) + "\n")


class Server(ThreadingHTTPServer):
    """One thread a request."""

    daemon_threads = True

    def __init__(self, port: int, desk: Desk) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.desk = desk


class Handler(BaseHTTPRequestHandler):
    """The routes."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def desk(self) -> Desk:
        return cast("Server", self.server).desk

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        wanted = json.loads(self.rfile.read(length) or b"null")
        kind, key = self.path[1:], self.headers.get("Idempotency-Key") or ""
        if kind in KINDS:
            self._answer(*self.desk.book(kind, key, wanted))
        elif kind == "messages":
            self._answer(*self.desk.tell(wanted))
        else:
            self._answer(404, {"error": f"there is no {self.path}"})

    def do_DELETE(self) -> None:
        kind, _, name = self.path[1:].partition("/")
        self._answer(*self.desk.cancel(kind, name))

    def do_GET(self) -> None:
        self._answer(200, self.desk.done)

    def _answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the journal tells what matters."""


def main() -> None:
    """Serve until interrupted, or until standard input ends with `--with-parent`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--no-cars", action="store_true", help="all cars are taken: 409")
    parser.add_argument("--stuck", choices=KINDS, default="", help="what can't be cancelled: 500")
    parser.add_argument("--journal", type=Path, help="a file that gets a line for each effect")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input does")
    wanted = parser.parse_args()
    desk = Desk(frozenset(["cars"] if wanted.no_cars else []), wanted.stuck, wanted.journal)
    server = Server(wanted.port, desk)
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
