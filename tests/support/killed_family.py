"""A process to be killed while runs call runs: foreach over graphs, sagas, retries, events.

Run as `python -m tests.support.killed_family DB JOURNAL --start N --kill-at-commit K`. Prints `up` when the engine is
up, and ends with code 0 when no run is open and every failed call has been retried once. Each line of the journal, one
per finished piece of work: what was done.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from pathlib import Path

from tests.support.killed import killer

from tenuto.adapters.cel import CelParser
from tenuto.app.embedded import Engine
from tenuto.coordinator.commands import StartRequest
from tenuto.dsl.compile import load
from tenuto.model.errors import Conflict
from tenuto.ports.reads import RunFilter
from tenuto.worker.context import current
from tenuto.worker.registry import Registry

ITEMS = 6
ITEM = """
name: item
nodes:
  x: {type: task, task: step, params: {what: "x${input.n}"}}
  y: {type: task, task: step, params: {what: "y${input.n}"}}
edges: [x -> y]
output: "${input.n * 10}"
"""
FAMILY = f"""
name: family
nodes:
  each: {{type: foreach, over: "range({ITEMS})", call: item, input: {{n: "${{item}}"}}, concurrency: 3}}
  plain: {{type: foreach, over: "range({ITEMS})", task: step, params: {{what: "p${{item}}"}}, concurrency: 2}}
  scope:
    type: call
    do:
      nodes:
        tell: {{type: emit, event: ready, key: "${{input.id}}", payload: {{ok: true}}}}
        heard: {{type: wait_for_event, event: ready, key: "${{input.id}}", match: "event.ok", timeout: 1h}}
        late: {{type: task, task: step, params: {{what: late}}}}
      edges: [tell -> heard, heard -> late]
  sum: {{type: set, values: {{total: "${{nodes.each.output}}"}}}}
edges: [each -> sum, plain -> sum, scope -> sum]
output: "${{nodes.sum.output.total}}"
"""
SAGA = """
name: saga
nodes:
  a: {type: task, task: step, params: {what: a}, compensate: {type: task, task: step, params: {what: undo_a}}}
  b:
    type: call
    do: {nodes: {i: {type: task, task: step, params: {what: b}}}}
    compensate: {type: task, task: step, params: {what: undo_b}}
  c: {type: task, task: broken}
edges: [a -> b, b -> c]
on_failure: {type: call, do: {nodes: {t: {type: task, task: step, params: {what: told}}}}}
"""
MENDED = """
name: mended
nodes:
  p:
    type: call
    do:
      nodes: {a: {type: task, task: step, params: {what: a}}, b: {type: task, task: broken_once}}
      edges: [a -> b]
"""


def tasks(journal: int) -> Registry:
    """Each finished step leaves a line; one task always fails, one until it is done again."""
    registry = Registry()

    @registry.add
    def step(what: str) -> str:
        it = current()
        time.sleep(random.Random(f"{it.task_id}/{it.attempt}").uniform(0.0, 0.03))
        os.write(journal, f"{it.task_id} {what}\n".encode())
        return what

    @registry.add
    def broken() -> None:
        raise ValueError("on purpose")

    @registry.add
    def broken_once() -> None:
        if current().attempt == 1:
            raise ValueError("the first time")

    return registry


def main() -> None:
    """Start runs if asked, then work until every run is final."""
    parser = argparse.ArgumentParser()
    parser.add_argument("db", type=Path)
    parser.add_argument("journal", type=Path)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--kill-at-commit", type=int, default=0)
    options = parser.parse_args()
    journal = os.open(options.journal, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    engine = Engine(
        options.db,
        registry=tasks(journal),
        before_commit=killer(options.kill_at_commit),  # type: ignore[arg-type]
    )
    engine.start()
    print("up", flush=True)
    if options.start:
        _start(engine, options.start)
        print("started", flush=True)
    while engine.call(_open(engine)).result() or _retry(engine):
        time.sleep(0.02)
    engine.stop()
    sys.exit(0)


def _start(engine: Engine, count: int) -> None:
    requests = []
    for text in (ITEM, FAMILY, SAGA, MENDED):
        graph = load(text, file="family.yaml", parser=CelParser()).graph
        assert graph is not None
        row = engine.call(engine.commands.deploy(graph)).result()
        if text is ITEM:
            continue
        requests += [
            StartRequest(
                graph_hash=row.hash,
                workflow=row.name,
                version=row.version,
                input=f'{{"id":"{row.name}-{number}"}}',
                vars="{}",
            )
            for number in range(count)
        ]
    engine.call(engine.commands.start(requests)).result()


def _retry(engine: Engine) -> bool:
    """Go on with runs that failed and can be mended. False: there are none."""
    wanted = RunFilter(workflow="mended", states=("failed",), top=True, limit=1_000)
    rows = engine.call(engine.reads.list_runs(wanted)).result()
    for row in rows:
        try:
            engine.call(engine.commands.retry(row.run_id)).result()
        except Conflict:
            continue
    return bool(rows)


async def _open(engine: Engine) -> int:
    wanted = RunFilter(states=("pending", "running", "closing"), limit=1)
    return len(await engine.reads.list_runs(wanted))


if __name__ == "__main__":
    main()
