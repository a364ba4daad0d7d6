"""Reading runs for people: finds a run by part of its id, and gathers what a report needs. Writes
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from tenuto.machine.codec import decode_event
from tenuto.machine.events import AttemptFailed, DeadlinePassed, Event, EventReceived
from tenuto.machine.scope import INPUT, VARS
from tenuto.model.definition import NodeType
from tenuto.model.errors import InvalidInput, NotFound
from tenuto.model.expressions import Message
from tenuto.model.graph import Graph
from tenuto.model.ids import Place, RunId, place_of
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import FINAL_RUN_STATES, NodeLetter
from tenuto.model.stored import decode_graph
from tenuto.ports.reads import Reads, RunDetail, RunFilter
from tenuto.views.cures import payload_hints
from tenuto.views.report import Known, Report, make_report
from tenuto.views.timeline import node_of
from tenuto.views.values import read_value

_ID_LENGTH = 36
_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class History:
    """A run's events in order, decoded as far as people read them, and what goes with them.

    `failures`, `early`, `hints`: as in `report.Known`.
    """

    events: tuple[tuple[int, Event], ...] = ()
    failures: Mapping[int, str] = field(default_factory=dict)
    early: tuple[tuple[int, Place], ...] = ()
    hints: Mapping[str, str] | None = None

    @property
    def last(self) -> int:
        """Number of the newest event."""
        return self.events[-1][0] if self.events else 0


def plain(text: str) -> str:
    """A word to search for, with marks for what no stored word has: bytes that were no UTF-8."""
    return text.encode("utf-8", "replace").decode()


async def find_run(reads: Reads, text: str) -> RunId:
    """The run whose id is `text`, or begins or ends with it.

    Raises:
        NotFound: there is none; the hint names one that is nearly so.
        InvalidInput: several are meant.
    """
    wanted = plain(text.strip().lower())
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


async def read_history(reads: Reads, run_id: RunId, known: History, graph: Graph) -> History:
    """The history as it stands, reading only what is new since `known`."""
    events = list(known.events)
    failed: dict[int, Event] = {}
    found: dict[int, Event] = {}
    while True:
        last = events[-1][0] if events else 0
        rows = await reads.history(run_id, after=last, limit=_PAGE)
        for row in rows:
            event, outcomes = decode_event(row.kind, row.at, row.place, row.data)
            events.append((row.seq, event))
            if isinstance(event, AttemptFailed | DeadlinePassed):
                failed[row.seq] = event
            if any(isinstance(each, Message) and each.id is not None for each in outcomes):
                found[row.seq] = event
        if len(rows) < _PAGE:
            break
    failures, early = dict(known.failures), list(known.early)
    if failed or found:
        # The number of the event is part of a payload's key, and only this reading tells it.
        for payload in await reads.all_payloads(run_id):
            place, seq = payload.key.place, payload.seq
            if payload.key.kind is PayloadKind.ERROR and _at(failed.get(seq)) == place:
                failures[seq] = message_of(json.loads(payload.text))
            elif payload.key.kind is PayloadKind.OUTPUT and seq in found and place:
                node = graph.definition.nodes[graph.numbers[node_of(place)]]
                received = found[seq]
                if node.type is NodeType.WAIT_FOR_EVENT and not (
                    isinstance(received, EventReceived) and received.place == place
                ):
                    early.append((seq, place))
    hints = payload_hints(graph.definition) if known.hints is None else known.hints
    return History(tuple(events), failures, tuple(early), hints)


def _at(event: Event | None) -> str | None:
    return getattr(event, "place", None)


def message_of(error: object) -> str:
    """What a failure payload says beyond its code; empty for nothing."""
    if not isinstance(error, dict):
        return ""
    message = str(error.get("message") or "")
    return "" if message == error.get("code") else message


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
    engine: str | None = "",
) -> tuple[Report, History, Graph]:
    """All there is to say about a run, and what need not be read again next time.

    Args:
        now: microseconds, for what is counted from the present.
        database: as commands must name it; empty for the default.
        engine: as in `report.Known`.
    """
    detail = await reads.get_run(run_id)
    graph = graph or await read_graph(reads, detail)
    history = await read_history(reads, run_id, history or History(), graph)
    final = detail.run.state in FINAL_RUN_STATES
    begun = await reads.payloads(run_id, [INPUT, VARS])
    known = Known(
        history=history.events,
        failures=history.failures,
        early=history.early,
        hints=history.hints or {},
        engine=engine,
        workers=await reads.list_workers() if not final else (),
        errors=await read_errors(reads, graph, detail),
        input=json.loads(begun.get(INPUT, "null")),
        vars=json.loads(begun.get(VARS, "{}")),
        output=await read_value(reads, run_id, detail.run.output),
        error=await read_value(reads, run_id, detail.run.error),
        database=database,
        now=now,
    )
    return make_report(graph, detail, known), history, graph
