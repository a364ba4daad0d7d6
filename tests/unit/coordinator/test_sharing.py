"""What is due is left to others for a moment, unless it is one's own or one is alone."""

from __future__ import annotations

from collections.abc import Container

from tests.support.store import TurnedClock

from tenuto.adapters.local.dice import SystemDice
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.coordinator.setting import Setting
from tenuto.coordinator.sharing import EXPECTED_MAX, GRACE_US, Sharing
from tenuto.model.ids import RunId

RUNS = [RunId(f"run-{number}") for number in range(100)]


def a_sharing(
    clock: TurnedClock, *, name: str = "one", sole: bool = False, own: Container[RunId] = ()
) -> Sharing:
    setting = Setting(
        clock=clock,
        ids=Uuid7Ids(),
        dice=SystemDice(1),
        incarnation=name,
        lease_us=1,
        sole=sole,
    )
    return Sharing(setting, lambda run_id: run_id in own)


def look(sharing: Sharing, runs: list[RunId]) -> tuple[list[RunId], int | None]:
    sharing.begin()
    taken = sharing.mine(runs, lambda run_id: (run_id, (run_id, "timer"), f"m-{run_id}"))
    return taken, sharing.end()


def test_who_is_alone_takes_everything_at_once() -> None:
    assert look(a_sharing(TurnedClock(), sole=True), RUNS) == (RUNS, None)


def test_one_s_own_runs_and_what_one_brought_about_are_taken_at_once() -> None:
    sharing = a_sharing(TurnedClock(), own={RUNS[3]})
    sharing.expect([f"m-{RUNS[7]}"])
    taken, _ = look(sharing, RUNS[:10])

    assert {RUNS[3], RUNS[7]} <= set(taken)
    assert len(taken) < 5


def test_what_is_left_is_taken_within_a_moment_and_nobody_looks_in_vain() -> None:
    clock = TurnedClock()
    sharing = a_sharing(clock)
    began, left, looks = clock.at, list(RUNS), 0
    while left:
        taken, again_at = look(sharing, left)
        left = [run_id for run_id in left if run_id not in taken]
        looks += 1
        assert taken or looks == 1
        assert (again_at is None) == (not left)
        if again_at is not None:
            assert again_at > clock.at
            clock.turn(again_at - clock.at)

    assert clock.at - began < GRACE_US


def test_two_processes_begin_with_different_runs() -> None:
    """Catalogue C9."""
    clock = TurnedClock()
    one, two = a_sharing(clock), a_sharing(clock, name="two")
    for sharing in (one, two):
        look(sharing, RUNS)
    clock.turn(GRACE_US // 3)
    first, second = set(look(one, RUNS)[0]), set(look(two, RUNS)[0])

    assert 10 < len(first) < 60
    assert 10 < len(second) < 60
    assert len(first & second) < 25


def test_the_moment_begins_anew_for_what_was_gone_meanwhile() -> None:
    clock = TurnedClock()
    sharing = a_sharing(clock)
    look(sharing, RUNS)
    look(sharing, [])
    clock.turn(GRACE_US // 100)

    assert len(look(sharing, RUNS)[0]) < 5


def test_what_is_expected_is_forgotten_in_the_end() -> None:
    sharing = a_sharing(TurnedClock())
    sharing.expect([f"m-{RUNS[7]}"])
    sharing.expect(str(number) for number in range(EXPECTED_MAX))

    assert RUNS[7] not in look(sharing, [RUNS[7]])[0]
