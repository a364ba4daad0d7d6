"""The process that starts and buries a worker's other processes: small, of one thread, without gRPC or user code.

The supervisor starts it before it loads gRPC, since a process that has loaded it must not fork. What it starts are
sessions of their own; whose death it sees at once, by `waitpid`, after which it ends what is left of their group. It
ends with the supervisor, and takes all along. Decides nothing: when to start and what to kill it is told.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
from collections import deque
from contextlib import suppress
from typing import Any

from tenuto.worker.bonds import die_with, heed_nothing
from tenuto.worker.frames import Unpacker, pack

_CHUNK = 1 << 16
FDS_MAX = 16
"""Descriptors that come with one order."""


def main(handle: int, parent: int) -> None:
    """Serve the supervisor at the other end of the socket `handle` until it is gone. `parent`: its process."""
    heed_nothing(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
    die_with(parent, signal.SIGTERM)
    _Launcher(socket.socket(fileno=handle), parent).serve()


class _Launcher:
    def __init__(self, sock: socket.socket, parent: int) -> None:
        self._socket = sock
        self._parent = parent
        self._unpacker = Unpacker()
        self._handles: deque[int] = deque()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def serve(self) -> None:
        """Do what is ordered, and tell of every death."""
        os.set_inheritable(self._socket.fileno(), False)
        selector = selectors.DefaultSelector()
        woken, wake = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)  # each signal, a death's too
        selector.register(woken, selectors.EVENT_READ)
        selector.register(self._socket, selectors.EVENT_READ)
        try:
            while os.getppid() == self._parent:
                for key, _ in selector.select():
                    if key.fd == woken:
                        with suppress(BlockingIOError):
                            os.read(woken, _CHUNK)
                    elif not self._read():
                        return
                self._bury()
        except ConnectionError:
            return  # nobody hears us any more
        finally:
            self._end_all()
            self._socket.close()

    def _read(self) -> bool:
        """Take orders. False: the supervisor is gone."""
        data, handles, _, _ = socket.recv_fds(self._socket, _CHUNK, FDS_MAX)
        self._handles += handles
        for order in self._unpacker.feed(data):
            if order["do"] == "start":
                self._start(order)
            else:
                process = self._processes.get(order["id"])
                if process is not None:
                    _kill(process)
        return bool(data)

    def _start(self, order: dict[str, Any]) -> None:
        stdin, stdout, stderr, *kept = handles = [
            self._handles.popleft() for _ in range(order["handles"])
        ]
        environment = {k: v for k, v in os.environ.items() if k not in order["unset"]}
        try:
            process = subprocess.Popen(  # noqa: S603 - the supervisor's own words
                order["argv"],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=kept,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            self._say(say="refused", id=order["id"], why=error.strerror or str(error))
        else:
            self._processes[order["id"]] = process
            self._say(say="started", id=order["id"], pid=process.pid)
        finally:
            for handle in handles:
                os.close(handle)

    def _bury(self) -> None:
        for number, process in list(self._processes.items()):
            if _is_dead(process):
                _kill(process)  # nothing of its group is left; the number is still its own
                del self._processes[number]
                self._say(say="died", id=number, status=process.wait())

    def _end_all(self) -> None:
        for process in self._processes.values():
            _kill(process)
        for process in self._processes.values():
            process.wait()

    def _say(self, **message: Any) -> None:
        self._socket.sendall(pack(message))


def _is_dead(process: subprocess.Popen[bytes]) -> bool:
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
