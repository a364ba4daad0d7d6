"""Runs the stages that decide whether a change may land, each within its budget of seconds.

This table is the only list of stages: `make test`, `.ci/run` and the targets of the Makefile all
come here. Needs only the standard library, since it runs before there is an environment. A stage
that outlives its budget is ended with everything it started, and has failed. All stages run, so
that one look shows all that is red; only without an environment there is nothing more to do.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
PYTHON = str(BIN / "python")

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: commands run in order (all of them, also after a failure)."""

    name: str
    budget_s: int
    commands: tuple[Command, ...]
    always: bool = True  # part of a full run; the others are asked for by name


@dataclass(frozen=True, slots=True)
class Result:
    """How a stage ended; `verdict` is ok, FAILED or OVER BUDGET."""

    stage: Stage
    used_s: float
    verdict: str


def pytest(*arguments: str, workers: int = 0) -> Command:
    """A pytest command; no tests collected (its exit code 5) is a failure like any other."""
    spread = ("-n", str(workers)) if workers else ()
    return (PYTHON, "-m", "pytest", "-q", *spread, *arguments)


def together_then_alone(folder: str) -> tuple[Command, ...]:
    """Two stretches of a folder at a time (a file's tests share its servers; who is done first helps the other), then
    the tests that need the machine for themselves, which say why: `@pytest.mark.alone`.
    """
    together = pytest("--dist", "worksteal", "-m", "not alone", folder, workers=2)
    return (together, pytest("-m", "alone", folder))


# What mypy reads, as far as it is there.
TYPED = tuple(
    name
    for name in ("src", "tests", "scripts", "bench", "examples")
    if next((ROOT / name).rglob("*.py"), None)
)

ARCH: Command = pytest("tests/architecture")

STAGES = (
    Stage(
        "setup",
        200,
        (
            (sys.executable, "scripts/environment.py"),
            # Tests start the command thousands of times. Where PYTHONDONTWRITEBYTECODE is set, each start would
            # compile the whole source again, which is half of its time.
            (PYTHON, "-m", "compileall", "-q", "src", "tests/support"),
        ),
    ),
    Stage("run", 60, ((PYTHON, "examples/order/main.py"),)),
    Stage(
        "lint",
        90,
        (
            (str(BIN / "ruff"), "check", "--quiet"),
            (str(BIN / "ruff"), "format", "--check", "--quiet"),
            (str(BIN / "deptry"), "src"),
            (PYTHON, "scripts/rules.py"),
            ARCH,
        ),
    ),
    Stage("types", 120, ((str(BIN / "mypy"), *TYPED),)),
    Stage("unit", 230, (pytest("tests/unit", workers=2),)),
    Stage("property", 200, (pytest("tests/property", workers=2),)),
    Stage("backing", 180, ((sys.executable, "scripts/backing.py"),)),
    Stage("conformance", 640, (pytest("tests/conformance", workers=2),)),
    Stage("browser", 150, ((sys.executable, "scripts/browser.py"),)),
    # Two at a time on two cores, since they wait for processes as much as they work.
    Stage("integration", 700, together_then_alone("tests/integration")),
    # A cluster has both cores already.
    Stage("chaos", 300, (pytest("tests/chaos"),)),
    Stage("e2e", 800, together_then_alone("tests/e2e")),
    Stage("examples", 450, (pytest("tests/examples"),)),
    Stage("docs", 60, ((PYTHON, "scripts/docs.py"),)),
    Stage("newest-python", 620, ((PYTHON, "scripts/newest_python.py"),)),
    # By name only.
    Stage("arch", 60, (ARCH,), always=False),
    Stage(
        "quick",
        90,
        (
            pytest(
                "--hypothesis-profile=quick",
                "tests/unit",
                "tests/property",
                "tests/architecture/test_contracts.py",
                workers=2,
            ),
        ),
        always=False,
    ),
)


def run_command(command: Command, deadline: float) -> str:
    """Run one command in a process group of its own; ends the whole group at the deadline."""
    print("$ " + " ".join(_short(part) for part in command), flush=True)
    try:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        print(f"ci: {error}", flush=True)
        return "FAILED"
    try:
        code = process.wait(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "OVER BUDGET"
    finally:
        # Nothing that a stage started outlives it, on a normal end and on Ctrl-C too.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return "ok" if code == 0 else "FAILED"


def run_stage(stage: Stage) -> Result:
    """Run a stage's commands within its budget; the worst verdict is the stage's."""
    print(f"\n== {stage.name} (budget {stage.budget_s} s)", flush=True)
    started = time.monotonic()
    verdict = "ok"
    for command in stage.commands:
        outcome = run_command(command, started + stage.budget_s)
        if outcome != "ok":
            verdict = outcome
        if outcome == "OVER BUDGET":
            break
    used_s = time.monotonic() - started
    print(f"== {stage.name}: {verdict} after {used_s:.1f} s of {stage.budget_s} s", flush=True)
    return Result(stage, used_s, verdict)


def table(results: list[Result]) -> str:
    """The results as lines: stage, seconds used, budget, verdict."""
    lines = [f"{'stage':<15}{'seconds':>9}{'budget':>9}  verdict"]
    lines += [
        f"{r.stage.name:<15}{r.used_s:>9.1f}{r.stage.budget_s:>9}  {r.verdict}" for r in results
    ]
    used_s = sum(result.used_s for result in results)
    lines.append(f"{'all':<15}{used_s:>9.1f}{sum(r.stage.budget_s for r in results):>9}")
    return "\n".join(lines)


def run_all(stages: list[Stage]) -> list[Result]:
    """Run the stages in order; without the environment of `setup` the others have no sense."""
    results: list[Result] = []
    for stage in stages:
        results.append(run_stage(stage))
        if stage.name == "setup" and results[-1].verdict != "ok":
            break
    return results


def main() -> int:
    """Run the named stages, or the full list."""
    parser = argparse.ArgumentParser(description="Run the stages of the build.")
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="default: the full list")
    wanted = parser.parse_args().stages
    known = {stage.name: stage for stage in STAGES}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        parser.error(f"no stage {', '.join(unknown)}; there are {', '.join(known)}")
    stages = [known[name] for name in wanted] or [stage for stage in STAGES if stage.always]
    results = run_all(stages)
    if len(stages) > 1:
        print("\n" + table(results), flush=True)
    return 0 if all(result.verdict == "ok" for result in results) else 1


def _short(part: str) -> str:
    return part.removeprefix(f"{ROOT}/")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
