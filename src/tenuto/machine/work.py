"""Work begun at a place: a worker's task, or a child run (SEMANTICS X1, X5, F5-F7, R3).

The same for a node, an item of a foreach, a page of a list and a handler: only the place and the scope differ. Nothing
here ends a node: what cannot begin is answered as a `Failure`, and the caller decides what that means.

Names (R3): work keeps its place, and so its task id, over all epochs until it has succeeded there; then the place gets
the epoch. So in a later epoch there may be a row already: it is opened again, attempts going on, the allowance fresh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tenuto.machine import scope
from tenuto.machine.actions import CancelChild, DispatchTask, RetryChild, SetTimer, StartChild
from tenuto.machine.events import TimerKind
from tenuto.machine.snapshot import Task, Timer
from tenuto.machine.turn import Faulty, Turn, sound
from tenuto.model.definition import CALL_DEPTH_MAX, WORKER_TYPES, Amount, Call, Node, NodeType, Work
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Callee, Expression, ExpressionKind, Read, Root, Scope
from tenuto.model.failures import Failure
from tenuto.model.ids import RUN_PLACE, Place, RunId, child_run_id, parts_of, place_of, with_epoch
from tenuto.model.payload import PayloadKey, PayloadKind, Text
from tenuto.model.states import TaskState, may_move_task

CALL_NAME = "call"
"""Name and queue of a task that a child run does; no worker ever sees it."""
_NO_TASKS = frozenset(str(type) for type in WORKER_TYPES if type is not NodeType.TASK)
ITEM = Expression(ExpressionKind.VALUE, '"${item}"', "item", (Read(Root.ITEM),))
GIVEN = Expression(ExpressionKind.VALUE, '"${params}"', "params", (Read(Root.PARAMS),))
"""What a child was started with, read again for the next try."""

Sight = Callable[[Expression], Scope]
"""What an expression at this place may read."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of one piece of work, evaluated. Microseconds; None for none."""

    timeout_us: int | None
    total_timeout_us: int | None
    queue_timeout_us: int | None
    heartbeat_timeout_us: int | None


_NO_CLOCKS = Clocks(None, None, None, None)


def begin_work(turn: Turn, node: int, place: Place, work: Work, sight: Sight) -> Failure | None:
    """Create and offer the task of `place`. A failure: of its input, name or clocks; no attempt is made (X5)."""
    try:
        name = _task_name(turn, work, sight)
        queue = sound(turn.name(work.queue, sight))
        value = sound(turn.value(work.input, sight(work.input)))
        priority = turn.priority
        if work.priority is not None:
            priority = sound(turn.number(work.priority, sight))
        clocks = _clocks(turn, work, sight)
    except Faulty as faulty:
        return faulty.failure
    turn.put(place, PayloadKind.INPUT, value)
    task = _new_task(turn, node, place, name, queue, clocks, priority=priority, held=turn.is_held())
    _insert(turn, task)
    if not task.held:
        turn.actions.append(DispatchTask(turn.touched[place]))
    return None


def begin_child(
    turn: Turn,
    node: int,
    place: Place,
    call: Call,
    sight: Sight,
    *,
    index: int | None = None,
    item: bool = False,
) -> Failure | None:
    """Start the child run of `place`. A failure: of its input, its name or the depth; no child is started (F6).

    `index`: of the item that an inline graph works on. `item`: the item is this call's own, so it is evaluated and
    handed over; else an inline graph inherits what this run works on.
    """
    try:
        asked = ask(turn, call, sight, item=item)
        clocks = _child_clocks(turn, call, sight)
    except Faulty as faulty:
        return faulty.failure
    put_given(turn, place, asked)
    task = _new_task(turn, node, place, _pinned(asked.callee), CALL_NAME, clocks)
    _insert(turn, task)
    start_child(
        turn, place, call, asked.callee, index=index, item=_item_key(turn, place, item=item)
    )
    return None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a child run gets. `callee` None: it is an inline graph's. `item`: the item it works on, if it is its own."""

    callee: Callee | None
    input: Text
    item: Text | None


def ask(turn: Turn, call: Call, sight: Sight, *, item: bool) -> Asked:
    """Find out which version a call means, and what it gets. Raises Faulty: why there can be no child (F6)."""
    if turn.depth >= CALL_DEPTH_MAX:
        message = f"runs call runs {CALL_DEPTH_MAX} levels deep here: that is the limit"
        raise Faulty(Failure("call_depth", message))
    name = sound(turn.name(call.name, sight)) if call.name is not None else ""
    value = sound(turn.value(call.input, sight(call.input)))
    thing = sound(turn.value(ITEM, sight(ITEM))) if item else None
    if call.name is None:
        return Asked(None, value, thing)
    found = sound(turn.callee(name, value))
    return Asked(found, found.input, thing)


def put_given(turn: Turn, place: Place, asked: Asked) -> None:
    """Store what a child run gets, for whoever creates it."""
    if asked.callee is not None:
        turn.put(place, PayloadKind.VARS, asked.callee.vars)
    turn.put(place, PayloadKind.INPUT, asked.input)
    if asked.item is not None:
        turn.put(place, PayloadKind.ITEM, asked.item)


def call_again(turn: Turn, node: int, call: Call, child: RunId) -> Failure | None:
    """Have the final child of a call go on by a retry of its own, and wait for it again (R1)."""
    place = turn.place(node)
    row = turn.task(place)
    assert row is not None
    try:
        clocks = _child_clocks(turn, call, scope.sight(turn, node))
    except Faulty as faulty:
        return faulty.failure
    total = None if clocks.total_timeout_us is None else turn.at + clocks.total_timeout_us
    task = replace(
        opened_again(row), child=child, timeout_us=clocks.timeout_us, total_until=total, held=False
    )
    turn.update_task(task, ends_lease=False)
    turn.children += 1
    turn.actions.append(RetryChild(place, child))
    _arm_total(turn, task)
    _arm_child(turn, task)
    return None


def start_child(
    turn: Turn,
    place: Place,
    call: Call,
    callee: Callee | None,
    *,
    index: int | None,
    item: PayloadKey | None,
) -> None:
    """Start the next child of a task that stands; its attempt is in the child's id."""
    task = turn.touched[place]
    child = child_run_id(turn.at, turn.old.run_id, place, turn.epoch, task.attempt)
    turn.update_task(replace(task, child=child, ending="", held=False), ends_lease=False)
    turn.children += 1
    turn.actions.append(
        StartChild(
            place=place,
            child=child,
            callee=callee,
            inline=call.inline,
            waited=True,
            depth=turn.depth + 1,
            priority=turn.priority,
            index=index if call.inline is not None else None,
            item=item if call.inline is not None else None,
        )
    )
    _arm_child(turn, task)


def send_off(turn: Turn, place: Place, call: Call, sight: Sight) -> Failure | None:
    """Start a child that nobody waits for, and that cancel and pause do not reach (F6). Its id is the output."""
    try:
        asked = ask(turn, call, sight, item=False)
    except Faulty as faulty:
        return faulty.failure
    put_given(turn, place, asked)
    child = child_run_id(turn.at, turn.old.run_id, place, turn.epoch, 1)
    inline = call.inline is not None
    turn.actions.append(
        StartChild(
            place=place,
            child=child,
            callee=asked.callee,
            inline=call.inline,
            waited=False,
            depth=turn.depth + 1,
            priority=turn.priority,
            index=turn.index if inline else None,
            item=_item_key(turn, place, item=False) if inline else None,
        )
    )
    told = f'{{"run_id":"{child}"}}'
    turn.put(place, PayloadKind.OUTPUT, Text(len(told), told))
    return None


def start_again(turn: Turn, task: Task, call: Call) -> Failure | None:
    """Start the next child after a back-off: of the same version, with the same input (F6)."""
    callee: Callee | None = None
    if call.name is not None:
        try:
            given = sound(turn.value(GIVEN, scope.of_given(turn, task.place)))
            callee = sound(turn.callee(task.name, given))
        except Faulty as faulty:
            return faulty.failure
    own = parts_of(task.place).index
    turn.update_task(replace(task, state=TaskState.PENDING), ends_lease=False)
    item = _item_key(turn, task.place, item=own is not None)
    index = turn.index if own is None else own
    start_child(turn, task.place, call, callee, index=index, item=item)
    return None


def end_child(turn: Turn, task: Task, reason: str) -> None:
    """Cancel the child under way, and wait for its end still; `reason`: what that end means then (F6)."""
    assert task.child is not None
    if not task.ending:
        turn.actions.append(CancelChild(task.place, task.child))
    turn.update_task(replace(task, ending=reason), ends_lease=False)


def dead_on_arrival(turn: Turn, node: int, place: Place, work: Work | Call) -> None:
    """Insert the task of an item that could not begin, dead, so that it is listed with the others (X5)."""
    given = work.name if isinstance(work, Work) else CALL_NAME
    name = given if isinstance(given, str) else ""
    dead = replace(_new_task(turn, node, place, name, CALL_NAME, _NO_CLOCKS), state=TaskState.DEAD)
    row = _earlier(turn, place)
    if row is None:
        turn.create_task(dead)
    elif row.state is not TaskState.DEAD:
        turn.update_task(replace(row, state=TaskState.DEAD), ends_lease=False)


def queue_until(turn: Turn, queue_timeout_us: int | None) -> int | None:
    """When waiting for a worker becomes a failure; it does not pass while the run is paused (C6)."""
    return None if queue_timeout_us is None or turn.is_held() else turn.at + queue_timeout_us


def _new_task(
    turn: Turn,
    node: int,
    place: Place,
    name: str,
    queue: str,
    clocks: Clocks,
    *,
    priority: int = 0,
    held: bool = False,
) -> Task:
    """A task's first row: pending, in its first attempt."""
    total = clocks.total_timeout_us
    return Task(
        place=place,
        node=node,
        name=name,
        queue=queue,
        priority=priority,
        state=TaskState.PENDING,
        attempt=1,
        lost=0,
        input_seq=turn.seq,
        timeout_us=clocks.timeout_us,
        heartbeat_us=clocks.heartbeat_timeout_us,
        queue_timeout_us=clocks.queue_timeout_us,
        total_until=None if total is None else turn.at + total,
        queue_until=queue_until(turn, clocks.queue_timeout_us),
        held=held,
        ended_lease=None,
    )


# -- identity (R3) ------------------------------------------------------------------------------------------------


def identify(turn: Turn, node: int) -> None:
    """Name the place of a node that acts: `turn.place` is right from here on.

    In a later epoch work goes on at its last place until it has succeeded there. What has no task of its own gets the
    epoch at once: a list evaluated anew has new items.
    """
    if turn.epoch == 1:
        return
    epoch = _epoch_of_work(turn, node) if does_task(turn.node(node)) else turn.epoch
    if epoch == 1:
        turn.ids.pop(node, None)
    else:
        turn.ids[node] = epoch


def does_task(node: Node) -> bool:
    """Whether the node's own place has a task row."""
    return isinstance(node.detail, Work) or (isinstance(node.detail, Call) and node.detail.wait)


def count_attempts(turn: Turn, node: int) -> None:
    """Note how often the node's work was begun in all, where it is more than once."""
    attempt = turn.touched[turn.place(node)].attempt
    if attempt > 1:
        turn.attempts[node] = attempt
    else:
        turn.attempts.pop(node, None)


def late(turn: Turn, place: Place) -> bool:
    """Take work as done that was cancelled, succeeded after that (F8), and is to begin again: its output stands.

    The caller ends it `success` then, and does not begin it.
    """
    row = _earlier(turn, place)
    if row is None or not row.late:
        return False
    _check_move(row, TaskState.SUCCESS)
    turn.update_task(replace(row, state=TaskState.SUCCESS, late=False), ends_lease=False)
    return True


def refuse_late(turn: Turn, place: Place) -> None:
    """A late success whose output is none after all: its work is to be done again, by another attempt."""
    row = _earlier(turn, place)
    assert row is not None
    turn.update_task(replace(row, late=False, attempt=row.attempt + 1), ends_lease=False)


def is_late(turn: Turn, place: Place) -> bool:
    """Whether work that is to begin again has succeeded meanwhile (F8)."""
    row = _earlier(turn, place)
    return row is not None and row.late


def opened_again(row: Task) -> Task:
    """A task that did not succeed, pending once more: attempts go on, the allowance is fresh (R1, R3).

    An attempt that nothing was heard of keeps its number: it may be under way still, and its report counts.
    """
    _check_move(row, TaskState.PENDING)
    attempt = row.attempt + 1 if row.state is TaskState.DEAD else row.attempt
    return replace(
        row,
        state=TaskState.PENDING,
        attempt=attempt,
        spent=attempt - 1,
        lost=0,
        rules=(),
        ending="",
    )


def _epoch_of_work(turn: Turn, node: int) -> int:
    """The epoch in the name of a node's task: places with one exist only where the work before it has succeeded."""
    bare = _bare_place(turn, node)
    woken = (n for n in turn.woken() if does_task(turn.node(n)))
    turn.foresee([bare, *(_bare_place(turn, n) for n in woken)])
    row = turn.task(bare)
    if row is None or row.state is not TaskState.SUCCESS:
        return 1
    later = [with_epoch(bare, epoch) for epoch in range(2, turn.epoch)]
    turn.foresee(later)
    for place in reversed(later):
        row = turn.task(place)
        if row is not None and row.state is not TaskState.SUCCESS:
            return parts_of(place).epoch
        if row is not None:
            break
    return turn.epoch


def _bare_place(turn: Turn, node: int) -> Place:
    return place_of(turn.node(node).id, turn.passes_of(node))


def _earlier(turn: Turn, place: Place) -> Task | None:
    """The task of an earlier epoch that stands at this place. A place with this epoch in its name is new."""
    return turn.task(place) if parts_of(place).epoch < turn.epoch else None


def _check_move(row: Task, target: TaskState) -> None:
    if not may_move_task(row.state, "", target):
        raise InvariantViolated(f"task {row.place} does not move from {row.state} to {target}")


def _insert(turn: Turn, task: Task) -> None:
    """Insert the task of a place, or open again the one that stands there."""
    row = _earlier(turn, task.place)
    if row is None:
        turn.create_task(task)
    else:
        again = opened_again(row)
        task = replace(task, attempt=again.attempt, spent=again.spent, ended_lease=row.ended_lease)
        turn.update_task(task, ends_lease=False)
    _arm_total(turn, task)


def _arm_total(turn: Turn, task: Task) -> None:
    if task.total_until is not None:
        timer = Timer(task.place, TimerKind.TOTAL, task.total_until, turn.seq)
        turn.actions.append(SetTimer(timer))


def _arm_child(turn: Turn, task: Task) -> None:
    if task.timeout_us is not None:
        timer = Timer(task.place, TimerKind.CHILD, turn.at + task.timeout_us, turn.seq)
        turn.actions.append(SetTimer(timer))


def _pinned(callee: Callee | None) -> str:
    """The name of a call's task: which version it means for good."""
    return CALL_NAME if callee is None else f"{callee.workflow}@{callee.version}"


def _item_key(turn: Turn, place: Place, *, item: bool) -> PayloadKey | None:
    if item:
        return PayloadKey(place, PayloadKind.ITEM)
    return PayloadKey(RUN_PLACE, PayloadKind.ITEM) if turn.index is not None else None


def _task_name(turn: Turn, work: Work, sight: Sight) -> str:
    """Data may choose among tasks, and nothing else: not code to run, not requests to send."""
    name = sound(turn.name(work.name, sight))
    if isinstance(work.name, Expression) and name in _NO_TASKS:
        message = f"{work.name.where} yields `{name}`, which is no task"
        raise Faulty(Failure("expression_error", message))
    return name


def _clocks(turn: Turn, work: Work, sight: Sight) -> Clocks:
    return Clocks(
        _optional(turn, work.timeout_us, sight),
        _optional(turn, work.total_timeout_us, sight),
        _optional(turn, work.queue_timeout_us, sight),
        _optional(turn, work.heartbeat_timeout_us, sight),
    )


def _child_clocks(turn: Turn, call: Call, sight: Sight) -> Clocks:
    timeout = _optional(turn, call.timeout_us, sight)
    return Clocks(timeout, _optional(turn, call.total_timeout_us, sight), None, None)


def _optional(turn: Turn, amount: Amount | None, sight: Sight) -> int | None:
    return None if amount is None else sound(turn.number(amount, sight))
