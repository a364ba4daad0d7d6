"""Names of things, as distinct types over text. No generation: ids come from the `Ids` port.

A *place* is where something of a run lives: `<node>` + `.i` per enclosing loop from the outermost + `[index]` for a
foreach item (`[pN]` for a page of its list) + `!undo` for the handler that undoes it + `~epoch` after a retry
(SEMANTICS L3, R3). The run's own place is the empty text, its `on_failure` handler's is `!on_failure`. A task id is
`<run>/<place>`; it is also the `Idempotency-Key` that leaves the engine.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
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
ON_FAILURE = Place("!on_failure")
"""Where the run's `on_failure` handler lives (C4); `with_epoch` gives that of a later epoch."""
_UNDO = "!undo"


def place_of(node: str, passes: tuple[int, ...] = (), epoch: int = 1) -> Place:
    """Name the place of a node in a pass. `passes`: the iteration of each enclosing loop, outermost first (L3, R3)."""
    text = node if not passes else node + "".join(f".{i}" for i in passes)
    return Place(text if epoch == 1 else f"{text}~{epoch}")


def with_epoch(place: Place, epoch: int) -> Place:
    """The same place in another epoch; 1 is not written."""
    bare = place.partition("~")[0]
    return Place(bare if epoch == 1 else f"{bare}~{epoch}")


def item_place(place: Place, index: int) -> Place:
    """Where an item of the foreach at `place` lives; `index` from 0."""
    bare, tilde, epoch = place.partition("~")
    return Place(f"{bare}[{index}]{tilde}{epoch}")


def page_place(place: Place, page: int) -> Place:
    """Where the task that fetches a page of the foreach's list lives; `page` from 0."""
    bare, tilde, epoch = place.partition("~")
    return Place(f"{bare}[p{page}]{tilde}{epoch}")


def undo_place(place: Place) -> Place:
    """Where the handler lives that undoes the work of `place` (C3)."""
    bare, tilde, epoch = place.partition("~")
    return Place(f"{bare}{_UNDO}{tilde}{epoch}")


@dataclass(frozen=True, slots=True)
class PlaceParts:
    """A place taken apart. `node` is empty for the run's own place and for `!on_failure`.

    `index` of an item, `page` of a page of a list; `undo`: the handler of the work there.
    """

    node: str
    passes: tuple[int, ...] = ()
    index: int | None = None
    page: int | None = None
    undo: bool = False
    epoch: int = 1

    @property
    def owner(self) -> Place:
        """The place of the node itself in that pass: without item, page and handler."""
        return place_of(self.node, self.passes, self.epoch)


@lru_cache(maxsize=1_024)  # one decision asks of one place several times
def parts_of(place: Place) -> PlaceParts:
    """Take a place apart."""
    text, _, epoch = place.partition("~")
    text, undo, _ = text.partition(_UNDO)
    text, bracket, inner = text.partition("[")
    node, *passes = text.split(".")
    index = page = None
    if bracket:
        if inner[0] == "p":
            page = int(inner[1:-1])
        else:
            index = int(inner[:-1])
    return PlaceParts(
        node="" if node.startswith("!") else node,
        passes=tuple(map(int, passes)),
        index=index,
        page=page,
        undo=bool(undo),
        epoch=int(epoch) if epoch else 1,
    )


def item_index(place: Place) -> int:
    """The index of the item that lives at `place`; quicker than taking the place apart."""
    return int(place[place.index("[") + 1 : place.index("]")])


def child_run_id(at: int, parent: RunId, place: Place, epoch: int, attempt: int) -> RunId:
    """Name the child run that the `attempt`-th try of a call or item starts: the same for the same arguments.

    A UUIDv7 of the moment `at` (microseconds) whose other bits are a hash (DESIGN section 4).
    """
    told = f"{parent}/{place}~{epoch}#{attempt}"
    bits = int.from_bytes(hashlib.sha256(told.encode()).digest()[:10], "big")
    high = (max(0, at) // 1_000) << 80 | bits
    high = high & ~(0xF << 76) | 0x7 << 76
    high = high & ~(0x3 << 62) | 0x2 << 62
    text = f"{high:032x}"
    return RunId("-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])))


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
