"""Rows as text: stable, sparse, readable for ever."""

from __future__ import annotations

import json

import pytest

from tenuto.machine import codec
from tenuto.machine.events import AttemptFailed, CancelRequested, RunStarted
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Fault, Message, Outcome, Verdict
from tenuto.model.failures import Failure, FailureKind
from tenuto.model.ids import LeaseId, MessageId, Place
from tenuto.model.payload import Text


@pytest.mark.rule("X8.2")
def test_X8_outcomes_are_listed_in_the_event_s_row() -> None:
    outcomes: list[Outcome] = [
        Verdict(True),
        Text(5),
        Fault("c", "m"),
        Message(None),
        Message(MessageId("m"), Text(2)),
    ]
    parts = codec.encode_event(RunStarted(at=1), outcomes)

    assert json.loads(parts.data)["outcomes"] == [
        True,
        5,
        ["c", "m"],
        {"message": None, "size": 0},
        {"message": "m", "size": 2},
    ]
    assert codec.decode_event("RunStarted", 1, parts.place, parts.data)[1] == tuple(outcomes)


def test_an_event_without_facts_is_an_empty_object() -> None:
    assert codec.encode_event(RunStarted(at=1), ()).data == "{}"
    assert codec.encode_event(CancelRequested(at=1), ()).data == "{}"


def test_no_payload_text_stands_in_a_row() -> None:
    event = AttemptFailed(
        at=1,
        place=Place("a"),
        attempt=1,
        lease_id=LeaseId("l"),
        code="x",
        error=Text(8, '"secret"'),
        draw=0.5,
    )

    assert "secret" not in codec.encode_event(event, [Text(8, '"secret"')]).data


def test_a_row_of_an_older_release_lacks_what_came_later() -> None:
    data = '{"attempt":1,"lease":"l","code":"x","size":2,"draw":0.5}'
    event, outcomes = codec.decode_event("AttemptFailed", 3, Place("a"), data)

    assert event == AttemptFailed(
        at=3, place=Place("a"), attempt=1, lease_id=LeaseId("l"), code="x", error=Text(2), draw=0.5
    )
    assert outcomes == ()


def test_an_event_of_unknown_kind_is_said_so() -> None:
    with pytest.raises(InvariantViolated, match="unknown kind 'Sneezed'"):
        codec.decode_event("Sneezed", 1, Place(""), "{}")


def test_an_outcome_of_unknown_form_is_said_so() -> None:
    with pytest.raises(InvariantViolated, match=r"unknown form 1\.5"):
        codec.decode_event("RunStarted", 1, Place(""), '{"outcomes":[1.5]}')


@pytest.mark.parametrize("text", [None, "null"])
def test_no_output_is_null(text: str | None) -> None:
    assert codec.decode_output(text) is None


def test_an_error_is_canonical_json() -> None:
    failure = Failure("http.503", "né", FailureKind.TASK, '{"a":1}')
    text = codec.error_text(failure, "charge")

    assert text.text == (
        '{"code":"http.503","details":{"a":1},"kind":"task","message":"né","node":"charge"}'
    )
    assert text.size == len(text.text.encode())
    assert json.loads(codec.error_text(Failure("c", "m"), "n").text or "")["details"] is None
