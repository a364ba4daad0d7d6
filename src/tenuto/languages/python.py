"""`language: python`: Monty, an interpreter of a subset of Python, in worker processes of its own.

The workers are Monty's; they are started through a small script that ties their life to this process. A worker serves
one program after another and keeps nothing between them; one that is interrupted or breaks is replaced.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import orjson
from pydantic_monty import (
    AsyncMonty,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySyntaxError,
)
from pydantic_monty._binary import find_monty_binary

from tenuto.languages import door
from tenuto.languages.setting import Setting, child
from tenuto.ports.languages import Fault, Outcome, Output, Program, Say, Trouble

CONFINEMENT = "interpreter"
NO_MAIN = "the code has no `main`: define `def main(params): …`"
CPYTHON = "say `language: cpython` for all of Python"
_INTERNAL = "Internal error in monty: "
_ONE_TEXT = "exceptions can only be called with zero or one string argument"
OUT_OF_MEMORY = "the code needs more memory than it may take"
_TRACEBACK_MAX = 8_192
_RECYCLED = 1_000
"""Programs that one worker serves: bounds what a leak of the interpreter's could gather."""

_TAIL = (
    door.SOURCE
    + """
_tenuto_result = main(_tenuto_params)
if type(_tenuto_result).__name__ == "coroutine":
    _tenuto_result = await _tenuto_result
_tenuto_door(_tenuto_result, _tenuto_limit)
"""
)


class Python:
    """An interpreter of `language: python`."""

    grace_us = 250_000
    """Monty's own limit comes first: it ends in order, and the worker stays."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._stack = AsyncExitStack()
        self._pool: AsyncMonty | None = None
        self._lock = asyncio.Lock()

    async def run(self, program: Program, say: Say) -> Outcome:
        """Run one program; its limits are set."""
        assert program.time_us is not None
        assert program.memory is not None
        pool = await self._started()
        loop = asyncio.get_running_loop()
        printed = _Printed(say)

        def heard(stream: str, text: str) -> None:  # in a thread of Monty's
            loop.call_soon_threadsafe(printed.take, stream, text)

        inputs = {
            "_tenuto_params": orjson.loads(program.params),
            "_tenuto_limit": program.output,
        }
        limits = {
            "max_memory": program.memory,
            "max_feed_duration_secs": program.time_us / 1_000_000,
        }
        try:
            async with pool.checkout(script_name="<code>", limits=limits) as session:  # type: ignore[arg-type]
                answer = await session.feed_run(
                    f"{program.code}\n{_TAIL}", inputs=inputs, print_callback=heard
                )
        except MontyError as error:
            return _failed(error, program)
        finally:
            printed.flush()
        return _outcome(answer)

    async def close(self) -> None:
        """End the workers."""
        await self._stack.aclose()
        self._pool = None

    async def _started(self) -> AsyncMonty:
        async with self._lock:
            if self._pool is None:
                self._pool = await self._stack.enter_async_context(
                    AsyncMonty(
                        binary_path=launcher(self._setting.folder),
                        min_processes=0,
                        max_processes=self._setting.processes,
                        max_checkouts_per_worker=_RECYCLED,
                    )
                )
            return self._pool


class _Printed:
    """Puts pieces of output together to lines."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._open = {"stdout": "", "stderr": ""}

    def take(self, stream: str, text: str) -> None:
        *whole, rest = (self._open[stream] + text).split("\n")
        for line in whole:
            self._say(stream == "stderr", line)
        self._open[stream] = rest[:65_536]

    def flush(self) -> None:
        for stream, rest in self._open.items():
            if rest:
                self._say(stream == "stderr", rest)
        self._open = {"stdout": "", "stderr": ""}


def launcher(folder: Path) -> Path | None:
    """A program that becomes Monty's worker after it tied its life to its parent's. None: this folder can hold none."""
    path = folder / "monty"
    words = child("tenuto.languages.python_child", os.getpid(), find_monty_binary())
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o700)
    return path if os.access(path, os.X_OK) else None


def _outcome(answer: object) -> Outcome:
    """What the door in the interpreter says; code that broke the door gets a refusal."""
    match answer:
        case ("", str(text)):
            return Output(text=text)
        case (str(code), str(message)) if code in (
            Trouble.INVALID_RESULT,
            Trouble.OUTPUT_TOO_LARGE,
        ):
            return Fault(trouble=Trouble(code), message=message)
    return Fault(trouble=Trouble.INVALID_RESULT, message="the result cannot be read")


def _failed(error: MontyError, program: Program) -> Outcome:
    if isinstance(error, MontyCrashedError):
        return Fault(
            trouble=Trouble.LANGUAGE_UNAVAILABLE,
            message="the interpreter of `python` broke while the code ran",
            retryable=True,
        )
    if not isinstance(error, MontyRuntimeError | MontySyntaxError):
        return Fault(trouble=Trouble.CODE_ERROR, message=str(error).partition("\n")[0])
    kind, _, text = error.display("type-msg").partition(": ")
    cure = _cure(kind, text)
    if text.startswith(_INTERNAL):
        text = _in_words(text.removeprefix(_INTERNAL))
    if kind == "TimeoutError" and "time limit exceeded" in text:
        return Fault(trouble=Trouble.TIMEOUT, message="", retryable=True)
    if kind == "MemoryError" and "limit exceeded" in text:
        return Fault(trouble=Trouble.MEMORY, message=OUT_OF_MEMORY)
    own = program.code.count("\n") + 1
    frames = [frame for frame in error.traceback() if frame.line <= own]
    if kind == "NameError" and not frames and "'main'" in text:
        return Fault(trouble=Trouble.CODE_ERROR, message=NO_MAIN)
    line = frames[-1].line if frames else None
    first = text.partition("\n")[0]
    message = f"{kind}: {first}" if first else kind
    if line is not None:
        message = f"{message} (line {line})"
    if cure:
        message = f"{message}; {cure}"
    lines = "".join(f'  File "<code>", line {frame.line}\n' for frame in frames)
    details = {
        "type": kind,
        "line": line,
        "traceback": f"Traceback (most recent call last):\n{lines}{kind}: {text}"[-_TRACEBACK_MAX:],
    }
    return Fault(
        trouble=Trouble.CODE_ERROR,
        message=message,
        details=orjson.dumps(details).decode(),
        retryable=not (isinstance(error, MontySyntaxError) or cure),
    )


def _in_words(lack: str) -> str:
    """What Monty gave up at, in words of whoever wrote the code; its line is not known."""
    if lack == _ONE_TEXT:
        return "exceptions are made of one text here, as in ValueError('no such user')"
    return f"the interpreter of `python` gave up: {lack}"


def _cure(kind: str, text: str) -> str:
    """What to do about something that `python` lacks; empty for an error of the code itself."""
    if kind == "ModuleNotFoundError":
        name = text.partition("'")[2].partition("'")[0].partition(".")[0]
        return CPYTHON if name in sys.stdlib_module_names else door.OUTSIDE
    is_lack = text.startswith(_INTERNAL) or (kind == "NotImplementedError" and "monty" in text)
    return CPYTHON if is_lack else ""
