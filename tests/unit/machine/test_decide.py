"""The dispatcher: a function of its arguments, total over events."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.support.graphs import graph, value
from tests.support.world import RUN, World

from tenuto.machine.closing import close
from tenuto.machine.decide import decide, initial
from tenuto.machine.decision import Decision, Needs
from tenuto.machine.events import CancelRequested, Rejection, RunStarted
from tenuto.machine.fold import Recorded
from tenuto.machine.snapshot import Rows
from tenuto.machine.turn import Turn
from tenuto.model.definition import Work
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Expression, Missing, Scope
from tenuto.model.ids import RUN_PLACE, MessageId, Place
from tenuto.model.payload import PayloadKey, PayloadKind, Text
from tenuto.model.states import RunState

INPUT = PayloadKey(RUN_PLACE, PayloadKind.INPUT)


class Forgetful:
    """Knows nothing the first time."""

    def evaluate(self, expression: Expression, scope: Scope) -> Missing:
        return Missing(payloads=(scope.input,))

    def mailbox(self, event: str, key: Text, after: MessageId | None = None) -> Missing:
        return Missing(mailbox=((event, key.text or "", after),))

    def page(self, output: PayloadKey, fresh: Mapping[PayloadKey, Text]) -> Missing:
        return Missing(payloads=(output,))

    def callee(self, name: str, input: Text) -> Missing:
        return Missing(callees=((name, input.text or ""),))


def test_a_run_begins_with_every_node_pending() -> None:
    world = World(graph("a -> b; b -> a2; h -> h2; h2 -> h loop 2; h2 -failure-> x"))

    assert (world.letters, world.edges) == ("......", "-----")
    assert (world.snapshot.passes, world.snapshot.live, world.state) == ((1,), 6, RunState.PENDING)


def test_what_is_lacking_comes_back_as_needs() -> None:
    found = graph("a")

    assert decide(found, initial(RUN, found), Rows(), RunStarted(at=1), Forgetful()) == Needs(
        Missing(payloads=(INPUT,))
    )


def test_a_mailbox_that_is_lacking_comes_back_as_needs() -> None:
    world = World(graph("w", types={"w": "wait_for_event"}))

    class Halfway(Forgetful):
        def evaluate(self, expression: Expression, scope: Scope) -> Text:  # type: ignore[override]
            return Text(1, "k")

    found = decide(world.graph, world.snapshot, Rows(), RunStarted(at=1), Halfway())

    assert found == Needs(Missing(mailbox=(("w", "k", None),)))


def test_time_never_goes_back() -> None:
    world = World(graph("a -> b")).start()
    world.now -= 500
    world.succeed("a")

    assert world.snapshot.at == world.now + 500


def test_a_run_starts_once() -> None:
    world = World(graph("a")).start()

    assert world.send(RunStarted(at=world.now)).rejected is Rejection.DUPLICATE


def test_a_rejected_event_changes_nothing() -> None:
    world = World(graph("a")).start()
    before = world.snapshot
    decision = world.send(RunStarted(at=world.now + 99))

    assert decision == Decision(before, rejected=Rejection.DUPLICATE)


def test_the_same_arguments_give_the_same_decision() -> None:
    found = graph("r -> a; r -> b; a -> j; b -> j", types={"r": "set", "j": "join"})
    outcomes = [Text(1, "1"), Text(2, "{}"), Text(2, "{}")]
    event = RunStarted(at=5)

    decisions = [
        decide(found, initial(RUN, found), Rows(), event, Recorded(outcomes)) for _ in range(2)
    ]

    assert decisions[0] == decisions[1]
    assert isinstance(decisions[0], Decision)
    assert decisions[0].outcomes == tuple(outcomes)


def test_an_outcome_that_is_decided_twice_is_a_bug_and_says_so() -> None:
    world = World(graph("a")).start()
    world.cancel()
    turn = Turn(world.graph, world.snapshot, Rows(), 9, Forgetful())

    with pytest.raises(InvariantViolated, match="the outcome is decided already"):
        close(turn, RunState.SUCCESS)


def test_an_illegal_move_of_a_run_is_a_bug_and_says_so() -> None:
    world = World(graph("a")).start()
    turn = Turn(world.graph, world.snapshot, Rows(), 9, Forgetful())

    with pytest.raises(InvariantViolated, match="a run does not move from running to pending"):
        close(turn, RunState.PENDING)


def test_a_cancel_that_comes_before_the_start_is_refused() -> None:
    world = World(graph("a"))

    assert world.send(CancelRequested(at=world.now)).rejected is Rejection.RUN_FINAL


@pytest.mark.rule("X1.3")
def test_X1_a_task_whose_node_sets_no_priority_has_its_runs() -> None:
    details = {
        id: Work(id, value("{}"), priority=priority)
        for id, priority in (("none", None), ("zero", 0), ("nine", 9))
    }
    world = World(graph("none; zero; nine", details=details))
    world.accept(RunStarted(at=world.now, priority=4))

    tasks = world.ledger.tasks
    assert {place: tasks[Place(place)].priority for place in details} == {
        "none": 4,
        "zero": 0,
        "nine": 9,
    }
