"""Rough figures of the embedded engine: W1 to W4 of the design's section 8. `python bench/rough.py [W1 W2 …]`.

Not the benchmark suite: one repeat, no ratio to the disk's own speed.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from tenuto.app.definitions import load_definition
from tenuto.app.embedded import Engine
from tenuto.coordinator.commands import StartRequest
from tenuto.model.ids import RunId
from tenuto.ports.store import DefinitionRow
from tenuto.worker.registry import Registry

T = TypeVar("T")


def nodes(ids: list[str], edges: list[str], extra: str = "") -> str:
    lines = "\n".join(f"  {id}: {{type: task, task: noop}}" for id in ids)
    return f"name: w\nnodes:\n{lines}\n{extra}edges: [{', '.join(edges)}]\n"


CHAIN = nodes([f"n{i}" for i in range(10)], [f"n{i} -> n{i + 1}" for i in range(9)])
ONE = "name: one\nnodes:\n  a: {type: task, task: noop}\n"
DIAMOND = nodes(["a", "b", "c", "d"], ["a -> b", "a -> c", "b -> d", "c -> d"])
FAN = nodes(
    ["start", *(f"f{i}" for i in range(1000))],
    [f"start -> f{i}" for i in range(1000)] + [f"f{i} -> done" for i in range(1000)],
    extra="  done: {type: join}\n",
)


async def noop() -> None:
    return None


class Bench:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.engine.call(coroutine).result()

    def deploy(self, text: str) -> DefinitionRow:
        loaded = load_definition(text, file="bench.yaml")
        assert loaded.graph is not None, loaded.findings
        return self.ask(self.engine.commands.deploy(loaded.graph))

    async def start(self, row: DefinitionRow, count: int) -> list[RunId]:
        request = StartRequest(
            graph_hash=row.hash, workflow=row.name, version=row.version, input="{}", vars="{}"
        )
        started = await self.engine.commands.start([request] * count)
        return [each.run_id for each in started]

    async def all(self, row: DefinitionRow, count: int, at_once: int) -> None:
        """Start runs `at_once` per call and wait for all of them."""
        commands = self.engine.commands
        async with asyncio.TaskGroup() as group:
            for first in range(0, count, at_once):
                for run_id in await self.start(row, min(at_once, count - first)):
                    group.create_task(self._success(commands.wait(run_id)))

    @staticmethod
    async def _success(waiting: Coroutine[Any, Any, Any]) -> None:
        row = await waiting
        assert row.state == "success", row

    def timed(self, row: DefinitionRow, count: int, at_once: int) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        self.ask(self.all(row, count, at_once))
        return time.perf_counter() - wall, time.process_time() - cpu


def w1(bench: Bench) -> None:
    wall, cpu = bench.timed(bench.deploy(ONE), 8000, 100)
    print(f"W1 {8000 / wall:8.0f} runs/s   {cpu / 8:.3f} ms CPU per run")


def w2(bench: Bench) -> None:
    wall, cpu = bench.timed(bench.deploy(CHAIN), 200, 200)
    print(f"W2 {2000 / wall:8.0f} steps/s  {cpu / 2:.3f} ms CPU per step")


def w3(bench: Bench) -> None:
    wall, _ = bench.timed(bench.deploy(FAN), 1, 1)
    print(f"W3 {wall:8.3f} s")


def w4(bench: Bench) -> None:
    for name, text in (("one step", ONE), ("diamond", DIAMOND)):
        row = bench.deploy(text)
        taken = [bench.timed(row, 1, 1)[0] * 1000 for _ in range(200)]
        taken.sort()
        print(f"W4 {statistics.median(taken):8.2f} ms p50, {taken[-3]:.2f} ms p99  {name}")


def main(wanted: list[str]) -> None:
    known = {"W1": w1, "W2": w2, "W3": w3, "W4": w4}
    for name in wanted or known:
        registry = Registry()
        registry.add(noop)
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
            engine = Engine(Path(directory) / "bench.db", registry=registry)
            engine.start()
            try:
                known[name](Bench(engine))
            finally:
                engine.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
