"""`tenuto task list`: tasks by state and queue, those that are dead above all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tenuto.cli.console import note, show_table
from tenuto.cli.door import Door
from tenuto.cli.runs import place_of, print_documents, read_list, read_task_states
from tenuto.cli.tables import task_word, tasks_table

if TYPE_CHECKING:
    from tenuto.cli.door import Source


def list_tasks(
    door: Door,
    *,
    states: tuple[str, ...],
    queue: str | None,
    limit: int,
    every: bool,
    output: str,
) -> int:
    """Print tasks, those of the newest runs first."""
    states = read_task_states(states)

    async def pages(source: Source, size: int, cursor: str | None) -> dict[str, Any]:
        return await source.list_tasks(states=states, queue=queue, limit=size, cursor=cursor)

    tasks, more = read_list(door, pages, limit=limit, every=every, output=output)
    if print_documents(tasks, output):
        return 0
    if tasks:
        show_table(tasks_table(tasks))
        note("`tenuto run show ID --node NODE` shows what a task was given, and what it said")
        if more:
            note(f"the first {limit}; --limit shows more, --all shows all")
        return 0
    kind = f" that are {' or '.join(map(task_word, states))}" if states else ""
    where = f" of the queue {queue}" if queue is not None else ""
    note(f"no tasks{where}{kind} in {place_of(door)}")
    return 0
