"""Outputs and errors of runs as Python values: finds the payloads that a stored place names. Reads
only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import cast

from tenuto.machine.codec import decode_output
from tenuto.model.ids import RunId
from tenuto.model.payload import JoinView, Output, PayloadKey
from tenuto.ports.reads import Reads


async def read_value(reads: Reads, run_id: RunId, stored: str | None) -> object:
    """The JSON value behind `RunRow.output` or `RunRow.error`; None for null."""
    place = decode_output(stored)
    keys = tuple(dict.fromkeys(_keys(place)))
    texts = await reads.payloads(run_id, keys) if keys else {}
    return _assemble(place, texts)


def _keys(output: Output) -> Iterator[PayloadKey]:
    match output:
        case None:
            return
        case PayloadKey():
            yield output
        case JoinView():
            for _, part in output.entries:
                yield from _keys(part)


def _assemble(output: Output, texts: Mapping[PayloadKey, str]) -> object:
    match output:
        case None:
            return None
        case PayloadKey():
            return cast("object", json.loads(texts[output]))
        case JoinView():
            return {upstream: _assemble(part, texts) for upstream, part in output.entries}
