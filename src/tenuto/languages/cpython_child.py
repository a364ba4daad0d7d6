"""One execution of `language: cpython`, inside the process that is made for it. Standard library only.

Reads one request from its input, runs `main`, writes one answer to a pipe of its own, and is gone. What the code prints
goes to the ordinary outputs at once. Nothing here can be trusted once the code runs: the server checks all it is told.
"""

from __future__ import annotations

import json
import os
import sys

from tenuto.languages import door, jail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

FILE = "<code>"
TRACEBACK_MAX = 8_192


def main(parent: str, answers: str) -> NoReturn:
    """`parent`: the server's process id. `answers`: the descriptor that the answer is written to."""
    jail.end_with(int(parent))
    request = json.loads(sys.stdin.buffer.read())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    tools: dict[str, Any] = {}
    exec(door.SOURCE, tools)  # noqa: S102 - text of ours
    jail.limit(memory=request["memory"], cpu_s=request["cpu_s"], files=request["memory"])
    jail.lock(network=True)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tenuto"]:
        del sys.modules[name]
    try:
        answer = run(request["code"], request["params"], request["output"], tools["_tenuto_door"])
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                continue  # the code closed it
    data = json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")
    while data:
        data = data[os.write(int(answers), data) :]
    os._exit(0)


def run(
    code: str, params: str, output: int, check: Callable[[object, int], tuple[str, str]]
) -> dict[str, object]:
    """Run a program; the answer has `output`, or `code` and `message` with more."""
    try:
        space: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(code, FILE, "exec", dont_inherit=True), space)  # noqa: S102 - what we are for
        entry = space.get("main")
        if not callable(entry):
            return {
                "code": "code_error",
                "message": "the code has no `main`: define `def main(params): …`",
                "retryable": False,
            }
        result = entry(json.loads(params))
        if type(result).__name__ == "coroutine":
            import asyncio  # noqa: PLC0415 - 10 ms that only asynchronous code pays

            result = asyncio.run(result)
        trouble, text = check(result, output)
        return {"code": trouble, "message": text} if trouble else {"output": text}
    except MemoryError:
        return {"code": "memory", "message": "the code needs more memory than it may take"}
    except BaseException as error:  # noqa: BLE001 - SystemExit is a failure, too
        return described(error, code)


def described(error: BaseException, code: str) -> dict[str, object]:
    """What was raised, and where in the code."""
    import linecache  # noqa: PLC0415 - both cost 10 ms that only a failure pays
    import traceback  # noqa: PLC0415

    linecache.cache[FILE] = (len(code), None, code.splitlines(keepends=True), FILE)
    name = type(error).__name__
    is_syntax = isinstance(error, SyntaxError) and error.filename == FILE
    if is_syntax:
        assert isinstance(error, SyntaxError)
        line, text = error.lineno, error.msg
    else:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == FILE]
        line = frames[-1].lineno if frames else None
        try:
            text = str(error)
        except Exception:  # noqa: BLE001 - the code's own __str__
            text = "its text cannot be read"
    message = f"{name}: {text}" if text else name
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename != FILE:
        at = at.tb_next
    try:
        lines = "".join(traceback.format_exception(type(error), error, at))
    except Exception:  # noqa: BLE001 - the code's own classes
        lines = message
    placed = message if line is None else f"{message} (line {line})"
    own = sys.stdlib_module_names
    if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] not in own:
        placed = f"{placed}; {door.OUTSIDE}"
    return {
        "code": "code_error",
        "message": placed,
        "type": name,
        "line": line,
        "traceback": lines[-TRACEBACK_MAX:],
        "retryable": not is_syntax,
    }
