"""Where answers and notes go: answers to stdout, everything else to stderr. Decides nothing about
their looks.
"""

from __future__ import annotations

import sys

from rich.console import Console

WIDTH_ELSEWHERE = 200
"""Columns where there is no terminal: enough that tables keep their lines."""


def say(text: object) -> None:
    """One line of an answer."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


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
