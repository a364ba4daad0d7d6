"""A run's history as lines for people: attempts, waits, requests from outside. No printing."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tenuto.machine import events
from tenuto.machine.snapshot import Task
from tenuto.model.ids import Place, parts_of
from tenuto.model.states import TaskState
from tenuto.ports.store import LeaseRow

_NODE_OF = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)((?:\.\d+)*)(\[p?\d+\])?(!undo)?(~\d+)?")
ITEMS_SHOWN = 10
"""Of one foreach so many attempts have lines of their own, those that failed; the others share one."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What became of a foreach, for the line that its items share: its `result`, and how far it is, in words."""

    result: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the timeline: an attempt, a wait, or a request from outside.

    Attributes:
        what: `attempt`, `child` for one that a child run made, `wait`, `event`, `items` for many of a foreach, or `run`
        for what befell the run itself.
        started_at: None where it isn't known, e.g. a task that never got a worker.
        ended_at: None while it goes on.
        result: `success`, `failed`, `lost`, `cancelled`, `running`, `interrupted`, or what was
        asked of the run.
        message: what a failure said; empty for none.
        child: the run that made the attempt; empty for none.
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
    child: str = ""


def node_of(place: str) -> str:
    """The node's id of a place (`model.ids`); empty for the run's own."""
    found = _NODE_OF.match(place)
    return found[0] if found else ""


def label_of(place: str) -> str:
    """A place as people read it: `look #3` in the third pass of a loop, `undo charge` for the handler that undoes it;
    the place itself where it is a plain node or item.
    """
    if place.startswith("!"):
        return place[1:]
    found = _PLACE.fullmatch(place)
    if found is None:
        return place
    passes = f" #{found[2][1:]}" if found[2] else ""
    named = f"{found[1]}{passes}{found[3] or ''}{found[5] or ''}"
    return f"undo {named}" if found[4] else named


def make_timeline(
    history: Sequence[tuple[int, events.Event]],
    tasks: Sequence[tuple[Task, LeaseRow | None]] = (),
    *,
    failures: Mapping[int, str] | None = None,
    early: Sequence[tuple[int, Place]] = (),
    driven: bool = True,
    lists: Mapping[str, Listed] | None = None,
    codes: Mapping[int, str] | None = None,
    begun: int = 0,
) -> tuple[Step, ...]:
    """Attempts and waits in the order of their start; `tasks` add the attempts under way and those
    cut off. `failures`, `codes`, `early`: as in `Known`. `driven`: an engine may be at work. `lists`: place -> what
    became of a foreach. `begun`: when the run was; a child's moment is known to the millisecond only.
    """
    times = {seq: event.at for seq, event in history}
    said = failures or {}
    steps, epoch = [], 1
    for seq, event in history:
        epoch += isinstance(event, events.RetryRequested)
        step = step_of(event, times, epoch=epoch)
        if step is None:
            continue
        if codes is not None and seq in codes:  # its `fail_when` made the event a failure
            step = replace(step, result="failed", code=codes[seq])
        steps.append(replace(step, message=said[seq]) if seq in said else step)
    steps += [_found(place, times[seq]) for seq, place in early]
    for task, lease in tasks:
        if task.child is not None and task.state is TaskState.PENDING:
            steps.append(_child_at_work(task))
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
    shown = (_not_before(begun, step) for step in _bounded(steps, lists or {}))
    return tuple(sorted(shown, key=_times))


def _not_before(begun: int, step: Step) -> Step:
    early = step.started_at is not None and step.started_at < begun
    return replace(step, started_at=begun) if early else step


def _bounded(steps: Sequence[Step], lists: Mapping[str, Listed]) -> Iterator[Step]:
    """The steps, but of a foreach with many items only some that failed, one for all its items, and one for all
    attempts at them that were lost.
    """
    groups: dict[str, list[Step]] = {}
    for step in steps:
        owner = _list_of(step)
        if owner:
            groups.setdefault(owner, []).append(step)
        else:
            yield step
    for owner, group in groups.items():
        if len(group) <= ITEMS_SHOWN:
            yield from group
            continue
        lost = [step for step in group if step.result == "lost"]
        bad = [step for step in group if step.result not in ("success", "running", "lost")]
        yield from bad[:ITEMS_SHOWN]
        if lost:
            yield _lost_ones(owner, lost)
        yield _items_step(owner, group, lists.get(owner) or _listed(group))


def _items_step(owner: str, group: Sequence[Step], listed: Listed) -> Step:
    """The line that the items of a foreach share."""
    starts = [step.started_at for step in group if step.started_at is not None]
    ends = [step.ended_at for step in group if step.ended_at is not None]
    return Step(
        place=owner,
        node=node_of(owner),
        what="items",
        result=listed.result,
        started_at=min(starts, default=None),
        ended_at=None if listed.result == "running" else max(ends, default=None),
        message=listed.text,
    )


def _lost_ones(owner: str, lost: Sequence[Step]) -> Step:
    """All lost attempts in one line. It ends with the first of them: so it stays the same line while more are found."""
    starts = [step.started_at for step in lost if step.started_at is not None]
    ends = [step.ended_at for step in lost if step.ended_at is not None]
    many = "1 attempt was" if len(lost) == 1 else f"{len(lost):,} attempts were"
    again = "it runs again" if len(lost) == 1 else "they run again"
    return Step(
        place=owner,
        node=node_of(owner),
        what="items",
        result="lost",
        started_at=min(starts, default=None),
        ended_at=min(ends, default=None),
        message=f"{many} lost with the engine; {again}",
    )


def _listed(group: Sequence[Step]) -> Listed:
    """What can be told of a foreach in a pass that is over: how the last attempt at each of its items ended."""
    last = {step.place: step.result for step in group}
    good = sum(result == "success" for result in last.values())
    bad = sum(result == "failed" for result in last.values())
    failed = f", {bad:,} failed" if bad else ""
    return Listed("failed" if bad else "success", f"{good:,} items succeeded{failed}")


def _list_of(step: Step) -> str:
    """The place of the foreach whose item an attempt was at; empty for other steps."""
    if "[" not in step.place:
        return ""
    parts = parts_of(Place(step.place))
    return "" if parts.index is None else parts.owner


def _child_at_work(task: Task) -> Step:
    assert task.child is not None
    return Step(
        place=task.place,
        node=node_of(task.place),
        what="child",
        result="running",
        attempt=task.attempt,
        started_at=begun_at(task.child),
        child=task.child,
    )


def begun_at(run_id: str) -> int:
    """When a run was made at the latest: its id says the millisecond (UUIDv7)."""
    return int(run_id[:8] + run_id[9:13], 16) * 1_000 + 999


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


def step_of(event: events.Event, times: Mapping[int, int], *, epoch: int = 1) -> Step | None:
    """The timeline's line of an event, None where it has none. `times`: event number -> its
    `at`. `epoch`: which this event opened or was in.
    """
    match event:
        case events.RunStarted() | events.HeartbeatReceived() | events.Drained():
            return None
        case events.ChildSettled():
            return _child_step(event)
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
        case _:
            return _asked(event.at, _request(event, epoch))


def _request(event: events.Event, epoch: int) -> str:
    """What was asked of a run, in words."""
    match event:
        case events.CancelRequested():
            return "cancel requested"
        case events.TerminateRequested():
            return "terminate requested"
        case events.PauseRequested():
            return "paused"
        case events.ResumeRequested():
            return "resumed, timers moved" if event.freeze else "resumed"
        case events.ParentPaused():
            return f"{'paused' if event.paused else 'resumed'} with its parent"
        case events.RetryRequested():
            without = f" without {event.skip}" if event.skip else ""
            return f"retried{without} (epoch {epoch})"
        case events.SkipRequested():
            return f"{event.node} taken as done"
        case events.RunReplayed():
            return f"replays run {event.source[-8:]} from {event.node}"
        case _:
            return type(event).__name__


def _child_step(event: events.ChildSettled) -> Step:
    succeeded = event.state == "success" and not event.code
    return Step(
        place=event.place,
        node=node_of(event.place),
        what="child",
        result=event.state if succeeded or event.state != "success" else "failed",
        started_at=min(event.at, begun_at(event.child)),
        ended_at=event.at,
        code=event.code or None,
        child=event.child,
    )


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
        case events.TimerKind.EVENT | events.TimerKind.HEARTBEAT:
            silent = event.kind is events.TimerKind.HEARTBEAT
            return Step(
                place=event.place,
                node=node,
                what="event",
                result="failed",
                started_at=began,
                ended_at=event.at,
                code="heartbeat_timeout" if silent else "timeout",
            )
        case events.TimerKind.CLOSING:
            return _asked(event.at, "closing timeout")
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
        case (
            events.TimerKind.BACKOFF
            | events.TimerKind.CONTINUE
            | events.TimerKind.CHILD
            | events.TimerKind.DRAIN
        ):
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
        "child": step.child or None,
        "start_us": None if step.started_at is None else step.started_at - origin,
        "duration_us": (
            None
            if step.started_at is None or step.ended_at is None
            else step.ended_at - step.started_at
        ),
    }
