"""What is fetched, claimed next and given back."""

from __future__ import annotations

from typing import Any

from tests.support.store import a_request

from tenuto.adapters.redis.shelf import AGED, MISFITS_MAX, Shelf, Shelved
from tenuto.model.ids import Place, RunId
from tenuto.ports.dispatch import Hint, Want


def a_want(free: int, *, queues: tuple[str, ...] = ("q",), names: tuple[str, ...] = ("n",)) -> Want:
    return Want(queues=queues, names=names, free=free)


def shelved(
    run: str, *, queue: str = "q", name: str = "n", rank: int = 0, entry: bool = True
) -> Shelved:
    hint = Hint(run_id=RunId(run), place=Place("a"), queue=queue, name=name, priority=rank % 10)
    place: dict[str, Any] = {"stream": queue, "entry": run} if entry else {}
    return Shelved(hint=hint, at=0.0, rank=rank, **place)


def a_shelf(*wants: Want) -> Shelf:
    shelf = Shelf(lambda: None)
    shelf.want(wants)
    return shelf


def picked(shelf: Shelf, count: int, **columns: Any) -> list[str]:
    request = a_request(**({"queues": ("q",), "names": ("n",)} | columns))
    return [item.hint.run_id for item in shelf.pick(request, count)]


def test_as_much_is_fetched_as_is_free_and_not_here_or_coming() -> None:
    shelf = a_shelf(a_want(5), a_want(2))
    assert shelf.reserve("q", 1) == 7
    assert shelf.reserve("q", 1) == 0

    shelf.arrive("q", 7)
    shelf.put([shelved("1"), shelved("2")])

    assert shelf.reserve("q", 1) == 5


def test_queues_share_what_is_free() -> None:
    shelf = a_shelf(a_want(8, queues=("a", "b")))

    assert shelf.reserve("a", 2) == 4
    assert shelf.reserve("b", 2) == 2
    assert shelf.reserve("c", 2) == 0


def test_a_worker_of_all_queues_wants_any() -> None:
    shelf = a_shelf(a_want(3, queues=("*",)))

    assert shelf.all_queues
    assert shelf.reserve("anything", 1) == 3
    assert shelf.queues() == frozenset()


def test_what_only_busy_workers_know_hides_nothing_up_to_a_bound() -> None:
    shelf = a_shelf(a_want(2, names=("n",)), a_want(0, names=("m",)))
    shelf.put(shelved(f"m-{n}", name="m") for n in range(MISFITS_MAX))
    assert shelf.reserve("q", 1) == 2
    shelf.arrive("q", 2)

    shelf.put([shelved("m-x", name="m"), shelved("m-y", name="m")])

    assert shelf.reserve("q", 1) == 0


def test_a_name_is_strange_where_its_queue_is_served_and_nobody_knows_it() -> None:
    shelf = a_shelf(a_want(1), a_want(0, queues=("other",), names=("m",)))

    assert shelf.is_strange(shelved("1", name="m").hint)
    assert not shelf.is_strange(shelved("1").hint)
    assert not shelf.is_strange(shelved("1", queue="nobody", name="m").hint)
    assert not shelf.is_strange(shelved("1", queue="other", name="m").hint)


def test_hints_are_picked_in_the_order_they_came() -> None:
    shelf = a_shelf(a_want(9))
    shelf.put([shelved("1"), shelved("2", name="m"), shelved("3"), shelved("4")])

    assert picked(shelf, 2) == ["1", "3"]
    assert picked(shelf, 9) == ["4"]
    assert picked(shelf, 9, names=("m",)) == ["2"]
    assert len(shelf) == 0


def test_queues_of_one_rank_take_turns_and_a_higher_rank_goes_first() -> None:
    shelf = a_shelf(a_want(9, queues=("a", "b", "c")))
    shelf.put(shelved(f"a{n}", queue="a") for n in range(3))
    shelf.put(shelved(f"b{n}", queue="b") for n in range(3))
    shelf.put([shelved("c0", queue="c", rank=5)])

    order = picked(shelf, 9, queues=("a", "b", "c"))

    assert order == ["c0", "a0", "b0", "a1", "b1", "a2", "b2"]


def test_one_taken_for_its_age_goes_before_every_priority() -> None:
    shelf = a_shelf(a_want(9, queues=("a", "b")))
    shelf.put([shelved("high", queue="a", rank=9), shelved("old", queue="b", rank=AGED)])

    assert picked(shelf, 1, queues=("a", "b")) == ["old"]


def test_an_entry_is_here_once_until_it_is_decided() -> None:
    shelf = a_shelf(a_want(9))
    assert shelf.put([shelved("1"), shelved("1")]) == 1

    (item,) = shelf.pick(a_request(queues=("q",), names=("n",)), 5)
    assert shelf.put([shelved("1")]) == 0
    assert shelf.holds("q", "1")

    shelf.drop([item])
    assert shelf.put([shelved("1")]) == 1


def test_a_row_that_only_the_database_offers_is_here_once() -> None:
    shelf = a_shelf(a_want(9))

    assert shelf.put([shelved("1", entry=False), shelved("1", entry=False)]) == 1


def test_what_was_not_decided_is_next_again() -> None:
    shelf = a_shelf(a_want(9))
    shelf.put([shelved("1"), shelved("2"), shelved("3")])
    items = shelf.pick(a_request(queues=("q",), names=("n",)), 2)

    shelf.put_back(items)

    assert picked(shelf, 9) == ["1", "2", "3"]


def test_some_are_taken_by_a_test() -> None:
    shelf = a_shelf(a_want(9))
    shelf.put([shelved("1"), shelved("2", name="m")])

    taken = shelf.take_if(lambda item: item.hint.name == "m")

    assert [item.hint.run_id for item in taken] == ["2"]
    assert picked(shelf, 9) == ["1"]
