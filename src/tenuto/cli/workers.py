"""`tenuto worker list`: who executes tasks, as last heard of."""

from __future__ import annotations

from typing import Any

from tenuto.cli.console import note, show_table
from tenuto.cli.door import Door, ask, holds_nothing
from tenuto.cli.look import now_us
from tenuto.cli.runs import place_of, print_documents
from tenuto.cli.tables import workers_table


def list_workers(door: Door, *, output: str) -> int:
    """Print the workers."""
    workers: list[dict[str, Any]] = []
    if not holds_nothing(door):
        workers = ask(door, lambda source: source.list_workers(), output=output)["items"]
    if print_documents(workers, output):
        return 0
    if workers:
        show_table(workers_table(workers, now_us()))
    else:
        note(f"no workers in {place_of(door)}; `tenuto dev` is one, and so is `tenuto run FILE`")
    return 0
