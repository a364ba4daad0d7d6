"""Measure long lists and long loops: `python bench/foreach.py [--items N] [--children N] [--passes N]`.

An item, a child and a pass must cost the same at the end as at the beginning, and a list of 100,000 items must fit into
200 MB. Each figure compares the last thousand with the first of the same run, since machines differ and are noisy. Each
workload has a process of its own, so that one does not stand on the memory of another.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from tenuto import Tenuto

BLOCK = 1_000

ITEMS = """
name: items
input: {type: object}
nodes:
  each: {type: foreach, over: range(input.count), task: work, params: {index: "${item}"}}
output: {count: "${size(nodes.each.output)}"}
"""
CHILDREN = """
name: children
input: {type: object}
nodes:
  each:
    type: foreach
    over: range(input.count)
    do: {nodes: {step: {type: task, task: work, params: {index: "${item}"}}}}
output: {count: "${size(nodes.each.output)}"}
"""
PASSES = """
name: passes
input: {type: object}
nodes:
  work:
    type: task
    task: work
    params: {index: "${iteration}"}
  count:
    type: set
    values: {sum: "${(iteration == 1 ? 0 : nodes.count.output.sum) + 1}"}
    needs: [work]
  more: {type: switch, needs: [count]}
  done: {type: set, values: {count: "${nodes.count.output.sum}"}}
edges:
  - {from: more, to: work, when: "nodes.count.output.sum < input.count", loop: {max: 100000, keep: 10}}
  - {from: more, to: done, else: true}
output: {count: "${nodes.done.output.count}"}
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """How one workload went. Times in seconds, memory in MB."""

    name: str
    count: int
    seconds: float
    first: float
    last: float
    memory: float

    def __str__(self) -> str:
        each = self.seconds / self.count * 1_000
        return (
            f"{self.name:9} {self.count:8,} in {self.seconds:7.1f} s, {each:6.2f} ms each;"
            f" last {BLOCK:,} / first {BLOCK:,} = {self.last / self.first:5.2f} (goal <= 1.5);"
            f" {self.memory:5.0f} MB at most"
        )


async def _run(definition: str, count: int, directory: Path) -> tuple[float, list[float]]:
    app = Tenuto(directory / "bench.db")
    ends: list[float] = []

    @app.task(name="work")
    async def work(index: int) -> int:
        ends.append(time.perf_counter())
        return index

    async with app:
        began = time.perf_counter()
        result = await (await app.astart(definition, {"count": count})).aresult()
        seconds = time.perf_counter() - began
    assert result == {"count": count}, result
    return seconds, ends


def _measure(name: str, definition: str, count: int, answer: Connection) -> None:
    with tempfile.TemporaryDirectory() as directory:
        seconds, ends = asyncio.run(_run(definition, count, Path(directory)))
    block = min(BLOCK, count // 3)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    # The very first items carry the start of everything, so the second block stands for the first.
    figure = Figure(
        name,
        count,
        seconds,
        first=ends[2 * block - 1] - ends[block - 1],
        last=ends[-1] - ends[-block],
        memory=memory,
    )
    answer.send(figure)


def measure(name: str, definition: str, count: int) -> Figure:
    """Run one workload in a process of its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_measure, args=(name, definition, count, there))
    process.start()
    there.close()
    figure: Figure = here.recv()
    process.join()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--children", type=int, default=10_000)
    parser.add_argument("--passes", type=int, default=10_000)
    given = parser.parse_args()
    for name, definition, count in (
        ("items", ITEMS, given.items),
        ("children", CHILDREN, given.children),
        ("passes", PASSES, given.passes),
    ):
        if count:
            print(measure(name, definition, count), flush=True)


if __name__ == "__main__":
    main()
