"""The other side: a payment and export service as they are, with errors, lost answers and hangs. A process of its own.

Standard library only; it knows nothing of Tenuto. What goes wrong, and when, follows from `--seed`. It keeps the rule
that makes retrying safe: requests with the same Idempotency-Key have one effect, and all get the same answer.

    python service.py --port 0 --seed 35 --journal journal.jsonl

Prints `listening on http://127.0.0.1:PORT` as its first line, then a line for each request. With `--port 0` the system
picks a free port.

    POST /charges, /refunds     one effect a key; the first try of each goes wrong in some way
    POST /exports               begins an export: 202 and its id
    GET  /exports/<id>          `working` a few times, then `ready`
    GET  /journal               every effect so far, and how often it was asked for
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

HANG_S = 30.0
FAULTS = {
    "refuse": "does nothing, answers 500",
    "busy": "does nothing, answers 503 with Retry-After: 1",
    "lose": "does it, but answers 500",
    "hang": "does it, but never answers",
}


@dataclass
class Book:
    """What the service remembers. Effects are written to the journal before they are answered."""

    seed: int
    journal: Path | None = None
    down: bool = False
    looks_needed: int | None = None
    effects: dict[str, dict[str, Any]] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    looks: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)

    def fault(self, path: str, key: str) -> str | None:
        """What goes wrong with this try: always something with the first, sometimes with the second, then nothing."""
        with self.lock:
            number = self.tries[f"{path} {key}"] = self.tries.get(f"{path} {key}", 0) + 1
            if self.down:
                return "refuse"
            # The how-manieth request it is, since its key is a new one in every run.
            order = list(self.tries).index(f"{path} {key}")
        dice = random.Random(f"{self.seed} {path} {order} {number}")
        if number == 1 or (number == 2 and dice.random() < 0.5):
            return dice.choice(sorted(FAULTS))
        return None

    def effect(self, path: str, key: str, wanted: object) -> tuple[dict[str, Any], bool]:
        """Do what is asked, once for a key; and whether this was the first time."""
        with self.lock:
            known = self.effects.get(f"{path} {key}")
            if known is not None:
                return known, False
            made = {"id": f"{path[1:-1]}-{len(self.effects) + 1}", "for": wanted}
            self.effects[f"{path} {key}"] = made
            if self.journal is not None:
                line = json.dumps({"path": path, "key": key, **made}, sort_keys=True)
                with self.journal.open("a") as file:
                    file.write(line + "\n")
                    file.flush()
                    os.fsync(file.fileno())
            return made, True

    def look(self, name: str) -> str | None:
        """State of an export, or None if there is none of that name."""
        with self.lock:
            if not any(made["id"] == name for made in self.effects.values()):
                return None
            self.looks[name] = self.looks.get(name, 0) + 1
            needed = self.looks_needed or random.Random(f"{self.seed} {name}").randint(2, 4)
            return "ready" if self.looks[name] >= needed else "working"

    def all(self) -> list[dict[str, Any]]:
        """Every effect in order, with its key and how often it was asked for."""
        with self.lock:
            return [
                {**made, "path": path, "key": key, "asked": self.tries.get(f"{path} {key}", 1)}
                for address, made in self.effects.items()
                for path, _, key in [address.partition(" ")]
            ]


class Server(ThreadingHTTPServer):
    """One thread a request, so that a hanging one holds up no other."""

    daemon_threads = True

    def __init__(self, port: int, book: Book) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.book = book

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that give up are everyday life here; anything else is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(cast("Any", request), client_address)


class Handler(BaseHTTPRequestHandler):
    """The routes."""

    protocol_version = "HTTP/1.1"

    @property
    def book(self) -> Book:
        return cast("Server", self.server).book

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        try:
            wanted = json.loads(self.rfile.read(length) or b"null")
        except ValueError:
            self._answer(400, {"error": "the body is no JSON"})
            return
        key = self.headers.get("Idempotency-Key")
        if self.path not in {"/charges", "/refunds", "/exports"}:
            self._answer(404, {"error": f"there is no {self.path}"})
        elif key is None:
            self._answer(400, {"error": "an Idempotency-Key is required"})
        elif self.path == "/exports":
            made, _ = self.book.effect(self.path, key, wanted)
            self._say("begins")
            self._answer(202, made)
        else:
            self._pay(key, wanted)

    def _pay(self, key: str, wanted: object) -> None:
        fault = self.book.fault(self.path, key)
        if fault == "refuse":
            self._say(FAULTS[fault])
            self._answer(500, {"error": "try again"})
            return
        if fault == "busy":
            self._say(FAULTS[fault])
            self._answer(503, {"error": "too many requests"}, {"Retry-After": "1"})
            return
        made, first = self.book.effect(self.path, key, wanted)
        self._say(FAULTS[fault] if fault else "does it" if first else "did it before, says so")
        if fault == "lose":
            self._answer(500, {"error": "it was done, but you cannot know"})
        elif fault == "hang":
            self.book.over.wait(HANG_S)
            self.close_connection = True
        else:
            self._answer(201 if first else 200, made)

    def do_GET(self) -> None:
        if self.path == "/journal":
            self._answer(200, self.book.all())
            return
        state = self.book.look(self.path.removeprefix("/exports/"))
        self._say(state or "unknown")
        if state is None:
            self._answer(404, {"error": f"there is no {self.path}"})
        else:
            self._answer(200, {"state": state, **({"rows": 3} if state == "ready" else {})})

    def _say(self, what: str) -> None:
        print(f"{self.command} {self.path}: {what}", flush=True)

    def _answer(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: `_say` tells what matters."""


def main() -> None:
    """Serve until interrupted, or until standard input ends with `--with-parent`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--seed", type=int, default=35, help="what goes wrong, and when")
    parser.add_argument("--journal", type=Path, help="a file that gets a line for each effect")
    parser.add_argument("--down", action="store_true", help="answer every payment with 500")
    parser.add_argument("--looks", type=int, help="how many looks an export takes (2 to 4)")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input does")
    wanted = parser.parse_args()
    book = Book(wanted.seed, wanted.journal, wanted.down, wanted.looks)
    server = Server(wanted.port, book)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    if wanted.with_parent:
        threading.Thread(target=_end_with_parent, args=(server,), daemon=True).start()
    try:
        server.serve_forever(poll_interval=0.05)
    except KeyboardInterrupt:
        pass
    finally:
        book.over.set()
        server.server_close()


def _end_with_parent(server: Server) -> None:
    """A parent that dies, however, closes the pipe."""
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
