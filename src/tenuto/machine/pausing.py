"""Pause and resume, one's own and the parent's (SEMANTICS C6).

A run is held while either flag is set. That stops the granting of leases and nothing else, so what a child run does is
never `held` in this run's rows: the child has the flag itself, by a stored event that reads it when it is decided.
"""

from __future__ import annotations

from tenuto.machine import handlers
from tenuto.machine.actions import (
    ClearTimers,
    HoldTasks,
    ReleaseTasks,
    SetTimer,
    ShiftTimers,
    TellChildren,
)
from tenuto.machine.events import ParentPaused, Rejection, ResumeRequested, TimerKind
from tenuto.machine.snapshot import Timer
from tenuto.machine.turn import ACTIVE, Turn
from tenuto.model.definition import Wait
from tenuto.model.ids import RUN_PLACE, Place


def arm_run_timer(turn: Turn) -> None:
    """The run's `timeout` starts: at its start, and anew at a retry (R)."""
    timeout = turn.graph.definition.timeout_us
    if timeout is not None:
        turn.actions.append(SetTimer(Timer(RUN_PLACE, TimerKind.RUN, turn.at + timeout, turn.seq)))


def begun(turn: Turn, *, parent_paused: bool) -> None:
    """A run starts, or is re-opened, with its parent's flag; timers that start now were not paused before."""
    turn.parent_paused = parent_paused
    turn.paused_since = turn.at if turn.is_held() else None


def on_pause(turn: Turn) -> Rejection | None:
    """Somebody asked for it."""
    if turn.is_final():
        return Rejection.RUN_FINAL
    if turn.paused:
        return Rejection.ALREADY_PAUSED
    was_held = turn.is_held()
    turn.paused = True
    if not was_held:
        _hold(turn)
    return None


def on_resume(turn: Turn, event: ResumeRequested) -> Rejection | None:
    """Somebody asked for it. A child of a paused parent is resumed with its parent."""
    if turn.is_final():
        return Rejection.RUN_FINAL
    if turn.parent_paused:
        return Rejection.PARENT_PAUSED
    if not turn.paused:
        return Rejection.NOT_PAUSED
    turn.paused = False
    _release(turn, freeze=event.freeze)
    return None


def on_parent_paused(turn: Turn, event: ParentPaused) -> Rejection | None:
    """The parent's flag, as it stands now: in whatever order such events come, the last word is right."""
    if turn.is_final():
        return Rejection.RUN_FINAL
    if event.paused == turn.parent_paused:
        return Rejection.ALREADY_PAUSED if event.paused else Rejection.NOT_PAUSED
    was_held = turn.is_held()
    turn.parent_paused = event.paused
    if event.paused and not was_held:
        _hold(turn)
    elif was_held and not turn.is_held():
        _release(turn, freeze=event.freeze)
    return None


def _hold(turn: Turn) -> None:
    """No lease is granted; `queue_timeout` and `closing_timeout` do not pass."""
    turn.paused_since = turn.at
    turn.actions.append(HoldTasks())
    if turn.closing is not None and turn.closing.drained:
        turn.actions.append(ClearTimers(RUN_PLACE, TimerKind.CLOSING))
    if turn.children:
        turn.actions.append(TellChildren())


def _release(turn: Turn, *, freeze: bool) -> None:
    """`queue_timeout` and `closing_timeout` are set anew, whole. `freeze`: the other deadlines move by the pause."""
    if freeze and turn.paused_since is not None:
        by_us = turn.at - turn.paused_since
        turn.actions.append(ShiftTimers(by_us, turn.seq, tuple(_until(turn))))
    turn.paused_since = None
    turn.actions.append(ReleaseTasks(turn.at))
    handlers.arm_closing_timer(turn)
    if turn.children:
        turn.actions.append(TellChildren(freeze))


def _until(turn: Turn) -> list[Place]:
    """Waits until a moment: a pause does not move the moment."""
    return [
        turn.place(node)
        for node, it in enumerate(turn.graph.definition.nodes)
        if isinstance(it.detail, Wait)
        and it.detail.until_at is not None
        and turn.nodes[node] == ACTIVE
    ]
