"""A bounded set of child processes for tasks with `process=True`: started as needed, used again, killed when unwanted.

Theory of operation. One thread (`tenuto-children`) owns all children: it starts them (so that the kernel's promise to
kill them with their parent, which is made to a thread, lasts as long as the engine), feeds them, listens, and waits for
their deaths. Other threads only leave a word in its inbox. Children are new sessions, so that a Ctrl-C in the terminal
does not reach them and a kill reaches whatever the user's code has started in its group.

A call ends when its result came, or when its process is gone for certain: until then its task counts as running, and
afterwards nothing of it runs any more. A child that was told to stop is never used again.

Never forks: a forked copy of a process with threads may hang. What the user's code started outside of its process group
(a daemon) is not found again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import Any

from tenuto.ports.gateway import Failed, NoteKind
from tenuto.runtime.logging import ROOT, get_logger
from tenuto.runtime.results import canonical
from tenuto.worker.calls import Call, text_of
from tenuto.worker.frames import Unpacker, pack, result_of_document
from tenuto.worker.launching import python
from tenuto.worker.notes import Notebook
from tenuto.worker.registry import UNTYPED
from tenuto.worker.spawnable import address_of
from tenuto.worker.threads import NoThread, start

KILL_AFTER_S = 0.8
"""From asking a child to stop to killing it: less than the runner waits for work to unwind before it gives it back."""
_CLOSE_S = 5.0
"""Longer than any child lives that is killed, unless the kernel cannot end it."""
_TICK_S = 0.1
"""How often to look for deaths where the system does not announce them."""
_CHUNK = 1 << 18

log = get_logger("worker")


class _Word(StrEnum):
    RUN = "run"
    STOP = "stop"


class Children:
    """Runs calls in the order of `submit`, at most `limit` at a time."""

    def __init__(
        self,
        limit: int,
        ended: Callable[[Call], None],
        notebook: Notebook,
        *,
        held: Sequence[int] = (),
    ) -> None:
        """`ended` is called from the thread once a call's code runs no more; `held`: descriptors that children keep
        open as long as they live.
        """
        assert limit > 0
        self._limit = limit
        self._ended = ended
        self._notebook = notebook
        self._held = tuple(held)
        self._lock = threading.Lock()
        self._inbox: deque[tuple[_Word, Call]] = deque()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._crashed = False
        self._wake_r, self._wake_w = -1, -1
        self._waiting: deque[Call] = deque()
        self._children: list[_Child] = []
        self._selector: selectors.BaseSelector
        self._gone: Callable[[], None] | None = None

    # -- from the engine's loop ----------------------------------------------------------------------------------------

    def submit(self, call: Call) -> None:
        """Run `call` as soon as a child is free."""
        self._tell(_Word.RUN, call)

    def stop(self, call: Call) -> None:
        """End `call`, with its process if it has one already: asked first, killed after `KILL_AFTER_S`."""
        self._tell(_Word.STOP, call)

    async def close(self) -> None:
        """End all children and wait until they are gone."""
        loop, gone = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the engine did not wait so long
                loop.call_soon_threadsafe(gone.set)

        with self._lock:
            if self._thread is None or self._closing:
                return
            self._gone = tell
            self._closing = True
            self._wake()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await gone.wait()
        except TimeoutError:
            log.warning("children_left_behind", count=len(self._children))

    def _tell(self, word: _Word, call: Call) -> None:
        with self._lock:
            if self._closing and word is _Word.RUN:
                self._end(call)
                return
            if self._thread is None:
                self._start_thread()
            self._inbox.append((word, call))
            self._wake()

    def _start_thread(self) -> None:
        """Raises NoThread."""
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_r, False)
        os.set_blocking(self._wake_w, False)
        thread = threading.Thread(target=self._main, name="tenuto-children", daemon=True)
        try:
            start(thread)
        except NoThread:
            os.close(self._wake_r)
            os.close(self._wake_w)
            self._wake_r = self._wake_w = -1
            raise
        self._thread = thread

    def _wake(self) -> None:
        if self._wake_w >= 0:
            with contextlib.suppress(
                BlockingIOError
            ):  # it is full: the thread is being woken already
                os.write(self._wake_w, b"\0")

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _main(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_r, selectors.EVENT_READ)
        try:
            while not self._closing or self._children:
                self._turn()
        except BaseException:
            self._crashed = True
            log.exception("children_crashed")
        finally:
            self._leave()

    def _turn(self) -> None:
        """Wait for news, then act on all that there is."""
        for key, _ in self._selector.select(self._pause()):
            if key.fd == self._wake_r:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_r, _CHUNK)
        with self._lock:
            words = list(self._inbox)
            self._inbox.clear()
            closing = self._closing
        for word, call in words:
            if word is _Word.RUN:
                self._waiting.append(call)
            else:
                self._stop(call)
        if closing:
            self._end_all()
        now = monotonic()
        for child in list(self._children):
            self._tend(child, now)
        while self._waiting and not closing and self._hand_out(self._waiting[0]):
            self._waiting.popleft()
        for child in self._children:
            self._watch(child)

    def _pause(self) -> float | None:
        """Seconds until the next kill or look, None for no bound."""
        bounds = [child.kill_at - monotonic() for child in self._children if child.kill_at]
        if any(child.pidfd < 0 for child in self._children):
            bounds.append(_TICK_S)
        return max(0.0, min(bounds)) if bounds else None

    def _stop(self, call: Call) -> None:
        for child in self._children:
            if child.call is call:
                child.stop()
                return
        with contextlib.suppress(ValueError):  # it has ended meanwhile
            self._waiting.remove(call)
            self._end(call)

    def _end_all(self) -> None:
        while self._waiting:
            self._end(self._waiting.popleft())
        for child in self._children:
            if child.call is not None:
                child.stop()
            else:
                child.end()

    def _tend(self, child: _Child, now: float) -> None:
        """Read what it says, write what waits, see whether it is dead, kill it if it is time."""
        child.write()
        # Asked before the last reading: what a dead one has said is all there then.
        dead = child.is_dead()
        try:
            for message in child.read():
                self._hear(child, message)
        except (ValueError, LookupError, TypeError):
            self._give_up(child)
        if dead:
            self._bury(child)
        elif child.kill_at and child.kill_at <= now:
            child.kill()

    def _give_up(self, child: _Child) -> None:
        """The user's code wrote where only ours may: nothing that comes from there can be believed any more."""
        log.warning("child_makes_no_sense", pid=child.pid)
        child.deaf = True
        child.kill()
        if child.call is not None and not child.leaving:
            child.call.result = Failed(
                code="process_died",
                message="the process of this attempt was killed: it wrote into the engine's own pipe",
            )

    def _hear(self, child: _Child, message: dict[str, Any]) -> None:
        call = child.call
        match message["say"]:
            case "log":
                relay_log(message)
            case _ if call is None:
                return  # a thread that the user's code left behind
            case "begun":
                call.context.heartbeat()  # from here on its silence counts
                call.begun = True
            case "beat":
                call.context.heartbeat()
            case "note":
                self._notebook.add(call.lease, NoteKind(message["kind"]), message["text"])
            case "progress":
                call.context.progress(message["done"], message["total"], message["message"])
            case _:
                self._take_result(child, call, message)

    def _take_result(self, child: _Child, call: Call, message: dict[str, Any]) -> None:
        if child.leaving:
            return  # nobody wants it, and the call ends with the process
        call.result = result_of_document(message["result"])
        child.call = None
        if message["spent"]:
            child.end()
        self._end(call)

    def _bury(self, child: _Child) -> None:
        """A child is dead: nothing of its group may be left, and its call has ended."""
        self._children.remove(child)
        for handle in (child.sock, child.pidfd):
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(handle)
        status = child.bury()
        call, child.call = child.call, None
        if call is not None:
            if not child.leaving:
                call.result = call.result or _death(status)
                log.warning(
                    "child_died", pid=child.pid, task_id=call.lease.task_id, how=how_of(status)
                )
            self._end(call)
        elif not child.leaving:
            log.warning("idle_child_died", pid=child.pid, how=how_of(status))

    def _hand_out(self, call: Call) -> bool:
        """Give a call to an idle child, or to a new one. False: all are busy."""
        if call.context.cancelled:
            self._end(call)
            return True
        idle = [child for child in self._children if child.call is None and not child.leaving]
        if idle:
            child = idle[-1]
        elif len(self._children) < self._limit:
            try:
                child = _Child(self._held)
            except OSError as error:
                call.result = Failed(
                    code="process_not_started",
                    message=text_of(f"no process can be started: {error.strerror or error}"),
                )
                self._end(call)
                return True
            self._children.append(child)
        else:
            return False
        child.call = call
        child.send(_order(call))
        child.write()
        return True

    def _watch(self, child: _Child) -> None:
        """Have the selector wait for what this child waits for."""
        want = 0 if child.deaf else selectors.EVENT_READ
        if child.out and not child.deaf:
            want |= selectors.EVENT_WRITE
        if want == child.watched:
            return
        if child.watched is None and child.pidfd >= 0:
            self._selector.register(child.pidfd, selectors.EVENT_READ)
        if not want:  # for ever; from the start, if it died before its first order was written
            if child.watched:
                self._selector.unregister(child.sock)
        elif child.watched is None:
            self._selector.register(child.sock, want)
        else:
            self._selector.modify(child.sock, want)
        child.watched = want

    def _end(self, call: Call) -> None:
        if self._crashed and call.result is None:
            # Not given back, or it would come again at once, and so on.
            call.result = Failed(code="internal", message="processes cannot be used: see the log")
        call.ended = True
        self._ended(call)

    def _leave(self) -> None:
        """Nothing is left behind, also after a fault of ours."""
        with self._lock:
            self._closing = True
            left = [call for word, call in self._inbox if word is _Word.RUN]
            self._inbox.clear()
            os.close(self._wake_w)
            os.close(self._wake_r)
            self._wake_w = -1
        for child in self._children:
            child.kill()
            child.bury()
            if child.call is not None:
                left.append(child.call)
        self._children.clear()
        self._selector.close()
        for call in (*self._waiting, *left):
            self._end(call)
        if self._gone is not None:
            self._gone()


class _Child:
    """One process. Belongs to the thread that made it.

    Attributes:
        call: what it runs, None: it is idle.
        leaving: it was told to stop or to end; gets no more calls.
        kill_at: when it will be killed if it still lives, 0.0: not.
        deaf: its end of the pipe is closed.
        watched: what the selector waits for, None: it does not know this child yet.
    """

    def __init__(self, held: Sequence[int]) -> None:
        """Raises OSError: no process can be started."""
        self.sock, theirs = socket.socketpair()
        try:
            self.sock.setblocking(False)
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own words
                _command(theirs.fileno(), held),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *held),
                start_new_session=True,
            )
        except BaseException:
            self.sock.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        self.pidfd = _pidfd(self.pid)
        self.out = bytearray()
        self.call: Call | None = None
        self.leaving = False
        self.kill_at = 0.0
        self.deaf = False
        self.watched: int | None = None
        self._unpacker = Unpacker()
        self._stolen = False

    def send(self, message: dict[str, Any]) -> None:
        self.out += pack(message)

    def stop(self) -> None:
        """Ask it to break off and end."""
        self._leave("stop")

    def end(self) -> None:
        """Ask an idle one to end."""
        self._leave("end")

    def _leave(self, word: str) -> None:
        if not self.leaving:
            self.leaving = True
            self.kill_at = monotonic() + KILL_AFTER_S
            self.send({"do": word})

    def write(self) -> None:
        """Write as much as it takes."""
        while self.out and not self.deaf:
            try:
                del self.out[: self.sock.send(memoryview(self.out)[:_CHUNK])]
            except BlockingIOError:
                return
            except OSError:
                self._lost()

    def read(self) -> list[dict[str, Any]]:
        """All messages that are there."""
        found: list[dict[str, Any]] = []
        while not self.deaf:
            try:
                data = self.sock.recv(_CHUNK)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if data:
                found += self._unpacker.feed(data)
            else:
                self._lost()
        return found

    def _lost(self) -> None:
        """The pipe is closed: it is dying, or it closed what is not its own."""
        self.deaf = True
        self.kill_at = self.kill_at or monotonic() + KILL_AFTER_S

    def is_dead(self) -> bool:
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            self._stolen = True
            return True  # somebody else in this program has waited for it

    def kill(self) -> None:
        """Kill it and what its code has started. Only before `bury`: the number is still its own."""
        self.kill_at = 0.0
        if self._stolen:
            return  # the number may be somebody else's by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def bury(self) -> int:
        """Wait for it and close what belongs to it; its exit code, negative for a signal."""
        self.kill()
        status = self._process.wait()
        self.sock.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
        return status


def _command(handle: int, held: Sequence[int]) -> list[str]:
    """An interpreter as this one, that serves at `handle`."""
    told = f"{handle}, {os.getpid()}, {tuple(held)!r}"
    return python(f"from tenuto.worker.child import main; main({told})")


def _order(call: Call) -> dict[str, Any]:
    """The message that starts an attempt."""
    task = call.task
    assert task.origin is not None
    address = address_of(task.name, task.origin, task.function)
    if task.typing != UNTYPED:
        # What reads annotations is not the worker's: only registering the task again brings it back.
        address = replace(address, plain=False)
    return {
        "do": "run",
        "lease": call.lease,
        "address": address.document(),
        "path": [str(Path(entry).absolute()) for entry in sys.path],
        "argv": sys.argv,
        "level": logging.getLogger(ROOT).getEffectiveLevel(),
    }


def _pidfd(pid: int) -> int:
    """A descriptor that announces the death of a process, -1 where there is none."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return -1


def relay_log(message: dict[str, Any]) -> None:
    """Write a child's log line as if it were of this process."""
    fields = dict(message["fields"])
    event = str(fields.pop("event", ""))
    fields.pop("level", None)
    get_logger(str(message["logger"])).log(int(message["level"]), event, **fields)


def _death(status: int) -> Failed:
    """The failure of an attempt whose process died under it."""
    details = {"signal": _signal(status)} if status < 0 else {"exit_code": status}
    return Failed(
        code="process_died",
        message=f"the process of this attempt {how_of(status)}",
        details=canonical(details),
    )


def how_of(status: int) -> str:
    """How a process ended, for people: after `the process`."""
    if status >= 0:
        return f"ended itself with exit code {status}"
    hint = ": out of memory, or by hand" if status == -signal.SIGKILL else ""
    return f"was killed by {_signal(status)}{hint}"


def _signal(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
