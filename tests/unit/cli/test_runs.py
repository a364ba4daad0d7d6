"""What `run show --node` prints of a node's document."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.cli.runs import print_node

ERROR = {"code": "http.503", "message": "away", "node": "charge"}


def node(state: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    told = {"code": None, "message": None, "what": "attempt"}
    return {
        "node": "charge",
        "place": "charge",
        "type": "task",
        "state": state,
        "input": None,
        "output": None,
        "error": None,
        "waits_for": None,
        "given": False,
        "items": None,
        "child": None,
        "undo": None,
        "undo_error": None,
        "attempts": [{**told, **step} for step in steps],
        "notes": [],
        **more,
    }


FAILED = {"attempt": 1, "result": "failed", "code": "http.503", "message": "away"}


def test_a_node_that_succeeded_in_the_end_has_no_error_but_a_last_failed_attempt(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_node(node("success", FAILED, {"attempt": 2, "result": "success"}, output=7, error=ERROR))

    printed = capsys.readouterr().out
    assert "attempt 2 success\nlast failed attempt: http.503: away\n" in printed
    assert "\nerror:" not in printed


def test_the_error_of_a_dead_node_stands_before_its_attempts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_node(node("dead", FAILED, error=ERROR))

    printed = capsys.readouterr().out
    assert printed.startswith("charge  task  dead\nerror: http.503: away\n")
    assert printed.endswith("attempt 1 failed: http.503: away\n")


def test_a_wait_is_no_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    print_node(node("success", {"attempt": None, "what": "event", "result": "success"}))

    assert capsys.readouterr().out.endswith("\nevent success\n")
