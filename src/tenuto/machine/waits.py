"""Waiting: for a while, until a moment, for an event; and emitting one (SEMANTICS "Waits and events").

A message is used by the decision that ends the wait, and by no other. Which one is meant is for the wait to say: the
oldest whose `match` holds, looked for in the mailbox when the wait begins, and offered one by one afterwards.
"""

from __future__ import annotations

from tenuto.machine import scope
from tenuto.machine.actions import (
    ClearTimers,
    CloseWait,
    OpenWait,
    PostMessage,
    SetTimer,
    UseMessage,
)
from tenuto.machine.events import (
    EventReceived,
    HeartbeatReceived,
    Rejection,
    TimerFired,
    TimerKind,
)
from tenuto.machine.snapshot import OpenedWait, Timer
from tenuto.machine.tokens import die, succeed
from tenuto.machine.turn import Faulty, Turn, sound
from tenuto.machine.work import Sight
from tenuto.model.definition import Emit, Wait, WaitForEvent
from tenuto.model.expressions import Expression, ExpressionKind, Fault, Message, Read, Root
from tenuto.model.failures import Failure
from tenuto.model.ids import Place
from tenuto.model.payload import PayloadKind, Text

LOOKS_MAX = 100
"""Messages that a wait looks at when it begins; what lies deeper is offered to it one by one."""


def begin_wait(turn: Turn, node: int, wait: Wait) -> None:
    """Set the timer; a wait already due ends at once (T7)."""
    amount = wait.for_us if wait.for_us is not None else wait.until_at
    assert amount is not None
    said = turn.number(amount, scope.sight(turn, node))
    if isinstance(said, Fault):
        die(turn, node, Failure(said.code, said.message))
        return
    due = turn.at + said if wait.for_us is not None else said
    if due <= turn.at:
        succeed(turn, node)
        return
    turn.actions.append(SetTimer(Timer(turn.place(node), TimerKind.WAIT, due, turn.seq)))


def begin_wait_for_event(turn: Turn, node: int, wait: WaitForEvent) -> None:
    """Take the message if it is there, else wait for it."""
    sight = scope.sight(turn, node)
    try:
        event = sound(turn.name(wait.event, sight))
        key = sound(_key(turn, node, wait))
    except Faulty as faulty:
        die(turn, node, faulty.failure)
        return
    found = _look(turn, node, wait, event, key)
    if found is not None and found.id is not None:
        turn.actions.append(UseMessage(found.id))
        _end(turn, node, wait, found.payload)
        return
    place = turn.place(node)
    due: dict[TimerKind, int] = {}
    for kind, amount in (
        (TimerKind.EVENT, wait.timeout_us),
        (TimerKind.HEARTBEAT, wait.heartbeat_timeout_us),
    ):
        if amount is not None:
            said = turn.number(amount, sight)
            if isinstance(said, Fault):
                die(turn, node, Failure(said.code, said.message))
                return
            due[kind] = turn.at + said
    turn.actions.append(OpenWait(OpenedWait(place, event, key.text, turn.seq, turn.at)))
    for kind, moment in due.items():
        turn.actions.append(SetTimer(Timer(place, kind, moment, turn.seq)))


def emit(turn: Turn, node: int, it: Emit) -> None:
    """Put a message into the mailbox, and end."""
    failure = post(turn, turn.place(node), it, scope.sight(turn, node))
    if failure is not None:
        die(turn, node, failure)
    else:
        succeed(turn, node)


def post(turn: Turn, place: Place, it: Emit, sight: Sight) -> Failure | None:
    """Put the message of `place` into the mailbox. Its id is (run, node, iterations, epoch), which is the place."""
    try:
        event = sound(turn.name(it.event, sight))
        key = sound(turn.value(it.key, sight(it.key)))
        payload = sound(turn.value(it.payload, sight(it.payload)))
        keep = None if it.keep_us is None else sound(turn.number(it.keep_us, sight))
    except Faulty as faulty:
        return faulty.failure
    turn.actions.append(PostMessage(event, key, payload, f"{turn.old.run_id}/{place}", keep))
    return None


def on_event(turn: Turn, event: EventReceived) -> Rejection | None:
    """A message was offered to an open wait. One that its `match` does not mean stays in the mailbox."""
    node = _waiting(turn, event)
    if node is None:
        return Rejection.STALE
    it = _wait_of(turn, node)
    if not _matches(turn, node, it, event.payload):
        return Rejection.NO_MATCH
    _close(turn, node, it)
    turn.actions.append(UseMessage(event.message_id))
    _end(turn, node, it, event.payload)
    return None


def on_heartbeat(turn: Turn, event: HeartbeatReceived) -> Rejection | None:
    """A sign of life: the silence is counted anew. A wait without `heartbeat_timeout` needs none."""
    node = _waiting(turn, event)
    if node is None:
        return Rejection.STALE
    amount = _wait_of(turn, node).heartbeat_timeout_us
    if amount is None:
        return Rejection.STALE
    said = turn.number(amount, scope.sight(turn, node))
    if isinstance(said, Fault):
        return Rejection.STALE  # it could be evaluated when the wait began, so that one stands
    turn.actions.append(ClearTimers(event.place, TimerKind.HEARTBEAT))
    timer = Timer(event.place, TimerKind.HEARTBEAT, turn.at + said, turn.seq)
    turn.actions.append(SetTimer(timer))
    return None


def on_timer(turn: Turn, event: TimerFired) -> Rejection | None:
    """The wait is over, or nothing came in time."""
    node = turn.active_at(event.place)
    if node is None:
        return Rejection.STALE
    if event.kind is TimerKind.WAIT:
        turn.actions.append(ClearTimers(event.place, event.kind))
        succeed(turn, node)
        return None
    _close(turn, node, _wait_of(turn, node))
    if event.kind is TimerKind.HEARTBEAT:
        failure = Failure("heartbeat_timeout", "no heartbeat came within heartbeat_timeout")
    else:
        failure = Failure("timeout", "no event came within the timeout")
    die(turn, node, failure)
    return None


def _waiting(turn: Turn, event: EventReceived | HeartbeatReceived) -> int | None:
    """The node whose open wait an event means, or None: it is closed, another one's, or the run is over (C7)."""
    wait = turn.rows.waits.get(event.place)
    if wait is None or wait.version != event.version or turn.is_final():
        return None
    return turn.active_at(event.place)


def _wait_of(turn: Turn, node: int) -> WaitForEvent:
    detail = turn.node(node).detail
    assert isinstance(detail, WaitForEvent)
    return detail


def _key(turn: Turn, node: int, wait: WaitForEvent) -> Text | Fault:
    if wait.key is not None:
        return turn.value(wait.key, scope.of_node(turn, node, wait.key))
    text = scope.callback_key(turn, node)
    return Text(len(text.encode()), text)


def _look(turn: Turn, node: int, wait: WaitForEvent, event: str, key: Text) -> Message | None:
    """The oldest message that the wait means, or None."""
    after = None
    for _ in range(LOOKS_MAX):
        message = turn.message(event, key, after)
        if message.id is None:
            return None
        if _matches(turn, node, wait, message.payload):
            return message
        after = message.id
    return None


def _matches(turn: Turn, node: int, wait: WaitForEvent, payload: Text) -> bool:
    """An error in `match` is no match."""
    if wait.match is None:
        return True
    return turn.holds(wait.match, scope.of_message(turn, node, wait.match, payload)) is True


def _close(turn: Turn, node: int, wait: WaitForEvent) -> None:
    place = turn.place(node)
    turn.actions.append(CloseWait(place))
    turn.actions.append(ClearTimers(place, TimerKind.EVENT))
    if wait.heartbeat_timeout_us is not None:
        turn.actions.append(ClearTimers(place, TimerKind.HEARTBEAT))


def _end(turn: Turn, node: int, wait: WaitForEvent, payload: Text) -> None:
    """The message is the output, or the failure that `fail_when` sees in it."""
    place = turn.place(node)
    if wait.fail_when is not None:
        failed = turn.holds(wait.fail_when, scope.of_message(turn, node, wait.fail_when, payload))
        if isinstance(failed, Fault):
            die(turn, node, Failure(failed.code, failed.message))
            return
        if failed:
            told = _event_error(turn.node(node).id)
            error = turn.value(told, scope.of_message(turn, node, told, payload))
            if isinstance(error, Fault):
                die(turn, node, Failure(error.code, error.message))
                return
            turn.put(place, PayloadKind.ERROR, error)
            die(turn, node, None)
            return
    turn.put(place, PayloadKind.OUTPUT, payload)
    succeed(turn, node)


def _event_error(node: str) -> Expression:
    where = f"nodes.{node}.fail_when"
    return Expression(ExpressionKind.EVENT_ERROR, node, where, (Read(Root.EVENT),))
