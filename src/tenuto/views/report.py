"""What there is to say about one run, as data: nodes, what they wait for, the timeline, outcome.
No printing.

Made from what `ports.reads` answers; `render` shows it, `-o json` prints it. Instants and
durations in microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenuto.machine import events
from tenuto.machine.plan import place_in
from tenuto.machine.snapshot import OpenedWait, Task, Timer
from tenuto.model.definition import SEMANTICS_VERSION, Call, Node, NodeType, Wait, Work
from tenuto.model.graph import Graph
from tenuto.model.ids import Place, RunId, undo_place
from tenuto.model.instants import format_instant, format_remaining
from tenuto.model.states import (
    FINAL_RUN_STATES,
    NODE_STATUS,
    EdgeLetter,
    NodeLetter,
    TaskState,
)
from tenuto.ports.gateway import ALL_QUEUES
from tenuto.ports.reads import RunDetail, WorkerRow
from tenuto.ports.store import LeaseRow
from tenuto.views.cures import go_on_command, quoted, resume_command, send_command
from tenuto.views.family import (
    Children,
    ClosingLine,
    ItemCounts,
    children_document,
    closing_document,
    closing_line,
    item_counts,
    items_document,
    newest_of,
    parent_document,
    shown_state,
    undo_status,
    whole_error,
)
from tenuto.views.timeline import Listed, Step, begun_at, make_timeline, step_json

RESUMED = "the run to be resumed"
AN_ENGINE = "an engine"
_RESULTS = {"dead": "failed", "active": "running", "interrupted": "running"}
"""State of a foreach -> result in the timeline, where that is another word."""
_TOLD_MAX = 10
"""Nodes of which one line tells what they wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """One node as it stands. `state`: its status, or for active ones `running`, `ready`, `retry`,
    `waiting`, and `interrupted` for an attempt whose engine is gone.

    Attributes:
        place: where it is in its current pass (`model.ids`).
        attempts: attempts handed out in its current pass; 0 where no worker runs it.
        iteration: pass of its innermost loop, None outside loops.
        since: when what it does began, if known.
        waits_for: what it waits for, in words; empty if for nothing.
        command: what ends that wait, to be copied; empty if no command does.
        awaits: event and key that it waits for, and what the payload looks like (empty where nobody reads it).
        took: targets of the edges that were taken, where a condition chose among them.
        error: its failure payload, once dead; while it waits to be tried again, code and message
        of the last failure.
        items: of a foreach, how far it is.
        child: the run that a `call` has called last; empty for none.
        given: it was skipped: its output was given by hand.
        undo: what became of undoing its work: `due`, `undoing`, `undone`, `failed`, `cancelled`; empty for nothing.
        undo_error: why it could not be undone.
    """

    id: str
    type: str
    state: str
    place: str = ""
    attempts: int = 0
    attempts_max: int = 0
    iteration: int | None = None
    since: int | None = None
    waits_for: str = ""
    command: str = ""
    awaits: tuple[str, str, str] | None = None
    took: tuple[str, ...] = ()
    error: object = None
    items: ItemCounts | None = None
    child: str = ""
    given: bool = False
    undo: str = ""
    undo_error: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything about a run that people read. `output` and `error` are JSON values, None while
    there is none.

    Attributes:
        database: as commands must name it; empty for the default.
        engine: the process that has the file open, where somebody else asks; empty if unknown,
        None if there is none.
        go_on: the command that carries an unfinished run on, when no engine has the file open.
        semantics: the version of the rules by which it goes.
        input, vars: with which it was started; `vars` are those of the definition with what was given over them.
        params, item: what the run of a `do:` was given beside them.
        parent: run and place that called it; `source`: the run that it replays.
        epoch: 1, and one more with each retry.
        priority: of its tasks whose nodes set none.
        compensation: `none` was begun, `complete`, or `partial`.
        held_by: the run to resume where this one is paused; empty for itself.
    """

    run_id: str
    workflow: str
    version: int
    state: str
    key: str | None
    created_at: int
    ended_at: int | None
    now: int
    semantics: int = SEMANTICS_VERSION
    quarantine: str | None = None
    database: str = ""
    engine: str | None = ""
    go_on: str = ""
    nodes: tuple[NodeLine, ...] = ()
    timeline: tuple[Step, ...] = ()
    input: object = None
    vars: Mapping[str, object] = field(default_factory=dict)
    output: object = None
    error: object = None
    params: object = None
    item: object = None
    parent: tuple[RunId, Place] | None = None
    source: str | None = None
    epoch: int = 1
    priority: int = 0
    compensation: str = "none"
    closing: ClosingLine | None = None
    children: Children = Children()
    held_by: str = ""

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
        failures: event number -> what the failure in it said.
        codes: event number -> code of the failure that `fail_when` saw in the event of it.
        early: (event number, place) of each wait that found its event in the mailbox.
        hints: node -> what a payload for it looks like, where its output is read.
        given: places of the nodes that were skipped, whose output was given by hand.
        called: place of a call -> the run that it has called last.
        engine: as in `Report`; None: no engine has the file open, so nothing goes on.
        database: as the user must write it in a command; empty for the default file.
    """

    history: Sequence[tuple[int, events.Event]] = ()
    workers: Sequence[WorkerRow] = ()
    errors: Mapping[str, object] = field(default_factory=dict)
    failures: Mapping[int, str] = field(default_factory=dict)
    codes: Mapping[int, str] = field(default_factory=dict)
    early: Sequence[tuple[int, Place]] = ()
    hints: Mapping[str, str] = field(default_factory=dict)
    given: frozenset[Place] = frozenset()
    called: Mapping[Place, RunId] = field(default_factory=dict)
    children: Children = Children()
    engine: str | None = ""
    input: object = None
    vars: Mapping[str, object] = field(default_factory=dict)
    params: object = None
    item: object = None
    output: object = None
    error: object = None
    database: str = ""
    now: int = 0


def make_report(graph: Graph, detail: RunDetail, known: Known) -> Report:
    """Put together what is known of a run."""
    run = detail.run
    is_open = run.state not in FINAL_RUN_STATES
    lines = tuple(_node_lines(graph, detail, known, is_open=is_open))
    return Report(
        run_id=run.run_id,
        workflow=run.workflow,
        version=run.version,
        state=shown_state(run.state, paused=run.paused),
        key=run.key,
        created_at=run.created_at,
        ended_at=run.ended_at,
        now=max(known.now, detail.snapshot.at),
        semantics=graph.definition.semantics,
        quarantine=run.quarantine,
        database=known.database,
        engine=known.engine if is_open else "",
        go_on=(
            go_on_command(run.run_id, known.database)
            if is_open and not run.paused and known.engine is None
            else ""
        ),
        nodes=lines,
        timeline=make_timeline(
            known.history,
            detail.tasks,
            failures=known.failures,
            early=known.early,
            driven=known.engine is not None,
            lists={
                line.place: Listed(_RESULTS.get(line.state, line.state), line.items.told)
                for line in lines
                if line.items is not None
            },
            codes=known.codes,
            begun=run.created_at,
        ),
        input=known.input,
        vars=known.vars,
        params=known.params,
        item=known.item,
        output=known.output,
        error=whole_error(known.error, detail.snapshot),
        parent=run.parent,
        source=run.source,
        epoch=detail.snapshot.epoch,
        priority=detail.snapshot.priority,
        compensation=run.compensation,
        closing=closing_line(detail.snapshot),
        children=known.children,
        held_by=held_by(detail) if is_open and detail.run.paused else "",
    )


def held_by(detail: RunDetail) -> RunId:
    """The run to resume where this one is paused: its parent, if it is held by that."""
    if detail.snapshot.parent_paused and detail.run.parent is not None:
        return detail.run.parent[0]
    return detail.run.run_id


# -- nodes -----------------------------------------------------------------------------------------


def _node_lines(
    graph: Graph, detail: RunDetail, known: Known, *, is_open: bool
) -> Sequence[NodeLine]:
    tasks = {task.place: (task, lease) for task, lease in detail.tasks}
    timers = {(timer.place, timer.kind): timer for timer in detail.timers}
    waits = {wait.place: wait for wait in detail.waits}
    handed_out = _handed_out(known.history)
    own = {place: task for place, (task, _) in tasks.items()}
    lines = []
    for number, node in enumerate(graph.definition.nodes):
        passes = tuple(detail.snapshot.passes[loop] for loop in graph.loops_of[number])
        place = place_in(graph, detail.snapshot, number)
        letter = NodeLetter(chr(detail.snapshot.nodes[number]))
        state, since, waits_for, command = NODE_STATUS[letter], None, "", ""
        task, lease = tasks.get(place, (None, None))
        items = item_counts(letter, detail.snapshot.items.get(number))
        undo = undo_status(node, place, letter, detail.snapshot, own)
        if letter is NodeLetter.ACTIVE and is_open:
            if task is not None:
                paused = detail.run.paused
                state, since, waits_for = _working(node, task, lease, timers, known, paused=paused)
                if waits_for == RESUMED:
                    command = resume_command(held_by(detail), known.database)
            elif items is not None and (items.active or not items.complete):
                state = "running" if known.engine is not None else "interrupted"
            elif node.type in (NodeType.WAIT, NodeType.WAIT_FOR_EVENT):
                state = "waiting"
                since, waits_for, command = _waiting(node, place, timers, waits, known)
        lines.append(
            NodeLine(
                id=node.id,
                type=node.type,
                state=state,
                place=place,
                attempts=_attempts(task, lease, handed_out),
                attempts_max=(
                    node.detail.retry.max_attempts if isinstance(node.detail, Work | Call) else 0
                ),
                iteration=passes[-1] if passes else None,
                since=since,
                waits_for=waits_for,
                command=command,
                awaits=_awaits(node, waits.get(place), known) if waits_for else None,
                took=_taken(graph, number, detail.snapshot.edges),
                error=(
                    known.errors.get(place)
                    if letter is NodeLetter.DEAD
                    else _last_failure(place, known)
                    if state == "retry"
                    else None
                ),
                items=items,
                child=_called(node, place, task, known),
                given=place in known.given,
                undo=undo,
                undo_error=known.errors.get(undo_place(place)) if undo == "failed" else None,
            )
        )
    return lines


def _called(node: Node, place: Place, task: Task | None, known: Known) -> str:
    """The run that a call has called last; empty for none, and for what is no call."""
    if not isinstance(node.detail, Call):
        return ""
    if task is not None and task.child is not None:
        return task.child
    return known.called.get(place) or newest_of(known.children.newest, place)


def _handed_out(history: Sequence[tuple[int, events.Event]]) -> Mapping[str, int]:
    """Place -> the last attempt that a worker had and whose end is in the history."""
    found: dict[str, int] = {}
    for _, event in history:
        match event:
            case events.AttemptSucceeded() | events.AttemptFailed() | events.LeaseExpired():
                found[event.place] = event.attempt
            case events.ChildSettled():
                found[event.place] = found.get(event.place, 0) + 1
            case events.DeadlinePassed() if event.lease_id is not None:
                found[event.place] = event.attempt
    return found


def _last_failure(place: Place, known: Known) -> object:
    for seq, event in reversed(known.history):
        if isinstance(event, events.AttemptFailed) and event.place == place:
            return {"code": event.code, "message": known.failures.get(seq, "")}
        if isinstance(event, events.DeadlinePassed) and event.place == place:
            return {"code": event.deadline.value, "message": known.failures.get(seq, "")}
    return None


def _taken(graph: Graph, number: int, letters: bytes) -> tuple[str, ...]:
    """Where a node's end led to, if conditions had a say in it."""
    definition, outs = graph.definition, graph.outs[number]
    edges = definition.edges
    if not any(edges[out].when is not None or edges[out].otherwise for out in outs):
        return ()
    return tuple(
        definition.nodes[edges[out].target].id
        for out in outs
        if letters[out] == ord(EdgeLetter.TAKEN)
    )


def _attempts(task: Task | None, lease: LeaseRow | None, handed_out: Mapping[str, int]) -> int:
    """Attempts handed out: a pending task's number is the one that comes next until it is
    leased, and a task may be cancelled before it ever was.
    """
    if task is None:
        return 0
    if task.state in (TaskState.CANCELLED, TaskState.DEAD) and lease is None:
        return handed_out.get(task.place, 0)
    waits = task.state in (TaskState.PENDING, TaskState.RETRY) and not (lease or task.child)
    return task.attempt - 1 if waits else task.attempt


def _working(
    node: Node,
    task: Task,
    lease: LeaseRow | None,
    timers: Mapping[tuple[Place, events.TimerKind], Timer],
    known: Known,
    *,
    paused: bool,
) -> tuple[str, int | None, str]:
    """State, since when, and what a task that isn't final waits for."""
    if task.child is not None:
        over = ", to be cancelled: its time is over" if task.ending else ""
        return "running", begun_at(task.child), f"{_child_told(task.child, known)}{over}"
    if lease is not None:
        if known.engine is None:
            return "interrupted", None, AN_ENGINE
        return "running", lease.leased_at, ""
    if task.state is TaskState.RETRY:
        timer = timers.get((task.place, events.TimerKind.BACKOFF))
        return "retry", None, f"attempt {task.attempt}" + (_when(timer, known.now) if timer else "")
    if paused:
        return "ready", None, RESUMED
    if isinstance(node.detail, Call):  # no worker does it
        return "running", None, ""
    alive = [worker for worker in known.workers if not worker.lost or known.engine is None]
    knows = [worker for worker in alive if task.name in worker.names]
    if not knows:
        return "ready", None, f"a worker that has `{task.name}`"
    if not any({task.queue, ALL_QUEUES} & {*worker.queues} for worker in knows):
        return "ready", None, f"a worker of the queue `{task.queue}` that has `{task.name}`"
    return "ready", None, AN_ENGINE if known.engine is None else ""


def _child_told(child: RunId, known: Known) -> str:
    """A child by name, as far as it is among those that were read."""
    line = next((line for line in known.children.newest if line.run_id == child), None)
    called = f" ({line.workflow} v{line.version})" if line is not None else ""
    return f"run {child[-8:]}{called}"


def _waiting(
    node: Node,
    place: Place,
    timers: Mapping[tuple[Place, events.TimerKind], Timer],
    waits: Mapping[Place, OpenedWait],
    known: Known,
) -> tuple[int | None, str, str]:
    """Since when, what a wait waits for, and the command that ends it."""
    wait = waits.get(place)
    if wait is not None:
        timer = timers.get((place, events.TimerKind.EVENT))
        until = f", for at most {_left(timer, known.now)}" if timer else ""
        key = "" if wait.key is None else wait.key
        payload = known.hints.get(node.id, "")
        return (
            wait.opened_at,
            f"event {wait.event} key {quoted(key)}{until}",
            send_command(wait.event, key, known.database, payload=payload),
        )
    timer = timers.get((place, events.TimerKind.WAIT))
    if timer is None:
        return None, "", ""
    began = next((event.at for seq, event in known.history if seq == timer.version), None)
    fixed = isinstance(node.detail, Wait) and node.detail.until_at is not None
    if timer.due_at <= known.now:
        return began, "its time, which has come", ""
    due = f" ({format_instant(timer.due_at)})" if fixed else ""
    return began, f"its time{_when(timer, known.now)}{due}", ""


def _awaits(node: Node, wait: OpenedWait | None, known: Known) -> tuple[str, str, str] | None:
    if wait is None or wait.key is None:
        return None
    return wait.event, wait.key, known.hints.get(node.id, "")


def _when(timer: Timer, now: int) -> str:
    left = timer.due_at - now
    return f" in {format_remaining(left)}" if left > 0 else " at once"


def _left(timer: Timer, now: int) -> str:
    return format_remaining(max(0, timer.due_at - now))


# -- as JSON ---------------------------------------------------------------------------------------


def waits_told(report: Mapping[str, Any]) -> str:
    """What a run (as `report_json` makes it) waits for, in one line; empty for one that has ended."""
    if report["state"] in FINAL_RUN_STATES:
        return ""
    if report["state"] == "paused":
        return "it is paused"
    if report["quarantine"] is not None:
        return f"it is quarantined: {report['quarantine']}"
    if report["closing"] is not None:
        return f"it is closing as {report['closing']['outcome']}"
    nodes = report["nodes"]
    lines = [f"{node['id']} waits for {node['waits_for']}" for node in nodes if node["waits_for"]]
    lines += [
        f"{node['id']} {'is at work' if node['state'] == 'running' else 'waits for a worker'}"
        for node in nodes
        if node["state"] in ("running", "ready") and not node["waits_for"]
    ]
    lines += [
        f"run {child['run_id'][-8:]} of {child['place']} waits for {child['waits_for']}"
        for child in report["children"]["newest"]
        if child["waits_for"]
    ]
    more = f"; and {len(lines) - _TOLD_MAX} more" if len(lines) > _TOLD_MAX else ""
    return "; ".join(lines[:_TOLD_MAX]) + more or "nothing is left that it waits for"


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
        "semantics": report.semantics,
        "lasted_us": report.lasted_us,
        "input": report.input,
        "vars": dict(report.vars),
        "output": report.output,
        "error": report.error,
        "quarantine": report.quarantine,
        "parent": parent_document(report.parent),
        "source": report.source,
        "epoch": report.epoch,
        "priority": report.priority,
        "compensation": report.compensation,
        "closing": closing_document(report.closing),
        "children": children_document(report.children),
        "params": report.params,
        "item": report.item,
        "go_on": report.go_on or None,
        "held_by": report.held_by or None,
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
        "command": line.command or None,
        "awaits": (
            None
            if line.awaits is None
            else dict(zip(("event", "key", "payload"), line.awaits, strict=True))
        ),
        "took": list(line.took) or None,
        "error": line.error,
        "items": items_document(line.items),
        "child": line.child or None,
        "given": line.given,
        "undo": line.undo or None,
        "undo_error": line.undo_error,
    }
