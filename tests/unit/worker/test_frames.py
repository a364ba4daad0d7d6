"""Messages over a pipe, however the bytes are cut."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.model.ids import LeaseId, Place, RunId
from tenuto.ports.gateway import Beat, Failed, Result, Success
from tenuto.worker.frames import Unpacker, pack, result_document, result_of_document

MESSAGES: list[dict[str, Any]] = [
    {"say": "beat"},
    {"text": "ü" * 300, "n": [1, 2.5, None]},
    {"big": "x" * 100_000},
    {},
]


@pytest.mark.parametrize("size", [1, 3, 7, 1 << 20])
def test_messages_are_whole_whatever_pieces_arrive(size: int) -> None:
    stream = b"".join(pack(message) for message in MESSAGES)
    unpacker = Unpacker()
    found = []
    for at in range(0, len(stream), size):
        found += unpacker.feed(stream[at : at + size])

    assert found == MESSAGES


def test_half_a_message_is_none() -> None:
    assert Unpacker().feed(pack({"a": "b"})[:-1]) == []


def test_a_log_field_that_json_does_not_know_is_its_text() -> None:
    [message] = Unpacker().feed(pack({"fields": {"of": {1, 2}.__class__}}))

    assert message == {"fields": {"of": "<class 'set'>"}}


def test_text_that_is_no_unicode_and_numbers_without_end_pass() -> None:
    message = {"path": "caf\udce9", "number": 2**70}

    assert Unpacker().feed(pack(message)) == [message]


@pytest.mark.parametrize("name", ["n", "caf\udce9"])
def test_a_dataclass_is_an_object_of_its_fields(name: str) -> None:
    beat = Beat(run_id=RunId("r"), place=Place(name), lease_id=LeaseId("l"))

    [message] = Unpacker().feed(pack({"of": beat}))

    assert message == {"of": {"run_id": "r", "place": name, "lease_id": "l", "alive": False}}


@pytest.mark.parametrize("data", [b"\0\0\0\1{", b"\0\0\0\2[]", b"any text at all"])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        Unpacker().feed(data)


@pytest.mark.parametrize(
    "result",
    [
        Success(output='{"a":1}'),
        Failed(code="c", message="m", details="[1]", retryable=False, retry_after_us=5),
    ],
)
def test_results_pass_unchanged(result: Result) -> None:
    [document] = Unpacker().feed(pack(result_document(result)))

    assert result_of_document(document) == result
