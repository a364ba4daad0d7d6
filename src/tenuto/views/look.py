"""Reading runs for people: finds a run by part of its id, and gathers what a report needs. Writes
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from tenuto.machine.codec import decode_event
from tenuto.machine.events import (
    AttemptFailed,
    ChildSettled,
    DeadlinePassed,
    Event,
    EventReceived,
    RetryRequested,
    SkipRequested,
)
from tenuto.machine.plan import place_in
from tenuto.machine.scope import INPUT, VARS
from tenuto.model.definition import Call, NodeType
from tenuto.model.errors import InvalidInput, NotFound
from tenuto.model.expressions import Message
from tenuto.model.graph import Graph, inline_of
from tenuto.model.ids import RUN_PLACE, Place, RunId, parts_of
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import FINAL_RUN_STATES, NodeLetter, RunState, TaskState
from tenuto.model.stored import decode_graph
from tenuto.model.works import own_calls
from tenuto.ports.reads import Reads, RunDetail, RunFilter, RunWhole
from tenuto.ports.store import RunRow
from tenuto.views.cures import payload_hints
from tenuto.views.family import CHILDREN_SHOWN, Children, child_line, with_children
from tenuto.views.report import Known, Report, make_report
from tenuto.views.shelf import Shelf
from tenuto.views.timeline import ITEMS_SHOWN, node_of
from tenuto.views.values import value_keys, value_of

_ID_LENGTH = 36
_PAGE = 10_000
_LOOKED_AT = 5
"""Of so many open children it is told what they wait for."""
_KEYS_MAX = 100
"""Of a run's output and error that are read together with the run."""
PARAMS = PayloadKey(RUN_PLACE, PayloadKind.PARAMS)
ITEM = PayloadKey(RUN_PLACE, PayloadKind.ITEM)
_BEGUN = (INPUT, VARS, PARAMS, ITEM)


@dataclass(frozen=True, slots=True)
class History:
    """A run's events in order, decoded as far as people read them, and what goes with them.

    `failures`, `codes`, `early`, `hints`: as in `report.Known`. `items`: failures of each foreach's items so far.
    """

    events: tuple[tuple[int, Event], ...] = ()
    failures: Mapping[int, str] = field(default_factory=dict)
    codes: Mapping[int, str] = field(default_factory=dict)
    early: tuple[tuple[int, Place], ...] = ()
    hints: Mapping[str, str] | None = None
    items: Mapping[Place, int] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """Number of the newest event."""
        return self.events[-1][0] if self.events else 0


def plain(text: str) -> str:
    """A word to search for, with marks for what no stored word has: bytes that were no UTF-8."""
    return text.encode("utf-8", "replace").decode()


_LIKE_MIN = 6
"""Characters of an id from which on one that is nearly so may be meant."""


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
    # A few characters are like those of many strangers.
    close = get_close_matches(wanted, spellings, n=1, cutoff=0.75) if size >= _LIKE_MIN else []
    hint = (
        f"did you mean {spellings[close[0]]}?"
        if close
        else "`tenuto run list` shows those there are"
        if newest
        else "this file holds no runs"
    )
    raise NotFound("run", text, hint)


async def read_graph(reads: Reads, detail: RunDetail, shelf: Shelf | None = None) -> Graph:
    """The graph that a run is pinned to; of the run of a `do:` the graph in there."""
    content_hash, _, path = detail.run.definition.partition("#")
    graph = None if shelf is None else shelf.find(content_hash)
    if graph is None:
        graph = decode_graph((await reads.get_definition(content_hash)).graph)
        if shelf is not None:
            shelf.put(content_hash, graph)
    return inline_of(graph, path)


async def read_whole(
    reads: Reads,
    run_id: RunId,
    *,
    after: int = 0,
    events_max: int = _PAGE,
    row: RunRow | None = None,
) -> RunWhole:
    """What a report needs, as far as one reading finds it.

    `row`: the run as it was a moment ago: where its output or error is kept.
    """
    keys = dict.fromkeys(_BEGUN)
    if row is not None:
        more = (*value_keys(row.output), *value_keys(row.error))
        keys |= dict.fromkeys(more if len(more) <= _KEYS_MAX else ())
    return await reads.get_whole(run_id, tuple(keys), after=after, limit=events_max)


async def read_history(reads: Reads, whole: RunWhole, known: History, graph: Graph) -> History:
    """The history up to where the run was read, reading only what is new since `known` and not among what was read."""
    events = list(known.events)
    items = dict(known.items)
    failed: dict[int, Place] = {}
    found: dict[int, Event] = {}
    run_id, rows = whole.detail.run.run_id, whole.events
    while True:
        for row in rows:
            event, outcomes = decode_event(row.kind, row.at, row.place, row.data)
            events.append((row.seq, event))
            if _is_failure(event) and _is_shown(Place(row.place), items):
                failed[row.seq] = Place(row.place)
            if any(isinstance(each, Message) and each.id is not None for each in outcomes):
                found[row.seq] = event
        last = events[-1][0] if events else 0
        if last >= whole.detail.snapshot.seq:
            break
        rows = await reads.history(run_id, after=last, limit=_PAGE)
        if not rows:
            break
    failures, codes, early = dict(known.failures), dict(known.codes), list(known.early)
    received = {seq for seq, event in events if isinstance(event, EventReceived)}
    if failed:
        keys = [PayloadKey(place, PayloadKind.ERROR) for place in dict.fromkeys(failed.values())]
        for payload in await reads.payload_rows(run_id, keys):
            if failed.get(payload.seq) == payload.key.place:
                error = json.loads(payload.text)
                failures[payload.seq] = message_of(error)
                if payload.seq in received:
                    codes[payload.seq] = code_of(error)
    if found:
        # The number of the event is part of a payload's key, and only this reading tells it.
        for payload in await reads.all_payloads(run_id):
            place, seq = payload.key.place, payload.seq
            if payload.key.kind is PayloadKind.OUTPUT and seq in found and node_of(place):
                node = graph.definition.nodes[graph.numbers[node_of(place)]]
                event = found[seq]
                if node.type is NodeType.WAIT_FOR_EVENT and not (
                    isinstance(event, EventReceived) and event.place == place
                ):
                    early.append((seq, place))
    hints = payload_hints(graph.definition) if known.hints is None else known.hints
    return History(tuple(events), failures, codes, tuple(early), hints, items)


def _is_failure(event: Event) -> bool:
    """Whether it is one, or may be: of an event `fail_when` decides, and its payload tells."""
    if isinstance(event, ChildSettled):
        return event.state != RunState.SUCCESS
    return isinstance(event, AttemptFailed | DeadlinePassed | EventReceived)


def _is_shown(place: Place, items: dict[Place, int]) -> bool:
    """Whether the timeline has a line for a failure at this place: of a foreach's items for the first few only.

    `items` counts those of each foreach.
    """
    if "[" not in place:
        return True
    owner = parts_of(place).owner
    items[owner] = items.get(owner, 0) + 1
    return items[owner] <= ITEMS_SHOWN


def message_of(error: object) -> str:
    """What a failure payload says beyond its code; empty for nothing."""
    if not isinstance(error, dict):
        return ""
    message = str(error.get("message") or "")
    return "" if message == error.get("code") else message


def code_of(error: object) -> str:
    """The code of a failure payload."""
    return str(error.get("code") or "") if isinstance(error, dict) else ""


def _error_keys(graph: Graph, detail: RunDetail) -> list[PayloadKey]:
    """Of the failures of dead nodes, and of handlers that could not undo one."""
    snapshot = detail.snapshot
    places = [
        place_in(graph, snapshot, number)
        for number in range(len(graph.definition.nodes))
        if snapshot.nodes[number] == ord(NodeLetter.DEAD)
    ]
    places += [
        task.place for task, _ in detail.tasks if "!" in task.place and task.state is TaskState.DEAD
    ]
    return [PayloadKey(place, PayloadKind.ERROR) for place in places]


def _given_keys(graph: Graph, detail: RunDetail, history: History) -> list[PayloadKey]:
    """Where the outputs of nodes stand that were given by hand."""
    asked = {
        event.node if isinstance(event, SkipRequested) else event.skip
        for _, event in history.events
        if isinstance(event, SkipRequested | RetryRequested)
    }
    numbers = [graph.numbers[node] for node in sorted(filter(None, asked)) if node in graph.numbers]
    return [
        PayloadKey(place_in(graph, detail.snapshot, number), PayloadKind.GIVEN)
        for number in numbers
        if detail.snapshot.nodes[number] == ord(NodeLetter.SUCCESS)
    ]


async def _read_texts(
    reads: Reads, whole: RunWhole, keys: Iterable[PayloadKey]
) -> Mapping[PayloadKey, str]:
    """The texts of these keys and of those that were read with the run, in one reading of what is lacking."""
    lacking = [key for key in dict.fromkeys(keys) if key not in whole.texts]
    found = await reads.payloads(whole.detail.run.run_id, lacking) if lacking else {}
    return {key: text for key, text in whole.texts.items() if text is not None} | dict(found)


async def with_cause(reads: Reads, run_id: RunId, place: Place, error: object) -> object:
    """The error of a foreach that died of its items, with that of the first as `details.cause`; any other as it is.

    What a child failed of is such an error too, where a foreach in there did.
    """
    details = error.get("details") if isinstance(error, dict) else None
    if not isinstance(error, dict) or not isinstance(details, dict):
        return error
    cause: object = None
    if error.get("code") == "foreach_failed" and isinstance(index := details.get("index"), int):
        items = await reads.list_items(run_id, place, after=index - 1, limit=1)
        if items and items[0].index == index and items[0].error is not None:
            told = json.loads(items[0].error)
            cause = await with_cause(reads, run_id, items[0].place, told)
    elif isinstance(told := details.get("cause"), dict) and "run_id" in details:
        child = (await reads.find_children(run_id, (place,))).get(place)
        if child is not None and child == details["run_id"]:
            cause = await with_cause(reads, child, Place(str(told.get("node"))), told)
    return error if cause is None else error | {"details": details | {"cause": cause}}


def _caused(error: object, graph: Graph, detail: RunDetail, errors: Mapping[str, object]) -> object:
    """The run's error, with the cause that its node's error has."""
    if not isinstance(error, dict) or error.get("node") not in graph.numbers:
        return error
    at_node = errors.get(place_in(graph, detail.snapshot, graph.numbers[error["node"]]))
    details = error.get("details")
    if not isinstance(at_node, dict) or not isinstance(details, dict):
        return error
    told = at_node.get("details")
    if (
        at_node.get("code") != error.get("code")
        or not isinstance(told, dict)
        or "cause" not in told
    ):
        return error
    return error | {"details": details | {"cause": told["cause"]}}


# -- children --------------------------------------------------------------------------------------


async def read_called(reads: Reads, graph: Graph, detail: RunDetail) -> Mapping[Place, RunId]:
    """The run that each call of a graph has called last, by the call's place."""
    places = [
        place_in(graph, detail.snapshot, number)
        for number, node in enumerate(graph.definition.nodes)
        if isinstance(node.detail, Call)
        and detail.snapshot.nodes[number] != ord(NodeLetter.PENDING)
    ]
    return await reads.find_children(detail.run.run_id, places) if places else {}


async def read_children(
    reads: Reads,
    graph: Graph,
    detail: RunDetail,
    *,
    now: int,
    database: str,
    shelf: Shelf | None = None,
) -> Children:
    """The newest runs that a run has called. Those few that are open say what they wait for."""
    if next(own_calls(graph.definition), None) is None:
        return Children()
    run = detail.run
    wanted = RunFilter(namespace=run.namespace, parent=run.run_id, limit=CHILDREN_SHOWN + 1)
    lines, looked_at = [], 0
    for row in await reads.list_runs(wanted):
        waits: tuple[str, str] = ("", "")
        if row.state not in FINAL_RUN_STATES and looked_at < _LOOKED_AT:
            looked_at += 1
            waits = await _waits_of(reads, row.run_id, now=now, database=database, shelf=shelf)
        lines.append(child_line(row, waits_for=waits[0], command=waits[1]))
    return with_children(lines, open=detail.snapshot.children)


async def _waits_of(
    reads: Reads, run_id: RunId, *, now: int, database: str, shelf: Shelf | None
) -> tuple[str, str]:
    """What a run waits for, and the command that ends it: of the first node that has one, else of the first."""
    detail = await reads.get_run(run_id, items=False)
    graph = await read_graph(reads, detail, shelf)
    hints = payload_hints(graph.definition)
    known = Known(hints=hints, workers=await reads.list_workers(), database=database, now=now)
    waits = make_report(graph, detail, known).waits
    first = next((line for line in waits if line.command), waits[0] if waits else None)
    return ("", "") if first is None else (first.waits_for, first.command)


# -- all of it -------------------------------------------------------------------------------------


async def look(  # noqa: PLR0913 - what a caller knows already, by keyword
    reads: Reads,
    run_id: RunId,
    *,
    now: int,
    database: str = "",
    history: History | None = None,
    graph: Graph | None = None,
    engine: str | None = "",
    shelf: Shelf | None = None,
    whole: RunWhole | None = None,
) -> tuple[Report, History, Graph]:
    """All there is to say about a run, and what need not be read again next time.

    Args:
        now: microseconds, for what is counted from the present.
        database: as commands must name it; empty for the default.
        engine: as in `report.Known`.
        shelf: where graphs are kept.
        whole: what `read_whole` has found already.
    """
    whole = whole or await read_whole(reads, run_id, after=0 if history is None else history.last)
    detail = whole.detail
    graph = graph or await read_graph(reads, detail, shelf)
    history = await read_history(reads, whole, history or History(), graph)
    final = detail.run.state in FINAL_RUN_STATES
    errors_at, given_at = _error_keys(graph, detail), _given_keys(graph, detail, history)
    values_at = (*value_keys(detail.run.output), *value_keys(detail.run.error))
    texts = await _read_texts(reads, whole, (*errors_at, *given_at, *values_at))
    errors: dict[str, object] = {
        key.place: await with_cause(reads, run_id, key.place, json.loads(texts[key]))
        for key in errors_at
        if key in texts
    }
    error = value_of(detail.run.error, texts)
    known = Known(
        history=history.events,
        failures=history.failures,
        codes=history.codes,
        early=history.early,
        hints=history.hints or {},
        engine=engine,
        workers=await reads.list_workers() if not final else (),
        errors=errors,
        given=frozenset(key.place for key in given_at if key in texts),
        called=await read_called(reads, graph, detail),
        children=await read_children(reads, graph, detail, now=now, database=database, shelf=shelf),
        input=json.loads(texts.get(INPUT, "null")),
        vars=json.loads(texts.get(VARS, "{}")),
        params=json.loads(texts.get(PARAMS, "null")),
        item=json.loads(texts.get(ITEM, "null")),
        output=value_of(detail.run.output, texts),
        error=_caused(error, graph, detail, errors),
        database=database,
        now=now,
    )
    return make_report(graph, detail, known), history, graph
