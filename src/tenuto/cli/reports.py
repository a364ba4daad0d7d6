"""A run's document, as a server answers it, back as the report that `render` shows. Asks nobody.

The document leaves out what only the live view uses; what can be told from the rest is filled in again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tenuto.model.ids import Place, RunId, item_place
from tenuto.model.instants import parse_instant
from tenuto.views.family import ChildLine, Children, ClosingLine, ItemCounts
from tenuto.views.report import NodeLine, Report
from tenuto.views.timeline import Step

Document = Mapping[str, Any]
_DATABASE = re.compile(r" --database (?:'[^']*'|\S+)$")


def report_of(document: Document, words: str = "") -> Report:
    """The report of a run's document. `words`: what its commands must say of the server that they are for."""
    created = parse_instant(document["created_at"])
    timeline = tuple(_step(each, created) for each in document["timeline"])
    under_way = {
        step.node: step for step in timeline if step.what == "attempt" and step.ended_at is None
    }
    ended = document["ended_at"]
    return Report(
        run_id=document["run_id"],
        workflow=document["workflow"],
        version=document["version"],
        state=document["state"],
        key=document["key"],
        created_at=created,
        ended_at=None if ended is None else parse_instant(ended),
        now=created + document["lasted_us"],
        semantics=document["semantics"],
        quarantine=document["quarantine"],
        go_on=_with(document["go_on"], words),
        nodes=tuple(_node(each, under_way.get(each["id"]), words) for each in document["nodes"]),
        timeline=timeline,
        input=document["input"],
        vars=document["vars"],
        output=document["output"],
        error=document["error"],
        params=document["params"],
        item=document["item"],
        parent=_parent(document["parent"]),
        source=document["source"],
        epoch=document["epoch"],
        priority=document.get("priority", 0),  # a server of before has no such key
        compensation=document["compensation"],
        closing=_closing(document["closing"]),
        children=_children(document["children"], words),
        held_by=document.get("held_by") or "",
    )


def _parent(document: Document | None) -> tuple[RunId, Place] | None:
    if document is None:
        return None
    place = Place(document["node"])
    if document["item"] is not None:
        place = item_place(place, document["item"])
    return RunId(document["run_id"]), place


def _closing(document: Document | None) -> ClosingLine | None:
    if document is None:
        return None
    return ClosingLine(**{**document, "current": document["current"] or ""})


def _children(document: Document, words: str) -> Children:
    lines = tuple(
        ChildLine(
            run_id=each["run_id"],
            place=each["place"],
            workflow=each["workflow"],
            version=each["version"],
            state=each["state"],
            created_at=parse_instant(each["created_at"]),
            ended_at=None if each["ended_at"] is None else parse_instant(each["ended_at"]),
            waits_for=each["waits_for"] or "",
            command=_with(each["command"], words),
        )
        for each in document["newest"]
    )
    return Children(lines, open=document["open"], more=document["more"])


def _node(document: Document, step: Step | None, words: str) -> NodeLine:
    return NodeLine(
        id=document["id"],
        type=document["type"],
        state=document["state"],
        place=step.place if step is not None and document["state"] == "running" else "",
        attempts=document["attempts"],
        iteration=document["iteration"],
        since=None if step is None else step.started_at,
        waits_for=document["waits_for"] or "",
        command=_with(document["command"], words),
        took=tuple(document["took"] or ()),
        error=document["error"],
        items=None if document["items"] is None else ItemCounts(**document["items"]),
        child=document["child"] or "",
        undo=document["undo"] or "",
        given=bool(document.get("given")),  # a server of before has no such key
        undo_error=document["undo_error"],
    )


def _step(document: Document, created: int) -> Step:
    start, took = document["start_us"], document["duration_us"]
    started = None if start is None else created + start
    return Step(
        place=document["place"],
        node=document["node"] or "",
        what=document["what"],
        result=document["result"],
        attempt=document["attempt"],
        started_at=started,
        ended_at=None if started is None or took is None else started + took,
        code=document["code"],
        message=document["message"] or "",
        worker=document["worker"] or "",
        child=document["child"] or "",
    )


def _with(command: str | None, words: str) -> str:
    """The command for who asks a server: the file that it has open is the server's own affair."""
    return f"{_DATABASE.sub('', command)}{words}" if command else ""
