"""The build's own scripts keep their promises: budgets, real failures, Pythons that work."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import sleep
from types import ModuleType

import pytest
from tests.support.process_tasks import until_dead
from tests.support.scripts import load_script

ROOT = Path(__file__).resolve().parents[2]
Load = Callable[[str], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads a script of scripts/ as a module."""
    return partial(load_script, monkeypatch=monkeypatch)


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_a_stage_over_its_budget_fails_and_is_ended_with_its_children(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ci = load("ci")
    note = tmp_path / "pid"
    start_child = ("sh", "-c", f"sleep 600 & echo $! > '{note}'; wait")

    class Begun(subprocess.Popen[bytes]):
        """Its time runs from when its child is there: on a busy machine that comes after the budget's end."""

        def wait(self, timeout: float | None = None) -> int:
            while timeout is not None and not (note.exists() and note.read_text()):
                sleep(0.01)
            return super().wait(timeout)

    monkeypatch.setattr(ci.subprocess, "Popen", Begun)

    result = ci.run_stage(ci.Stage("slow", 1, (start_child, python("print('later')"))))

    child = int(note.read_text())
    assert result.verdict == "OVER BUDGET"
    assert until_dead(child, 60.0)  # the kill is sent, its effect may take a moment


def test_a_stage_runs_all_its_commands_and_fails_if_one_of_them_does(
    load: Load, tmp_path: Path
) -> None:
    ci = load("ci")
    last = tmp_path / "last"

    result = ci.run_stage(
        ci.Stage("mixed", 60, (python("raise SystemExit(5)"), python(f"open({str(last)!r}, 'w')")))
    )

    assert result.verdict == "FAILED"
    assert last.exists()


def test_no_tests_collected_is_a_failure(load: Load, tmp_path: Path) -> None:
    ci = load("ci")

    result = ci.run_stage(
        ci.Stage("empty", 60, (ci.pytest("-p", "no:cacheprovider", str(tmp_path)),))
    )

    assert result.verdict == "FAILED"


def test_without_an_environment_no_other_stage_runs(load: Load) -> None:
    ci = load("ci")
    failing = ci.Stage("setup", 60, (python("raise SystemExit(1)"),))

    results = ci.run_all([failing, ci.Stage("unit", 60, (python("pass"),))])

    assert [result.stage.name for result in results] == ["setup"]


def test_the_full_list_fits_into_the_time_that_ci_has(load: Load) -> None:
    """CI ends a run after 90 minutes, without a word about which stage was slow."""
    stages = [stage for stage in load("ci").STAGES if stage.always]

    assert [stage.name for stage in stages][:2] == ["setup", "run"]
    assert sum(stage.budget_s for stage in stages) <= 80 * 60


def test_make_and_ci_name_only_stages_that_exist(load: Load) -> None:
    known = {stage.name for stage in load("ci").STAGES}
    makefile = (ROOT / "Makefile").read_text()
    named = [line.split("ci.py ")[1].strip() for line in makefile.splitlines() if "ci.py " in line]

    assert set(named) <= known
    assert "make --no-print-directory test" in (ROOT / ".ci" / "run").read_text()


def test_a_missing_service_is_named_with_its_cure(
    load: Load, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backing = load("backing")
    absent = backing.Wanted("no-such-program", "no-such-package", "")
    monkeypatch.setattr(backing, "WANTED", (absent,))
    monkeypatch.setattr(backing.os, "geteuid", lambda: 1000)

    assert backing.main() == 1
    assert "no-such-program (no-such-package); install them" in capsys.readouterr().err


def test_services_are_installed_without_being_started(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package manager that refuses first, as with old lists, and that notes what the policy said meanwhile."""
    backing = load("backing")
    policy, asked = tmp_path / "policy", list[tuple[str, ...]]()
    monkeypatch.setattr(backing, "POLICY", policy)

    def run(command: tuple[str, ...]) -> bool:
        asked.append(tuple(word for word in command if word in ("install", "update")))
        assert subprocess.run([policy], check=False).returncode == 101
        return len(asked) > 1

    monkeypatch.setattr(backing, "run", run)
    backing.install(("redis-server",))

    assert asked == [("install",), ("update",), ("install",)]
    assert not policy.exists()


def test_a_policy_of_the_machines_own_is_left_as_it_is(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backing = load("backing")
    policy = tmp_path / "policy"
    policy.write_text("mine")
    monkeypatch.setattr(backing, "POLICY", policy)
    monkeypatch.setattr(backing, "run", lambda _: True)

    backing.install(("redis-server",))

    assert policy.read_text() == "mine"


def test_a_shim_that_exists_but_fails_is_no_python(load: Load, tmp_path: Path) -> None:
    newest = load("newest_python")
    broken, works = tmp_path / "broken", tmp_path / "works"
    for folder, text in ((broken, "exit 127"), (works, "echo 3 29 1")):
        folder.mkdir()
        shim = folder / "python3.29"
        shim.write_text(f"#!/bin/sh\n{text}\n")
        shim.chmod(0o755)

    found = newest.newer_than((3, 11, 7), [broken, works])

    assert found == [((3, 29, 1), works / "python3.29")]


def test_the_pythons_behind_a_version_managers_shims_are_looked_at(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = load("newest_python")
    real = tmp_path / "versions" / "3.29.1" / "bin"
    real.mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))

    assert real in newest.places()


def test_an_older_or_equal_python_is_not_newer(load: Load, tmp_path: Path) -> None:
    newest = load("newest_python")
    (tmp_path / "python3.12").symlink_to(sys.executable)

    assert newest.newer_than((3, 12, 1), [tmp_path]) == []


def test_pins_lose_everything_but_names_and_hashes(load: Load) -> None:
    pin = load("pin")
    answer = (
        "# made by a tool, in /some/where\n"
        "--index-url https://registry.example/simple\n"
        "\n"
        "orjson==3.13.0 \\\n"
        "    --hash=sha256:00\n"
    )

    assert pin.cleaned(answer) == f"{pin.HEADER}orjson==3.13.0 \\\n    --hash=sha256:00\n"


def test_a_setup_that_installs_says_so_before_it_does(load: Load, tmp_path: Path) -> None:
    """Through a pipe, with an interpreter that notes what was said by the time it is asked to install."""
    environment = load("environment")
    said = tmp_path / "said"
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    fake = environment.python_of(home)
    fake.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} "$@"\ncp {said} {said}.then\nexit 1\n'
    )
    fake.chmod(0o755)
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'scripts')!r}); import environment as e;"
        f" from pathlib import Path; e.prepare(Path({str(home)!r}), sys.executable)"
    )

    with said.open("w") as out:
        subprocess.run([sys.executable, "-c", script], stdout=out, stderr=out, check=False)

    assert re.match(
        r"setup: installing \d\d+ packages; the first time", Path(f"{said}.then").read_text()
    )


def test_an_environment_that_fits_is_left_alone(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = load("environment")
    (tmp_path / "bin").mkdir()
    environment.python_of(tmp_path).symlink_to(sys.executable)
    version = environment.version_of(environment.python_of(tmp_path))
    (tmp_path / environment.STAMP).write_text(environment.fingerprint(version))
    before = sorted(tmp_path.iterdir())

    assert environment.prepare(tmp_path, "/no/such/python") is False
    assert sorted(tmp_path.iterdir()) == before
