"""`tenuto init` makes a project that runs, is tested and is found from any folder, and never writes over anything."""

from __future__ import annotations

import os
import re
import resource
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.support.command import HANG_S, Tenuto, json_of

FILES = [".gitignore", "app.py", "hello.yaml", "tenuto.toml", "tests/test_hello.py"]


@pytest.fixture
def empty(tmp_path: Path) -> Tenuto:
    return Tenuto(tmp_path)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def pytest_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The project's own tests, as its owner runs them."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        timeout=HANG_S,
        check=False,
    )


@pytest.mark.parametrize("name", [".", "shop", "a/deep/shop"])
def test_a_project_is_made_that_runs(empty: Tenuto, name: str) -> None:
    done = empty("init", name)
    project = empty.folder / name

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert files(project) == FILES
    assert done.stdout.splitlines()[0] == f"made in {project}:"
    checked = Tenuto(project)("validate", "hello.yaml")
    assert checked.returncode == 0, checked.stdout
    ran = Tenuto(project)("run", "hello.yaml", "-o", "json")
    assert json_of(ran)["output"] == {"said": "Hello world!", "letters": 5}
    assert (project / ".tenuto" / "tenuto.db").exists()


def test_its_tests_pass_and_can_fail(empty: Tenuto) -> None:
    empty("init", "shop")
    project = empty.folder / "shop"

    passed = pytest_in(project)
    app = project / "app.py"
    app.write_text(app.read_text().replace("Hello", "Bye"))
    failed = pytest_in(project, "tests/test_hello.py")

    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "3 passed" in passed.stdout
    assert failed.returncode == 1
    assert "1 failed, 2 passed" in failed.stdout


def test_the_next_commands_are_printed_and_work(empty: Tenuto) -> None:
    lines = empty("init", "my shop").stdout.splitlines()
    change, run, dev = [line.strip() for line in lines[lines.index("next:") + 1 :]]

    done = subprocess.run(
        ["sh", "-c", f"{change} && {run}"],
        cwd=empty.folder,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        timeout=HANG_S,
        check=False,
    )

    assert change == "cd 'my shop'"
    assert done.returncode == 0, done.stderr
    assert "Hello Ada!" in done.stdout
    assert shlex.split(dev) == ["tenuto", "dev"]
    assert empty("dev", "--help").returncode == 0


def test_every_setting_stands_in_its_file_and_means_what_it_says(empty: Tenuto) -> None:
    empty("init", ".")
    file = empty.folder / "tenuto.toml"
    before = json_of(empty("config", "show", "-o", "json"))

    whole = re.sub(r"(?m)^# (?=\w+ = )", "", file.read_text())
    file.write_text(re.sub(r'(?m)^url = "".*$', "", whole, count=1))  # that of the server
    after = json_of(empty("config", "show", "--sources", "-o", "json"))

    assert tomllib.loads(file.read_text())["dev"] == {"port": 8080, "watch": True}
    assert [{k: v for k, v in row.items() if k != "source"} for row in after] == before
    assert [row["name"] for row in after if row["source"] == "default"] == ["url"]


@pytest.mark.parametrize("folder", ["My Shop!", "über", "x" * 150])
def test_the_workflow_is_hello_whatever_the_folder(empty: Tenuto, folder: str) -> None:
    done = empty("init", "--", folder)

    assert done.returncode == 0, done.stderr
    checked = Tenuto(empty.folder / folder)("validate", "hello.yaml")
    assert checked.stdout == "hello.yaml: ok: hello, 5 nodes, 5 edges\n"


def test_nothing_is_written_over_a_second_time(empty: Tenuto) -> None:
    empty("init", "shop")
    (empty.folder / "shop" / "app.py").write_text("mine")
    (empty.folder / "shop" / "tenuto.toml").unlink()

    again = empty("init", "shop")

    assert again.returncode == 4
    assert again.stderr == (
        "error: app.py, hello.yaml, tests/test_hello.py are in shop already, "
        "and nothing is written over; name another folder\n"
    )
    assert (empty.folder / "shop" / "app.py").read_text() == "mine"
    assert not (empty.folder / "shop" / "tenuto.toml").exists()


def test_files_of_other_names_and_a_gitignore_stay_as_they_are(empty: Tenuto) -> None:
    (empty.folder / ".gitignore").write_text("*.log\n")
    (empty.folder / "README.md").write_text("mine")
    (empty.folder / "tests").mkdir()

    done = empty("init")

    assert done.returncode == 0
    assert (empty.folder / ".gitignore").read_text() == "*.log\n"
    assert done.stderr == ".gitignore was there already; add the line .tenuto/ to it\n"
    assert files(empty.folder) == sorted([*FILES, "README.md"])


@pytest.mark.parametrize("way", ["a dangling link", "a file named tests"])
def test_odd_things_in_the_way_are_seen(empty: Tenuto, way: str) -> None:
    if way == "a dangling link":
        (empty.folder / "app.py").symlink_to("nowhere.py")
    else:
        (empty.folder / "tests").write_text("mine")
    what = "app.py" if way == "a dangling link" else "tests"

    done = empty("init")

    assert done.returncode == 4
    assert done.stderr.startswith(f"error: {what} is in . already")
    assert not (empty.folder / "hello.yaml").exists()


def test_when_the_disk_is_full_nothing_is_left_behind(tmp_path: Path) -> None:
    """A bound on the size of files stands for the disk: the first larger one cannot be written."""
    command = Path(sys.executable).with_name("tenuto")

    done = subprocess.run(
        [command, "init", "a/shop"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600)),
        timeout=HANG_S,
        check=False,
    )

    assert done.returncode == 6
    assert done.stderr == "error: a/shop cannot be made: File too large; nothing was made\n"
    assert list(tmp_path.iterdir()) == []
