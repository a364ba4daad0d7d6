"""What there is to say about one run, as data: nodes, what they wait for, the timeline, outcome.
No printing.

Made from what `ports.reads` answers; `render` shows it, `-o json` prints it. Instants and
durations in microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tenuto.coordinator.seats import ALL_QUEUES
from tenuto.machine import events
from tenuto.machine.snapshot import OpenedWait, Task, Timer
from tenuto.model.definition import Node, NodeType, Wait, Work
from tenuto.model.graph import Graph
from tenuto.model.ids import Place, place_of
from tenuto.model.instants import format_duration, format_instant
from tenuto.model.states import (
    FINAL_RUN_STATES,
    NODE_STATUS,
    NodeLetter,
    RunState,
    TaskState,
)
from tenuto.ports.reads import RunDetail, WorkerRow
from tenuto.ports.store import LeaseRow

_NODE_OF = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.:/@%+=,-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """One node as it stands. `state`: its status, or for active ones `running`, `ready`, `retry`,
    `waiting`.

    Attributes:
        attempts: attempts handed out in its current pass; 0 where no worker runs it.
        iteration: pass of its innermost loop, None outside loops.
        since: when what it does began, if known.
        waits_for: what it waits for, in words; empty if for nothing.
        error: its failure payload, once dead.
    """

    id: str
    type: str
    state: str
    attempts: int = 0
    attempts_max: int = 0
    iteration: int | None = None
    since: int | None = None
    waits_for: str = ""
    error: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the timeline: an attempt, a wait, or a request from outside.

    Attributes:
        what: `attempt`, `wait`, `event`, or `run` for what befell the run itself.
        started_at: None where it isn't known, e.g. a task that never got a worker.
        ended_at: None while it goes on.
        result: `success`, `failed`, `lost`, `cancelled`, `running`, or what was asked of the run.
    """

    place: str
    node: str
    what: str
    result: str
    attempt: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    code: str | None = None
    worker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything about a run that people read. `output` and `error` are JSON values, None while
    there is none.
    """

    run_id: str
    workflow: str
    version: int
    state: str
    key: str | None
    created_at: int
    ended_at: int | None
    now: int
    quarantine: str | None = None
    nodes: tuple[NodeLine, ...] = ()
    timeline: tuple[Step, ...] = ()
    output: object = None
    error: object = None

    @property
    def is_final(self) -> bool:
        """Whether the outcome stands for good."""
        return self.state in FINAL_RUN_STATES

    @property
    def lasted_us(self) -> int:
        """From its start to its end, or to now."""
        return max(0, (self.ended_at or self.now) - self.created_at)

    @property
    def waits(self) -> tuple[NodeLine, ...]:
        """Nodes that wait for something they can name."""
        return tuple(line for line in self.nodes if line.waits_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a report is made from, beside the run itself.

    Attributes:
        history: (number, event), from number 1 on without gaps.
        errors: place -> failure payload as a JSON value.
        database: as the user must write it in a command; empty for the default file.
    """

    history: Sequence[tuple[int, events.Event]] = ()
    workers: Sequence[WorkerRow] = ()
    errors: Mapping[str, object] = field(default_factory=dict)
    output: object = None
    error: object = None
    database: str = ""
    now: int = 0


def make_report(graph: Graph, detail: RunDetail, known: Known) -> Report:
    """Put together what is known of a run."""
    run = detail.run
    is_open = run.state not in FINAL_RUN_STATES
    return Report(
        run_id=run.run_id,
        workflow=run.workflow,
        version=run.version,
        state=shown_state(run.state, paused=run.paused),
        key=run.key,
        created_at=run.created_at,
        ended_at=run.ended_at,
        now=max(known.now, detail.snapshot.at),
        quarantine=run.quarantine,
        nodes=tuple(_node_lines(graph, detail, known, is_open=is_open)),
        timeline=make_timeline(known.history, detail.tasks),
        output=known.output,
        error=known.error,
    )


def shown_state(state: str, *, paused: bool) -> str:
    """The state as people read it: pause is a flag, shown while the outcome is open (SEMANTICS
    C6).
    """
    return "paused" if paused and state in (RunState.PENDING, RunState.RUNNING) else state


def node_of(place: str) -> str:
    """The node's id of a place (`model.ids`); empty for the run's own."""
    found = _NODE_OF.match(place)
    return found[0] if found else ""


# -- nodes -----------------------------------------------------------------------------------------


def _node_lines(
    graph: Graph, detail: RunDetail, known: Known, *, is_open: bool
) -> Sequence[NodeLine]:
    tasks = {task.place: (task, lease) for task, lease in detail.tasks}
    timers = {(timer.place, timer.kind): timer for timer in detail.timers}
    waits = {wait.place: wait for wait in detail.waits}
    lines = []
    for number, node in enumerate(graph.definition.nodes):
        loops = graph.loops_of[number]
        passes = tuple(detail.snapshot.passes[loop] for loop in loops)
        place = place_of(node.id, passes)
        letter = NodeLetter(chr(detail.snapshot.nodes[number]))
        state, since, waits_for = NODE_STATUS[letter], None, ""
        task, lease = tasks.get(place, (None, None))
        if letter is NodeLetter.ACTIVE and is_open:
            if task is not None:
                state, since, waits_for = _working(
                    task, lease, timers, known, paused=detail.run.paused
                )
            elif node.type in (NodeType.WAIT, NodeType.WAIT_FOR_EVENT):
                state = "waiting"
                since, waits_for = _waiting(node, place, timers, waits, known)
        lines.append(
            NodeLine(
                id=node.id,
                type=node.type,
                state=state,
                attempts=_attempts(task, lease),
                attempts_max=(
                    node.detail.retry.max_attempts if isinstance(node.detail, Work) else 0
                ),
                iteration=passes[-1] if passes else None,
                since=since,
                waits_for=waits_for,
                error=known.errors.get(place) if letter is NodeLetter.DEAD else None,
            )
        )
    return lines


def _attempts(task: Task | None, lease: LeaseRow | None) -> int:
    """Attempts handed out: a pending task's number is the one that comes next until it is
    leased.
    """
    if task is None:
        return 0
    waits = task.state in (TaskState.PENDING, TaskState.RETRY) and lease is None
    return task.attempt - 1 if waits else task.attempt


def _working(
    task: Task,
    lease: LeaseRow | None,
    timers: Mapping[tuple[Place, events.TimerKind], Timer],
    known: Known,
    *,
    paused: bool,
) -> tuple[str, int | None, str]:
    """State, since when, and what a task that isn't final waits for."""
    if lease is not None:
        return "running", lease.leased_at, ""
    if task.state is TaskState.RETRY:
        timer = timers.get((task.place, events.TimerKind.BACKOFF))
        return "retry", None, f"attempt {task.attempt}" + (_when(timer, known.now) if timer else "")
    if paused:
        return "ready", None, "the run to be resumed"
    knows = [worker for worker in known.workers if task.name in worker.names]
    if not knows:
        return "ready", None, f"a worker that has `{task.name}`"
    if not any({task.queue, ALL_QUEUES} & {*worker.queues} for worker in knows):
        return "ready", None, f"a worker of the queue `{task.queue}` that has `{task.name}`"
    return "ready", None, ""


def _waiting(
    node: Node,
    place: Place,
    timers: Mapping[tuple[Place, events.TimerKind], Timer],
    waits: Mapping[Place, OpenedWait],
    known: Known,
) -> tuple[int | None, str]:
    """Since when, and what a wait waits for."""
    wait = waits.get(place)
    if wait is not None:
        timer = timers.get((place, events.TimerKind.EVENT))
        until = f", at most{_when(timer, known.now)}" if timer else ""
        key = "" if wait.key is None else wait.key
        return wait.opened_at, (
            f"event {wait.event} key {quoted(key)}{until} "
            f"({send_command(wait.event, key, known.database)})"
        )
    timer = timers.get((place, events.TimerKind.WAIT))
    if timer is None:
        return None, ""
    began = next((event.at for seq, event in known.history if seq == timer.version), None)
    fixed = isinstance(node.detail, Wait) and node.detail.until_at is not None
    return began, f"its time{_when(timer, known.now)}" + (
        f" ({format_instant(timer.due_at)})" if fixed else ""
    )


def _when(timer: Timer, now: int) -> str:
    left = timer.due_at - now
    return f" in {format_duration(left)}" if left > 0 else " now"


def send_command(event: str, key: str, database: str) -> str:
    """The command that sends what a wait waits for."""
    more = f" --database {quoted(database)}" if database else ""
    return f"tenuto event send {quoted(event)} --key {quoted(key)}{more}"


def quoted(text: str) -> str:
    """A word as a shell takes it."""
    if _PLAIN_WORD.fullmatch(text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


# -- the timeline ----------------------------------------------------------------------------------


def make_timeline(
    history: Sequence[tuple[int, events.Event]],
    tasks: Sequence[tuple[Task, LeaseRow | None]] = (),
) -> tuple[Step, ...]:
    """Attempts and waits in the order of their start; `tasks` add the attempts under way and those
    cut off.
    """
    times = {seq: event.at for seq, event in history}
    steps = [step for _, event in history if (step := step_of(event, times)) is not None]
    for task, lease in tasks:
        if lease is None or task.state not in (TaskState.PENDING, TaskState.CANCELLED):
            continue
        steps.append(
            Step(
                place=task.place,
                node=node_of(task.place),
                what="attempt",
                result="running" if task.state is TaskState.PENDING else "cancelled",
                attempt=task.attempt,
                started_at=lease.leased_at,
                worker=lease.worker,
            )
        )
    return tuple(sorted(steps, key=_began))


def _began(step: Step) -> int:
    return step.started_at or step.ended_at or 0


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


# -- as JSON ---------------------------------------------------------------------------------------


def report_json(report: Report) -> dict[str, object]:
    """The report as JSON values; the shape is documented in docs/cli.md."""
    return {
        "run_id": report.run_id,
        "workflow": report.workflow,
        "version": report.version,
        "state": report.state,
        "key": report.key,
        "created_at": format_instant(report.created_at),
        "ended_at": None if report.ended_at is None else format_instant(report.ended_at),
        "lasted_us": report.lasted_us,
        "output": report.output,
        "error": report.error,
        "quarantine": report.quarantine,
        "nodes": [_node_json(line) for line in report.nodes],
        "timeline": [step_json(step, report.created_at) for step in report.timeline],
    }


def _node_json(line: NodeLine) -> dict[str, object]:
    return {
        "id": line.id,
        "type": line.type,
        "state": line.state,
        "attempts": line.attempts,
        "iteration": line.iteration,
        "waits_for": line.waits_for or None,
        "error": line.error,
    }


def step_json(step: Step, origin: int) -> dict[str, object]:
    """A step as JSON values; `start_us` counts from `origin`."""
    return {
        "place": step.place,
        "node": step.node or None,
        "what": step.what,
        "attempt": step.attempt,
        "result": step.result,
        "code": step.code,
        "worker": step.worker or None,
        "start_us": None if step.started_at is None else step.started_at - origin,
        "duration_us": (
            None
            if step.started_at is None or step.ended_at is None
            else step.ended_at - step.started_at
        ),
    }
