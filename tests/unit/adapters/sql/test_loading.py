"""A request as parameters, and the answer as what was asked for."""

from __future__ import annotations

import json
from typing import Any

from tests.support.store import START, A, new_run_id

from tenuto.adapters.sql.loading import load_params, read_loaded
from tenuto.model.ids import MessageId, Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.ports.store import ItemRow, LoadRequest, PayloadRow

SECTIONS = (
    "runs",
    "tasks",
    "timers",
    "waits",
    "payloads",
    "mailbox",
    "notices",
    "items",
    "passes",
    "children",
    "addresses",
)
RUN = new_run_id()


def an_answer(**sections: list[list[Any]]) -> list[Any]:
    """What LOAD says."""
    return [START, *(json.dumps(sections.get(name, [])) for name in SECTIONS)]


def test_an_empty_request_is_one_empty_list_for_each_kind() -> None:
    assert load_params(LoadRequest()) == ("[]",) * len(SECTIONS)


def test_ranges_are_made_of_the_places_asked_for() -> None:
    request = LoadRequest(items=((RUN, Place("each.1~2")),), passes=((RUN, "w.", 2),))

    params = dict(zip(SECTIONS, map(json.loads, load_params(request)), strict=True))

    assert params["items"] == [[RUN, "each.1~2", "each.1[0", "each.1[:", "~2", 0]]
    assert params["passes"] == [[RUN, "w.", 2, "w/"]]


def test_items_and_passes_have_every_key_asked_for() -> None:
    """Who asks for what is not there would else ask again."""
    request = LoadRequest(items=((RUN, A),), passes=((RUN, "w.", 1),))

    loaded = read_loaded(request, an_answer())

    assert loaded.items == {(RUN, A): ()}
    assert loaded.passes == {(RUN, "w.", 1): ()}


def test_rows_are_put_under_the_key_that_asked_for_them() -> None:
    request = LoadRequest(
        items=((RUN, Place("each~2")),),
        passes=((RUN, "w.", 1),),
        mailbox=(("default", "e", "k", MessageId("m1")),),
        children=((RUN, A), (RUN, Place("b"))),
    )
    answer = an_answer(
        items=[[0, "each[12]~2", "success", "1", None]],
        passes=[[RUN, "w.", 1, "w.3~2", "output", 7, '"x"']],
        mailbox=[["default", "e", "k", "m1", "m2", '"ä"']],
        children=[[RUN, "a", "child"], [RUN, "b", None]],
    )

    loaded = read_loaded(request, answer)

    (items,) = loaded.items.values()
    assert items == (ItemRow(index=12, state="success", output="1", error=None),)
    key = PayloadKey(Place("w.3~2"), PayloadKind.OUTPUT)
    assert list(loaded.passes.values()) == [(PayloadRow(key=key, seq=7, text='"x"'),)]
    message = loaded.mailbox["default", "e", "k", MessageId("m1")]
    assert (message.id, message.payload.size) == ("m2", 4)
    assert loaded.children == {(RUN, A): RunId("child")}
