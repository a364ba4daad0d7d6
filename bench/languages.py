"""What one execution of code costs in each language, warm, through gRPC, and the memory of all processes.

`python bench/languages.py [--count 200]`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from pathlib import Path
from statistics import median

from tenuto.app.languages import Languages
from tenuto.ports.languages import Output, Program
from tenuto.settings.tree import Languages as Setting

CODES = {
    "python": "def main(params): return {'n': params['n'] + 1}",
    "javascript": "function main(params) { return {n: params.n + 1} }",
    "cpython": "def main(params): return {'n': params['n'] + 1}",
}


async def measure(languages: Languages, language: str, count: int) -> None:
    took = []
    for _ in range(count + 1):
        program = Program(id="b", language=language, code=CODES[language], params='{"n":1}')
        began = time.perf_counter()
        outcome = await languages.run(program, lambda _stderr, _line: None)
        took.append((time.perf_counter() - began) * 1_000)
        assert isinstance(outcome, Output), outcome
    first, *warm = took
    worst = sorted(warm)[int(len(warm) * 0.99)]
    print(f"{language:<12}{first:>10.1f}{median(warm):>10.2f}{worst:>10.2f}")


def resident(pid: int) -> float:
    """MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    count = parser.parse_args().count
    languages = Languages(Setting(), draw=lambda: 0.5)
    print(f"{'ms':<12}{'first':>10}{'median':>10}{'p99':>10}")
    for language in CODES:
        await measure(languages, language, count)
    assert languages.pid is not None
    print(f"\n{'MB resident':<24}\n{'server':<24}{resident(languages.pid):>6.0f}")
    show_children(languages.pid)
    await languages.close()


def show_children(server: int) -> None:
    for path in Path(f"/proc/{server}/task").glob("*/children"):
        for pid in map(int, path.read_text().split()):
            name = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
            print(f"{Path(name).name:<24}{resident(pid):>6.0f}")


asyncio.run(main())
