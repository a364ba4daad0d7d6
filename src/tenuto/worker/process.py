"""A task process of `tenuto worker`: imports the app and runs its functions for the supervisor at the end of a pipe.

Theory of operation. The main thread has a loop of ours, which reads orders and hands them to the executor that the
embedded engine has, too (`worker.user`): `async def` on a loop of their own, `def` in threads, `process=True` in
children of this process. What attempts say goes back over the same pipe, and how they ended straight from the thread in
which they did. Knows no queue, no gateway and no gRPC.

Leases are the supervisor's to extend. It tells when each will end, on the monotonic clock that all processes of a
machine share. While it is frozen, a thread here stops work whose lease is over, and ends the process if the work does
not obey: somebody else may have begun the same task by then. Never outlives the supervisor.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic, sleep
from typing import Any

from tenuto.model.errors import TenutoError
from tenuto.model.ids import LeaseId
from tenuto.ports.gateway import Failed, Lease
from tenuto.runtime.logging import ROOT
from tenuto.worker.bonds import die_with, heed_nothing, let_go
from tenuto.worker.calls import Call, failure_of
from tenuto.worker.child import Forward, PipedContext
from tenuto.worker.frames import Unpacker, result_document
from tenuto.worker.notes import Notebook
from tenuto.worker.pipe import Pipe
from tenuto.worker.registry import Registry
from tenuto.worker.user import UserExecutor

FENCED = 76
"""Exit code of a process whose work went on after its lease, while the supervisor was silent."""
MARGIN_S = 0.25
"""How long the supervisor may be late with its own stop."""
_UNWIND_S = 1.25
_LOOK_S = 0.25
_NOTES_S = 0.1
"""How long notes gather before they are handed on."""
_CHUNK = 1 << 18

Load = Callable[[dict[str, Any]], Registry]


def serve(parent: int, load: Load) -> None:
    """Serve the supervisor at the other end of the socket that is our standard input, until it says `end`.

    `parent`: the launcher, which started this process. `load`: imports the app that the first order names; what it
    raises is told, a TenutoError as it is.
    """
    die_with(parent)
    heed_nothing(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    sock = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.register_at_fork(after_in_child=lambda: let_go(sock.fileno()))
    with contextlib.suppress(OSError, ValueError):
        faulthandler.enable()  # the last words of a process that crashes
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    process = _Process(sock)
    order = process.first()
    if order is None:
        return
    root = logging.getLogger(ROOT)
    root.handlers[:] = [Forward(process.send)]
    root.propagate = False
    root.setLevel(order["level"])
    sys.path[:], sys.argv[:] = order["path"], order["argv"]
    try:
        registry = load(order)
    except TenutoError as error:
        process.send({"say": "broken", "why": str(error)})
    except BaseException as error:  # noqa: BLE001 - importing is the user's code
        failure = failure_of(error)
        process.send({"say": "broken", "why": f"{failure.code}: {failure.message}"})
    else:
        asyncio.run(process.live(registry, order))


class _Process:
    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._pipe = Pipe(sock)
        self.send = self._pipe.send
        self._unpacker = Unpacker()
        self._waiting: list[dict[str, Any]] = []
        self._notebook = Notebook()
        self._untils: dict[LeaseId, float] = {}
        self._calls: dict[LeaseId, Call] = {}
        self._stopped: set[LeaseId] = set()
        self._loop: asyncio.AbstractEventLoop
        self._user: UserExecutor
        self._end = asyncio.Event()
        self._noted = asyncio.Event()

    def first(self) -> dict[str, Any] | None:
        """Wait for the first order, what to load; None: nobody is there any more."""
        while not self._waiting:
            data = self._socket.recv(_CHUNK)
            if not data:
                return None
            self._waiting += self._unpacker.feed(data)
        return self._waiting.pop(0)

    async def live(self, registry: Registry, order: dict[str, Any]) -> None:
        """Run what comes, until told to end."""
        self._loop = asyncio.get_running_loop()
        self._notebook.on_first = self._wake_noter
        self._user = UserExecutor(
            registry,
            threads=order["threads"],
            processes=order["children"],
            notebook=self._notebook,
            contexts=self._context,
            tell=self._tell,
        )
        threading.Thread(target=self._watch, name="tenuto-fence", daemon=True).start()
        async with asyncio.TaskGroup() as group:
            noter = group.create_task(self._note(), name="task-notes")
            self.send(
                {"say": "ready", "tasks": [_described(registry, n) for n in registry.names()]}
            )
            self._loop.add_reader(self._socket, self._read)
            self._take(self._waiting)
            await self._end.wait()
            noter.cancel()
            calls = dict(self._calls)
            for lease_id in calls:
                self._stop(lease_id)
            for call in calls.values():
                await self._user.until_free(call.lease.task_id)
        await self._user.close()

    # -- orders --------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            # The socket itself stays one that waits: threads send by it.
            data = self._socket.recv(_CHUNK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:  # the supervisor is dead, or the user's code closed what is not its own
            os.killpg(0, signal.SIGKILL)
        self._take(self._unpacker.feed(data))

    def _take(self, orders: list[dict[str, Any]]) -> None:
        for order in orders:
            match order["do"]:
                case "run":
                    self._begin(Lease(**order["lease"]), order["until"])
                case "stop":
                    self._stop(order["lease"])
                case "until":
                    for lease_id in order["leases"].keys() & self._untils.keys():
                        self._untils[lease_id] = order["leases"][lease_id]
                case _:
                    self._end.set()

    def _stop(self, lease_id: LeaseId) -> None:
        """Break an attempt off."""
        if lease_id in self._calls and lease_id not in self._stopped:
            self._stopped.add(lease_id)
            self._user.stop(self._calls[lease_id])

    # -- work ----------------------------------------------------------------------------------------------------------

    def _begin(self, lease: Lease, until: float) -> None:
        call = self._user.begin(lease, self._over)
        if isinstance(call, Failed):
            self.send({"say": "result", "lease": lease.lease_id, "result": result_document(call)})
        else:
            self._calls[lease.lease_id] = call
            self._untils[lease.lease_id] = until

    def _over(self, call: Call) -> None:
        lease_id = call.lease.lease_id
        self._stopped.discard(lease_id)
        del self._calls[lease_id], self._untils[lease_id]

    def _tell(self, call: Call) -> None:
        """Tell how an attempt has ended, in the thread in which it did: a way through our loop would take longer than
        all else does here. But what has to wait, waits there.
        """
        said: dict[str, Any] = {"say": "ended", "lease": call.lease.lease_id}
        if call.result is not None and not call.context.cancelled:
            said |= {"say": "result", "result": result_document(call.result)}
        later: Callable[[], None] | None = None
        if self._notebook.has_notes:  # which go first
            later = partial(self._tell_after_notes, said)
        elif not self._pipe.offer(said):
            later = self._pipe.flush
        if later is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(later)

    def _tell_after_notes(self, said: dict[str, Any]) -> None:
        self._hand_on_notes()
        self.send(said)

    def _context(self, lease: Lease, notebook: Notebook) -> PipedContext:
        def send(message: dict[str, Any]) -> None:
            self.send(message | {"lease": lease.lease_id})

        return PipedContext(lease, notebook, send)

    def _wake_noter(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody hands on any more
            self._loop.call_soon_threadsafe(self._noted.set)

    async def _note(self) -> None:
        while True:
            await self._noted.wait()
            await asyncio.sleep(_NOTES_S)
            self._noted.clear()
            self._hand_on_notes()

    def _hand_on_notes(self) -> None:
        while notes := self._notebook.take():
            self.send({"say": "notes", "notes": list(notes)})

    # -- the thread that looks at leases -------------------------------------------------------------------------------

    def _watch(self) -> None:
        """While the supervisor is silent, keep what it keeps otherwise: no work without a lease."""
        fenced: dict[LeaseId, float] = {}
        while True:
            sleep(_LOOK_S)
            now = monotonic()
            untils = dict(self._untils)
            over = {
                lease_id
                for lease_id, until in untils.items()
                if until + MARGIN_S < now and lease_id not in (self._stopped - fenced.keys())
            }
            for lease_id in over - fenced.keys():
                fenced[lease_id] = now
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._stop, lease_id)
            fenced = {lease_id: at for lease_id, at in fenced.items() if lease_id in over}
            alone = all(until + MARGIN_S < now for until in untils.values())
            if alone and any(at + _UNWIND_S < now for at in fenced.values()):
                os._exit(FENCED)


def _described(registry: Registry, name: str) -> dict[str, Any]:
    task = registry.get(name)
    return {
        "name": name,
        "signature": task.signature,
        "is_async": task.is_async,
        "process": task.process,
    }
