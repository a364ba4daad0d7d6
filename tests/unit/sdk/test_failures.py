"""What `RunFailed` says."""

from __future__ import annotations

import pytest

from tenuto.sdk.failures import RunFailed


def test_it_names_code_node_and_message() -> None:
    error = RunFailed("r-1", "failed", {"code": "http.503", "message": "down", "node": "charge"})

    assert (error.run_id, error.state, error.code, error.message, error.node) == (
        "r-1",
        "failed",
        "http.503",
        "down",
        "charge",
    )
    assert str(error) == "run r-1 failed at charge: http.503: down"


def test_a_run_that_nothing_failed_in_has_its_state_as_code() -> None:
    error = RunFailed("r-1", "cancelled", None)

    assert (error.code, error.message, error.node, str(error)) == (
        "cancelled",
        "",
        None,
        "run r-1 was cancelled",
    )


@pytest.mark.parametrize(
    ("state", "error", "said"),
    [
        ("cancelled", {"code": "cancelled", "message": "enough"}, "run r-1 was cancelled: enough"),
        (
            "timed_out",
            {"code": "run_timeout", "message": "too long"},
            "run r-1 timed out: too long",
        ),
        ("failed", {"code": "out", "message": ""}, "run r-1 failed: out"),
        (
            "timed_out",
            {"code": "connect", "message": "", "node": "a"},
            "run r-1 timed out at a: connect",
        ),
    ],
)
def test_it_reads_as_a_sentence(state: str, error: object, said: str) -> None:
    assert str(RunFailed("r-1", state, error)) == said


def test_the_lines_of_the_task_that_failed_are_shown_with_it() -> None:
    lines = ['  File "app.py", line 3, in boom', "    raise KeyError"]

    error = RunFailed("r-1", "failed", {"code": "KeyError", "details": {"traceback": lines}})

    assert error.__notes__ == ["\n".join(["in the task:", *lines])]
    assert not hasattr(RunFailed("r-1", "failed", {"code": "c", "details": [1]}), "__notes__")
