"""Which leases and deadlines that are over recovery takes up, and which it leaves to who holds them."""

from __future__ import annotations

import pytest
from tests.support.graphs import graph, value
from tests.support.house import house
from tests.support.store import TurnedClock

from tenuto.coordinator import timers
from tenuto.machine.events import Deadline
from tenuto.model.definition import Work

HOUR = 3_600_000_000


async def test_a_lease_on_its_way_when_the_sleep_began_is_not_given_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The timers' own look, had while the clock is turned, would be the first to see the lease.
    monkeypatch.setattr(timers, "POLL_US", HOUR)
    clock = TurnedClock()
    async with house(clock=clock, lease_us=HOUR) as h:
        h.recovery.holds = lambda _: False
        hand = await h.hire(["a"])
        [run_id] = await h.begin(graph("a"))
        [lease] = await hand.lease()
        clock.turn(HOUR)
        due = await h.store.due(limit=10, runs=None)

        assert [(task.place, task.deadline) for task in due.tasks] == [("a", None)]
        assert h.recovery.sift(due.tasks) == []
        assert h.recovery.sift(due.tasks) == list(due.tasks)
        assert not h.recovery.doubts
        h.recovery.sift(())
        assert h.recovery.sift(due.tasks) == []
        assert h.recovery.doubts
        assert lease.run_id == run_id


async def test_of_passed_deadlines_only_the_attempts_own_waits_for_its_holder() -> None:
    clock = TurnedClock()
    details = {
        "a": Work("a", value("{}"), timeout_us=1_000),
        "b": Work("b", value("{}"), heartbeat_timeout_us=1_000),
    }
    async with house(clock=clock) as h:
        hand = await h.hire(["a", "b"])
        await h.begin(graph("a; b", details=details))
        await hand.take(2)
        clock.turn(1_000)
        due = await h.store.due(limit=10, runs=None)

        assert {task.deadline for task in due.tasks} == {Deadline.ATTEMPT, Deadline.HEARTBEAT}
        assert [task.deadline for task in h.recovery.sift(due.tasks)] == [Deadline.HEARTBEAT]
