"""Names of things, as distinct types over text. No generation: ids come from the `Ids` port.

A *place* is where something of a run lives: `<node>` + `.i` per enclosing loop from the outermost + `[index]` for a
foreach item + `~epoch` after a retry (SEMANTICS L3). The run's own place is the empty text. A task id is
`<run>/<place>`; it is also the `Idempotency-Key` that leaves the engine.
"""

from __future__ import annotations

from typing import NewType

RunId = NewType("RunId", str)
"""UUIDv7, lower case with hyphens, 36 characters: sorts by time."""

Place = NewType("Place", str)
TaskId = NewType("TaskId", str)
LeaseId = NewType("LeaseId", str)
WorkerId = NewType("WorkerId", str)
"""Configured name plus a random incarnation, `name-1f3a9c2e`; a restarted worker is another one."""
MessageId = NewType("MessageId", str)

RUN_PLACE = Place("")


def place_of(node: str, passes: tuple[int, ...] = (), epoch: int = 1) -> Place:
    """Name the place of a node in a pass. `passes`: the iteration of each enclosing loop, outermost first (L3, R3)."""
    text = node if not passes else node + "".join(f".{i}" for i in passes)
    return Place(text if epoch == 1 else f"{text}~{epoch}")


def task_id(run_id: RunId, place: Place) -> TaskId:
    """Name a task (SEMANTICS L3)."""
    return TaskId(f"{run_id}/{place}")


def split_task_id(text: str) -> tuple[RunId, Place]:
    """Take a task id apart. Raises ValueError when there is no slash."""
    run_id, slash, place = text.partition("/")
    if not slash:
        raise ValueError(f"{text!r} is not a task id: it has no '/'")
    return RunId(run_id), Place(place)


def first_run_id(at: int) -> RunId:
    """A text that sorts before every run id of this moment's millisecond, and after all earlier ones.

    Args:
        at: microseconds since 1970.
    """
    drawn = f"{max(0, at) // 1_000:012x}"
    return RunId(f"{drawn[:8]}-{drawn[8:]}")
