"""Places that belong to a foreach or to a dropped pass, and rows that are known better than the store knows them."""

from __future__ import annotations

import pytest
from tests.support.store import a_task

from tenuto.coordinator.overlay import is_dropped, is_part, items_now, passes_now
from tenuto.model.ids import Place
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import TaskState
from tenuto.ports.store import ItemRow, PayloadRow


@pytest.mark.parametrize(
    ("place", "foreach", "part"),
    [
        ("e[0]", "e", True),
        ("e[p2]", "e", True),
        ("e.3[12]~2", "e.3~2", True),
        ("e.3[12]", "e.3~2", False),
        ("e.1[0]", "e.2", False),
        ("e", "e", False),
        ("e[0]", "f", False),
        ("e!undo", "e", False),
    ],
)
def test_items_and_pages_belong_to_the_foreach_of_their_pass_and_epoch(
    place: str, foreach: str, part: bool
) -> None:
    assert is_part(Place(place), Place(foreach)) is part


@pytest.mark.parametrize(
    ("place", "gone"),
    [
        ("a.1", True),
        ("a.1.2", True),
        ("a.1.2[3]", True),
        ("a.1[p0]", True),
        ("a.1.2~2", True),
        ("a.10", False),
        ("a.2.1", False),
        ("a", False),
    ],
)
def test_a_dropped_pass_takes_its_inner_passes_items_and_pages_along(
    place: str, gone: bool
) -> None:
    assert is_dropped(Place(place), {Place("a.1")}) is gone


def test_items_are_those_of_the_store_and_of_memory() -> None:
    stored = [ItemRow(index=n, state="retry", output=None, error='"old"') for n in range(2)]
    task = a_task("e[1]", state=TaskState.SUCCESS)
    texts = {PayloadKey(Place("e[1]"), PayloadKind.OUTPUT): "1"}
    rows = items_now(Place("e"), stored, {task.place: task}, texts, swept=True)

    assert rows == (
        ItemRow(index=0, state="cancelled", output=None, error='"old"'),
        ItemRow(index=1, state="success", output="1", error='"old"'),
    )


def test_passes_are_outputs_and_errors_of_the_node_as_a_whole() -> None:
    def row(place: str, kind: PayloadKind, text: str) -> PayloadRow:
        return PayloadRow(key=PayloadKey(Place(place), kind), seq=1, text=text)

    old = row("a.1", PayloadKind.OUTPUT, "1")
    put = [
        row("a.2", PayloadKind.ERROR, "2"),
        row("a.2", PayloadKind.INPUT, "no"),
        row("a.2[0]", PayloadKind.OUTPUT, "no"),
        row("a.2!undo", PayloadKind.OUTPUT, "no"),
        row("ab.2", PayloadKind.OUTPUT, "no"),
    ]

    assert passes_now("a.", [old], put, ()) == (old, put[0])
