"""The `tenuto` command's entry: one line on stderr and an exit code for every error of a user's.

Exit codes: 0 ok, 1 the run failed, 2 usage or invalid definition, 3 not found, 4 conflict, 5 not allowed, 6
unavailable, 70 a bug, 130 interrupted. Imports next to nothing before `main` runs, so that Ctrl-C
is answered properly from the first moment.
"""

from __future__ import annotations

import atexit
import errno
import os
import re
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

UNAVAILABLE = 6
INTERRUPTED = 130
BUG = 70
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
ISSUES = "report it with the lines above, `tenuto version` and the definition"


_MEANT = {
    "serve": "tenuto dev",
    "migrate": "tenuto db upgrade",
    "login": "tenuto token create",
    "up": "tenuto dev",
    "start": "tenuto run start",
    "list": "tenuto run list",
    "ls": "tenuto run list",
    "show": "tenuto run show",
    "status": "tenuto run show",
    "logs": "tenuto run logs",
    "cancel": "tenuto run cancel",
    "stop": "tenuto run cancel",
    "help": "tenuto --help",
}
"""What people try at first, by habit."""


_BOUNDS = (
    (
        re.compile(r"Input should be greater than or equal to (\S+?)(?=[.;\s]|$)"),
        r"give \1 or more",
    ),
    (re.compile(r"Input should be less than or equal to (\S+?)(?=[.;\s]|$)"), r"give \1 or less"),
    (re.compile(r"Input should be greater than (\S+?)(?=[.;\s]|$)"), r"give more than \1"),
    (re.compile(r"Input should be less than (\S+?)(?=[.;\s]|$)"), r"give less than \1"),
    (re.compile(r"Input should be a valid integer[^.;]*"), "give a whole number"),
    (re.compile(r"Input should be a valid number[^.;]*"), "give a number"),
)
"""What the library says of a number, in our words."""


class _Kept:
    """A descriptor of stderr that no code of the user's closes."""

    stderr = 2


class _Interrupted:
    """Whether Ctrl-C was pressed outside of a run."""

    once = False


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave the process with its exit code."""
    signal.signal(signal.SIGINT, _interrupt)
    atexit.register(_end_quietly)
    _open_streams()
    code = run(sys.argv[1:] if arguments is None else list(arguments))
    signal.signal(signal.SIGINT, partial(_leave, INTERRUPTED))
    try:
        if not _is_gone(sys.stdout):  # a task may have taken it away
            sys.stdout.flush()
    except OSError as error:
        code = _stdout_lost(error) or code
    _leave_stderr()
    signal.signal(signal.SIGINT, partial(_leave, code))
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line; its exit code. Prints at most one error."""
    try:
        code = _dispatch(arguments)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED and _Interrupted.once:
        _say("interrupted")
    return code


def _dispatch(arguments: list[str]) -> int:
    import typer

    from tenuto.cli.commands import app
    from tenuto.model.errors import InvariantViolated, TenutoError

    if "_TENUTO_COMPLETE" in os.environ:  # a shell asks what could come next
        from tenuto.cli.completion import prepare

        prepare()
    try:
        code = app(arguments, prog_name="tenuto", standalone_mode=False)
    except typer.TyperException as error:
        return _usage(error, arguments)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except InvariantViolated as error:
        _bug(error)
        return BUG
    except TenutoError as error:
        _say(f"error: {error}")
        return error.exit_code
    except OSError as error:
        return _trouble(error)
    except Exception as error:  # noqa: BLE001 - the process's last door
        _bug(error)
        return BUG
    return code if isinstance(code, int) else 0


def _trouble(error: OSError) -> int:
    """What the world did to us; anything else is a bug."""
    try:
        if not _is_gone(sys.stdout):
            sys.stdout.flush()  # what could not be written is still in the buffer
    except OSError as again:
        return _stdout_lost(again)
    if isinstance(error, BrokenPipeError):
        return 0
    if error.filename is None and error.errno in _FULL:
        return _stdout_lost(error)  # all other files of ours have been named, or spoken for
    try:
        os.getcwd()  # noqa: PTH109 - nothing is loaded for this
    except OSError:
        _say("error: the working directory is gone; change into one that exists")
        return UNAVAILABLE
    _bug(error)
    return BUG


def _stdout_lost(error: OSError) -> int:
    """Nobody reads any more: no error. A full disk: one. Python shall not try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(error, BrokenPipeError):
        return 0
    _say(f"error: standard output cannot be written: {error.strerror}")
    return UNAVAILABLE


def _leave_stderr() -> None:
    """What nobody could be told is dropped; at its end Python would try again and spoil the exit code."""
    try:
        if not _is_gone(sys.stderr):
            sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Ctrl-C outside of a run: once ends the command, twice the process at once."""
    if _Interrupted.once:
        os._exit(INTERRUPTED)
    _Interrupted.once = True
    raise KeyboardInterrupt


def _leave(code: int, _number: int, _frame: FrameType | None) -> None:
    """Ctrl-C when the command is over: nobody is left to raise anything to, and threads may still be waited for."""
    os._exit(code)


def _end_quietly() -> None:
    """While Python takes itself down, Ctrl-C has nothing left to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _usage(error: Exception, arguments: list[str]) -> int:
    context = getattr(error, "ctx", None)
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    if message.startswith("Usage:"):  # called without a verb
        if context is None or context.parent is None:
            print(message)  # noqa: T201 - `tenuto` alone asks what there is
            return 0
        _say(message)
        _say(f"error: `{context.command_path}` needs one of these words after it")
        return 2
    path = context.command_path if context is not None else _path_of(arguments)
    message = " ".join(message.replace("Value error, ", "").split()).rstrip(".")
    for said, ours in _BOUNDS:
        message = said.sub(ours, message)
    for word, meant in _MEANT.items():
        if message.startswith(f"No such command '{word}'") and path == "tenuto":
            message = f"No such command '{word}'. Did you mean `{meant}`?"
    see = f" See `{path} --help`" if message.endswith("?") else f"; see `{path} --help`"
    _say(f"error: {message}{see}")
    return 2


def _path_of(arguments: list[str]) -> str:
    """The command that a line is for; the parser does not say it of an option that lacks its value."""
    import typer
    from typer.core import TyperGroup

    from tenuto.cli.commands import app
    from tenuto.cli.options import PLURALS, RunGroup, WorkerGroup

    command, path, words = typer.main.get_command(app), "tenuto", list(arguments)
    while isinstance(command, TyperGroup):
        below = None
        if words:
            below = command.commands.get(PLURALS.get(words[0], words[0]))
            if below is None and isinstance(command, RunGroup | WorkerGroup):
                below = command.commands[command.fallback]
        if below is None:
            break
        command, path = below, f"{path} {below.name}"
        words = words[1:]
    return path


def _bug(error: BaseException) -> None:
    """The engine contradicts itself. This is the one traceback that a user sees."""
    import traceback

    _say("".join(traceback.format_exception(error)).rstrip())
    _say(f"error: this is a bug in tenuto; nothing half-done was stored. Please {ISSUES}.")


def _say(line: str) -> None:
    try:
        if not _is_gone(sys.stderr):
            print(line, file=sys.stderr, flush=True)  # noqa: T201 - errors go to the user
            return
    except OSError as error:
        if error.errno != errno.EBADF:
            return
    with suppress(OSError):  # code of the user's has closed it
        os.write(_Kept.stderr, f"{line}\n".encode(errors="backslashreplace"))


def _is_gone(stream: TextIO | None) -> bool:
    return stream is None or stream.closed


def _open_streams() -> None:
    """A closed stream (`>&-`) swallows what is written; one that lacks a character shows a
    substitute.
    """
    for name in ("stdin", "stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - for the process
        elif name != "stdin":
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="backslashreplace")
    with suppress(OSError, ValueError):
        _Kept.stderr = os.dup(sys.stderr.fileno())
