"""Which version of a workflow a call means, and whether it takes the input that it is given (SEMANTICS F6).

A name is `workflow` (the newest version), `workflow@3`, or `workflow@alias`. Names are looked up in the store; that an
input fits is found out here, without it, so a thousand calls of one name cost one look-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import orjson

from tenuto.coordinator.graphs import Graphs
from tenuto.dsl.inputs import apply_vars, check_input
from tenuto.model.errors import InvalidInput, NotFound
from tenuto.model.expressions import Callee, Fault
from tenuto.model.graph import Graph
from tenuto.model.payload import Text
from tenuto.ports.reads import Reads
from tenuto.ports.store import DefinitionRow

UNKNOWN = "unknown_workflow"
INVALID = "invalid_input"

Version = tuple[DefinitionRow, Graph]


class Callees(Mapping[tuple[str, str], Callee | Fault]):
    """What the names mean that were looked up, for any input: (workflow as named, input text) -> the answer."""

    def __init__(self) -> None:
        self._versions: dict[str, Version | None] = {}
        self._answers: dict[tuple[str, str], Callee | Fault] = {}

    def learn(self, name: str, version: Version | None) -> None:
        """A name was looked up; None: no such workflow."""
        self._versions[name] = version

    def __getitem__(self, asked: tuple[str, str]) -> Callee | Fault:
        answer = self._answers.get(asked)
        if answer is None:
            name, text = asked
            answer = self._answers[asked] = _callee(name, text, self._versions[name])
        return answer

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)


async def find_versions(
    reads: Reads, graphs: Graphs, names: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], Version | None]:
    """What these names mean now: (namespace, workflow as named) -> its version and graph. Raises Unavailable."""
    rows: dict[tuple[str, str], DefinitionRow | None] = {}
    for namespace, name in names:
        workflow, at, reference = name.partition("@")
        rows[namespace, name] = await reads.find_version(
            namespace, workflow, reference if at else None
        )
    found = await graphs.fetch(dict.fromkeys(row.hash for row in rows.values() if row is not None))
    versions: dict[tuple[str, str], Version | None] = {}
    for asked, row in rows.items():
        graph = None if row is None else found[row.hash]
        if row is None or graph is None or isinstance(graph, NotFound):
            versions[asked] = None
        else:
            versions[asked] = row, graph
    return versions


def _callee(name: str, text: str, version: Version | None) -> Callee | Fault:
    if version is None:
        workflow, at, reference = name.partition("@")
        if not at:
            return Fault(UNKNOWN, f"no workflow `{workflow}` is deployed")
        what = (
            f"version {reference}"
            if reference.isascii() and reference.isdigit()
            else f"alias `{reference}`"
        )
        return Fault(UNKNOWN, f"no workflow `{workflow}` with {what} is deployed")
    row, graph = version
    try:
        given = check_input(graph.definition.input_schema, orjson.loads(text))
        constants = apply_vars(graph.definition.vars, {}, {})
    except InvalidInput as error:
        return Fault(INVALID, f"{error} (of the workflow {row.name}@{row.version})")
    return Callee(
        workflow=row.name,
        version=row.version,
        definition=row.hash,
        input=_text(given),
        vars=_text(constants),
    )


def _text(text: str) -> Text:
    return Text(len(text.encode()), text)
