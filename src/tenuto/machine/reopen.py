"""Retry, replay and skip: the only moves out of a final state (SEMANTICS R).

`plan` says what would be done, here it is done: the nodes of S become pending, their edges undecided, and J is applied
to them as to any other. What of them can go on where it stood is taken up inside instead of being begun anew: a foreach
with the items that did not succeed, a call with its child, a node that is skipped with the output it was given.
"""

from __future__ import annotations

from functools import partial

from tenuto.machine import columns, foreach, pausing
from tenuto.machine.actions import CopyKept, ReopenRun
from tenuto.machine.events import Rejection, RetryRequested, RunReplayed, SkipRequested
from tenuto.machine.loops import withdraw
from tenuto.machine.plan import Plan, plan_replay, plan_retry
from tenuto.machine.snapshot import Record
from tenuto.machine.tokens import die, succeed
from tenuto.machine.turn import ACTIVE, Turn
from tenuto.machine.work import call_again, count_attempts, late
from tenuto.model.definition import WORKER_TYPES, Call, Foreach, NodeType
from tenuto.model.errors import InvariantViolated
from tenuto.model.ids import RunId
from tenuto.model.payload import PayloadKind, Text
from tenuto.model.states import CancelReason, NodeLetter, RunState, may_move_run

_RECALLED = WORKER_TYPES | {NodeType.SET, NodeType.CALL, NodeType.WAIT_FOR_EVENT}
"""Types whose output is a payload at the place of their pass."""
_ANY_FINAL = RunState.FAILED
"""State of the source of a replay: whoever asked has seen that it is final, and the rest does not depend on it."""


def on_retry(turn: Turn, event: RetryRequested) -> Rejection | None:
    """R1: go on with a run that did not succeed; the same task ids, attempts going on (R3)."""
    plan = plan_retry(turn.graph, turn.old, skip=event.skip)
    if plan.refused is not None:
        return Rejection.NOT_RETRYABLE
    _move_to_running(turn)
    turn.actions.append(ReopenRun())
    turn.epoch += 1
    turn.failures.clear()
    turn.closed_by.clear()
    pausing.begun(turn, parent_paused=event.paused)
    pausing.arm_run_timer(turn)
    attempts = dict(turn.attempts)
    _reset(turn, plan, recalls=True)
    again, children = dict(event.again), dict(event.children)
    for node in plan.inside:
        detail, id, place = turn.node(node).detail, turn.node(node).id, turn.place(node)
        if isinstance(detail, Foreach) and id in again:
            turn.taken_up[node] = partial(_items_again, turn, node, again[id])
        elif isinstance(detail, Call) and place in children:
            turn.taken_up[node] = partial(_child_again, turn, node, detail, children[place])
    if event.skip is not None:
        assert event.output is not None
        node = turn.graph.numbers[event.skip]
        turn.attempts.update({node: attempts[node]} if node in attempts else {})
        turn.taken_up[node] = partial(_give, turn, node, event.output)
    return None


def on_replay(turn: Turn, event: RunReplayed) -> Rejection | None:
    """R2: a new run that keeps what the source did outside S, and does S anew.

    Its task ids are new by the run's id, so it begins in epoch 1. What the source has to undo stays the source's.
    """
    if turn.state is not RunState.PENDING:
        return Rejection.DUPLICATE
    source = columns.decode_snapshot(
        event.source, 0, 0, _ANY_FINAL, 0, event.nodes, event.edges, event.rest
    )
    plan = plan_replay(turn.graph, source, event.node)
    if plan.refused is not None:
        return Rejection.NOT_RETRYABLE
    _move_to_running(turn)
    turn.source = event.source
    turn.index, turn.priority = source.index, source.priority
    turn.nodes[:] = source.nodes
    turn.live = source.live
    turn.records = dict(source.records)
    turn.attempts = dict(source.attempts)
    turn.items = dict(source.items)
    turn.ids = dict(source.ids)
    names = tuple(turn.node(node).id for node in sorted(plan.nodes))
    turn.actions.append(CopyKept(event.source, names))
    pausing.arm_run_timer(turn)
    _reset(turn, plan, recalls=False)
    for node in plan.nodes:
        turn.ids.pop(node, None)
    return None


def on_skip(turn: Turn, event: SkipRequested) -> Rejection | None:
    """Take an active node as done with this output; what it has under way is withdrawn."""
    if not turn.is_open():
        return Rejection.RUN_FINAL if turn.is_final() else Rejection.CLOSING
    node = turn.graph.numbers.get(event.node)
    if node is None or turn.nodes[node] != ACTIVE:
        return Rejection.NOT_ACTIVE
    withdraw(turn, node, CancelReason.SKIP)
    _give(turn, node, event.output)
    return None


def _move_to_running(turn: Turn) -> None:
    if not may_move_run(turn.state, RunState.RUNNING):
        raise InvariantViolated(f"a run does not move from {turn.state} to running")
    turn.state = RunState.RUNNING


def _reset(turn: Turn, plan: Plan, *, recalls: bool) -> None:
    """S becomes pending, the edges that leave it undecided, its records are cleared; then J is applied to it.

    `recalls`: what a pass that goes on may read of the pass before it (X3) stays readable.
    """
    for node in plan.nodes:
        turn.mark(node, NodeLetter.PENDING)
        turn.records.pop(node, None)
        if recalls and (before := _pass_before(turn, plan, node)) is not None:
            turn.records[node] = before
        turn.attempts.pop(node, None)
        turn.items.pop(node, None)
    for number, letter in enumerate(plan.edges):
        if turn.edges[number] != letter:
            turn.edges[number] = letter
    turn.passes[:] = plan.passes
    for node in plan.nodes:
        turn.arrive(node)


def _pass_before(turn: Turn, plan: Plan, node: int) -> Record | None:
    """The record that the interrupted pass has overwritten: of the pass before, in the innermost loop that goes on.

    Where an inner loop starts at 1 again nothing tells which of its passes was the last, so nothing is recalled.
    """
    loops = turn.graph.loops_of[node]
    if not loops or plan.passes[loops[-1]] == 1 or turn.node(node).type not in _RECALLED:
        return None
    *outer, innermost = (plan.passes[loop] for loop in loops)
    return Record(
        NodeLetter.SUCCESS, (*outer, innermost - 1), None, turn.ids.get(node, 1), recalled=True
    )


# -- what is taken up inside --------------------------------------------------------------------------------------


def _items_again(turn: Turn, node: int, indexes: tuple[int, ...]) -> None:
    """The recorded list again: done items stay, failures count from 0."""
    turn.items[node] = turn.old.items[node]
    foreach.reopen(turn, node, indexes)


def _child_again(turn: Turn, node: int, call: Call, child: RunId) -> None:
    """The child goes on by a retry of its own, and the call waits for it."""
    if late(turn, turn.place(node)):
        count_attempts(turn, node)
        succeed(turn, node)
        return
    failure = call_again(turn, node, call, child)
    if failure is not None:
        turn.attempts[node] = 0
        die(turn, node, failure)
        return
    count_attempts(turn, node)


def _give(turn: Turn, node: int, output: Text) -> None:
    """End a node `success` with an output that is not its work's: a late one does not take its place (F8)."""
    place = turn.place(node)
    turn.items.pop(node, None)
    succeed(turn, node, turn.put(place, PayloadKind.GIVEN, output))
    turn.doubt(place)
