"""Executes `code` nodes: hands the program to its language and notes what it prints. Runs no code itself.

The input is `{language, code, params}`; the output is what `main(params)` returned. What is printed is noted line by
line as it comes, so it is there also when the code then takes too long.

| failure | when | tried again |
|---|---|---|
| `code_error` | the code raised an exception or ended its process; it did not compile | yes; no |
| `timeout` | it took longer than the node's `timeout`, or the language's own limit | yes |
| `memory` | it needed more memory than it may take | no |
| `output_too_large` | its result is larger than it may be | no |
| `invalid_result` | its result is nothing that JSON can hold | no |
| `language_unavailable` | the language could not be run just now (one elsewhere is waited for), or is off | yes; no |
"""

from __future__ import annotations

from typing import Any, cast

from tenuto.model.payload import PAYLOAD_MAX
from tenuto.ports.gateway import Failed, Lease, NoteKind, Result, Success
from tenuto.ports.languages import Fault, Interpreter, Program, Trouble
from tenuto.runtime.logging import get_logger
from tenuto.runtime.results import PAYLOAD_TOO_LARGE, Refused, canonical, parse
from tenuto.worker.calls import text_of
from tenuto.worker.notes import Notebook
from tenuto.worker.registry import kind_of

_log = get_logger("code")


class CodeExecutor:
    """An executor of `code` nodes."""

    def __init__(self, interpreter: Interpreter, notebook: Notebook | None) -> None:
        """`notebook`: where what is printed goes; None: nowhere."""
        self._interpreter = interpreter
        self._notebook = notebook

    async def execute(self, lease: Lease) -> Result:
        """Run one attempt. Cancelling kills its interpreter."""
        task = cast("dict[str, Any]", parse(lease.input, name="the input"))
        if not isinstance(task["params"], dict):  # they are computed as a whole (X1)
            told = f"params must be an object, not {kind_of(task['params'])}"
            return Failed(code="bad_arguments", message=told, retryable=False)
        program = Program(
            id=lease.task_id,
            language=str(task["language"]),
            code=str(task["code"]),
            params=canonical(task["params"], name="params"),
            time_us=lease.attempt_us,
        )

        log = _log.bind(run_id=lease.run_id, task_id=lease.task_id, attempt=lease.attempt)

        def say(stderr: bool, line: str) -> None:  # noqa: FBT001 - the port's shape
            log.info("printed", text=line)
            if self._notebook is not None:
                kind = NoteKind.STDERR if stderr else NoteKind.STDOUT
                self._notebook.add(lease, kind, line)

        outcome = await self._interpreter.run(program, say)
        if outcome.dropped:
            say(True, f"… {outcome.dropped:,} more lines were dropped")
        if isinstance(outcome, Fault):
            return Failed(
                code=outcome.trouble,
                message=text_of(outcome.message),
                details=_details(outcome.details),
                retryable=outcome.retryable,
            )
        return _checked(outcome.text)


def _checked(text: str) -> Result:
    """The result past the engine's own door; the interpreter's is not trusted."""
    try:
        return Success(output=canonical(parse(text, name="the result")))
    except Refused as refused:
        is_large = refused.code == PAYLOAD_TOO_LARGE
        code = Trouble.OUTPUT_TOO_LARGE if is_large else Trouble.INVALID_RESULT
        return Failed(code=code, message=refused.message, retryable=False)


def _details(text: str) -> str | None:
    if not text:
        return None
    try:
        return canonical(parse(text), limit=PAYLOAD_MAX // 4)
    except Refused:
        return None  # what code says of itself need not be told
