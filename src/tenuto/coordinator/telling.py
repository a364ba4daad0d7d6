"""What runs write to each other: orders to notices, and the data of a START notice. No I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tenuto.machine.actions import CancelChild, RetryChild, StartChild, TellParent
from tenuto.model.ids import RUN_PLACE, Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.ports.store import NoticeKind, NoticeRow, RunRow

INPUT = PayloadKey(RUN_PLACE, PayloadKind.INPUT)
VARS = PayloadKey(RUN_PLACE, PayloadKind.VARS)
PARAMS = PayloadKey(RUN_PLACE, PayloadKind.PARAMS)
ITEM = PayloadKey(RUN_PLACE, PayloadKind.ITEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a START notice says of the run to begin.

    Attributes:
        definition: of the child (`RunRow.definition`).
        inline: it is a graph of its parent's version, and is given the parent's input and vars.
        waited: the parent decides its end; else it has no parent for C (F6).
        index, item: of the foreach item that it works on, and where the parent has the item.
        priority: its parent's.
    """

    definition: str
    workflow: str
    version: int
    inline: bool
    waited: bool
    depth: int
    index: int | None = None
    item: PayloadKey | None = None
    priority: int = 0

    def texts(self, place: Place) -> dict[PayloadKey, PayloadKey]:
        """Payloads of the child -> those of the parent that they are copies of; `place`: of the call or item."""
        given = PayloadKey(place, PayloadKind.INPUT)
        if self.inline:
            copies = {INPUT: INPUT, VARS: VARS, PARAMS: given}
        else:
            copies = {INPUT: given, VARS: PayloadKey(place, PayloadKind.VARS)}
        if self.item is not None:
            copies[ITEM] = self.item
        return copies


def start(parent: RunRow, action: StartChild) -> NoticeRow:
    """Tell a child that does not exist yet to begin."""
    callee = action.callee
    order: dict[str, object] = {
        "definition": (
            inline_definition(parent.definition, action.inline)
            if callee is None
            else callee.definition
        ),
        "workflow": parent.workflow if callee is None else callee.workflow,
        "version": parent.version if callee is None else callee.version,
        "inline": callee is None,
        "waited": action.waited,
        "depth": action.depth,
    }
    if action.priority:
        order["priority"] = action.priority
    if action.index is not None:
        order["index"] = action.index
    if action.item is not None:
        order["item"] = [action.item.place, action.item.kind.value]
    return NoticeRow(
        run_id=action.child,
        kind=NoticeKind.START,
        place=action.place,
        sender=parent.run_id,
        data=json.dumps(order, separators=(",", ":")),
    )


def read_order(data: str) -> Order:
    """Read the data of a START notice."""
    order = json.loads(data)
    item = order.pop("item", None)
    return Order(
        **order,
        item=None if item is None else PayloadKey(Place(item[0]), PayloadKind(item[1])),
    )


def cancel(sender: RunId, action: CancelChild) -> NoticeRow:
    """Tell an open child to end."""
    kind = NoticeKind.TERMINATE if action.terminate else NoticeKind.CANCEL
    return NoticeRow(run_id=action.child, kind=kind, place=action.place, sender=sender)


def retry(sender: RunId, action: RetryChild) -> NoticeRow:
    """Tell a final child to go on."""
    return NoticeRow(run_id=action.child, kind=NoticeKind.RETRY, place=action.place, sender=sender)


def settled(sender: RunId, action: TellParent) -> NoticeRow:
    """Tell a parent that this run is final."""
    return NoticeRow(
        run_id=action.parent, kind=NoticeKind.SETTLED, place=action.place, sender=sender
    )


def inline_definition(definition: str, inline: int | None) -> str:
    """The definition of a run of an inline graph: its parent's, and the path of numbers to it."""
    if inline is None:
        return definition
    return f"{definition}{'.' if '#' in definition else '#'}{inline}"
