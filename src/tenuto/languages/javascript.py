"""`language: javascript`: QuickJS in processes of ours, one program at a time each, kept warm between them."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process

import orjson

from tenuto.languages.setting import Setting, child
from tenuto.ports.languages import Fault, Outcome, Output, Program, Say, Trouble

CONFINEMENT = "interpreter"
_FRAME_MAX = 256 * 2**20
_DROPPED_MAX = 2**31
_SPENT = frozenset({Trouble.TIMEOUT, Trouble.MEMORY})
"""After these a process may hold on to what the code took: it is replaced."""


class Broken(Exception):
    """The process is gone, or what it says makes no sense."""


class JavaScript:
    """An interpreter of `language: javascript`.

    QuickJS cannot call `console` while it counts time itself, so a program that takes too long is killed.
    """

    grace_us = 0

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._idle: list[Process] = []

    async def run(self, program: Program, say: Say) -> Outcome:
        """Run one program; its limits are set."""
        process = await self._process()
        kept = False
        try:
            outcome = await _converse(process, program, say)
            kept = isinstance(outcome, Output) or outcome.trouble not in _SPENT
        except (Broken, OSError, asyncio.IncompleteReadError, ValueError):
            outcome = Fault(
                trouble=Trouble.LANGUAGE_UNAVAILABLE,
                message="the interpreter of `javascript` broke while the code ran",
                retryable=True,
            )
        finally:
            if kept:
                self._idle.append(process)
            else:
                await end(process)
        return outcome

    async def close(self) -> None:
        """End the processes."""
        while self._idle:
            await end(self._idle.pop())

    async def _process(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
        found = importlib.util.find_spec("_quickjs")
        assert found is not None
        return await asyncio.create_subprocess_exec(
            *child("tenuto.languages.javascript_child", os.getpid(), found.origin),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
        )


async def _converse(process: Process, program: Program, say: Say) -> Outcome:
    assert process.stdin is not None
    assert process.stdout is not None
    request = {
        "code": program.code,
        "params": program.params,
        "memory": program.memory,
        "output": program.output,
    }
    data = orjson.dumps(request)
    process.stdin.write(len(data).to_bytes(4, "big") + data)
    await process.stdin.drain()
    while True:
        size = int.from_bytes(await process.stdout.readexactly(4), "big")
        if size > _FRAME_MAX:
            raise Broken
        kind, _, text = (await process.stdout.readexactly(size)).decode().partition("\n")
        if kind == "result":
            return read_answer(json.loads(text))
        say(kind == "err", text)


def read_answer(answer: object) -> Outcome:
    """What a child says of one program: `output`, or `code` and `message` with more. Nothing in it is trusted.

    Raises Broken, or ValueError: it makes no sense.
    """
    if not isinstance(answer, dict):
        raise Broken
    dropped = answer.get("dropped")
    dropped = min(max(dropped, 0), _DROPPED_MAX) if isinstance(dropped, int) else 0
    if isinstance(output := answer.get("output"), str):
        output.encode()
        return Output(text=output, dropped=dropped)
    details = {key: answer[key] for key in ("type", "line", "traceback") if key in answer}
    return Fault(
        trouble=Trouble(str(answer.get("code"))),
        message=str(answer.get("message")).partition("\n")[0],
        details=json.dumps(details) if details else "",
        retryable=answer.get("code") == Trouble.TIMEOUT or answer.get("retryable") is True,
        dropped=dropped,
    )


async def end(process: Process) -> None:
    """Kill a process and all that it started, and see it gone."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        if process.returncode is None:
            process.kill()
    await process.wait()
