"""From what a user calls a workflow (a path, a deployed name, the text itself) to a version that
runs can pin.

Reads files and compiles; storing the version is the engine's.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tenuto.model.definition import Definition, Work
from tenuto.model.errors import InvalidDefinition, InvalidInput, NotFound
from tenuto.model.graph import Graph
from tenuto.model.works import works
from tenuto.sdk.builder.origins import Places
from tenuto.sdk.builder.workflow import Workflow

_READ_MAX = 64 * 1_048_576
"""Bytes: enough to say how far a file is beyond the limit, without filling the memory."""
_SLUG_MAX = 60
SUFFIXES = (".yaml", ".yml", ".json")
_ENQUEUE = "enqueue:"
"""Begins the name of a workflow that `enqueue` makes: no definition of a user's can have it."""


@dataclass(frozen=True, slots=True)
class Source:
    """A definition's text and the file name that findings show; `places`: of a built one, where its lines come from."""

    text: str | bytes
    file: str
    places: Places | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Deployed:
    """A stored version, with what starting a run needs of it. `vars` are the definition's own, as
    JSON values; `tasks` are those that its nodes name, each with the first of these nodes, where
    this process has to have them. `created`: it is new; False: the newest version says the same already.
    """

    name: str
    version: int
    hash: str
    input_schema: str | None
    vars: str
    tasks: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    created: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a workflow, and the aliases that mean it now."""

    name: str
    version: int
    hash: str
    created_at: datetime
    aliases: tuple[str, ...]


def find_source(workflow: str | Path | Workflow) -> Source | None:
    """Read the text of a path, a built workflow or of the text itself; None means that `workflow` is a deployed name.

    Raises:
        NotFound: a path (a `Path`, or text that ends in .yaml, .yml or .json) where no file is.
        InvalidInput: it cannot be read, or is none of these.
        InvalidDefinition: a built workflow is not finished.
    """
    if isinstance(workflow, Workflow):
        text, places = workflow.text()
        return Source(text, f"<workflow {workflow.name}>", places)
    if not isinstance(workflow, str | Path):
        raise InvalidInput(
            f"{workflow!r:.60} is no workflow; give a path, a deployed name, the text or a Workflow"
        )
    if isinstance(workflow, str) and not workflow.strip():
        raise InvalidInput("the workflow is empty; give a path, a deployed name or the text")
    if isinstance(workflow, str) and ("\n" in workflow or workflow.lstrip().startswith("{")):
        return Source(workflow, "<text>")
    if isinstance(workflow, Path) or workflow.endswith(SUFFIXES):
        return read_source(Path(workflow))
    return None


def read_source(path: Path) -> Source:
    """Read a definition's file, as bytes: what is wrong inside is a finding. Raises as
    `find_source`.
    """
    try:
        if path.is_fifo() or path.is_socket() or path.is_char_device():
            raise InvalidInput(f"{path} is no file that can be read again; give one, or -")
        with path.open("rb") as file:
            return Source(file.read(_READ_MAX), str(path))
    except FileNotFoundError:
        if path.is_symlink():
            hint = f"it is a link to {path.readlink()}, which is not there"
            raise NotFound("file", str(path), hint) from None
        raise NotFound("file", str(path), near_files(path)) from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} is a directory; name a file in it") from None
    except PermissionError:
        raise InvalidInput(f"{path} cannot be read: permission denied") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"{path} cannot be read: {reason}") from None


def near_files(path: Path) -> str:
    """A hint naming a file beside the missing one that may be meant; empty if there is none."""
    try:
        beside = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    except (OSError, ValueError):
        return ""
    close = get_close_matches(path.name, beside, n=1, cutoff=0.6)
    return f"did you mean {path.with_name(close[0])}?" if close else ""


def compile_source(source: Source) -> Graph:
    """Compile a definition. Raises InvalidDefinition with all findings when one of them is an
    error.
    """
    from tenuto.app.definitions import load_definition

    loaded = load_definition(source.text, file=source.file)
    if loaded.graph is None:
        moved = source.places.moved(loaded.findings) if source.places else loaded.findings
        raise InvalidDefinition(moved)
    return loaded.graph


def workflow_of(
    graph: Graph, *, version: int, content_hash: str, created: bool = False
) -> Deployed:
    """What starting a run needs of a stored graph."""
    definition = graph.definition
    return Deployed(
        name=definition.name,
        version=version,
        hash=content_hash,
        input_schema=definition.input_schema,
        vars=definition.vars,
        tasks=named_tasks(definition),
        created=created,
    )


def version_of(document: Mapping[str, Any]) -> Version:
    """A version of a list."""
    return Version(
        name=document["name"],
        version=document["version"],
        hash=document["hash"],
        created_at=datetime.fromisoformat(document["created_at"]),
        aliases=tuple(document["aliases"]),
    )


def check_version(version: object) -> int:
    """Give the number of a version back. Raises InvalidInput."""
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version < 2**31:
        raise InvalidInput(
            f"{version!r:.60} is no number of a version; give one such as 3", path="version"
        )
    return version


def named_tasks(definition: Definition) -> dict[str, str]:
    """The tasks that a definition names, each with where it stands first; not those whose names are computed (X1)."""
    found: dict[str, str] = {}
    for asked in works(definition):
        if asked.task is not None:
            found.setdefault(asked.task, asked.where)
    return found


def single_task(name: str) -> Graph:
    """The workflow `enqueue:<task>` of a task: one node, called like the task, whose parameters are the run's input.

    No text that the loader reads: there, params are a map with fixed names, and a workflow has no colon in its name.
    """
    from tenuto.dsl.limits import RESERVED
    from tenuto.model.expressions import Expression, ExpressionKind, Read, Root

    id = re.sub(r"[^A-Za-z0-9_]", "_", name)[:_SLUG_MAX]
    if id[0].isdigit() or id in RESERVED:
        id = f"_{id}"
    tree = {
        "name": "enqueue",
        "description": f"One call of the task {name}, made by enqueue.",
        "nodes": {id: {"type": "task", "task": name}},
        "output": f"${{nodes.{id}.output}}",
    }
    graph = compile_source(Source(json.dumps(tree), f"<enqueue {name}>"))
    [node] = graph.definition.nodes
    assert isinstance(node.detail, Work)
    params = Expression(
        ExpressionKind.VALUE, '"${input}"', node.detail.input.where, (Read(Root.INPUT),)
    )
    node = replace(node, detail=replace(node.detail, input=params))
    definition = replace(graph.definition, name=_ENQUEUE + name, nodes=(node,))
    return replace(graph, definition=definition)


def vars_text(workflow: Deployed, given: Mapping[str, object]) -> str:
    """The vars of a run as JSON text: the definition's, then `TENUTO_VAR_<NAME>`, then those given.

    Raises:
        InvalidInput: a given name that the definition does not declare, or a value that JSON cannot hold.
    """
    from tenuto.dsl.inputs import apply_vars

    return apply_vars(workflow.vars, given_vars(given), os.environ)


def given_vars(given: object) -> dict[str, str]:
    """The argument `vars`, each as JSON text. Raises InvalidInput: no mapping of names, or not JSON."""
    if not isinstance(given, Mapping):
        raise InvalidInput(
            f"{given!r:.60} is no mapping; give a dict of names and values", path="vars"
        )
    for name in given:
        if not isinstance(name, str):
            raise InvalidInput(f"the name {name!r:.60} is no text; quote it", path="vars")
    return {name: given_text(value, f"vars.{name}") for name, value in given.items()}


def given_text(value: object, name: str) -> str:
    """What a caller gives, as JSON text. Raises InvalidInput, in words for who gives, not for who returns."""
    from tenuto.runtime.results import Refused, canonical

    try:
        return canonical(value, name=name)
    except Refused as error:
        raise InvalidInput(error.message.replace("return ", "give ")) from None


def check_timeout(timeout: object) -> None:
    """Raise InvalidInput unless it is a number of seconds, or None."""
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float)):
        raise InvalidInput(
            f"{timeout!r:.60} is no number of seconds; give one such as 30, or None", path="timeout"
        )
