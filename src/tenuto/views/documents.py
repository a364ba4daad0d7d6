"""Rows -> JSON values: the shapes that REST answers, the page reads and `-o json` prints. Named here and nowhere else.

Instants are RFC 3339 text in UTC, durations microseconds with the ending `_us`. Nothing is read here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tenuto.model.definition import Definition, Edge
from tenuto.model.instants import format_instant
from tenuto.model.states import TaskState
from tenuto.ports.reads import AliasRow, Awaited, TaskRow, VersionRow, WorkerRow, WorkflowRow
from tenuto.ports.store import DefinitionRow, EventRow, NoteRow, PayloadRow, RunRow
from tenuto.views.family import parent_document, shown_state
from tenuto.views.timeline import node_of

Document = dict[str, object]

_OUTCOME = (
    "run_id",
    "workflow",
    "version",
    "state",
    "key",
    "created_at",
    "ended_at",
    "quarantine",
    "parent",
    "source",
    "compensation",
    "output",
    "error",
)


def page_document(items: Sequence[object], following: str | None) -> Document:
    """One page of a list. `following`: the cursor of the next one, None at the end."""
    return {"items": list(items), "next": following}


def run_document(row: RunRow) -> Document:
    """A run in a list."""
    return {
        "run_id": row.run_id,
        "workflow": row.workflow,
        "version": row.version,
        "state": shown_state(row.state, paused=row.paused),
        "key": row.key,
        "created_at": format_instant(row.created_at),
        "ended_at": _instant(row.ended_at),
        "quarantine": row.quarantine,
        "parent": parent_document(row.parent),
        "source": row.source,
        "compensation": row.compensation,
    }


def outcome_document(row: RunRow) -> Document:
    """A run that has succeeded, with its output. What another end has for an error stands in its report alone."""
    output = None if row.output is None else json.loads(row.output)
    return {**run_document(row), "output": output, "error": None}


def outcome_of(report: Mapping[str, object]) -> Document:
    """The same of any run, from its report."""
    return {name: report[name] for name in _OUTCOME}


def workflow_document(row: WorkflowRow) -> Document:
    """A name with its newest version."""
    return {
        "name": row.name,
        "version": row.version,
        "hash": row.hash,
        "created_at": format_instant(row.created_at),
        "versions": row.versions,
    }


def version_row_document(row: VersionRow) -> Document:
    """A version in a list."""
    return _version(row, row.aliases)


def _version(row: VersionRow | DefinitionRow, aliases: Sequence[str]) -> Document:
    return {
        "name": row.name,
        "version": row.version,
        "hash": row.hash,
        "created_at": format_instant(row.created_at),
        "aliases": list(aliases),
    }


def alias_document(name: str, row: AliasRow) -> Document:
    """An alias of a name, with the version that it means now."""
    return {"name": name, "alias": row.alias, "version": row.version}


def version_document(
    row: DefinitionRow, definition: Definition, aliases: Sequence[str]
) -> Document:
    """A version with all that it says, and the aliases that mean it."""
    schema = definition.input_schema
    return {
        **_version(row, aliases),
        "semantics": definition.semantics,
        "description": definition.description,
        "source": row.source,
        "input_schema": None if schema is None else json.loads(schema),
        "vars": json.loads(definition.vars),
        "nodes": [{"id": node.id, "type": node.type.value} for node in definition.nodes],
        "edges": [_edge_document(edge, definition) for edge in definition.edges],
    }


def _edge_document(edge: Edge, definition: Definition) -> Document:
    return {
        "from": definition.nodes[edge.source].id,
        "to": definition.nodes[edge.target].id,
        "on": edge.on.value,
        "when": None if edge.when is None else edge.when.text,
        "else": edge.otherwise,
        "loop": edge.loop_max,
    }


def task_state(row: TaskRow) -> str:
    """The state as people see it: a pending task with a lease is running, and one that a child does."""
    state = row.task.state
    working = row.lease is not None or row.task.child is not None
    return "running" if state is TaskState.PENDING and working else state.value


def task_document(row: TaskRow) -> Document:
    """A task in a list."""
    task, lease = row.task, row.lease
    return {
        "run_id": row.run_id,
        "workflow": row.workflow,
        "node": node_of(task.place),
        "place": task.place,
        "name": task.name,
        "queue": task.queue,
        "priority": task.priority,
        "state": task_state(row),
        "attempt": task.attempt,
        "lost": task.lost,
        "worker": None if lease is None else lease.worker,
        "leased_at": None if lease is None else format_instant(lease.leased_at),
        "child": task.child,
        "error": None if row.error is None else json.loads(row.error),
    }


def worker_document(row: WorkerRow) -> Document:
    """A worker as last heard of."""
    return {
        "id": row.id,
        "queues": list(row.queues),
        "names": list(row.names),
        "labels": dict(row.labels),
        "capacity": row.capacity,
        "busy": row.busy,
        "lag_us": row.lag_us,
        "version": row.version,
        "seen_at": format_instant(row.seen_at),
        "lost": row.lost,
    }


def event_document(row: EventRow) -> Document:
    """One event of a history."""
    return {
        "seq": row.seq,
        "at": format_instant(row.at),
        "kind": row.kind,
        "place": row.place,
        "node": node_of(row.place),
        "data": json.loads(row.data),
    }


def note_document(row: NoteRow) -> Document:
    """What an attempt said: a line, or its progress (`number` 0) as JSON text."""
    return {
        "place": row.place,
        "node": node_of(row.place),
        "attempt": row.attempt,
        "number": row.number,
        "at": format_instant(row.at),
        "kind": row.kind.value,
        "text": row.text,
    }


def payload_document(row: PayloadRow) -> Document:
    """One stored value."""
    return {
        "place": row.key.place,
        "kind": row.key.kind.value,
        "seq": row.seq,
        "value": json.loads(row.text),
    }


def awaited_document(row: Awaited) -> Document:
    """An address that open waits wait for."""
    return {"event": row.event, "key": row.key, "waits": row.waits}


def _instant(at: int | None) -> str | None:
    return None if at is None else format_instant(at)
