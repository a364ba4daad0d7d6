"""From what a user calls a workflow (a path, a deployed name, the text itself) to a version that
runs can pin.

Reads files and compiles; storing the version is the engine's.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import cast

from tenuto.model.definition import DEFINITION_MAX
from tenuto.model.errors import InvalidDefinition, InvalidInput, NotFound
from tenuto.model.graph import Graph

SUFFIXES = (".yaml", ".yml", ".json")
ENQUEUED = "enqueued"
"""Id of the only node of a workflow that `enqueue` makes."""


@dataclass(frozen=True, slots=True)
class Source:
    """A definition's text and the file name that findings show."""

    text: str
    file: str


@dataclass(frozen=True, slots=True)
class Workflow:
    """A stored version, with what starting a run needs of it. `vars` are the definition's own, as
    JSON values.
    """

    name: str
    version: int
    hash: str
    input_schema: str | None
    vars: Mapping[str, object]


def find_source(workflow: str | Path) -> Source | None:
    """Read the text of a path or of the text itself; None means that `workflow` is a deployed name.

    Raises:
        NotFound: a path (a `Path`, or text that ends in .yaml, .yml or .json) where no file is.
        InvalidInput: not a text file, or larger than a definition may be.
    """
    if isinstance(workflow, str) and ("\n" in workflow or workflow.lstrip().startswith("{")):
        return Source(workflow, "<text>")
    if isinstance(workflow, Path) or workflow.endswith(SUFFIXES):
        return read_source(Path(workflow))
    return None


def read_source(path: Path) -> Source:
    """Read a definition's file. Raises as `find_source`."""
    try:
        with path.open("rb") as file:
            data = file.read(DEFINITION_MAX + 1)
    except FileNotFoundError:
        raise NotFound("file", str(path), near_files(path)) from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} is a directory; name a file in it") from None
    except PermissionError:
        raise InvalidInput(f"{path} cannot be read: permission denied") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"{path} cannot be read: {reason}") from None
    if len(data) > DEFINITION_MAX:
        raise InvalidInput(f"{path} is larger than a definition may be (1 MiB)")
    try:
        return Source(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not text: byte {error.start} is no UTF-8") from None


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
    from tenuto.app.embedded import load_definition

    loaded = load_definition(source.text, file=source.file)
    if loaded.graph is None:
        raise InvalidDefinition(loaded.findings)
    return loaded.graph


def workflow_of(graph: Graph, *, version: int, content_hash: str) -> Workflow:
    """What starting a run needs of a stored graph."""
    definition = graph.definition
    return Workflow(
        name=definition.name,
        version=version,
        hash=content_hash,
        input_schema=definition.input_schema,
        vars=cast("dict[str, object]", json.loads(definition.vars)),
    )


def single_task(name: str) -> Source:
    """The workflow that `enqueue` deploys for a task: one node, whose output is the run's."""
    slug = re.sub(r"[^A-Za-z0-9_]", "_", name)
    tree = {
        "name": f"{ENQUEUED}_{slug}"[:63],
        "description": f"One call of the task {name}, made by enqueue.",
        "nodes": {ENQUEUED: {"type": "task", "task": name, "params": "${input}"}},
        "output": "${nodes." + ENQUEUED + ".output}",
    }
    return Source(json.dumps(tree), f"<enqueue {name}>")


def default_input(schema: str | None, value: object) -> object:
    """No input given means an empty object, unless the schema asks for something else."""
    if value is not None:
        return value
    wanted: object = json.loads(schema) if schema else None
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    return {} if kind is None or kind == "object" or "object" in kind else None


def merge_vars(
    workflow: Workflow,
    given: Mapping[str, object],
    environment: Mapping[str, str] = os.environ,
) -> dict[str, object]:
    """The vars of a run: the definition's, then `TENUTO_VAR_<name>` (also in capitals), then those
    given.

    Raises:
        InvalidInput: a given name that the definition does not have.
    """
    made = dict(workflow.vars)
    for name, default in workflow.vars.items():
        for spelling in (f"TENUTO_VAR_{name}", f"TENUTO_VAR_{name.upper()}"):
            if spelling in environment:
                made[name] = value_like(environment[spelling], default)
                break
    for name, value in given.items():
        if name not in workflow.vars:
            raise InvalidInput(unknown_var(name, workflow.vars), path="vars")
        made[name] = value
    return made


def value_like(text: str, default: object) -> object:
    """A var's value from text: text where the default is text, else JSON where it is some."""
    if isinstance(default, str):
        return text
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return text


def unknown_var(name: str, known: Mapping[str, object]) -> str:
    """Say that the definition has no such var."""
    if not known:
        return f"the definition has no vars, so {name!r} cannot be set"
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "it has " + ", ".join(sorted(known))
    return f"the definition has no var {name!r}; {hint}"
