"""Move a run by one event: the heart of Tenuto.

Theory of operation
-------------------
A run is a graph on which tokens travel. Every edge is decided once per pass of the loops around its source: taken or
dead (T1). When a node ends, its edges are decided together (T4); every token that arrives makes its target look at all
its in-edges, and the target waits, acts, or is skipped (J). Acting means creating a task, opening a wait, setting a
timer, or ending at once; so one event is decided to its fixpoint (T7) and leaves a run that waits for something named:

    event ──▶ the one node it is about ends ──▶ tokens ──▶ nodes act, in topological order ──▶ settled? (C1)

`decide` is a function of its arguments: the event brings the time and the chance, the evaluator brings what expressions
yield, and both are recorded, so folding the history yields the same state for ever. Texts that the evaluator lacks come
back as `Needs`; nothing has happened then, and the caller asks again. An event that is late, repeated or about another
pass is `rejected` and changes nothing.

    event              state it needs                 what it does                              module
    RunStarted         run pending                    run timer, roots act                      here
    AttemptSucceeded   task pending, attempt equal    its work ends success                     clocks
                       task cancelled                 output kept, nothing else (F8)
    AttemptFailed      task pending, attempt equal    retry later, or its work ends dead        clocks
    LeaseExpired       task pending, attempt equal    offered again, or dead after 5            clocks
    DeadlinePassed     task pending, attempt equal    like a failure                            clocks
    ChildSettled       task has that child            its work ends, or a next child            children
    TimerFired         timer of that version          by its kind                               here
    EventReceived      wait of that version           node ends                                 waits
    HeartbeatReceived  wait of that version           its silence starts anew                   waits
    Cancel-, Terminate run not final                  closes (C2, C4)                           closing
    Pause-/Resume-     run not final                  holds or releases tasks (C6)              pausing
    ParentPaused       run not final                  the same, as the parent does              pausing
    Drained            closing, timer of that version handlers run (C3, C4)                     handlers
    RetryRequested     final, not success             opens an epoch (R1)                       reopen
    SkipRequested      node active                    node ends success                         reopen
    RunReplayed        run pending                    like a retry, in a new run (R2)           reopen

Work is a worker's task or a child run; `ends` hands its end to the node, item, page or handler that it belongs to.

Rules by module: tokens T4-T6, J, F1-F3, L2 · loops L3-L5 · activation T7, X5, F4 · scope X2-X4 · clocks F5, F7, F8 ·
work X1, R3 · foreach, children F6 · closing C1, C2, C5 · handlers C3, C4 · pausing C6 · reopen R. Invariants
(reliability's I3-I7, I9, I13): attempts only grow; only a retry leaves a final state; a history folds to the stored
state; every action has one row; a join acts once a pass; a timer fires once; attempts stay within the policy.

Not here: payload texts, leases, clocks, the database. No logic in the dispatcher.
"""

from __future__ import annotations

from typing import assert_never

from tenuto.machine import (
    children,
    clocks,
    closing,
    foreach,
    handlers,
    pausing,
    reopen,
    waits,
)
from tenuto.machine.actions import ClearTimers
from tenuto.machine.activation import begin, run_to_fixpoint
from tenuto.machine.decision import Decision, Needs
from tenuto.machine.events import (
    AttemptFailed,
    AttemptSucceeded,
    CancelRequested,
    ChildSettled,
    DeadlinePassed,
    Drained,
    Event,
    EventReceived,
    HeartbeatReceived,
    LeaseExpired,
    ParentPaused,
    PauseRequested,
    Rejection,
    ResumeRequested,
    RetryRequested,
    RunReplayed,
    RunStarted,
    SkipRequested,
    TerminateRequested,
    TimerFired,
    TimerKind,
)
from tenuto.machine.snapshot import Rows, Snapshot
from tenuto.machine.turn import Turn, Unknown
from tenuto.model.definition import NodeType
from tenuto.model.expressions import Evaluator
from tenuto.model.failures import Failure
from tenuto.model.graph import Graph
from tenuto.model.ids import RUN_PLACE, RunId
from tenuto.model.states import EdgeLetter, NodeLetter, RunState


def initial(run_id: RunId, graph: Graph) -> Snapshot:
    """The state of a run before its first event, RunStarted."""
    nodes, edges = len(graph.definition.nodes), len(graph.definition.edges)
    return Snapshot(
        run_id=run_id,
        seq=0,
        at=0,
        state=RunState.PENDING,
        paused=False,
        epoch=1,
        nodes=NodeLetter.PENDING.encode() * nodes,
        edges=EdgeLetter.UNDECIDED.encode() * edges,
        passes=(1,) * len(graph.loops),
        live=nodes,
    )


def decide(
    graph: Graph, snapshot: Snapshot, rows: Rows, event: Event, evaluator: Evaluator
) -> Decision | Needs:
    """Move a run by one event.

    Args:
        graph: the run's pinned definition, indexed.
        snapshot: the run as of its event number `snapshot.seq`.
        rows: the tasks, timers and waits that the event names, as they stand; more does no harm.
        event: the fact; its time is raised to `snapshot.at` if it is earlier.
        evaluator: what expressions yield.

    Returns:
        A `Decision`; or `Needs`, and then nothing has happened.

    Raises:
        InvariantViolated: the arguments contradict each other: a bug, never a user's fault.
    """
    turn = Turn(graph, snapshot, rows, max(event.at, snapshot.at), evaluator)
    try:
        rejected = _dispatch(turn, event)
        if rejected is not None:
            return Decision(snapshot, rejected=rejected)
        run_to_fixpoint(turn)
    except Unknown as unknown:
        return unknown.needs
    return turn.decision()


def _dispatch(turn: Turn, event: Event) -> Rejection | None:  # noqa: C901 - one arm per event
    match event:
        case RunStarted():
            return _start(turn, event)
        case RunReplayed():
            return reopen.on_replay(turn, event)
        case AttemptSucceeded():
            return clocks.on_success(turn, event)
        case AttemptFailed():
            return clocks.on_failure(turn, event)
        case LeaseExpired():
            return clocks.on_lease_expired(turn, event)
        case DeadlinePassed():
            return clocks.on_deadline(turn, event)
        case ChildSettled():
            return children.on_settled(turn, event)
        case TimerFired():
            return _fire(turn, event)
        case EventReceived():
            return waits.on_event(turn, event)
        case HeartbeatReceived():
            return waits.on_heartbeat(turn, event)
        case CancelRequested():
            return closing.on_cancel(turn, event)
        case TerminateRequested():
            return closing.on_terminate(turn, event)
        case PauseRequested():
            return pausing.on_pause(turn)
        case ResumeRequested():
            return pausing.on_resume(turn, event)
        case ParentPaused():
            return pausing.on_parent_paused(turn, event)
        case Drained():
            return handlers.on_drained(turn, event)
        case RetryRequested():
            return reopen.on_retry(turn, event)
        case SkipRequested():
            return reopen.on_skip(turn, event)
        case _:
            assert_never(event)


def _start(turn: Turn, event: RunStarted) -> Rejection | None:
    if turn.state is not RunState.PENDING:
        return Rejection.DUPLICATE
    turn.state = RunState.RUNNING
    turn.parent, turn.index, turn.depth = event.parent, event.index, event.depth
    turn.priority = event.priority
    pausing.begun(turn, parent_paused=event.paused)
    pausing.arm_run_timer(turn)
    for node in turn.graph.roots:
        turn.arrive(node)
    return None


def _fire(turn: Turn, event: TimerFired) -> Rejection | None:
    """C7: a timer of another version, or that is gone, is stale."""
    timer = turn.rows.timers.get((event.place, event.kind))
    if timer is None or timer.version != event.version or turn.is_final():
        return Rejection.STALE
    match event.kind:
        case TimerKind.BACKOFF:
            return clocks.on_backoff(turn, event)
        case TimerKind.TOTAL:
            return clocks.on_total_timeout(turn, event)
        case TimerKind.CHILD:
            return children.on_timeout(turn, event)
        case TimerKind.RUN:
            turn.actions.append(ClearTimers(RUN_PLACE, TimerKind.RUN))
            failure = Failure("run_timeout", "the run passed its timeout")
            closing.close_on_request(turn, RunState.TIMED_OUT, failure)
            return None
        case TimerKind.CLOSING:
            handlers.on_closing_timeout(turn)
            return None
        case TimerKind.WAIT | TimerKind.EVENT | TimerKind.HEARTBEAT:
            return waits.on_timer(turn, event)
        case TimerKind.CONTINUE:
            return _continue(turn, event)
        case TimerKind.DRAIN:
            return Rejection.STALE  # it comes as `Drained`, with its facts
        case _:
            assert_never(event.kind)


def _continue(turn: Turn, event: TimerFired) -> Rejection | None:
    node = turn.active_at(event.place)
    if node is None:
        return Rejection.STALE
    turn.actions.append(ClearTimers(event.place, TimerKind.CONTINUE))
    if turn.node(node).type is NodeType.FOREACH and node in turn.items:
        foreach.go_on(turn, node)
    else:
        begin(turn, node)
    return None
