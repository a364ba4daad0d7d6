"""What tests of several coordinators share: a database that any number of them may open, flows, and a worker's fate."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.crowd import Journal, Lent

from tenuto.app.database import Opened, open_database
from tenuto.ports.gateway import Failed, Lease, Result, Success
from tenuto.settings import Database

FAMILY = """
name: family
nodes:
  e:
    type: foreach
    over: "range(5)"
    tolerate: 2
    concurrency: 4
    do:
      nodes: {a: {type: task, task: work}, b: {type: task, task: work}}
      edges: [a -> b]
  p: {type: foreach, over: "range(5)", tolerate: 2, task: work, retry: {max_attempts: 2, initial: 5ms}}
  s:
    type: call
    retry: {max_attempts: 2, initial: 5ms}
    timeout: 300ms
    do:
      nodes: {a: {type: task, task: work}, w: {type: wait, for: 20ms}, b: {type: task, task: work}}
      edges: [a -> w, w -> b]
  m: {type: wait_for_event, event: go, key: k, timeout: 2s}
  z: {type: task, task: work}
edges: [e -> z, p -> z, s -> z, m -> z]
"""
CHAIN = """
name: chain
nodes:
  a: {type: task, task: work}
  b: {type: task, task: work, retry: {max_attempts: 3, initial: 5ms}}
  c: {type: task, task: work}
edges: [a -> b, b -> c]
"""
MEETING = """
name: meeting
input: {type: object, properties: {key: {type: string}}}
nodes:
  a: {type: task, task: work}
  m: {type: wait_for_event, event: go, key: "${input.key}"}
edges: [a -> m]
"""
UNDONE = """
name: undone
nodes:
  a: {type: task, task: work, compensate: {type: task, task: work}}
  b: {type: task, task: work}
edges: [a -> b]
"""
SLOW = """
name: slow
nodes:
  a: {type: task, task: work}
  b: {type: task, task: work}
  w: {type: wait, for: 20ms}
edges: [b -> w]
"""
SLEEPING = """
name: sleeping
nodes:
  e: {type: foreach, over: "range(6)", do: {nodes: {w: {type: wait, for: 1h}}}}
"""
Shared = Callable[[], Awaitable[Opened]]


@asynccontextmanager
async def opening(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shared]:
    """Opens one database, any number of times."""
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        yield lambda: open_database(Database(url=url, pool=4))
        return
    opened = await open_database(Database(tmp_path / "t.db"))

    async def again() -> Opened:
        return replace(opened, engine=Lent(opened.engine))

    yield again
    await opened.engine.close()


def a_seed(number: int = 0) -> str:
    seed = f"{os.environ.get('TENUTO_TEST_SEED', '1')}-{number}"
    print(f"\nseed {seed}")
    return seed


def failing(dice: random.Random, share: float) -> Journal:
    async def work(lease: Lease) -> Result:
        await asyncio.sleep(dice.uniform(0, 0.01))
        if dice.random() < share:
            return Failed(code="Oops", message="on purpose")
        return Success(output="1")

    return Journal(work)


async def until(holds: Callable[[], object]) -> None:
    """Look again until something holds that nobody tells."""
    while not holds():  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.002)
