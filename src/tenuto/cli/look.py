"""Reading runs for people: finds a run by part of its id, and gathers what a report needs. Writes
nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from time import time_ns  # noqa: TID251 - ages for people
from typing import Any, TypeVar

from tenuto.cli.report import Known, Report, make_report
from tenuto.machine.codec import decode_event
from tenuto.machine.events import Event
from tenuto.model.errors import InvalidInput, NotFound
from tenuto.model.graph import Graph
from tenuto.model.ids import RunId, place_of
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import FINAL_RUN_STATES, NodeLetter
from tenuto.model.stored import decode_graph
from tenuto.ports.reads import Reads, RunDetail, RunFilter
from tenuto.sdk.values import read_value
from tenuto.settings import Database

_T = TypeVar("_T")
_ID_LENGTH = 36
_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class History:
    """A run's events in order, decoded as far as people read them."""

    events: tuple[tuple[int, Event], ...] = ()

    @property
    def last(self) -> int:
        """Number of the newest event."""
        return self.events[-1][0] if self.events else 0


async def find_run(reads: Reads, text: str) -> RunId:
    """The run whose id is `text`, or begins or ends with it.

    Raises:
        NotFound: there is none; the hint names one that is nearly so.
        InvalidInput: several are meant.
    """
    wanted = text.strip().lower()
    if not wanted:
        raise InvalidInput("a run's id is empty")
    found = await reads.list_run_ids(wanted)
    exact = [run_id for run_id in found if run_id == wanted]
    if exact:
        return exact[0]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
        raise InvalidInput(f"{len(found)} runs match {text!r} ({listed}); give more of the id")
    newest = [row.run_id for row in await reads.list_runs(RunFilter(limit=200))]
    whole = len(wanted) >= _ID_LENGTH - 8
    size = len(wanted)
    spellings = {run_id: run_id for run_id in newest} | (
        {} if whole else {part: run_id for run_id in newest for part in (run_id[-size:],)}
    )
    close = get_close_matches(wanted, spellings, n=1, cutoff=0.75)
    hint = (
        f"did you mean {spellings[close[0]]}?"
        if close
        else "`tenuto run list` shows those there are"
        if newest
        else "this file holds no runs"
    )
    raise NotFound("run", text, hint)


async def read_graph(reads: Reads, detail: RunDetail) -> Graph:
    """The graph that a run is pinned to."""
    return decode_graph((await reads.get_definition(detail.run.definition)).graph)


async def read_history(reads: Reads, run_id: RunId, known: History) -> History:
    """The history as it stands, reading only what is new since `known`."""
    events = list(known.events)
    while True:
        last = events[-1][0] if events else 0
        rows = await reads.history(run_id, after=last, limit=_PAGE)
        events += [
            (row.seq, decode_event(row.kind, row.at, row.place, row.data)[0]) for row in rows
        ]
        if len(rows) < _PAGE:
            return History(tuple(events))


async def read_errors(reads: Reads, graph: Graph, detail: RunDetail) -> Mapping[str, object]:
    """Failure payloads of the dead nodes, by place."""
    snapshot = detail.snapshot
    keys = [
        PayloadKey(
            place_of(node.id, tuple(snapshot.passes[loop] for loop in graph.loops_of[number])),
            PayloadKind.ERROR,
        )
        for number, node in enumerate(graph.definition.nodes)
        if snapshot.nodes[number] == ord(NodeLetter.DEAD)
    ]
    texts = await reads.payloads(detail.run.run_id, keys) if keys else {}
    return {key.place: json.loads(text) for key, text in texts.items()}


async def look(
    reads: Reads,
    run_id: RunId,
    *,
    now: int,
    database: str = "",
    history: History | None = None,
    graph: Graph | None = None,
) -> tuple[Report, History, Graph]:
    """All there is to say about a run, and what need not be read again next time.

    Args:
        now: microseconds, for what is counted from the present.
        database: as commands must name it; empty for the default.
    """
    detail = await reads.get_run(run_id)
    graph = graph or await read_graph(reads, detail)
    history = await read_history(reads, run_id, history or History())
    final = detail.run.state in FINAL_RUN_STATES
    known = Known(
        history=history.events,
        workers=await reads.list_workers() if not final else (),
        errors=await read_errors(reads, graph, detail),
        output=await read_value(reads, run_id, detail.run.output),
        error=await read_value(reads, run_id, detail.run.error),
        database=database,
        now=now,
    )
    return make_report(graph, detail, known), history, graph


def read(database: Database, ask: Callable[[Reads], Coroutine[Any, Any, _T]]) -> _T:
    """Ask a file that must exist, read-only; works while an engine has it open."""
    from tenuto.app.files import read_only

    assert database.path is not None
    with read_only(database.path) as opened:
        return asyncio.run(ask(opened.reads))


def now_us() -> int:
    """The wall clock, for what people read as an age; nothing is decided by it."""
    return time_ns() // 1_000


def open_runs(counts: Mapping[str, int]) -> int:
    """How many of the counted runs are unfinished."""
    return sum(count for state, count in counts.items() if state not in FINAL_RUN_STATES)


def unfinished_line(others: int, database: str) -> Sequence[str]:
    """What `run FILE` says about runs that it leaves alone; nothing where there are none."""
    if not others:
        return ()
    noun = "run" if others == 1 else "runs"
    where = f" --database {database}" if database else ""
    return (f"{others} other unfinished {noun} left alone; see `tenuto run list{where}`",)
