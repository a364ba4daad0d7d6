"""The loop where `async def` tasks run: the user's own, or one in a thread of its own. Never the engine's.

`send` and `close` belong to the engine's loop, all else to the user's. Calls cross in batches: one wake-up for all that
wait, in both directions.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import Callable

from tenuto.runtime.logging import get_logger
from tenuto.worker.calls import Call, run_coroutine
from tenuto.worker.threads import NoThread, start

_JOIN_S = 1.0
"""How long closing waits for code that was asked to stop; what blocks longer is a daemon's."""

log = get_logger("worker")


class UserLoop:
    """Starts and stops calls on one loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None,
        ended: Callable[[Call], None],
        wake: Callable[[], None],
    ) -> None:
        """`loop` None: a thread `tenuto-user` with a loop starts at first use. Called on the user's loop: `ended` with
        each call that has, `wake` at the end of a turn in which some have.
        """
        self._loop = loop
        self._ended = ended
        self._wake = wake
        self._thread: threading.Thread | None = None
        self._begun = False
        self._inbox: deque[Call] = deque()
        self._waking = False
        self._group: asyncio.TaskGroup | None = None
        self._host: asyncio.Task[None] | None = None
        self._over = False
        self._gone = asyncio.Event()
        self._flushing = False
        # Tasks start from an empty context, not from what the engine has bound.
        self._context = contextvars.Context()

    def send(self, call: Call) -> None:
        """Start `call`, or stop it if it is cancelled."""
        self._begin()
        self._inbox.append(call)
        if self._waking:
            return
        self._waking = True
        self._post(self._drain)

    async def close(self) -> None:
        """Cancel every call; end the loop if it is ours. Bounded: code that blocks is left behind."""
        if not self._begun:
            return
        self._post(self._stop)
        if self._thread is not None:
            # Not `join` in an executor's thread: when the program ends, executors may take no work any more.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_JOIN_S):
                    await self._gone.wait()

    def _begin(self) -> None:
        """Start the loop, if it is ours, and the task on it that owns all calls. Raises NoThread."""
        if self._begun:
            return
        if self._loop is None:
            loop, engine = asyncio.new_event_loop(), asyncio.get_running_loop()
            thread = threading.Thread(
                target=_run,
                args=(loop, lambda: self._over, lambda: self._tell_gone(engine)),
                name="tenuto-user",
                daemon=True,
            )
            try:
                start(thread)
            except NoThread:
                loop.close()
                raise
            self._loop, self._thread = loop, thread
        self._begun = True
        host = self._own()
        try:
            asyncio.run_coroutine_threadsafe(host, self._loop)
        except RuntimeError:
            host.close()
            self._over = True

    def _tell_gone(self, engine: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # the engine did not wait so long
            engine.call_soon_threadsafe(self._gone.set)

    def _post(self, callback: Callable[[], None]) -> None:
        """Run `callback` on the user's loop; if that is closed, hand back what waits."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            self._over = True
            self._waking = False
            self._refuse()
            self._flush()

    # -- on the user's loop ----------------------------------------------------------------------------------------

    async def _own(self) -> None:
        """Own the calls' tasks, so that none outlives this one unseen. Ends by being cancelled."""
        self._host = asyncio.current_task()
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._drain()
                await asyncio.get_running_loop().create_future()
        finally:
            self._over = True
            self._refuse()
            self._flush()
            if self._thread is not None:
                asyncio.get_running_loop().stop()

    def _drain(self) -> None:
        """Start what is new, stop what is cancelled."""
        self._waking = False  # before the queue is emptied: what is added from here on wakes again
        if self._over:
            self._refuse()
            self._flush()
            return
        group = self._group
        if group is None or self._interrupted():
            return  # `_own` comes here itself
        while self._inbox:
            call = self._inbox.popleft()
            if call.ended:
                continue
            if not call.context.cancelled:
                call.job = group.create_task(
                    self._run(call), name=call.lease.name, context=self._context.copy()
                )
            elif call.job is not None:
                call.job.cancel()
            else:
                self._end(call)

    async def _run(self, call: Call) -> None:
        await run_coroutine(call, self._interrupted)
        self._end(call)

    def _end(self, call: Call) -> None:
        """Hand back an ended call, and wake whoever waits for it and for all others that end in this turn."""
        call.ended = True
        self._ended(call)
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        self._wake()

    def _refuse(self) -> None:
        """End what never started."""
        while self._inbox:
            call = self._inbox.popleft()
            if not call.ended and call.job is None:
                call.ended = True
                self._ended(call)

    def _interrupted(self) -> bool:
        return self._over or self._host is None or self._host.cancelling() > 0

    def _stop(self) -> None:
        if self._host is not None:
            self._host.cancel()


def _run(
    loop: asyncio.AbstractEventLoop, is_over: Callable[[], bool], tell_gone: Callable[[], None]
) -> None:
    """The thread of our own loop for user code.

    Survives a SystemExit of a task that user code started itself, and a `loop.stop()` of its: the loop is not one
    task's to end.
    """
    asyncio.set_event_loop(loop)
    while not is_over():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            log.warning("exit_in_user_task_ignored", error=type(error).__name__)
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=_JOIN_S))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    tell_gone()
