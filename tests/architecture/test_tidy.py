"""House rules that no linter knows. Each failure says which file, which rule, and why it exists.

Standard library and pytest only. Rules that a linter can hold are in pyproject.toml, layers in test_contracts.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "tenuto"
ADR = ROOT / "docs" / "adr"

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 90

# Names that say nothing: such a module collects what has no home. A thing lives with its meaning.
FORBIDDEN_NAMES = {
    "base",
    "common",
    "constants",
    "helpers",
    "managers",
    "misc",
    "types",
    "util",
    "utils",
}

HTTP = "asked over real HTTP, with a real engine behind it: tests/integration/test_api.py"
SERVICES = "one cycle in several files, run whole on a real store: tests/integration"
BY_EVENTS = "tried whole, by events: tests/unit/machine, test_decide, test_foreach, test_handlers, test_children"
PROCESSES = "real processes, alone and under the command: tests/integration/worker_processes"
AS_USERS_DO = "driven as a test of a user's drives it: tests/integration/test_testing.py"
DISPATCH = "one suite for both, over real servers: tests/conformance/dispatch"
STREAMS = "real streams: tests/integration/test_workers_service.py, test_remote_gateway.py; tests/conformance/gateway"
# Modules whose behaviour is proven elsewhere. One reason each; the list is meant to stay short.
TESTED_ELSEWHERE: dict[str, str] = {
    "api/app": HTTP,
    "api/door": HTTP,
    "api/routes": HTTP,
    "api/service": HTTP,
    "api/starting": HTTP,
    "app/rest": HTTP,
    "cli": "a command is tested by running it: tests/e2e",
    "app/core": SERVICES,
    "adapters/redis/dispatch": DISPATCH,
    "adapters/redis/publisher": DISPATCH,
    "adapters/redis/reader": DISPATCH,
    "adapters/sql/ready": "tests/conformance/test_ready.py",
    "coordinator/dispatching": DISPATCH,
    "ports/ready": "data",
    "app/server": "run as a process: tests/e2e/test_server.py, tests/integration/test_server_mistakes.py",
    "adapters/postgres/mending": "on real servers: tests/integration/postgres/test_dropped_functions.py",
    "adapters/postgres/looking": "`tenuto db check` on real servers: tests/integration/test_server_mistakes.py",
    "ports/database": "data",
    "coordinator/aftermath": SERVICES,
    "coordinator/again": SERVICES,
    "coordinator/commands": SERVICES,
    "coordinator/coordinator": SERVICES,
    "coordinator/gateway": SERVICES,
    "coordinator/handout": SERVICES,
    "coordinator/supply": SERVICES,
    "coordinator/timers": SERVICES,
    "coordinator/watching": SERVICES,
    "coordinator/work": SERVICES,
    "adapters/postgres/connecting": "by real servers and poolers: tests/integration/postgres",
    "adapters/postgres/news": "the same",
    "adapters/postgres/opening": "the same",
    "adapters/postgres/shared": "the same",
    "adapters/sql/statements/columns": "put into statements: tests/conformance, test_rows.py",
    "machine/ends": BY_EVENTS,
    "machine/snapshot": "data; its one property is tried by tests/unit/machine/test_closing.py",
    "machine/work": BY_EVENTS,
    "sdk/exchange": "by the verbs that use it: tests/unit/sdk/test_remote.py",
    "testing/paths": AS_USERS_DO,
    "testing/reading": AS_USERS_DO,
    "testing/settling": AS_USERS_DO,
    "testing/shown": AS_USERS_DO,
    "testing/stage": AS_USERS_DO,
    "testing/world": AS_USERS_DO,
    "rpc/client": STREAMS,
    "rpc/connection": STREAMS,
    "rpc/server": STREAMS,
    "rpc/session": STREAMS,
    "proto": "made by scripts/gen_proto.py; tests/unit/languages/test_server.py",
    "views/cures": "tests/unit/views/test_report.py",
    "views/look": "tests/e2e, by every command that shows a run",
    "views/documents": "tests/unit/views/test_answers.py",
    "views/verify": "tests/e2e, and tests/unit/views/test_answers.py",
    "views/timeline": "tests/unit/views/test_report.py",
    "app/worker": PROCESSES,
    "worker/bonds": PROCESSES,
    "worker/handle": PROCESSES,
    "worker/launcher": "a process of its own: tests/unit/worker/test_launching.py",
    "worker/process": PROCESSES,
    "worker/processes": PROCESSES,
    "worker/supervisor": PROCESSES,
    "worker/child": "tests/unit/worker/test_children.py, since it is a process of its own",
    "app/languages": "real servers and engines: tests/integration/test_code.py, test_code_kill.py",
    "languages/cpython": "tests/integration/test_code.py, with real processes",
    "languages/cpython_child": "tests/integration/test_code.py, inside its process",
    "languages/jail": "what it forbids is tried by tests/integration/test_code.py, test_code_kill.py",
    "languages/javascript": "tests/integration/test_code.py, with real processes",
    "languages/javascript_child": "tests/integration/test_code.py, inside its process",
    "languages/python": "tests/integration/test_code.py, with Monty's processes",
    "languages/python_child": "tests/integration/test_code_kill.py: it becomes Monty's process",
    "languages/service": "tests/integration/test_code.py",
    "languages/setting": "command lines, tried by every process of tests/integration/test_code.py",
    "ports": "a port has no behaviour of its own: tests/conformance runs every adapter through it",
}

# What must not stand in a committed file; written so that this file passes its own check.
# A machine's paths are dead elsewhere, and which registry to use is the reader's choice.
MACHINE = re.compile(r"(?<![\w./~{}$-])/(?:work|root|farm)/\w")
HOSTS = re.compile(r"\bpypi[.]org|python[h]osted|registry[.]npmjs|\bfarm[-]")
LOCK_FILES = {"uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock", "package-lock.json"}

# `tenuto --help` must answer at once (300 ms), so nothing heavy may load before a verb is chosen.
HEAVY = {
    *("asyncpg", "cel_expr_python", "fastapi", "grpc", "httpx2", "jsonschema", "pydantic"),
    *("starlette", "uvicorn", "yaml"),
}


def modules() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def said(path: Path) -> str:
    return str(path.relative_to(ROOT))


def committed() -> list[Path]:
    """Files that are, or would be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return [path for path in paths if path.is_file()]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_declared_only(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a body is a docstring, `...` or `pass`: a protocol's method, an overload."""
    return all(
        isinstance(part, ast.Pass)
        or (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
        for part in function.body
    )


def has_behaviour(path: Path) -> bool:
    """Whether a module does more than declare (protocols, constants, plain dataclasses, texts)."""
    tree = ast.parse(path.read_text())
    return any(not is_declared_only(function) for function in functions(tree))


def unit_tests(path: Path) -> list[Path]:
    """The unit test files of a module: test_<name>.py, or several test_<name>_<topic>.py."""
    folder = ROOT / "tests" / "unit" / path.relative_to(SRC).parent
    name = path.stem.lstrip("_")
    return [*folder.glob(f"test_{name}.py"), *folder.glob(f"test_{name}_*.py")]


def test_there_is_source_to_check() -> None:
    """Every check below passes on an empty list, so the list is checked first."""
    assert len(modules()) > 20
    assert ROOT / "pyproject.toml" in committed()


def test_every_module_says_what_it_is() -> None:
    silent = [
        said(path) for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))
    ]

    assert silent == [], "a module opens with what it is and what it is not"


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = [
        said(path)
        for path in modules()
        if FORBIDDEN_NAMES & {part.removesuffix(".py") for part in path.relative_to(SRC).parts}
    ]

    assert vague == [], "code lives with its meaning"


def test_no_file_is_too_long_to_hold_in_the_head() -> None:
    long = {said(path): len(path.read_text().splitlines()) for path in modules()}

    assert {name: lines for name, lines in long.items() if lines > FILE_LINES_MAX} == {}


def test_no_function_is_too_long_to_hold_in_the_head() -> None:
    long = {
        f"{said(path)}:{function.lineno} {function.name}": function.end_lineno - function.lineno + 1
        for path in modules()
        for function in functions(ast.parse(path.read_text()))
        if function.end_lineno is not None
    }

    assert {name: lines for name, lines in long.items() if lines > FUNCTION_LINES_MAX} == {}


def test_every_module_with_behaviour_has_its_unit_test() -> None:
    untested = [
        said(path)
        for path in modules()
        if path.stem not in {"__init__", "__main__"}
        and has_behaviour(path)
        and not unit_tests(path)
        and not any(_is_within(path, name) for name in TESTED_ELSEWHERE)
    ]

    assert untested == [], "tests/unit mirrors src/tenuto; exceptions stand in TESTED_ELSEWHERE"


def test_every_exception_from_unit_tests_still_exists() -> None:
    gone = [
        name
        for name in TESTED_ELSEWHERE
        if not (SRC / name).is_dir() and not (SRC / f"{name}.py").is_file()
    ]

    assert gone == []


def test_no_committed_file_names_a_machine_or_a_registry() -> None:
    found = []
    for path in committed():
        try:
            text = path.read_text()
        except (UnicodeDecodeError, FileNotFoundError):
            continue  # not text; or what somebody who works here beside the tests has just taken away
        found += [
            f"{said(path)}:{number} {line.strip()[:80]}"
            for number, line in enumerate(text.splitlines(), 1)
            if MACHINE.search(line) or HOSTS.search(line)
        ]

    assert found == [], "paths of one machine and registry hosts mean nothing to the next reader"


def test_no_lock_file_is_committed() -> None:
    locked = [said(path) for path in committed() if path.name in LOCK_FILES]

    assert locked == [], "a lock file names registry hosts; requirements/*.txt hold the pins"


def test_every_pin_has_a_hash() -> None:
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        entries = re.split(r"\n(?=\S)", re.sub(r"(?m)^#.*\n", "", path.read_text()).strip())
        loose = [entry for entry in entries if "==" not in entry or "--hash=sha256:" not in entry]

        assert len(entries) > 5, path.name
        assert loose == [], path.name


def test_every_decision_record_is_listed() -> None:
    index = (ADR / "README.md").read_text()
    records = sorted(path.name for path in ADR.glob("[0-9]*.md"))

    assert records == sorted(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", index))
    assert [name[:4] for name in records] == [f"{n:04}" for n in range(1, len(records) + 1)]


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["run", "start", "--help"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tenuto", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    loaded = set(re.findall(r"^import time:.*\| +([\w.]+)$", done.stderr, re.MULTILINE))

    assert done.returncode == 0, done.stderr[-2000:]
    assert "tenuto" in loaded
    # typer itself loads pydantic to read the words of a verb.
    heavy = HEAVY if words == ["--help"] else HEAVY - {"pydantic"}
    assert {name for name in loaded if name.split(".")[0] in heavy} == set()


def _is_within(path: Path, name: str) -> bool:
    inside = path.relative_to(SRC).with_suffix("").as_posix()
    return inside == name or inside.startswith(f"{name}/")
