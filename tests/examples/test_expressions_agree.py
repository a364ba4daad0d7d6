"""What an expression yields is the same in every process, byte for byte (SEMANTICS X8)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.agreeing import an_echo, prepare
from tests.support.command import HANG_S
from tests.support.examples import NAMES, ROOT, definition

from tenuto.app.definitions import load_definition
from tenuto.model.expressions import Expression

PROCESSES = 20
AT_A_TIME = 3  # each waits now and then


@pytest.fixture
def printed(tmp_path: Path) -> Iterator[list[str]]:
    """What each of the processes says that it stored."""
    prepare(tmp_path)

    def run(seed: int, url: str) -> str:
        own = tmp_path / f"seed-{seed}"
        own.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.agreeing", str(tmp_path), url],
            cwd=own,
            env=os.environ
            | {
                "PYTHONHASHSEED": str(seed),
                "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
                "TENUTO_DATABASE": ":memory:",
            },
            capture_output=True,
            text=True,
            timeout=2 * HANG_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with an_echo() as url, ThreadPoolExecutor(AT_A_TIME) as pool:
        yield list(pool.map(run, range(1, PROCESSES + 1), [url] * PROCESSES))


def test_twenty_processes_store_the_same_bytes_for_every_example(printed: list[str]) -> None:
    told = json.loads(printed[0])

    for other in printed[1:]:
        assert json.loads(other) == told  # shows where they differ
        assert other == printed[0]
    assert {name: run["state"] for name, run in told.items()} == {
        "approved": "success",
        "cooled": "success",
        "refunded": "success",
        "polled": "success",
        "summed": "success",
        "seed 2": "failed",
        "seed 5": "success",
    }
    outcomes = sum(len(run["outcomes"]) for run in told.values())
    expressions = sum(len(list(expressions_of(name))) for name in NAMES)
    assert outcomes > expressions  # every one was evaluated, in some run or pass
    assert all(run["payloads"] for run in told.values())


def expressions_of(name: str) -> Iterator[str]:
    """The texts of all expressions of an example's graph."""
    graph = load_definition(definition(name).read_bytes(), file=f"{name}.yaml").graph
    assert graph is not None

    def walk(value: object) -> Iterator[str]:
        if isinstance(value, Expression):
            yield value.text
        elif isinstance(value, tuple | list):
            for each in value:
                yield from walk(each)
        elif hasattr(value, "__dataclass_fields__"):
            for field in value.__dataclass_fields__:
                yield from walk(getattr(value, field))

    yield from walk(graph.definition)
