"""Where answers and notes go: answers to stdout, everything else to stderr. Decides nothing about their looks."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from typing import TextIO

from rich.console import Console
from rich.text import Text

from tenuto.cli.render import clean

WIDTH_ELSEWHERE = 200
"""Columns where there is no terminal: enough that tables keep their lines."""
SAID_MAX = 1_000
"""Different lines of trouble remembered, so that one that comes again is not said again."""


class _Out:
    """The stream of answers; None for plain stdout."""

    stream: TextIO | None = None


def say(text: object) -> None:
    """One line of an answer."""
    stream = _Out.stream or sys.stdout
    stream.write(f"{text}\n")
    stream.flush()


def note(text: object) -> None:
    """One line beside the answer."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def answers() -> Console:
    """For tables on stdout: as wide as the terminal, and never cut where there is none."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH_ELSEWHERE)


def notes() -> Console:
    """For progress on stderr."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def reserve_stdout() -> None:
    """From here on only `say` writes to stdout; what the user's tasks print goes to stderr. Once per process."""
    if _Out.stream is None:
        sys.stdout.flush()
        _Out.stream = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
        os.dup2(2, 1)


class Trouble(logging.Handler):
    """Shows the engine's warnings beside the progress, each once, and all that tasks log."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._said: set[str] = set()

    def install(self) -> None:
        """Take over the engine's logger."""
        root = logging.getLogger("tenuto")
        root.handlers[:] = [self]
        root.propagate = False
        root.setLevel(logging.WARNING)
        logging.getLogger("tenuto.task").setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line above the live view."""
        text = record.getMessage()
        if record.name != "tenuto.task":
            if text in self._said or len(self._said) >= SAID_MAX:
                return
            self._said.add(text)
        style = "yellow" if record.levelno >= logging.WARNING else "dim"
        with suppress(BrokenPipeError):
            for line in text.splitlines():
                # Styled text: a `style` of print would also tint the live view below the line.
                self._console.print(Text(clean(line), style=style))
