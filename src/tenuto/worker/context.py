"""What task code may ask and say about the attempt that it is. Holds no way to change the run."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar

from tenuto.model.ids import LeaseId, Place, RunId, TaskId
from tenuto.ports.gateway import Lease, NoteKind
from tenuto.runtime.logging import Logger, get_logger
from tenuto.worker.notes import Notebook

_WHOLE_MAX = 2**53


class TaskLogger:
    """Logs a task's events with fields, and keeps those from info upwards as notes of the attempt.

    A note is `event key=value`; it is kept whatever the program does with its logs. Thread-safe; never raises for what
    is logged.
    """

    __slots__ = ("_fields", "_logger", "_note")

    def __init__(
        self,
        logger: Logger,
        note: Callable[[str], None],
        fields: Mapping[str, object] | None = None,
    ) -> None:
        self._logger = logger
        self._note = note
        self._fields = dict(fields or {})

    def bind(self, **fields: object) -> TaskLogger:
        """A logger that adds these fields to each of its lines."""
        return TaskLogger(self._logger.bind(**fields), self._note, self._fields | fields)

    def debug(self, event: str, *args: object, **fields: object) -> None:
        """Log at the level debug; not kept as a note."""
        self._logger.debug(_filled(event, args), **fields)

    def info(self, event: str, *args: object, **fields: object) -> None:
        """Log at the level info. `args` fill `%s` and the like in `event`, as with the standard library."""
        text = _filled(event, args)
        self._logger.info(text, **fields)
        self._keep(text, fields)

    def warning(self, event: str, *args: object, **fields: object) -> None:
        """Log at the level warning."""
        text = _filled(event, args)
        self._logger.warning(text, **fields)
        self._keep(text, fields)

    def error(self, event: str, *args: object, **fields: object) -> None:
        """Log at the level error."""
        text = _filled(event, args)
        self._logger.error(text, **fields)
        self._keep(text, fields)

    def critical(self, event: str, *args: object, **fields: object) -> None:
        """Log at the level critical."""
        text = _filled(event, args)
        self._logger.critical(text, **fields)
        self._keep(text, fields)

    def exception(self, event: str, *args: object, **fields: object) -> None:
        """Log at the level error, with the traceback of the exception that is being handled."""
        text, error = _filled(event, args), sys.exception()
        self._logger.error(text, **{"exc_info": True, **fields})
        kind = {} if error is None else {"exception": f"{type(error).__name__}: {_shown(error)}"}
        self._keep(text, fields | kind)

    def _keep(self, text: str, fields: dict[str, object]) -> None:
        shown = {**self._fields, **fields}
        shown.pop("exc_info", None)
        self._note(" ".join([text, *(f"{name}={_shown(value)}" for name, value in shown.items())]))


class Context:
    """One attempt, as its own code sees it. The object may be handed to any thread.

    Attributes:
        run_id: the run.
        place: the node, with the pass of each loop around it and the number of the item (SEMANTICS L3): `each.2[7]`.
        task_id: `<run>/<place>`, the same over all attempts.
        attempt: counted from 1.
        lease_id: the right under which it runs; a new one for every attempt handed out.
    """

    __slots__ = (
        "_beaten",
        "_cancelled",
        "_ended",
        "_lease",
        "_logger",
        "_notebook",
        "attempt",
        "lease_id",
        "place",
        "run_id",
        "task_id",
    )

    def __init__(self, lease: Lease, notebook: Notebook) -> None:
        self._lease = lease
        self._notebook = notebook
        self.run_id: RunId = lease.run_id
        self.place: Place = lease.place
        self.task_id: TaskId = lease.task_id
        self.attempt: int = lease.attempt
        self.lease_id: LeaseId = lease.lease_id
        self._beaten = False
        self._cancelled = False
        self._ended = False
        self._logger: TaskLogger | None = None

    @property
    def node(self) -> str:
        """Id of the node, of a step that undoes one too; `on_failure` in that of the workflow."""
        name = self.place.removeprefix("!")
        for mark in "~[!.":
            name = name.partition(mark)[0]
        return name

    @property
    def idempotency_key(self) -> str:
        """Give this to the other side, and doing it twice is doing it once: the same over all attempts."""
        return self.task_id

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer wanted. A thread cannot be stopped from outside: look here and return.

        An `async def` gets `asyncio.CancelledError` where it awaits.
        """
        return self._cancelled

    @property
    def logger(self) -> TaskLogger:
        """A logger with run, task and attempt bound, whose lines are kept with the attempt."""
        if self._logger is None:
            logger = get_logger(
                "task", run_id=self.run_id, task_id=self.task_id, attempt=self.attempt
            )
            self._logger = TaskLogger(logger, self._note)
        return self._logger

    def heartbeat(self) -> None:
        """Say that the work goes on, for nodes with a `heartbeat_timeout`. Cheap: call it as often as you like."""
        self._beaten = True

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Show how far the work has come; only the newest stands. Cheap: call it as often as you like.

        Args:
            done: how much is done, in a unit of your own.
            total: how much there is; None: nobody knows.
            message: what is being done, for people.

        Raises:
            TypeError: `done` or `total` is no number.
        """
        if not isinstance(done, int | float):
            raise TypeError(f"progress: done must be a number, not {done!r:.60}")
        if total is not None and not isinstance(total, int | float):
            raise TypeError(f"progress: total must be a number or None, not {total!r:.60}")
        if math.isfinite(done) and not self._ended:
            known = total if total is not None and math.isfinite(total) else None
            self._notebook.progress(
                self._lease, _number(done), None if known is None else _number(known), str(message)
            )

    def take_beat(self) -> bool:
        """Whether `heartbeat` was called since this was last asked. For the worker."""
        beaten, self._beaten = self._beaten, False
        return beaten

    def cancel(self) -> None:
        """Note that the result is no longer wanted. For the worker."""
        self._cancelled = True

    def end(self) -> None:
        """The code has ended: what a thread of its says later is nobody's. For the worker."""
        self._ended = True

    def _note(self, text: str) -> None:
        if not self._ended:
            self._notebook.add(self._lease, NoteKind.LOG, text)


def _number(value: float) -> float:
    """A plain number that JSON holds; a whole one stays whole as long as everybody can read it."""
    return int(value) if isinstance(value, int) and abs(value) <= _WHOLE_MAX else float(value)


def _filled(event: object, args: tuple[object, ...]) -> str:
    """An event with its `%s` filled in."""
    try:
        return str(event) % args if args else str(event)
    except (TypeError, ValueError, KeyError):
        return " ".join(map(_shown, (event, *args)))


def _shown(value: object) -> str:
    """A field's value in a note: a word as it is, a text with blanks in quotes."""
    try:
        text = str(value)
    except Exception:  # noqa: BLE001  even __str__ is user code
        return f"<{type(value).__name__}>"
    if isinstance(value, str) and (not text or any(char.isspace() for char in text)):
        return json.dumps(text, ensure_ascii=False)
    return text


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
