"""What a program is told of a run's inside: what a retry does, items of a foreach, passes of a loop. Documents of
`views.answers` as values.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

PAGE = 1_000
"""Entries that are asked for at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a retry or a replay does, by node ids in topological order.

    Attributes:
        first: what failed or was cut short, or the node that a replay begins with.
        unbegun: of `first`, those whose turn had not come when the run ended.
        nodes: what is in `first`, and all that follows from it.
        repeated: of them those that had succeeded: their work is done a second time.
        inside: foreach and call nodes that go on where they stood; `items`: how many items of each foreach run,
            those included that had not begun; `listed`: of how many.
        anew: foreach and call nodes that start whole.
        kept: nodes that keep what they did.
        changed: of them those that have read an input which is another one now.
        called: waits whose `callback_key` was told to somebody by the run as it was.
        skipped: the node that is taken as done.
    """

    first: tuple[str, ...]
    nodes: tuple[str, ...]
    repeated: tuple[str, ...]
    inside: tuple[str, ...]
    items: Mapping[str, int]
    anew: tuple[str, ...]
    kept: tuple[str, ...]
    changed: tuple[str, ...]
    called: tuple[str, ...]
    skipped: str | None
    unbegun: tuple[str, ...] = ()
    listed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of a foreach that has begun. Values are JSON values, None while there is none.

    Attributes:
        state: pending, running, retry, success, dead or cancelled.
        child: the run that does it, or did it last; None where a task does.
    """

    index: int
    state: str
    attempt: int
    input: Any
    output: Any
    error: Any
    child: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """One pass of a node in loops, as far as it was kept.

    Attributes:
        iteration: of the innermost loop; `iterations`: of each loop around the node, outermost first.
        state: of its task; None where no worker does it.
    """

    iteration: int
    iterations: tuple[int, ...]
    state: str | None
    output: Any
    error: Any


def plan_of(document: Mapping[str, Any]) -> Plan:
    """The plan of a document."""
    return Plan(
        **{name: tuple(document[name]) for name in _LISTS},
        items=dict(document["items"]),
        listed=dict(document.get("listed", {})),
        unbegun=tuple(document.get("unbegun", ())),
        skipped=document["skipped"],
    )


def item_of(document: Mapping[str, Any]) -> Item:
    """The item of a document."""
    names = ("index", "state", "attempt", "input", "output", "error", "child")
    return Item(**{name: document[name] for name in names})


def iteration_of(document: Mapping[str, Any]) -> Iteration:
    """The pass of a document."""
    return Iteration(
        iteration=document["iteration"],
        iterations=tuple(document["iterations"]),
        state=document["state"],
        output=document["output"],
        error=document["error"],
    )


_LISTS = ("first", "nodes", "repeated", "inside", "anew", "kept", "changed", "called")


async def all_pages(
    page: Callable[[str | None], Coroutine[Any, Any, Mapping[str, Any]]],
) -> list[Mapping[str, Any]]:
    """All entries of a list. `page`: asks for the one that begins at a cursor."""
    found: list[Mapping[str, Any]] = []
    cursor: str | None = None
    while True:
        part = await page(cursor)
        found += part["items"]
        cursor = part["next"]
        if cursor is None:
            return found
