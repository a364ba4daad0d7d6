"""C6, C7: pause and resume, one's own and the parent's."""

from __future__ import annotations

import pytest
from tests.support.graphs import graph, value
from tests.support.saga import calling, orders, saga, undoing
from tests.support.world import World

from tenuto.machine.actions import ShiftTimers, TellChildren
from tenuto.machine.events import (
    ParentPaused,
    PauseRequested,
    Rejection,
    ResumeRequested,
    RunStarted,
    TimerFired,
    TimerKind,
)
from tenuto.model.definition import Wait, Work
from tenuto.model.ids import RUN_PLACE, Place, RunId
from tenuto.model.retry import Jitter, RetryPolicy
from tenuto.model.states import RunState

PARENT = (RunId("parent"), Place("call"))


@pytest.mark.rule("C6.2")
def test_C6_a_paused_run_grants_nothing_and_decides_everything() -> None:
    world = World(graph("a -> b; a -> s; s -> c", types={"s": "set"})).start()
    lease = world.grant("a")
    world.pause()
    world.accept(world.success_of(lease))

    assert (world.letters, world.ready) == ("sasa", set())
    assert world.task("b").held


def test_C6_resume_offers_again_what_waits() -> None:
    world = World(graph("a; b")).start()
    world.grant("b")
    world.pause()
    world.resume()

    assert world.ready == {"a"}
    assert not world.task("b").held


def test_C6_pause_and_resume_are_refused_when_there_is_nothing_to_do() -> None:
    world = World(graph("a")).start()
    assert world.send(ResumeRequested(at=world.now)).rejected is Rejection.NOT_PAUSED

    world.pause()

    assert world.send(PauseRequested(at=world.now)).rejected is Rejection.ALREADY_PAUSED


def test_C6_a_run_that_is_paused_before_its_start_begins_held() -> None:
    world = World(graph("a"))
    world.pause()
    world.start()

    assert (world.letters, world.ready) == ("a", set())
    world.resume()
    assert world.ready == {"a"}


def test_C6_a_back_off_that_ends_while_paused_waits_for_the_resume() -> None:
    work = Work("a", value("{}"), retry=RetryPolicy(max_attempts=2), queue_timeout_us=10)
    world = World(graph("a", details={"a": work})).start()
    world.fail("a")
    world.pause()
    world.fire("a", TimerKind.BACKOFF)
    assert (world.ready, world.task("a").queue_until) == (set(), None)

    world.resume()

    assert (world.ready, world.task("a").queue_until) == ({"a"}, world.now + 10)


@pytest.mark.rule("C6.2")
def test_C6_a_run_may_settle_while_paused() -> None:
    world = World(graph("a")).start()
    lease = world.grant("a")
    world.pause()
    world.accept(world.success_of(lease))

    assert (world.state, world.snapshot.paused) == (RunState.SUCCESS, True)


@pytest.mark.rule("C6.5")
@pytest.mark.parametrize(
    ("how", "paused"), [("cancel", False), ("failure", True), ("timeout", True)]
)
def test_C6_only_a_cancel_that_decides_the_outcome_lifts_the_pause(how: str, paused: bool) -> None:
    world = World(graph("a", timeout_us=10)).start()
    lease = world.grant("a")
    world.pause()
    if how == "cancel":
        world.cancel()
    elif how == "timeout":
        world.fire("", TimerKind.RUN)
    else:
        world.accept(world.failure_of(lease))

    assert world.is_final
    assert world.snapshot.paused is paused


# -- the parent's flag --------------------------------------------------------------------------------------------


def as_child(world: World, *, paused: bool = False) -> World:
    world.accept(RunStarted(at=world.now, parent=PARENT, depth=1, paused=paused))
    return world


def with_child() -> World:
    """A started run with an open child, and a task beside it."""
    world = World(saga("a; b", types={"a": "call"}, details={"a": calling("a")}))
    world.family.workflows["other"] = saga("x")
    return world.start()


@pytest.mark.rule("C6.1")
def test_C6_a_child_starts_with_its_parent_s_flag() -> None:
    world = as_child(World(graph("a")), paused=True)
    assert (world.ready, world.task("a").held) == (set(), True)
    world.parent_pauses(False)

    assert world.ready == {"a"}


@pytest.mark.rule("C6.1")
@pytest.mark.parametrize("first", ["own", "parent"])
def test_C6_a_run_is_paused_while_either_flag_is_set(first: str) -> None:
    world = as_child(World(graph("a")))
    if first == "own":
        world.pause()
        world.parent_pauses()
    else:
        world.parent_pauses()
        world.pause()
    assert world.task("a").held
    world.parent_pauses(False)
    assert world.task("a").held
    world.resume()

    assert (world.ready, world.task("a").held) == ({"a"}, False)


@pytest.mark.rule("C6.6")
def test_C6_resuming_a_child_of_a_paused_parent_is_rejected() -> None:
    world = as_child(World(graph("a")))
    world.parent_pauses()
    assert world.send(ResumeRequested(at=world.now)).rejected is Rejection.PARENT_PAUSED
    world.pause()
    assert world.send(ResumeRequested(at=world.now)).rejected is Rejection.PARENT_PAUSED
    assert (world.snapshot.paused, world.snapshot.parent_paused) == (True, True)


def test_C6_what_the_parent_s_flag_was_already_changes_nothing() -> None:
    world = as_child(World(graph("a")))
    again = ParentPaused(at=world.now, paused=False)
    assert world.send(again).rejected is Rejection.NOT_PAUSED
    world.parent_pauses()

    again = ParentPaused(at=world.now, paused=True)
    assert world.send(again).rejected is Rejection.ALREADY_PAUSED


@pytest.mark.rule("C6.3")
def test_C6_children_follow() -> None:
    world = with_child()
    world.pause()
    assert TellChildren() in orders(world)
    world.resume(freeze=True)

    assert TellChildren(freeze=True) in orders(world)


def test_C6_children_are_told_of_what_they_do_not_know_only() -> None:
    world = World(saga("a", types={"a": "call"}, details={"a": calling("a")}))
    world.family.workflows["other"] = saga("x")
    as_child(world)
    world.pause()
    world.parent_pauses()
    assert TellChildren() not in orders(world)
    world.parent_pauses(False)
    assert TellChildren() not in orders(world)
    world.resume()

    assert TellChildren() in orders(world)


def test_C6_a_child_of_a_child_is_paused_with_both() -> None:
    world = World(saga("a", types={"a": "call"}, details={"a": calling("a")}))
    inner = saga("i", types={"i": "call"}, details={"i": calling("i")})
    world.family.workflows["other"] = inner
    world.start()
    child = world.child("a")
    child.family.workflows["other"] = saga("x")
    grandchild = child.child("i")
    world.pause()
    world.tell()
    assert (child.snapshot.parent_paused, grandchild.snapshot.parent_paused) == (True, True)
    assert grandchild.task("x").held
    world.resume()
    world.tell()

    assert (grandchild.task("x").held, grandchild.ready) == (False, {"x"})


def test_C6_what_a_child_does_is_never_held_here() -> None:
    world = with_child()
    world.pause()

    assert (world.task("a").held, world.task("b").held) == (False, True)


def test_C6_the_call_of_a_paused_run_starts_its_child() -> None:
    world = World(saga("s -> a", types={"a": "call"}, details={"a": calling("a")}))
    world.family.workflows["other"] = saga("x")
    world.start()
    lease = world.grant("s")
    world.pause()
    world.accept(world.success_of(lease))
    child = world.child("a")

    assert (world.task("a").held, child.snapshot.parent_paused) == (False, True)
    assert child.ready == set()


# -- what does not pass while paused ------------------------------------------------------------------------------


@pytest.mark.rule("C6.4")
def test_C6_queue_timeout_is_set_anew_whole_at_resume() -> None:
    world = World(graph("a", details={"a": Work("a", value("{}"), queue_timeout_us=50)})).start()
    world.now += 40
    world.pause()
    assert world.task("a").queue_until is None
    world.now += 1_000
    world.resume()

    assert world.task("a").queue_until == world.now + 50


@pytest.mark.rule("C4.3", "C6.4")
def test_C6_closing_timeout_is_set_anew_whole_at_resume() -> None:
    graph = saga("a; z", undo="a", closing_timeout_us=50)
    world = World(graph).start()
    world.succeed("a")
    world.fail("z")
    world.drained()
    first = world.timer("", TimerKind.CLOSING)
    world.now += 40
    world.pause()
    assert (RUN_PLACE, TimerKind.CLOSING) not in world.ledger.timers
    late = TimerFired(at=world.now, place=RUN_PLACE, kind=TimerKind.CLOSING, version=first.version)
    assert world.send(late).rejected is Rejection.STALE
    world.now += 1_000
    world.resume()

    assert world.timer("", TimerKind.CLOSING).due_at == world.now + 50
    assert world.send(late).rejected is Rejection.STALE


@pytest.mark.rule("C4.3", "C6.4")
def test_C6_closing_timeout_starts_at_resume_where_the_drain_was_over_before() -> None:
    world = World(saga("a; z", undo="a", closing_timeout_us=50)).start()
    world.succeed("a")
    world.fail("z")
    world.pause()
    world.drained()
    assert (RUN_PLACE, TimerKind.CLOSING) not in world.ledger.timers
    world.resume()

    assert world.timer("", TimerKind.CLOSING).due_at == world.now + 50


@pytest.mark.rule("C6.2", "C6.4")
def test_C6_leases_of_handlers_are_not_granted_either() -> None:
    graph = saga("a; z", undo={"a": undoing("a", queue_timeout_us=7)})
    world = World(graph).start()
    world.succeed("a")
    lease = world.grant("z")
    world.pause()
    world.accept(world.failure_of(lease))
    world.drained()
    assert (world.task("a!undo").held, world.task("a!undo").queue_until) == (True, None)
    assert world.ready == set()
    world.resume()

    assert (world.ready, world.task("a!undo").queue_until) == ({"a!undo"}, world.now + 7)


def test_C6_a_cancel_that_lifts_the_pause_tells_the_children() -> None:
    world = with_child()
    world.pause()
    world.cancel()

    assert TellChildren() in orders(world)
    assert (world.snapshot.paused, world.snapshot.paused_since) == (False, None)


@pytest.mark.rule("C6.5")
def test_C6_a_cancel_lifts_the_run_s_own_flag_only() -> None:
    world = World(saga("a; z", undo="a"))
    as_child(world)
    world.succeed("a")
    world.pause()
    world.parent_pauses()
    world.cancel()
    world.drained()

    assert (world.snapshot.paused, world.snapshot.parent_paused) == (False, True)
    assert (world.task("a!undo").held, world.snapshot.paused_since) == (True, world.now)


@pytest.mark.rule("C6.5")
def test_C6_F2_a_cancel_after_an_unhandled_failure_decides_nothing_and_lifts_nothing() -> None:
    world = World(graph("a -always-> b")).start()
    world.fail("a")
    world.pause()
    world.cancel()

    assert (world.state, world.snapshot.paused) == (RunState.FAILED, True)


# -- freezing -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("C6.7")
def test_C6_freeze_shifts_deadlines_by_the_time_the_run_was_paused() -> None:
    work = Work("a", value("{}"), total_timeout_us=500)
    world = World(graph("a; w", types={"w": "wait"}, details={"a": work}, timeout_us=900)).start()
    before = {key: timer.due_at for key, timer in world.ledger.timers.items()}
    world.now += 10
    world.pause()
    world.now += 70
    world.resume(freeze=True)

    assert {k: t.due_at - before[k] for k, t in world.ledger.timers.items()} == {
        (RUN_PLACE, TimerKind.RUN): 70,
        (Place("a"), TimerKind.TOTAL): 70,
        (Place("w"), TimerKind.WAIT): 70,
    }
    assert world.task("a").total_until == before[Place("a"), TimerKind.TOTAL] + 70


def test_C6_without_freeze_deadlines_stand() -> None:
    world = World(graph("a", timeout_us=900)).start()
    before = dict(world.ledger.timers)
    world.pause()
    world.now += 70
    world.resume()

    assert world.ledger.timers == before


@pytest.mark.rule("C6.7")
def test_C6_freeze_does_not_shift_until() -> None:
    at = 2_000_000_000
    details = {"u": Wait(until_at=at)}
    world = World(graph("u; f", types={"u": "wait", "f": "wait"}, details=details)).start()
    due = world.timer("f", TimerKind.WAIT).due_at
    world.pause()
    world.now += 70
    world.resume(freeze=True)

    assert world.timer("u", TimerKind.WAIT).due_at == at
    assert world.timer("f", TimerKind.WAIT).due_at == due + 70


@pytest.mark.rule("C6.7")
def test_C6_freeze_does_not_shift_a_running_attempt_s_clocks() -> None:
    world = World(graph("a", details={"a": Work("a", value("{}"), timeout_us=50)})).start()
    world.grant("a")
    before = world.task("a")
    world.pause()
    world.now += 70
    world.resume(freeze=True)

    assert world.task("a") == before


@pytest.mark.rule("C6.7")
@pytest.mark.parametrize("first", ["own", "parent"])
def test_C6_own_and_parent_s_pause_are_counted_once(first: str) -> None:
    world = as_child(World(graph("a", timeout_us=900)))
    due = world.timer("", TimerKind.RUN).due_at
    if first == "own":
        world.pause()
        world.now += 10
        world.parent_pauses()
    else:
        world.parent_pauses()
        world.now += 10
        world.pause()
    world.now += 10
    world.parent_pauses(False, freeze=True)
    assert world.timer("", TimerKind.RUN).due_at == due
    world.now += 10
    world.resume(freeze=True)

    assert world.timer("", TimerKind.RUN).due_at == due + 30
    assert world.snapshot.paused_since is None


def test_C6_the_parent_s_resume_freezes_its_children_too() -> None:
    world = as_child(World(graph("a", timeout_us=900)))
    due = world.timer("", TimerKind.RUN).due_at
    world.parent_pauses()
    world.now += 10
    world.parent_pauses(False, freeze=True)

    assert world.timer("", TimerKind.RUN).due_at == due + 10


def test_C6_a_pause_before_the_start_shifts_nothing_that_began_later() -> None:
    world = World(graph("a", timeout_us=900))
    world.pause()
    world.now += 100
    world.start()
    world.now += 10
    world.resume(freeze=True)

    assert world.timer("", TimerKind.RUN).due_at == world.now + 900


@pytest.mark.rule("C7.2")
def test_C7_a_shifted_timer_has_another_version() -> None:
    world = World(graph("a", timeout_us=900)).start()
    due = world.firing_of(world.timer("", TimerKind.RUN))
    world.pause()
    world.resume(freeze=True)

    assert orders(world)[0] == ShiftTimers(0, world.snapshot.seq)
    assert world.send(due).rejected is Rejection.STALE


@pytest.mark.rule("C6.2")
def test_C6_back_off_runs_on_while_paused() -> None:
    policy = RetryPolicy(max_attempts=2, initial_us=5, jitter=Jitter.NONE)
    world = World(graph("a", details={"a": Work("a", value("{}"), retry=policy)})).start()
    world.fail("a")
    world.pause()
    world.fire("a", TimerKind.BACKOFF)

    assert (world.task("a").state, world.task("a").held) == ("pending", True)


def test_C6_a_final_run_remembers_no_pause() -> None:
    world = World(graph("a")).start()
    lease = world.grant("a")
    world.pause()
    assert world.snapshot.paused_since == world.now
    world.accept(world.success_of(lease))

    assert world.snapshot.paused_since is None


def test_C6_freeze_shifts_no_drain() -> None:
    world = World(saga("a; z", undo="a")).start()
    world.succeed("a")
    world.fail("z")
    drain = world.timer("", TimerKind.DRAIN)
    world.pause()
    world.now += 70
    world.resume(freeze=True)

    assert world.timer("", TimerKind.DRAIN) == drain
