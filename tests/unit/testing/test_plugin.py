"""The pytest plugin, in sessions of its own: as it is installed, with and without other plugins."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tenuto.testing.plugin import default_app

APP = """
from tenuto import Tenuto

app = Tenuto()


@app.task
def greet(name: str) -> str:
    return name.title()
"""
FLOW = """
name: greet
input: {type: object, required: [name]}
nodes:
  rest: {type: wait, for: 2d}
  greet: {type: task, task: greet, params: {name: "${input.name}"}, needs: rest}
output: {said: "${nodes.greet.output}"}
"""
TESTS = """
from datetime import timedelta


def test_it_waits(tenuto_env):
    run = tenuto_env.start("greet.yaml", {"name": "ada"})
    assert tenuto_env.run_to_end(run) == timedelta(days=2)
    run.assert_success(output={"said": "Ada"})


def test_another_one(tenuto_engine):
    env = tenuto_engine(start_at="2030-01-01T00:00:00Z")
    env.mock("greet", returns="x")
    run = env.start("greet.yaml", {"name": "ada"})
    env.advance("2d")
    run.assert_success(output={"said": "x"})
"""
PLUGIN = ("-p", "tenuto.testing.plugin")
ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
SETTINGS = "[pytest]\ntenuto_app = app:app\nfilterwarnings = error\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(
        tmp_path,
        {"app.py": APP, "greet.yaml": FLOW, "test_greet.py": TESTS, "pytest.ini": SETTINGS},
    )
    return tmp_path


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def run_pytest(folder: Path, *arguments: str, code: int = 0) -> str:
    """The output of a session in a folder."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "TENUTO_"))}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = (
        "1"  # what is installed here beside it takes seconds to load
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *PLUGIN, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_pytest_finds_the_plugin_by_itself() -> None:
    [found] = entry_points(group="pytest11", name="tenuto")

    assert found.value == "tenuto.testing.plugin"


def test_the_fixtures_work_in_a_bare_pytest(project: Path) -> None:
    assert "2 passed" in run_pytest(project)


def test_a_check_that_fails_shows_the_lines_of_the_test_alone(project: Path) -> None:
    write(
        project,
        {
            "test_greet.py": """
async def test_awaited(tenuto_env):
    run = await tenuto_env.astart("greet.yaml", {"name": "ada"})
    await run.aassert_success()


def test_plain(tenuto_env):
    tenuto_env.start("greet.yaml", {"name": "ada"}).assert_success()


def test_path(tenuto_env):
    run = tenuto_env.start("greet.yaml", {"name": "ada"})
    tenuto_env.assert_path(run, ["greet"])


def test_missing(tenuto_env):
    tenuto_env.start("gret.yaml", {"name": "ada"})
"""
        },
    )

    told = run_pytest(project, *ASYNCIO, "-o", "asyncio_mode=auto", "--tb=short", code=1)
    places = re.findall(r"^(\S+\.py):\d+: in (\w+)$", told, re.MULTILINE)
    assert places == [
        ("test_greet.py", name)
        for name in ("test_awaited", "test_plain", "test_path", "test_missing")
    ]
    assert "RunCheck: expected success, but the run is running" in told


def test_they_work_spread_over_processes(project: Path) -> None:
    assert "2 passed" in run_pytest(project, "-p", "xdist.plugin", "-n", "2")


@pytest.mark.parametrize("mode", ["auto", "strict"])
def test_they_work_in_coroutines(project: Path, mode: str) -> None:
    mark = "import pytest\n\npytestmark = pytest.mark.asyncio\n" if mode == "strict" else ""
    write(
        project,
        {
            "test_greet.py": mark
            + """
async def test_it_waits(tenuto_env):
    run = await tenuto_env.astart("greet.yaml", {"name": "ada"})
    await tenuto_env.arun_to_end(run)
    await run.aassert_success(output={"said": "Ada"})
"""
        },
    )

    assert "1 passed" in run_pytest(project, *ASYNCIO, "-o", f"asyncio_mode={mode}")


def test_a_sync_verb_in_a_coroutine_says_which_one_to_use(project: Path) -> None:
    text = "async def test_it(tenuto_env):\n    tenuto_env.advance('1s')\n"
    write(project, {"test_greet.py": text})

    out = run_pytest(project, *ASYNCIO, "-o", "asyncio_mode=auto", code=1)
    assert "advance() would block the event loop that runs here; use `await …aadvance(…)`" in out


def test_a_failed_test_shows_its_runs_and_reports_nothing_more(project: Path) -> None:
    text = """
def test_it(tenuto_engine):
    env = tenuto_engine(strict=True)
    env.mock("greet", returns=1)
    env.start("greet.yaml", {"name": "ada"})
    assert False, "the test's own"
"""
    write(project, {"test_greet.py": text})

    out = run_pytest(project, code=1)
    section = out[out.index("- tenuto runs -") :]
    assert "the clock shows 2026-01-01T00:00:00.000Z" in section
    assert "now: rest waits for its time in 2d00h" in section
    assert "1 failed" in out
    assert "error" not in section.splitlines()[-1]


def test_a_test_that_passed_fails_by_its_unused_mocks_where_they_count(project: Path) -> None:
    text = """
def test_it(tenuto_engine):
    env = tenuto_engine(strict=True)
    env.mock("greet", returns=1)
    env.start("greet.yaml", {"name": "ada"})
"""
    write(project, {"test_greet.py": text})

    out = run_pytest(project, code=1)
    assert "UnusedMocks: no attempt met the mocks of node 'greet'" in out


def a_config(folder: Path, setting: str) -> pytest.Config:
    """As much of a session's settings as is asked for."""
    known = SimpleNamespace(getini={"tenuto_app": setting}.__getitem__, rootpath=folder)
    return cast("pytest.Config", known)


@pytest.fixture
def importing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test imports and puts on the path is gone after it, and what others imported by these names before it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("app", "other"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in ("app", "other"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("importing")
@pytest.mark.parametrize(
    ("setting", "files"),
    [
        ("app:app", {}),
        ("app", {}),
        ("app.py", {}),
        ("code/other.py:mine", {"code/other.py": APP.replace("app", "mine")}),
        ("", {"tenuto.toml": 'app = "app:app"\n'}),
    ],
)
def test_the_app_is_found_by_the_settings(
    project: Path, setting: str, files: dict[str, str]
) -> None:
    write(project, files)

    assert default_app(a_config(project, setting)).registry.names() == ("greet",)


@pytest.mark.usefixtures("importing")
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "",
            'tenuto_env needs to know the app: write tenuto_app = "app:app" into the pytest settings',
        ),
        ("ap:app", "tenuto_app = 'ap:app': no module 'ap' in {folder} or on sys.path"),
        (
            "app:apps",
            "tenuto_app = 'app:apps': app has no Tenuto app 'apps'; did you mean app:app?",
        ),
        (
            "app:greet",
            "tenuto_app = 'app:greet': app has no Tenuto app 'greet'; did you mean app:app?",
        ),
    ],
)
def test_a_wrong_setting_is_one_line(project: Path, setting: str, said: str) -> None:
    with pytest.raises(pytest.UsageError) as caught:
        default_app(a_config(project, setting))

    assert str(caught.value) == said.replace("{folder}", str(project))


def test_a_session_that_uses_nothing_of_it_loads_nothing_of_it(project: Path) -> None:
    text = """
import sys


def test_it():
    loaded = sorted(name for name in sys.modules if name.startswith("tenuto."))
    assert loaded == ["tenuto.model", "tenuto.model.version", "tenuto.testing", "tenuto.testing.plugin"]
    heavy = {"cel_expr_python", "fastapi", "grpc", "httpx2", "orjson", "pydantic", "sqlite3", "yaml"}
    assert not heavy & set(sys.modules)
"""
    write(project, {"test_greet.py": text})

    assert "1 passed" in run_pytest(project)
