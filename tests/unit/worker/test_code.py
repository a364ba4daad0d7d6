"""What the worker makes of an interpreter's outcome; the interpreter is a real `Interpreter`, written down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenuto.model.ids import LeaseId, Place, RunId
from tenuto.ports.gateway import Failed, Lease, Success
from tenuto.ports.languages import Fault, Outcome, Output, Program, Say, Trouble
from tenuto.worker.code import CodeExecutor
from tenuto.worker.notes import Notebook


class Written:
    """Answers with one outcome, after saying some lines."""

    def __init__(self, outcome: Outcome, *lines: tuple[bool, str]) -> None:
        self.outcome, self.lines = outcome, lines
        self.asked: list[Program] = []

    async def run(self, program: Program, say: Say) -> Outcome:
        self.asked.append(program)
        for stderr, line in self.lines:
            say(stderr, line)
        return self.outcome


INPUT = json.dumps({"language": "python", "code": "${x}", "params": {"b": 1, "a": None}})


async def execute(
    interpreter: Written, notebook: Notebook | None = None, *, input: str = INPUT
) -> Success | Failed:
    lease = Lease(
        run_id=RunId("r"),
        place=Place("a"),
        lease_id=LeaseId("l"),
        name="code",
        queue="default",
        attempt=1,
        input=input,
        lease_us=10_000_000,
        attempt_us=5,
        heartbeat_us=None,
    )
    return await CodeExecutor(interpreter, notebook).execute(lease)


async def test_the_program_is_what_the_input_says() -> None:
    interpreter = Written(Output(text="1"))

    assert await execute(interpreter) == Success(output="1")

    [program] = interpreter.asked
    assert (program.language, program.code) == ("python", "${x}")
    assert program.params == '{"a":null,"b":1}'
    assert program.time_us == 5


@pytest.mark.parametrize(
    ("params", "kind"),
    [([1], "a list"), ("x", "text"), (3, "a number"), (True, "true"), (None, "null")],
)
async def test_params_that_are_no_object_never_reach_the_interpreter(
    params: object, kind: str
) -> None:
    interpreter = Written(Output(text="1"))

    failed = await execute(
        interpreter, input=json.dumps({"language": "python", "code": "x", "params": params})
    )

    told = f"params must be an object, not {kind}"
    assert failed == Failed(code="bad_arguments", message=told, retryable=False)
    assert interpreter.asked == []


async def test_what_is_printed_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "tenuto.code"):
        await execute(Written(Output(text="1"), (False, "a"), (True, "b")))

    said: list[Any] = [record for record in caplog.records if record.name == "tenuto.code"]
    assert [record.tenuto["text"] for record in said] == ["a", "b"]
    assert said[0].tenuto["task_id"] == "r/a"


async def test_output_is_made_canonical() -> None:
    assert await execute(Written(Output(text='{"b": 1, "a": 2.50}'))) == Success(
        output='{"a":2.5,"b":1}'
    )


@pytest.mark.parametrize("text", ["", "{", "NaN", "[" * 70 + "]" * 70, str(2**70)])
async def test_output_that_an_interpreter_should_not_have_let_pass_is_refused(text: str) -> None:
    result = await execute(Written(Output(text=text)))

    assert isinstance(result, Failed)
    assert (result.code, result.retryable) == ("invalid_result", False)


async def test_a_fault_is_the_attempts_failure() -> None:
    fault = Fault(trouble=Trouble.CODE_ERROR, message="m", details='{"line": 3}', retryable=True)

    assert await execute(Written(fault)) == Failed(
        code="code_error", message="m", details='{"line":3}', retryable=True
    )


async def test_details_that_are_no_json_are_left_out() -> None:
    result = await execute(Written(Fault(trouble=Trouble.MEMORY, message="m", details="{")))

    assert result == Failed(code="memory", message="m", retryable=False)


async def test_lines_are_noted_and_what_was_dropped_is_told() -> None:
    notebook = Notebook()

    await execute(Written(Output(text="1", dropped=1_234), (False, "a"), (True, "b")), notebook)

    assert [(str(note.kind), note.text) for note in notebook.take()] == [
        ("stdout", "a"),
        ("stderr", "b"),
        ("stderr", "… 1,234 more lines were dropped"),
    ]
