"""`tenuto run items|iterations`: what a foreach and a loop consist of, entry by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tenuto.cli.console import note, show_table
from tenuto.cli.door import Door, File, must_exist
from tenuto.cli.runs import print_documents, read_list, read_task_states
from tenuto.cli.tables import items_table, iterations_table, task_word

if TYPE_CHECKING:
    from tenuto.cli.door import Source

Document = dict[str, Any]


def list_items(
    door: Door,
    text: str,
    node: str,
    *,
    states: tuple[str, ...],
    limit: int,
    every: bool,
    output: str,
) -> int:
    """Print the items of a foreach that have begun."""
    states = read_task_states(states)
    if isinstance(door, File):
        must_exist(door, text)

    async def pages(source: Source, size: int, cursor: str | None) -> Document:
        return await source.list_items(text, node, states=states, limit=size, cursor=cursor)

    items, more = read_list(door, pages, limit=limit, every=every, output=output)
    if print_documents(items, output):
        return 0
    if items:
        show_table(items_table(items))
        if more:
            note(f"the first {limit}; --limit shows more, --all shows all")
        return 0
    kind = f" that is {' or '.join(map(task_word, states))}" if states else " that has begun"
    note(f"{node} has no item{kind}")
    return 0


def list_iterations(
    door: Door, text: str, node: str, *, limit: int, every: bool, output: str
) -> int:
    """Print the passes of a node in loops, as far as they are kept."""
    if isinstance(door, File):
        must_exist(door, text)

    async def pages(source: Source, size: int, cursor: str | None) -> Document:
        return await source.list_iterations(text, node, limit=size, cursor=cursor)

    passes, more = read_list(door, pages, limit=limit, every=every, output=output)
    if print_documents(passes, output):
        return 0
    if passes:
        show_table(iterations_table(passes))
        if more:
            note(f"the first {limit}; --limit shows more, --all shows all")
        return 0
    note(f"{node} has not ended in any pass yet")
    return 0
