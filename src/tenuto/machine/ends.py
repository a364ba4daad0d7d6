"""Whose work has ended: a node's, an item's, a page's or a handler's (SEMANTICS T4, F6, C3).

Work is named by its place; `clocks` and `children` decide that it ended and how, and hand it over here.
"""

from __future__ import annotations

from tenuto.machine import foreach, handlers
from tenuto.machine.snapshot import Task
from tenuto.machine.tokens import die, succeed
from tenuto.machine.turn import Turn
from tenuto.model.failures import Failure
from tenuto.model.ids import parts_of


def work_succeeded(turn: Turn, task: Task) -> None:
    """The work of a task ended `success`; its output payload is put."""
    parts = parts_of(task.place)
    if parts.undo or not parts.node:
        handlers.ended(turn, task, succeeded=True)
    elif parts.page is not None:
        foreach.page_arrived(turn, task.node, parts.page)
    elif parts.index is not None:
        foreach.item_ended(turn, task.node, succeeded=True)
    else:
        succeed(turn, task.node)


def output_unfit(turn: Turn, task: Task) -> Failure | None:
    """Why the output that was just put is none: then the attempt has failed after all (R3)."""
    page = parts_of(task.place).page
    return None if page is None else foreach.page_unfit(turn, task.node, page)


def work_died(turn: Turn, task: Task, failure: Failure | None) -> None:
    """The work of a task ended `dead`. `failure` None: its error payload is put already."""
    parts = parts_of(task.place)
    if parts.undo or not parts.node:
        handlers.ended(turn, task, succeeded=False, failure=failure)
    elif parts.page is not None:
        foreach.page_failed(turn, task, failure)
    elif parts.index is not None:
        foreach.item_ended(turn, task.node, succeeded=False, place=task.place, failure=failure)
    else:
        die(turn, task.node, failure)
