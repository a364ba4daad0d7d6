"""A real browser on a real `tenuto dev`: the server as a process on a free port, Debian's Chromium, a page that
remembers what the browser complained of.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.support.command import HANG_S

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_URL = re.compile(r"http://127\.0\.0\.1:(\d+)")

expect.set_options(timeout=HANG_S * 1000 / 2)


def find_browser() -> str:
    """Where Chromium is. A missing one fails: a page that nobody looks at is not tested."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    raise AssertionError(
        f"no {', '.join(NAMES)} in PATH: install one (Debian: apt-get install chromium)"
    )


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser."""
    path = find_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Server:
    """`tenuto dev` in a folder. `url` is there once it serves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self.lines: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def start(self, *, port: int = 0) -> None:
        """Start it and wait until it says where it serves."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tenuto", "dev", ".", "--port", str(port)],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"NO_COLOR": "1"},
        )
        serves = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self._process, serves))
        self._reader.start()
        told = serves.wait(HANG_S)
        if not told or not self.url:
            self.kill()
            raise AssertionError("the server did not start:\n" + "".join(self.lines))

    def _read(self, process: subprocess.Popen[str], serves: threading.Event) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self.lines.append(line)
                found = _URL.search(line)
                if found and not serves.is_set():
                    self.url = found[0]
                    serves.set()
        serves.set()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._reader is not None:
            self._reader.join()

    def ask(self, path: str, body: object = None) -> Any:
        """One request to REST."""
        request = Request(
            f"{self.url}/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={} if body is None else {"Content-Type": "application/json"},
        )
        with urlopen(request, timeout=HANG_S) as answer:
            return json.load(answer)

    def run(self, workflow: str, input: object = None, **more: object) -> str:
        """Start a run; its id."""
        started = self.ask("/runs", {"workflow": workflow, "input": input, **more})
        return str(started["run_id"])


class Watched:
    """A page, and what the browser complained of while it was open."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.complaints: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.add_init_script(
            "window.addEventListener('securitypolicyviolation', (e) => "
            "console.error(`violated: ${e.violatedDirective} ${e.blockedURI}`))"
        )

    def _said(self, message: Any) -> None:
        # An answer of 4xx, and a server that is gone, are what some tests are about.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def open(self, path: str) -> Page:
        """Go to an address of the page, and mark the window: a reload would lose the mark."""
        self.page.goto(self.base + path)
        self.page.evaluate("window.marked = true")
        return self.page

    def was_not_reloaded(self) -> bool:
        """Whether it is the window that was marked."""
        return bool(self.page.evaluate("window.marked === true"))


def widths(page: Page) -> Sequence[int]:
    """Width of what there is, and of the window."""
    found: Sequence[int] = page.evaluate(
        "[document.documentElement.scrollWidth, window.innerWidth]"
    )
    return found
