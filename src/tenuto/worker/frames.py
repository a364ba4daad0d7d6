"""Messages between the engine and its children: JSON objects of ours, each behind its length. No user objects."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson

from tenuto.ports.gateway import Failed, Result, Success

_LENGTH = 4
"""Bytes, big-endian."""


def pack(message: dict[str, Any]) -> bytes:
    """One message as bytes. What JSON does not know becomes its text: that is for log fields."""
    body = orjson.dumps(message, default=str)
    return len(body).to_bytes(_LENGTH, "big") + body


class Unpacker:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Take the next bytes; the messages that are now whole."""
        self._buffer += data
        found: list[dict[str, Any]] = []
        at = 0
        while len(self._buffer) >= at + _LENGTH:
            end = at + _LENGTH + int.from_bytes(self._buffer[at : at + _LENGTH], "big")
            if len(self._buffer) < end:
                break
            found.append(orjson.loads(memoryview(self._buffer)[at + _LENGTH : end]))
            at = end
        if at:
            del self._buffer[:at]
        return found


def result_document(result: Result) -> dict[str, Any]:
    """A result as a JSON value."""
    kind = "success" if isinstance(result, Success) else "failed"
    return {kind: asdict(result)}


def result_of_document(document: dict[str, Any]) -> Result:
    """Read it back."""
    if "success" in document:
        return Success(**document["success"])
    return Failed(**document["failed"])
