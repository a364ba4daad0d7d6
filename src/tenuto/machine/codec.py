"""Events, outcomes and outputs as plain text, and back. Versioned by construction: a new field has a default.

Old histories decode for ever; golden ones are kept in `tests/golden`. No payload's text passes here, only sizes. How an
event stands in its row is a table: what is as its default says is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, assert_never

from tenuto.machine.events import (
    AttemptFailed,
    AttemptSucceeded,
    CancelRequested,
    ChildSettled,
    Deadline,
    DeadlinePassed,
    Drained,
    Event,
    EventReceived,
    HeartbeatReceived,
    LeaseExpired,
    ParentPaused,
    PauseRequested,
    ResumeRequested,
    RetryRequested,
    RunReplayed,
    RunStarted,
    SkipRequested,
    TerminateRequested,
    TimerFired,
    TimerKind,
)
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import (
    Callee,
    Fault,
    Listed,
    Message,
    Named,
    Number,
    Outcome,
    Page,
    Verdict,
)
from tenuto.model.failures import Failure
from tenuto.model.ids import MessageId, Place, RunId
from tenuto.model.payload import ItemsView, JoinView, Output, PayloadKey, PayloadKind, Text
from tenuto.model.states import RunState

dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode
"""Compact JSON with sorted keys: the same value gives the same text."""


@dataclass(frozen=True, slots=True)
class EventParts:
    """An event as its row's columns; `data` is JSON, the outcomes in it."""

    kind: str
    place: Place
    data: str


# -- events -------------------------------------------------------------------------------------------------------

_REQUIRED = object()


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class _Stored:
    """How one field of an event is stored: under which key, and in which form."""

    key: str
    default: object = _REQUIRED
    write: Callable[[Any], object] = _same
    read: Callable[[Any], Any] = _same


def _size(text: Text | None) -> int | None:
    return None if text is None else text.size


def _text(size: int | None) -> Text | None:
    return None if size is None else Text(size)


def _optional_size(key: str) -> _Stored:
    return _Stored(key, None, _size, _text)


def _pair(value: Sequence[str]) -> tuple[RunId, Place]:
    return RunId(value[0]), Place(value[1])


def _again(value: Sequence[Any]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((node, tuple(indexes)) for node, indexes in value)


def _children(value: Sequence[Any]) -> tuple[tuple[Place, RunId], ...]:
    return tuple((Place(place), RunId(child)) for place, child in value)


_SIZE = _Stored("size", write=_size, read=_text)
_DRAW = _Stored("draw")
_VERSION = _Stored("version")
_REASON = {"reason": _Stored("reason", "")}
_LEASE = {
    "attempt": _Stored("attempt"),
    "lease_id": _Stored("lease", None),
    "worker": _Stored("worker", ""),
    "leased_at": _Stored("leased_at", 0),
}
_PAUSED = _Stored("paused", False)
_FREEZE = _Stored("freeze", False)

_EVENTS: Mapping[type, Mapping[str, _Stored]] = {
    RunStarted: {
        "parent": _Stored("parent", None, read=_pair),
        "index": _Stored("index", None),
        "depth": _Stored("depth", 0),
        "paused": _PAUSED,
        "priority": _Stored("priority", 0),
    },
    RunReplayed: {name: _Stored(name) for name in ("source", "node", "nodes", "edges", "rest")},
    AttemptSucceeded: {**_LEASE, "output": _SIZE},
    AttemptFailed: {
        **_LEASE,
        "code": _Stored("code"),
        "error": _SIZE,
        "draw": _DRAW,
        "retryable": _Stored("retryable", True),
        "retry_after_us": _Stored("retry_after_us", 0),
        "classes": _Stored("classes", (), read=tuple),
    },
    LeaseExpired: _LEASE,
    DeadlinePassed: {
        **_LEASE,
        "deadline": _Stored("deadline", read=Deadline),
        "draw": _DRAW,
    },
    TimerFired: {"kind": _Stored("timer", read=TimerKind), "version": _VERSION},
    EventReceived: {"version": _VERSION, "message_id": _Stored("message"), "payload": _SIZE},
    HeartbeatReceived: {"version": _VERSION},
    ChildSettled: {
        "child": _Stored("child"),
        "state": _Stored("state", read=RunState),
        "output": _optional_size("output"),
        "error": _optional_size("error"),
        "draw": _DRAW,
        "code": _Stored("code", ""),
    },
    CancelRequested: _REASON,
    TerminateRequested: _REASON,
    PauseRequested: {},
    ResumeRequested: {"freeze": _FREEZE},
    ParentPaused: {"paused": _Stored("paused"), "freeze": _FREEZE},
    Drained: {"version": _VERSION, "started": _Stored("started", read=tuple)},
    RetryRequested: {
        "again": _Stored("again", (), read=_again),
        "children": _Stored("children", (), read=_children),
        "skip": _Stored("skip", None),
        "output": _optional_size("size"),
        "paused": _PAUSED,
    },
    SkipRequested: {"node": _Stored("node"), "output": _SIZE},
}
_KINDS = {kind.__name__: kind for kind in _EVENTS}
_STORED = {kind: tuple(stored.values()) for kind, stored in _EVENTS.items()}
# All fields of an event at once; `at` is asked for too, since a getter needs two names to answer with a tuple.
_VALUES = {kind: attrgetter(*stored, "at", "at") for kind, stored in _EVENTS.items()}
_PLACED = frozenset(kind for kind in _EVENTS if "place" in {f.name for f in fields(kind)})


def encode_event(event: Event, outcomes: Sequence[Outcome]) -> EventParts:
    """Write an event with what its expressions yielded (X8)."""
    kind = type(event)
    data = {
        stored.key: value if stored.write is _same else stored.write(value)
        for stored, value in zip(_STORED[kind], _VALUES[kind](event), strict=False)
        if value != stored.default
    }
    if outcomes:
        data["outcomes"] = [_encode_outcome(outcome) for outcome in outcomes]
    place = event.place if kind in _PLACED else Place("")  # type: ignore[union-attr]
    return EventParts(kind.__name__, place, dumps(data) if data else "{}")


def decode_event(kind: str, at: int, place: Place, data: str) -> tuple[Event, tuple[Outcome, ...]]:
    """Read an event's row. Raises InvariantViolated for a kind that no release wrote."""
    found = _KINDS.get(kind)
    if found is None:
        raise InvariantViolated(f"history holds an event of unknown kind {kind!r}")
    d = json.loads(data)
    given: dict[str, object] = {"at": at}
    if found in _PLACED:
        given["place"] = place
    for name, stored in _EVENTS[found].items():
        if stored.key in d:
            given[name] = stored.read(d[stored.key])
        elif stored.default is _REQUIRED:
            raise InvariantViolated(f"history holds a {kind} without {stored.key!r}")
        else:
            given[name] = stored.default
    event: Event = found(**given)
    return event, tuple(_decode_outcome(outcome) for outcome in d.get("outcomes", ()))


# -- outcomes -----------------------------------------------------------------------------------------------------


def _encode_outcome(outcome: Outcome) -> object:
    """true/false a verdict, a number the size of a value, a list a fault, text a name; the others are objects."""
    match outcome:
        case Verdict():
            return outcome.holds
        case Text():
            return outcome.size
        case Fault():
            return [outcome.code, outcome.message]
        case Message():
            return {"message": outcome.id, "size": outcome.payload.size}
        case Named():
            return outcome.text
        case Number():
            return {"number": outcome.value} | ({"percent": True} if outcome.percent else {})
        case Listed():
            return {"count": outcome.count, "size": outcome.text.size}
        case Page():
            return {"count": outcome.count, "more": outcome.more}
        case Callee():
            return {
                "workflow": outcome.workflow,
                "version": outcome.version,
                "definition": outcome.definition,
                "size": outcome.input.size,
                "vars": outcome.vars.size,
            }
        case _:
            assert_never(outcome)


def _decode_outcome(value: object) -> Outcome:
    if isinstance(value, bool):
        return Verdict(value)
    if isinstance(value, int):
        return Text(value)
    if isinstance(value, list):
        return Fault(value[0], value[1])
    if isinstance(value, str):
        return Named(value)
    if isinstance(value, dict):
        return _decode_object(value)
    raise InvariantViolated(f"history holds an outcome of unknown form {value!r}")


def _decode_object(value: Mapping[str, Any]) -> Outcome:
    if "message" in value:
        found = value["message"]
        return Message(None if found is None else MessageId(found), Text(value["size"]))
    if "number" in value:
        return Number(value["number"], value.get("percent", False))
    if "workflow" in value:
        return Callee(
            value["workflow"],
            value["version"],
            value["definition"],
            Text(value["size"]),
            Text(value["vars"]),
        )
    if "more" in value:
        return Page(value["count"], value["more"])
    return Listed(Text(value["size"]), value["count"])


# -- outputs and errors -------------------------------------------------------------------------------------------


def encode_output(output: Output) -> str:
    """Where an output is found, as JSON: null, [place, kind], [place, "items", total], or {upstream id: …}."""
    return json.dumps(plain_output(output), separators=(",", ":"), ensure_ascii=False)


def decode_output(text: str | None) -> Output:
    """Read `encode_output`'s text; None stands for null."""
    return None if text is None else read_output(json.loads(text))


def plain_output(output: Output) -> object:
    """Where an output is found, as a JSON value."""
    match output:
        case None:
            return None
        case PayloadKey():
            return [output.place, output.kind.value]
        case ItemsView():
            return [output.place, "items", output.total]
        case JoinView():
            return {upstream: plain_output(part) for upstream, part in output.entries}
        case _:
            assert_never(output)


def read_output(value: object) -> Output:
    """Read `plain_output`'s value."""
    if value is None:
        return None
    if isinstance(value, list):
        if len(value) == 3:
            return ItemsView(Place(value[0]), value[2])
        return PayloadKey(Place(value[0]), PayloadKind(value[1]))
    assert isinstance(value, Mapping)
    return JoinView(tuple((upstream, read_output(part)) for upstream, part in value.items()))


def error_text(failure: Failure, node: str) -> Text:
    """The error value `{code, message, kind, details, node}` that expressions read, as canonical JSON."""
    details = "null" if failure.details is None else failure.details
    head = dumps({"code": failure.code})[1:-1]
    tail = dumps({"kind": failure.kind.value, "message": failure.message, "node": node})[1:-1]
    text = f'{{{head},"details":{details},{tail}}}'
    return Text(len(text.encode()), text)
