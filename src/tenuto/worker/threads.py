"""A bounded set of threads for `def` tasks. Daemons: a function that never returns does not hold the process back.

The standard library's pool joins its threads at exit, which would make one endless task keep a finished program alive.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue

from tenuto.ports.gateway import Failed
from tenuto.worker.calls import Call, run_function


class NoThread(Exception):
    """The machine, or a limit of it, has no thread left just now."""


def start(thread: threading.Thread) -> None:
    """Raises NoThread."""
    try:
        thread.start()
    except RuntimeError as error:
        raise NoThread(f"no thread can be started: {error}") from None


class Threads:
    """Runs calls in the order of `submit`, at most `limit` at a time. Threads start as they are needed."""

    def __init__(self, limit: int, ended: Callable[[Call], None]) -> None:
        """`ended` is called from the thread once a call's body runs no more."""
        assert limit > 0
        self._limit = limit
        self._ended = ended
        self._queue: SimpleQueue[Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._unfinished = 0

    def submit(self, call: Call) -> None:
        """Run `call` as soon as a thread is free; a cancelled one is skipped."""
        self._queue.put(call)
        with self._lock:
            self._unfinished += 1
            if self._started >= min(self._limit, self._unfinished):
                return
            self._started += 1
            number = self._started
        thread = threading.Thread(target=self._work, name=f"tenuto-task-{number}", daemon=True)
        try:
            start(thread)
        except NoThread as error:
            self._do_without(str(error))

    def _do_without(self, why: str) -> None:
        """There are no more threads just now: those of ours take what waits. If we have none, nobody would, ever."""
        with self._lock:
            self._started -= 1
            if self._started:
                return
        while not self._queue.empty():
            call = self._queue.get()
            if call is not None:
                call.result = Failed(code="internal", message=why)
                call.ended = True
                self._finish(call)

    def close(self) -> None:
        """End the threads as they become free. Waits for none."""
        for _ in range(self._started):
            self._queue.put(None)

    def _work(self) -> None:
        while (call := self._queue.get()) is not None:
            if call.context.cancelled:
                call.ended = True
            else:
                contextvars.copy_context().run(run_function, call)
            self._finish(call)

    def _finish(self, call: Call) -> None:
        with self._lock:
            self._unfinished -= 1
        self._ended(call)
