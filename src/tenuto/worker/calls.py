"""One attempt of a user's function: its arguments, its run, and what became of it as a result. No loops, no threads.

This is the executor's boundary: whatever user code raises, SystemExit too, is the attempt's failure and nobody else's.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable

from tenuto.ports.gateway import Failed, Lease, Result, Success
from tenuto.runtime.results import INVALID_RESULT, Refused, canonical, parse
from tenuto.worker.context import Context, enter
from tenuto.worker.registry import Misfit, Task, TaskError

MESSAGE_MAX = 2_000
CODE_MAX = 200
CLASSES_MAX = 16
_FRAMES_MAX = 20
_TRACEBACK_MAX = 8_000


class Call:
    """An attempt on its way to user code and back.

    Attributes:
        over: called on the engine's loop once it has ended.
        begun: the body runs or has run; False only while a process of its own is still to come.
        ended: the body does not run, and will not.
        result: set when it ended by itself; None with `ended`: it was stopped before it had one.
    """

    __slots__ = ("begun", "context", "ended", "job", "lease", "over", "result", "task")

    def __init__(
        self, lease: Lease, task: Task, context: Context, over: Callable[[Call], None]
    ) -> None:
        self.lease = lease
        self.task = task
        self.context = context
        self.over = over
        self.job: asyncio.Task[None] | None = None
        self.result: Result | None = None
        self.begun = not task.process
        self.ended = False


async def run_coroutine(call: Call, interrupted: Callable[[], bool]) -> None:
    """Await an `async def`; leaves the result on `call`. Returns normally, whatever happens.

    `interrupted`: asked after a cancel that nobody here asked for, whether the loop itself is ending.
    """
    try:
        enter(call.context)
        arguments = _arguments_of(call)
        if isinstance(arguments, Failed):
            call.result = arguments
        else:
            value = await call.task.function(**arguments)
            call.result = result_of(value, call.task.typing.result)
    except asyncio.CancelledError as error:
        if not interrupted():
            call.result = failure_of(error)  # the code cancelled itself, or nobody waits any more
    except BaseException as error:  # noqa: BLE001  the executor's boundary
        call.result = failure_of(error)
    call.ended = True


def run_function(call: Call) -> None:
    """Call a `def`; leaves the result on `call`. Returns normally, whatever happens."""
    try:
        enter(call.context)
        arguments = _arguments_of(call)
        if isinstance(arguments, Failed):
            call.result = arguments
        else:
            value = call.task.function(**arguments)
            call.result = result_of(value, call.task.typing.result)
    except BaseException as error:  # noqa: BLE001  the executor's boundary
        call.result = failure_of(error)
    call.ended = True


def result_of(value: object, convert: Callable[[object], object] | None = None) -> Result:
    """Take a returned value through the one door of results: what JSON cannot hold is a failure, never retried.

    `convert` is asked for another form of a value that the door refuses; what it raises is the user's code's fault.
    """
    if inspect.iscoroutine(value):
        value.close()
        return Failed(
            code="invalid_result",
            message="the function returned a coroutine; declare it with `async def`",
            retryable=False,
        )
    try:
        try:
            return Success(output=canonical(value))
        except Refused as refused:
            if convert is None or refused.code != INVALID_RESULT:
                raise
            return Success(output=canonical(convert(value)))
    except Refused as refused:
        return Failed(code=refused.code, message=text_of(refused.message), retryable=False)


def failure_of(error: BaseException) -> Failed:
    """Describe what user code raised. The code is the class's name, or what a TaskError says.

    `details`: `{traceback: [lines]}`, or a TaskError's own details.
    """
    if isinstance(error, TaskError):
        details, note = _details_of(error)
        return Failed(
            code=text_of(error.code)[:CODE_MAX] or "TaskError",
            message=text_of(error.message) + note,
            details=details,
            retryable=error.retryable,
            classes=_classes(error),
        )
    try:
        said = str(error)
    except BaseException:  # noqa: BLE001  even __str__ is user code
        said = "(its message cannot be shown)"
    return Failed(
        code=text_of(type(error).__name__)[:CODE_MAX],
        message=text_of(said),
        details=canonical({"traceback": _traceback(error)}),
        classes=_classes(error),
    )


def _classes(error: BaseException) -> tuple[str, ...]:
    """Names of its classes, itself first, as retry rules name them."""
    names = (text_of(each.__name__)[:CODE_MAX] for each in type(error).__mro__[:CLASSES_MAX])
    return tuple(name for name in names if name not in ("object", "BaseException"))


def text_of(value: object) -> str:
    """Text that can be stored anywhere: no NUL, no lone surrogates, bounded."""
    text = str(value)[:MESSAGE_MAX]
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def _arguments_of(call: Call) -> dict[str, object] | Failed:
    """The lease's input as keyword arguments, or why it is none (SEMANTICS D)."""
    try:
        arguments = call.task.bind(parse(call.lease.input))
    except Misfit as misfit:
        return Failed(code="bad_arguments", message=text_of(misfit), retryable=False)
    contexts = call.task.typing.contexts
    return arguments | dict.fromkeys(contexts, call.context) if contexts else arguments


def _details_of(error: TaskError) -> tuple[str | None, str]:
    """A TaskError's details as JSON text, and what to add to its message when they are none."""
    if error.details is None:
        return None, ""
    try:
        return canonical(error.details), ""
    except Refused as refused:
        return None, f" (its details were dropped: {text_of(refused.message)})"


def _traceback(error: BaseException) -> list[str]:
    """The innermost frames of user code, as lines; ours is the outermost and left out."""
    frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
    lines = traceback.format_tb(frames)[-_FRAMES_MAX:]
    return text_lines("".join(lines)[-_TRACEBACK_MAX:])


def text_lines(text: str) -> list[str]:
    """Split into lines of storable text."""
    return [text_of(line) for line in text.splitlines()]
