"""Outputs and errors of runs as Python values: finds the payloads that a stored place names. Reads
only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never, cast

from tenuto.machine.codec import decode_output
from tenuto.model.ids import RunId, item_place
from tenuto.model.payload import ItemsView, JoinView, Output, PayloadKey, PayloadKind
from tenuto.ports.reads import Reads


async def read_values(reads: Reads, stored: Sequence[tuple[RunId, str | None]]) -> list[object]:
    """The values of many runs, in order, read together."""
    places = [(run_id, decode_output(text)) for run_id, text in stored]
    wanted = [(run_id, key) for run_id, place in places for key in dict.fromkeys(_keys(place))]
    texts: dict[RunId, dict[PayloadKey, str]] = {}
    for (run_id, key), text in (await reads.payloads_of_runs(wanted)).items() if wanted else ():
        texts.setdefault(run_id, {})[key] = text
    return [_assemble(place, texts.get(run_id, {})) for run_id, place in places]


async def read_value(reads: Reads, run_id: RunId, stored: str | None) -> object:
    """The JSON value behind `RunRow.output` or `RunRow.error`; None for null."""
    [value] = await read_values(reads, [(run_id, stored)])
    return value


def value_keys(stored: str | None) -> tuple[PayloadKey, ...]:
    """Under which the value behind `RunRow.output` or `RunRow.error` is kept."""
    return tuple(dict.fromkeys(_keys(decode_output(stored))))


def value_of(stored: str | None, texts: Mapping[PayloadKey, str]) -> object:
    """The same value, of texts that were read already."""
    return _assemble(decode_output(stored), texts)


async def read_output(reads: Reads, run_id: RunId, place: Output) -> object:
    """The JSON value at a place; None for null, and for what is not there (any more)."""
    keys = tuple(dict.fromkeys(_keys(place)))
    texts = await reads.payloads(run_id, keys) if keys else {}
    return _assemble(place, {key: texts.get(key, "null") for key in keys})


def _keys(output: Output) -> Iterator[PayloadKey]:
    match output:
        case None:
            return
        case PayloadKey():
            yield output
        case JoinView():
            for _, part in output.entries:
                yield from _keys(part)
        case ItemsView():
            yield from _outputs(output)
        case _:
            assert_never(output)


def _assemble(output: Output, texts: Mapping[PayloadKey, str]) -> object:
    match output:
        case None:
            return None
        case PayloadKey():
            return cast("object", json.loads(texts[output]))
        case JoinView():
            return {upstream: _assemble(part, texts) for upstream, part in output.entries}
        case ItemsView():
            return [json.loads(texts.get(key, "null")) for key in _outputs(output)]
        case _:
            assert_never(output)


def _outputs(items: ItemsView) -> Iterator[PayloadKey]:
    """Of all items of a foreach; those that failed have none."""
    for index in range(items.total):
        yield PayloadKey(item_place(items.place, index), PayloadKind.OUTPUT)
