"""What the README, the docs and the examples' pages show works.

Each page is a folder of its own with a copy of `examples/` in it. Checked is, per page and in its order:
- a code block whose first line is `# NAME`, or that follows a line ending in "`NAME`:", is written as the file NAME;
- a yaml block with `name:` and `nodes:` at its top level is a definition without errors;
- a python block runs to its end without an error: `serve.py` is ended by SIGTERM once it says that it serves,
  `test_….py` runs under pytest;
- a line `[$ ]tenuto …` in a block without a language, or in a console or bash block, is a command line that exists: its
  verbs and options are known;
- of these, and of `python examples/…`, those are run that name no id and whose files are there; a service and a run go
  on beside what follows them, and must end well. Port 9000 is replaced by a free one.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.command import COMMAND, HANG_S
from tests.support.examples import ROOT
from typer.core import TyperGroup
from typer.main import get_command

from tenuto.app.definitions import load_definition
from tenuto.cli.commands import app

PAGES = sorted(
    path
    for found in (ROOT.glob("README.md"), ROOT.glob("docs/*.md"), ROOT.glob("examples/*/README.md"))
    for path in found
)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED_ABOVE = re.compile(r"`(\w+\.(?:py|yaml))`[^`\n]*:\n\n$")
NAMED_INSIDE = re.compile(r"# (\w+\.(?:py|yaml))\n")
A_COMMAND = re.compile(r"^(?:\$ )?((?:tenuto|python) .*)$", re.MULTILINE)
WHOLE_VERBS = {"validate", "version", "doctor"}


@dataclass(frozen=True)
class Block:
    """A code block: its language, its text, and the file that it is, if the page says so."""

    language: str
    text: str
    name: str | None


def blocks(page: Path) -> Iterator[Block]:
    """The page's code blocks in order."""
    text = page.read_text()
    for found in BLOCK.finditer(text):
        named = NAMED_INSIDE.match(found[2]) or NAMED_ABOVE.search(text[: found.start()])
        yield Block(found[1], found[2], named[1] if named else None)


def is_definition(block: Block) -> bool:
    return block.language == "yaml" and all(
        re.search(rf"^{key}:", block.text, re.MULTILINE) for key in ("name", "nodes")
    )


def commands(block: Block) -> list[list[str]]:
    """The command lines of a block, split as a shell does."""
    if block.language not in ("", "bash", "console"):
        return []
    return [shlex.split(line, comments=True) for line in A_COMMAND.findall(block.text)]


def assert_known(words: list[str]) -> None:
    """That verbs, options and number of arguments are those of the command; nothing is done."""
    command, name, rest, context = get_command(app), words[0], words[1:], None
    while True:
        context = command.make_context(name, list(rest), parent=context)
        if not isinstance(command, TyperGroup):
            return
        left = [*context._protected_args, *context.args]
        found, chosen, rest = command.resolve_command(context, left)
        assert found is not None, f"tenuto has no {left[0]}"
        assert chosen is not None
        name, command = found, chosen


class Page:
    """One page's folder, and the processes that run beside the reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen[str]] = []
        self.services: list[subprocess.Popen[str]] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])
        shutil.copytree(ROOT / "examples", folder / "examples")
        for path in (folder / "examples").rglob("*.yaml"):
            path.write_text(path.read_text().replace(":9000", f":{self.port}"))

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        program = {"tenuto": [str(COMMAND)], "python": [sys.executable]}[words[0]]
        return subprocess.Popen(
            [*program, *(self.port if word == "9000" else word for word in words[1:])],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )

    def run(self, words: list[str]) -> None:
        """Run a command of the page, beside the next ones if it goes on."""
        if words[1].endswith("service.py"):
            service = self.start(words)
            self.services.append(service)
            assert service.stdout is not None
            assert service.stdout.readline().startswith("listening")
            return
        if words[:3] == [
            "tenuto",
            "event",
            "send",
        ]:  # to a run that goes on, in a file that it makes
            while not (self.folder / ".tenuto" / "tenuto.db").exists():
                assert self.running[-1].poll() is None, self.running[-1].communicate()
                time.sleep(0.05)
        else:
            self.settle()
        process = self.start(words)
        self.running.append(process)
        if words[:2] != ["tenuto", "run"] or words[2] in ("list", "verify"):
            self.ended_well(process)

    def serve(self, words: list[str]) -> None:
        """Start a program that stays, and end it."""
        process = self.start(words)
        self.running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        process.terminate()
        self.ended_well(process)

    def ended_well(self, process: subprocess.Popen[str]) -> None:
        said, _ = process.communicate(timeout=HANG_S)
        if process in self.running:
            self.running.remove(process)
        assert process.returncode == 0, f"{process.args!r}: {said}"

    def settle(self) -> None:
        """Wait for what runs beside."""
        for process in list(self.running):
            self.ended_well(process)

    def close(self) -> None:
        """Leave nothing behind."""
        for process in self.running + self.services:
            process.kill()
            process.communicate()

    def can_run(self, words: list[str]) -> bool:
        """Whether everything that the command names is there."""
        if words[0] == "python":
            return (self.folder / words[1]).is_file()
        match words[1:]:
            case ["run", "list" | "verify", *more]:
                return all(word.startswith("--") for word in more)
            case ["run" | "validate", file, *more]:
                return (self.folder / file).is_file() and "--carry-on" not in more
            case ["event", "send", *_]:
                return bool(self.running)
            case other:
                return other[0] in WHOLE_VERBS


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_page_shows_works(page: Path, tmp_path: Path) -> None:
    reader = Page(tmp_path)
    try:
        for number, block in enumerate(blocks(page)):
            if block.name is not None:
                (tmp_path / block.name).write_text(block.text)
            if is_definition(block):
                loaded = load_definition(block.text, file=f"{page.name} block {number}")
                assert loaded.graph is not None, "\n".join(map(str, loaded.findings))
            if block.language == "python":
                file = tmp_path / (block.name or f"block_{number}.py")
                file.write_text(block.text)
                reader.settle()
                if file.name == "serve.py":
                    reader.serve(["python", file.name])
                elif file.name.startswith("test_"):
                    reader.ended_well(reader.start(["python", "-m", "pytest", "-q", file.name]))
                else:
                    reader.run(["python", file.name])
            for words in commands(block):
                if words[0] == "tenuto":
                    assert_known(words)
                if reader.can_run(words):
                    reader.run(words)
        reader.settle()
    finally:
        reader.close()
