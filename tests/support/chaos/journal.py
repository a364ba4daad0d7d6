"""What task functions write down, outside of the engine: when each execution began and ended, and under which lease.

One append-only file for each process, so that a line is whole or not there. Written without fsync: processes are
killed here, not the machine.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tenuto.worker.context import Context, current

FOLDER = "CHAOS_JOURNAL"
_files: dict[int, int] = {}
_lock = threading.Lock()


@dataclass(slots=True)
class Execution:
    """One call of a task function. Moments are microseconds of the machine's monotonic clock.

    `ended` None: it never said so. `outcome`: ok, or the exception's name.
    """

    task: str
    attempt: int
    lease: str
    worker: str
    pid: int
    began: int
    ended: int | None = None
    outcome: str = ""


@contextmanager
def journaled() -> Iterator[Context]:
    """Write down that the attempt which calls this begins, and how it ends."""
    it = current()
    _write("start", it)
    try:
        yield it
    except BaseException as error:
        _write("end", it, type(error).__name__)
        raise
    _write("end", it, "ok")


def _write(what: str, it: Context, outcome: str = "") -> None:
    line = {
        "what": what,
        "task": it.task_id,
        "attempt": it.attempt,
        "lease": it.lease_id,
        "worker": os.environ.get("TENUTO_WORKER__NAME", ""),
        "pid": os.getpid(),
        "at": time.monotonic_ns() // 1_000,
        "wall": time.time_ns() // 1_000,
        "outcome": outcome,
    }
    os.write(_file(), (json.dumps(line) + "\n").encode())


def _file() -> int:
    pid = os.getpid()
    with _lock:
        if pid not in _files:
            path = Path(os.environ[FOLDER]) / f"{pid}-{time.monotonic_ns()}.jsonl"
            _files[pid] = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        return _files[pid]


def read(folder: Path) -> list[Execution]:
    """All executions, in the order in which they began. A torn last line is one that was never written."""
    found: list[Execution] = []
    for path in sorted(folder.glob("*.jsonl")):
        open_ones: dict[str, list[Execution]] = {}
        for text in path.read_text().splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if line["what"] == "start":
                made = Execution(
                    task=line["task"],
                    attempt=line["attempt"],
                    lease=line["lease"],
                    worker=line["worker"],
                    pid=line["pid"],
                    began=line["at"],
                )
                found.append(made)
                open_ones.setdefault(made.lease, []).append(made)
            else:
                ended = open_ones[line["lease"]].pop(0)
                ended.ended, ended.outcome = line["at"], line["outcome"]
    return sorted(found, key=lambda each: each.began)
