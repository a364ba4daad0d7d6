"""Messages between the engine and its children: JSON objects of ours, each behind its length. No user objects.

A frozen dataclass in a message becomes an object of its fields.
"""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from typing import Any

import orjson

from tenuto.ports.gateway import Failed, Result, Success

_LENGTH = 4
"""Bytes, big-endian."""
_FRAME_MAX = 256 * 2**20


def pack(message: dict[str, Any]) -> bytes:
    """One message as bytes. What JSON does not know becomes its text: that is for log fields."""
    try:
        body = orjson.dumps(message, default=str)
    except TypeError:  # text of the system's that is no Unicode (a path), a number beyond 64 bits
        body = json.dumps(message, default=_plain).encode()
    return len(body).to_bytes(_LENGTH, "big") + body


def _plain(value: object) -> object:
    """As orjson writes it."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


class Unpacker:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Take the next bytes; the messages that are now whole. Raises ValueError: that is none."""
        self._buffer += data
        found: list[dict[str, Any]] = []
        at = 0
        while len(self._buffer) >= at + _LENGTH:
            size = int.from_bytes(self._buffer[at : at + _LENGTH], "big")
            if size > _FRAME_MAX:
                raise ValueError("no message is so long")
            end = at + _LENGTH + size
            if len(self._buffer) < end:
                break
            found.append(_read(self._buffer[at + _LENGTH : end]))
            at = end
        if at:
            del self._buffer[:at]
        return found


def _read(body: bytearray) -> dict[str, Any]:
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        message = json.loads(body)
    if not isinstance(message, dict):
        raise ValueError("a message is a JSON object")  # noqa: TRY004 - it is the text that is wrong
    return message


def result_document(result: Result) -> dict[str, Any]:
    """A result in a message."""
    kind = "success" if isinstance(result, Success) else "failed"
    return {kind: result}


def result_of_document(document: dict[str, Any]) -> Result:
    """Read it back."""
    if "success" in document:
        return Success(**document["success"])
    failed = document["failed"]
    return Failed(**failed | {"classes": tuple(failed["classes"])})
