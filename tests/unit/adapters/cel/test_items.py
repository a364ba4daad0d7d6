"""What a foreach and a node's passes list, and what an expression costs that reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tenuto.adapters.cel import CelEvaluator
from tenuto.model.expressions import (
    Expression,
    ExpressionKind,
    Fault,
    Missing,
    NodeView,
    Scope,
    Verdict,
)
from tenuto.model.ids import RUN_PLACE, Place, item_place
from tenuto.model.payload import (
    ItemsView,
    JoinView,
    PayloadKey,
    PayloadKind,
    Text,
)
from tenuto.ports.store import ItemRow, PayloadRow

INPUT = PayloadKey(RUN_PLACE, PayloadKind.INPUT)
VARS = PayloadKey(RUN_PLACE, PayloadKind.VARS)
EACH = Place("each")
ERROR = '{"code":"http.503"}'
ROWS = (
    ItemRow(index=3, state="retry", output=None, error=ERROR),
    ItemRow(index=0, state="success", output='{"n":0}', error=None),
    ItemRow(index=1, state="dead", output=None, error=ERROR),
    ItemRow(index=2, state="pending", output=None, error=None),
    ItemRow(index=4, state="cancelled", output='{"late":true}', error=None),
)


def scope_of(status: str = "success", total: int = 6, **scope: object) -> Scope:
    view = ItemsView(EACH, total)
    node = NodeView("each", status, 0, view, has_output=status == "success", items=view)
    return Scope(INPUT, VARS, (node,), **scope)  # type: ignore[arg-type]


def expression(text: str, kind: ExpressionKind = ExpressionKind.VALUE) -> Expression:
    return Expression(kind, json.dumps(text) if kind is ExpressionKind.VALUE else text, "here")


def read(text: str, scope: Scope, rows: Sequence[ItemRow] = ROWS) -> object:
    found = CelEvaluator({}, items={EACH: rows}).evaluate(expression(text), scope)
    return json.loads(found.text or "") if isinstance(found, Text) else found


@pytest.mark.rule("W2.1")
def test_the_output_of_a_foreach_is_in_input_order_with_null_for_what_failed() -> None:
    assert read("${nodes.each.output}", scope_of()) == [{"n": 0}, None, None, None, None, None]


@pytest.mark.rule("W2.1")
def test_failures_list_index_and_error() -> None:
    assert read("${nodes.each.failures}", scope_of("dead")) == [
        {"index": 1, "error": {"code": "http.503"}}
    ]


@pytest.mark.rule("W2.4")
@pytest.mark.parametrize(("status", "left"), [("active", "pending"), ("dead", "cancelled")])
def test_items_list_index_and_status(status: str, left: str) -> None:
    found = read("${nodes.each.items.map(i, i.status)}", scope_of(status))

    assert found == ["success", "dead", "active", "active", "cancelled", left]


def test_what_this_decision_did_to_items_lies_over_their_rows() -> None:
    scope = scope_of(
        "dead",
        states={item_place(EACH, 2): "success", item_place(EACH, 5): "dead", Place("each2[0]"): "dead"},
        dropped=frozenset({EACH}),
        fresh={
            PayloadKey(item_place(EACH, 2), PayloadKind.OUTPUT): Text(1, "2"),
            PayloadKey(item_place(EACH, 5), PayloadKind.ERROR): Text(1, '"new"'),
            PayloadKey(Place("each[0]!undo"), PayloadKind.OUTPUT): Text(1, '"undo"'),
            PayloadKey(Place("each[p0]"), PayloadKind.OUTPUT): Text(1, '"page"'),
        },
    )  # fmt: skip

    assert read("${nodes.each.items.map(i, i.status)}", scope) == [
        "success", "dead", "success", "cancelled", "cancelled", "dead",
    ]  # fmt: skip
    assert read("${nodes.each.failures.map(f, f.index)}", scope) == [1, 5]
    assert read("${nodes.each.failures[1].error}", scope) == "new"


def test_R3_a_foreach_of_a_later_epoch_has_items_of_its_own() -> None:
    place = Place("each.2~3")
    view = ItemsView(place, 1)
    node = NodeView("each", "success", 0, view, has_output=True, items=view)
    fresh = {
        PayloadKey(Place("each.2[0]~3"), PayloadKind.OUTPUT): Text(1, "3"),
        PayloadKey(Place("each.2[0]"), PayloadKind.OUTPUT): Text(1, "1"),
    }
    scope = Scope(INPUT, VARS, (node,), fresh=fresh, states={Place("each.2[0]~3"): "success"})

    found = CelEvaluator({}, items={place: ()}).evaluate(expression("${nodes.each.output}"), scope)

    assert found == Text(3, "[3]")


def test_items_that_are_not_loaded_are_asked_for_and_only_where_they_are_read() -> None:
    evaluator = CelEvaluator({})

    assert evaluator.evaluate(expression("${nodes.each.output}"), scope_of()) == Missing(
        items=(EACH,)
    )
    asked = expression("has(nodes.each.output)", ExpressionKind.CONDITION)
    assert evaluator.evaluate(asked, scope_of()) == Verdict(True)


def test_a_join_shows_the_list_of_a_foreach() -> None:
    view = ItemsView(EACH, 2)
    node = NodeView("j", "success", 0, JoinView((("each", view),)), has_output=True)

    assert read("${nodes.j.output}", Scope(INPUT, VARS, (node,))) == {"each": [{"n": 0}, None]}


MANY = tuple(
    ItemRow(index=index, state="success", output=f'{{"n":{index}}}', error=None)
    for index in range(100_000)
)


@pytest.mark.parametrize(
    "text",
    [
        "size(nodes.each.output) == 100000",
        "nodes.each.output[99999].n == 99999",
        "nodes.each.output.size() > 5 && nodes.each.output[5].n == 5",
        "size(nodes.each.failures) == 0",
        "nodes.each.items[7].status == 'success'",
    ],
)
def test_a_hundred_thousand_items_are_counted_and_looked_up(text: str) -> None:
    evaluator = CelEvaluator({}, items={EACH: MANY})

    found = evaluator.evaluate(expression(text, ExpressionKind.CONDITION), scope_of(total=100_000))

    assert found == Verdict(True)


def test_a_hundred_thousand_items_are_too_much_to_work_on_at_once() -> None:
    evaluator = CelEvaluator({}, items={EACH: MANY})
    scope = scope_of(total=100_000)

    walked = expression("nodes.each.output.exists(o, o.n == 5)", ExpressionKind.CONDITION)
    found, whole = (
        evaluator.evaluate(e, scope) for e in (walked, expression("${nodes.each.output}"))
    )

    assert isinstance(found, Fault)
    assert "reads more than 256 kB" in found.message
    assert isinstance(whole, Fault)
    assert whole.code == "payload_too_large"


# --- passes -----------------------------------------------------------------------------------------


def row(place: str, text: str, kind: PayloadKind = PayloadKind.OUTPUT, seq: int = 1) -> PayloadRow:
    return PayloadRow(key=PayloadKey(Place(place), kind), seq=seq, text=text)


def iterations(rows: Sequence[PayloadRow], view: NodeView, **scope: object) -> object:
    assert view.passes is not None
    evaluator = CelEvaluator({}, passes={view.passes[:2]: rows})
    found = evaluator.evaluate(
        expression("${nodes.w.iterations}"),
        Scope(INPUT, VARS, (view,), **scope),  # type: ignore[arg-type]
    )
    return json.loads(found.text or "") if isinstance(found, Text) else found


@pytest.mark.rule("L5.3")
def test_L5_iterations_list_output_and_error_of_each_pass() -> None:
    rows = [
        row("w.10", '"ten"'), row("w.2", '"two"'), row("w.1", '"one"', seq=3), row("w.1", '"old"', seq=2),
        row("w.3", ERROR, PayloadKind.ERROR), row("w.2", "{}", PayloadKind.INPUT),
        row("w.2[0]", '"item"'), row("w.2!undo", '"undo"'), row("w2.1", '"other"'),
    ]  # fmt: skip

    found = iterations(rows, NodeView("w", "success", 1, passes=("w.", 1, 1)))

    assert found == [
        {"iteration": 1, "output": "one", "error": None},
        {"iteration": 2, "output": "two", "error": None},
        {"iteration": 3, "output": None, "error": {"code": "http.503"}},
        {"iteration": 10, "output": "ten", "error": None},
    ]


def test_L5_inside_several_loops_a_pass_has_several_numbers() -> None:
    found = iterations(
        [row("w.2.1", "3"), row("w.1.2", "2")], NodeView("w", "success", 1, passes=("w.", 1, 2))
    )

    assert found == [
        {"iterations": [1, 2], "output": 2, "error": None},
        {"iterations": [2, 1], "output": 3, "error": None},
    ]


def test_L5_R3_a_pass_counts_as_it_was_done_last_and_none_after_the_last_one() -> None:
    rows = [
        row("w.1", "1"), row("w.2", ERROR, PayloadKind.ERROR), row("w.2~2", "22"), row("w.3", "3"), row("w.4", "4"),
    ]  # fmt: skip
    output = PayloadKey(Place("w.3"), PayloadKind.OUTPUT)
    view = NodeView("w", "success", 1, output, has_output=True, passes=("w.", 2, 1))

    found = iterations(
        rows, view, fresh={PayloadKey(Place("w.1"), PayloadKind.OUTPUT): Text(2, "11")}
    )

    assert found == [
        {"iteration": 1, "output": 11, "error": None},
        {"iteration": 2, "output": 22, "error": None},
        {"iteration": 3, "output": 3, "error": None},
    ]


def test_L5_what_keep_drops_in_the_decision_under_way_is_listed_no_more() -> None:
    rows = [row("w.1.1", "1"), row("w.1.2", "2"), row("w.2.1~2", "3"), row("w.12.1", "4")]
    view = NodeView("w", "success", 1, passes=("w.", 2, 2))
    gone = frozenset({Place("w.1"), Place("w.1~2"), Place("w.2.1"), Place("w.2.1~2")})
    fresh = {PayloadKey(Place("w.1.3"), PayloadKind.OUTPUT): Text(1, "5")}

    found = iterations(rows, view, fresh=fresh, forgotten=gone)

    assert found == [{"iterations": [12, 1], "output": 4, "error": None}]


def test_passes_that_are_not_loaded_are_asked_for() -> None:
    scope = Scope(INPUT, VARS, (NodeView("w", "success", 1, passes=("w.", 2, 1)),))

    found = CelEvaluator({}).evaluate(expression("${nodes.w.iterations}"), scope)

    assert found == Missing(passes=(("w.", 2),))
