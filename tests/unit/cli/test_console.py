"""Notes beside the answer."""

from __future__ import annotations

import io
import logging

from rich.console import Console

from tenuto.cli.console import Trouble, log_lines
from tenuto.runtime.logging import get_logger


def test_a_log_line_of_a_task_names_time_node_and_what_was_bound() -> None:
    bound: dict[str, object] = {"run_id": "r", "task_id": "r/look.3", "level": "info"}
    more: dict[str, object] = {"event": "shipping", "order": "tty", "to": "the quay"}

    first = log_lines(bound | {"attempt": 1} | more, "12:03:01")
    second = log_lines(bound | {"attempt": 2, "event": "x", "exception": "Tr\nE: \x1b"}, "12:03:01")

    assert first == ["12:03:01 look #3 shipping order=tty to='the quay'"]
    assert second == ["12:03:01 look #3 (attempt 2) x", "  Tr", "  E: \\x1b"]


def test_what_tasks_and_engine_log_comes_as_such_lines() -> None:
    root = logging.getLogger("tenuto")
    before = (root.handlers[:], root.propagate, root.level)
    out = io.StringIO()
    try:
        Trouble(Console(file=out, width=80)).install()
        get_logger("task", run_id="r", task_id="r/a", attempt=1).info("logged", n=1)
        for _ in range(2):
            get_logger("engine").warning("store_unavailable", reason="full")
    finally:
        root.handlers[:], root.propagate = before[:2]
        root.setLevel(before[2])

    lines = [line.split(maxsplit=1)[1] for line in out.getvalue().splitlines()]
    assert lines == ["a logged n=1", "warning: store_unavailable reason=full"]
