"""Sees to it that there is a Chromium for the tests of the page; installs Debian's where it may.

Playwright drives it and brings none of its own: what a test tool downloads for itself is not there on every machine.
"""

from __future__ import annotations

import os
import shutil
import sys

import backing

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CURE = "install Chromium (Debian, Ubuntu: apt-get install chromium) and run this again"


def find() -> str | None:
    """Where a Chromium is; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def main() -> int:
    """Exit code 0: there is one."""
    found = find()
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        print("browser: installing chromium; this takes a minute", flush=True)
        backing.install(("chromium",))
        found = find()
    if found is None:
        print(f"browser: there is no Chromium; {CURE}", file=sys.stderr)
        return 1
    print(f"browser: {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
