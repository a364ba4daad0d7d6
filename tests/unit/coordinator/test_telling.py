"""The data of a START notice is read as it was written."""

from __future__ import annotations

from tenuto.coordinator import telling
from tenuto.coordinator.waiting import Beginning
from tenuto.machine.actions import StartChild
from tenuto.model.ids import Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.ports.store import NewRun

NEW = NewRun(namespace="default", workflow="w", version=2, definition="h#1", key=None, created_at=1)
ITEM = PayloadKey(Place("e[3]"), PayloadKind.ITEM)


def test_what_is_said_of_a_child_is_read_again() -> None:
    action = StartChild(
        place=Place("e[3]"),
        child=RunId("child"),
        callee=None,
        inline=0,
        waited=False,
        depth=2,
        index=3,
        item=ITEM,
    )
    notice = telling.start(Beginning(NEW, {}).row(RunId("parent")), action)
    order = telling.read_order(notice.data)

    assert order == telling.Order(
        definition="h#1.0",
        workflow="w",
        version=2,
        inline=True,
        waited=False,
        depth=2,
        index=3,
        item=ITEM,
    )
    assert order.texts(notice.place)[telling.ITEM] == ITEM


def test_the_path_of_inline_graphs_grows_by_a_number() -> None:
    assert telling.inline_definition("h", 2) == "h#2"
    assert telling.inline_definition("h#2", 0) == "h#2.0"
    assert telling.inline_definition("h", None) == "h"
