"""The command in an empty folder with a small app in it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.support.browser import chromium
from tests.support.command import APP, APPROVAL, GREET, SLEEPY, Tenuto


@pytest.fixture
def tenuto(tmp_path: Path) -> Tenuto:
    """The command, beside app.py, greet.yaml, sleepy.yaml and approval.yaml."""
    made = Tenuto(tmp_path)
    made.write(app_py=APP, greet_yaml=GREET, sleepy_yaml=SLEEPY, approval_yaml=APPROVAL)
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless browser, for all pages of a file."""
    with chromium() as found:
        yield found


@pytest.fixture
def background() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes put here do not outlive the test."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
