"""`tenuto validate`, and how findings are printed. Compiling is `dsl`'s."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tenuto.cli.console import note, say
from tenuto.dsl.limits import NAME
from tenuto.model.errors import InvalidInput, NotFound, TenutoError
from tenuto.sdk.workflows import SUFFIXES, Source, read_source

if TYPE_CHECKING:
    from tenuto.dsl.findings import Finding

SUBCOMMANDS = (
    *("start", "list", "show", "watch", "wait", "logs"),
    *("cancel", "pause", "resume", "verify", "export"),
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


def _meant(name: str) -> str:
    from difflib import get_close_matches

    close = [_HABITS[name]] if name in _HABITS else get_close_matches(name, SUBCOMMANDS, n=1)
    if close:
        return f"; did you mean `tenuto run {close[0]}`?"
    if NAME.fullmatch(name):
        return f"; a deployed workflow is started with `tenuto run start {name}`"
    return ", and not there either"


def validate_files(names: Sequence[str], *, as_json: bool) -> int:
    """Check each file; all findings are printed. Exit code 2 when one has an error, or cannot be
    read.
    """
    from tenuto.app.definitions import load_definition

    findings: list[Finding] = []
    unread: list[TenutoError] = []
    good = []
    for name in names:
        try:
            source = read_definition(name)
        except (NotFound, InvalidInput) as error:
            unread.append(error)
            continue
        loaded = load_definition(source.text, file=source.file)
        findings += loaded.findings
        if loaded.graph is not None:
            good.append((source.file, loaded.graph))
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


def show_findings(findings: Sequence[Finding]) -> None:
    """Print findings to stderr, as `run FILE` does."""
    for finding in findings:
        note(finding)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
