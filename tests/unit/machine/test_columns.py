"""A run's state as the columns of its row: whole, stable, and sparse."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from tests.support.world import RUN

from tenuto.machine.columns import decode_snapshot, encode_snapshot
from tenuto.machine.snapshot import Closing, Done, Items, Record, Snapshot
from tenuto.model.ids import Place, RunId
from tenuto.model.payload import JoinView, PayloadKey, PayloadKind
from tenuto.model.states import NodeLetter, RunState

PLAIN = Snapshot(
    run_id=RUN,
    seq=1,
    at=1,
    state=RunState.RUNNING,
    paused=False,
    epoch=1,
    nodes=b"a",
    edges=b"",
    passes=(),
    live=1,
)
"""As a run begins."""
ERROR = PayloadKey(Place("a"), PayloadKind.ERROR)
OTHER: dict[str, Any] = {
    "run_id": RunId("r2"),
    "seq": 7,
    "at": 99,
    "state": RunState.CLOSING,
    "paused": True,
    "epoch": 2,
    "nodes": b"sa.",
    "edges": b"t-w",
    "passes": (2, 1),
    "live": 2,
    "records": {
        10: Record(NodeLetter.SKIPPED, (2,)),
        3: Record(NodeLetter.DEAD, (), None, 2, recalled=True),
        2: Record(
            NodeLetter.SUCCESS,
            (),
            JoinView((("a", PayloadKey(Place("a"), PayloadKind.OUTPUT)), ("b", None))),
        ),
    },
    "attempts": {0: 3},
    "failures": (Place("a.2"),),
    "closed_by": ("end",),
    "parent": (RunId("p"), Place("each[3]")),
    "index": 3,
    "depth": 2,
    "parent_paused": True,
    "paused_since": 17,
    "children": 4,
    "items": {
        1: Items(
            listed=9,
            complete=False,
            concurrency=5,
            tolerate=1,
            pages=(2, 3),
            again=(0,),
            first=0,
            fetching=True,
        )
    },
    "ids": {1: 2},
    "done": (Done(Place("a"), 3), Done(Place("b"), 4, sure=False, items=9)),
    "closing": Closing(
        outcome=RunState.FAILED,
        error=ERROR,
        drained=True,
        todo=(Place("a"),),
        current=Place("b!undo"),
        undone=1,
        failed=2,
        last=True,
    ),
    "compensation": "partial",
    "source": RunId("s"),
    "priority": 7,
}
"""Every field, as it never begins."""


def back(snapshot: Snapshot) -> Snapshot:
    """Written and read again."""
    return decode_snapshot(
        snapshot.run_id,
        snapshot.seq,
        snapshot.at,
        snapshot.state.value,
        int(snapshot.paused),
        *encode_snapshot(snapshot),
    )


@pytest.mark.parametrize("name", [field.name for field in fields(Snapshot)])
def test_each_field_survives_by_itself(name: str) -> None:
    changed = replace(PLAIN, **{name: OTHER[name]})

    assert changed != PLAIN
    assert back(changed) == changed


def test_all_fields_survive_together_and_are_written_the_same_again() -> None:
    whole = Snapshot(**OTHER)

    assert back(whole) == whole
    assert encode_snapshot(back(whole)) == encode_snapshot(whole)


def test_a_plain_run_s_rest_holds_nothing_but_what_is_live() -> None:
    assert encode_snapshot(PLAIN) == ("a", "", '{"live":1}')
    assert back(PLAIN) == PLAIN
