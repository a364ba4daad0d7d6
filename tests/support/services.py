"""Services of the examples, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.examples import EXAMPLES


@contextmanager
def service(example: str, *words: str) -> Iterator[str]:
    """`service.py` of an example on a free port; yields its address. `words`: its further arguments."""
    command = [sys.executable, str(EXAMPLES / example / "service.py"), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--with-parent", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().removeprefix("listening on ")
    finally:
        process.kill()
        process.communicate()
