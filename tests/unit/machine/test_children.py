"""Child runs: how a call begins, and what its child's end means (SEMANTICS F5, F6, F8, C1, T7, L3)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.desk import Desk
from tests.support.graphs import definition, graph, index_of
from tests.support.world import Script, text_of

from tenuto.machine.actions import (
    CancelChild,
    CancelTask,
    ClearTimers,
    PutPayload,
    StartChild,
)
from tenuto.machine.events import Rejection, TimerKind
from tenuto.model.definition import CALL_DEPTH_MAX, Call, NodeType
from tenuto.model.expressions import Expression, ExpressionKind, Fault, Read, Root, Scope
from tenuto.model.graph import Graph
from tenuto.model.ids import Place
from tenuto.model.payload import PAYLOAD_MAX, PayloadKey, PayloadKind
from tenuto.model.retry import Jitter, RetryPolicy, RetryRule
from tenuto.model.states import RunState, TaskState

INPUT = Expression(ExpressionKind.VALUE, '{"id":1}', "nodes.c.input")
OUTPUT = Expression(ExpressionKind.VALUE, "total", "nodes.c.output", (Read(Root.OUTPUT),))
BILLING = Call("billing", None, INPUT)
TWICE = RetryPolicy(max_attempts=2, initial_us=1_000, jitter=Jitter.NONE)
FAULT = Fault("expression_error", "no such key")


def called(edges: str = "c -> b; c -failure-> f", call: Call = BILLING) -> Graph:
    """A graph with one call, named `c`."""
    made = definition(edges, types={"c": "call"}, details={"c": call})
    return index_of(replace(made, inlines=(definition("inside"),)))


def calling(call: Call = BILLING, script: Script | None = None, **what: object) -> Desk:
    return Desk(called(call=call), script or {}, **what).begin()  # type: ignore[arg-type]


# -- beginning ----------------------------------------------------------------------------------------------------


def test_a_call_starts_a_child_and_a_task_that_no_worker_sees() -> None:
    desk = calling(replace(BILLING, timeout_us=1_000, total_timeout_us=5_000))
    (started,) = desk.did(StartChild)
    task = desk.task("c")
    assert started.child == task.child
    assert (started.place, started.waited, started.depth, started.inline) == ("c", True, 1, None)
    assert started.callee is not None
    assert (started.callee.workflow, started.callee.version) == ("billing", 3)
    assert (task.state, task.queue, task.name) == (TaskState.PENDING, "call", "billing@3")
    assert not task.held
    assert desk.dispatched() == []
    assert desk.children == 1
    assert desk.payload("c", PayloadKind.INPUT) == '{"filled":{"id":1}}'
    assert desk.payload("c", PayloadKind.VARS) == "{}"
    assert desk.timers("c") == {TimerKind.CHILD, TimerKind.TOTAL}


@pytest.mark.rule("X1.3")
@pytest.mark.parametrize("wait", [True, False])
def test_X1_a_child_has_the_priority_of_its_parent(wait: bool) -> None:
    desk = Desk(called(call=replace(BILLING, wait=wait))).begin(priority=6)
    (started,) = desk.did(StartChild)
    assert started.priority == 6


@pytest.mark.rule("X1.1")
def test_X1_the_name_may_be_computed() -> None:
    name = Expression(ExpressionKind.NAME, "which", "nodes.c.call")
    desk = calling(replace(BILLING, name=name), {"which": "ship@stable"})
    assert desk.register.called == [("ship@stable", '{"id":1}')]


@pytest.mark.rule("X5.1")
@pytest.mark.parametrize("wrong", ["name", "input", "timeout_us", "total_timeout_us"])
def test_X5_an_error_in_what_a_call_says_is_dead_without_a_child(wrong: str) -> None:
    kind = ExpressionKind.NAME if wrong == "name" else ExpressionKind.VALUE
    bad = Expression(kind, "bad", f"nodes.c.{wrong}")
    desk = calling(replace(BILLING, **{wrong: bad}), {"bad": FAULT})  # type: ignore[arg-type]
    assert desk.letters == "xka"
    assert '"expression_error"' in desk.error("c")
    assert not desk.did(StartChild)
    assert Place("c") not in desk.ledger.tasks
    assert desk.payload("c", PayloadKind.INPUT) is None


@pytest.mark.rule("F6.3")
def test_F6_a_name_no_workflow_has_is_dead_and_not_retried() -> None:
    desk = calling(replace(BILLING, retry=TWICE), unknown=frozenset({"billing"}))
    assert desk.letters == "xka"
    assert '"unknown_workflow"' in desk.error("c")
    assert desk.children == 0


@pytest.mark.rule("F6.3")
@pytest.mark.parametrize(
    ("depth", "letters"), [(CALL_DEPTH_MAX - 1, "a.."), (CALL_DEPTH_MAX, "xka")]
)
@pytest.mark.parametrize("wait", [True, False])
def test_F6_more_than_32_levels_are_dead(depth: int, letters: str, wait: bool) -> None:
    desk = Desk(called(call=replace(BILLING, wait=wait)))
    desk.begin(depth=depth)
    if letters == "xka":
        assert desk.letters == letters
        assert '"call_depth"' in desk.error("c")
    else:
        assert desk.did(StartChild)[0].depth == CALL_DEPTH_MAX


@pytest.mark.rule("W1.1")
def test_an_inline_graph_gets_params_and_no_vars_of_its_own() -> None:
    desk = calling(Call(None, 0, INPUT))
    (started,) = desk.did(StartChild)
    assert (started.callee, started.inline) == (None, 0)
    assert desk.payload("c", PayloadKind.INPUT) == '{"id":1}'
    assert desk.payload("c", PayloadKind.VARS) is None
    assert desk.register.called == []


@pytest.mark.rule("T7.2", "W3.2")
def test_F6_a_call_that_does_not_wait_ends_with_the_id_of_its_child() -> None:
    desk = calling(replace(BILLING, wait=False))
    (started,) = desk.did(StartChild)
    assert not started.waited
    assert desk.letters == "sak"
    assert desk.payload("c", PayloadKind.OUTPUT) == f'{{"run_id":"{started.child}"}}'
    assert desk.children == 0
    assert Place("c") not in desk.ledger.tasks


# -- ends ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("F6.1")
def test_F6_success_is_success_with_the_childs_output() -> None:
    desk = calling(replace(BILLING, timeout_us=1_000))
    desk.settle_child("c", output='{"total":7}')
    assert desk.letters == "sak"
    assert desk.payload("c", PayloadKind.OUTPUT) == '{"total":7}'
    assert desk.task("c").state is TaskState.SUCCESS
    assert desk.task("c").child is None
    assert desk.timers("c") == set()
    assert desk.children == 0


def test_the_output_of_a_call_reads_the_childs() -> None:
    def total(scope: Scope, _: int) -> str:
        assert scope.output is not None
        return f'["{scope.output.size}"]'

    desk = calling(replace(BILLING, output=OUTPUT), {"total": total})
    desk.settle_child("c", output='{"total":7}')
    assert desk.payload("c", PayloadKind.OUTPUT) == '["11"]'


def test_an_output_that_cannot_be_evaluated_is_dead_and_not_retried() -> None:
    desk = calling(replace(BILLING, output=OUTPUT, retry=TWICE), {"total": FAULT})
    desk.settle_child("c")
    assert desk.letters == "xka"
    assert '"expression_error"' in desk.error("c")
    assert desk.task("c").state is TaskState.DEAD


@pytest.mark.rule("F6.1")
@pytest.mark.parametrize(
    ("state", "code"),
    [
        (RunState.FAILED, "child_failed"),
        (RunState.TIMED_OUT, "child_timed_out"),
        (RunState.CANCELLED, "child_cancelled"),
    ],
)
def test_F6_another_end_is_a_failure_with_the_childs_error_as_its_cause(
    state: RunState, code: str
) -> None:
    desk = calling()
    child = desk.task("c").child
    desk.settle_child("c", state, error='{"code":"boom"}')
    assert desk.letters == "xka"
    assert f'"code":"{code}"' in desk.error("c")
    assert f'"details":{{"cause":{{"code":"boom"}},"run_id":"{child}"}}' in desk.error("c")
    assert '"kind":"task"' in desk.error("c")


def test_a_cause_that_is_too_large_is_left_out() -> None:
    desk = calling()
    desk.settle_child("c", RunState.FAILED, error=f'"{"x" * (PAYLOAD_MAX - 2)}"')
    assert '"cause"' not in desk.error("c")
    assert '"child_failed"' in desk.error("c")


def test_a_child_that_ended_without_an_error_has_no_cause() -> None:
    desk = calling()
    child = desk.task("c").child
    assert child is not None
    event = desk.settled_event(Place("c"), child, RunState.CANCELLED, "", "")
    desk.accept(replace(event, error=None))
    assert '"cause"' not in desk.error("c")


def test_F5_an_output_that_does_not_fit_is_never_retried() -> None:
    desk = calling(replace(BILLING, retry=TWICE))
    desk.settle_child("c", RunState.FAILED, code="payload_too_large")
    assert desk.letters == "xka"
    assert '"payload_too_large"' in desk.error("c")


def test_an_end_that_is_told_twice_or_of_another_child_is_stale() -> None:
    desk = calling(replace(BILLING, retry=TWICE))
    child = desk.task("c").child
    assert child is not None
    event = desk.settled_event(Place("c"), child, RunState.FAILED, "", "{}")
    desk.accept(event)
    assert desk.send(event).rejected is Rejection.STALE
    desk.fire("c", TimerKind.BACKOFF)
    assert desk.send(event).rejected is Rejection.STALE
    assert desk.children == 1
    assert desk.send(replace(event, place=Place("b"))).rejected is Rejection.STALE


# -- retry --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("F5.2")
def test_F5_a_call_without_retry_of_its_own_is_tried_once() -> None:
    desk = calling()
    desk.settle_child("c", RunState.FAILED)
    assert desk.task("c").state is TaskState.DEAD


@pytest.mark.rule("F5.2")
def test_F5_a_retry_starts_a_new_child_of_the_same_version_with_the_same_input() -> None:
    desk = calling(replace(BILLING, retry=TWICE, timeout_us=9_000, total_timeout_us=50_000))
    first = desk.task("c").child
    desk.settle_child("c", RunState.FAILED)
    waiting = desk.task("c")
    assert (waiting.state, waiting.attempt, waiting.child) == (TaskState.RETRY, 2, None)
    assert desk.timers("c") == {TimerKind.BACKOFF, TimerKind.TOTAL}
    assert desk.letters == "a.."
    assert desk.children == 0
    desk.register.newest = 4
    desk.fire("c", TimerKind.BACKOFF)
    (started,) = desk.did(StartChild)
    assert started.child != first
    assert started.callee is not None
    assert started.callee.version == 3
    assert desk.register.called[-1][0] == "billing@3"
    assert desk.scope_at("params").params == PayloadKey(Place("c"), PayloadKind.INPUT)
    assert not [a for a in desk.did(PutPayload) if a.key.kind is PayloadKind.INPUT]
    assert desk.timers("c") == {TimerKind.CHILD, TimerKind.TOTAL}
    assert desk.snapshot.attempts == {0: 2}
    desk.settle_child("c", RunState.FAILED)
    assert desk.letters == "xka"
    assert desk.timers("c") == set()


def test_F5_rules_choose_by_the_codes_of_children() -> None:
    rules = (RetryRule(("child_timed_out",), 3, initial_us=1_000),)
    desk = calling(replace(BILLING, retry=RetryPolicy(rules=rules)))
    desk.settle_child("c", RunState.TIMED_OUT)
    assert desk.task("c").state is TaskState.RETRY
    assert desk.task("c").rules == (1,)
    desk.fire("c", TimerKind.BACKOFF)
    desk.settle_child("c", RunState.FAILED)
    assert desk.letters == "xka"


@pytest.mark.rule("W1.2")
def test_F5_an_inline_graph_is_started_again_with_its_item() -> None:
    desk = Desk(called(call=Call(None, 0, INPUT, retry=TWICE)))
    desk.begin(index=5, depth=1)
    desk.settle_child("c", RunState.FAILED)
    desk.fire("c", TimerKind.BACKOFF)
    (started,) = desk.did(StartChild)
    assert (started.index, started.item) == (5, PayloadKey(Place(""), PayloadKind.ITEM))
    assert (started.callee, started.inline) == (None, 0)


def test_a_version_that_is_gone_at_the_retry_is_dead() -> None:
    desk = calling(replace(BILLING, retry=TWICE, total_timeout_us=90_000))
    desk.settle_child("c", RunState.FAILED)
    desk.register.unknown = frozenset({"billing"})
    desk.fire("c", TimerKind.BACKOFF)
    assert desk.letters == "xka"
    assert '"unknown_workflow"' in desk.error("c")
    assert desk.children == 0
    assert desk.timers("c") == set()


def test_L5_attempts_are_those_of_the_pass() -> None:
    edges = "c -> c loop 3; c -failure-> z"
    made = graph(edges, types={"c": "call"}, details={"c": replace(BILLING, retry=TWICE)})
    desk = Desk(made).begin()
    desk.settle_child("c", RunState.FAILED)
    desk.fire("c", TimerKind.BACKOFF)
    assert desk.snapshot.attempts == {0: 2}
    desk.settle_child("c")
    assert desk.snapshot.attempts == {}


# -- timeouts -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("F6.2", "W1.2")
def test_F6_a_timeout_only_cancels_the_child() -> None:
    desk = calling(replace(BILLING, timeout_us=1_000))
    child = desk.task("c").child
    assert child is not None
    desk.fire("c", TimerKind.CHILD)
    assert desk.did(CancelChild) == [CancelChild(Place("c"), child)]
    assert desk.letters == "a.."
    assert desk.task("c").ending == "timeout"
    assert desk.timers("c") == set()
    desk.settle_child("c", RunState.CANCELLED, error='{"code":"cancelled"}')
    assert desk.letters == "xka"
    assert '"code":"timeout"' in desk.error("c")
    assert '"cause":{"code":"cancelled"}' in desk.error("c")


@pytest.mark.rule("F6.2")
def test_F6_a_child_that_was_faster_than_its_cancel_is_success() -> None:
    desk = calling(replace(BILLING, timeout_us=1_000))
    desk.fire("c", TimerKind.CHILD)
    desk.settle_child("c", output='"fast"')
    assert desk.letters == "sak"
    assert desk.payload("c", PayloadKind.OUTPUT) == '"fast"'
    assert desk.task("c").ending == ""


@pytest.mark.rule("F6.2")
def test_F6_a_retry_after_a_timeout_starts_its_child_after_the_end_of_the_first() -> None:
    desk = calling(replace(BILLING, timeout_us=1_000, retry=TWICE))
    desk.fire("c", TimerKind.CHILD)
    assert not desk.did(StartChild)
    desk.settle_child("c", RunState.CANCELLED)
    assert desk.task("c").state is TaskState.RETRY
    assert desk.task("c").ending == ""
    desk.fire("c", TimerKind.BACKOFF)
    desk.fire("c", TimerKind.CHILD)
    assert len(desk.did(CancelChild)) == 1


def test_F6_total_timeout_is_the_end_of_all_tries() -> None:
    desk = calling(replace(BILLING, total_timeout_us=1_000, timeout_us=5_000, retry=TWICE))
    desk.fire("c", TimerKind.TOTAL)
    assert len(desk.did(CancelChild)) == 1
    assert desk.letters == "a.."
    assert desk.timers("c") == set()
    assert desk.task("c").ending == "total_timeout"
    desk.settle_child("c", RunState.CANCELLED)
    assert desk.letters == "xka"
    assert '"code":"total_timeout"' in desk.error("c")


def test_F6_total_timeout_after_timeout_leaves_no_retry() -> None:
    desk = calling(replace(BILLING, total_timeout_us=2_000, timeout_us=1_000, retry=TWICE))
    desk.fire("c", TimerKind.CHILD)
    desk.fire("c", TimerKind.TOTAL)
    assert not desk.did(CancelChild)
    desk.settle_child("c", RunState.CANCELLED)
    assert '"code":"total_timeout"' in desk.error("c")


def test_F6_total_timeout_goes_with_the_end() -> None:
    desk = calling(replace(BILLING, total_timeout_us=1_000))
    assert desk.timers("c") == {TimerKind.TOTAL}
    desk.settle_child("c")
    assert desk.timers("c") == set()


def test_F6_total_timeout_during_the_back_off_is_dead_at_once() -> None:
    slow = replace(TWICE, initial_us=10_000)
    desk = calling(replace(BILLING, total_timeout_us=2_000, retry=slow))
    desk.settle_child("c", RunState.FAILED)
    desk.fire("c", TimerKind.TOTAL)
    assert desk.letters == "xka"
    assert '"code":"total_timeout"' in desk.error("c")
    assert desk.timers("c") == set()


# -- cancelled calls ----------------------------------------------------------------------------------------------


def racing(call: Call = BILLING, *, edges: str = "c -> j; b -> j", cancel: bool = True) -> Desk:
    """A call and a task run a race; the task wins."""
    made = graph(
        edges,
        types={"c": "call", "j": "join"},
        details={"c": call},
        join={"j": 1},
        cancel_losers=("j",) if cancel else (),
    )
    return Desk(made).begin()


@pytest.mark.rule("C1.1")
def test_J3_C1_a_loser_is_cancelled_and_its_child_waited_for() -> None:
    desk = racing(replace(BILLING, timeout_us=1_000))
    child = desk.task("c").child
    assert child is not None
    desk.succeed("b")
    assert desk.letters == "css"
    assert desk.did(CancelChild) == [CancelChild(Place("c"), child)]
    assert [a.place for a in desk.did(CancelTask)] == ["c"]
    assert desk.timers("c") == set()
    assert not desk.is_final
    desk.settle_child("c", RunState.CANCELLED)
    assert desk.state is RunState.SUCCESS
    assert not desk.task("c").late


@pytest.mark.rule("F8.1")
def test_F8_the_success_of_a_cancelled_calls_child_is_kept_and_changes_nothing() -> None:
    desk = racing()
    desk.succeed("b")
    desk.settle_child("c", output='"late"')
    assert desk.letters == "css"
    assert desk.payload("c", PayloadKind.OUTPUT) == '"late"'
    assert desk.task("c").late
    assert desk.task("c").state is TaskState.CANCELLED
    assert desk.state is RunState.SUCCESS


def test_J3_a_child_that_was_cancelled_for_its_timeout_is_not_cancelled_again() -> None:
    desk = racing(replace(BILLING, timeout_us=1_000))
    desk.fire("c", TimerKind.CHILD)
    desk.succeed("b")
    assert not desk.did(CancelChild)


def test_J3_a_loser_in_its_back_off_has_no_child_to_cancel() -> None:
    desk = racing(replace(BILLING, retry=TWICE))
    desk.settle_child("c", RunState.FAILED)
    desk.succeed("b")
    assert not desk.did(CancelChild)
    assert desk.timers("c") == set()
    assert desk.state is RunState.SUCCESS


@pytest.mark.rule("L3.2")
def test_L3_a_call_of_the_pass_before_is_reset_and_its_end_is_late() -> None:
    edges = "h -> c; h -> b; c -> j; b -> j; j -> h loop 3; j -failure-> z"
    desk = racing(edges=edges, cancel=False)
    desk.succeed("h.1")
    desk.succeed("b.1")
    assert len(desk.did(CancelChild)) == 1
    desk.succeed("h.2")
    assert desk.children == 2
    assert desk.task("c.2").child != desk.task("c.1").child
    desk.settle_child("c.1", output='"late"')
    assert desk.children == 1
    assert desk.payload("c.1", PayloadKind.OUTPUT) == '"late"'
    desk.settle_child("c.2")
    assert desk.snapshot.passes == (3,)


def test_F8_a_late_output_reads_nothing_of_another_pass() -> None:
    edges = "h -> c; h -> b; c -> j; b -> j; j -> h loop 3; j -failure-> z"
    reads = (Read(Root.OUTPUT), Read(Root.NODES, "h", "output"))
    call = replace(BILLING, output=replace(OUTPUT, reads=reads))
    desk = racing(call, edges=edges, cancel=False)
    desk.succeed("h.1")
    desk.succeed("b.1")
    desk.succeed("h.2")
    desk.settle_child("c.1", output='"late"')
    scope = desk.scope_at("nodes.c.output")
    assert scope.nodes == ()
    assert scope.output == text_of('"late"')


def test_C2_a_cancelled_run_waits_for_its_child_and_then_drains() -> None:
    desk = calling()
    desk.cancel()
    assert desk.state is RunState.CLOSING
    assert desk.timers("") == set()
    desk.settle_child("c", RunState.CANCELLED)
    assert desk.children == 0
    assert desk.timers("") == {TimerKind.DRAIN}


def test_T7_a_call_that_does_not_wait_takes_its_child_back_when_it_is_put_off() -> None:
    made = graph(
        "c -> c loop 150; c -failure-> z",
        types={"c": "call"},
        details={"c": replace(BILLING, wait=False)},
    )
    desk = Desk(made).begin()
    assert len(desk.did(StartChild)) == 100
    assert desk.payload("c.101", PayloadKind.OUTPUT) is None
    assert desk.timers("c.101") == {TimerKind.CONTINUE}
    desk.fire("c.101", TimerKind.CONTINUE)
    assert len(desk.did(StartChild)) == 50
    assert desk.snapshot.passes == (150,)


def test_attempts_of_a_call_can_be_read() -> None:
    reads = (Read(Root.NODES, "c", "attempts"),)
    when = Expression(ExpressionKind.CONDITION, "true", "edges.when", reads)
    made = called(call=replace(BILLING, retry=TWICE))
    edges = tuple(replace(edge, when=when) for edge in made.definition.edges)
    desk = Desk(replace(made, definition=replace(made.definition, edges=edges))).begin()
    desk.settle_child("c", RunState.FAILED)
    desk.fire("c", TimerKind.BACKOFF)
    desk.settle_child("c")
    (seen,) = desk.scope_at("edges.when").nodes
    assert (seen.attempts, seen.status) == (2, "success")
    assert made.definition.nodes[0].type is NodeType.CALL


def test_the_orders_of_an_end_do_not_touch_other_places() -> None:
    desk = calling(replace(BILLING, timeout_us=1_000))
    desk.settle_child("c")
    assert desk.did(ClearTimers) == [ClearTimers(Place("c"))]
