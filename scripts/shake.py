"""Run tests as a bad day would: in another order, each several times, beside busy processes, with threads that starve.

    python scripts/shake.py tests/integration/test_workers_service.py --times 30
    python scripts/shake.py tests/e2e

A test that fails once in a hundred builds fails here within minutes. With --times the tests of a file that share what
they change may fail from the second time on: that says nothing. Starving (Linux, root): any thread of the tests and of
their processes, also PostgreSQL's or gRPC's own, is taken off the processor for up to two seconds, again and again.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random  # noqa: TID251 - of accidents
from threading import Event, Thread

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.backing.keeper import descendants  # noqa: E402

ROUND_S = 0.02
LISTED_S = 0.5
"""How often new threads are looked for."""
STARVED_S = 0.4
"""How long a thread starves, on the average."""
STARVED_MAX_S = 2.0


def main() -> int:
    """Exit code of pytest."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tests", nargs="+", help="files, folders or single tests")
    parser.add_argument("--times", type=int, default=1, help="how often each test is run")
    parser.add_argument(
        "--order", type=int, default=0, help="the seed of an order; printed if not given"
    )
    parser.add_argument(
        "--share", type=float, default=0.2, help="of its time that a thread starves; 0: none does"
    )
    parser.add_argument("--hogs", type=int, default=1, help="busy processes beside them")
    parser.add_argument("--workers", type=int, default=3, help="tests at the same time")
    wanted = parser.parse_args()
    order = wanted.order or secrets.randbelow(100_000) + 1
    if wanted.share and (not hasattr(os, "SCHED_IDLE") or os.geteuid() != 0):
        parser.error(
            "threads can be starved on Linux by root alone: run it as root, or with --share 0"
        )
    print(f"order {order}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.shaken", "-p", "no:cacheprovider",
               "-m", "not alone", "-o", "timeout=400", f"--order={order}", f"--times={wanted.times}",
               "-n", str(wanted.workers), "--dist", "worksteal", *wanted.tests]  # fmt: skip
    with hogs(wanted.hogs):
        tests = subprocess.Popen(command, cwd=ROOT)
        with starved(tests.pid, wanted.share):
            try:
                return tests.wait()
            except KeyboardInterrupt:
                return tests.wait()


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """Processes that only keep the processor busy: beside them an idle thread waits."""
    busy = [
        subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)
    ]
    try:
        yield
    finally:
        for hog in busy:
            hog.kill()
            hog.wait()


@contextmanager
def starved(root: int, share: float) -> Iterator[None]:
    """Threads of all processes from `root` down starve, each for about that share of its time."""
    if not share:
        yield
        return
    over = Event()
    starver = Thread(target=_starve, args=(root, share, over))
    starver.start()
    try:
        yield
    finally:
        over.set()
        starver.join()


def _starve(root: int, share: float, over: Event) -> None:
    # Itself it must not wait behind the hogs. What it may start is as everybody.
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(5))
    random, down, listed_at = Random(), dict[int, float](), float("-inf")  # noqa: S311 - of accidents
    pids: Sequence[int] = ()
    while not over.wait(ROUND_S):
        now = time.monotonic()
        if now - listed_at > LISTED_S:
            listed_at, pids = now, (root, *descendants(root))
        for thread in [thread for thread, until in down.items() if until < now]:
            del down[thread]
            _schedule(thread, os.SCHED_OTHER)
        for thread in threads(pids):
            if thread not in down and random.random() < share * ROUND_S / STARVED_S:
                _schedule(thread, os.SCHED_IDLE)
                down[thread] = now + min(random.expovariate(1 / STARVED_S), STARVED_MAX_S)
    for thread in down:
        _schedule(thread, os.SCHED_OTHER)


def threads(pids: Iterable[int]) -> Iterator[int]:
    """Of those that are still there."""
    for pid in pids:
        with suppress(OSError):
            yield from (int(task.name) for task in Path(f"/proc/{pid}/task").iterdir())


def _schedule(thread: int, policy: int) -> None:
    with suppress(ProcessLookupError):
        os.sched_setscheduler(thread, policy, os.sched_param(0))


if __name__ == "__main__":
    sys.exit(main())
