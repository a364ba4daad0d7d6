"""Outputs put together as text: canonical, whatever the view."""

from __future__ import annotations

import pytest

from tenuto.coordinator.outputs import lists_of, payloads_of, text_of_output
from tenuto.model.errors import InvariantViolated
from tenuto.model.ids import Place
from tenuto.model.payload import ItemsView, JoinView, PayloadKey, PayloadKind
from tenuto.ports.store import ItemRow

A = PayloadKey(Place("a"), PayloadKind.OUTPUT)
E = ItemsView(Place("e"), 3)
ITEMS = {
    Place("e"): (
        ItemRow(index=2, state="success", output='{"n":2}', error=None),
        ItemRow(index=1, state="dead", output=None, error="{}"),
    )
}


def test_views_are_put_together_sorted_and_with_nulls() -> None:
    view = JoinView((("z", A), ("b", JoinView((("é", None),))), ("e", E)))
    text = text_of_output(view, {A: "1"}.get, ITEMS)

    assert text == '{"b":{"é":null},"e":[null,null,{"n":2}],"z":1}'
    assert list(payloads_of(view)) == [A]
    assert list(lists_of(view)) == ["e"]


def test_no_output_is_null_and_a_lost_one_a_bug() -> None:
    assert text_of_output(None, lambda _: None, {}) == "null"
    with pytest.raises(InvariantViolated, match="not stored"):
        text_of_output(A, lambda _: None, {})


def test_a_late_output_of_an_item_that_was_cancelled_is_none() -> None:
    rows = {Place("e"): (ItemRow(index=0, state="cancelled", output="1", error=None),)}

    assert text_of_output(ItemsView(Place("e"), 1), lambda _: None, rows) == "[null]"
