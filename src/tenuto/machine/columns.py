"""A run's state as the columns `nodes`, `edges` and `rest` of its row, and back. What is as it begins is left out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from tenuto.machine.codec import dumps, plain_output, read_output
from tenuto.machine.snapshot import Closing, Done, Items, Record, Snapshot
from tenuto.model.ids import Place, RunId
from tenuto.model.payload import PayloadKey
from tenuto.model.states import NodeLetter, RunState

_PLAIN = {
    "epoch": 1,
    "passes": (),
    "attempts": {},
    "failures": (),
    "closed_by": (),
    "parent": None,
    "index": None,
    "depth": 0,
    "parent_paused": False,
    "paused_since": None,
    "children": 0,
    "ids": {},
    "compensation": "none",
    "source": None,
    "priority": 0,
}
"""Fields that JSON holds as they are (its keys are texts), each with how a run begins."""
_VALUES = attrgetter(*_PLAIN)
_AT_FIRST = tuple(_PLAIN.values())


def encode_snapshot(snapshot: Snapshot) -> tuple[str, str, str]:
    """The columns `nodes`, `edges` and `rest` (JSON of what is sparse, keys sorted) of `run_states`."""
    rest: dict[str, object] = {"live": snapshot.live}
    values = _VALUES(snapshot)
    if values != _AT_FIRST:
        for (name, at_first), value in zip(_PLAIN.items(), values, strict=True):
            if value != at_first:
                rest[name] = _by_text(value) if isinstance(at_first, dict) else value
    if snapshot.records:
        rest["records"] = {str(n): _encode_record(r) for n, r in snapshot.records.items()}
    if snapshot.items:
        rest["items"] = {str(n): _encode_items(items) for n, items in snapshot.items.items()}
    if snapshot.done:
        rest["done"] = [_encode_done(done) for done in snapshot.done]
    if snapshot.closing is not None:
        rest["closing"] = _encode_closing(snapshot.closing)
    return snapshot.nodes.decode("ascii"), snapshot.edges.decode("ascii"), dumps(rest)


def _by_text(numbers: Mapping[int, int]) -> dict[str, int]:
    return {str(n): value for n, value in numbers.items()}


def decode_snapshot(
    run_id: RunId, seq: int, at: int, state: str, paused: int, nodes: str, edges: str, rest: str
) -> Snapshot:
    """Read the columns of one row of `run_states`; `paused` is 0 or 1."""
    r = json.loads(rest)
    return Snapshot(
        run_id=run_id,
        seq=seq,
        at=at,
        state=RunState(state),
        paused=bool(paused),
        epoch=r.get("epoch", 1),
        nodes=nodes.encode("ascii"),
        edges=edges.encode("ascii"),
        passes=tuple(r.get("passes", ())),
        live=r["live"],
        records={int(n): _decode_record(value) for n, value in r.get("records", {}).items()},
        attempts={int(n): count for n, count in r.get("attempts", {}).items()},
        failures=tuple(Place(place) for place in r.get("failures", ())),
        closed_by=tuple(r.get("closed_by", ())),
        parent=_parent(r.get("parent")),
        index=r.get("index"),
        depth=r.get("depth", 0),
        parent_paused=r.get("parent_paused", False),
        paused_since=r.get("paused_since"),
        children=r.get("children", 0),
        items={int(n): _decode_items(value) for n, value in r.get("items", {}).items()},
        ids={int(n): epoch for n, epoch in r.get("ids", {}).items()},
        done=tuple(_decode_done(*done) for done in r.get("done", ())),
        closing=_decode_closing(r["closing"]) if "closing" in r else None,
        compensation=r.get("compensation", "none"),
        source=RunId(r["source"]) if "source" in r else None,
        priority=r.get("priority", 0),
    )


_ITEMS = {field.name: field.default for field in fields(Items)}


def _encode_items(items: Items) -> dict[str, object]:
    """What is not as it begins."""
    return {name: value for name in _ITEMS if (value := getattr(items, name)) != _ITEMS[name]}


def _decode_items(value: Mapping[str, Any]) -> Items:
    given = dict(value)
    for name in ("pages", "again"):
        if name in given:
            given[name] = tuple(given[name])
    return Items(**given)


def _encode_done(done: Done) -> list[object]:
    told: list[object] = [done.place, done.seq, int(done.sure)]
    return told if done.items is None else [*told, done.items]


def _decode_done(place: str, seq: int, sure: int, items: int | None = None) -> Done:
    return Done(Place(place), seq, bool(sure), items)


def _encode_closing(closing: Closing) -> dict[str, object]:
    return {
        "outcome": closing.outcome.value,
        "output": plain_output(closing.output),
        "error": plain_output(closing.error),
        "drained": closing.drained,
        "todo": closing.todo,
        "current": closing.current,
        "undone": closing.undone,
        "failed": closing.failed,
        "last": closing.last,
    }


def _decode_closing(value: Mapping[str, Any]) -> Closing:
    error = read_output(value["error"])
    assert error is None or isinstance(error, PayloadKey)
    return Closing(
        outcome=RunState(value["outcome"]),
        output=read_output(value["output"]),
        error=error,
        drained=value["drained"],
        todo=tuple(map(Place, value["todo"])),
        current=None if value["current"] is None else Place(value["current"]),
        undone=value["undone"],
        failed=value["failed"],
        last=value["last"],
    )


def _encode_record(record: Record) -> list[object]:
    """What is as it begins is left out at the end."""
    plain: list[object] = [record.letter.value, list(record.passes)]
    more: tuple[object, ...] = (plain_output(record.view), record.epoch, record.recalled)
    while more and more[-1] == _RECORD[len(more) - 1]:
        more = more[:-1]
    return [*plain, *more]


_RECORD: tuple[Any, ...] = (None, 1, False)


def _decode_record(value: Sequence[Any]) -> Record:
    letter, passes, *more = value
    view, epoch, recalled = [*more, *_RECORD[len(more) :]]
    return Record(NodeLetter(letter), tuple(passes), read_output(view), epoch, recalled)


def _parent(value: Sequence[str] | None) -> tuple[RunId, Place] | None:
    return None if value is None else (RunId(value[0]), Place(value[1]))
