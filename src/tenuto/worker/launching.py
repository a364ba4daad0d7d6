"""Starts processes through the launcher, from an event loop that must not fork itself. Its other side is `launcher`.

Belongs to one loop from `attend` on. When the launcher dies all that it has started dies with it, and nothing can be
started any more: that is the supervisor's end, too.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tenuto.worker.frames import Unpacker, pack

_CHUNK = 1 << 16
_CLOSE_S = 5.0


class Launched:
    """A process that the launcher starts.

    Attributes:
        pid: 0 until it has started.
        returncode: its exit code, negative for a signal; None while it lives.
        refused: why it could not be started, if so; `returncode` is -1 then.
    """

    def __init__(self, number: int, kill: Callable[[int], None]) -> None:
        self.number = number
        self.pid = 0
        self.returncode: int | None = None
        self.refused = ""
        self.on_gone: Callable[[], None] | None = None
        self._kill = kill
        self._gone = asyncio.Event()

    def kill(self) -> None:
        """End it and its group; `wait` says when it is gone."""
        if self.returncode is None:
            self._kill(self.number)

    async def wait(self) -> int:
        """Wait until it is gone for certain; its exit code."""
        await self._gone.wait()
        assert self.returncode is not None
        return self.returncode

    def end(self, status: int) -> None:
        """It is gone. For the launcher."""
        self.returncode = status
        self._gone.set()
        if self.on_gone is not None:
            self.on_gone()


class Launcher:
    """The launcher, seen from the supervisor. Made before gRPC is loaded; `on_lost` is called when it has died."""

    def __init__(self) -> None:
        """Start it. Raises OSError: no process can be started."""
        self._socket, theirs = socket.socketpair()
        code = f"from tenuto.worker.launcher import main; main({theirs.fileno()}, {os.getpid()})"
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own words
                python(code),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        finally:
            theirs.close()
        self._socket.setblocking(False)
        self.pid = self._process.pid
        self.on_lost: Callable[[], None] | None = None
        self._unpacker = Unpacker()
        self._numbered = 0
        self._launched: dict[int, Launched] = {}
        self._out: deque[tuple[bytes, Sequence[int]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None

    def attend(self) -> None:
        """Listen to it on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._read)

    def spawn(
        self, argv: Sequence[str], handles: Sequence[int], *, unset: Collection[str] = ()
    ) -> Launched:
        """Start a process.

        Args:
            argv: what to run; the first word is a path.
            handles: its stdin, stdout and stderr, and what it keeps open besides. They become ours, and are closed.
            unset: variables of the environment that it does not get.
        """
        self._numbered += 1
        launched = Launched(self._numbered, self._kill)
        self._launched[self._numbered] = launched
        order = {
            "do": "start",
            "id": self._numbered,
            "argv": list(argv),
            "handles": len(handles),
            "unset": sorted(unset),
        }
        self._out.append((pack(order), tuple(handles)))
        self._write()
        return launched

    async def close(self) -> None:
        """End it, and with it all that it has started; returns when it is gone."""
        if self._loop is not None:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._loop = None
        self._socket.close()
        for _, handles in self._out:
            _close(handles)
        self._out.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                # Not a thread that waits: it is gone in milliseconds, or something is very wrong.
                while self._process.poll() is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)

    def _kill(self, number: int) -> None:
        self._out.append((pack({"do": "kill", "id": number}), ()))
        self._write()

    def _write(self) -> None:
        while self._out:
            data, handles = self._out[0]
            try:
                # Descriptors go with the first byte, whose message may follow in parts.
                sent = (
                    socket.send_fds(self._socket, [data], handles)
                    if handles
                    else self._socket.send(data)
                )
            except BlockingIOError:
                assert self._loop is not None
                self._loop.add_writer(self._socket, self._write)
                return
            except OSError:
                self._lose()
                return
            _close(handles)
            if sent == len(data):
                self._out.popleft()
            else:
                self._out[0] = (data[sent:], ())
        if self._loop is not None:
            self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for message in self._unpacker.feed(data):
            launched = self._launched.get(message["id"])
            if launched is None:
                continue  # the launcher was lost over an earlier message
            match message["say"]:
                case "started":
                    launched.pid = message["pid"]
                case "died":
                    del self._launched[message["id"]]
                    launched.end(message["status"])
                case _:
                    del self._launched[message["id"]]
                    launched.refused = message["why"]
                    launched.end(-1)
        if not data:
            self._lose()

    def _lose(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
        for _, handles in self._out:
            _close(handles)
        self._out.clear()
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost()
        # They die with it, and nobody is left to tell: who waits for their ends must not wait for ever.
        launched, self._launched = list(self._launched.values()), {}
        for each in launched:
            each.end(-signal.SIGKILL)


class Piped:
    """A process of which we have the input and the output, as `asyncio.subprocess.Process` has them."""

    def __init__(self, launched: Launched, stdin: BinaryIO, stdout: asyncio.StreamReader) -> None:
        self._launched = launched
        self.stdin = stdin
        self.stdout = stdout
        self.kill, self.wait = launched.kill, launched.wait

    @property
    def pid(self) -> int:
        """0 until it has started."""
        return self._launched.pid

    @property
    def returncode(self) -> int | None:
        """None while it lives."""
        return self._launched.returncode


async def spawn_piped(
    launcher: Launcher, argv: Sequence[str], kept: Sequence[int], unset: Collection[str]
) -> Piped:
    """Start a process with pipes to and from it. `kept`: what it keeps open besides; it stays ours, too."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    handles = [theirs_in, theirs_out, *(os.dup(each) for each in (2, *kept))]
    launched = launcher.spawn(argv, handles, unset=unset)
    stdout = asyncio.StreamReader()
    try:
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stdout), os.fdopen(ours_in, "rb", buffering=0)
        )
    except BaseException:  # cancelled: nobody else knows of it
        os.close(ours_out)
        launched.kill()
        raise
    return Piped(launched, os.fdopen(ours_out, "wb", buffering=0), stdout)


def python(code: str) -> list[str]:
    """A command line: an interpreter as this one, without the working directory on its path, that runs `code`."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing
    ours = str(Path(__file__).parents[2])
    return [sys.executable, *flags, "-P", "-c", f"import sys; sys.path.append({ours!r}); {code}"]


def _close(handles: Sequence[int]) -> None:
    for handle in handles:
        os.close(handle)
