"""Work for each item of a list: order, bounds, failures, pages, batches, and what a reader sees (SEMANTICS)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.desk import Desk
from tests.support.graphs import definition, graph, index_of, value
from tests.support.world import Script
from tests.support.world.answers import compact

from tenuto.machine import foreach
from tenuto.machine.actions import CancelItems, CreateTask, StartChild
from tenuto.machine.columns import encode_snapshot
from tenuto.machine.events import TimerKind
from tenuto.model.definition import (
    Call,
    Definition,
    Detail,
    Edge,
    Foreach,
    On,
    SetValue,
    Tolerance,
    Work,
)
from tenuto.model.expressions import (
    Expression,
    ExpressionKind,
    Fault,
    ItemRef,
    Read,
    Root,
    Scope,
)
from tenuto.model.graph import Graph
from tenuto.model.ids import Place
from tenuto.model.payload import ItemsView, JoinView, PayloadKey, PayloadKind
from tenuto.model.retry import Jitter, RetryPolicy
from tenuto.model.states import RunState, TaskState

OVER = Expression(ExpressionKind.ITEMS, "files", "nodes.each.over")
PARAMS = Expression(
    ExpressionKind.VALUE, "params", "nodes.each.params", (Read(Root.ITEM), Read(Root.INDEX))
)
HASH = Work("hash", PARAMS)
SOURCE = Work("pages", Expression(ExpressionKind.VALUE, "{}", "source", (Read(Root.CURSOR),)))
TWICE = RetryPolicy(max_attempts=2, initial_us=1_000, jitter=Jitter.NONE)
INSIDE = definition("inside")
FAULT = Fault("expression_error", "no such key")


def each(edges: str = "each", **what: object) -> Graph:
    """A graph with one foreach, named `each`, over `files`."""
    fields: dict[str, object] = {"body": HASH, "over": OVER} | what
    it = Foreach(**fields)  # type: ignore[arg-type]
    made = definition(edges, types={"each": "foreach"}, details={"each": it})
    return index_of(replace(made, inlines=(INSIDE,)))


def of(count: int, script: Script | None = None, edges: str = "each", **what: object) -> Desk:
    """A started run over so many files."""
    said: Script = {"files": count, "params": "{}", **(script or {})}
    return Desk(each(edges, **what), said).begin()


def places(low: int, high: int) -> list[str]:
    return [f"each[{i}]" for i in range(low, high)]


# -- order and bounds ---------------------------------------------------------------------------------------------


@pytest.mark.rule("W2.2")
def test_items_start_in_index_order_up_to_concurrency() -> None:
    desk = of(5, concurrency=2)
    assert desk.dispatched() == ["each[0]", "each[1]"]
    desk.succeed("each[1]")
    assert desk.dispatched() == ["each[2]"]
    desk.succeed("each[0]")
    assert desk.dispatched() == ["each[3]"]
    assert desk.open() == ["each[2]", "each[3]"]


@pytest.mark.rule("W2.5")
def test_the_output_is_a_view_of_all_items() -> None:
    desk = of(3, concurrency=3)
    for place in places(0, 3):
        desk.succeed(place)
    assert desk.letters == "s"
    assert desk.settled is not None
    assert desk.settled.output == JoinView((("each", ItemsView(Place("each"), 3)),))
    assert desk.timers("each") == set()


@pytest.mark.rule("T7.2")
def test_T7_an_empty_list_ends_in_the_decision_that_begins_it() -> None:
    desk = of(0, edges="each -> b", total_timeout_us=1_000)
    assert desk.letters == "sa"
    assert desk.items().listed == 0
    assert desk.timers("each") == set()


@pytest.mark.rule("W2.2")
def test_the_list_is_evaluated_once_and_recorded() -> None:
    desk = of(3, concurrency=1)
    for place in places(0, 3):
        desk.succeed(place)
    assert desk.payload("each", PayloadKind.LIST) == "[0,1,2]"
    assert sum(a.expression.text == "files" for a in desk.asked) == 1


@pytest.mark.rule("X1.1", "W2.2")
def test_concurrency_is_evaluated_once() -> None:
    counted = Expression(ExpressionKind.COUNT, "many", "nodes.each.concurrency")
    desk = of(5, {"many": 2}, concurrency=counted)
    desk.succeed("each[0]")
    assert desk.open() == ["each[1]", "each[2]"]
    assert sum(a.expression.text == "many" for a in desk.asked) == 1


@pytest.mark.rule("W2.2")
@pytest.mark.parametrize("count", [0, 10_001])
def test_X5_a_concurrency_out_of_bounds_is_dead(count: int) -> None:
    counted = Expression(ExpressionKind.COUNT, "many", "nodes.each.concurrency")
    desk = of(5, {"many": count}, concurrency=counted)
    assert desk.letters == "x"
    assert '"expression_error"' in desk.error("each")
    assert not desk.ledger.tasks


@pytest.mark.rule("X5.1")
@pytest.mark.parametrize("wrong", ["over", "concurrency", "tolerate", "batch", "total_timeout_us"])
def test_X5_an_error_in_list_or_bounds_is_dead_without_an_attempt(wrong: str) -> None:
    bad = Expression(ExpressionKind.COUNT, "bad", f"nodes.each.{wrong}")
    desk = of(5, {"bad": FAULT}, **{wrong: bad})  # type: ignore[arg-type]
    assert desk.letters == "x"
    assert '"no such key"' in desk.error("each")
    assert not desk.ledger.tasks
    assert desk.timers("each") == set()


def test_at_most_a_thousand_items_begin_in_one_decision() -> None:
    desk = of(2_500, concurrency=10_000)
    assert len(desk.did(CreateTask)) == foreach.BEGUN_MAX
    assert desk.timers("each") == {TimerKind.CONTINUE}
    desk.fire("each", TimerKind.CONTINUE)
    assert len(desk.did(CreateTask)) == foreach.BEGUN_MAX
    desk.fire("each", TimerKind.CONTINUE)
    assert len(desk.did(CreateTask)) == 500
    assert desk.timers("each") == set()
    assert desk.items().active == 2_500


def test_an_item_that_ends_meanwhile_leaves_the_rest_to_the_event_on_its_way() -> None:
    desk = of(1_500, concurrency=10_000)
    desk.succeed("each[7]")
    assert not desk.did(CreateTask)
    desk.fire("each", TimerKind.CONTINUE)
    assert desk.items().next == 1_500
    assert desk.items().active == 1_499


def test_a_failure_beyond_tolerance_takes_the_event_on_its_way_along() -> None:
    desk = of(1_500, concurrency=10_000, edges="each -failure-> b")
    desk.fail("each[3]")
    assert desk.letters == "xa"
    assert desk.timers("each") == set()


def test_the_cost_of_an_item_does_not_grow_with_the_list() -> None:
    """Orders, questions and the size of the state, of one of the first and one of the last items."""
    desk = of(400, concurrency=1)
    costs: list[tuple[int, int, int]] = []
    for i in range(400):
        before = len(desk.asked)
        found = desk.succeed(f"each[{i}]")
        state = len("".join(encode_snapshot(desk.snapshot)))
        costs.append((len(found.actions), len(desk.asked) - before, state))
    assert max(costs[:-1])[:2] == min(costs[:-1])[:2]
    assert costs[-2][2] <= costs[0][2] + 8


# -- failures -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("W2.1", "W2.3")
def test_a_failure_more_than_tolerated_is_dead_in_that_decision_and_cancels_the_rest() -> None:
    desk = of(5, concurrency=3, edges="each -failure-> b")
    desk.succeed("each[0]")
    desk.fail("each[2]")
    assert desk.letters == "xa"
    assert desk.did(CancelItems) == [CancelItems(Place("each"))]
    assert '"details":{"failed":1,"index":2,"total":5}' in desk.error("each")
    assert '"foreach_failed"' in desk.error("each")
    assert desk.task("each[1]").state is TaskState.CANCELLED
    assert desk.task("each[3]").state is TaskState.CANCELLED
    assert Place("each[4]") not in desk.ledger.tasks
    assert desk.items().active == 0


def test_the_last_failure_has_nothing_to_cancel() -> None:
    desk = of(1, edges="each -failure-> b")
    desk.fail("each[0]")
    assert not desk.did(CancelItems)


def test_a_tolerated_failure_is_null_in_the_output_and_the_first_one_is_named() -> None:
    desk = of(4, concurrency=4, tolerate=Tolerance(2), edges="each -failure-> b")
    desk.fail("each[3]")
    desk.fail("each[0]")
    assert desk.letters == "a."
    assert desk.items().failed == 2
    desk.fail("each[1]")
    assert desk.letters == "xa"
    assert '"failed":3,"index":3,"total":4' in desk.error("each")


@pytest.mark.rule("W2.1")
def test_tolerate_as_many_as_failed_is_success() -> None:
    desk = of(2, tolerate=Tolerance(2))
    desk.fail("each[0]")
    desk.fail("each[1]")
    assert desk.letters == "s"
    assert (desk.items().succeeded, desk.items().failed) == (0, 2)


@pytest.mark.rule("W2.1", "W2.3")
@pytest.mark.parametrize(("count", "percent", "tolerated"), [(40, 5, 2), (39, 5, 1), (3, 34, 1)])
def test_percent_is_exact_and_of_the_whole_list(count: int, percent: int, tolerated: int) -> None:
    desk = of(count, tolerate=Tolerance(percent, percent=True), edges="each -failure-> b")
    for i in range(tolerated):
        desk.fail(f"each[{i}]")
    assert desk.letters == "a."
    desk.fail(f"each[{tolerated}]")
    assert desk.letters == "xa"


@pytest.mark.rule("F5.3", "W2.2")
def test_F5_retry_is_of_an_item_and_its_back_off_counts_for_concurrency() -> None:
    desk = of(3, concurrency=1, body=replace(HASH, retry=TWICE))
    desk.fail("each[0]")
    assert desk.task("each[0]").state is TaskState.RETRY
    assert desk.open() == ["each[0]"]
    desk.fire("each[0]", TimerKind.BACKOFF)
    assert desk.dispatched() == ["each[0]"]
    desk.succeed("each[0]")
    assert desk.open() == ["each[1]"]


def test_X5_an_item_that_cannot_begin_is_dead_and_listed() -> None:
    def params(scope: Scope, _: int) -> str | Fault:
        return FAULT if scope.index == 1 else "{}"

    desk = of(3, {"params": params}, concurrency=1, tolerate=Tolerance(1))
    desk.succeed("each[0]")
    assert desk.dispatched() == ["each[2]"]
    dead = desk.task("each[1]")
    assert (dead.state, dead.attempt, dead.ended_lease) == (TaskState.DEAD, 1, None)
    assert '"expression_error"' in desk.error("each[1]")
    assert desk.items().failed == 1
    desk.succeed("each[2]")
    assert desk.letters == "s"


def test_a_long_list_of_which_no_item_can_begin_comes_to_its_end() -> None:
    desk = of(2_100, {"params": FAULT}, concurrency=3, tolerate=Tolerance(100, percent=True))
    assert desk.items().failed == foreach.BEGUN_MAX
    desk.fire("each", TimerKind.CONTINUE)
    desk.fire("each", TimerKind.CONTINUE)
    assert desk.letters == "s"
    assert desk.items().failed == 2_100


@pytest.mark.rule("F5.3")
def test_total_timeout_is_of_the_whole() -> None:
    desk = of(5, concurrency=2, total_timeout_us=5_000, edges="each -failure-> b")
    desk.succeed("each[0]")
    desk.fire("each", TimerKind.TOTAL)
    assert desk.letters == "xa"
    assert '"total_timeout"' in desk.error("each")
    assert desk.did(CancelItems)
    assert desk.timers("each") == set()
    assert desk.open() == ["b"]


def test_total_timeout_goes_with_the_end() -> None:
    desk = of(1, total_timeout_us=5_000, edges="each -> b")
    assert desk.timers("each") == {TimerKind.TOTAL}
    desk.succeed("each[0]")
    assert desk.timers("each") == set()


@pytest.mark.rule("F3.1")
def test_F3_an_optional_foreach_goes_on() -> None:
    made = graph(
        "each -> b",
        types={"each": "foreach"},
        details={"each": Foreach(HASH, over=OVER)},
        optional=("each",),
    )
    desk = Desk(made, {"files": 2, "params": "{}"}).begin()
    desk.fail("each[0]")
    assert desk.letters == "xa"


@pytest.mark.rule("W2.3")
def test_F8_a_late_result_of_a_cancelled_item_has_no_effect_on_the_foreach() -> None:
    desk = of(3, concurrency=3, edges="each -failure-> b")
    desk.grant("each[1]")
    desk.fail("each[0]")
    items, letters = desk.items(), desk.letters
    desk.succeed("each[1]", '"late"')
    assert (desk.items(), desk.letters) == (items, letters)
    assert desk.task("each[1]").state is TaskState.CANCELLED
    assert desk.task("each[1]").late
    assert desk.payload("each[1]", PayloadKind.OUTPUT) == '"late"'


# -- what an item sees --------------------------------------------------------------------------------------------


def test_X4_an_item_sees_itself_and_its_index() -> None:
    desk = of(2, concurrency=1)
    desk.succeed("each[0]")
    scope = desk.scope_at("nodes.each.params")
    assert scope.index == 1
    assert scope.item == ItemRef(PayloadKey(Place("each"), PayloadKind.LIST), at=1)


def test_batch_hands_out_several_items_as_one() -> None:
    desk = of(7, concurrency=10, batch=3)
    assert desk.open() == places(0, 3)
    scope = desk.scope_at("nodes.each.params")
    assert scope.item == ItemRef(PayloadKey(Place("each"), PayloadKind.LIST), at=6, batch=3)
    assert scope.index == 2
    assert desk.items().listed == 3


@pytest.mark.rule("X1.1", "W3.1")
def test_X1_an_item_chooses_its_work() -> None:
    name = Expression(ExpressionKind.NAME, "which", "nodes.each.task", (Read(Root.ITEM),))

    def which(scope: Scope, _: int) -> str:
        return f"kind-{scope.index}"

    desk = of(2, {"which": which}, body=Work(name, PARAMS))
    assert [desk.task(place).name for place in places(0, 2)] == ["kind-0", "kind-1"]


@pytest.mark.rule("X6.1")
def test_X6_items_have_a_seed_each() -> None:
    reads = (Read(Root.NODE, "", "uuid"),)
    body = Work("hash", Expression(ExpressionKind.VALUE, "{}", "nodes.each.params", reads))
    desk = of(2, body=body)
    seeds = [a.scope.itself.seed for a in desk.asked if a.scope.itself is not None]
    assert len(seeds) == len(set(seeds)) == 2


# -- pages --------------------------------------------------------------------------------------------------------


def paged(edges: str = "each -failure-> b", **what: object) -> Desk:
    """A started run whose list comes in pages."""
    return Desk(each(edges, over=None, source=SOURCE, **what), {"params": "{}"}).begin()


def page(count: int, following: str | None = None) -> str:
    """What a source returns."""
    return compact({"items": list(range(count)), "next": following})


@pytest.mark.rule("W2.5")
def test_a_source_is_read_page_by_page_as_items_are_needed() -> None:
    desk = paged(concurrency=2)
    assert desk.open() == ["each[p0]"]
    assert desk.scope_at("source").cursor is None
    desk.succeed("each[p0]", page(3, "p1"))
    assert desk.dispatched() == ["each[0]", "each[1]", "each[p1]"]
    assert desk.scope_at("source").cursor == PayloadKey(Place("each[p0]"), PayloadKind.OUTPUT)
    desk.succeed("each[p1]", page(2, "p2"))
    assert desk.dispatched() == []  # three are left to begin, and two at a time are wanted
    desk.succeed("each[0]")
    assert desk.dispatched() == ["each[2]"]
    desk.succeed("each[1]")
    assert desk.dispatched() == ["each[3]", "each[p2]"]
    scope = desk.scope_at("nodes.each.params")
    found = PayloadKey(Place("each[p1]"), PayloadKind.OUTPUT)
    assert scope.item == ItemRef(found, at=0, paged=True)
    assert scope.index == 3
    desk.succeed("each[2]")
    desk.succeed("each[3]")
    desk.succeed("each[4]")
    assert desk.letters == "a."
    desk.succeed("each[p2]", page(0))
    assert desk.letters == "sk"
    assert desk.items().listed == 5


def test_batches_do_not_reach_over_pages() -> None:
    desk = paged(batch=2)
    desk.succeed("each[p0]", page(3, "p1"))
    desk.succeed("each[p1]", page(2))
    assert desk.items().listed == 3
    found = [a.scope.item for a in desk.asked if a.expression.where == "nodes.each.params"]
    assert [(i.key.place, i.at, i.batch) for i in found if i is not None] == [
        ("each[p0]", 0, 2),
        ("each[p0]", 2, 2),
        ("each[p1]", 0, 2),
    ]


def test_the_last_item_waits_for_the_page_under_way() -> None:
    desk = paged()
    desk.succeed("each[p0]", page(1, "p1"))
    desk.succeed("each[0]")
    assert desk.letters == "a."
    desk.succeed("each[p1]", page(1))
    desk.succeed("each[1]")
    assert desk.letters == "sk"


def test_a_page_that_comes_meanwhile_leaves_its_items_to_the_event_on_its_way() -> None:
    desk = paged(concurrency=10_000)
    desk.succeed("each[p0]", page(1_500, "p1"))
    assert desk.timers("each") == {TimerKind.CONTINUE}
    desk.succeed("each[p1]", page(2))
    assert not desk.did(CreateTask)
    desk.fire("each", TimerKind.CONTINUE)
    assert desk.items().active == 1_502


def test_percent_is_judged_when_the_whole_list_is_known() -> None:
    tolerate = Tolerance(50, percent=True)
    desk = paged(tolerate=tolerate)
    desk.succeed("each[p0]", page(2, "p1"))
    desk.fail("each[0]")
    desk.fail("each[1]")
    assert desk.letters == "a."
    desk.succeed("each[p1]", page(1))
    assert desk.letters == "xa"
    assert '"failed":2,"index":0,"total":3' in desk.error("each")
    assert Place("each[2]") not in desk.ledger.tasks


def test_a_count_is_judged_before_the_whole_list_is_known() -> None:
    desk = paged()
    desk.succeed("each[p0]", page(2, "p1"))
    desk.fail("each[0]")
    assert desk.letters == "xa"
    assert desk.task("each[p1]").state is TaskState.CANCELLED
    assert not desk.items().fetching


def test_a_page_that_is_none_is_dead() -> None:
    desk = paged()
    desk.succeed("each[p0]", page(2, "p1"))
    desk.succeed("each[p1]", '{"rows":[]}')
    assert desk.letters == "xa"
    assert '"invalid_page"' in desk.error("each")
    assert desk.task("each[0]").state is TaskState.CANCELLED


def test_a_page_that_cannot_be_fetched_is_the_failure_of_the_node() -> None:
    desk = paged()
    desk.succeed("each[p0]", page(2, "p1"))
    desk.fail("each[p1]", "http.503")
    assert desk.letters == "xa"
    assert desk.error("each") == '{"code":"http.503"}'
    assert desk.task("each[1]").state is TaskState.CANCELLED


def test_a_source_may_not_list_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreach, "ITEMS_MAX", 3)
    desk = paged()
    desk.succeed("each[p0]", page(2, "p1"))
    desk.succeed("each[p1]", page(2))
    assert desk.letters == "xa"
    assert '"too_many_items"' in desk.error("each")
    assert desk.task("each[0]").state is TaskState.CANCELLED


# -- items that are children --------------------------------------------------------------------------------------


@pytest.mark.rule("F6.1")
def test_an_inline_graph_gets_item_and_index() -> None:
    body = Call(None, 0, PARAMS)
    desk = of(2, concurrency=1, body=body)
    started = desk.did(StartChild)
    assert [(c.inline, c.index, c.item) for c in started] == [
        (0, 0, PayloadKey(Place("each[0]"), PayloadKind.ITEM))
    ]
    assert desk.payload("each[0]", PayloadKind.ITEM) == "0"
    assert desk.children == 1
    assert desk.dispatched() == []
    desk.settle_child("each[0]", output='"done"')
    assert desk.payload("each[0]", PayloadKind.OUTPUT) == '"done"'
    assert desk.did(StartChild)[0].index == 1


def test_a_workflow_is_called_with_the_input_of_its_item() -> None:
    desk = of(2, body=Call("billing", None, PARAMS))
    started = desk.did(StartChild)
    assert [(c.inline, c.index, c.item) for c in started] == [(None, None, None)] * 2
    assert desk.task("each[1]").name == "billing@3"
    assert desk.payload("each[1]", PayloadKind.INPUT) == '{"filled":{}}'


@pytest.mark.rule("F6.1", "F6.2")
def test_F6_an_item_that_is_a_child_is_waited_for_after_its_timeout() -> None:
    body = Call("billing", None, PARAMS, timeout_us=1_000)
    desk = of(2, concurrency=1, body=body, edges="each -failure-> b")
    desk.fire("each[0]", TimerKind.CHILD)
    assert desk.letters == "a."
    assert desk.open() == ["each[0]"]
    desk.settle_child("each[0]", RunState.CANCELLED)
    assert desk.letters == "xa"
    assert '"timeout"' in desk.error("each[0]")


def test_F6_an_item_of_a_workflow_that_is_unknown_is_dead() -> None:
    made = each("each -failure-> b", body=Call("nope", None, PARAMS), tolerate=Tolerance(1))
    desk = Desk(made, {"files": 2, "params": "{}"}, unknown=frozenset({"nope"})).begin()
    assert desk.letters == "xa"
    assert '"unknown_workflow"' in desk.error("each[1]")
    assert desk.children == 0


def test_C1_the_run_waits_for_the_children_of_cancelled_items() -> None:
    desk = of(3, body=Call("billing", None, PARAMS), edges="each -failure-> b")
    desk.settle_child("each[0]", RunState.FAILED)
    desk.succeed("b")
    assert desk.letters == "xs"
    assert not desk.is_final
    desk.settle_child("each[1]", RunState.CANCELLED)
    desk.settle_child("each[2]", output='"late"')
    assert desk.items().succeeded == 0
    assert desk.state is RunState.SUCCESS


# -- loops and races ----------------------------------------------------------------------------------------------

RACING = "h -> each; h -> b; each -> j; b -> j; j -> h loop 3; j -failure-> z"


def racing(*, cancel: bool = False) -> Desk:
    made = graph(
        RACING,
        types={"each": "foreach", "j": "join"},
        details={"each": Foreach(HASH, over=OVER, concurrency=2, total_timeout_us=9_000)},
        join={"j": 1},
        cancel_losers=("j",) if cancel else (),
    )
    desk = Desk(made, {"files": 4, "params": "{}"}).begin()
    desk.succeed("h.1")
    return desk


@pytest.mark.parametrize("cancel", [False, True])
def test_L3_a_pass_that_repeats_cancels_the_items_of_the_pass_before(cancel: bool) -> None:
    desk = racing(cancel=cancel)
    desk.succeed("each.1[0]")
    desk.grant("each.1[1]")
    desk.succeed("b.1")
    assert desk.did(CancelItems) == [CancelItems(Place("each.1"))]
    assert desk.task("each.1[1]").state is TaskState.CANCELLED
    assert desk.timers("each.1") == set()
    desk.succeed("h.2")
    assert desk.open() == ["each.2[0]", "each.2[1]", "b.2"]
    items = desk.items()
    desk.succeed("each.1[1]", '"late"')
    assert desk.items() == items


def test_L5_the_record_of_a_pass_has_the_items_of_that_pass() -> None:
    own = Read(Root.NODES, "each", "output")
    reading = Expression(ExpressionKind.VALUE, "params", "nodes.each.params", (own,))
    made = graph(
        "each -> each loop 2; each -failure-> z",
        types={"each": "foreach"},
        details={"each": Foreach(Work("hash", reading), over=OVER)},
    )
    desk = Desk(made, {"files": [3, 1], "params": "{}"}).begin()
    assert desk.scope_at("nodes.each.params").nodes == ()
    for i in range(3):
        desk.succeed(f"each.1[{i}]")
    assert desk.items().listed == 1
    (seen,) = desk.scope_at("nodes.each.params").nodes
    assert seen.output == seen.items == ItemsView(Place("each.1"), 3)


def test_T7_an_empty_foreach_that_repeats_too_often_is_put_off_and_decided_again() -> None:
    made = graph(
        "each -> each loop 150; each -failure-> z",
        types={"each": "foreach"},
        details={"each": Foreach(HASH, over=OVER)},
    )
    desk = Desk(made, {"files": 0}).begin()
    assert desk.snapshot.passes == (101,)
    assert desk.letters == "a."
    assert desk.timers("each.101") == {TimerKind.CONTINUE}
    assert not desk.snapshot.items
    desk.fire("each.101", TimerKind.CONTINUE)
    assert desk.snapshot.passes == (150,)
    assert desk.letters == "xa"
    assert '"loop_exhausted"' in desk.error("each.150")


def test_T7_what_dead_items_left_is_taken_back() -> None:
    """A foreach that begins and ends at once, of items that cannot begin; the 101st time all of it is undone."""
    made = graph(
        "each -> each loop 150; each -failure-> z",
        types={"each": "foreach"},
        details={"each": Foreach(HASH, over=OVER, tolerate=Tolerance(9))},
    )
    desk = Desk(made, {"files": 2, "params": FAULT}).begin()
    assert Place("each.100[1]") in desk.ledger.tasks
    assert Place("each.101[0]") not in desk.ledger.tasks
    assert desk.payload("each.101", PayloadKind.LIST) is None
    desk.fire("each.101", TimerKind.CONTINUE)
    assert Place("each.101[1]") in desk.ledger.tasks


def test_T7_children_that_began_are_taken_back() -> None:
    """The second item is dead, which repeats the loop; the 101st time the first item's child never was."""
    made = graph(
        "each -failure-> each loop 150",
        types={"each": "foreach"},
        details={"each": Foreach(Call("billing", None, PARAMS), over=OVER)},
    )

    def params(scope: Scope, _: int) -> str | Fault:
        return FAULT if scope.index == 1 else "{}"

    desk = Desk(made, {"files": 2, "params": params}).begin()
    assert len(desk.did(StartChild)) == desk.children == 100
    assert desk.timers("each.101") == {TimerKind.CONTINUE}


def test_J3_a_page_under_way_is_cancelled_with_its_foreach() -> None:
    made = graph(
        "each -> j; b -> j",
        types={"each": "foreach", "j": "join"},
        details={"each": Foreach(HASH, source=SOURCE)},
        join={"j": 1},
        cancel_losers=("j",),
    )
    desk = Desk(made, {"params": "{}"}).begin()
    desk.succeed("b")
    assert desk.task("each[p0]").state is TaskState.CANCELLED
    assert desk.did(CancelItems)


# -- reading ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("W2.4")
def test_a_failure_edge_sees_which_items_failed_and_which_were_cancelled() -> None:
    reads = (Read(Root.NODES, "each", "failures"),)
    when = Expression(ExpressionKind.CONDITION, "true", "edges.when", reads)
    made = each("each -failure-> b")
    made = replace(made, definition=_with_when(made.definition, when))
    desk = Desk(made, {"files": 3, "params": "{}"}).begin()
    desk.fail("each[1]")
    scope = desk.scope_at("edges.when")
    assert scope.nodes[0].items == ItemsView(Place("each"), 3)
    assert not scope.nodes[0].has_output
    assert scope.states == {"each[1]": "dead"}
    assert scope.dropped == {"each"}


def _with_when(definition: Definition, when: Expression) -> Definition:
    edges = tuple(Edge(e.source, e.target, On.FAILURE, when) for e in definition.edges)
    return replace(definition, edges=edges)


def test_a_foreach_that_never_had_a_list_lists_nothing() -> None:
    reads = (Read(Root.NODES, "each", "items"),)
    told: Detail = SetValue(Expression(ExpressionKind.VALUE, "1", "nodes.b.value", reads))
    made = graph(
        "each -failure-> b",
        types={"each": "foreach", "b": "set"},
        details={"each": Foreach(HASH, over=OVER), "b": told},
    )
    desk = Desk(made, {"files": FAULT}).begin()
    (seen,) = desk.scope_at("nodes.b.value").nodes
    assert seen.items is None
    assert seen.status == "dead"


def test_a_reader_of_something_else_is_not_handed_the_items_of_the_decision() -> None:
    """`states` costs as much as the decision wrote: only readers of items get it."""
    desk = of(3, concurrency=1)
    desk.succeed("each[0]")
    assert desk.scope_at("nodes.each.params").states == {}


# -- retry and skip -----------------------------------------------------------------------------------------------


def test_R1_a_retry_inside_does_the_failed_and_cancelled_items_again() -> None:
    desk = of(6, concurrency=3, total_timeout_us=9_000)
    desk.succeed("each[0]")
    desk.fail("each[2]")
    assert desk.is_final
    desk.retry()
    assert desk.dispatched() == ["each[1]", "each[2]", "each[3]"]
    assert desk.timers("each") == {TimerKind.TOTAL}
    assert (desk.items().succeeded, desk.items().failed, desk.items().first) == (1, 0, None)
    for place in places(1, 6):
        desk.succeed(place)
    assert desk.state is RunState.SUCCESS
    assert [a.expression.text for a in desk.asked].count("files") == 1


def test_R1_a_retry_inside_takes_a_late_success_as_done() -> None:
    desk = of(3, concurrency=3)
    desk.grant("each[1]")
    desk.fail("each[2]")
    desk.succeed("each[1]", '"late"')
    desk.retry()
    assert desk.items().succeeded == 1
    assert desk.open() == ["each[0]", "each[2]"]


def test_R1_a_retry_inside_fetches_the_page_again_that_was_cancelled() -> None:
    desk = paged("each")
    desk.succeed("each[p0]", page(2, "p1"))
    desk.fail("each[0]")
    assert desk.is_final
    desk.retry()
    assert sorted(desk.open()) == ["each[0]", "each[1]", "each[p1]"]
    desk.succeed("each[p1]", page(0))
    for place in places(0, 2):
        desk.succeed(place)
    assert desk.state is RunState.SUCCESS


def test_a_foreach_that_is_skipped_has_the_output_it_was_given() -> None:
    desk = of(3, concurrency=2, edges="each -> b")
    desk.skip("each", "[1]")
    assert desk.did(CancelItems)
    assert desk.letters == "sa"
    desk.succeed("b")
    assert desk.state is RunState.SUCCESS


def test_R1_a_page_that_is_none_is_a_failed_attempt_and_fetched_again() -> None:
    desk = paged("each")
    desk.succeed("each[p0]", '{"rows":[]}')
    assert desk.task("each[p0]").state is TaskState.DEAD
    assert desk.is_final
    desk.retry()
    assert desk.dispatched() == ["each[p0]"]
    desk.succeed("each[p0]", page(0))
    assert desk.state is RunState.SUCCESS


def test_F8_a_late_output_of_a_skipped_foreach_has_no_item() -> None:
    output = Expression(ExpressionKind.VALUE, "{}", "nodes.each.output", (Read(Root.OUTPUT),))
    desk = of(2, body=Call(None, 0, PARAMS, output), edges="each -> b")
    desk.skip("each", "[1]")
    desk.settle_child("each[0]", output="7")
    scope = desk.scope_at("nodes.each.output")
    assert (scope.item, scope.index) == (None, None)
    assert scope.output is not None
    assert desk.letters == "sa"


# -- the run of an inline graph -----------------------------------------------------------------------------------


def inline(*, index: int | None) -> Desk:
    reads = (Read(Root.PARAMS), Read(Root.ITEM))
    told: Detail = SetValue(Expression(ExpressionKind.VALUE, "1", "nodes.a.value", reads))
    details: dict[str, Detail] = {"a": told, "b": Call(None, 0, value("{}"))}
    made = definition("a -> b", types={"a": "set", "b": "call"}, details=details)
    desk = Desk(index_of(replace(made, inline=True, inlines=(INSIDE,))))
    return desk.begin(index=index, depth=1)


@pytest.mark.rule("W1.1")
def test_X4_an_inline_graph_sees_its_params_item_and_index() -> None:
    scope = inline(index=4).scope_at("nodes.a.value")
    assert scope.params == PayloadKey(Place(""), PayloadKind.PARAMS)
    assert scope.item == ItemRef(PayloadKey(Place(""), PayloadKind.ITEM), at=None)
    assert scope.index == 4


def test_X4_an_inline_graph_of_a_call_has_no_item() -> None:
    scope = inline(index=None).scope_at("nodes.a.value")
    assert scope.params is not None
    assert scope.item is None
    assert scope.index is None


def test_X4_an_inline_graph_inside_inherits_the_item() -> None:
    (child,) = inline(index=4).did(StartChild)
    assert (child.index, child.item) == (4, PayloadKey(Place(""), PayloadKind.ITEM))
    (child,) = inline(index=None).did(StartChild)
    assert (child.index, child.item) == (None, None)
