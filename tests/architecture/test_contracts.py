"""The layer contracts of pyproject.toml hold, and cover every package that exists.

The contracts are explained in docs/adr/0001-layers.md.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "tenuto"

# Packages that only the composition root may connect with adapters. `app` is that root; the front
# (cli, sdk, testing) stands above it; what lies below adapters is held by the layers.
WALLED_OFF = {"api", "coordinator", "dsl", "languages", "rpc", "views", "worker"}


def contracts() -> dict[str, dict[str, Any]]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {contract["id"]: contract for contract in config["tool"]["importlinter"]["contracts"]}


def packages() -> set[str]:
    found = {path.parent.name for path in SRC.glob("*/__init__.py")}
    return found | {path.stem for path in SRC.glob("*.py")} - {"__init__", "__main__"}


def test_every_contract_is_kept() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
    done = subprocess.run(
        [*command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_edges_contract_names_every_package_that_it_is_about() -> None:
    """import-linter has no optional source modules, so a new package has to be added by hand."""
    named = {name.removeprefix("tenuto.") for name in contracts()["edges"]["source_modules"]}

    assert WALLED_OFF & packages() == named


def test_cel_may_be_imported_in_its_facade_only() -> None:
    contract = contracts()["cel"]

    assert contract["source_modules"] == ["tenuto"]
    assert contract["ignore_imports"] == ["tenuto.adapters.cel.** -> cel_expr_python"]
