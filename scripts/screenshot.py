"""Writes docs/page.png anew: the page of `tenuto dev`, with a run of the example order that waits for its approval.

Needs a Chromium: /usr/bin/chromium, or what CHROMIUM names. Not a part of CI, since pictures differ from machine to
machine by a pixel here and there; run it when the page looks different.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "page.png"
BYTES_MAX = 150_000
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
SEED = "8"  # one attempt of the charge goes wrong
PATIENCE_S = 60


@contextmanager
def running(words: list[str], folder: str, sign: str) -> Iterator[str]:
    """A program; yields the address in the first line that has the sign."""
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if sign in line:
                yield line.split(sign, 1)[1].split()[0]
                return
        raise SystemExit(f"{' '.join(words)} ended without saying {sign!r}")
    finally:
        process.terminate()
        process.communicate()


def start_order(url: str, payments: str) -> str:
    """A run that comes to its approval; its id."""
    order = {"order_id": "A-1001", "amount": 9000}
    body = {"workflow": "order", "input": order, "vars": {"payments": payments}, "key": "A-1001"}
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"{url}/v1/runs", json.dumps(body).encode(), headers)) as answer:  # noqa: S310 - our own
        run = str(json.load(answer)["run_id"])
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with urlopen(f"{url}/v1/events/awaited") as answer:  # noqa: S310 - our own
            if json.load(answer)["items"]:
                return run
        time.sleep(0.1)
    raise SystemExit("the order never came to its approval")


def main() -> None:
    """Take the picture."""
    service = str(ROOT / "examples" / "order" / "service.py")
    dev = ["-m", "tenuto", "dev", str(ROOT / "examples" / "order"), "--port", "0"]
    with (
        tempfile.TemporaryDirectory() as folder,
        running(
            [service, "--port", "0", "--with-parent", "--seed", SEED], folder, "listening on "
        ) as payments,
        running(dev, folder, " on ") as url,
        sync_playwright() as playwright,
    ):
        run = start_order(url, payments)
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        page = browser.new_page(viewport={"width": 1200, "height": 860}, color_scheme="light")
        page.goto(f"{url}/runs/{run}")
        page.locator("[data-node=approval][data-state=waiting]").first.wait_for()
        page.screenshot(path=str(PICTURE))
        browser.close()
    size = PICTURE.stat().st_size
    print(f"{PICTURE.relative_to(ROOT)}: {size:,} bytes")
    if size > BYTES_MAX:
        raise SystemExit(f"more than {BYTES_MAX:,} bytes: make the window smaller")


if __name__ == "__main__":
    main()
