"""From the body of a start to a run: finds the version, checks the input, merges the vars. No route."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tenuto.api.backend import Backend
from tenuto.api.models import StartBody, StartManyBody
from tenuto.coordinator.commands import Started, StartRequest
from tenuto.dsl.given import default_input
from tenuto.dsl.inputs import apply_vars, check_input
from tenuto.model.errors import InvalidInput
from tenuto.model.stored import decode_graph
from tenuto.runtime.results import canonical

DOORS_MAX = 256
"""Versions whose schema and vars are remembered."""
SMALL = 16_384
"""Bytes of a body that is checked sooner than a thread takes it over."""


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

    async def start(self, body: StartBody, key: str | None, *, size: int) -> Started:
        """Start a run, or find the one that has the key. `size`: of the request's body.

        Raises NotFound, InvalidInput, Refused, Unavailable.
        """
        [started] = await self._start(
            body.workflow, body.version, body.vars, body.priority, [(body.input, key)], size=size
        )
        return started

    async def start_many(
        self, workflow: str, body: StartManyBody, *, size: int
    ) -> Sequence[Started]:
        """Start a run for each of these, or find the one that has its key; none where an input is wrong.

        Raises as `start`.
        """
        runs = [(run.input, run.key) for run in body.runs]
        return await self._start(workflow, body.version, body.vars, body.priority, runs, size=size)

    async def _start(
        self,
        name: str,
        version: int | None,
        given: Mapping[str, object] | None,
        priority: int,
        runs: Sequence[tuple[object, str | None]],
        *,
        size: int,
    ) -> Sequence[Started]:
        row = await self._backend.glance(lambda answers: answers.locate_version(name, version))
        door, environment = await self._door(row.hash), self._backend.environment
        inputs = [value for value, _ in runs]
        if size <= SMALL:
            texts, constants = prepare(door, inputs, given or {}, environment)
        else:
            texts, constants = await asyncio.to_thread(
                prepare, door, inputs, given or {}, environment
            )
        return await self._backend.commands.start(
            [
                StartRequest(
                    graph_hash=row.hash,
                    workflow=row.name,
                    version=row.version,
                    input=text,
                    vars=constants,
                    key=key,
                    priority=priority,
                )
                for text, (_, key) in zip(texts, runs, strict=True)
            ]
        )

    async def _door(self, content_hash: str) -> _Door:
        """What a name means may change at any time, elsewhere too; what a version says never does."""
        door = self._doors.get(content_hash)
        if door is None:
            row = await self._backend.glance(
                lambda answers: answers.reads.get_definition(content_hash)
            )
            definition = decode_graph(row.graph).definition
            door = self._doors[content_hash] = _Door(definition.input_schema, definition.vars)
            while len(self._doors) > DOORS_MAX:
                self._doors.popitem(last=False)
        self._doors.move_to_end(content_hash)
        return door


def prepare(
    door: _Door,
    values: Sequence[object],
    given: Mapping[str, object],
    environment: Mapping[str, str],
) -> tuple[list[str], str]:
    """Inputs and vars of runs as canonical JSON. Raises InvalidInput, which of several it names, and Refused."""
    texts = {name: canonical(each, name=f"vars.{name}") for name, each in given.items()}
    merged = apply_vars(door.vars, texts, environment)
    schema = door.input_schema
    inputs = []
    for number, value in enumerate(values):
        try:
            inputs.append(check_input(schema, default_input(schema, value)))
        except InvalidInput as error:
            if len(values) == 1:
                raise
            place = f"runs.{number}."
            first, *more = error.problems
            raise InvalidInput(
                first.removeprefix(f"{error.path}: "),
                path=place + error.path,
                more=[place + line for line in more],
            ) from None
    return inputs, merged
