"""A run's history as lines for people: attempts, waits, requests from outside. No printing."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tenuto.machine import events
from tenuto.machine.snapshot import Task
from tenuto.model.ids import Place
from tenuto.model.states import TaskState
from tenuto.ports.store import LeaseRow

_NODE_OF = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)((?:\.\d+)*)(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the timeline: an attempt, a wait, or a request from outside.

    Attributes:
        what: `attempt`, `wait`, `event`, or `run` for what befell the run itself.
        started_at: None where it isn't known, e.g. a task that never got a worker.
        ended_at: None while it goes on.
        result: `success`, `failed`, `lost`, `cancelled`, `running`, `interrupted`, or what was
        asked of the run.
        message: what a failure said; empty for none.
    """

    place: str
    node: str
    what: str
    result: str
    attempt: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    code: str | None = None
    message: str = ""
    worker: str = ""


def node_of(place: str) -> str:
    """The node's id of a place (`model.ids`); empty for the run's own."""
    found = _NODE_OF.match(place)
    return found[0] if found else ""


def label_of(place: str) -> str:
    """A place as people read it: `look #3` in the third pass of a loop; the place itself outside
    of loops.
    """
    found = _PLACE.fullmatch(place)
    if found is None or not found[2]:
        return place
    return f"{found[1]} #{found[2][1:]}{found[3]}"


def make_timeline(
    history: Sequence[tuple[int, events.Event]],
    tasks: Sequence[tuple[Task, LeaseRow | None]] = (),
    *,
    failures: Mapping[int, str] | None = None,
    early: Sequence[tuple[int, Place]] = (),
    driven: bool = True,
) -> tuple[Step, ...]:
    """Attempts and waits in the order of their start; `tasks` add the attempts under way and those
    cut off. `failures`, `early`: as in `Known`. `driven`: an engine may be at work.
    """
    times = {seq: event.at for seq, event in history}
    said = failures or {}
    steps = []
    for seq, event in history:
        step = step_of(event, times)
        if step is not None:
            steps.append(replace(step, message=said[seq]) if seq in said else step)
    steps += [_found(place, times[seq]) for seq, place in early]
    for task, lease in tasks:
        if lease is None or task.state not in (TaskState.PENDING, TaskState.CANCELLED):
            continue
        steps.append(
            Step(
                place=task.place,
                node=node_of(task.place),
                what="attempt",
                result=_under_way(task, driven=driven),
                attempt=task.attempt,
                started_at=lease.leased_at,
                worker=lease.worker,
            )
        )
    return tuple(sorted(steps, key=_times))


def _under_way(task: Task, *, driven: bool) -> str:
    if task.state is not TaskState.PENDING:
        return "cancelled"
    return "running" if driven else "interrupted"


def _found(place: Place, at: int) -> Step:
    """A wait whose event was in the mailbox already."""
    return Step(
        place=place, node=node_of(place), what="event", result="success", started_at=at, ended_at=at
    )


def _times(step: Step) -> tuple[int, int]:
    """What began together stands in the order of its end."""
    return step.started_at or step.ended_at or 0, step.ended_at or sys.maxsize


def step_of(event: events.Event, times: Mapping[int, int]) -> Step | None:
    """The timeline's line of an event, None where it has none. `times`: event number -> its
    `at`.
    """
    match event:
        case events.RunStarted():
            return None
        case events.AttemptSucceeded():
            return _attempt(event, "success", None)
        case events.AttemptFailed():
            return _attempt(event, "failed", event.code)
        case events.LeaseExpired():
            return _attempt(event, "lost", "lease_lost")
        case events.DeadlinePassed():
            return _attempt(event, "failed", event.deadline)
        case events.TimerFired():
            return _timer_step(event, times)
        case events.EventReceived():
            return Step(
                place=event.place,
                node=node_of(event.place),
                what="event",
                result="success",
                started_at=times.get(event.version),
                ended_at=event.at,
            )
        case events.CancelRequested():
            return _asked(event.at, "cancel requested")
        case events.PauseRequested():
            return _asked(event.at, "paused")
        case events.ResumeRequested():
            return _asked(event.at, "resumed")


def _attempt(
    event: events.AttemptSucceeded
    | events.AttemptFailed
    | events.LeaseExpired
    | events.DeadlinePassed,
    result: str,
    code: str | None,
) -> Step:
    return Step(
        place=event.place,
        node=node_of(event.place),
        what="attempt",
        result=result,
        attempt=event.attempt,
        started_at=event.leased_at or None,
        ended_at=event.at,
        code=code,
        worker=event.worker,
    )


def _timer_step(event: events.TimerFired, times: Mapping[int, int]) -> Step | None:
    began = times.get(event.version)
    node = node_of(event.place)
    match event.kind:
        case events.TimerKind.WAIT:
            return Step(
                place=event.place,
                node=node,
                what="wait",
                result="success",
                started_at=began,
                ended_at=event.at,
            )
        case events.TimerKind.EVENT:
            return Step(
                place=event.place,
                node=node,
                what="event",
                result="failed",
                started_at=began,
                ended_at=event.at,
                code="timeout",
            )
        case events.TimerKind.TOTAL:
            return Step(
                place=event.place,
                node=node,
                what="wait",
                result="failed",
                ended_at=event.at,
                code="total_timeout",
            )
        case events.TimerKind.RUN:
            return _asked(event.at, "run timeout")
        case events.TimerKind.BACKOFF | events.TimerKind.CONTINUE:
            return None


def _asked(at: int, result: str) -> Step:
    return Step(place="", node="", what="run", result=result, started_at=at, ended_at=at)


def step_json(step: Step, origin: int) -> dict[str, object]:
    """A step as JSON values; `start_us` counts from `origin`."""
    return {
        "place": step.place,
        "node": step.node or None,
        "what": step.what,
        "attempt": step.attempt,
        "result": step.result,
        "code": step.code,
        "message": step.message or None,
        "worker": step.worker or None,
        "start_us": None if step.started_at is None else step.started_at - origin,
        "duration_us": (
            None
            if step.started_at is None or step.ended_at is None
            else step.ended_at - step.started_at
        ),
    }
