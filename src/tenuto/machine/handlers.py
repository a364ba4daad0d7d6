"""After the outcome: undoing finished work, and `on_failure` (SEMANTICS C3, C4).

A handler is work at a place of its own, `charge.1!undo` or `!on_failure`; it begins like any other work and ends here.
One is under way at a time. Whatever becomes of it, the next one goes on, and the outcome stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from tenuto.machine import closing, scope, waits
from tenuto.machine.actions import ClearTimers, SetTimer
from tenuto.machine.codec import error_text
from tenuto.machine.events import Drained, Rejection, TimerKind
from tenuto.machine.snapshot import Closing, Done, Task, Timer
from tenuto.machine.turn import Turn
from tenuto.machine.work import begin_child, begin_work, dead_on_arrival, send_off
from tenuto.model.definition import Call, Emit, Handler, Work
from tenuto.model.failures import Failure
from tenuto.model.ids import ON_FAILURE, RUN_PLACE, Place, parts_of, undo_place, with_epoch
from tenuto.model.payload import PayloadKind

NO_NODE = -1
"""Number of the node that `on_failure` belongs to."""


def on_drained(turn: Turn, event: Drained) -> Rejection | None:
    """C2: no task has a live lease, no child is open. The handlers that are due run, or the run is final."""
    timer = turn.rows.timers.get((RUN_PLACE, TimerKind.DRAIN))
    state = turn.closing
    if timer is None or timer.version != event.version or state is None:
        return Rejection.STALE
    turn.actions.append(ClearTimers(RUN_PLACE, TimerKind.DRAIN))
    todo = () if state.by_end else tuple(_due(turn, event.started))
    turn.closing = replace(state, drained=True, todo=todo)
    _go_on(turn)
    arm_closing_timer(turn)
    return None


def arm_closing_timer(turn: Turn) -> None:
    """`closing_timeout` counts from `Drained`, whole again after a pause, and not while there is one (C4, C6)."""
    if turn.closing is not None and turn.closing.drained and not turn.is_held():
        due = turn.at + turn.graph.definition.closing_timeout_us
        turn.actions.append(SetTimer(Timer(RUN_PLACE, TimerKind.CLOSING, due, turn.seq)))


def on_closing_timeout(turn: Turn) -> None:
    """C4: the handlers took too long; what is under way is terminated, and the run is final."""
    closing.finish(turn)


def ended(turn: Turn, task: Task, *, succeeded: bool, failure: Failure | None = None) -> None:
    """A handler's work ended. Dead is recorded, and the next one goes on (C3)."""
    if failure is not None:
        _put_error(turn, task.place, failure)
    _note_end(turn, task.place, succeeded=succeeded)
    _go_on(turn)


def _due(turn: Turn, started: Iterable[Place]) -> Iterable[Place]:
    """C3: work that succeeded, and with `when: started` what was handed out; the last end first."""
    handed_out = set(map(_handed_out, started))
    for done in reversed(turn.done):
        if done.sure or (_handler_of(turn, done).started and done.place in handed_out):
            yield done.place


def _handed_out(place: Place) -> Place:
    """A foreach was handed out with its first item; fetching its list is no item."""
    parts = parts_of(place)
    return parts.owner if parts.index is not None and not parts.undo else place


def _handler_of(turn: Turn, done: Done) -> Handler:
    handler = turn.node(_node_at(turn, done.place)).compensate
    assert handler is not None
    return handler


def _node_at(turn: Turn, place: Place) -> int:
    """Number of the node that a place belongs to."""
    node = parts_of(place).node
    return turn.graph.numbers[node] if node else NO_NODE


def _go_on(turn: Turn) -> None:
    """Begin the next handler; after one that ended at once, or could not begin, the one after that."""
    while turn.closing is not None:
        following = _next(turn, turn.closing)
        if following is None:
            closing.finish(turn)
            return
        place, handler = following
        begun = _begin(turn, place, handler)
        if begun and _is_under_way(handler):
            return
        _note_end(turn, place, succeeded=begun)


def _next(turn: Turn, state: Closing) -> tuple[Place, Handler] | None:
    """Whose turn it is: what is left to undo, then `on_failure` (C4). It is noted as under way."""
    if state.todo:
        work = state.todo[0]
        place = undo_place(work)
        handler = turn.node(_node_at(turn, work)).compensate
        assert handler is not None
        turn.closing = replace(state, todo=state.todo[1:], current=place)
        return place, handler
    last = turn.graph.definition.on_failure
    if last is None or state.last or state.outcome not in closing.WITH_ON_FAILURE:
        return None
    place = with_epoch(ON_FAILURE, turn.epoch)
    turn.closing = replace(state, current=place, last=True)
    return place, last


def _begin(turn: Turn, place: Place, handler: Handler) -> bool:
    """Whether it could begin. One that could not is dead, and is listed with the others all the same (X5)."""
    node, detail = _node_at(turn, place), handler.detail
    sight = scope.of_handler(turn, place)
    match detail:
        case Emit():
            failure = waits.post(turn, place, detail, sight)
        case Call() if not detail.wait:
            failure = send_off(turn, place, detail, sight)
        case Call():
            failure = begin_child(turn, node, place, detail, sight, index=turn.index)
        case Work():
            failure = begin_work(turn, node, place, detail, sight)
        case _:
            assert_never(detail)
    if failure is None:
        return True
    _put_error(turn, place, failure)
    if isinstance(detail, Work | Call):
        dead_on_arrival(turn, node, place, detail)
    return False


def _is_under_way(handler: Handler) -> bool:
    """Whether what has begun ends later, by an event."""
    return isinstance(handler.detail, Work) or (
        isinstance(handler.detail, Call) and handler.detail.wait
    )


def _note_end(turn: Turn, place: Place, *, succeeded: bool) -> None:
    state = turn.closing
    assert state is not None
    assert state.current == place
    state = replace(state, current=None)
    parts = parts_of(place)
    if parts.undo and succeeded:
        turn.forget(parts.owner)
        state = replace(state, undone=state.undone + 1)
    elif parts.undo:
        state = replace(state, failed=state.failed + 1)
    turn.closing = state


def _put_error(turn: Turn, place: Place, failure: Failure) -> None:
    turn.put(place, PayloadKind.ERROR, error_text(failure, parts_of(place).node or "on_failure"))
