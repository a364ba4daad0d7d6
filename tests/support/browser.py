"""A real browser on a real `tenuto dev`: the server as a process on a free port, Debian's Chromium, a page that
remembers what the browser complained of.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.support.command import HANG_S
from tests.support.dev import Dev

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

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
    """`tenuto dev` in a folder, which may be killed and started again. `url` is there once it serves."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder = folder
        self.url = ""
        self._env = {"NO_COLOR": "1", **env}
        self._dev: Dev | None = None

    def start(self, *, port: int = 0) -> None:
        """Start it and wait until it says where it serves."""
        self._dev = Dev(self.folder, ".", port=port, env=self._env)
        try:
            self.url = self._dev.__enter__().url
        except BaseException:
            self.kill()
            raise

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        """End it as a crash does."""
        if self._dev is not None:
            self._dev.__exit__()

    def ask(self, path: str, body: object = None) -> Any:
        """One request to REST, which succeeds."""
        assert self._dev is not None
        answer = self._dev.ask("GET" if body is None else "POST", f"/v1{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def until(self, path: str, holds: Callable[[Any], bool]) -> None:
        """Ask REST until what it answers fits."""
        assert self._dev is not None
        self._dev.until_document(f"/v1{path}", holds)

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
