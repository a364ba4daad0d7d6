"""Parts of a run up close: a node with its values, items of a foreach, passes of a node in loops. Reads only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from tenuto.machine.plan import place_in
from tenuto.model.definition import Foreach
from tenuto.model.errors import InvalidInput, NotFound
from tenuto.model.graph import Graph
from tenuto.model.ids import ON_FAILURE, Place, RunId, item_place, parts_of
from tenuto.model.names import node_meant
from tenuto.model.payload import ItemsView, JoinView, Output, PayloadKey, PayloadKind
from tenuto.model.states import EdgeLetter, NodeLetter, TaskState
from tenuto.ports.reads import Reads, RunDetail
from tenuto.views import documents
from tenuto.views.documents import Document, page_document
from tenuto.views.family import items_document
from tenuto.views.look import read_graph, with_cause
from tenuto.views.report import NodeLine, Report
from tenuto.views.timeline import node_of, step_json
from tenuto.views.values import read_output

ITEMS_MAX = 1_000
"""Outputs of a foreach with more items are not put together for people: `list_items` has them by pages."""
_PASS = re.compile(r"(?:\.\d+)*(?:\[p?\d+\])?(?:!undo)?(?:~\d+)?")
_KINDS = (PayloadKind.INPUT, PayloadKind.OUTPUT, PayloadKind.GIVEN, PayloadKind.ERROR)


async def node_document(reads: Reads, report: Report, graph: Graph, text: str) -> Document:
    """Values, attempts and notes of a node in its current pass, or of the place that `text` names.

    Raises NotFound.
    """
    run_id = RunId(report.run_id)
    if text == ON_FAILURE and graph.definition.on_failure is not None:
        line = NodeLine(id=text, type=graph.definition.on_failure.type, state="pending", place=text)
    else:
        line = _line_of(report, text)
    place = Place(line.place if text == line.id else text)
    detail = await reads.get_run(run_id, items=False)
    if place != line.place or text == ON_FAILURE:
        line = await _line_at(reads, detail, graph, line, place)
    texts = await reads.payloads(run_id, [PayloadKey(place, kind) for kind in _KINDS])
    values = {kind: texts.get(PayloadKey(place, kind)) for kind in _KINDS}
    given = values[PayloadKind.GIVEN] is not None and line.state == "success"
    output = values[PayloadKind.GIVEN] if given else values[PayloadKind.OUTPUT]
    notes = await reads.notes(run_id, place=place)
    return {
        "node": line.id,
        "place": place,
        "type": line.type,
        "state": line.state,
        "input": _value(values[PayloadKind.INPUT]),
        "output": (
            await _view(reads, run_id, detail, graph, line) if output is None else _value(output)
        ),
        "given": given,
        "error": await with_cause(reads, run_id, place, _value(values[PayloadKind.ERROR])),
        "waits_for": line.waits_for or None,
        "command": line.command or None,
        "items": items_document(line.items),
        "child": line.child or None,
        "undo": line.undo or None,
        "undo_error": line.undo_error,
        "attempts": [
            step_json(step, report.created_at) for step in report.timeline if step.place == place
        ],
        "notes": [documents.note_document(row) for row in notes],
    }


def _line_of(report: Report, text: str) -> NodeLine:
    """The line of the node that a text names, by itself or by one of its places. Raises NotFound."""
    lines = {line.id: line for line in report.nodes}
    line = lines.get(node_of(text))
    if line is None or not _PASS.fullmatch(text[len(line.id) :]):
        raise NotFound("node", text, node_meant(text, lines))
    return line


async def _line_at(
    reads: Reads, detail: RunDetail, graph: Graph, line: NodeLine, place: Place
) -> NodeLine:
    """The same line as it stands at another place of the node: an item, another pass, a handler."""
    parts = parts_of(place)
    at = replace(line, place=place, items=None, waits_for="", command="", undo="", undo_error=None)
    if parts.index is not None:
        found = await reads.list_items(
            detail.run.run_id, parts.owner, after=parts.index - 1, limit=1
        )
        if not found or found[0].index != parts.index:
            return replace(at, state="pending", child="")
        [item] = found
        return replace(at, state=item.state, child=await _child_at(reads, detail, place))
    task = next((task for task, _ in detail.tasks if task.place == place), None)
    if parts.undo and line.id in graph.numbers:
        handler = graph.definition.nodes[graph.numbers[line.id]].compensate
        at = replace(at, type=at.type if handler is None else handler.type)
    if task is not None:
        running = task.state is TaskState.PENDING and task.child is not None
        at = replace(at, state="running" if running else task.state)
    return replace(at, child=await _child_at(reads, detail, place))


async def _child_at(reads: Reads, detail: RunDetail, place: Place) -> str:
    return (await reads.find_children(detail.run.run_id, (place,))).get(place, "")


async def _view(
    reads: Reads, run_id: RunId, detail: RunDetail, graph: Graph, line: NodeLine
) -> object:
    """Outputs that are put together on reading: of a join what it joined, of a foreach those of its items."""
    number = graph.numbers.get(line.id)
    if number is None or line.state != "success":
        return None
    if place_in(graph, detail.snapshot, number) != line.place:
        return None
    if line.type == "join":
        return await read_output(reads, run_id, _joined(graph, detail, number))
    if line.items is None or line.items.total > ITEMS_MAX:
        return None
    return await read_output(reads, run_id, ItemsView(Place(line.place), line.items.total))


def _joined(graph: Graph, detail: RunDetail, number: int) -> Output:
    """What a join joined: upstream id -> output, assembled as its readers see it (SEMANTICS J4)."""
    snapshot, nodes = detail.snapshot, graph.definition.nodes
    record = snapshot.records.get(number)
    if record is not None and record.view is not None:
        return record.view
    entries: dict[str, Output] = {}
    for edge in graph.ins[number]:
        if snapshot.edges[edge] != ord(EdgeLetter.TAKEN):
            continue
        source = graph.definition.edges[edge].source
        entries[nodes[source].id] = (
            _output_of(graph, detail, source)
            if snapshot.nodes[source] == ord(NodeLetter.SUCCESS)
            else None
        )
    return JoinView(tuple(sorted(entries.items(), key=lambda entry: entry[0])))


def _output_of(graph: Graph, detail: RunDetail, number: int) -> Output:
    record = detail.snapshot.records.get(number)
    if record is not None and record.view is not None:
        return record.view
    place = place_in(graph, detail.snapshot, number)
    items = detail.snapshot.items.get(number)
    if items is not None:
        return ItemsView(place, items.listed)
    return PayloadKey(place, PayloadKind.OUTPUT)


# -- items and iterations --------------------------------------------------------------------------


async def items_page(
    reads: Reads,
    run_id: RunId,
    text: str,
    *,
    states: Sequence[str],
    limit: int,
    after: int,
) -> Document:
    """A page of the items of a foreach, in its current pass or in the one that `text` names. Raises NotFound,
    InvalidInput.
    """
    detail = await reads.get_run(run_id, items=False)
    graph = await read_graph(reads, detail)
    number = _number_of(graph, text)
    if not isinstance(graph.definition.nodes[number].detail, Foreach):
        raise InvalidInput(
            f"{node_of(text)} is no foreach, so it has no items; {_lists(graph)}", path="node"
        )
    place = place_in(graph, detail.snapshot, number) if text in graph.numbers else Place(text)
    rows = await reads.list_items(run_id, place, after=after, limit=limit + 1, states=states)
    shown = rows[:limit]
    places = [item_place(place, row.index) for row in shown]
    kinds = (PayloadKind.INPUT, PayloadKind.OUTPUT)
    texts = await reads.payloads(
        run_id, [PayloadKey(place, kind) for place in places for kind in kinds]
    )
    children = await reads.find_children(run_id, places)
    items = [
        {
            "index": row.index,
            "place": row.place,
            "state": row.state,
            "attempt": row.attempt,
            "worker": row.worker,
            "child": row.child or children.get(row.place),
            "input": _value(texts.get(PayloadKey(row.place, PayloadKind.INPUT))),
            "output": (
                _value(texts.get(PayloadKey(row.place, PayloadKind.OUTPUT))) if row.output else None
            ),
            "error": _value(row.error),
        }
        for row in shown
    ]
    return page_document(items, str(shown[-1].index) if len(rows) > limit else None)


async def iterations_page(
    reads: Reads, run_id: RunId, node: str, *, limit: int, after: tuple[int, ...]
) -> Document:
    """A page of the passes of a node, oldest first. Raises NotFound, InvalidInput."""
    detail = await reads.get_run(run_id, items=False)
    graph = await read_graph(reads, detail)
    if node not in graph.numbers:
        raise NotFound("node", node, node_meant(node, graph.numbers))
    if not graph.loops_of[graph.numbers[node]]:
        raise InvalidInput(f"{node} is in no loop, so it has no iterations", path="node")
    rows = await reads.list_passes(run_id, node, after=after, limit=limit + 1)
    shown = rows[:limit]
    kinds = (PayloadKind.OUTPUT, PayloadKind.GIVEN)
    texts = await reads.payloads(
        run_id, [PayloadKey(row.place, kind) for row in shown for kind in kinds]
    )
    found = []
    for row in shown:
        given = texts.get(PayloadKey(row.place, PayloadKind.GIVEN))
        output = texts.get(PayloadKey(row.place, PayloadKind.OUTPUT)) if given is None else given
        found.append(
            {
                "iteration": row.passes[-1],
                "iterations": list(row.passes),
                "place": row.place,
                "state": row.state,
                "attempt": row.attempt,
                "output": _value(output),
                "error": _value(row.error),
            }
        )
    last = ".".join(map(str, shown[-1].passes)) if len(rows) > limit else None
    return page_document(found, last)


def _number_of(graph: Graph, text: str) -> int:
    """The node that a text names, by itself or by a place of it. Raises NotFound."""
    id = node_of(text)
    if id not in graph.numbers or not _PASS.fullmatch(text[len(id) :]):
        raise NotFound("node", text, node_meant(text, graph.numbers))
    return graph.numbers[id]


def _lists(graph: Graph) -> str:
    names = [node.id for node in graph.definition.nodes if isinstance(node.detail, Foreach)]
    return f"{', '.join(names)} has" if len(names) == 1 else _several(names)


def _several(names: Sequence[str]) -> str:
    return f"{', '.join(names)} have" if names else "this workflow has no foreach"


def meant(wrong: str, known: Iterable[str] | Mapping[str, object]) -> str:
    """A hint that names what was probably meant; empty for none."""
    close = get_close_matches(wrong, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else ""


def _value(text: str | None) -> object:
    return None if text is None else json.loads(text)
