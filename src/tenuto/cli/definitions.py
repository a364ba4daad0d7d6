"""`tenuto validate`, and how findings are printed. Compiling is `dsl`'s."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tenuto.cli.console import note, say
from tenuto.model.errors import InvalidInput, NotFound, TenutoError
from tenuto.model.names import NAME
from tenuto.sdk.workflows import SUFFIXES, Source, read_source

if TYPE_CHECKING:
    from tenuto.dsl.findings import Finding
    from tenuto.worker.registry import Registry

SUBCOMMANDS = (
    *("start", "list", "show", "watch", "wait", "logs"),
    *("cancel", "terminate", "pause", "resume", "skip", "retry", "replay"),
    *("items", "iterations", "verify", "export"),
)

_HABITS = {"stop": "cancel", "kill": "cancel", "ls": "list", "ps": "list", "status": "show"}
"""What people type after `tenuto run` by habit."""


def read_definition(name: str) -> Source:
    """Read the FILE of a command; `-` is standard input.

    Raises:
        NotFound, InvalidInput: it cannot be read, or its name is that of no definition.
    """
    if name == "-":
        return Source(sys.stdin.buffer.read(), "<stdin>")
    if not name:
        raise InvalidInput("FILE is empty; name a .yaml, .yml or .json file")
    path = Path(name)
    if not name.endswith(SUFFIXES):
        if path.is_dir():
            inside = sorted(entry.name for entry in path.iterdir() if entry.suffix in SUFFIXES)
            hint = f", such as {path / inside[0]}" if inside else ""
            raise InvalidInput(f"{name} is a directory; name a file in it{hint}")
        raise InvalidInput(
            f"{name!r} is no .yaml, .yml or .json file" + ("" if path.exists() else _meant(name))
        )
    return read_source(path)


def _near(name: str) -> list[str]:
    """The subcommand that is all but written; a workflow's name is not to be taken for one."""
    from difflib import get_close_matches

    return get_close_matches(name, SUBCOMMANDS, n=1, cutoff=0.75)


def _meant(name: str) -> str:
    close = [_HABITS[name]] if name in _HABITS else _near(name)
    if close:
        return f"; did you mean `tenuto run {close[0]}`?"
    if NAME.fullmatch(name):
        return f"; a deployed workflow is started with `tenuto run start {name}`"
    return ", and not there either"


def validate_files(names: Sequence[str], *, app: str | None = None, as_json: bool) -> int:
    """Check each file; all findings are printed. Exit code 2 when one has an error, or cannot be read.

    Args:
        app: whose tasks the definitions name, as `--app` says it.
    """
    from tenuto.app.definitions import load_definition
    from tenuto.cli.apps import missing_tasks
    from tenuto.sdk.signatures import shapes_of

    registry = None if app is None else _registry_of(app)
    tasks = None if registry is None else shapes_of(registry)
    findings: list[Finding] = []
    unread: list[TenutoError] = []
    good = []
    for name in names:
        try:
            source = read_definition(name)
        except (NotFound, InvalidInput) as error:
            unread.append(error)
            continue
        loaded = load_definition(source.text, file=source.file, tasks=tasks)
        findings += loaded.findings
        if loaded.graph is None:
            continue
        good.append((source.file, loaded.graph))
        if registry is not None:
            told = missing_tasks(loaded.graph.definition, registry, app, Path(source.file))
            if told is not None:
                note(f"warning: {source.file}: {told}; a run waits there")
    if as_json:
        say(json.dumps([finding.as_dict() for finding in findings], ensure_ascii=False))
    else:
        for finding in findings:
            say(finding)
        for file, graph in good:
            definition = graph.definition
            say(
                f"{file}: ok: {definition.name}, {_count(len(definition.nodes), 'node')}, "
                f"{_count(len(definition.edges), 'edge')}"
            )
    for trouble in unread:
        note(f"error: {trouble}")
    if unread:
        return unread[0].exit_code
    return 0 if len(good) == len(names) else 2


def _registry_of(app: str) -> Registry:
    from tenuto.cli.apps import load_app

    return load_app(app).registry


def print_schema() -> int:
    """Print the JSON Schema of definitions."""
    from tenuto.dsl.schema import schema_text

    say(schema_text().removesuffix("\n"))
    return 0


def show_findings(findings: Sequence[Finding]) -> None:
    """Print findings to stderr, as `run FILE` does."""
    for finding in findings:
        note(finding)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
