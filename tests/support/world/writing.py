"""Writing what a decision orders, as the store does, with the store's own doubts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, assert_never

from tests.support.world.answers import parts_of_output
from tests.support.world.attempts import check_backoff, check_update, is_child_work
from tests.support.world.family import Notice, Posted, inline_texts

from tenuto.machine import actions as act
from tenuto.machine import codec
from tenuto.machine.events import Event, RunReplayed, TimerKind
from tenuto.machine.snapshot import Task
from tenuto.model.ids import MessageId, Place, RunId, parts_of
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import FINAL_TASK_STATES, RunState, TaskState
from tenuto.ports.store import NoticeKind

if TYPE_CHECKING:
    from tests.support.world.run import World

REARMED = frozenset({TimerKind.HEARTBEAT})
"""Timers that may be set where one stands."""


def write(world: World, action: act.Action, event: Event) -> None:
    """Write one order, then let the ledger apply it as the fold does."""
    _write(world, action, event)
    world.ledger.apply([action])
    if isinstance(action, act.ReleaseTasks):
        world.ready |= {
            place
            for place, task in world.ledger.tasks.items()
            if task.state is TaskState.PENDING
            and place not in world.leases
            and not is_child_work(world, task)
        }


def _write(world: World, action: act.Action, event: Event) -> None:
    ledger, seq = world.ledger, world.snapshot.seq
    match action:
        case act.CreateTask(task=task):
            _check_new(world, task)
        case act.UpdateTask(task=task, ends_lease=ends_lease):
            check_update(world, ledger.tasks[task.place], task, event)
            if ends_lease:
                world.leases.pop(task.place, None)
            world.ready.discard(task.place)
        case act.CancelTask(place=place):
            assert ledger.tasks[place].state not in FINAL_TASK_STATES, f"I4: {place}"
            world.ready.discard(place)
        case act.DispatchTask(task=task):
            assert ledger.tasks[task.place] == task
            assert task.state is TaskState.PENDING
            assert not task.held
            assert not is_child_work(world, task), f"{task.place} is for a child"
            leased = task.place in world.leases and not world.checking.was_reopened(task)
            assert not leased, f"I2: {task.place} is leased"
            assert task.place not in world.ready, f"I6: {task.place} is ready twice"
            world.ready.add(task.place)
        case act.SetTimer(timer=timer):
            standing = (timer.place, timer.kind) in ledger.timers and timer.kind not in REARMED
            assert not standing, f"I6: {timer}"
            assert timer.version == seq
            assert timer.due_at >= world.snapshot.at
            if timer.kind is TimerKind.BACKOFF:
                check_backoff(world, timer, event)
        case act.OpenWait(wait=wait):
            assert wait.place not in ledger.waits, f"I6: {wait}"
            assert (wait.version, wait.opened_at) == (seq, world.snapshot.at)
        case act.UseMessage(message_id=message_id):
            _use(world, message_id)
        case act.PutPayload(key=key, value=value):
            assert (key, seq) not in world.payloads, f"{key} is put twice by one event"
            assert value.text is not None
            assert value.size == len(value.text.encode())
            world.payloads[key, seq] = value
        case act.DropPayloads(places=places):
            for key, at in list(world.payloads):
                if key.place in places:
                    del world.payloads[key, at]
        case act.PostMessage():
            _post(world, action)
        case act.HoldTasks() | act.CloseRun():
            world.ready.clear()
            if isinstance(action, act.CloseRun):
                _tell_cancel(world, _open_children_of_open_tasks(world))
        case act.CancelItems(place=place):
            _cancel_items(world, place)
        case act.SettleRun():
            _settle(world, action)
        case act.ReopenRun():
            assert world.settled is not None
            world.settled = None
            world.heard.clear()
        case act.CopyKept():
            assert isinstance(event, RunReplayed)
            _copy(world, action)
        case (
            act.StartChild()
            | act.CancelChild()
            | act.RetryChild()
            | act.TerminateChildren()
            | act.TellChildren()
            | act.TellParent()
        ):
            _tell(world, action)
        case act.ClearTimers() | act.CloseWait() | act.ReleaseTasks() | act.ShiftTimers():
            pass
        case _:
            assert_never(action)


# -- tasks ----------------------------------------------------------------------------------------------------------


def _check_new(world: World, task: Task) -> None:
    ledger, seq = world.ledger, world.snapshot.seq
    assert task.place not in ledger.tasks, f"{task.place} is created twice"
    assert (task.attempt, task.lost, task.spent) == (1, 0, 0), task
    if task.state is TaskState.DEAD:
        assert (PayloadKey(task.place, PayloadKind.ERROR), seq) in world.payloads
        return
    assert task.state is TaskState.PENDING, task
    assert task.input_seq == seq
    assert (PayloadKey(task.place, PayloadKind.INPUT), seq) in world.payloads


def _cancel_items(world: World, foreach: Place) -> None:
    told = []
    for task in world.ledger.tasks.values():
        parts = parts_of(task.place)
        mine = parts.owner == foreach and not parts.undo and task.place != foreach
        if mine and task.state not in FINAL_TASK_STATES:
            world.ready.discard(task.place)
            if task.child is not None:
                told.append((task.place, task.child))
    _tell_cancel(world, told)


# -- messages -------------------------------------------------------------------------------------------------------


def _use(world: World, message_id: MessageId) -> None:
    assert message_id not in world.family.used, f"I8: {message_id} is used twice"
    world.family.used.add(message_id)
    found = [m for m in world.mailbox if m.message_id == message_id]
    assert found, f"{message_id} is not in the mailbox"
    world.mailbox.remove(found[0])


def _post(world: World, action: act.PostMessage) -> None:
    assert action.key.text is not None
    assert action.payload.text is not None
    if action.event_id in world.family.posted:
        return
    world.family.posted.add(action.event_id)
    message = MessageId(f"emitted-{action.event_id}")
    world.mailbox.append(Posted(message, action.event, action.key.text, action.payload.text))


# -- notices --------------------------------------------------------------------------------------------------------

Telling = (
    act.StartChild
    | act.CancelChild
    | act.RetryChild
    | act.TerminateChildren
    | act.TellChildren
    | act.TellParent
)


def _tell(world: World, action: Telling) -> None:
    family = world.family
    match action:
        case act.StartChild():
            _start(world, action)
        case act.CancelChild(place=place, child=child, terminate=terminate):
            assert world.ledger.tasks[place].child == child, f"{place} has no child {child}"
            kind = NoticeKind.TERMINATE if terminate else NoticeKind.CANCEL
            family.write(Notice(target=child, kind=kind, place=place, sender=world.run_id))
        case act.RetryChild(place=place, child=child):
            assert world.ledger.tasks[place].child == child, f"{place} has no child {child}"
            if child in family.worlds:
                assert family.worlds[child].is_final, f"{child} is not final"
            family.write(
                Notice(target=child, kind=NoticeKind.RETRY, place=place, sender=world.run_id)
            )
        case act.TerminateChildren():
            for place, child in world.open_children().items():
                family.write(
                    Notice(
                        target=child, kind=NoticeKind.TERMINATE, place=place, sender=world.run_id
                    )
                )
        case act.TellChildren(freeze=freeze):
            for place, child in world.open_children().items():
                family.write(
                    Notice(
                        target=child,
                        kind=NoticeKind.PAUSE,
                        place=place,
                        sender=world.run_id,
                        freeze=freeze,
                    )
                )
        case act.TellParent(parent=parent, place=place):
            assert world.snapshot.parent == (parent, place)
            assert world.is_final
            family.write(
                Notice(target=parent, kind=NoticeKind.SETTLED, place=place, sender=world.run_id)
            )
        case _:
            assert_never(action)


def _start(world: World, order: act.StartChild) -> None:
    assert all(order.child != earlier.child for earlier in world.started), f"{order.child} twice"
    if order.waited:
        assert world.ledger.tasks[order.place].child == order.child
        world.handed.add(order.place)
    world.started.append(order)
    world.tries[order.place] += 1
    notice = Notice(
        target=order.child,
        kind=NoticeKind.START,
        place=order.place,
        sender=world.run_id,
        start=order,
        given=inline_texts(world, order),
    )
    world.family.write(notice)


def _open_children_of_open_tasks(world: World) -> Iterator[tuple[Place, RunId]]:
    for place, child in world.open_children().items():
        if world.ledger.tasks[place].state not in FINAL_TASK_STATES:
            yield place, child


def _tell_cancel(
    world: World, children: Iterator[tuple[Place, RunId]] | list[tuple[Place, RunId]]
) -> None:
    for place, child in list(children):
        world.family.write(
            Notice(target=child, kind=NoticeKind.CANCEL, place=place, sender=world.run_id)
        )


# -- the end and the beginning --------------------------------------------------------------------------------------


def _settle(world: World, action: act.SettleRun) -> None:
    assert world.settled is None, "a run settles once"
    world.settled = action
    assert action.state is world.snapshot.state
    assert action.at == world.snapshot.at
    assert action.compensation == world.snapshot.compensation
    assert (action.output is None) or action.state is RunState.SUCCESS
    assert codec.decode_output(codec.encode_output(action.output)) == action.output
    for part in parts_of_output(action.output):
        if isinstance(part, PayloadKey):
            assert world.newest(part) is not None, f"{part} of the run's output was never put"
    without = action.state is RunState.SUCCESS or world.checking.undoing.ended_as_cancelled()
    assert (action.error is None) == without, action
    if action.error is not None:
        assert world.newest(action.error) is not None


def _copy(world: World, action: act.CopyKept) -> None:
    """R2: exactly what S leaves alone is taken over."""
    kept = {parts_of(key.place).node for key, seq in world.payloads if not seq}
    assert not kept & set(action.but), f"{kept} and {action.but}"
    source = world.family.worlds[action.source]
    ids = {node.id for node in world.graph.definition.nodes}
    for key, _ in source.payloads:
        parts = parts_of(key.place)
        if parts.node in ids - set(action.but) and not parts.undo:
            assert (key, 0) in world.payloads, f"R2: {key} is in S and kept"
