from __future__ import annotations

from dataclasses import replace

from tenuto.coordinator.seats import Seat, Seats
from tenuto.model.ids import LeaseId, Place, RunId, WorkerId
from tenuto.ports.gateway import ALL_QUEUES, Lease, WorkerInfo


def a_worker(name: str = "w", queues: tuple[str, ...] = ("default",)) -> WorkerInfo:
    return WorkerInfo(id=WorkerId(name), queues=queues, names=("a",), capacity=10)


def a_lease() -> Lease:
    return Lease(
        run_id=RunId("r"),
        place=Place("a"),
        lease_id=LeaseId("l"),
        name="a",
        queue="default",
        attempt=1,
        input="{}",
        lease_us=1,
        attempt_us=None,
        heartbeat_us=None,
    )


def test_a_seat_serves_what_its_worker_knows_as_long_as_there_is_room() -> None:
    seat = Seat(a_worker(), 1, None)
    assert seat.serves("default", "a")
    assert not seat.serves("other", "a")
    assert not seat.serves("default", "b")
    seat.reserved = 1

    assert not seat.serves("default", "a")


def test_a_worker_of_all_queues_serves_any() -> None:
    assert Seat(a_worker(queues=(ALL_QUEUES,)), 1, None).serves("warehouse", "a")


async def test_a_worker_is_dry_until_something_is_offered() -> None:
    seats = Seats()
    seats.join(a_worker())
    seat = seats.park(a_worker(), 5)
    assert seats.hungry() == [seat]
    seats.run_dry(WorkerId("w"), seats.offers)
    assert seats.hungry() == []
    seats.wake.clear()
    seats.offer()

    assert seats.hungry() == [seat]
    assert seats.wake.is_set()


async def test_an_offer_during_a_grant_is_not_forgotten() -> None:
    seats = Seats()
    seat = seats.park(a_worker(), 5)
    began = seats.offers
    seats.offer()
    seats.run_dry(WorkerId("w"), began)

    assert seats.hungry() == [seat]


async def test_a_seat_that_a_commit_is_filling_is_left_to_it() -> None:
    seats = Seats()
    seat = seats.park(a_worker(), 5)
    seat.reserved = 1

    assert seats.hungry() == []


async def test_a_parked_request_ends_with_its_first_leases() -> None:
    seats = Seats()
    seat = seats.park(a_worker(), 5)
    seats.deliver(seat)
    assert seat in seats.parked()
    seat.leases.append(a_lease())
    seats.deliver(seat)

    assert seat not in seats.parked()
    assert seat.filled is not None
    assert seat.filled.done()
    assert seats.unclaimed == []


async def test_leases_that_come_after_their_requester_has_gone_are_given_back() -> None:
    seats = Seats()
    seat = seats.park(a_worker(), 5)
    seats.abandon(seat)
    seat.leases.append(a_lease())
    seats.deliver(seat)

    assert [(worker, lease.lease_id) for worker, lease in seats.unclaimed] == [("w", "l")]


async def test_leases_that_came_before_their_requester_went_are_given_back() -> None:
    seats = Seats()
    seat = seats.park(a_worker(), 5)
    seat.leases.append(a_lease())
    seats.deliver(seat)
    seats.abandon(seat)

    assert len(seats.unclaimed) == 1


async def test_a_worker_that_announces_itself_anew_is_asked_for_what_it_newly_knows() -> None:
    seats = Seats()
    seats.join(a_worker())
    seat = seats.park(a_worker(), 5)
    seats.run_dry(WorkerId("w"), seats.offers)
    seats.join(WorkerInfo(id=WorkerId("w"), queues=("default",), names=("a", "b"), capacity=10))

    assert seat.serves("default", "b")
    assert seats.hungry() == [seat]


async def test_leases_for_a_request_that_was_just_cancelled_are_given_back() -> None:
    seats = Seats()
    seat = seats.park(a_worker(), 5)
    assert seat.filled is not None
    seat.filled.cancel()  # its task has not noticed yet
    seat.leases.append(a_lease())
    seats.deliver(seat)

    assert len(seats.unclaimed) == 1


async def test_leases_that_come_after_the_answer_was_taken_are_given_back() -> None:
    seats = Seats()
    seat = seats.park(a_worker(), 5)
    seat.leases.append(a_lease())
    seats.deliver(seat)
    taken = seats.collect(seat)
    seat.leases.append(a_lease())
    seats.deliver(seat)

    assert len(taken) == 1
    assert len(seats.unclaimed) == 1


async def test_what_was_looked_for_under_a_workers_old_names_does_not_make_it_dry() -> None:
    """A grant is under way while its worker announces one more task: the ready row of that task is looked for again."""
    seats = Seats()
    info = WorkerInfo(id=WorkerId("w"), queues=("q",), names=("a",), capacity=2)
    seats.join(info)
    seats.park(info, 1)
    began = seats.offers
    seats.join(replace(info, names=("a", "b")))
    seats.run_dry(WorkerId("w"), began)

    assert [seat.names for seat in seats.hungry()] == [{"a", "b"}]
