"""Shell completion: the script that a shell loads, and the answer when the shell then asks with `_TENUTO_COMPLETE` set.

Verbs and options only, from the declarations in `commands`: no database is opened for a press of Tab.
"""

from __future__ import annotations

import os

# typer offers both, but does not declare them.
from typer.completion import (  # type: ignore[attr-defined]
    completion_init,
    get_completion_script,
)

from tenuto.cli.console import say

VARIABLE = "_TENUTO_COMPLETE"


def prepare() -> None:
    """Let typer answer the shell, if it is a shell that asks."""
    if os.environ.get(VARIABLE):
        completion_init()


def print_script(shell: str) -> int:
    """Print what the shell loads."""
    say(get_completion_script(prog_name="tenuto", complete_var=VARIABLE, shell=shell))
    return 0
