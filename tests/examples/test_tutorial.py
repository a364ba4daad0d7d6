"""The tutorial, and the README's five minutes, done by the letter: in an empty folder, with the real command and page.

Files are written and changed as the page says, commands are typed into a shell, what is bold beside the page's address
is pressed in a browser, and what is shown must come. `tenuto dev` is the first terminal: what it says is read on from
where the reading of it stopped. Commands that only look are typed again until what the page shows is there.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.support.backing.ports import free_port
from tests.support.browser import chromium
from tests.support.command import HANG_S
from tests.support.examples import ROOT
from tests.support.pages import Meant, blocks, typed

PORT = "8080"
PRESSED = re.compile(r"\*\*([^*.]+)\*\*")
REPLACED = re.compile(r"In `([\w.]+)`.*?`([^`]+)` in place of `([^`]+)`")
LOOKING = ("tenuto run list", "tenuto run show", "tenuto run logs", "tenuto event list")
HEADINGS = [
    "1. A project",
    "2. Serve it",
    "3. Start a run, three times",
    "4. Change it",
    "5. A failure, and a retry",
    "6. Code, and an approval",
    "7. `kill -9`, and go on",
    "8. A test",
]


class Reader:
    """Somebody with two terminals and a browser."""

    def __init__(self, folder: Path, browser: Browser | None = None) -> None:
        self.folder = folder
        self.browser = browser
        self.meant = Meant()
        self.port = str(free_port())
        bin = str(Path(sys.executable).parent)
        self.environment = os.environ | {
            "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
            "TENUTO_DEV__PORT": self.port,
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }
        self.dev: subprocess.Popen[str] | None = None
        self.heard: list[str] = []
        self.read = 0
        self.ears: list[threading.Thread] = []

    def real(self, text: str) -> str:
        """What the page says, with the port of this reading."""
        return text.replace(PORT, self.port)

    def follow(self, text: str) -> None:
        """Do what a page says, from its beginning to its end."""
        at = 0
        for block in blocks(text):
            self.prose(text[at : block.start])
            at = block.end
            if block.language == "console":
                for command, shown in typed(block):
                    lines = [self.real(line) for line in shown]
                    if command:
                        self.type(self.meant.said(self.real(command)), lines)
                    else:
                        self.listen(lines)
            elif block.language == "bash":
                for line in block.text.splitlines():
                    self.type(self.real(line), [])
            elif block.language in ("python", "yaml"):
                assert block.name, f"which file is this?\n{block.text}"
                (self.folder / block.name).write_text(block.text)
        self.prose(text[at:])

    def prose(self, text: str) -> None:
        """Replace and press what the text tells to."""
        for file, new, old in REPLACED.findall(text):
            path = self.folder / file
            assert path.read_text().count(old) == 1
            path.write_text(path.read_text().replace(old, new))
        for paragraph in text.split("\n\n"):
            if f"<http://127.0.0.1:{PORT}>" in paragraph and self.browser is not None:
                self.press(PRESSED.findall(paragraph))

    def press(self, names: list[str]) -> None:
        assert len(names) > 1, "the tutorial no longer says what to press"
        assert self.browser is not None
        page = self.browser.new_page()
        page.goto(f"http://127.0.0.1:{self.port}")
        for name in names:
            page.get_by_role("link", name=name).or_(page.get_by_role("button", name=name)).click()
        expect(page.locator("[data-node=sign][data-state=success]").first).to_be_visible()
        page.close()

    def type(self, command: str, shown: list[str]) -> None:
        """A command in the second terminal; `tenuto dev` in the first."""
        if command == "tenuto dev":
            self.serve()
            self.listen(shown)
            return
        if command.startswith("cd "):
            self.folder /= command.removeprefix("cd ")
            return
        until = time.monotonic() + HANG_S
        while True:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=HANG_S,
                check=False,
            )
            printed = done.stdout + done.stderr
            assert done.returncode == 0, f"$ {command}\n{printed}"
            missing = self.meant.missing(shown, printed)
            if missing is None:
                return
            again = command.startswith(LOOKING) and time.monotonic() < until
            assert again, f"$ {command}\ndoes not print\n{missing}\nbut\n{printed}"
            time.sleep(0.1)

    def serve(self) -> None:
        assert self.dev is None or self.dev.wait(HANG_S) == -signal.SIGKILL
        self.dev = subprocess.Popen(
            ["tenuto", "dev"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.ears.append(threading.Thread(target=self.hear, args=(self.dev,)))
        self.ears[-1].start()
        self.listen([f"22:06:01 tenuto 0.1.0 on http://127.0.0.1:{self.port} "], keep=True)

    def hear(self, dev: subprocess.Popen[str]) -> None:
        assert dev.stdout is not None
        with dev.stdout as lines:
            for line in lines:
                self.heard.append(line)

    def listen(self, shown: list[str], *, keep: bool = False) -> None:
        """Wait until the first terminal says it. `keep`: it may be looked for once more."""
        until = time.monotonic() + HANG_S
        while True:
            heard = len(self.heard)
            missing = self.meant.missing(shown, "".join(self.heard[self.read : heard]))
            if missing is None:
                self.read = self.read if keep else heard
                return
            assert time.monotonic() < until, f"no {missing!r} in\n{''.join(self.heard)}"
            time.sleep(0.05)

    def stop(self) -> None:
        """Ctrl-C in the first terminal."""
        assert self.dev is not None
        self.dev.send_signal(signal.SIGINT)
        self.listen(["22:06:01 stopped"])
        assert self.dev.wait(HANG_S) == 0

    def close(self) -> None:
        """Leave nothing behind."""
        if self.dev is not None:
            self.dev.kill()
            self.dev.wait()
        for ear in self.ears:
            ear.join()


@pytest.fixture
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.timeout(300)
def test_the_tutorial_can_be_done_by_the_letter(tmp_path: Path, browser: Browser) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    assert re.findall(r"^## (\d.*)$", text, re.MULTILINE) == HEADINGS
    reader = Reader(tmp_path, browser)
    try:
        reader.follow(text)
        reader.stop()
    finally:
        reader.close()


def test_the_five_minutes_of_the_readme_can_be_done_by_the_letter(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    part = text.split("## Five minutes\n")[1].split("\n## ")[0]
    install, rest = part.split("pip install .\n```\n")
    assert shlex.split(install.split("```bash\n")[1].splitlines()[0])[:3] == [
        "python3",
        "-m",
        "venv",
    ]
    reader = Reader(tmp_path)
    try:
        reader.follow(rest)
        reader.type("tenuto run list", ["0123abcd  hello v1  success"])
        hello = reader.folder / "hello.yaml"
        hello.write_text(hello.read_text().replace("for: 3s", "for: 4s"))
        reader.listen(["22:06:06 hello v2 deployed: hello.yaml changed"])
        reader.stop()
    finally:
        reader.close()


def test_what_stands_beside_the_page_in_the_pages_is_needed() -> None:
    """The comparison itself: what differs by more than times and ids is seen."""
    meant = Meant()
    printed = (
        "22:00:00 order 74e8f97b success after 1.5s\nrun  01a22958-6b1e-789d-b2e3-17b974e8f97b ok"
    )

    assert meant.missing(["21:59:59 order 11111111 success after 20ms", "…"], printed) is None
    assert meant.said("tenuto run show 11111111") == "tenuto run show 74e8f97b"
    assert meant.missing(["21:59:59 order 11111111 failed after 20ms"], printed) is not None
    assert meant.missing(["run 01a22958-6b1e-789d-b2e3-000011111111 ok", "21:59:59 order"], printed)
    two = ["run 33333333 success", "run 44444444 success"]
    assert meant.missing(two, "run 0a0a0a0a success") == two[1]
    assert meant.missing(two, "run 0b0b0b0b success\nrun 0a0a0a0a success") is None, "it was newer"
    assert shutil.which("bash")
