"""Runs the user's functions: `async def` on the user's loop, `def` in a bounded set of threads, and those that want it
in a bounded set of processes.

Never on the engine's loop: code that blocks delays its neighbours, not leases and heartbeats. Knows no deadlines: the
runner cancels.

What `busy` tells the runner keeps a step from running twice at the same time in this process (`live`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from tenuto.model.ids import TaskId
from tenuto.ports.gateway import Failed, Lease, Result
from tenuto.worker.calls import Call
from tenuto.worker.children import Children
from tenuto.worker.context import Context
from tenuto.worker.coroutines import UserLoop
from tenuto.worker.live import Live, answer_of
from tenuto.worker.notes import Notebook
from tenuto.worker.registry import Registry
from tenuto.worker.threads import NoThread, Threads

THREADS = 16
"""SEMANTICS D."""
PROCESSES = 2


class Interrupted(Exception):
    """The place where the work ran went away (the user's loop ended): no result, and not the work's fault."""


class UserExecutor:
    """An executor of the functions in a registry. Its methods belong to the engine's loop."""

    def __init__(
        self,
        registry: Registry,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        threads: int = THREADS,
        processes: int = PROCESSES,
        held: Sequence[int] = (),
        notebook: Notebook | None = None,
        contexts: Callable[[Lease, Notebook], Context] = Context,
        tell: Callable[[Call], None] = lambda _: None,
    ) -> None:
        """`notebook`: where attempts write what they say. `contexts`: makes what an attempt's code sees of itself.
        `tell`: called with each call that has ended, in the thread in which it did, so before this loop knows.

        `loop`: where `async def` runs; None starts a thread with a loop of its own at first use. `held`: descriptors
        that child processes keep open as long as they live.
        """
        self._registry = registry
        self._notebook = notebook if notebook is not None else Notebook()
        self._contexts = contexts
        self._tell = tell
        self._live: Live[Call] = Live()
        self._threads = Threads(threads, self._hand_back)
        self._coroutines = UserLoop(loop, self._ended, self._wake)
        self._children = Children(processes, self._hand_back, self._notebook, held=held)
        self._outbox: deque[Call] = deque()
        self._waking = False
        self._engine: asyncio.AbstractEventLoop | None = None

    async def execute(self, lease: Lease) -> Result:
        """Run one attempt. Cancelling asks the function to stop and returns at once; then see `busy`.

        Raises:
            Interrupted: the user's loop is gone.
        """
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        call = self.begin(lease, partial(_settle, answer))
        if isinstance(call, Failed):
            return call
        return await answer_of(answer, partial(self.stop, call))

    def begin(self, lease: Lease, over: Callable[[Call], None]) -> Call | Failed:
        """The same without waiting: `over` is called on this loop when it has ended. Failed: nobody can run it."""
        task = self._registry.find(lease.name)
        if task is None:
            return Failed(code="unknown_task", message=self._registry.missing(lease.name))
        self._engine = asyncio.get_running_loop()
        if self._live.busy(lease.task_id):
            self._deliver()  # its end was told to others in its thread, and they have been quicker
        call = Call(lease, task, self._contexts(lease, self._notebook), over)
        self._live.begin(lease.task_id, call)
        try:
            if task.process:
                self._children.submit(call)
            elif task.is_async:
                self._coroutines.send(call)
            else:
                self._threads.submit(call)
        except NoThread as error:
            self._live.end(lease.task_id)
            return Failed(code="internal", message=str(error))
        return call

    def stop(self, call: Call) -> None:
        """Ask its function to stop."""
        call.context.cancel()
        if call.task.process:
            self._children.stop(call)
        elif call.task.is_async:
            self._coroutines.send(call)

    def busy(self, task_id: TaskId) -> bool:
        """Whether a function of that task is still running, its result wanted or not."""
        return self._live.busy(task_id)

    async def until_free(self, task_id: TaskId) -> None:
        """Wait until `busy` is False."""
        await self._live.until_free(task_id)

    def take_beat(self, task_id: TaskId) -> bool:
        """Whether the task called `context.heartbeat()` since this was last asked, or could not yet: its process is
        still to come, or that of an earlier attempt is being ended.
        """
        call = self._live.find(task_id)
        if call is None:
            return False
        waits = call.task.process and (call.context.cancelled or not call.begun)
        return call.context.take_beat() or waits

    async def close(self) -> None:
        """Cancel what is left, end the threads, and wait for the children to be gone. A function in a thread that goes
        on regardless dies with the process.
        """
        for call in self._live.calls():
            call.context.cancel()
        self._threads.close()
        await self._children.close()
        await self._coroutines.close()

    def _hand_back(self, call: Call) -> None:
        self._ended(call)
        self._wake()

    def _ended(self, call: Call) -> None:
        """Queue an ended call. Called from any thread."""
        call.context.end()
        self._notebook.close(call.lease.lease_id)
        self._outbox.append(call)  # first: who is told may give us the next attempt at once
        self._tell(call)

    def _wake(self) -> None:
        """Wake the engine's loop, once for all calls that wait. Called from any thread."""
        if self._waking or self._engine is None:
            return
        self._waking = True
        try:
            self._engine.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            # The engine's loop is closed: nobody waits any more, and leases end by themselves.
            return

    def _deliver(self) -> None:
        """Give results to those who wait for them."""
        self._waking = False  # before the queue is emptied: what is added from here on wakes again
        while self._outbox:
            call = self._outbox.popleft()
            call.over(call)
            self._live.end(call.lease.task_id)


def _settle(answer: asyncio.Future[Result], call: Call) -> None:
    if not answer.done():
        if call.result is None:
            answer.set_exception(Interrupted("the user's loop has ended"))
        else:
            answer.set_result(call.result)
