"""What a run has to do with other runs and with the parts of its nodes: parent, children, items, undoing. Data only.

Rows and snapshots in, values for people out; `report` puts them together, `documents` and `report_json` print them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tenuto.machine.snapshot import Items, Snapshot, Task
from tenuto.model.definition import Node
from tenuto.model.ids import Place, RunId, parts_of, undo_place
from tenuto.model.instants import format_instant
from tenuto.model.states import NodeLetter, RunState, TaskState
from tenuto.ports.store import RunRow
from tenuto.views.timeline import label_of, node_of

CHILDREN_SHOWN = 20
"""Of so many children, the newest, a report tells; `children` lists all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemCounts:
    """How far a foreach is. Of its `total` items those in no other count have not begun.

    `complete`: the whole list is known; a source may have more pages.
    """

    total: int
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    cancelled: int = 0
    complete: bool = True

    @property
    def ended(self) -> int:
        """Items that are over."""
        return self.succeeded + self.failed + self.cancelled

    @property
    def text(self) -> str:
        """In a few words: `12 of 40, 1 failed`."""
        more = "" if self.complete else "+"
        parts = [f"{self.succeeded + self.failed:,} of {self.total:,}{more}"]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.cancelled:
            parts.append(f"{self.cancelled:,} cancelled")
        return ", ".join(parts)

    @property
    def told(self) -> str:
        """In a sentence: `997 of 1,000 items succeeded, 3 failed`."""
        if self.complete and self.succeeded == self.total:
            noun = "item" if self.total == 1 else "items"
            return f"{self.total:,} {noun} succeeded"
        more = "" if self.complete else "+"
        parts = [f"{self.succeeded:,} of {self.total:,}{more} items succeeded"]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.cancelled:
            parts.append(f"{self.cancelled:,} cancelled")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingLine:
    """A run whose outcome is decided and that is not final yet (SEMANTICS C2).

    Attributes:
        outcome: the state to come.
        drained: no work is under way any more, so handlers may run.
        left: work that is still to be undone; `undone`, `failed`: that was, and could not be.
        current: place of the handler at work; empty for none.
    """

    outcome: str
    drained: bool
    left: int
    undone: int
    failed: int
    current: str = ""

    @property
    def text(self) -> str:
        """What it is at, in a few words."""
        if not self.drained:
            return "waits for attempts and children under way to end"
        done = f"{self.undone} undone" if self.undone else ""
        failed = f"{self.failed} could not be undone" if self.failed else ""
        left = f"{self.left} left to undo" if self.left else ""
        doing = f"at work: {label_of(self.current)}" if self.current else ""
        return ", ".join(filter(None, (doing, done, failed, left))) or "about to end"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLine:
    """A run that this one called, as it stands.

    `place`: of the call or item; `waits_for`: in words, while it is open; `command`: what ends that.
    """

    run_id: str
    place: str
    workflow: str
    version: int
    state: str
    created_at: int
    ended_at: int | None
    waits_for: str = ""
    command: str = ""

    @property
    def label(self) -> str:
        """The place as people read it."""
        return label_of(self.place)


@dataclass(frozen=True, slots=True)
class Children:
    """The newest children, newest first. `open`: how many the run waits for; `more`: there are others."""

    newest: tuple[ChildLine, ...] = ()
    open: int = 0
    more: bool = False


def shown_state(state: str, *, paused: bool) -> str:
    """The state as people read it: pause is a flag, shown while the outcome is open (SEMANTICS C6)."""
    return "paused" if paused and state in (RunState.PENDING, RunState.RUNNING) else state


def child_line(row: RunRow, *, waits_for: str = "", command: str = "") -> ChildLine:
    """The line of a child's row."""
    return ChildLine(
        run_id=row.run_id,
        place="" if row.parent is None else row.parent[1],
        workflow=row.workflow,
        version=row.version,
        state=shown_state(row.state, paused=row.paused),
        created_at=row.created_at,
        ended_at=row.ended_at,
        waits_for=waits_for,
        command=command,
    )


def item_counts(letter: NodeLetter, items: Items | None) -> ItemCounts | None:
    """The counts of a foreach in its current or last pass; None before it begins."""
    if items is None or letter in (NodeLetter.PENDING, NodeLetter.SKIPPED):
        return None
    over = letter is not NodeLetter.ACTIVE
    left = items.listed - items.succeeded - items.failed
    return ItemCounts(
        total=items.listed,
        succeeded=items.succeeded,
        failed=items.failed,
        active=0 if over else items.active,
        cancelled=left if over else 0,
        complete=items.complete,
    )


def undo_status(
    node: Node,
    place: Place,
    letter: NodeLetter,
    snapshot: Snapshot,
    tasks: Mapping[Place, Task],
) -> str:
    """What became of undoing a node's work: empty, `due`, `undoing`, `undone`, `failed` or `cancelled` (C3)."""
    if node.compensate is None:
        return ""
    handler = undo_place(place)
    closing = snapshot.closing
    task = tasks.get(handler)
    if task is not None:
        return _UNDOING[task.state]
    if closing is not None:
        if closing.current == handler:
            return "undoing"
        return "due" if place in closing.todo else ""
    due = letter is NodeLetter.SUCCESS and snapshot.compensation != "none"
    return "undone" if due and all(done.place != place for done in snapshot.done) else ""


_UNDOING = {
    TaskState.PENDING: "undoing",
    TaskState.RETRY: "undoing",
    TaskState.SUCCESS: "undone",
    TaskState.DEAD: "failed",
    TaskState.CANCELLED: "cancelled",
}


def closing_line(snapshot: Snapshot) -> ClosingLine | None:
    """How far the closing is; None for a run that is not closing."""
    closing = snapshot.closing
    if closing is None or snapshot.state is not RunState.CLOSING:
        return None
    return ClosingLine(
        outcome=closing.outcome,
        drained=closing.drained,
        left=len(closing.todo),
        undone=closing.undone,
        failed=closing.failed,
        current=closing.current or "",
    )


def whole_error(error: object, snapshot: Snapshot) -> object:
    """The run's error with what came after it (F2, C5): `closed_by`, what else asked for the end, and `others`, places
    of the nodes that failed unhandled beside the first. Both are left out where there are none.
    """
    if not isinstance(error, dict):
        return error
    more: dict[str, object] = {}
    if snapshot.closed_by:
        more["closed_by"] = list(snapshot.closed_by)
    if len(snapshot.failures) > 1:
        more["others"] = list(dict.fromkeys(snapshot.failures[1:]))
    return error | more


def newest_of(children: Iterable[ChildLine], place: Place) -> str:
    """The newest of these children that was called at this place; empty for none."""
    return next((child.run_id for child in children if child.place == place), "")


# -- as JSON ---------------------------------------------------------------------------------------


def parent_document(parent: tuple[RunId, Place] | None) -> dict[str, object] | None:
    """Who called a run."""
    if parent is None:
        return None
    run_id, place = parent
    return {"run_id": run_id, "node": node_of(place), "item": parts_of(place).index}


def items_document(items: ItemCounts | None) -> dict[str, object] | None:
    """The counts of a foreach."""
    if items is None:
        return None
    return {
        "total": items.total,
        "succeeded": items.succeeded,
        "failed": items.failed,
        "active": items.active,
        "cancelled": items.cancelled,
        "complete": items.complete,
    }


def closing_document(closing: ClosingLine | None) -> dict[str, object] | None:
    """How far a closing is."""
    if closing is None:
        return None
    return {
        "outcome": closing.outcome,
        "drained": closing.drained,
        "left": closing.left,
        "undone": closing.undone,
        "failed": closing.failed,
        "current": closing.current or None,
    }


def children_document(children: Children) -> dict[str, object]:
    """The newest children, and how many are open."""
    return {
        "open": children.open,
        "newest": [_child_document(child) for child in children.newest],
        "more": children.more,
    }


def _child_document(child: ChildLine) -> dict[str, object]:
    return {
        "run_id": child.run_id,
        "node": node_of(child.place),
        "item": parts_of(Place(child.place)).index,
        "place": child.place,
        "workflow": child.workflow,
        "version": child.version,
        "state": child.state,
        "created_at": format_instant(child.created_at),
        "ended_at": None if child.ended_at is None else format_instant(child.ended_at),
        "waits_for": child.waits_for or None,
        "command": child.command or None,
    }


def with_children(lines: Sequence[ChildLine], *, open: int) -> Children:
    """At most `CHILDREN_SHOWN` of these lines, newest first; one more says that there are others."""
    return Children(
        newest=tuple(lines[:CHILDREN_SHOWN]), open=open, more=len(lines) > CHILDREN_SHOWN
    )
