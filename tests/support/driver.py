"""A program that has an engine: definitions as YAML in, ends and values out. Synchronous; every wait is bounded."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tenuto.app.definitions import load_definition
from tenuto.app.embedded import Engine
from tenuto.coordinator.commands import StartRequest
from tenuto.dsl.inputs import check_input
from tenuto.machine.codec import decode_event
from tenuto.machine.fold import fold
from tenuto.model.errors import NotFound
from tenuto.model.graph import Graph, inline_of
from tenuto.model.ids import RunId
from tenuto.model.states import FINAL_RUN_STATES
from tenuto.model.stored import decode_graph
from tenuto.ports.reads import Reads, RunFilter
from tenuto.ports.store import DefinitionRow, RunRow
from tenuto.views.values import read_value
from tenuto.worker.registry import Registry

T = TypeVar("T")
PATIENCE_S = 60


class Driver:
    """Asks an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def commands(self) -> Any:
        """The engine's verbs, each to be handed to `ask`."""
        return self.engine.commands

    def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        what = str(coroutine)
        answer = self.engine.call(coroutine)
        try:
            return answer.result(timeout=PATIENCE_S)
        except TimeoutError:
            if answer.done():
                raise  # the engine's own
            raise AssertionError(f"no answer of {what}\n{look_at(self.engine)}") from None

    def deploy(self, text: str, *aliases: str) -> DefinitionRow:
        return self.ask(self.engine.commands.deploy(graph_of(text), aliases=aliases))

    def begin(self, text: str, *, input: object = None) -> RunId:
        graph = graph_of(text)
        row = self.ask(self.engine.commands.deploy(graph))
        given = {} if input is None else input
        request = StartRequest(
            graph_hash=row.hash,
            workflow=row.name,
            version=row.version,
            input=check_input(graph.definition.input_schema, given),
            vars=graph.definition.vars,
        )
        [started] = self.ask(self.engine.commands.start([request]))
        return started.run_id

    def end(self, run_id: RunId) -> RunRow:
        return self.ask(self.engine.commands.wait(run_id))

    def run(self, text: str, *, input: object = None) -> RunRow:
        return self.end(self.begin(text, input=input))

    def row(self, run_id: RunId) -> RunRow:
        [row] = self.ask(self.engine.reads.get_runs([run_id]))
        return row

    def output(self, run: RunRow) -> Any:
        return self.ask(read_value(self.engine.reads, run.run_id, run.output))

    def error(self, run: RunRow) -> Any:
        return self.ask(read_value(self.engine.reads, run.run_id, run.error))

    def kinds(self, run_id: RunId) -> list[str]:
        return [row.kind for row in self.ask(self.engine.reads.history(run_id))]

    def children(self, run_id: RunId) -> Sequence[RunRow]:
        """Oldest first."""
        rows = self.ask(self.engine.reads.list_runs(RunFilter(parent=run_id, limit=1_000)))
        return rows[::-1]

    def letters(self, run_id: RunId) -> str:
        return self.ask(self.engine.reads.get_run(run_id)).snapshot.nodes.decode()

    def until(self, holds: Callable[[], object]) -> None:
        """Look again until something holds."""
        given_up_at = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < given_up_at, "it never came true"
            time.sleep(0.005)

    def check(self, *run_ids: RunId) -> None:
        """The history of each of these runs yields what is stored, and so do those of all they called."""
        left = list(run_ids)
        while left:
            run_id = left.pop()
            self.ask(check_fold(self.engine.reads, run_id))
            left += [child.run_id for child in self.children(run_id)]


def graph_of(text: str) -> Graph:
    loaded = load_definition(text, file="test.yaml")
    assert loaded.graph is not None, [str(finding) for finding in loaded.findings]
    return loaded.graph


async def check_fold(reads: Reads, run_id: RunId) -> None:
    """The history yields what is stored; what is decided meanwhile (a late word of a child, say) is left out."""
    detail = await reads.get_run(run_id)
    content_hash, _, path = detail.run.definition.partition("#")
    graph = inline_of(decode_graph((await reads.get_definition(content_hash)).graph), path)
    newest = detail.snapshot.seq
    rows = [row for row in await reads.history(run_id, limit=1_000_000) if row.seq <= newest]
    assert [row.seq for row in rows] == list(range(1, newest + 1))
    snapshot, ledger = fold(
        run_id, graph, [decode_event(r.kind, r.at, r.place, r.data) for r in rows]
    )
    assert snapshot == detail.snapshot
    stored = {task.place: task for task, _ in detail.tasks if task.input_seq}
    assert ledger.tasks == stored
    if detail.run.state not in FINAL_RUN_STATES:
        assert ledger.timers == {(t.place, t.kind): t for t in detail.timers}


@contextmanager
def engine_with(
    *functions: Callable[..., Any], path: Path | str = ":memory:", **options: Any
) -> Iterator[Driver]:
    registry = Registry()
    for function in functions:
        registry.add(function)
    engine = Engine(path, registry=registry, **options)
    engine.start()
    try:
        yield Driver(engine)
    finally:
        engine.stop()


def look_at(engine: Engine) -> str:
    """What an engine that does not answer is doing: its loops, tasks, threads and unfinished runs."""

    async def look() -> str:
        told = io.StringIO()
        print(*engine.core.setting.health.loops(), sep="\n", file=told)
        for task in asyncio.all_tasks():
            task.print_stack(limit=4, file=told)
        return told.getvalue()

    async def rows() -> str:
        listed = await engine.reads.list_runs(RunFilter(limit=10))
        details = [await engine.reads.get_run(row.run_id) for row in listed]
        return "\n".join(f"{each} {engine.now()=}" for each in details)

    told = []
    for part in (look, rows):
        try:
            told.append(engine.call(part()).result(timeout=5))
        except Exception as error:  # the more is told the better
            told.append(f"{part.__name__}: {error!r}")
    frames = sys._current_frames()
    for thread in threading.enumerate():
        stack = "".join(traceback.format_stack(frames.get(thread.ident or 0), limit=6))
        told.append(f"{thread.name}:\n{stack}")
    return "\n".join(told)


def missing(driver: Driver, coroutine: Coroutine[Any, Any, Any]) -> bool:
    """Whether a request says that there is no such thing."""
    try:
        driver.ask(coroutine)
    except NotFound:
        return True
    return False


def dumps(value: object) -> str:
    return json.dumps(value)
