"""What becomes of what user code returns or raises."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tenuto.ports.gateway import Failed, Success
from tenuto.worker.calls import failure_of, result_of, text_of
from tenuto.worker.registry import TaskError


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def a_cycle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("a\0b", "invalid_result"),
        ({"a\0": 1}, "invalid_result"),
        (math.nan, "invalid_result"),
        (math.inf, "invalid_result"),
        (10**30, "invalid_result"),
        ("x" * 10_000_000, "payload_too_large"),
        (nested(10_000), "invalid_result"),
        (a_cycle(), "invalid_result"),
        ("\ud800", "invalid_result"),
        ({"\udfff": 1}, "invalid_result"),
        ({1: 2}, "invalid_result"),
        (b"bytes", "invalid_result"),
        ({1, 2}, "invalid_result"),
        (object(), "invalid_result"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_hold_is_a_failure_that_no_attempt_can_help(
    value: object, code: str
) -> None:
    result = result_of(value)

    assert isinstance(result, Failed)
    assert (result.code, result.retryable) == (code, False)
    assert result.message
    json.dumps(result.message).encode()


@pytest.mark.parametrize("value", [None, 0, "", [], {"b": 1, "a": [1.5, True, None, "ü"]}])
def test_what_json_can_hold_is_the_output(value: object) -> None:
    result = result_of(value)

    assert isinstance(result, Success)
    assert json.loads(result.output) == value


def test_another_form_of_a_value_is_asked_for_only_when_the_door_refuses_it() -> None:
    def convert(value: object) -> object:
        assert value == {1}
        return [1]

    assert result_of({1}, convert) == Success(output="[1]")
    assert result_of([2], convert) == Success(output="[2]")


def test_another_form_that_is_none_either_is_refused() -> None:
    result = result_of({1}, lambda value: value)

    assert isinstance(result, Failed)
    assert (result.code, result.retryable) == ("invalid_result", False)


def test_a_value_that_is_too_large_is_not_asked_for_another_form() -> None:
    def convert(value: object) -> object:
        raise AssertionError

    result = result_of("x" * 10_000_000, convert)

    assert isinstance(result, Failed)
    assert result.code == "payload_too_large"


def test_a_coroutine_that_was_returned_is_closed_and_refused() -> None:
    async def forgotten() -> None: ...

    result = result_of(forgotten())

    assert isinstance(result, Failed)
    assert (result.code, result.retryable) == ("invalid_result", False)
    assert "async def" in result.message


def test_an_exception_is_a_failure_named_after_its_class_with_the_users_frames() -> None:
    failure = failure_of(raised(ValueError("no such order")))

    assert (failure.code, failure.message, failure.retryable) == (
        "ValueError",
        "no such order",
        True,
    )
    assert failure.details is not None
    assert "traceback" in json.loads(failure.details)


def test_a_deep_recursion_keeps_only_the_innermost_frames() -> None:
    def down() -> None:
        down()

    with pytest.raises(RecursionError) as caught:
        down()
    failure = failure_of(caught.value)

    assert failure.code == "RecursionError"
    assert failure.details is not None
    assert len(failure.details) < 12_000


def test_a_task_error_decides_code_details_and_whether_to_retry() -> None:
    error = TaskError("out_of_stock", "none left", details={"left": 0}, retryable=False)

    assert failure_of(error) == Failed(
        code="out_of_stock",
        message="none left",
        details='{"left":0}',
        retryable=False,
        classes=("TaskError", "Exception"),
    )


def test_a_failure_names_the_classes_of_its_exception_for_retry_rules() -> None:
    assert failure_of(ConnectionRefusedError("no")).classes == (
        "ConnectionRefusedError",
        "ConnectionError",
        "OSError",
        "Exception",
    )


def test_details_that_json_cannot_hold_are_dropped_with_a_word_about_it() -> None:
    failure = failure_of(TaskError("odd", "bad", details={1, 2}))

    assert failure.details is None
    assert failure.message.startswith("bad (its details were dropped: ")


def test_an_exception_whose_message_raises_is_still_a_failure() -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert failure_of(Rude()).message == "(its message cannot be shown)"


def test_messages_can_be_stored_anywhere() -> None:
    assert text_of("a\0b\ud800c") == "a\\0b\\ud800c"
    assert len(text_of("x" * 5_000)) == 2_000
