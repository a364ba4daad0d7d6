"""What stands between a worker and the interpreters of `code` nodes: a program in, lines and an outcome out.

Neither gRPC nor processes show here: the worker knows this port, the languages package fills it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Trouble(StrEnum):
    """Why a program has no output: the failure codes of `code` nodes."""

    CODE_ERROR = "code_error"
    """It raised an exception, did not compile, or ended its process."""
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT_TOO_LARGE = "output_too_large"
    INVALID_RESULT = "invalid_result"
    """Its result is nothing that JSON can hold."""
    LANGUAGE_UNAVAILABLE = "language_unavailable"
    """It could not be run: no server, a language that is off or unknown, an interpreter that broke."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One execution. `params` is JSON text; limits of None are the language server's own.

    Attributes:
        id: the task's, for logs.
        time_us: wall-clock time from the program's start.
    """

    id: str
    language: str
    code: str
    params: str
    time_us: int | None = None
    memory: int | None = None
    output: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """JSON text that `main` returned, as the interpreter wrote it: not yet past the engine's own door.

    `dropped`: lines that were printed beyond what is passed on.
    """

    text: str
    dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why there is none. `details` is the JSON text of an object, or empty."""

    trouble: Trouble
    message: str
    details: str = ""
    retryable: bool = False
    dropped: int = 0


Outcome = Output | Fault

Say = Callable[[bool, str], None]
"""Takes a line as it is printed: whether it went to stderr, and the text. Must not block."""


class Interpreter(Protocol):
    """Runs programs. Cancelling the call ends the program at once."""

    async def run(self, program: Program, say: Say) -> Outcome: ...
