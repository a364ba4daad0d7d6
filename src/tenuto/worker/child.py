"""A process that runs attempts of the user's functions, one at a time. `worker.children` starts it, feeds it, ends it.

The main thread runs the user's code; another listens to the engine. Knows no queue, no lease end and no deadline: it
stops when it is told to. It never outlives the engine: the kernel kills it with the engine's thread that started it
(Linux), and everywhere the end of the pipe does.

Ctrl-C in a terminal and a SIGTERM to a whole group of processes are the engine's to answer: it drains, and tells us.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import runpy
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Any

from tenuto.ports.gateway import Failed, Lease, NoteKind, Result
from tenuto.runtime.logging import ROOT
from tenuto.worker.bonds import die_with, let_go
from tenuto.worker.calls import Call, failure_of, run_coroutine, run_function, text_of
from tenuto.worker.context import Context
from tenuto.worker.frames import Unpacker, pack, result_document
from tenuto.worker.notes import TEXT_MAX, Notebook
from tenuto.worker.registry import Registry, Task
from tenuto.worker.spawnable import Address, NotImportable, find

_BEAT_S = 0.01
"""Heartbeats of a task that come faster are one."""
_CHUNK = 1 << 16
_OURS = Path(__file__).parents[1]
_RUNPY = runpy.__file__


class Stopped(SystemExit):
    """Raised in the user's code when its result is no longer wanted, so that it may clean up."""


def main(handle: int, parent: int, held: Sequence[int]) -> None:
    """Serve the engine at the other end of the socket `handle` until it says `end`.

    `parent`: the process that started this one. `held`: descriptors that only have to stay open as long as we live.
    """
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    child = _Child(socket.socket(fileno=handle))
    signal.signal(signal.SIGTERM, child.on_terminate)
    for each in (handle, *held):
        os.set_inheritable(each, False)
    os.register_at_fork(after_in_child=lambda: let_go(handle, *held))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    child.serve()


class _Child:
    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._sending = threading.Lock()
        self._inbox: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._runner: asyncio.Runner | None = None
        self._call: Call | None = None
        self._breakable = False
        self._stopped = False

    def serve(self) -> None:
        """Run what comes, until told to end."""
        root = logging.getLogger(ROOT)
        root.handlers[:] = [Forward(self.send)]
        root.propagate = False
        threading.Thread(target=self._listen, name="tenuto-pipe", daemon=True).start()
        try:
            while (message := self._inbox.get()) is not None and not self._stopped:
                self._run(message)
        finally:
            if self._runner is not None:
                self._runner.close()

    def send(self, message: dict[str, Any]) -> None:
        """Tell the engine something, from any thread."""
        # The listener sees to an engine that is gone.
        with self._sending, contextlib.suppress(OSError):
            self._socket.sendall(pack(message))

    def on_terminate(self, number: int, frame: types.FrameType | None) -> None:
        """SIGTERM: break off what runs, if it was the engine that wants it."""
        if self._stopped and self._breakable:
            self._breakable = False
            raise Stopped(128 + number)

    # -- the thread that listens ---------------------------------------------------------------------------------------

    def _listen(self) -> None:
        unpacker = Unpacker()
        while True:
            try:
                data = self._socket.recv(_CHUNK)
            except OSError:
                data = b""
            if not data:  # the engine is dead, or the user's code closed what is not its own
                os.killpg(0, signal.SIGKILL)
            for message in unpacker.feed(data):
                match message["do"]:
                    case "run":
                        self._inbox.put(message)
                    case "stop":
                        self._stop()
                    case _:
                        self._inbox.put(None)

    def _stop(self) -> None:
        """Break off the attempt, and end. The engine kills what is left of this group after a moment."""
        self._stopped = True
        call = self._call
        if call is not None:
            call.context.cancel()
            if call.job is not None and self._runner is not None:
                self._runner.get_loop().call_soon_threadsafe(call.job.cancel)
        self._inbox.put(None)
        os.killpg(0, signal.SIGTERM)  # also to processes that the user's code has started

    # -- the main thread -----------------------------------------------------------------------------------------------

    def _run(self, message: dict[str, Any]) -> None:
        sys.path[:], sys.argv[:] = message["path"], message["argv"]
        logging.getLogger(ROOT).setLevel(message["level"])
        lease = Lease(**message["lease"])
        address = Address.of(message["address"])
        found = self._find(address)
        if isinstance(found, Failed):
            result: Result = found
        else:
            self.send({"say": "begun"})
            result = self._execute(lease, found)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
        # An import that failed half-way leaves modules behind: another try gets another process.
        spent = isinstance(found, Failed)
        self.send({"say": "result", "result": result_document(result), "spent": spent})

    def _find(self, address: Address) -> Task | Failed:
        self._breakable = True
        try:
            task: Task = find(address, _registered)
        except NotImportable as reason:
            return Failed(code="task_not_importable", message=text_of(reason), retryable=False)
        except BaseException as error:  # noqa: BLE001 - importing is the user's code
            failure = failure_of(error.with_traceback(_own_part(error.__traceback__)))
            said = f": {failure.message}" if failure.message else ""
            return Failed(
                code="task_not_importable",
                message=text_of(
                    f"a child process cannot import {address.home.file or address.home.name}:"
                    f" {failure.code}{said}"
                ),
                details=failure.details,
                retryable=False,
            )
        finally:
            self._breakable = False
        return task

    def _execute(self, lease: Lease, task: Task) -> Result:
        context = PipedContext(lease, _PipedNotes(self.send), self.send)
        call = Call(lease, task, context, _nobody_waits)
        self._call = call
        try:
            if task.is_async:
                if self._runner is None:
                    self._runner = asyncio.Runner()
                self._runner.run(self._await(call), context=contextvars.Context())
            else:
                self._breakable = True
                contextvars.Context().run(run_function, call)
        finally:
            self._breakable = False
            self._call = None
        assert call.result is not None
        return call.result

    async def _await(self, call: Call) -> None:
        call.job = asyncio.current_task()
        if self._stopped:
            call.context.cancel()
            assert call.job is not None
            call.job.cancel()
        await run_coroutine(call, lambda: False)


class PipedContext(Context):
    """An attempt whose heartbeats go to the engine."""

    __slots__ = ("_beaten_at", "_send")

    def __init__(
        self, lease: Lease, notebook: Notebook, send: Callable[[dict[str, Any]], None]
    ) -> None:
        super().__init__(lease, notebook)
        self._send = send
        self._beaten_at = -_BEAT_S

    def heartbeat(self) -> None:
        now = monotonic()
        if now - self._beaten_at >= _BEAT_S:
            self._beaten_at = now
            self._send({"say": "beat"})


class _PipedNotes(Notebook):
    """What an attempt says, written into the engine's notebook, which also keeps the bounds."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._send = send

    def add(self, lease: Lease, kind: NoteKind, text: str) -> None:
        self._send({"say": "note", "kind": kind, "text": text_of_note(text)})

    def progress(
        self, lease: Lease, done: float, total: float | None = None, message: str = ""
    ) -> None:
        self._send(
            {"say": "progress", "done": done, "total": total, "message": text_of_note(message)}
        )


class Forward(logging.Handler):
    """The engine's own log lines, written by the engine's process."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "tenuto", None) or {"event": record.getMessage()}
        try:
            self._send(
                {"say": "log", "logger": record.name, "level": record.levelno, "fields": fields}
            )
        except Exception:  # noqa: BLE001 - as every handler of the standard library
            self.handleError(record)


def text_of_note(text: object) -> str:
    """Text that JSON can carry, and no more of it than may be kept."""
    return str(text)[: 2 * TEXT_MAX].encode("utf-8", "backslashreplace").decode()


def _nobody_waits(_call: Call) -> None:
    """The engine has a call of its own."""


def _registered(function: Callable[..., Any], name: str) -> Task:
    registry = Registry()
    registry.add(function, name=name)
    return registry.get(name)


def _own_part(frames: types.TracebackType | None) -> types.TracebackType | None:
    """What is left of a traceback from the last frame before the user's own."""
    own = frames
    while own is not None and own.tb_next is not None:
        name = own.tb_next.tb_frame.f_code.co_filename
        if not name.startswith("<") and not Path(name).is_relative_to(_OURS) and name != _RUNPY:
            return own
        own = own.tb_next
    return frames
