"""Events, outcomes and snapshots as plain text, and back. Versioned by construction: a new field has a default.

Old histories decode for ever; golden ones are kept in `tests/golden`. No payload's text passes here, only sizes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from tenuto.machine.events import (
    AttemptFailed,
    AttemptSucceeded,
    CancelRequested,
    Deadline,
    DeadlinePassed,
    Event,
    EventReceived,
    LeaseExpired,
    PauseRequested,
    ResumeRequested,
    RunStarted,
    TimerFired,
    TimerKind,
)
from tenuto.machine.snapshot import Record, Snapshot
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Fault, Message, Outcome, Verdict
from tenuto.model.failures import Failure
from tenuto.model.ids import LeaseId, MessageId, Place, RunId, WorkerId
from tenuto.model.payload import JoinView, Output, PayloadKey, PayloadKind, Text
from tenuto.model.states import NodeLetter, RunState

_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode


@dataclass(frozen=True, slots=True)
class EventParts:
    """An event as its row's columns; `data` is JSON, the outcomes in it."""

    kind: str
    place: Place
    data: str


# -- events -------------------------------------------------------------------------------------------------------


def encode_event(event: Event, outcomes: Sequence[Outcome]) -> EventParts:
    """Write an event with what its expressions yielded (X8)."""
    data: dict[str, object] = {}
    place = Place("")
    match event:
        case AttemptSucceeded():
            place = event.place
            data = _lease_facts(event)
            data["size"] = event.output.size
        case AttemptFailed():
            place = event.place
            data = _lease_facts(event)
            data |= {"code": event.code, "size": event.error.size, "draw": event.draw}
            if not event.retryable:
                data["retryable"] = False
            if event.retry_after_us:
                data["retry_after_us"] = event.retry_after_us
        case LeaseExpired():
            place = event.place
            data = _lease_facts(event)
        case DeadlinePassed():
            place = event.place
            data = _lease_facts(event)
            data |= {"deadline": event.deadline.value, "draw": event.draw}
        case TimerFired():
            place = event.place
            data = {"timer": event.kind.value, "version": event.version}
        case EventReceived():
            place = event.place
            data = {
                "version": event.version,
                "message": event.message_id,
                "size": event.payload.size,
            }
        case CancelRequested():
            data = {"reason": event.reason} if event.reason else {}
        case RunStarted() | PauseRequested() | ResumeRequested():
            pass
        case _:
            assert_never(event)
    if outcomes:
        data["outcomes"] = [_encode_outcome(outcome) for outcome in outcomes]
    return EventParts(type(event).__name__, place, _dumps(data) if data else "{}")


def decode_event(kind: str, at: int, place: Place, data: str) -> tuple[Event, tuple[Outcome, ...]]:
    """Read an event's row. Raises InvariantViolated for a kind that no release wrote."""
    d = json.loads(data)
    event: Event
    match kind:
        case "RunStarted":
            event = RunStarted(at=at)
        case "AttemptSucceeded":
            event = AttemptSucceeded(
                at=at,
                place=place,
                attempt=d["attempt"],
                lease_id=LeaseId(d["lease"]),
                output=Text(d["size"]),
                worker=WorkerId(d.get("worker", "")),
                leased_at=d.get("leased_at", 0),
            )
        case "AttemptFailed":
            event = AttemptFailed(
                at=at,
                place=place,
                attempt=d["attempt"],
                lease_id=LeaseId(d["lease"]),
                code=d["code"],
                error=Text(d["size"]),
                draw=d["draw"],
                retryable=d.get("retryable", True),
                retry_after_us=d.get("retry_after_us", 0),
                worker=WorkerId(d.get("worker", "")),
                leased_at=d.get("leased_at", 0),
            )
        case "LeaseExpired":
            event = LeaseExpired(
                at=at,
                place=place,
                attempt=d["attempt"],
                lease_id=LeaseId(d["lease"]),
                worker=WorkerId(d.get("worker", "")),
                leased_at=d.get("leased_at", 0),
            )
        case "DeadlinePassed":
            lease = d.get("lease")
            event = DeadlinePassed(
                at=at,
                place=place,
                attempt=d["attempt"],
                deadline=Deadline(d["deadline"]),
                lease_id=None if lease is None else LeaseId(lease),
                draw=d["draw"],
                worker=WorkerId(d.get("worker", "")),
                leased_at=d.get("leased_at", 0),
            )
        case "TimerFired":
            event = TimerFired(at=at, place=place, kind=TimerKind(d["timer"]), version=d["version"])
        case "EventReceived":
            event = EventReceived(
                at=at,
                place=place,
                version=d["version"],
                message_id=MessageId(d["message"]),
                payload=Text(d["size"]),
            )
        case "CancelRequested":
            event = CancelRequested(at=at, reason=d.get("reason", ""))
        case "PauseRequested":
            event = PauseRequested(at=at)
        case "ResumeRequested":
            event = ResumeRequested(at=at)
        case _:
            raise InvariantViolated(f"history holds an event of unknown kind {kind!r}")
    return event, tuple(_decode_outcome(outcome) for outcome in d.get("outcomes", ()))


def _lease_facts(
    event: AttemptSucceeded | AttemptFailed | LeaseExpired | DeadlinePassed,
) -> dict[str, object]:
    facts: dict[str, object] = {"attempt": event.attempt}
    if event.lease_id is not None:
        facts["lease"] = event.lease_id
    if event.worker:
        facts["worker"] = event.worker
        facts["leased_at"] = event.leased_at
    return facts


def _encode_outcome(outcome: Outcome) -> object:
    """true/false a verdict, a number the size of a value, a list a fault, an object a mailbox look-up."""
    match outcome:
        case Verdict():
            return outcome.holds
        case Text():
            return outcome.size
        case Fault():
            return [outcome.code, outcome.message]
        case Message():
            return {"message": outcome.id, "size": outcome.payload.size}
        case _:
            assert_never(outcome)


def _decode_outcome(value: object) -> Outcome:
    if isinstance(value, bool):
        return Verdict(value)
    if isinstance(value, int):
        return Text(value)
    if isinstance(value, list):
        return Fault(value[0], value[1])
    if isinstance(value, dict):
        found = value["message"]
        return Message(None if found is None else MessageId(found), Text(value["size"]))
    raise InvariantViolated(f"history holds an outcome of unknown form {value!r}")


# -- snapshots ----------------------------------------------------------------------------------------------------


def encode_snapshot(snapshot: Snapshot) -> tuple[str, str, str]:
    """The columns `nodes`, `edges` and `rest` (JSON of what is sparse, keys sorted) of `run_states`."""
    rest: dict[str, object] = {"live": snapshot.live}
    if snapshot.epoch != 1:
        rest["epoch"] = snapshot.epoch
    if snapshot.passes:
        rest["passes"] = snapshot.passes
    if snapshot.records:
        rest["records"] = {str(n): _encode_record(r) for n, r in snapshot.records.items()}
    if snapshot.attempts:
        rest["attempts"] = {str(n): count for n, count in snapshot.attempts.items()}
    if snapshot.failures:
        rest["failures"] = snapshot.failures
    if snapshot.closed_by:
        rest["closed_by"] = snapshot.closed_by
    return snapshot.nodes.decode("ascii"), snapshot.edges.decode("ascii"), _dumps(rest)


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
    )


def _encode_record(record: Record) -> list[object]:
    plain: list[object] = [record.letter.value, list(record.passes)]
    if record.view is not None:
        plain.append(_plain_output(record.view))
    return plain


def _decode_record(value: Sequence[object]) -> Record:
    letter, passes, *view = value
    assert isinstance(passes, list)
    output = _read_output(view[0]) if view else None
    assert output is None or isinstance(output, JoinView)
    return Record(NodeLetter(str(letter)), tuple(passes), output)


# -- outputs and errors -------------------------------------------------------------------------------------------


def encode_output(output: Output) -> str:
    """Where an output is found, as JSON: null, [place, kind], or {upstream id: …}."""
    return json.dumps(_plain_output(output), separators=(",", ":"), ensure_ascii=False)


def decode_output(text: str | None) -> Output:
    """Read `encode_output`'s text; None stands for null."""
    return None if text is None else _read_output(json.loads(text))


def _plain_output(output: Output) -> object:
    match output:
        case None:
            return None
        case PayloadKey():
            return [output.place, output.kind.value]
        case JoinView():
            return {upstream: _plain_output(part) for upstream, part in output.entries}
        case _:
            assert_never(output)


def _read_output(value: object) -> Output:
    if value is None:
        return None
    if isinstance(value, list):
        return PayloadKey(Place(value[0]), PayloadKind(value[1]))
    assert isinstance(value, Mapping)
    return JoinView(tuple((upstream, _read_output(part)) for upstream, part in value.items()))


def error_text(failure: Failure, node: str) -> Text:
    """The error value `{code, message, kind, details, node}` that expressions read, as canonical JSON."""
    details = "null" if failure.details is None else failure.details
    head = _dumps({"code": failure.code})[1:-1]
    tail = _dumps({"kind": failure.kind.value, "message": failure.message, "node": node})[1:-1]
    text = f'{{{head},"details":{details},{tail}}}'
    return Text(len(text.encode()), text)
