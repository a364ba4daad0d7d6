"""The `tenuto` command's entry: one line on stderr and an exit code for every error of a user's.

Exit codes: 0 ok, 1 the run failed, 2 usage or invalid definition, 3 not found, 4 conflict, 6
unavailable, 70 a bug, 130 interrupted. Imports next to nothing before `main` runs, so that Ctrl-C
is answered properly from the first moment.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130
BUG = 70
ISSUES = "report it with the lines above, `tenuto version` and the definition"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        _make_forgiving(stream)
    code = run(sys.argv[1:] if arguments is None else list(arguments))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line; its exit code. Prints at most one error."""
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED


def _dispatch(arguments: list[str]) -> int:
    import typer

    from tenuto.cli.commands import app
    from tenuto.model.errors import InvariantViolated, TenutoError

    try:
        code = app(arguments, prog_name="tenuto", standalone_mode=False)
    except typer.TyperException as error:
        return _usage(error)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except InvariantViolated as error:
        _bug(error)
        return BUG
    except TenutoError as error:
        _say(f"error: {error}")
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the process's last door
        _bug(error)
        return BUG
    return code if isinstance(code, int) else 0


def _usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    if message.startswith("Usage:"):  # called without a verb
        _say(message)
        return 2
    path = context.command_path if context is not None else "tenuto"
    _say(f"error: {message.rstrip('.')}; see `{path} --help`")
    return 2


def _bug(error: BaseException) -> None:
    """The engine contradicts itself. This is the one traceback that a user sees."""
    import traceback

    traceback.print_exception(error, file=sys.stderr)
    _say(f"error: this is a bug in tenuto; nothing half-done was stored. Please {ISSUES}.")


def _say(line: str) -> None:
    try:
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - errors go to the user
    except BrokenPipeError:
        return


def _make_forgiving(stream: TextIO) -> None:
    """A terminal that cannot show a character shows a substitute."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
