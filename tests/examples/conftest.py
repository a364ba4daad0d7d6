"""The command in an empty folder, as for the command's own tests; the examples' files stay where they are."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command import Tenuto


@pytest.fixture
def tenuto(tmp_path: Path) -> Tenuto:
    """The command in a folder of its own, where its database comes to be."""
    return Tenuto(tmp_path)


@pytest.fixture
def background() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes put here do not outlive the test."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
