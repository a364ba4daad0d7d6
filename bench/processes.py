"""What `process=True` costs: `python bench/processes.py [--attempts N]`.

Milliseconds per attempt of an empty function, one after the other and through the whole engine, in a thread and in a
process; the first attempt, which starts the process; resident memory of a child. Figures, not a test.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tenuto import Tenuto

_SIZE = 1_000_000

app = Tenuto(Path(tempfile.gettempdir()) / f"tenuto-bench-{time.time_ns()}.db")


@app.task
def in_thread(text: str = "") -> str:
    return text


@app.task(process=True)
def in_process(text: str = "") -> str:
    return text


@app.task(process=True)
def resident() -> dict[str, float]:
    """MiB of this child: all of it, and what it shares with nobody."""
    rollup = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    sizes = {line.split(":")[0]: int(line.split()[1]) / 1_024 for line in rollup}
    return {"rss": sizes["Rss"], "own": sizes["Private_Clean"] + sizes["Private_Dirty"]}


def milliseconds(function: Callable[..., str], attempts: int, text: str = "") -> list[float]:
    found = []
    for _ in range(attempts):
        begun = time.perf_counter()
        app.enqueue(function, text=text).result()
        found.append((time.perf_counter() - begun) * 1_000)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=300)
    attempts = parser.parse_args().attempts
    with app:
        milliseconds(in_thread, 20)
        [first] = milliseconds(in_process, 1)
        thread = statistics.median(milliseconds(in_thread, attempts))
        process = statistics.median(milliseconds(in_process, attempts))
        large = "x" * _SIZE
        big_thread = statistics.median(milliseconds(in_thread, max(1, attempts // 10), large))
        big_process = statistics.median(milliseconds(in_process, max(1, attempts // 10), large))
        child = app.enqueue(resident).result()
    figures = {
        "first attempt in a process (starts it), ms": first,
        "attempt in a thread, ms": thread,
        "attempt in a process, ms": process,
        "1 MB in and out, thread, ms": big_thread,
        "1 MB in and out, process, ms": big_process,
        "child, MiB resident": child["rss"],
        "child, MiB of its own": child["own"],
    }
    for name, value in figures.items():
        print(f"{name:45} {value:8.1f}")
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
