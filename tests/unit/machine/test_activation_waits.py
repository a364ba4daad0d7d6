"""Waits, the mailbox, inputs: what an acting node begins with (SEMANTICS T7, X5, C7, "Waits and events")."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.graphs import graph, key
from tests.support.world import World

from tenuto.machine.events import Rejection, TimerKind
from tenuto.machine.snapshot import Timer
from tenuto.model.definition import Wait, WaitForEvent
from tenuto.model.expressions import Fault
from tenuto.model.ids import Place
from tenuto.model.instants import SECOND_US
from tenuto.model.payload import PayloadKind
from tenuto.model.states import RunState

FAULT = Fault("expression_error", "no such key")
W = {"w": "wait_for_event"}


def test_a_wait_ends_when_its_timer_fires() -> None:
    world = World(graph("w -> a", types={"w": "wait"})).start()
    assert world.timer("w", TimerKind.WAIT).due_at == world.now + SECOND_US

    world.fire("w", TimerKind.WAIT)

    assert world.letters == "sa"


@pytest.mark.rule("T7.2")
@pytest.mark.parametrize(("ahead", "letters"), [(-1, "sa"), (0, "sa"), (1, "a.")])
def test_T7_a_wait_that_is_already_due_ends_at_once(ahead: int, letters: str) -> None:
    detail = Wait(until_at=1_000_000_000 + ahead)
    world = World(graph("w -> a", types={"w": "wait"}, details={"w": detail})).start()

    assert world.letters == letters


@pytest.mark.rule("X4.2")
def test_an_event_ends_the_wait_and_is_its_output() -> None:
    world = World(graph("w", types=W)).start()
    assert [wait.place for wait in world.ledger.waits.values()] == ["w"]

    world.post("w", payload='{"yes":true}')

    assert world.output() == {"w": '{"yes":true}'}
    assert not world.mailbox


@pytest.mark.rule("T7.2")
def test_T7_an_event_that_came_before_its_wait_ends_it_at_once() -> None:
    world = World(graph("w", types=W))
    world.put_message("w", payload="1")
    world.put_message("w", payload="2")
    world.start()

    assert (world.state, world.output()) == (RunState.SUCCESS, {"w": "1"})
    assert [message.payload for message in world.mailbox] == ["2"]


def test_an_event_for_another_key_stays_in_the_mailbox() -> None:
    world = World(graph("w", types=W)).start()

    assert world.post("w", "other") is None
    assert (world.letters, len(world.mailbox)) == ("a", 1)


def both() -> World:
    """Two waits for one address, reached at once."""
    details = {id: WaitForEvent("e", key('"k"')) for id in ("v", "w")}
    types = {"r": "set", "v": "wait_for_event", "w": "wait_for_event"}
    return World(graph("r -> v; r -> w", types=types, details=details))


def test_an_event_goes_to_one_wait_when_two_are_reached_at_once() -> None:
    """The second one opens, and is matched like any other."""
    world = both()
    world.put_message("e", payload="1")
    world.start()
    assert (world.letters, list(world.ledger.waits)) == ("ssa", ["w"])

    world.post("e", payload="2")

    assert world.output() == {"v": "1", "w": "2"}


def test_two_waits_that_are_reached_at_once_take_the_first_and_the_second_event() -> None:
    world = both()
    for payload in ("1", "2", "3"):
        world.put_message("e", payload=payload)
    world.start()

    assert world.output() == {"v": "1", "w": "2"}
    assert [message.payload for message in world.mailbox] == ["3"]


@pytest.mark.rule("W6.2")
def test_an_event_that_ends_one_wait_is_not_found_again_by_the_next() -> None:
    both = {id: WaitForEvent("e", key('"k"')) for id in ("v", "w")}
    world = World(
        graph("v -> w", types=dict.fromkeys(both, "wait_for_event"), details=both)
    ).start()
    world.put_message("e", payload="1")
    matched = world.match()
    assert matched is not None
    world.accept(matched)

    assert (world.letters, list(world.ledger.waits)) == ("sa", ["w"])


@pytest.mark.rule("W6.3")
def test_a_wait_for_event_that_times_out_is_dead() -> None:
    detail = WaitForEvent("w", key('"k"'), timeout_us=5)
    world = World(graph("w -failure-> a", types=W, details={"w": detail})).start()
    world.fire("w", TimerKind.EVENT)

    assert (world.letters, json.loads(world.error("w"))["code"]) == ("xa", "timeout")
    assert not world.ledger.waits


def test_an_event_that_comes_in_time_clears_the_timeout() -> None:
    detail = WaitForEvent("w", key('"k"'), timeout_us=5)
    world = World(graph("w -> a", types=W, details={"w": detail})).start()
    world.post("w")

    assert not world.ledger.timers


@pytest.mark.rule("C7.1", "W6.2")
def test_C7_an_event_for_another_version_of_the_wait_is_stale() -> None:
    world = World(graph("w -> a", types=W)).start()
    message = world.put_message("w")
    event = world.match()
    assert event is not None
    assert world.send(replace(event, version=event.version + 1)).rejected is Rejection.STALE

    world.accept(event)

    assert world.send(event).rejected is Rejection.STALE
    assert message not in [m.message_id for m in world.mailbox]


def test_C7_a_wait_or_timer_of_a_node_that_has_moved_on_is_stale() -> None:
    """The store removes such rows; the machine does not rely on it."""
    detail = WaitForEvent("w", key('"k"'), timeout_us=5)
    world = World(graph("w -> a", types=W, details={"w": detail})).start()
    wait, timer = world.ledger.waits[Place("w")], world.ledger.timers[Place("w"), TimerKind.EVENT]
    world.put_message("w")
    event = world.match()
    assert event is not None
    world.accept(event)
    world.ledger.waits[wait.place] = wait
    world.ledger.timers[timer.place, timer.kind] = timer

    assert world.send(event).rejected is Rejection.STALE
    assert world.send(world.firing_of(timer)).rejected is Rejection.STALE


def test_C7_a_timer_of_an_unknown_place_is_stale() -> None:
    world = World(graph("w", types={"w": "wait"})).start()
    timer = Timer(Place("nobody"), TimerKind.WAIT, 0, 1)
    world.ledger.timers[timer.place, timer.kind] = timer

    assert world.send(world.firing_of(timer)).rejected is Rejection.STALE


@pytest.mark.rule("X5.1")
def test_X5_inputs_are_evaluated_when_the_node_is_activated() -> None:
    world = World(graph("a -> b")).start()
    assert [asked.expression.where for asked in world.asked] == ["nodes.a.params"]

    world.succeed("a")

    assert [asked.expression.where for asked in world.asked] == ["nodes.a.params", "nodes.b.params"]
    assert world.payload("b", PayloadKind.INPUT) == "{}"


@pytest.mark.rule("X5.1")
@pytest.mark.parametrize("type", ["task", "set", "wait_for_event"])
def test_X5_an_error_in_an_input_ends_the_node_dead_without_an_attempt(type: str) -> None:
    texts = {"{}": FAULT, "1": FAULT, '"k"': FAULT}
    world = World(graph("a; a -failure-> b", types={"a": type, "b": "wait"}), texts).start()

    assert world.letters == "xa"
    assert json.loads(world.error("a"))["code"] == "expression_error"
    assert "a" not in world.ledger.tasks


def test_X5_an_input_that_is_too_large_is_the_node_s_failure() -> None:
    world = World(graph("a -failure-> b", types={"b": "wait"}), {"{}": '"' + "x" * 1_048_576 + '"'})
    world.start()

    assert json.loads(world.error("a"))["code"] == "payload_too_large"


def test_X5_an_error_in_an_input_is_tolerated_where_the_node_is_optional() -> None:
    world = World(graph("a -> b", types={"b": "wait"}, optional=["a"]), {"{}": FAULT}).start()

    assert world.letters == "xa"


def test_texts_that_are_lacking_are_asked_for_and_nothing_has_happened() -> None:
    world = World(graph("w", types=W)).start()

    assert (world.needs, world.letters, world.snapshot.seq) == (1, "a", 1)
