"""Events with conditions, heartbeats, callbacks and emitting (SEMANTICS "Waits and events", X4, X6)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.graphs import condition, graph, key, value
from tests.support.world import RUN, World

from tenuto.machine.actions import PostMessage
from tenuto.machine.events import HeartbeatReceived, Rejection, TimerKind
from tenuto.model.definition import Emit, SetValue, Wait, WaitForEvent, Work
from tenuto.model.expressions import (
    Expression,
    ExpressionKind,
    Fault,
    Read,
    Root,
    Scope,
)
from tenuto.model.ids import Place
from tenuto.model.instants import SECOND_US
from tenuto.model.payload import PayloadKind

W = {"w": "wait_for_event"}
FAULT = Fault("expression_error", "no such key")
GOOD = condition("event.good")
BAD = condition("event.bad")


def waiting(
    detail: WaitForEvent, texts: dict[str, object], edges: str = "w -> a; w -failure-> b"
) -> World:
    types = {"w": "wait_for_event", "a": "wait", "b": "wait"}
    return World(graph(edges, types=types, details={"w": detail}), texts)  # type: ignore[arg-type]


def is_two(scope: Scope, call: int) -> bool:
    assert scope.event is not None
    return scope.event.text == "2"


def an_event(text: str) -> object:
    def says(scope: Scope, call: int) -> str:
        assert scope.event is not None
        return text

    return says


def beat(world: World, place: str = "w") -> HeartbeatReceived:
    wait = world.ledger.waits[Place(place)]
    return HeartbeatReceived(at=world.now, place=wait.place, version=wait.version)


# -- match --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("W6.1")
def test_a_message_that_match_does_not_mean_is_refused_and_stays() -> None:
    world = waiting(WaitForEvent("w", key('"k"'), match=GOOD), {GOOD.text: is_two}).start()
    world.put_message("w", payload="1")
    offered = world.match()
    assert offered is not None

    assert world.send(offered).rejected is Rejection.NO_MATCH
    assert world.letters == "a.."
    assert [message.payload for message in world.mailbox] == ["1"]


@pytest.mark.rule("X4.2")
def test_a_message_that_match_means_ends_the_wait() -> None:
    world = waiting(WaitForEvent("w", key('"k"'), match=GOOD), {GOOD.text: is_two}).start()

    world.post("w", payload="2")

    assert world.letters == "sak"
    assert world.payload("w", PayloadKind.OUTPUT) == "2"


@pytest.mark.rule("W6.1")
def test_an_error_in_match_counts_as_no_match() -> None:
    world = waiting(WaitForEvent("w", key('"k"'), match=GOOD), {GOOD.text: FAULT}).start()
    world.put_message("w")
    offered = world.match()
    assert offered is not None

    assert world.send(offered).rejected is Rejection.NO_MATCH


def test_a_wait_that_begins_takes_the_oldest_message_that_it_means() -> None:
    world = waiting(WaitForEvent("w", key('"k"'), match=GOOD), {GOOD.text: is_two})
    for payload in "1", "2", "3":
        world.put_message("w", payload=payload)
    world.start()

    assert world.letters == "sak"
    assert [message.payload for message in world.mailbox] == ["1", "3"]


def test_a_wait_that_finds_only_others_messages_opens() -> None:
    world = waiting(WaitForEvent("w", key('"k"'), match=GOOD), {GOOD.text: is_two})
    world.put_message("w", payload="1")
    world.start()

    assert (world.letters, list(world.ledger.waits)) == ("a..", ["w"])
    assert len(world.mailbox) == 1


# -- fail_when ----------------------------------------------------------------------------------------------------


@pytest.mark.rule("X4.2", "W4.1")
@pytest.mark.parametrize("before", [True, False])
def test_fail_when_makes_the_event_s_error_the_node_s(*, before: bool) -> None:
    told = '{"code":"declined","details":null,"kind":"task","message":"no","node":"w"}'
    texts = {BAD.text: True, "w": an_event(told)}
    world = waiting(WaitForEvent("w", key('"k"'), fail_when=BAD), texts)
    if before:
        world.put_message("w", payload='{"error":"no"}')
        world.start()
    else:
        world.start().post("w", payload='{"error":"no"}')

    assert world.letters == "xka"
    assert world.error("w") == told
    assert not world.mailbox


def test_fail_when_that_does_not_hold_lets_the_event_be() -> None:
    world = waiting(WaitForEvent("w", key('"k"'), fail_when=BAD), {BAD.text: False}).start()

    world.post("w", payload="7")

    assert world.letters == "sak"


@pytest.mark.rule("W4.1", "W6.1")
def test_an_error_in_fail_when_is_the_node_s() -> None:
    world = waiting(WaitForEvent("w", key('"k"'), fail_when=BAD), {BAD.text: FAULT}).start()

    world.post("w")

    assert world.letters == "xka"
    assert json.loads(world.error("w"))["code"] == "expression_error"
    assert not world.mailbox


# -- clocks -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("C7.2", "W4.1")
def test_a_heartbeat_starts_the_silence_anew() -> None:
    detail = WaitForEvent("w", key('"k"'), heartbeat_timeout_us=10 * SECOND_US)
    world = waiting(detail, {}).start()
    first = world.timer("w", TimerKind.HEARTBEAT)
    world.now += 7 * SECOND_US

    world.accept(beat(world))

    second = world.timer("w", TimerKind.HEARTBEAT)
    assert second.due_at == first.due_at + 7 * SECOND_US
    assert world.send(world.firing_of(first)).rejected is Rejection.STALE


@pytest.mark.rule("W4.1", "W6.3")
def test_a_missed_heartbeat_ends_the_wait() -> None:
    detail = WaitForEvent(
        "w", key('"k"'), timeout_us=SECOND_US * 60, heartbeat_timeout_us=SECOND_US
    )
    world = waiting(detail, {}).start()

    world.fire("w", TimerKind.HEARTBEAT)

    assert world.letters == "xka"
    assert json.loads(world.error("w"))["code"] == "heartbeat_timeout"
    assert not world.ledger.waits
    assert not [kind for place, kind in world.ledger.timers if place == "w"]


@pytest.mark.rule("W6.3")
def test_a_heartbeat_to_a_wait_that_needs_none_or_is_over_has_no_effect() -> None:
    world = waiting(WaitForEvent("w", key('"k"')), {}).start()
    late = beat(world)

    assert world.send(late).rejected is Rejection.STALE
    world.post("w")
    assert world.send(late).rejected is Rejection.STALE


def test_an_event_ends_the_heartbeat_s_clock_too() -> None:
    detail = WaitForEvent("w", key('"k"'), heartbeat_timeout_us=SECOND_US)
    world = waiting(detail, {}).start()

    world.post("w")

    assert not [kind for place, kind in world.ledger.timers if place == "w"]


# -- the callback key ---------------------------------------------------------------------------------------------


@pytest.mark.rule("W4.1")
def test_a_wait_without_a_key_waits_under_its_callback_key() -> None:
    world = waiting(WaitForEvent("w", None), {}).start()

    assert world.ledger.waits[Place("w")].key == f"{RUN}/w"


@pytest.mark.rule("X4.5", "W4.1")
def test_X4_an_earlier_step_reads_the_callback_key_of_a_wait_that_comes_later() -> None:
    reads = (Read(Root.NODES, "w", "callback_key"),)
    text = replace(value('"${nodes.w.callback_key}"'), reads=reads)
    world = World(
        graph("a -> w", types={"a": "set", **W}, details={"a": SetValue(text)}), {text.text: "1"}
    ).start()

    [view] = world.last_asked(text.where).scope.nodes
    assert (view.callback_key, view.status) == (f"{RUN}/w", "pending")


@pytest.mark.rule("X6.1")
def test_X6_a_node_knows_when_it_began_and_what_it_is_called() -> None:
    text = replace(value('"${node.entered_at}"'), reads=(Read(Root.NODE, "", "entered_at"),))
    world = World(graph("a", types={"a": "set"}, details={"a": SetValue(text)}), {text.text: "1"})
    world.start()

    itself = world.last_asked(text.where).scope.itself
    assert itself is not None
    assert (itself.entered_at, itself.callback_key, itself.seed) == (
        world.snapshot.at,
        f"{RUN}/a",
        f"{RUN}/a",
    )


# -- emit ---------------------------------------------------------------------------------------------------------


def emitting(texts: dict[str, object], **more: object) -> World:
    detail = Emit("told", key('"who"'), value('{"a":1}'), **more)  # type: ignore[arg-type]
    types = {"e": "emit", "a": "wait", "b": "wait"}
    return World(graph("e -> a; e -failure-> b", types=types, details={"e": detail}), texts)  # type: ignore[arg-type]


def posts(world: World) -> list[PostMessage]:
    return [a for a in world.decision.actions if isinstance(a, PostMessage)]


@pytest.mark.rule("T7.2", "W3.3", "W6.4")
def test_emit_puts_one_message_into_the_mailbox_and_goes_on() -> None:
    world = emitting({'"who"': "who", '{"a":1}': '{"a":1}'}).start()

    [post] = posts(world)
    assert (post.event, post.key.text, post.payload.text) == ("told", "who", '{"a":1}')
    assert post.event_id == f"{RUN}/e"
    assert world.letters == "sak"


def test_emit_says_how_long_its_message_is_kept() -> None:
    world = emitting({'"who"': "who", '{"a":1}': "1"}, keep_us=SECOND_US).start()

    assert [post.keep_us for post in posts(world)] == [SECOND_US]


def test_X5_an_error_in_what_is_emitted_ends_the_node_dead_and_nothing_is_sent() -> None:
    world = emitting({'"who"': FAULT}).start()

    assert (world.letters, posts(world)) == ("xka", [])


# -- computed -----------------------------------------------------------------------------------------------------


def computed(kind: ExpressionKind, text: str) -> Expression:
    return Expression(kind, text, text)


@pytest.mark.rule("X1.1")
def test_X1_the_length_of_a_wait_may_be_computed() -> None:
    amount = computed(ExpressionKind.DURATION, "${input.pause}")
    texts = {amount.text: 5 * SECOND_US}
    world = World(graph("w", types={"w": "wait"}, details={"w": Wait(for_us=amount)}), texts)
    world.start()

    assert world.timer("w", TimerKind.WAIT).due_at == world.now + 5 * SECOND_US


def test_X1_an_event_s_name_may_be_computed() -> None:
    name = computed(ExpressionKind.NAME, "${input.topic}")
    world = waiting(WaitForEvent(name, key('"k"')), {name.text: "topic-7"}).start()

    assert world.ledger.waits[Place("w")].event == "topic-7"


@pytest.mark.parametrize("name", ["http", "code"])
def test_X1_data_may_choose_a_task_and_neither_code_nor_a_request(name: str) -> None:
    chosen = computed(ExpressionKind.NAME, "${input.task}")
    work = Work(chosen, value("{}"))
    types = {"b": "wait"}
    world = World(
        graph("a -failure-> b", types=types, details={"a": work}), {chosen.text: name}
    ).start()

    assert world.letters == "xa"
    assert not world.ledger.tasks
    assert "is no task" in world.error("a")


def test_X1_a_length_that_cannot_be_computed_ends_the_node_dead() -> None:
    amount = computed(ExpressionKind.DURATION, "${input.pause}")
    world = waiting(WaitForEvent("w", key('"k"'), timeout_us=amount), {amount.text: FAULT}).start()

    assert world.letters == "xka"
    assert not world.ledger.waits
