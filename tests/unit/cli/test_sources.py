"""Which files belong to an app."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tenuto.cli import sources
from tenuto.cli.sources import Sources


def module_of(path: Path) -> ModuleType:
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    return module


def test_a_loaded_file_that_is_written_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.py"
    path.write_text("x = 1")
    watched = Sources([tmp_path])
    monkeypatch.setitem(sys.modules, "mine", module_of(path))
    assert watched.changed() == []
    path.write_text("x = 123")

    assert watched.changed() == [path.resolve()]
    assert watched.changed() == []


def test_a_look_costs_nothing_for_the_modules_that_it_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are thousands, and `tenuto dev` looks several times a second for as long as it lives."""
    watched = Sources([tmp_path])
    watched.changed()
    asked: list[str] = []

    def is_own(name: str) -> bool:
        asked.append(name)
        return False

    monkeypatch.setattr(sources, "is_own", is_own)
    watched.changed()

    assert asked == []
