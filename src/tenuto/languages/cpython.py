"""`language: cpython`: the whole of Python, in one process per program. `restricted`: limits, but no wall.

The process has an empty environment, a session of its own, an empty folder to stand in, limits of memory, time and
files, and can start no other. It can read what this user can read, and use the network.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
from asyncio.subprocess import PIPE, Process
from contextlib import suppress

import orjson

from tenuto.languages.bounds import LINE_MAX
from tenuto.languages.javascript import Broken, end, read_answer
from tenuto.languages.setting import Setting, child
from tenuto.ports.languages import Fault, Outcome, Program, Say, Trouble

CONFINEMENT = "restricted"
_LEAVE_S = 0.5
"""How long a process that gave its answer may take to be gone."""
_CHUNK = 65_536
_ANSWER_EXTRA = 131_072
"""What an answer has beside the output: message, traceback, quoting."""


class CPython:
    """An interpreter of `language: cpython`."""

    grace_us = 0

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    async def run(self, program: Program, say: Say) -> Outcome:
        """Run one program; its limits are set."""
        folder = tempfile.mkdtemp(dir=self._setting.folder, prefix="code-")
        try:
            return await _execute(program, say, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def close(self) -> None:
        """Nothing is kept."""


async def _execute(program: Program, say: Say, folder: str) -> Outcome:
    assert program.time_us is not None
    assert program.output is not None
    ours, theirs = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *child("tenuto.languages.cpython_child", os.getpid(), theirs),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={},
            cwd=folder,
            pass_fds=(theirs,),
            start_new_session=True,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    request = {
        "code": program.code,
        "params": program.params,
        "output": program.output,
        "memory": program.memory,
        "cpu_s": program.time_us // 1_000_000 + 2,
    }
    limit = 2 * program.output + _ANSWER_EXTRA
    try:
        answer = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(answer),
            os.fdopen(ours, "rb", 0),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        async with asyncio.TaskGroup() as group:
            group.create_task(_feed(process, orjson.dumps(request)))
            group.create_task(_pump(process.stdout, say, stderr=False))
            group.create_task(_pump(process.stderr, say, stderr=True))
            data = await _read(answer, limit)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await process.wait()
            await end(process)
        transport.close()
    finally:
        await end(process)
    return _outcome(process, data, limit)


async def _feed(process: Process, request: bytes) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.write(request)
        await process.stdin.drain()
        process.stdin.close()


async def _pump(stream: asyncio.StreamReader, say: Say, *, stderr: bool) -> None:
    """Pass on lines as they come; of one that is too long, its beginning."""
    rest = b""
    while data := await stream.read(_CHUNK):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            say(stderr, line.decode("utf-8", "replace"))
        rest = rest[: 4 * LINE_MAX]
    if rest:
        say(stderr, rest.decode("utf-8", "replace"))


async def _read(stream: asyncio.StreamReader, limit: int) -> bytes:
    """All of a stream, or a little more than the limit."""
    parts, size = [], 0
    while size <= limit and (data := await stream.read(_CHUNK)):
        parts.append(data)
        size += len(data)
    return b"".join(parts)


def _outcome(process: Process, data: bytes, limit: int) -> Outcome:
    if data:
        with suppress(Broken, ValueError, RecursionError):
            if len(data) <= limit:
                return read_answer(json.loads(data))
        return Fault(trouble=Trouble.INVALID_RESULT, message="the result cannot be read")
    code = process.returncode
    if code == -signal.SIGXCPU:
        return Fault(trouble=Trouble.TIMEOUT, message="", retryable=True)
    if code is not None and code < 0:
        ended = f"by the signal {signal.Signals(-code).name}"
    else:
        ended = f"with the exit code {code}"
    return Fault(
        trouble=Trouble.CODE_ERROR,
        message=f"the code's process ended {ended} before `main` returned",
        retryable=True,
    )
