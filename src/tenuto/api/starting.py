"""From the body of a start to a run: finds the version, checks the input, merges the vars. No route."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from tenuto.api.backend import Backend
from tenuto.api.models import StartBody
from tenuto.coordinator.commands import Started, StartRequest
from tenuto.dsl.given import default_input
from tenuto.dsl.inputs import apply_vars, check_input
from tenuto.model.stored import decode_graph
from tenuto.ports.store import DefinitionRow
from tenuto.runtime.results import canonical

DOORS_MAX = 256
"""Versions whose schema and vars are remembered."""


@dataclass(frozen=True, slots=True)
class _Door:
    """What a start is checked against. JSON texts."""

    input_schema: str | None
    vars: str


class Starter:
    """Starts runs of stored versions."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._doors: OrderedDict[str, _Door] = OrderedDict()

    async def start(self, body: StartBody, key: str | None) -> Started:
        """Start a run, or find the one that has the key. Raises NotFound, InvalidInput, Refused, Unavailable."""
        name, version = body.workflow, body.version
        row = await self._backend.read(lambda answers: answers.find_version(name, version))
        request = await asyncio.to_thread(
            prepare,
            self._door(row),
            body.input,
            body.vars or {},
            self._backend.environment,
        )
        [started] = await self._backend.commands.start(
            [
                StartRequest(
                    graph_hash=row.hash,
                    workflow=row.name,
                    version=row.version,
                    input=request[0],
                    vars=request[1],
                    key=key,
                )
            ]
        )
        return started

    def _door(self, row: DefinitionRow) -> _Door:
        door = self._doors.get(row.hash)
        if door is None:
            definition = decode_graph(row.graph).definition
            door = self._doors[row.hash] = _Door(definition.input_schema, definition.vars)
            while len(self._doors) > DOORS_MAX:
                self._doors.popitem(last=False)
        self._doors.move_to_end(row.hash)
        return door


def prepare(
    door: _Door, value: object, given: Mapping[str, object], environment: Mapping[str, str]
) -> tuple[str, str]:
    """Input and vars of a run as canonical JSON. Raises InvalidInput, Refused."""
    texts = {name: canonical(each, name=f"vars.{name}") for name, each in given.items()}
    merged = apply_vars(door.vars, texts, environment)
    return check_input(door.input_schema, default_input(door.input_schema, value)), merged
