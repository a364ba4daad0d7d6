"""What the README, the docs and the examples' pages show works.

Each page is a folder of its own with a copy of `examples/` in it. Checked is, per page and in its order:
- a code block whose first line is `# NAME`, or that follows a line ending in "`NAME`:", is written as the file NAME;
- a yaml block with `name:` and `nodes:` at its top level is a definition without errors;
- a python block runs to its end without an error: `serve.py` is ended by SIGTERM once it says that it serves,
  `test_….py` runs under pytest;
- a json block is JSON; a toml block that is a `tenuto.toml` has only settings that exist;
- a line `[$ ]tenuto …` in a block without a language, or in a console or bash block, is a command line that exists: its
  verbs and options are known; a line `curl …` asks for an address and a method that REST, or the example, has;
- of these, and of `python examples/…`, those are run that name no id and whose files are there; a service and a run go
  on beside what follows them, and must end well. Port 9000 is replaced by a free one. What a console block shows below
  a command is what it prints, but for times and ids.

The tutorial and the README's five minutes are done by the letter in test_tutorial.py.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.backing.ports import free_port
from tests.support.command import COMMAND, HANG_S
from tests.support.examples import EXAMPLES, ROOT, load
from tests.support.pages import Block, Meant, blocks, typed
from typer.core import TyperGroup
from typer.main import get_command

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.sqlite.engine import open_reader
from tenuto.api.app import describe
from tenuto.app.definitions import load_definition
from tenuto.cli.commands import app
from tenuto.dsl.keys import OWN, WORK_KEYS
from tenuto.model.definition import NodeType
from tenuto.model.errors import TenutoError
from tenuto.settings import load as load_settings

PAGES = sorted(
    path
    for pattern in ("README.md", "docs/*.md", "docs/nodes/*.md", "examples/*/README.md")
    for path in ROOT.glob(pattern)
    if path.name != "tutorial.md"
)
A_COMMAND = re.compile(r"^(?:tenuto|python) ")
A_REQUEST = re.compile(r"^(?:\$ )?(curl (?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
WHOLE_VERBS = {"validate", "version", "doctor"}
LANGUAGES = {"", "bash", "cel", "console", "json", "mermaid", "python", "toml", "yaml"}
"""Those that something here looks at, or that cannot be looked at: CEL without its data, and Mermaid."""


def is_definition(block: Block) -> bool:
    return block.language == "yaml" and all(
        re.search(rf"^{key}:", block.text, re.MULTILINE) for key in ("name", "nodes")
    )


def commands(block: Block) -> Iterator[tuple[list[str], list[str]]]:
    """The command lines of a block, split as a shell does, and what is shown below each."""
    if block.language == "console":
        for command, shown in typed(block):
            if A_COMMAND.match(command):
                yield words_of(command), shown
    elif block.language in ("", "bash"):
        for line in block.text.splitlines():
            if A_COMMAND.match(line):
                yield words_of(line), []


def words_of(line: str) -> list[str]:
    """A command line as a shell splits it, without a redirection behind it."""
    words = shlex.split(line, comments=True)
    return words[: words.index(">")] if ">" in words else words


def assert_answered(words: list[str], routes: dict[str, set[str]]) -> None:
    """That a request of curl is for an address that is served, with a method that it takes, and with JSON."""
    url = next(word for word in words[1:] if "localhost" in word)
    path = "/" + url.split("/", 1)[1].partition("?")[0]
    method = words[words.index("-X") + 1] if "-X" in words else "POST" if "-d" in words else "GET"
    found = [
        methods
        for route, methods in routes.items()
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route), path)
    ]
    assert found, f"nothing is served at {path}"
    assert any(method.lower() in methods for methods in found), f"{path} does not take {method}"
    if "-d" in words:
        json.loads(words[words.index("-d") + 1])


def routes_of(page: Path) -> dict[str, set[str]]:
    """Path -> methods that the page may ask for: REST's, and the application's of the example that it describes."""
    served = [describe()]
    if page.parent.name == "fastapi_app":
        served.append(
            load(EXAMPLES / "fastapi_app" / "main.py", "example_fastapi_app").web.openapi()
        )
    return {path: set(found) for each in served for path, found in each["paths"].items()}


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


def is_made(database: Path) -> bool:
    """Whether an engine has made the file, and all that belongs into it."""
    try:
        open_reader(database, SystemClock()).shut()
    except TenutoError:
        return False
    return True


class Page:
    """One page's folder, and the processes that run beside the reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen[str]] = []
        self.services: list[subprocess.Popen[str]] = []
        self.meant = Meant()
        self.shown: dict[int, list[str]] = {}
        self.port = str(free_port())
        shutil.copytree(ROOT / "examples", folder / "examples")
        for path in (folder / "examples").rglob("*.yaml"):
            path.write_text(path.read_text().replace(":9000", f":{self.port}"))

    def write(self, block: Block) -> None:
        """Write the file that a block is."""
        assert block.name is not None
        path = self.folder / block.name
        path.parent.mkdir(exist_ok=True)
        path.write_text(block.text.replace(":9000", f":{self.port}"))

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

    def run(self, words: list[str], shown: list[str]) -> None:
        """Run a command of the page, beside the next ones if it goes on. `shown`: what it has to print."""
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
            while not is_made(self.folder / ".tenuto" / "tenuto.db"):
                assert self.running[-1].poll() is None, self.running[-1].communicate()
                time.sleep(0.05)
        else:
            self.settle()
        process = self.start(words)
        self.running.append(process)
        self.shown[process.pid] = shown
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
        missing = self.meant.missing(self.shown.pop(process.pid, []), said)
        assert missing is None, f"{process.args!r} does not print\n{missing}\nbut\n{said}"

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
                has_runs = (self.folder / ".tenuto" / "tenuto.db").is_file()
                return has_runs and all(word.startswith("--") for word in more)
            case ["run" | "validate", file, *more]:
                return (self.folder / file).is_file() and "--carry-on" not in more
            case ["event", "send", *_]:
                return bool(self.running)
            case ["workflow", "diff", *sides]:
                files = [word for word in sides if not word.startswith("--")]
                return len(files) == 2 and all((self.folder / file).is_file() for file in files)
            case other:
                return other[0] in WHOLE_VERBS


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_page_shows_works(page: Path, tmp_path: Path) -> None:
    reader = Page(tmp_path)
    routes = routes_of(page)
    try:
        for number, block in enumerate(blocks(page.read_text())):
            assert block.language in LANGUAGES, f"nobody looks at {block.language}: {block.text}"
            if block.name is not None:
                reader.write(block)
            if is_definition(block):
                loaded = load_definition(block.text, file=f"{page.name} block {number}")
                assert loaded.graph is not None, "\n".join(map(str, loaded.findings))
            if block.language == "json":
                json.loads(block.text)
            if block.language == "toml":
                assert_settings(block)
            if block.language == "python":
                run_python(reader, block, number)
            for request in A_REQUEST.findall(block.text):
                assert_answered(shlex.split(request.replace("\\\n", " ")), routes)
            for words, shown in commands(block):
                if words[0] == "tenuto":
                    assert_known(words)
                if reader.can_run(words):
                    reader.run(words, shown)
        reader.settle()
    finally:
        reader.close()


def run_python(reader: Page, block: Block, number: int) -> None:
    """Run a program of the page as what its name says that it is."""
    file = reader.folder / (block.name or f"block_{number}.py")
    file.write_text(block.text)
    reader.settle()
    if file.name == "serve.py":
        reader.serve(["python", file.name])
    elif file.name.startswith("test_"):
        reader.ended_well(reader.start(["python", "-m", "pytest", "-q", file.name]))
    else:
        reader.run(["python", file.name], [])


def assert_settings(block: Block) -> None:
    """That a tenuto.toml, or the table in a pyproject.toml, has only settings that exist."""
    tree = tomllib.loads(block.text)
    if "tool" in tree and "tenuto" not in tree["tool"]:
        return
    with tempfile.TemporaryDirectory() as folder:
        name = "pyproject.toml" if "tool" in tree else "tenuto.toml"
        (Path(folder) / name).write_text(block.text)
        load_settings(environment={}, folder=Path(folder))


def test_every_type_of_node_has_its_page_with_an_example_that_runs() -> None:
    pages = {path.stem: path.read_text() for path in (ROOT / "docs" / "nodes").glob("*.md")}

    assert set(pages) == {"index", *NodeType}
    for type in NodeType:
        definitions = [block for block in blocks(pages[type]) if is_definition(block)]
        assert any(f"type: {type}" in block.text for block in definitions), type
        run = [words[1:3] for block in blocks(pages[type]) for words, _ in commands(block)]
        assert ["run", definitions[0].name] in run, type
        own = set(OWN[type]) - {*WORK_KEYS, "optional"}
        assert [key for key in own if f"`{key}`" not in pages[type]] == [], type
