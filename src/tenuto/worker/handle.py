"""One task process of a worker, as the supervisor sees it: its pipe, its last words, its death. See `process`.

Belongs to the supervisor's loop. Nothing here waits for the process: what it does not take gathers, bounded by the
slots that it is given.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol

from tenuto.runtime.logging import get_logger
from tenuto.worker.frames import Unpacker, pack
from tenuto.worker.launching import Launcher
from tenuto.worker.relay import Relay, Tail

_CHUNK = 1 << 18
HIDDEN = ("TENUTO_TOKEN", "TENUTO_AUTH_SECRET")
"""Variables that are the worker's own and nothing for the user's code."""

log = get_logger("worker")


class Broken(Exception):
    """A task process cannot load the app; the text is for people and says what to do."""


@dataclass(frozen=True, slots=True)
class Known:
    """A task function, as its process describes it."""

    name: str
    signature: str
    is_async: bool
    process: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to start task processes, all of them alike.

    Attributes:
        argv: the command line of one; its standard input is our pipe.
        order: what it is told first: the app, the path of imports, how many threads and children.
    """

    argv: Sequence[str]
    order: Mapping[str, Any]


class Listener(Protocol):
    """Who has handles."""

    def hear(self, handle: Handle, message: dict[str, Any]) -> None:
        """What the process says, beside `ready` and `broken`."""
        ...

    def bury(self, handle: Handle) -> None:
        """It is gone for certain, and all that it said has been heard."""
        ...


class Handle:
    """A task process.

    Attributes:
        tasks: what it can run, once it is ready.
        leaving: it gets no more work.
        returncode: its exit code, negative for a signal; None while it lives.
    """

    def __init__(self, launcher: Launcher, relay: Relay, plan: Plan, listener: Listener) -> None:
        """Start it. What it prints goes to our own stdout and stderr."""
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        self.tail = Tail()
        handles = [theirs.detach()]
        for target in (1, 2):
            ours, its = os.pipe()
            relay.add(ours, target, self.tail)
            handles.append(its)
        self.launched = launcher.spawn(plan.argv, handles, unset=HIDDEN)
        self.launched.on_gone = self._end
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.ready.add_done_callback(_trouble_of)  # also when nobody waits
        self.tasks: Mapping[str, Known] = {}
        self.leaving = False
        self.begun_at = monotonic()
        self._out = bytearray()
        self._full = False
        self._unpacker = Unpacker()
        self._deaf = False
        self._loop.add_reader(self._socket, self._read)
        self.send(dict(plan.order) | {"do": "load"})
        if self.returncode is not None:  # the launcher was lost, and says nothing more of it
            self._loop.call_soon(self._end)

    @property
    def pid(self) -> int:
        """0 until it has started."""
        return self.launched.pid

    @property
    def returncode(self) -> int | None:
        return self.launched.returncode

    @property
    def usable(self) -> bool:
        """Whether it takes work."""
        return (
            not self.leaving
            and self.returncode is None
            and self.ready.done()
            and not self.ready.cancelled()
            and self.ready.exception() is None
        )

    @property
    def is_broken(self) -> bool:
        """Whether it could not load the app."""
        return self.ready.done() and _trouble_of(self.ready) is not None

    def send(self, message: dict[str, Any]) -> None:
        """Tell it something, as soon as it listens."""
        if not self._deaf:
            self._out += pack(message)
            self._write()

    def leave(self) -> None:
        """Ask it to end."""
        self.leaving = True
        self.send({"do": "end"})

    def kill(self) -> None:
        """End it and all in its group; `listener.bury` follows."""
        self.launched.kill()

    def _write(self) -> None:
        while self._out:
            try:
                del self._out[: self._socket.send(memoryview(self._out)[:_CHUNK])]
            except BlockingIOError:
                self._full = True
                self._loop.add_writer(self._socket, self._write)
                return
            except OSError:
                self._out.clear()  # it is dying
        if self._full:
            self._full = False
            self._loop.remove_writer(self._socket)

    def _read(self) -> bool:
        """One reading. False: nothing more is there."""
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:  # it is dying, or closed what is not its own
            self._loop.remove_reader(self._socket)
            self.kill()
            return False
        try:
            for message in self._unpacker.feed(data):
                self._take(message)
        except (ValueError, LookupError, TypeError):
            # The user's code wrote where only ours may: nothing that comes from there can be believed any more.
            log.warning("child_makes_no_sense", pid=self.pid)
            self._loop.remove_reader(self._socket)
            self._deaf = True
            self.kill()
            return False
        return True

    def _take(self, message: dict[str, Any]) -> None:
        match message["say"]:
            case "ready":
                self.tasks = {each["name"]: Known(**each) for each in message["tasks"]}
                if not self.ready.done():
                    self.ready.set_result(None)
            case "broken":
                if not self.ready.done():
                    self.ready.set_exception(Broken(str(message["why"])))
            case _:
                self._listener.hear(self, message)

    def _end(self) -> None:
        """It is dead. What it has said is all there now."""
        while not self._deaf and self._read():
            pass
        self._deaf = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        if not self.ready.done():
            self.ready.set_exception(Broken(""))
        self._listener.bury(self)


def _trouble_of(ready: asyncio.Future[None]) -> BaseException | None:
    """Why it is not ready; None too when whoever waited for that was cancelled, and the future with it."""
    return None if ready.cancelled() else ready.exception()


def spread(total: int, parts: int) -> int:
    """The share of each of `parts`, so that together they have at least `total`."""
    return max(1, -(-total // parts))


def names_of(handles: Collection[Handle]) -> tuple[str, ...]:
    """The tasks that any of them knows, sorted."""
    return tuple(sorted({name for handle in handles for name in handle.tasks}))
