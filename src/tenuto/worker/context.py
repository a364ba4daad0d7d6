"""What task code may ask about the attempt that it is. Holds no way to change the run."""

from __future__ import annotations

from contextvars import ContextVar

from tenuto.model.ids import LeaseId, Place, RunId, TaskId
from tenuto.ports.gateway import Lease
from tenuto.runtime.logging import Logger, get_logger


class Context:
    """One attempt, as its own code sees it. The object may be handed to any thread.

    Attributes:
        run_id: the run.
        place: the node, with the pass of each loop around it (SEMANTICS L3).
        task_id: `<run>/<place>`, the same over all attempts.
        attempt: counted from 1.
        lease_id: the right under which it runs; a new one for every attempt handed out.
    """

    __slots__ = (
        "_beaten",
        "_cancelled",
        "_logger",
        "attempt",
        "lease_id",
        "place",
        "run_id",
        "task_id",
    )

    def __init__(self, lease: Lease) -> None:
        self.run_id: RunId = lease.run_id
        self.place: Place = lease.place
        self.task_id: TaskId = lease.task_id
        self.attempt: int = lease.attempt
        self.lease_id: LeaseId = lease.lease_id
        self._beaten = False
        self._cancelled = False
        self._logger: Logger | None = None

    @property
    def node(self) -> str:
        """Id of the node."""
        return self.place.partition("~")[0].partition("[")[0].partition(".")[0]

    @property
    def idempotency_key(self) -> str:
        """Give this to the other side, and doing it twice is doing it once: the same over all attempts."""
        return self.task_id

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer wanted. A thread cannot be stopped from outside: look here and return."""
        return self._cancelled

    @property
    def logger(self) -> Logger:
        """A logger with run, task and attempt bound."""
        if self._logger is None:
            self._logger = get_logger(
                "task", run_id=self.run_id, task_id=self.task_id, attempt=self.attempt
            )
        return self._logger

    def heartbeat(self) -> None:
        """Say that the work goes on, for nodes with a `heartbeat_timeout`. Cheap: call it as often as you like."""
        self._beaten = True

    def take_beat(self) -> bool:
        """Whether `heartbeat` was called since this was last asked. For the worker."""
        beaten, self._beaten = self._beaten, False
        return beaten

    def cancel(self) -> None:
        """Note that the result is no longer wanted. For the worker."""
        self._cancelled = True


_current: ContextVar[Context] = ContextVar("tenuto_attempt")


def current() -> Context:
    """The attempt that is calling.

    Raises:
        RuntimeError: the caller is not inside a task.
    """
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError("tenuto.current() was called outside a task") from None


def enter(context: Context) -> None:
    """Make `context` the current one of this asyncio task or copied contextvars context. For the worker."""
    _current.set(context)
