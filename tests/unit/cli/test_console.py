"""Answers, and notes beside them."""

from __future__ import annotations

import io
import logging
import re
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenuto.cli import console
from tenuto.cli.console import Trouble, log_lines, progress, put_in_words, show_table
from tenuto.runtime.logging import get_logger


def test_a_log_line_of_a_task_names_time_node_and_what_was_bound() -> None:
    bound: dict[str, object] = {"run_id": "r", "task_id": "r/look.3", "level": "info"}
    more: dict[str, object] = {"event": "shipping", "order": "tty", "to": "the quay"}

    first = log_lines(bound | {"attempt": 1} | more, "12:03:01")
    second = log_lines(bound | {"attempt": 2, "event": "x", "exception": "Tr\nE: \x1b"}, "12:03:01")

    assert first == ["12:03:01 look #3 shipping order=tty to='the quay'"]
    assert second == ["12:03:01 look #3 (attempt 2) x", "  Tr", "  E: \\x1b"]


def test_a_line_beside_those_of_other_runs_names_its_run() -> None:
    fields: dict[str, object] = {"run_id": "r1", "task_id": "r1/mail", "attempt": 2, "order": "o-2"}
    failed: dict[str, object] = {"task_id": "r1/mail", "attempt": 1, "level": "warning"}
    failed |= {"event": "attempt_failed", "reason": "no stock", "code": "gone"}
    put_in_words(failed)

    [said] = log_lines(fields | {"event": "mail sent"}, "12:03:01", with_run=True)
    [trouble] = log_lines(failed, "12:03:01", with_run=True)

    assert said == "12:03:01 mail (attempt 2): mail sent order=o-2 run=r1"
    assert trouble == "12:03:01 mail: warning: failed: no stock code=gone run=r1"


def test_what_tasks_and_engine_log_comes_as_such_lines() -> None:
    root = logging.getLogger("tenuto")
    before = (root.handlers[:], root.propagate, root.level)
    out = io.StringIO()
    try:
        Trouble(Console(file=out, width=200)).install()
        get_logger("task", run_id="r", task_id="r/a", attempt=1).info("logged", n=1)
        for _ in range(2):
            get_logger("engine").warning("store_unavailable", reason="full")
            get_logger("code", run_id="r", task_id="r/c", attempt=1).info("printed", text="a = 1")
            get_logger("worker").warning("lease_ran_out", task_id="r/c", attempt=1)
    finally:
        root.handlers[:], root.propagate = before[:2]
        root.setLevel(before[2])

    lines = [line.split(maxsplit=1)[1] for line in out.getvalue().splitlines()]
    assert lines == [
        "a logged n=1",
        "warning: store_unavailable reason=full",
        "c a = 1",
        "c warning: its lease ran out, so the engine may have started it again",
        "c a = 1",
    ]


def test_every_event_of_the_engines_log_has_words() -> None:
    source = Path(console.__file__).parents[1]
    logged = re.compile(r"log\.(?:info|warning|error|exception)\(\s*\"([a-z_]+)\"")
    events = {name for path in source.rglob("*.py") for name in logged.findall(path.read_text())}
    events.discard("printed")  # what code says has its own

    assert len(events) > 15
    for event in events:
        fields: dict[str, object] = {"event": event, "reason": "why"}
        put_in_words(fields)
        assert str(fields["event"]).endswith(": why"), event
        assert "_" not in str(fields["event"]), event


def table(rows: int) -> Table:
    made = Table("run", "key")
    for number in range(rows):
        made.add_row(Text(f"{number:04}", style="red"), "k" * 300)
    return made


def test_a_long_table_is_lined_up_without_being_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(table(console.PLAIN_FROM + 1))

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "run   key"
    assert lines[-1] == f"0200  {'k' * 300}"
    assert len(lines) == 202


def test_progress_is_counted_on_a_terminal_only() -> None:
    for terminal, said in ((True, "read 1,200 runs"), (False, "")):
        out = io.StringIO()
        with progress("read {:,} runs", Console(file=out, force_terminal=terminal)) as tell:
            tell(1_200)

        assert said in out.getvalue()
        assert terminal or not out.getvalue()
