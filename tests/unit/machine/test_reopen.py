"""R1-R3, F8: retry, replay and skip, as they are done."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.graphs import graph, value
from tests.support.saga import last, orders, saga, undos
from tests.support.world import World

from tenuto.machine import codec
from tenuto.machine.actions import (
    CancelChild,
    CancelTask,
    CopyKept,
    CreateTask,
    ReopenRun,
    RetryChild,
)
from tenuto.machine.decide import decide, initial
from tenuto.machine.decision import Needs
from tenuto.machine.events import Rejection, RetryRequested, RunStarted, TimerKind
from tenuto.machine.fold import Recorded
from tenuto.machine.snapshot import Rows
from tenuto.model.definition import Call, Foreach, SetValue, Tolerance, Work
from tenuto.model.expressions import Expression, ExpressionKind, Fault, Read, Root
from tenuto.model.graph import Graph
from tenuto.model.ids import Place, RunId
from tenuto.model.payload import ItemsView, JoinView, PayloadKey, PayloadKind, Text
from tenuto.model.retry import Jitter, RetryPolicy
from tenuto.model.states import CancelReason, RunState, TaskState

OVER = Expression(ExpressionKind.ITEMS, "list", "nodes.each.over")
TWICE = RetryPolicy(max_attempts=2, initial_us=1_000, jitter=Jitter.NONE)


def failed(text: str, fails: str, *succeed: str, **what: object) -> World:
    world = World(graph(text, **what)).start()  # type: ignore[arg-type]
    for id in succeed:
        world.succeed(id)
    world.fail(fails)
    return world


def with_each(text: str = "each", count: int = 4, **what: object) -> World:
    body = Work("hash", value("{}"), retry=what.pop("retry", RetryPolicy()))  # type: ignore[arg-type]
    it = Foreach(body, over=OVER, **what)  # type: ignore[arg-type]
    listed = "[" + ",".join(map(str, range(count))) + "]"
    return World(graph(text, types={"each": "foreach"}, details={"each": it}), {"list": listed})


def calling(**what: object) -> Call:
    fields: dict[str, object] = {"name": "other", "inline": None, "input": value("{}")} | what
    return Call(**fields)  # type: ignore[arg-type]


def with_call(text: str = "c", child: str = "x", **what: object) -> World:
    details = {"c": calling(**what)}
    return World(
        graph(text, types={"c": "call"}, details=details), workflows={"other": graph(child)}
    )


# -- R: the epoch -------------------------------------------------------------------------------------------------


def test_R_retry_opens_the_next_epoch_and_the_run_goes_on() -> None:
    world = failed("a -> b; b -> c", "b", "a")
    decision = world.retry()

    assert decision.actions[0] == ReopenRun()
    assert (world.state, world.snapshot.epoch, world.letters) == (RunState.RUNNING, 2, "sa.")
    world.succeed("b")
    world.succeed("c")
    assert world.state is RunState.SUCCESS


def test_R_the_run_timer_starts_anew() -> None:
    world = World(graph("a", timeout_us=5_000)).start()
    world.fire("", TimerKind.RUN)
    assert world.state is RunState.TIMED_OUT
    world.now += 100
    world.retry()

    assert world.timer("", TimerKind.RUN).due_at == world.now + 5_000


def test_R_failures_of_the_old_epoch_are_forgotten() -> None:
    text = "a -always-> b"
    world = World(graph(text)).start()
    world.fail("a")
    world.cancel()
    assert (world.snapshot.failures, world.snapshot.closed_by) == (("a",), ("cancelled",))
    world.retry()

    assert (world.snapshot.failures, world.snapshot.closed_by) == ((), ())
    world.succeed("a")
    world.succeed("b")
    assert world.state is RunState.SUCCESS


@pytest.mark.parametrize("end", ["cancel", "fail", "time out"])
def test_R1_any_final_state_but_success_may_be_left(end: str) -> None:
    world = World(graph("a; b", timeout_us=5_000)).start()
    world.succeed("a")
    if end == "cancel":
        world.cancel()
    elif end == "fail":
        world.fail("b")
    else:
        world.fire("", TimerKind.RUN)
    world.retry()
    world.succeed("b")

    assert (world.letters, world.state) == ("ss", RunState.SUCCESS)


def test_R1_what_is_refused_is_rejected_and_changes_nothing() -> None:
    world = World(graph("a")).start()
    assert world.send(world.retry_request()).rejected is Rejection.NOT_RETRYABLE
    world.succeed("a")
    assert world.send(world.retry_request()).rejected is Rejection.NOT_RETRYABLE


@pytest.mark.rule("R1.3")
def test_R1_J_is_applied_to_S() -> None:
    text = "a -> j; b -> j; j -> c"
    world = World(graph(text, types={"j": "join"})).start()
    world.succeed("a")
    world.fail("b")
    world.retry()

    assert (world.letters, world.edges) == ("s.a.", "t--")
    world.succeed("b")
    world.succeed("c")
    assert world.state is RunState.SUCCESS


@pytest.mark.rule("R1.3")
def test_R1_a_node_cancelled_before_it_acted_waits_for_its_tokens() -> None:
    world = failed("a -> b; p -> q", "a")
    world.retry()

    assert world.letters == "a.a."


def test_R1_succeeded_nodes_of_S_run_again() -> None:
    text = "a -always-> f; f -> g"
    world = World(graph(text)).start()
    world.fail("a")
    world.succeed("f")
    world.succeed("g")
    world.retry()
    assert world.letters == "a.."
    world.succeed("a")

    assert (world.letters, world.place("f")) == ("sa.", "f~2")


@pytest.mark.rule("R1.2")
def test_R1_a_loop_that_is_open_again_loses_no_token() -> None:
    text = "h -> x when 'out'; h -> n else; n -always-> a; a -> h when 'again' loop 3"
    script = {"out": [False, True], "again": [False, True]}
    world = World(graph(text, types={"h": "switch"}), script).start()
    world.fail("n")
    world.succeed("a")
    world.retry()
    world.succeed("n")
    world.succeed("a")
    assert (world.letter("x"), world.snapshot.passes) == ("a", (2,))
    world.succeed("x")

    assert world.state is RunState.SUCCESS


@pytest.mark.rule("R1.2")
def test_R1_a_loop_keeps_its_iteration_where_its_header_is_done() -> None:
    text = "h -> a; a -> s; s -> h when 'again' loop 3; s -> e else"
    world = World(graph(text, types={"s": "switch"}), {"again": [True, True, False]}).start()
    world.succeed("h")
    world.succeed("a")
    world.succeed("h")
    world.fail("a")
    world.retry()

    assert (world.place("a"), world.task("a").attempt) == ("a.2", 2)
    world.succeed("a")
    assert world.snapshot.passes == (3,)


@pytest.mark.rule("R1.2")
def test_R1_a_loop_whose_header_failed_starts_at_1() -> None:
    text = "h -> s; s -> h when 'again' loop 3; s -> e else"
    world = World(graph(text, types={"s": "switch"}), {"again": [True, True, False]}).start()
    world.succeed("h")
    world.fail("h")
    world.retry()

    assert (world.place("h"), world.snapshot.passes) == ("h.1~2", (1,))
    world.succeed("h")
    assert world.place("h") == "h.2"
    assert world.task("h").attempt == 2
    world.succeed("h")
    world.succeed("e")
    assert world.state is RunState.SUCCESS


# -- R1: what is still under way ----------------------------------------------------------------------------------


@pytest.mark.rule("R1.8")
def test_R1_a_task_still_leased_keeps_its_attempt_and_its_report_counts() -> None:
    world = World(graph("a; b")).start()
    lease = world.grant("a")
    world.fail("b")
    world.retry()
    assert world.task("a").attempt == 1
    with pytest.raises(AssertionError, match="I2"):
        world.grant("a")
    world.accept(world.success_of(lease))

    assert world.letter("a") == "s"


def test_R1_a_lease_of_the_old_epoch_that_expires_is_handed_out_again() -> None:
    world = World(graph("a; b")).start()
    world.grant("a")
    world.fail("b")
    world.retry()
    world.lose("a")

    assert (world.task("a").attempt, world.task("a").lost) == (2, 1)
    world.succeed("a")


@pytest.mark.rule("R3.2")
def test_R1_a_dead_task_goes_on_counting_with_a_fresh_allowance() -> None:
    details = {"a": Work("a", value("{}"), retry=TWICE)}
    world = World(graph("a", details=details)).start()
    world.fail("a")
    world.fire("a", TimerKind.BACKOFF)
    world.fail("a")
    world.retry()

    task = world.task("a")
    assert (task.attempt, task.spent, task.lost) == (3, 2, 0)
    assert world.snapshot.attempts == {0: 3}
    world.fail("a")
    world.fire("a", TimerKind.BACKOFF)
    assert world.task("a").attempt == 4
    world.fail("a")
    assert world.state is RunState.FAILED


def test_R1_losses_of_the_old_epoch_do_not_count() -> None:
    world = World(graph("a")).start()
    for _ in range(5):
        world.lose("a")
    assert world.state is RunState.FAILED
    world.retry()
    world.lose("a")

    assert world.task("a").lost == 1


@pytest.mark.rule("F8.1")
def test_F8_a_node_that_succeeded_late_ends_success_when_a_retry_reopens_it() -> None:
    world = World(graph("a -> c; b")).start()
    lease = world.grant("a")
    world.fail("b")
    world.accept(world.success_of(lease, '"late"'))
    assert world.task("a").late
    world.retry()

    assert world.letters == "sa" + "a"
    assert (world.task("a").state, world.task("a").late) == (TaskState.SUCCESS, False)
    assert world.payload("a", PayloadKind.OUTPUT) == '"late"'


def test_F8_a_late_success_is_used_up_a_rerun_after_it_has_another_name() -> None:
    world = World(graph("p -always-> a; a -> b")).start()
    world.fail("p")
    lease = world.grant("a")
    world.cancel()
    world.accept(world.success_of(lease))
    world.retry()
    world.fail("p")
    assert world.letter("a") == "s"
    world.fail("b")
    world.retry()
    world.succeed("p")

    assert world.place("a") == "a~3"


def test_C6_a_run_that_failed_while_paused_is_paused_when_it_goes_on() -> None:
    world = World(graph("a; b")).start()
    world.grant("b")
    world.pause()
    world.fail("b")
    world.retry()

    assert world.is_held
    assert all(world.task(id).held for id in "ab")
    assert not world.ready


# -- R3: identity -------------------------------------------------------------------------------------------------


@pytest.mark.rule("R3.1", "R3.2")
def test_R3_a_task_id_is_used_again_until_work_under_it_has_succeeded() -> None:
    world = failed("a -always-> b; b -> c", "a")
    world.fail("b")
    world.retry()
    world.succeed("a")
    assert (world.place("a"), world.place("b")) == ("a", "b")
    assert world.task("b").attempt == 2


@pytest.mark.rule("R3.2")
def test_R3_a_rerun_after_success_adds_the_epoch() -> None:
    world = failed("a -always-> b; b -> c", "a")
    world.succeed("b")
    world.fail("c")
    world.retry()
    world.succeed("a")
    assert world.place("b") == "b~2"
    assert (world.task("b").attempt, world.task("b").spent) == (1, 0)
    world.succeed("b")
    world.fail("c")
    world.retry()

    assert (world.place("b"), world.place("c")) == ("b~2", "c")


def test_R3_a_name_with_an_epoch_is_used_again_too() -> None:
    world = failed("a -always-> b", "a")
    world.succeed("b")
    world.retry()
    world.fail("a")
    world.fail("b")
    world.retry()
    world.succeed("a")

    assert (world.place("b"), world.task("b").attempt) == ("b~2", 2)


@pytest.mark.rule("R3.2")
def test_R3_every_epoch_after_a_success_has_a_name_of_its_own() -> None:
    world = failed("a -always-> b", "a")
    world.succeed("b")
    for epoch in (2, 3, 4):
        world.retry()
        world.fail("a")
        assert world.place("b") == f"b~{epoch}"
        world.succeed("b")


def test_R3_the_last_name_counts() -> None:
    world = failed("a -always-> b", "a")
    world.succeed("b")
    world.retry()
    world.fail("a")
    world.succeed("b")
    world.retry()
    world.fail("a")
    world.fail("b")
    world.retry()
    world.succeed("a")

    assert (world.place("b"), world.task("b").attempt) == ("b~3", 2)


def test_R3_attempts_of_S_are_counted_when_it_acts() -> None:
    details = {"b": Work("b", value("{}"), retry=TWICE)}
    world = World(graph("a -always-> b", details=details)).start()
    world.fail("a")
    world.fail("b")
    world.fire("b", TimerKind.BACKOFF)
    world.fail("b")
    assert world.snapshot.attempts == {1: 2}
    world.retry()
    assert world.snapshot.attempts == {0: 2}
    world.succeed("a")

    assert world.snapshot.attempts == {0: 2, 1: 3}


def test_R3_what_has_no_task_gets_the_epoch_and_the_reader_finds_it() -> None:
    reads = Expression(
        ExpressionKind.VALUE, "b", "nodes.b.params", (Read(Root.NODES, "s", "output"),)
    )
    g = graph("a -always-> s; s -> b", types={"s": "set"}, details={"b": Work("b", reads)})
    world = World(g, {"b": "{}"}).start()
    world.fail("a")
    world.fail("b")
    world.retry()
    world.succeed("a")

    assert world.place("s") == "s~2"
    view = world.last_asked("nodes.b.params").scope.nodes[0]
    assert view.output == PayloadKey(Place("s~2"), PayloadKind.OUTPUT)


@pytest.mark.rule("R3.4")
def test_R3_records_of_S_are_cleared() -> None:
    text = "h -> a; a -> s; s -> h when 'again' loop 3; s -> e else"
    world = World(graph(text, types={"s": "switch"}), {"again": [True, True, False]}).start()
    world.succeed("h")
    world.succeed("a")
    world.succeed("h")
    world.fail("a")
    numbers = world.graph.numbers
    assert {numbers[id] for id in "has"} <= world.snapshot.records.keys()
    world.retry()

    kept = {n: r for n, r in world.snapshot.records.items() if not r.recalled}
    assert kept.keys() == {numbers["h"]}


def test_X3_a_pass_that_goes_on_reads_the_pass_before_it_again() -> None:
    text = "h -> a; a -> n; n -> s; s -> h when 'again' loop 3; s -> e else"
    reads = (Read(Root.NODES, "n", "output"),)
    count = replace(value("count", "nodes.n.values"), reads=reads)
    world = World(
        graph(text, types={"n": "set", "s": "switch"}, details={"n": SetValue(count)}),
        {"again": [True, True, False], "count": '{"count":1}'},
    ).start()
    for id in ("h", "a", "h"):
        world.succeed(id)
    world.fail("a")
    world.retry()
    world.succeed("a")

    [seen] = world.last_asked(count.where).scope.nodes
    assert (seen.maybe, seen.output) == (True, PayloadKey(Place("n.1"), PayloadKind.OUTPUT))
    assert world.snapshot.passes == (3,)


def test_X3_a_loop_that_starts_anew_reads_nothing_of_its_last_pass() -> None:
    text = "h -> n; n -> s; s -> h when 'again' loop 3; s -> e else"
    reads = (Read(Root.NODES, "n", "output"),)
    count = replace(value("count", "nodes.n.values"), reads=reads)
    world = World(
        graph(text, types={"n": "set", "s": "switch"}, details={"n": SetValue(count)}),
        {"again": [True, True, False], "count": '{"count":1}'},
    ).start()
    world.succeed("h")
    world.fail("h")
    world.retry()
    world.succeed("h")

    assert world.last_asked(count.where).scope.nodes == ()


def test_R3_a_record_has_the_epoch_of_its_place() -> None:
    text = "p -always-> q; q -> a; q -> b; a -> j; b -> j; j -> c"
    world = World(graph(text, types={"j": "join"}, join={"j": 1})).start()
    world.fail("p")
    world.succeed("q")
    world.succeed("b")
    world.succeed("a")
    world.fail("c")
    world.retry()
    world.succeed("p")
    world.succeed("q~2")
    world.succeed("b~2")
    record = world.snapshot.records[world.graph.numbers["j"]]

    assert record.epoch == 2
    assert isinstance(record.view, JoinView)


@pytest.mark.rule("R3.3")
def test_R3_the_epoch_of_wait_rows_and_never_of_the_callback_key() -> None:
    key = Expression(
        ExpressionKind.VALUE, "key", "nodes.a.params", (Read(Root.NODES, "w", "callback_key"),)
    )
    g = graph("p -always-> w; w -> a", types={"w": "wait_for_event"}, details={"a": Work("a", key)})
    world = World(g, {"key": "{}"}).start()
    world.fail("p")
    world.post("w")
    told = world.last_asked("nodes.a.params").scope.nodes[0].callback_key
    world.fail("a")
    world.retry()
    world.succeed("p")
    assert list(world.ledger.waits) == ["w~2"]
    world.post("w")

    assert (
        world.last_asked("nodes.a.params").scope.nodes[0].callback_key
        == told
        == f"{world.run_id}/w"
    )


def test_R3_rows_are_asked_for_all_at_once() -> None:
    """A fan-out of a thousand nodes in a later epoch is one reading, not a thousand."""
    wide = "; ".join(f"a -> n{i}" for i in range(50))
    world = World(graph(wide)).start()
    world.fail("a")
    world.retry()
    before = world.needs
    world.succeed("a")

    assert world.letters == "s" + "a" * 50
    assert world.needs - before <= 2


def test_R3_a_run_in_its_first_epoch_asks_for_no_rows() -> None:
    g = graph("a -> b")
    snapshot = initial(RunId("r"), g)
    said = decide(g, snapshot, Rows(known=False), RunStarted(at=1), Recorded([Text(2)]))
    assert not isinstance(said, Needs)


# -- R1: foreach --------------------------------------------------------------------------------------------------


@pytest.mark.rule("R1.4")
def test_R1_a_foreach_does_its_failed_and_cancelled_items_again_on_the_recorded_list() -> None:
    world = with_each(count=5, concurrency=3).start()
    world.succeed("each[0]")
    world.fail("each[1]")
    assert world.letter("each") == "x"
    asked = len(world.asked)
    world.retry()
    assert all(it.expression is not OVER for it in world.asked[asked:])
    assert world.place("each") == "each"
    assert (world.task("each[1]").attempt, world.task("each[2]").attempt) == (2, 1)
    for index in (1, 2, 3, 4):
        world.succeed(f"each[{index}]")

    assert world.state is RunState.SUCCESS
    assert world.task("each[0]").attempt == 1


@pytest.mark.rule("R1.4")
def test_R1_failures_of_a_foreach_count_from_0() -> None:
    world = with_each(count=4, tolerate=Tolerance(1)).start()
    world.fail("each[0]")
    world.fail("each[1]")
    world.retry()
    world.fail("each[0]")
    assert world.snapshot.items[0].failed == 1
    for index in (1, 2, 3):
        world.succeed(f"each[{index}]")

    assert world.state is RunState.SUCCESS


def test_R1_a_foreach_whose_items_all_succeeded_ends_at_once() -> None:
    """It died of its edges (T6)."""
    world = with_each("each -> b when 'bad'", count=2)
    world.script = {**world.script, "bad": [Fault("expression_error", "no"), True]}
    world.start()
    world.succeed("each[0]")
    world.succeed("each[1]")
    assert world.state is RunState.FAILED
    world.retry()

    assert world.letters == "sa"


@pytest.mark.rule("R1.5", "R3.2")
def test_R1_a_list_evaluated_anew_has_new_items() -> None:
    world = with_each("a -always-> each", count=2).start()
    world.fail("a")
    world.fail("each[1]")
    world.retry()
    world.succeed("a")

    assert {"each[0]~2", "each[1]~2"} <= set(world.ledger.tasks)
    world.succeed("each[0]~2")
    world.succeed("each[1]~2")
    assert world.state is RunState.SUCCESS


def test_F8_an_item_that_succeeded_late_is_not_done_again() -> None:
    world = with_each(count=3).start()
    lease = world.grant("each[2]")
    world.fail("each[1]")
    world.accept(world.success_of(lease, '"late"'))
    world.retry()

    assert world.task("each[2]").state is TaskState.SUCCESS
    world.succeed("each[0]")
    world.succeed("each[1]")
    assert world.state is RunState.SUCCESS


def test_R1_many_items_again_are_few_readings() -> None:
    world = with_each(count=60, concurrency=60).start()
    world.fail("each[7]")
    before = world.needs
    world.retry()

    assert world.needs - before <= 3


# -- R1: call -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("R1.4")
def test_R1_a_call_retries_its_child_inside() -> None:
    world = with_call("c -> d", "x -> y").start()
    child = world.child("c")
    child.succeed("x")
    child.fail("y")
    world.tell()
    assert world.state is RunState.FAILED
    decision = world.retry()

    assert RetryChild(Place("c"), child.run_id) in decision.actions
    assert (world.snapshot.children, world.task("c").child) == (1, child.run_id)
    assert world.task("c").attempt == 2
    world.tell()
    assert (child.snapshot.epoch, child.letters) == (2, "sa")
    child.succeed("y")
    world.tell()
    assert world.letters == "sa"


@pytest.mark.rule("R1.5")
def test_R1_a_child_that_does_not_allow_it_is_started_anew() -> None:
    text = "x -> f"
    world = World(
        graph("c", types={"c": "call"}, details={"c": calling()}),
        workflows={"other": graph(text, types={"f": "fail"})},
    ).start()
    child = world.child("c")
    child.succeed("x")
    world.tell()
    world.retry()
    again = world.child("c")

    assert again.run_id != child.run_id
    assert again.letters == "a."


@pytest.mark.rule("R1.5")
def test_R1_a_call_that_something_in_S_leads_to_gets_a_new_child() -> None:
    world = with_call("a -always-> c").start()
    world.fail("a")
    child = world.child("c")
    child.fail("x")
    world.tell()
    world.retry()
    world.succeed("a")

    assert world.child("c").run_id != child.run_id
    assert (world.place("c"), world.task("c").attempt) == ("c", 2)


def test_R1_a_child_retried_inside_has_its_clocks_anew() -> None:
    world = with_call(timeout_us=1_000, total_timeout_us=9_000).start()
    world.child("c").fail("x")
    world.tell()
    world.now += 50_000
    world.retry()

    assert world.timer("c", TimerKind.CHILD).due_at == world.now + 1_000
    assert world.timer("c", TimerKind.TOTAL).due_at == world.now + 9_000
    assert world.task("c").total_until == world.now + 9_000


@pytest.mark.rule("C6.1")
def test_C6_a_child_is_re_opened_with_its_parent_s_flag() -> None:
    world = World(graph("a")).start()
    world.fail("a")
    request = replace(world.retry_request(), paused=True)
    world.accept(request)

    assert world.snapshot.parent_paused
    assert world.task("a").held


@pytest.mark.rule("F8.1")
def test_F8_a_call_whose_child_succeeded_late_ends_success() -> None:
    world = with_call("c -> d; b").start()
    child = world.child("c")
    world.fail("b")
    child.succeed("x")
    world.tell()
    world.drained()
    assert (world.is_final, world.task("c").late) == (True, True)
    world.retry()

    assert world.letters == "saa"


# -- skip ---------------------------------------------------------------------------------------------------------


def test_skip_ends_an_active_node_with_the_given_output() -> None:
    reads = Expression(
        ExpressionKind.VALUE, "b", "nodes.b.params", (Read(Root.NODES, "a", "output"),)
    )
    world = World(graph("a -> b", details={"b": Work("b", reads)}), {"b": "{}"}).start()
    lease = world.grant("a")
    decision = world.skip("a", '{"by":"hand"}')

    assert CancelTask(Place("a"), CancelReason.SKIP) in decision.actions
    assert world.letters == "sa"
    output = world.last_asked("nodes.b.params").scope.nodes[0].output
    assert output == PayloadKey(Place("a"), PayloadKind.GIVEN)
    assert world.read(output) == '{"by":"hand"}'
    world.accept(world.success_of(lease, '"late"'))
    assert world.read(output) == '{"by":"hand"}'


@pytest.mark.parametrize(
    ("type", "kind"), [("wait", TimerKind.WAIT), ("wait_for_event", TimerKind.EVENT)]
)
def test_skip_withdraws_what_a_wait_has_under_way(type: str, kind: TimerKind) -> None:
    world = World(graph("w -> b", types={"w": type})).start()
    world.skip("w")

    assert world.letters == "sa"
    assert not world.ledger.waits
    assert (Place("w"), kind) not in world.ledger.timers


def test_skip_of_a_foreach_cancels_its_items_and_its_output_is_what_was_given() -> None:
    world = with_each("each", count=3).start()
    world.skip("each", "[1]")

    assert all(task.state is TaskState.CANCELLED for task in world.ledger.tasks.values())
    assert world.output() == {"each": "[1]"}


def test_skip_of_a_call_cancels_its_child_and_waits_for_it() -> None:
    world = with_call().start()
    child = world.child("c")
    decision = world.skip("c", "7")

    assert CancelChild(Place("c"), child.run_id) in decision.actions
    assert (world.letters, world.state) == ("s", RunState.RUNNING)
    world.tell()
    assert world.state is RunState.SUCCESS
    assert world.output() == {"c": "7"}


def test_skip_of_a_node_that_is_not_active_is_rejected() -> None:
    world = World(graph("a -> b")).start()

    assert world.send(world.skip_of("b")).rejected is Rejection.NOT_ACTIVE
    assert world.send(world.skip_of("nobody")).rejected is Rejection.NOT_ACTIVE
    world.cancel()
    assert world.send(world.skip_of("a")).rejected is Rejection.RUN_FINAL


def test_skip_of_a_failed_node_is_a_retry_that_takes_it_as_done() -> None:
    world = failed("a -> b; b -> c; d", "b", "a")
    world.retry("b", '"given"')

    assert (world.letters, world.snapshot.epoch) == ("ssaa", 2)
    assert world.payload("b", PayloadKind.GIVEN) == '"given"'
    assert world.task("b").state is TaskState.DEAD


def test_C3_skipped_work_is_not_undone() -> None:
    world = World(saga("a -> b; b -> z", undo="ab")).start()
    world.succeed("a")
    world.skip("b")
    world.fail("z")
    world.drained()

    assert undos(world) == ["a!undo"]


# -- compensation over epochs -------------------------------------------------------------------------------------


@pytest.mark.rule("C3.2")
def test_C3_the_list_of_work_to_undo_is_appended_to_over_epochs() -> None:
    world = World(saga("a -> z; b -> y", undo="ab")).start()
    world.succeed("a")
    world.succeed("b")
    world.terminate()
    world.retry()
    world.succeed("y")
    world.fail("z")
    world.drained()

    assert undos(world) == ["b!undo"]
    world.succeed("b!undo")
    world.succeed("a!undo")
    assert world.snapshot.compensation == "complete"


def test_C4_on_failure_runs_in_each_epoch_under_a_name_of_its_own() -> None:
    world = World(saga("a", on_failure=last())).start()
    world.fail("a")
    world.drained()
    world.succeed("!on_failure")
    world.retry()
    world.fail("a")
    world.drained()
    world.succeed("!on_failure~2")

    assert world.state is RunState.FAILED


# -- R2: replay ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("R2.1")
def test_R2_a_new_run_keeps_what_the_other_did_outside_S() -> None:
    world = World(graph("a -> b; b -> c; p")).start()
    for id in "apbc":
        world.succeed(id, f'"{id}"')
    again = world.replay("b")

    assert (again.letters, again.edges) == ("sa.s", "t-")
    assert again.snapshot.source == world.run_id
    assert again.snapshot.epoch == 1
    assert CopyKept(world.run_id, ("b", "c")) in orders(again)
    assert again.payload("a", PayloadKind.OUTPUT) == '"a"'
    assert (again.place("b"), again.task("b").attempt) == ("b", 1)
    again.succeed("b")
    again.succeed("c", '"new"')
    assert again.state is RunState.SUCCESS
    assert again.output() == {"c": '"new"', "p": '"p"'}


def test_R2_the_run_timer_starts_in_the_new_run() -> None:
    world = World(graph("a", timeout_us=5_000)).start()
    world.succeed("a")
    again = world.replay("a")

    assert again.timer("", TimerKind.RUN).due_at == again.now + 5_000


@pytest.mark.rule("R2.4")
def test_R2_kept_nodes_stay_the_source_run_s_to_undo() -> None:
    world = World(saga("a -> b; b -> z", undo="ab")).start()
    for id in "abz":
        world.succeed(id)
    again = world.replay("b")
    assert again.snapshot.done == ()
    again.succeed("b")
    again.fail("z")
    again.drained()

    assert undos(again) == ["b!undo"]


@pytest.mark.rule("R2.5")
def test_R2_refused_if_a_kept_node_has_been_undone() -> None:
    world = World(saga("a -> b; b -> z", undo="ab")).start()
    world.succeed("a")
    world.succeed("b")
    world.fail("z")
    world.drained()
    world.succeed("b!undo")
    world.succeed("a!undo")
    new = World(world.graph, family=world.family, run_id=RunId("new"))

    assert new.send(world.replay_of("z")).rejected is Rejection.NOT_RETRYABLE
    assert new.send(world.replay_of("a")).rejected is None


def test_R2_a_kept_foreach_shows_its_items_in_the_new_run() -> None:
    world = with_each("each -> b", count=2).start()
    world.succeed("each[0]", '"x"')
    world.succeed("each[1]", '"y"')
    world.succeed("b")
    again = world.replay("b")
    again.succeed("b")

    view = ItemsView(Place("each"), 2)
    assert again.read(view) == ['"x"', '"y"']


@pytest.mark.rule("R2.3")
def test_R2_foreach_and_call_in_S_start_whole() -> None:
    world = with_each("each -> b", count=2).start()
    world.succeed("each[0]")
    world.fail("each[1]")
    again = world.replay("each")

    created = [order.task.place for order in orders(again) if isinstance(order, CreateTask)]
    assert created == ["each[0]", "each[1]"]


def test_R2_a_replayed_run_may_fail_and_be_retried() -> None:
    world = World(graph("a -> b; b -> c")).start()
    for id in "abc":
        world.succeed(id)
    again = world.replay("b")
    again.fail("b")
    again.retry()
    assert (again.place("b"), again.task("b").attempt) == ("b", 2)
    again.succeed("b")
    again.succeed("c")

    assert again.state is RunState.SUCCESS


def test_R2_the_run_of_an_item_keeps_its_index() -> None:
    world = World(graph("a"))
    world.start()
    world.succeed("a")
    world.snapshot = replace(world.snapshot, index=4)
    new = World(world.graph, family=world.family, run_id=RunId("new"))
    new.accept(world.replay_of("a"))

    assert new.snapshot.index == 4
    assert new.snapshot.parent is None


# -- together -----------------------------------------------------------------------------------------------------


def test_R_a_history_with_retries_folds_to_what_is_stored() -> None:
    world = with_each("a -always-> each; each -> b", count=3).start()
    world.fail("a")
    world.fail("each[0]")
    world.retry()
    world.fail("a")
    world.succeed("each[0]~2")
    world.fail("each[1]~2")
    world.retry()
    world.succeed("a")

    snapshot, _ = world.fold()
    assert snapshot == world.snapshot
    world.check_history()


def test_R1_a_request_is_a_fact_that_is_recorded_whole() -> None:
    event = RetryRequested(at=5, again=(("e", (1, 2)),), paused=True)
    parts = codec.encode_event(event, ())
    assert codec.decode_event(parts.kind, 5, parts.place, parts.data) == (event, ())


def with_two(child: Graph) -> World:
    return World(
        graph("c", types={"c": "call"}, details={"c": calling()}), workflows={"other": child}
    )


def test_R1_a_retry_goes_down_through_all_levels() -> None:
    inner = graph("c", types={"c": "call"}, details={"c": calling(name="deep")})
    world = with_two(inner)
    world.family.workflows["deep"] = graph("x")
    world.start()
    middle = world.child("c")
    deep = middle.child("c")
    deep.fail("x")
    world.tell()
    assert world.state is RunState.FAILED
    world.retry()
    world.tell()
    assert (deep.letters, deep.snapshot.epoch) == ("a", 2)
    deep.succeed("x")
    world.tell()

    assert (world.state, middle.state) == (RunState.SUCCESS, RunState.SUCCESS)
