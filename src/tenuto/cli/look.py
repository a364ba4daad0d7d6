"""How the commands look at runs: at a file, read-only, and what they say beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from time import time_ns  # noqa: TID251 - ages for people
from typing import Any, TypeVar

from tenuto.model.states import FINAL_RUN_STATES
from tenuto.ports.reads import Reads
from tenuto.settings import Database
from tenuto.views.report import Report

_T = TypeVar("_T")


def read(database: Database, ask: Callable[[Reads], Coroutine[Any, Any, _T]]) -> _T:
    """Ask a database that must exist, read-only; works while an engine has it open."""
    return asyncio.run(_ask(database, ask))


async def _ask(database: Database, ask: Callable[[Reads], Coroutine[Any, Any, _T]]) -> _T:
    from tenuto.app.database import reading

    async with reading(database) as reads:
        return await ask(reads)


def now_us() -> int:
    """The wall clock, for what people read as an age; nothing is decided by it."""
    return time_ns() // 1_000


def open_runs(counts: Mapping[str, int]) -> int:
    """How many of the counted runs are unfinished."""
    return sum(count for state, count in counts.items() if state not in FINAL_RUN_STATES)


def look_and_count(look: Callable[[], Report], count: Callable[[], int]) -> tuple[Report, int]:
    """A run, and how many others are unfinished. It may end between the two readings; then it is
    unknown whether it was counted, so both are read once more.
    """
    report = look()
    while True:
        counted, before, report = count(), report, look()
        if before.is_final == report.is_final:
            # Runs that others have called are not counted, so this one is neither if it is such a run.
            itself = not report.is_final and report.parent is None
            return report, counted - itself


def unfinished_line(others: int, database: str) -> Sequence[str]:
    """What `run FILE` says about runs that it leaves alone; nothing where there are none."""
    if not others:
        return ()
    noun = "run" if others == 1 else "runs"
    where = f" --database {database}" if database else ""
    return (f"{others} other unfinished {noun} left alone; see `tenuto run list{where}`",)
