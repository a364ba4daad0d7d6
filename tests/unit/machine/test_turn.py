"""The working copy: what is thrown away leaves no trace, what is marked is counted."""

from __future__ import annotations

from tests.support.graphs import graph
from tests.support.world import Table, World

from tenuto.machine.actions import PutPayload, SetTimer
from tenuto.machine.events import TimerKind
from tenuto.machine.snapshot import Rows, Timer
from tenuto.machine.turn import Turn
from tenuto.model.ids import Place
from tenuto.model.payload import PayloadKind, Text
from tenuto.model.states import NodeLetter

A = Place("a")


def turn_of(text: str) -> Turn:
    world = World(graph(text)).start()
    return Turn(world.graph, world.snapshot, Rows(), 0, Table(world))


def test_one_event_stores_one_value_of_a_key() -> None:
    turn = turn_of("a")
    turn.put(A, PayloadKind.ERROR, Text(1, "1"))
    turn.put(A, PayloadKind.OUTPUT, Text(1, "2"))
    key = turn.put(A, PayloadKind.ERROR, Text(1, "3"))

    assert [a.value.text for a in turn.actions if isinstance(a, PutPayload)] == ["3", "2"]
    assert turn.fresh[key] == Text(1, "3")


def test_what_is_taken_back_leaves_no_trace() -> None:
    turn = turn_of("a")
    turn.put(A, PayloadKind.OUTPUT, Text(1, "1"))
    turn.actions.append(SetTimer(Timer(A, TimerKind.WAIT, 0, 1)))
    kept = list(turn.actions)
    turn.put(A, PayloadKind.ERROR, Text(1, "2"))
    turn.take_back(2)

    assert turn.actions == kept
    assert [key.kind for key in turn.fresh] == [PayloadKind.OUTPUT]


def test_live_counts_the_nodes_that_are_not_final() -> None:
    turn = turn_of("a -> b")
    counts = []
    for letter in (NodeLetter.SUCCESS, NodeLetter.DEAD, NodeLetter.ACTIVE, NodeLetter.CANCELLED):
        turn.mark(0, letter)
        counts.append(turn.live)

    assert counts == [1, 1, 2, 1]


def test_a_node_is_found_at_exactly_its_place() -> None:
    turn = turn_of("h -> e; h -failure-> h loop 3")

    assert [turn.active_at(Place(p)) for p in ("h.1", "h.2", "h", "e", "no", "h.1~2")] == [
        0,
        None,
        None,
        None,
        None,
        None,
    ]


def test_a_woken_node_that_is_not_pending_any_more_is_not_looked_at() -> None:
    turn = turn_of("a -> b; a -> c")
    turn.arrive(2)
    turn.arrive(1)
    turn.mark(1, NodeLetter.CANCELLED)

    assert (turn.next_woken(), turn.next_woken()) == (2, None)
